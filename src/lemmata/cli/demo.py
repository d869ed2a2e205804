"""The demo: the whole chain on the bundled example."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from lemmata.cli.content import show
from lemmata.cli.evaluate import evaluate
from lemmata.cli.graph import build as build_graph
from lemmata.cli.output import invocation, line, showing_progress
from lemmata.cli.search import bridge, index, map_, search
from lemmata.cli.train import run
from lemmata.cli.workspace import info
from lemmata.core.errors import LemmataError


def demo(
    folder: Annotated[Path, Argument(help="Folder of the demo workspace.", metavar="DIR")] = Path("demo"),
    training: Annotated[bool, Option(help="Also fine-tune: the longest part.")] = True,
) -> None:
    """Run the whole chain on the bundled example, offline."""
    from lemmata.core.workspace import Workspace
    from lemmata.corpus.corpus import Corpus
    from lemmata.ingest.ingest import ingest

    invocation.folder = folder
    notes = example("qseries")
    question = "in how many ways can one fill a Young diagram so that rows and columns increase"

    def step(text: str, command: str) -> None:
        line("\n", (text, "bold"), "\n", (f"$ lemmata {command}", "dim"))

    line("lemmata serve FOLDER does the first steps by itself, behind the page. Here they are one by one.")
    step("Create a workspace and read the example: LaTeX notes on q-series.", f"ingest examples/qseries -w {folder}")
    workspace = Workspace.init(folder)
    with showing_progress(workspace):
        report = ingest(workspace, [notes])
    line(
        f"{report.passages:,} passages in {report.documents:,} documents, {report.resolved:,} of {report.links:,}"
        f" links resolved, in {report.seconds:.1f} s"
    )
    step("What is in it?", f"info -w {folder}")
    info()
    corpus = Corpus(workspace)
    chosen = max(corpus, key=lambda p: (bool(p.title and p.proof), len(p.links) + len(corpus.referring(p.id))))
    step("One statement with its proof and its links.", f"show '{chosen.id}' -w {folder}")
    corpus.close()
    show(chosen.id)
    step("The graph: concepts, relations and where they are mentioned; by rules, without a language model.",
         f"graph build -w {folder}")  # fmt: skip
    build_graph()
    step("One concept with its relations and their evidence.", f"show concept:bailey-pair -w {folder}")
    show("concept:bailey-pair")
    step("Index it: BM25 that reads formulas, and vectors from the packaged encoder.", f"index -w {folder}")
    index()
    step("Ask in your own words.", f'search "{question}" -w {folder} -k 3')
    search(question, k=3)
    step("How does a theorem hang together with the question? By its path through the graph, from what is nearest.",
         f'search "{question}" -w {folder} -k 2 --kind theorem --paths')  # fmt: skip
    search(question, k=2, kinds=["theorem"], paths=True)
    step("How do two distant ideas hang together?", f"bridge concept:bailey-pair concept:hook -w {folder} -k 2")
    bridge("concept:bailey-pair", "concept:hook", k=2)
    step("How good is it? 64 questions with known answers, used for nothing else.",
         f"evaluate --beir examples/qseries -w {folder} --html {folder}/report.html")  # fmt: skip
    evaluate(beir=notes, o=["measures=MRR@10,nDCG@10,R@20"], html=folder / "report.html")
    step("Let a passage also be found by what is said about it: a sentence and a question, by a language model.",
         f"index --summaries examples/qseries/summaries.jsonl -w {folder}")  # fmt: skip
    index(summaries=str(notes / "summaries.jsonl"))
    step("Weigh words, vectors and citations by 553 other queries.",
         f"evaluate --queries examples/qseries/queries-train.jsonl --tune -w {folder}")  # fmt: skip
    evaluate(queries=notes / "queries-train.jsonl", tune=True)
    step("The same 64 questions again.", f"evaluate --beir examples/qseries -w {folder} --html {folder}/report.html")
    evaluate(beir=notes, o=["measures=MRR@10,nDCG@10,R@20"], html=folder / "report.html")
    if training:
        _learn(folder, notes, step)
    step("A map of all passages, for the web page.", f"map -w {folder}")
    map_()
    command = "lemmata" if shutil.which("lemmata") else sys.argv[0]
    line(f"\nResults per query: {folder}/report.html.")
    line("Your own folder takes one command, which reads, indexes and builds the graph while the page is open: ",
         (f"{command} serve FOLDER", "bold"))  # fmt: skip
    line("Now look at it in a browser: ", (f"{command} serve -w {folder}", "bold"))


_TRAINING = """
[split]
method = "stratified"

[finetune.tuned]             # small enough for two cores: short texts, the two upper layers
sets = {{ asked = 2.5, pairs = 0.15 }}
validation = {{ references = "MRR@10" }}
batch = 64
tokens = 64
freeze = 4
rate = 4e-4

[run]
mine = ["pairs"]
imports = {{ asked = {asked} }}
tasks = [{notes}]
"""


def _learn(folder: Path, notes: Path, step: Callable[[str, str], None]) -> None:
    """Train on the example and compare before and after."""
    from lemmata.core.files import write_atomically

    missing = [name for name in ("pyarrow", "torch", "sentence_transformers") if importlib.util.find_spec(name) is None]
    if missing:
        line("\nTraining needs more libraries: pip install 'lemmata[train]'")
        return
    step("Adapt the encoder: split the corpus, train on one part and on 553 queries, measure before and after.",
         f"run -w {folder}")  # fmt: skip
    config = folder / "lemmata.toml"
    text = config.read_text(encoding="utf-8")
    if "[finetune.tuned]" not in text:
        paths = {"notes": notes.resolve(), "asked": (notes / "queries-train.jsonl").resolve()}
        tables = _TRAINING.format(**{name: json.dumps(str(path)) for name, path in paths.items()})
        write_atomically(config, (text + tables).encode())
    run()


def example(name: str) -> Path:
    """The folder of a bundled example, in an installation or in a checkout."""
    installed = Path(__file__).parents[1] / "examples" / name
    checkout = Path(__file__).parents[3] / "examples" / name
    for folder in (installed, checkout):
        if folder.is_dir():
            return folder
    raise LemmataError(f"the example {name!r} is not part of this installation")
