"""Make what lemmata-mini learns from: workspaces and training sets, with lemmata's own commands.

    python -m recipes.lemmata_mini.general PACKAGES/general WORK/general
    python -m recipes.lemmata_mini.science PACKAGES/science WORK/general/science.jsonl
    python -m recipes.lemmata_mini.make DATA WORK                      # workspaces and training sets
    python -m recipes.lemmata_mini.arrays DATA WORK WORK/arrays        # texts, pairs and tasks
    python -m recipes.lemmata_mini.audit WORK/arrays                   # training queries that repeat held-out ones
    python -m recipes.lemmata_mini.teachers PACKAGES WORK/models mini-before=FOLDER base-before=FOLDER
    python -m recipes.lemmata_mini.start WORK/arrays WORK/models       # what lemmata-mini begins as
    python -m recipes.lemmata_mini.distil …                            # see there: WORK/models/mini
    lemmata export-encoder WORK/models/mini OUT --precision int8 -w WORK/stacks     # as it is packaged

DATA holds the folders stacks, stacks-questions, planetmath, arxiv-math, arxiv-citations, scifact, mathlib, cisi,
cranfield and npl. Finished steps are skipped. Written queries and titles that are equal or nearly equal to a query of
validation or test are dropped, and listed.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def lemmata(*words: object) -> None:
    print("$ lemmata", *words, flush=True)
    subprocess.run([sys.executable, "-m", "lemmata", *map(str, words)], check=True)


def unpacked(data: Path, work: Path, name: str) -> Path:
    folder = work / "sources" / name
    if not folder.exists():
        part = folder.with_suffix(".part")
        with tarfile.open(data / name / f"{name}.tar.xz") as archive:
            archive.extractall(part, filter="data")
        part.rename(folder)
    return folder


def citations(data: Path, work: Path) -> Path:
    """Nodes and edges as passages with links."""
    out = work / "sources" / "citations.jsonl"
    if out.exists():
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(".part")
    cited = defaultdict(list)
    with lzma.open(data / "arxiv-citations" / "edges.tsv.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            source, target, *_ = line.rstrip("\n").split("\t")
            cited[source].append(target)
    with (
        lzma.open(data / "arxiv-citations" / "nodes.jsonl.xz", "rt", encoding="utf-8") as lines,
        part.open("w", encoding="utf-8") as stream,
    ):
        for line in lines:
            node = json.loads(line)
            stream.write(json.dumps({**node, "links": {"cites": cited[str(node["id"])]}}, ensure_ascii=False) + "\n")
    part.rename(out)
    return out


def is_newer(result: Path, *sources: Path) -> bool:
    """Whether a file exists and is newer than its sources."""
    return result.exists() and all(result.stat().st_mtime >= source.stat().st_mtime for source in sources)


def set_of(folder: Path, name: str) -> Path:
    return folder / "training" / name / "manifest.json"


def workspace(folder: Path, source: Path, config: Path | None = None, *, has_graph: bool = True) -> None:
    """Make and fill a workspace, unless that is done."""
    lemmata("init", folder)
    if config is not None:
        shutil.copy2(config, folder / "lemmata.toml")
    if is_newer(set_of(folder, "pairs"), source):
        return
    lemmata("ingest", source, "-w", folder)
    if has_graph:
        lemmata("graph", "build", "-w", folder)
    lemmata("split", "-w", folder)
    lemmata("mine", "pairs", "-w", folder)


def imported(folder: Path, file: Path, name: str) -> None:
    if not is_newer(set_of(folder, name), file):
        lemmata("mine", "import", file, "--name", name, "-w", folder)


ALIKE = 0.8  # share of the words of two queries that both have, from which on one repeats the other


def repeated(queries: Sequence[str], held_out: Sequence[str]) -> dict[int, int]:
    """By query that repeats a held-out one: the number of that one. Order, case and signs of the words do not count.

    Queries are too short for runs of words, by which lemmata compares passages.
    """
    words = [frozenset(re.findall(r"\w+", text.lower())) for text in queries]
    holders = defaultdict(list)
    for number, own in enumerate(words):
        for word in own:
            holders[word].append(number)
    twins: dict[int, int] = {}
    for number, text in enumerate(held_out):
        asked = frozenset(re.findall(r"\w+", text.lower()))
        rarest = sorted(asked, key=lambda word: (len(holders[word]), word))[: int((1 - ALIKE) * len(asked)) + 1]
        for other in {other for word in rarest for other in holders[word]}:  # two that are alike share one of these
            if len(asked & words[other]) >= ALIKE * len(asked | words[other]):
                twins.setdefault(other, number)
    return twins


def audited(written: Path, tables: Sequence[Path], out: Path) -> Path:
    """The written queries without those about an answer of a table, and those that repeat a query of one.

    Each dropped query is printed with the one that it repeats.
    """
    records = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    lines = [(table.name, line) for table in tables for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    answers = {line.split("\t")[1] for _, line in lines}
    about = sum(record["passage"] in answers for record in records)
    print(f"{written.name}: {about} of {len(records)} queries dropped: about an answer of validation or test")
    records = [record for record in records if record["passage"] not in answers]
    held_out = [(line.split("\t")[0], name) for name, line in lines]
    found = repeated([record["query"] for record in records], [text for text, _ in held_out])
    twins = {record: held_out[number] for record, number in found.items()}
    equal = sum(
        re.findall(r"\w+", records[record]["query"].lower()) == re.findall(r"\w+", text.lower())
        for record, (text, _) in twins.items()
    )
    print(f"{written.name}: {len(twins)} of {len(records)} queries dropped: {equal} equal, {len(twins) - equal} near")
    for record, (text, table) in sorted(twins.items()):
        print(f"  {records[record]['query']!r} repeats {text!r} of {table}")
    kept = [record for number, record in enumerate(records) if number not in twins]
    return written_if_new(out, kept)


def written_if_new(out: Path, records: Sequence[dict[str, str]]) -> Path:
    content = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    if not out.exists() or out.read_text(encoding="utf-8") != content:  # an equal file is not newer than its set
        out.parent.mkdir(parents=True, exist_ok=True)
        part = out.with_suffix(".part")
        part.write_text(content, encoding="utf-8")
        part.replace(out)
    return out


def general(file: Path, held_out: Sequence[Path], out: Path) -> Path:
    """Titles with their texts from outside the corpora, without titles that repeat a query of a table."""
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    queries = [line.split("\t")[0] for table in held_out for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    twins = repeated([record["title"] for record in records], queries)
    print(f"{file.name}: {len(twins)} of {len(records)} titles dropped: they repeat a query of validation or test")
    kept = [record for number, record in enumerate(records) if number not in twins]
    return written_if_new(out, kept)


def generated(data: Path, work: Path) -> None:
    """The questions and slogans that were generated for held-out passages, as tables: nothing is trained on them."""
    import numpy as np

    from lemmata.core.workspace import Workspace
    from lemmata.corpus.corpus import Corpus
    from lemmata.corpus.split import open_split

    layout = Workspace(work / "stacks")
    corpus = Corpus(layout)
    ids, split = corpus.ids(), open_split(layout, corpus.digest)
    corpus.close()
    part_of = {ids[row]: part for part in ("validation", "test") for row in np.flatnonzero(split.rows(part)).tolist()}
    tables = defaultdict(list)
    with lzma.open(data / "stacks-questions" / "questions.jsonl.xz", "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            if part := part_of.get(record["id"]):
                name = "stacks_generated" if part == "validation" else f"stacks_test_{record['style']}s"
                tables[name].append(f"{' '.join(record['text'].split())}\t{record['id']}\n")
    for name, rows in tables.items():
        (work / f"{name}.tsv").write_text("".join(["query\tid\n", *rows]), encoding="utf-8")


def phrases(data: Path, work: Path) -> Path:
    """The phrases of mathlib as a table: validation on mathematics that the model is not trained on."""
    with (data / "mathlib" / "queries.jsonl").open(encoding="utf-8") as lines:
        rows = [f"{' '.join(json.loads(line)['text'].split())}\t-\n" for line in lines]
    out = work / "mathlib_phrases.tsv"
    out.write_text("".join(["query\tid\n", *rows]), encoding="utf-8")
    return out


def unasked(work: Path) -> None:
    """Leave out the phrases of mathlib that a training pair has as its query: most are names of concepts."""
    import pyarrow.parquet as parquet

    from lemmata.corpus.leakage import normalise

    asked = {
        normalise(anchor)
        for file in sorted(work.glob("*/training/*/data.parquet"))
        for anchor in parquet.read_table(file, columns=["anchor"])["anchor"].to_pylist()
    }
    folder = work / "mathlib"
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        queries = {record["_id"]: record["text"] for record in map(json.loads, lines)}
    file = folder / "qrels" / "dev.tsv"
    header, *judgments = file.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in judgments if normalise(queries[line.split("\t")[0]]) not in asked]
    print(f"mathlib: {len(kept)} of {len(judgments)} judgments kept, the others are of queries that are trained on")
    file.write_text("".join([header, *kept]), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    arguments = parser.parse_args()
    data, work = arguments.data.resolve(), arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    shutil.copytree(data / "scifact", work / "scifact", dirs_exist_ok=True)
    for name in ("mathlib", "cisi"):  # they have one part only, which is for validation here
        shutil.copytree(data / name, work / name, dirs_exist_ok=True)
        (work / name / "qrels" / "test.tsv").rename(work / name / "qrels" / "dev.tsv")
    tables = [ROOT / "bench" / f"{name}.tsv" for name in ("stacks_queries", "stacks_summaries", "planetmath_queries")]
    for table in tables:
        shutil.copyfile(table, work / table.name)
    config = work / "stacks.toml"
    text = (HERE / "stacks.toml").read_text(encoding="utf-8")
    if not config.exists() or config.read_text(encoding="utf-8") != text:
        config.write_text(text, encoding="utf-8")
    workspace(work / "stacks", unpacked(data, work, "stacks"), config)
    workspace(work / "planetmath", unpacked(data, work, "planetmath"))
    workspace(work / "arxiv-math", data / "arxiv-math" / "abstracts.jsonl.xz", has_graph=False)
    workspace(work / "arxiv-citations", citations(data, work), has_graph=False)
    imported(work / "stacks", data / "stacks-questions" / "questions.jsonl.xz", "questions")
    generated(data, work)
    held_out = [*tables, phrases(data, work), *sorted(work.glob("stacks_generated.tsv"))]
    held_out += sorted(work.glob("stacks_test_*.tsv"))
    for name in ("stacks", "planetmath", "arxiv-math"):
        file = audited(HERE / "written" / f"{name}.jsonl", held_out, work / "written" / f"{name}.jsonl")
        imported(work / name, file, "written")
    for name in ("english", "libraries", "formal"):
        source = general(work / "general" / f"{name}.jsonl", held_out, work / "sources" / f"{name}.jsonl")
        workspace(work / name, source, has_graph=False)
    unasked(work)


if __name__ == "__main__":
    main()
