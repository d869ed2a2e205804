"""After any edits of its sources a corpus equals one that is read anew: texts, links, notes, scores."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from bench.random_edits import WORDS, edit

from lemmata.corpus.corpus import Corpus
from lemmata.ingest import relink
from lemmata.project import Project


def content(project: Project) -> dict[str, Any]:
    corpus = Corpus(project)
    try:
        with project.retriever() as retriever:
            found = [retriever.search(word, k=10, retriever="lexical") for word in WORDS]
        return {
            "passages": list(corpus),
            "documents": list(corpus.documents(links=True)),
            "bibliography": list(corpus.bibliography_records()),
            "skips": corpus.skips(),
            "counts": corpus.counts(),
            "totals": corpus.totals(),
            "contents": corpus.hashes().tolist(),
            "headed": corpus.hashes(with_headings=True).tolist(),
            "hits": [[(hit.id, hit.score) for hit in hits] for hits in found],
        }
    finally:
        corpus.close()


@pytest.mark.parametrize("seed", range(2))
def test_a_corpus_after_random_edits_equals_one_that_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(relink, "MOST_CHANGED", 1000)  # in a small corpus one document is much
    draw = random.Random(seed)
    folder = tmp_path / "papers"
    folder.mkdir()
    files: list[Path] = []
    for _ in range(12):
        edit(draw, folder, files)
    project = Project.init(tmp_path / "w")
    project.ingest([folder], workers=1)
    project.index(dense=False)
    for number in range(12):
        done = [edit(draw, folder, files) for _ in range(draw.randrange(1, 3))]
        project.ingest([folder], workers=1)
        project.index(dense=False)
        if number % 3 and number != 11:
            continue
        shutil.rmtree(tmp_path / "again", ignore_errors=True)
        again = Project.init(tmp_path / "again")
        again.ingest([folder], workers=1)
        again.index(dense=False)
        mine, anew = content(project), content(again)
        for name in anew:
            assert mine[name] == anew[name], (name, number, done)
