"""LaTeX notes that refer to each other in every way, and random edits of them.

Few labels, titles and names, so that they clash: what a reference means changes with every edit elsewhere. A large
number of notes is divided into families, each with labels, titles and names of its own.
"""

from __future__ import annotations

import random
from pathlib import Path

FOLDERS = ("", "sub/", "sub/deep/")
NAMES = ("sets", "rings", "a", "a-b", "notes.v2", "old")
LABELS = ("x", "y", "b-x", "union", "thm:main")
TITLES = ("On the lattices of trees", "Rings without a unit", "Sheaves on finite sets", "Short")
WORDS = "lattice tree ring sheaf module bound finite open dual chain order rank".split()


def statement(draw: random.Random, family: str = "") -> str:
    """A theorem with references: by label, by the name or path of a document, by a prefix, to the literature."""
    label = draw.choice(LABELS) + family
    meant = draw.choice(LABELS) + family
    name = draw.choice(NAMES) + family
    refs = [
        meant,
        f"{name}-{meant}",
        f"{name}:{meant}",
        f"sub/{name}.{meant}",
        f"../{name}_{meant}",
        *[f"S-{meant}"] * 2,
    ]
    said = " ".join(draw.choices(WORDS, k=6))
    return (
        f"\\begin{{theorem}}\\label{{{label}}}\nEvery {said} is bounded, see Theorem \\ref{{{draw.choice(refs)}}}"
        f" and \\cite{{{draw.choice('pq')}}}.\n\\end{{theorem}}\n"
        f"\\begin{{proof}}\nBy \\ref{{{draw.choice(refs)}}}.\n\\end{{proof}}\n"
    )


def paper(draw: random.Random, families: int = 1) -> str:
    family = _tag(draw, families)
    prefix = f"\\externaldocument[S-]{{{draw.choice(NAMES)}{family}}}\n" if draw.random() < 0.6 else ""
    cited = draw.choice(TITLES) + family
    arxiv = f" arXiv:2001.0000{draw.randrange(3)}" if draw.random() < 0.3 else ""
    return (
        "\\documentclass{article}\n\\newtheorem{theorem}{Theorem}\n\\usepackage{xr}\n"
        f"{prefix}\\title{{{draw.choice(TITLES)}{family}}}\n\\begin{{document}}\n\\section{{{draw.choice(WORDS)}}}\n"
        + "".join(statement(draw, family) for _ in range(draw.randrange(1, 4)))
        + f"\\begin{{thebibliography}}{{2}}\n\\bibitem{{p}} A. Author, \\emph{{{cited}}}, 2001.{arxiv}\n"
        "\\bibitem{q} B. Author, \\emph{Something that is nowhere}, 2002.\n\\end{thebibliography}\n\\end{document}\n"
    )


def _tag(draw: random.Random, families: int) -> str:
    number = draw.randrange(families) if families > 1 else 0
    return f"-{number}" if number else ""


def edit(
    draw: random.Random, folder: Path, files: list[Path], names: int = 2, least: int = 5, families: int = 1
) -> str:
    """Add, change, rename, delete, split or merge documents, at random; says what was done.

    `files` are those below the folder, and are kept up to date; a new one gets one of so many `names` of its kind. With
    less than the `least` number of files, one is added.
    """
    new = folder / f"{draw.choice(FOLDERS)}{draw.choice(NAMES)}{_tag(draw, names)}.tex"
    new.parent.mkdir(parents=True, exist_ok=True)
    what = draw.choice(("add", "change", "rename", "delete", "split", "merge")) if len(files) >= least else "add"
    if new.exists() and what in ("add", "rename", "split"):
        what = "change"
    one, other = draw.sample(files, 2) if len(files) > 1 else (new, new)
    if what == "add":
        new.write_text(paper(draw, families), "utf-8")
    elif what == "change":
        one.write_text(
            one.read_text("utf-8").replace("bounded", "small") if draw.random() < 0.3 else paper(draw, families),
            "utf-8",
        )
    elif what == "rename":
        one.rename(new)
    elif what == "delete":
        one.unlink()
    elif what == "split":  # the first statement moves to a new document
        before, statement, after = _split(one.read_text("utf-8"), first=True)
        one.write_text(f"{before}Nothing more.\n{after}", "utf-8")
        new.write_text(paper(draw, families).replace("\\begin{theorem}", f"{statement}\\begin{{theorem}}", 1), "utf-8")
    elif what == "merge":
        _, statements, _ = _split(other.read_text("utf-8"), first=False)
        before, old, after = _split(one.read_text("utf-8"), first=False)
        one.write_text(before + old + statements + after, "utf-8")
        other.unlink()
    if what in ("rename", "delete", "merge"):
        files.remove(other if what == "merge" else one)
    if what in ("add", "rename", "split"):
        files.append(new)
    return what


def _split(text: str, *, first: bool) -> tuple[str, str, str]:
    """What stands before, in and after the first statement of a document with its proof, or all of them."""
    end_mark = "\\end{proof}\n"
    if end_mark not in text:
        before, mark, after = text.partition("\\begin{thebibliography}")
        return before, "", mark + after
    begin = text.index("\\begin{theorem}")
    end = (text.index(end_mark) if first else text.rindex(end_mark)) + len(end_mark)
    return text[:begin], text[begin:end], text[end:]
