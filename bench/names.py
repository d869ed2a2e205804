"""The share of names, typed exactly or nearly, whose thing is the first hit.

    python -m bench.names WORKSPACE [--retriever NAME …] [--queries FILE …]

Up to 150 of each kind: titles of statements and documents, labels (as they are, and in words), printed numbers
(`theorem 4.2`, `4.2`), authors (and their surnames), ids and codes of locations (as they are, in small letters, with
other signs or none, with a word beside). A hit counts if it has what was typed: a log if it reports about the location,
about what is below it, or names its code. `--queries` counts how many queries of such files (`queries.jsonl`) are taken
for names.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from lemmata.core.types import Passage
from lemmata.core.words import fold, is_author
from lemmata.corpus.corpus import Corpus
from lemmata.plant.hierarchy import below, build_tree
from lemmata.plant.names import TITLE_CODE, codes_of
from lemmata.search.retriever import Retriever

_MOST = 150
_LONGEST = 100  # characters of a name that somebody types
_BESIDE = ("{} leak", "{} undicht", "leak at {}", "{} Reparatur")

IsRight = Callable[[Passage], bool]
Typed = Iterator[tuple[str, str, IsRight]]  # what kind of name, what is typed, whether a hit is it


def sample(names: Iterable[str]) -> list[str]:
    distinct = sorted({name for name in names if 0 < len(name) <= _LONGEST})
    return random.Random(1).sample(distinct, min(_MOST, len(distinct)))


def titles(corpus: Corpus) -> Typed:
    held = corpus.table("title", "kind")
    for name in sample(title for title, kind in held if kind not in ("chunk", "part")):
        yield "titles of statements", name, partial(_has, name, lambda hit: hit.title)
    title_of = {document.id: document.title for document in corpus.documents() if document.kind != "location"}
    for name in sample(title_of.values()):
        yield "titles of documents", name, partial(_has, name, lambda hit: title_of[hit.document])


def _has(name: str, part: Callable[[Passage], str], hit: Passage) -> bool:
    return fold(part(hit)) == fold(name)


def authors(corpus: Corpus) -> Typed:
    of_document = {document.id: document.authors for document in corpus.documents()}

    def is_by(typed: str, hit: Passage) -> bool:
        return any(is_author(typed, each) for each in of_document[hit.document])

    for name in sample(corpus.authors()):
        surname = (re.findall(r"[^\W_]+", name) or [""])[0 if "," in name else -1]
        for what, typed in (("authors", name), ("surnames", surname)):
            yield what, typed, partial(is_by, typed)


def numbers(corpus: Corpus) -> Typed:
    for name in sample(f"{passage.kind} {passage.number}" for passage in corpus if passage.number):
        number = name.rpartition(" ")[2]
        yield "numbers", name, partial(_has, name, lambda hit: f"{hit.kind} {hit.number}")
        if "." in number:
            yield "numbers alone", number, partial(_has, number, lambda hit: hit.number)


def ids(corpus: Corpus) -> Typed:
    for name in sample(name for name, kind in corpus.table("id", "kind") if kind != "part"):
        is_it = partial(_has, name, lambda hit: hit.id)
        yield "ids", name, is_it
        label = name.partition("#")[2]
        if re.fullmatch(r"[A-Z]+\d*[\W_]?\d+", name):
            for typed in (name.lower(), re.sub(r"[\W_]", "", name), re.sub(r"[\W_]", " ", name)):
                yield "ids otherwise", typed, is_it
        elif ":" in label:
            yield "labels", label, is_it
            yield "labels in words", re.sub(r"[\W_]+", " ", label), is_it


def codes(corpus: Corpus) -> Typed:
    tree = build_tree(corpus.documents(kind="location", links=True))
    reports: dict[int, set[str]] = {}
    for log, target in corpus.linked("reports_about"):
        if target in tree.rows:
            reports.setdefault(tree.rows[target], set()).add(log)
    texts = {passage.id: passage.text for passage in corpus} if reports else {}
    rows = {
        code: row for row in range(len(tree.ids)) for code in (tree.codes[row], *TITLE_CODE.findall(tree.titles[row]))
    }
    for code in sample(rows):
        logs = {log for row in below(tree, rows[code], sorted(reports)) for log in reports[row]}
        runs = [re.findall(r"[^\W\d_]+|\d+", each) for each in (code, *codes_of(tree, rows[code]))]
        every = "|".join(r"[\W_]{0,2}".join(each) for each in runs)
        written = re.compile(rf"(?<![^\W_])(?:{every})(?!\d|[^\W_]\b)", re.I)
        logs |= {log for log, text in texts.items() if written.search(text)}
        if not logs or not any(map(str.isdigit, code)):
            continue
        parts = re.findall(r"[^\W\d_]+|\d+", code)
        forms = {"codes": [code], "codes in small letters": [code.lower()], "codes with a word": []}
        if len(parts) == 2:
            forms["codes with other signs"] = [sign.join(parts) for sign in ("-", " ", "_", "")]
        else:
            forms["codes with other signs"] = [re.sub(r"[\W_]", sign, code) for sign in (" ", "_", ".", "")]
        forms["codes with a word"] = [beside.format(code) for beside in _BESIDE]
        for what, typed in forms.items():
            for each in typed:
                yield what, each, partial(_is_of, logs)


def _is_of(logs: set[str], hit: Passage) -> bool:
    return hit.id in logs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--retriever", nargs="+", default=["auto"])
    parser.add_argument("--queries", nargs="+", type=Path, default=[], metavar="FILE")
    parser.add_argument("--wrong", action="store_true", help="print what is not found")
    options = parser.parse_args()
    with Retriever.open(options.workspace) as searcher:
        for file in options.queries:
            queries = [json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()]
            taken = [text for text in queries if searcher.named(searcher.read_query(text).text)]
            print(f"{file}: {len(taken)} of {len(queries)} queries are taken for names", *taken[:5], sep="\n    ")
        for retriever in options.retriever:
            right: dict[str, list[bool]] = {}
            for kind in (titles, authors, numbers, ids, codes):
                for what, name, is_right in kind(searcher.corpus):
                    hits = searcher.search(name, 1, retriever=retriever)
                    first = hits[0].passage if hits else None
                    right.setdefault(what, []).append(bool(first and is_right(first)))
                    if options.wrong and not right[what][-1]:
                        print(f"    {what}: {name!r} finds {first.id if first else 'nothing'}")
            for what, values in right.items():
                print(f"{retriever}: {what}: {sum(values)} of {len(values)} ({sum(values) / len(values):.3f})")


if __name__ == "__main__":
    main()
