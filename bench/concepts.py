r"""How many of the terms that authors marked became concepts, and a sample of concepts for judging.

    python bench/concepts.py WORKSPACE SOURCES…              # share of marked terms, counted in the LaTeX sources
    python bench/concepts.py WORKSPACE --first 100           # the first concepts, as the start page shows them
    python bench/concepts.py WORKSPACE --random 100 --seed 1 # tab-separated: name, passages, definition

Marked are the arguments of `\index`, of macros for new terms, and of emphasis in definitions, as plain regular
expressions find them; nothing of the reader under test is used. A term counts as found where a concept has the same
words, whatever their order and number.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from pathlib import Path

from lemmata import Project
from lemmata.graph.concepts.rank import rank_concepts
from lemmata.graph.store import concept_passages, open_graph

GROUP = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
EMPHASIS = re.compile(
    rf"\\(?:emph|textbf|textit|textsl)\s*{GROUP}|\{{\\(?:em|it|bf|sl)\b\s*((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}"
)
DEFINITION = re.compile(r"\\begin\{([Dd]ef[a-z]*|dfn)\*?\}.*?\\end\{\1\*?\}", re.DOTALL)
TERM_MACRO = re.compile(rf"\\(?:vocab|defn|dfn|define|term|termsub|newterm|defnterm)\s*{GROUP}")
INDEX = re.compile(rf"\\(?:index|indexdef)\s*{GROUP}")
COMMENT = re.compile(r"(?<!\\)%.*")


def words_of(term: str) -> frozenset[str]:
    """The words of a term without formulas, commands and plurals; empty where something else than words is left."""
    text = term.replace("\\/", "").replace("~", " ").replace("\\ ", " ")
    text = re.sub(r"\$\\?([A-Za-z]+)\$(?=-)", r"\1", text)
    text = re.sub(r"\\(?:emph|textbf|textit|textsc|em|it|bf)\b", "", text)
    text = re.sub(r"\\(?:[\"'`^~=.]\s*|[vHcuk](?=\{))\{?\\?([A-Za-z])\}?", r"\1", text)
    text = re.sub(r"['’]s?\b|\([^()]*\)", "", text)
    if re.search(r"[$\\_^=]", text):
        return frozenset()
    small = re.findall(r"[^\W_]+", text.lower().replace("ö", "o").replace("é", "e").replace("ü", "u"))
    words = (word[:-3] + "y" if word.endswith("ies") else re.sub(r"(?<=[^su])s$", "", word) for word in small)
    return frozenset(word for word in words if word not in {"a", "an", "the", "of"})


def marked(folder: Path) -> dict[frozenset[str], str]:
    """The words of each marked term below a folder, and the kind of its mark."""
    terms: dict[frozenset[str], str] = {}

    def add(kind: str, text: str) -> None:
        words = words_of(text)
        if words and len(words) <= 6 and any(len(word) > 2 for word in words):
            terms.setdefault(words, kind)

    for path in sorted(folder.rglob("*.tex")):
        source = COMMENT.sub("", path.read_text("utf-8", "replace"))
        source = re.sub(r"\\(?:re)?newcommand\*?\{?\\\w+.*", "", source)
        for passage in DEFINITION.finditer(source):
            for match in EMPHASIS.finditer(passage[0]):
                add("emphasis in a definition", match[1] or match[2] or "")
        for match in TERM_MACRO.finditer(source):
            add("macro", match[1])
        for match in INDEX.finditer(source):
            entry, _, form = match[1].partition("|")
            levels = [level.rpartition("@")[2] for level in entry.split("!")]
            if not form.startswith(")"):
                whole, part = levels[-2] if len(levels) > 1 else "", levels[-1]
                add("index", part if words_of(whole) <= words_of(part) else f"{whole} {part}")
    return terms


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("workspace")
    parser.add_argument("sources", nargs="*", type=Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--missing", action="store_true", help="list marked terms without a concept")
    options = parser.parse_args()
    stored = open_graph(Project(options.workspace))
    passages, _ = concept_passages(stored)
    ranked = rank_concepts(stored, passages)
    described = sum(bool(concept.description) for concept in ranked)
    print(f"# {len(ranked)} concepts, {described} with a definition")
    shown = ranked[: options.first]
    if options.random:
        shown = random.Random(options.seed).sample(ranked, min(options.random, len(ranked)))
    for concept in shown:
        print(concept.name, len(passages.get(concept.id, ())), concept.description, sep="\t")
    known = {words_of(name) for concept in ranked for name in (concept.name, *concept.aliases)}
    for folder in options.sources:
        terms = marked(folder)
        total, found = Counter(terms.values()), Counter(kind for words, kind in terms.items() if words in known)
        share = found.total() / max(1, total.total())
        print(f"{folder.name}: {found.total()} of {total.total()} marked terms, {share:.3f}")
        for kind, number in total.items():
            print(f"  {kind}: {found[kind]} of {number}")
        if options.missing:
            print(*sorted(" ".join(sorted(words)) for words in terms if words not in known), sep="\n")


if __name__ == "__main__":
    main()
