r"""Statements, titles, labels, proofs, links and bibliography: found by lemmata, and counted by regular expressions.

    python -m bench.latex_counts PATH… [--json OUT] [--sample N]
    python -m bench.latex_counts --generate FOLDER

A path is a folder or an archive of LaTeX sources. The counter below knows nothing of `lemmata.latex`: it takes the
main files from the documents that were read, follows their `\input`s, strips comments and counts what the patterns
match. A second table counts the damage in what was read: drawings and commands left in texts, layout taken for a
statement, characters that were cut, links without a target; and what else a book has: printed numbers, chapters,
solutions, characters, references through macros of its own. `--generate` writes a book of definitions in wrapped
tcolorboxes, the same book without its preamble, and the counts that both were written with.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import posixpath
import re
import sqlite3
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

MEASURES = ("statements", "titles", "labels", "proofs", "links", "bibliography")
CONTENT = ("numbers", "chapters", "solutions", "characters")
Counts = dict[str, Counter[str]]  # by measure: how often each item occurs

# ---------------------------------------------------------------- counted by regular expressions

USUAL = (
    "theorem thm lemma lem proposition prop corollary cor definition defn remark rem remarks example exercise claim "
    "fact conjecture situation question problem notation observation restatable"
).split()
COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*")
HIDDEN = re.compile(r"\\begin\{(verbatim|comment|lstlisting)\}.*?\\end\{\1\}|\\iffalse\b.*?\\fi\b", re.S)
DEFINITION = re.compile(r"\\(?:re)?newcommand\*?\{?\\\w+\}?(?:\[\d\])?\{[^{}\n]*\}|\\def\\\w+[^{\n]{0,20}\{[^{}\n]*\}")
DECLARED = re.compile(
    r"\\(?:sp)?newtheorem\*?\s*\{([\w*-]+)\}|\\(?:declaretheorem|newmdtheoremenv)(?:\[[^\]]*\])?\s*\{([\w*-]+)\}"
)
BOXED = re.compile(r"\\newtcbtheorem(?:\[[^\]]*\])?\{(\w+)\}\{[^{}]*\}\{(?:[^{}]|\{[^{}]*\})*\}\{(\w*)\}")
WRAPPED = re.compile(
    r"\\newenvironment\{([\w*-]+)\}\s*(?:\[1\]\[\]|\[(\d)\])?\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
)
INPUT = re.compile(r"\\(?:input|include|subfile|(?:sub)?import\s*\{([^{}]*)\})\s*\{\s*([^{}]+?)\s*\}")
INCLUDING = re.compile(
    r"\\newcommand\*?\{?\\(\w+)\}?\[(\d)\]\s*"
    r"\{((?:[^{}]|\{[^{}]*\})*\\(?:input|include)\{[^{}]*#[^{}]*\}[^{}]*)\}"
)
REFERENCE = re.compile(
    r"\\(?:[cC]ref|autoref|eqref|nameref|vref|pageref|hyperref|ref)\*?\s*(?:\{([^{}]*)\}|\[([^\]]*)\]\s*\{)"
)
PLANETMATH = re.compile(r"\\PMlinkname\s*\{(?:[^{}]|\{[^{}]*\})*\}\s*\{([^{}]*)\}")
CITATION = re.compile(r"\\(?:no)?[cC]ite\w*\*?\s*(?:\[[^\]]*\]\s*){0,2}\{([^{}]*)\}")
LABEL = re.compile(r"\\label\s*\{([^{}]*)\}")
GROUP = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
REFERRING = re.compile(  # a macro of the book that refers to what it is given
    r"\\(?:(?:re)?newcommand|providecommand|NewDocumentCommand|DeclareDocumentCommand)\*?\s*\{?\\([a-zA-Z]+)\}?[^{}\n]*"
    r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*?\\(?:[cC]|auto|eq|name|v)?ref\*?\s*\{[^{}]*#"
)
KEY = re.compile(r"(?m)^\s*@(?!string|comment|preamble)\w+\s*\{\s*([^\s,]+)", re.I)
ITEM = re.compile(r"\\bibitem\s*(?:\[(?:[^\[\]]|\{[^{}]*\}|\[[^\]]*\])*\])?\s*\{([^{}#]+)\}|\\entry\{([^{}]+)\}\{\w+\}")


def sources(path: Path) -> dict[str, str]:
    """All text files below a folder or inside an archive, by name."""
    data: dict[str, bytes] = {}
    if path.is_dir():
        files = (file for file in path.rglob("*") if file.is_file() and file.suffix in (".tex", ".bib", ".bbl", ".sty"))
        data = {file.relative_to(path).as_posix(): file.read_bytes() for file in files}
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            data = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    else:
        with tarfile.open(path) as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                if file is not None:
                    data[posixpath.normpath(member.name)] = file.read()
    texts = {}
    for name, content in data.items():
        try:
            texts[name] = content.decode()
        except UnicodeDecodeError:
            texts[name] = content.decode("cp1252", "replace")
    return texts


def plain(text: str) -> str:
    """A text without comments and hidden parts."""
    return HIDDEN.sub("", COMMENT.sub(r"\1", text.replace("\r\n", "\n")))


def including_macros(texts: dict[str, str]) -> dict[str, tuple[int, str]]:
    """Macros that include the files that they are given: number of arguments and meaning."""
    found = (each for text in texts.values() for each in INCLUDING.findall(plain(text)))
    return {name: (int(count), meaning) for name, count, meaning in found}


def joined(
    name: str, texts: dict[str, str], root: str, macros: dict[str, tuple[int, str]], seen: tuple[str, ...] = ()
) -> str:
    """A file with all that it includes, without comments and hidden parts."""
    text = plain(texts[name])
    if name == root:  # such macros are called in the main file
        for macro, (count, meaning) in macros.items():
            call = re.compile(r"\\" + macro + r"\s*" + r"\{([^{}]*)\}\s*" * count)
            text = call.sub(partial(_filled, meaning), text)

    def included(match: re.Match[str]) -> str:
        for folder in (posixpath.dirname(root), posixpath.dirname(name), ""):
            for suffix in (".tex", ""):
                path = posixpath.normpath(posixpath.join(folder, match[1] or "", match[2])) + suffix
                if path in texts and path not in seen:
                    return joined(path, texts, root, macros, (*seen, name))
        return ""

    return INPUT.sub(included, text)


def _filled(meaning: str, call: re.Match[str]) -> str:
    return re.sub(r"#(\d)", lambda parameter: call[int(parameter[1])], meaning)


def environments(text: str) -> tuple[set[str], dict[str, str], dict[str, int]]:
    """The names of the statements, the label prefixes of tcolorboxes, the number of arguments of their wrappers."""
    boxes = dict(BOXED.findall(text))
    names = {*USUAL, *boxes, *(a or b for a, b in DECLARED.findall(text))}
    names |= {name + "*" for name in USUAL}
    wrappers: dict[str, int] = {}
    for name, count, opening in WRAPPED.findall(text):
        if "\\refstepcounter" in opening or any(f"\\begin{{{inner}}}" in opening for inner in names):
            names.add(name)
            wrappers[name] = int(count or 0)
    return names - {"proof"}, boxes, wrappers


def count_paper(main: str, texts: dict[str, str], macros: dict[str, tuple[int, str]]) -> Iterator[tuple[str, str]]:
    """Each item of a paper with its measure."""
    whole = joined(main, texts, main, macros)
    if "\\documentclass" not in whole:  # it may stand in a format that was dumped before
        formats = [
            name for name, text in texts.items() if "\\documentclass" in text and "{document}" not in plain(text)
        ]
        whole = "".join(joined(name, texts, name, macros) for name in formats if name.endswith(".tex")) + whole
    before, _, body = whole.partition("\\begin{document}")
    head, body = (before, body) if body else ("", before)
    body = DEFINITION.sub("", body.partition("\\end{document}")[0])
    names, boxes, wrappers = environments(whole)
    if "\\begin{document}" not in whole or not re.search(r"\\newtcbtheorem", whole):
        # Without its preamble, an environment with two arguments is recognised by them.
        wrappers |= dict.fromkeys(re.findall(r"\\begin\{(\w+)\}\{[^{}]*\}\{[\w:-]+\}", body), 2)
        wrappers = {name: count for name, count in wrappers.items() if name in names}
    body = WRAPPED.sub("", body)
    begin = re.compile(r"\\begin\s*\{(" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + r"|proof)\}")
    owner = ("", "", set[str](), set[str](), 0)  # environment, own labels, references, of the proof, end
    labels: set[str] = set()
    last_proof = -1

    def links() -> Iterator[tuple[str, str]]:
        for relation, keys in (("refers_to", owner[2]), ("proof_uses", owner[3])):
            yield from (("links", relation) for key in keys if key not in labels)

    for match in begin.finditer(body):
        name = match[1]
        close = body.find(f"\\end{{{name}}}", match.end())
        if close < 0:
            continue
        content = body[match.end() : close]
        if name == "proof":
            if not owner[0]:
                continue  # a proof without a statement before it proves another paper's
            if body[last_proof : match.start()].strip() or last_proof < 0:
                yield "proofs", "proof"
            last_proof = close + len("\\end{proof}")
            owner[3].update(_references(content))
            labels.update(LABEL.findall(content))
            continue
        yield from links()
        yield "statements", name
        arguments = re.match(r"\s*(?:\[((?:[^\[\]{}]|\{[^{}]*\})*)\])?\s*", content)
        assert arguments is not None
        title = arguments[1] or ""
        labels = set(LABEL.findall(content))
        if name in boxes or wrappers.get(name):
            groups = re.match(rf"{GROUP}\s*(?:{GROUP})?", content[arguments.end() :])
            title = groups[1] if groups else ""
            label = groups[2] if groups and groups[2] else ""
            labels |= {f"{boxes[name]}:{label}" if boxes.get(name) else label} if label else set()
            content = content[arguments.end() + (groups.end() if groups else 0) :]
        if re.search(r"\w", re.sub(r"\\(?:cite|label|ref)\w*\s*(?:\[[^\]]*\])?\{[^{}]*\}", "", title)):
            yield "titles", name
        owner = (name, "", _references(content), set(), close)
    yield from links()
    if macros_of_book := set(REFERRING.findall(whole)):
        calls = re.compile(r"\\(" + "|".join(map(re.escape, macros_of_book)) + r")(?![a-zA-Z])\*?\s*[\[{]")
        yield from (("macros", name) for name in calls.findall(body))
    argument_labels = set()
    for name in {*boxes, *(name for name, count in wrappers.items() if count > 1)}:
        pattern = rf"\\begin\{{{re.escape(name)}\}}\s*(?:\[[^\]]*\])?\s*{GROUP}\s*{GROUP}"
        prefix = boxes.get(name, "")
        argument_labels |= {f"{prefix}:{m[2]}" if prefix else m[2] for m in re.finditer(pattern, body) if m[2]}
    yield from (("labels", " ".join(name.split())) for name in {*LABEL.findall(body), *argument_labels} if name.strip())
    yield from (("bibliography", key) for key in _bibliography(main, whole, head + body, texts))


def _references(text: str) -> set[str]:
    found = [key for groups in REFERENCE.findall(text) for part in groups for key in part.split(",")]
    found += ("name:" + name for name in PLANETMATH.findall(text))
    return {" ".join(key.split()) for key in found} - {""}


def _bibliography(main: str, whole: str, text: str, texts: dict[str, str]) -> set[str]:
    cited = {key.strip() for keys in CITATION.findall(text) for key in keys.split(",")}
    bbl = texts.get(posixpath.splitext(main)[0] + ".bbl", "")
    keys = {" ".join((a or b).split()) for a, b in ITEM.findall(COMMENT.sub(r"\1", text + "\n" + bbl))}
    names = re.findall(r"\\(?:bibliography|addbibresource(?:\[[^\]]*\])?)\s*\{([^{}]*)\}", whole)
    files = [name.strip().removesuffix(".bib") + ".bib" for part in names for name in part.split(",")]
    files = [posixpath.normpath(posixpath.join(posixpath.dirname(main), file)) for file in files]
    if not keys and not any(file in texts for file in files):
        files = [name for name in texts if name.endswith(".bib")]
    for file in files:
        entries = set(KEY.findall(texts.get(file, "")))
        keys |= entries if "*" in cited else entries & cited
    return keys


# ---------------------------------------------------------------- damage

FORMULA = re.compile(r"(?<!\\)\$(?:[^$\\]|\\.)*\$", re.S)
DRAWING = re.compile(
    r"\bnode\s*\[|\\draw|\\ps[a-z]+|\bdraw\(|\[(?:-+>+|<+-+|thick|dashed|dotted|fill|draw)[^\]\n]*\]\s*\("
    r"|\(\s*-?[\d.]+\s*,\s*-?[\d.]+\s*\)\s*(?:(?:--|–|—|\.\.)\s*\(|(?:circle|rectangle|ellipse|arc|grid|node)\b)"
)
LEFTOVER = re.compile(r"\\[a-zA-Z]+|=\s*-?\d*\.?\d+\s?(?:pt|cm|mm|em|ex|in)\b|#[1-9]")
LAYOUT = frozenset(
    "samepage minipage multicols multicols* spacing center adjustwidth flushleft flushright quote quotation wrapfigure "
    "figure table tabular tikzpicture picture pspicture asy scope small footnotesize singlespace onehalfspace mdframed "
    "framed shaded tcolorbox columns column frame titlepage list itemize enumerate".split()
)
DAMAGE = ("passages", "drawings", "leftovers", "layout", "cut", "links", "unresolved")


def damage(texts: Iterator[tuple[str, str]]) -> Counter[str]:
    """How many passages (kind and text) there are, how many are layout, and how many hold a drawing or a command."""
    counts: Counter[str] = Counter()
    for kind, text in texts:
        words = FORMULA.sub(" ", text)
        counts["passages"] += 1
        counts["characters"] += len(text) - 1
        counts["drawings"] += DRAWING.search(words) is not None
        counts["leftovers"] += LEFTOVER.search(words) is not None
        counts["layout"] += kind in LAYOUT
    return counts


# ---------------------------------------------------------------- found by lemmata


def found(path: Path) -> tuple[Counts, list[str], int, Counter[str]]:
    """What lemmata finds, the main files that it reads, the number of self-links, and the damage."""
    from lemmata.project import Project

    counts: Counts = {measure: Counter() for measure in MEASURES}
    with tempfile.TemporaryDirectory() as folder:
        project = Project.init(Path(folder) / "workspace")
        project.ingest([path])
        with contextlib.closing(project.corpus) as corpus:
            papers = [document for document in corpus.documents() if document.kind == "paper"]
            mains = [document.file for document in papers]
            headings = (heading for paper in papers for heading in paper.metadata.get("contents", ()))
            harm: Counter[str] = Counter(chapters=sum(level <= 1 for level, _, _ in headings))
            own = 0
            for passage in corpus:
                if passage.kind in ("chunk", "abstract", "part"):
                    continue
                harm["numbers"] += bool(passage.metadata.get("number"))
                environment = passage.metadata["environment"]
                counts["statements"][environment] += 1
                counts["titles"][environment] += bool(passage.title)
                counts["proofs"]["proof"] += bool(passage.proof) and "solved" not in passage.metadata
                harm["solutions"] += "solved" in passage.metadata
                for link in passage.links:
                    counts["links"][link.relation] += link.relation in ("refers_to", "proof_uses")
                    own += link.target == passage.id
        with contextlib.closing(sqlite3.connect(project.corpus_folder / "corpus.sqlite")) as connection:
            labels = connection.execute(
                "SELECT name FROM labels WHERE name NOT LIKE 'name:%' AND name NOT LIKE 'number:%'"
            )
            counts["labels"].update(name for (name,) in labels)
            counts["bibliography"].update(key for (key,) in connection.execute("SELECT key FROM bibliography"))
            texts = "SELECT kind, text || ' ' || proof FROM passages WHERE kind != 'part'"
            harm += damage(connection.execute(texts))
            links = "SELECT count(*), count(*) - count(target) FROM links WHERE relation IN ('refers_to', 'proof_uses')"
            harm["links"], harm["unresolved"] = connection.execute(links).fetchone()
            cut = "SELECT count(*) FROM skips WHERE cause LIKE '%cut at%' OR cause LIKE '%characters%'"
            (harm["cut"],) = connection.execute(cut).fetchone()
    return counts, mains, own, harm


# ---------------------------------------------------------------- comparison


def compare(path: Path, name: str) -> dict[str, Any]:
    """Both counts of one path, and their differences by kind."""
    begin = time.perf_counter()
    ours, mains, own, harm = found(path)
    seconds = time.perf_counter() - begin
    texts = sources(path)
    counted: Counts = {measure: Counter() for measure in (*MEASURES, "macros")}
    macros = including_macros(texts)
    for main in mains:
        for measure, item in count_paper(main_file(main.removeprefix(f"{path.name}/"), texts), texts, macros):
            counted[measure][item] += 1
    known = path / "expected.json"
    result: dict[str, Any] = {"source": name, "documents": len(mains), "self_links": own, "seconds": round(seconds, 1)}
    result["damage"] = {name: harm[name] for name in DAMAGE}
    result["content"] = {name: harm[name] for name in CONTENT}
    result["macros"] = dict(counted["macros"].most_common())
    result["found"] = {measure: ours[measure].total() for measure in MEASURES}
    result["counted"] = {measure: counted[measure].total() for measure in MEASURES}
    if path.is_dir() and known.is_file():
        result["written"] = json.loads(known.read_text())
    result["differences"] = {measure: _difference(ours[measure], counted[measure]) for measure in MEASURES}
    result["differences"] = {measure: items for measure, items in result["differences"].items() if items}
    return result


def main_file(main: str, texts: dict[str, str]) -> str:
    """The name of a main file among the sources; an error where it is not there, as nothing would be counted."""
    if main in texts:
        return main
    if found := [name for name in texts if name.endswith(f"/{main}")]:
        return found[0]
    raise FileNotFoundError(f"{main} is not among the {len(texts):,} sources: nothing can be counted")


def _difference(ours: Counter[str], counted: Counter[str]) -> dict[str, int]:
    """Found less counted, for the twelve items that differ most."""
    differing = {
        item: ours[item] - counted[item] for item in ours.keys() | counted.keys() if ours[item] != counted[item]
    }
    ranked = sorted(differing.items(), key=lambda pair: (-abs(pair[1]), pair[0]))
    return dict(ranked[:12]) | ({"…": len(ranked) - 12} if len(ranked) > 12 else {})


def table(results: list[dict[str, Any]]) -> str:
    lines = ["| source | documents | " + " | ".join(MEASURES) + " | self-links |", "|---" * (len(MEASURES) + 3) + "|"]
    for result in results:
        cells = [f"{result['found'][m]:,} / {result['counted'][m]:,}" for m in MEASURES]
        lines.append(f"| {result['source']} | {result['documents']:,} | {' | '.join(cells)} | {result['self_links']} |")
    lines += ["", "| source | " + " | ".join(DAMAGE) + " |", "|---" * (len(DAMAGE) + 1) + "|"]
    for result in (result for result in results if "damage" in result):
        lines.append(f"| {result['source']} | " + " | ".join(f"{result['damage'][name]:,}" for name in DAMAGE) + " |")
    lines += ["", "| source | " + " | ".join(CONTENT) + " | references by macros |", "|---" * (len(CONTENT) + 2) + "|"]
    for result in (result for result in results if "content" in result):
        cells = [f"{result['content'][name]:,}" for name in CONTENT]
        lines.append(f"| {result['source']} | {' | '.join(cells)} | {sum(result['macros'].values()):,} |")
    return "\n".join(lines)


# ---------------------------------------------------------------- a generated book

PREAMBLE = r"""\usepackage[most]{tcolorbox}
\newtcbtheorem[number within=chapter]{Theorem}{Theorem}{colback=blue!5, fonttitle=\bfseries}{thm}
\newenvironment{definition}[2]{\begin{Theorem}[label={#2}]{#1}{}}{\end{Theorem}}
\newenvironment{lemma}[2]{\begin{Theorem}[label={#2}]{#1}{}}{\end{Theorem}}
\newcommand{\cat}[1]{\mathcal{#1}}
"""


def generate(folder: Path, definitions: int = 817) -> None:
    """Write the book twice, with its preamble and without; every number in `expected.json` is counted while writing."""
    expected: Counter[str] = Counter()
    chapters: dict[str, list[str]] = {}
    for number in range(definitions):
        chapter = f"chapter{number // 50 + 1}"
        lines = chapters.setdefault(chapter, [])
        if not lines:
            lines.append(f"\\chapter{{\\label{{{chapter}}}Chapter of {chapter}}}")
            expected["labels"] += 1
        lines.append(
            f"\\begin{{definition}}{{Notion {number}}}{{def-{number}}}\nLet $\\cat{{C}}$ be a thing of sort {number}."
        )
        expected.update(statements=1, titles=1, labels=1)
        if number % 7 == 3:
            lines.append(f"It refines the notion of \\ref{{def-{number - 1}}}, unlike \\ref{{def-{number}}} itself.")
            expected["links"] += 1
        lines.append("\\end{definition}\n")
        if number % 3 == 0:
            lines.append(f"\\begin{{lemma}}{{}}{{lem-{number}}}\nEvery notion of sort {number} is nice.")
            lines.append(f"\\begin{{equation}}\\label{{eq-{number}}} x = {number} \\end{{equation}}\n\\end{{lemma}}\n")
            expected.update(statements=1, labels=2)
            lines.append(f"Some words come first. We now prove \\ref{{lem-{number}}}.\n")
            lines.append(
                f"\\begin{{proof}}\nWe show \\eqref{{eq-{number}}} of \\ref{{lem-{number}}} by \\ref{{def-{number}}},"
            )
            lines.append(f"see \\cite{{book{number % 90}}}.\n\\end{{proof}}\n")
            expected.update(proofs=1, links=1)
    items = "\n".join(
        f"\\bibitem{{book{n}}} A. Author, \\emph{{Volume {n} on notions}}, Press, 19{n:02d}." for n in range(100)
    )
    expected["bibliography"] = 100
    includes = "\n".join(f"\\include{{{chapter}}}" for chapter in chapters)
    main = (
        "\\documentclass{book}\n\\input{preamble}\n\\title{Notions\\footnote{Generated.}}\n\\begin{document}\n"
        f"{includes}\n\\begin{{thebibliography}}{{99}}\n{items}\n\\end{{thebibliography}}\n\\end{{document}}\n"
    )
    for name in ("book", "book-without-preamble"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        files = {"main.tex": main, **{f"{chapter}.tex": "\n".join(lines) for chapter, lines in chapters.items()}}
        files["expected.json"] = json.dumps({measure: expected[measure] for measure in MEASURES})
        if name == "book":
            files["preamble.tex"] = PREAMBLE
        for file, text in files.items():
            (folder / name / file).write_text(text)
    print(f"{folder}: {dict(expected)}")


def sample(path: Path, every: int, folder: Path) -> Path:
    """Every n-th file of an archive, unpacked into a folder."""
    texts = sources(path)
    for name in sorted(name for name in texts if name.endswith(".tex"))[::every]:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(texts[name].encode())
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--generate", type=Path, help="write the generated books into this folder")
    parser.add_argument("--every", type=int, default=1, help="read every n-th file only")
    parser.add_argument("--json", type=Path, help="add the results to this file")
    options = parser.parse_args()
    if options.generate:
        generate(options.generate)
    results = []
    for path in options.paths:
        name = path.name.partition(".tar")[0].removesuffix(".gz")
        with tempfile.TemporaryDirectory() as folder:
            chosen = sample(path, options.every, Path(folder)) if options.every > 1 else path
            result = compare(chosen, name + (f" (1 in {options.every})" if options.every > 1 else ""))
        results.append(result)
        print(json.dumps(result, ensure_ascii=False), flush=True)
    if options.json:
        older = json.loads(options.json.read_text()) if options.json.is_file() else []
        names = {result["source"] for result in results}
        results = [result for result in older if result["source"] not in names] + results
        buffer = io.StringIO()
        json.dump(results, buffer, ensure_ascii=False, indent=1)
        options.json.write_text(buffer.getvalue() + "\n")
    if results:
        print(table(results))


if __name__ == "__main__":
    main()
