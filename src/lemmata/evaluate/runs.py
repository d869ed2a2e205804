"""Runs and judgments on disk, in the formats of TREC and BEIR; knows ids, no rows.

A run is query: {passage: score} and judgments are query: {passage: grade}. A TREC run has six columns
(`query Q0 passage rank score tag`), TREC judgments have four (`query 0 passage grade`), both parted by blanks
and without a header. Ids are therefore refused where they hold blanks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from lemmata.errors import InputError

__all__ = ["read_run", "read_trec_qrels", "write_beir", "write_run", "write_trec_qrels"]

Value = TypeVar("Value", int, float)


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number from 1 and columns of each line that is not empty."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, 1):
                if cells := line.split():
                    yield number, cells
    except OSError as error:
        raise InputError(f"can not be read: {error.strerror}", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", file=str(path)) from error


def _read(path: Path, columns: str, number: Callable[[str], Value], at: int) -> dict[str, dict[str, Value]]:
    """Query, passage and the number in column `at` of every line; every passage once per query."""
    found: dict[str, dict[str, Value]] = {}
    wanted = len(columns.split())
    for line, cells in _lines(path):
        if len(cells) != wanted:
            cause = f"a line needs {wanted} columns ({columns}), this one has {len(cells)}"
            raise InputError(cause, file=str(path), line=line)
        try:
            value = number(cells[at])
        except ValueError as error:
            cause = f"{cells[at]!r} is no {columns.split()[at]}"
            raise InputError(cause, file=str(path), line=line) from error
        passages = found.setdefault(cells[0], {})
        if cells[2] in passages:
            cause = f"the passage {cells[2]!r} was there before for the query {cells[0]!r}"
            raise InputError(cause, file=str(path), line=line)
        passages[cells[2]] = value
    return found


def _score(text: str) -> float:
    score = float(text)
    if math.isnan(score):
        raise ValueError(text)
    return score


def read_run(path: Path) -> dict[str, dict[str, float]]:
    """A TREC run, each query's passages by falling score; equal scores keep the order of the file.

    The rank column is not used, as trec_eval does not use it.
    """
    run = _read(path, "query Q0 passage rank score tag", _score, 4)
    return {query: dict(sorted(scores.items(), key=lambda one: -one[1])) for query, scores in run.items()}


def read_trec_qrels(path: Path) -> dict[str, dict[str, int]]:
    """TREC judgments as query: {passage: grade}."""
    return _read(path, "query iteration passage grade", int, 3)


def _word(text: str, what: str) -> str:
    """An id that can stand in a table parted by blanks."""
    if not text or text.split() != [text]:
        raise InputError(f"the {what} {text!r} is empty or holds blanks, which this format can not")
    return text


def _write(path: Path, lines: Iterable[str]) -> None:
    """Lines under a temporary name that then takes the place of the old file: never half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{line}\n" for line in lines)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_run(path: Path, run: Mapping[str, Mapping[str, float]], *, tag: str = "lemmata") -> None:
    """A TREC run; each query's passages by falling score, ranks from 1, scores so that they read back equal."""

    def lines() -> Iterator[str]:
        for query, scores in run.items():
            ordered = sorted(scores.items(), key=lambda one: -one[1])
            for rank, (passage, score) in enumerate(ordered, 1):
                yield f"{_word(query, 'query')} Q0 {_word(passage, 'passage')} {rank} {float(score)!r} {name}"

    name = _word(tag, "tag")
    _write(path, lines())


def write_trec_qrels(path: Path, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """TREC judgments."""
    _write(
        path,
        (
            f"{_word(query, 'query')} 0 {_word(passage, 'passage')} {int(grade)}"
            for query, grades in qrels.items()
            for passage, grade in grades.items()
        ),
    )


def write_beir(
    folder: Path,
    corpus: Iterable[tuple[str, str, str]],
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    *,
    split: str = "test",
) -> None:
    """A BEIR folder: `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`; corpus: id, title and text, streamed."""
    _write(
        folder / "corpus.jsonl",
        (
            json.dumps({"_id": identity, "title": title, "text": text, "metadata": {}}, ensure_ascii=False)
            for identity, title, text in corpus
        ),
    )
    _write(
        folder / "queries.jsonl",
        (
            json.dumps({"_id": identity, "text": text, "metadata": {}}, ensure_ascii=False)
            for identity, text in queries.items()
        ),
    )
    judgments = (
        f"{_cell(query)}\t{_cell(passage)}\t{int(grade)}"
        for query, grades in qrels.items()
        for passage, grade in grades.items()
    )
    _write(folder / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore", *judgments])


def _cell(text: str) -> str:
    """An id that can stand in a table parted by tabs."""
    if not text or "\t" in text or len(text.splitlines()) != 1:
        raise InputError(f"the id {text!r} is empty or holds a tab or a new line, which this format can not")
    return text
