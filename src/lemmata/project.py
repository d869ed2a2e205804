"""A workspace folder, and the verbs that work on it, in order; each picks up where it was stopped."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from lemmata.config import build, merged, read_toml
from lemmata.encode.load import DEFAULT
from lemmata.errors import ConfigError, LemmataError, WorkspaceError
from lemmata.files import write_atomically
from lemmata.store.corpus import Corpus
from lemmata.store.layout import Layout, read_manifest, write_manifest
from lemmata.types import Floats, Integers, Progress

if TYPE_CHECKING:
    from lemmata.concepts.merge import Merge
    from lemmata.encode.remote import Estimate
    from lemmata.evaluate.report import Report
    from lemmata.evaluate.tasks import Task
    from lemmata.leakage import Audit, Example
    from lemmata.llm.chat import Preview
    from lemmata.llm.endpoint import Limits
    from lemmata.search import Retriever
    from lemmata.stages.index import Contents
    from lemmata.stages.ingest import IngestReport
    from lemmata.stages.mine import Gate
    from lemmata.train.finetune import FinetuneOptions

__all__ = ["Check", "EvaluateOptions", "IndexOptions", "Progress", "Project", "doctor"]

Options = TypeVar("Options")

_DEFAULT_CONFIG = """\
# lemmata workspace. One table per verb; every key below shows its default.

[ingest]
# reader = "auto"            # or papers, logs, hierarchy, passages, text, pdf
# chunks = "rest"            # prose outside statements and proofs; or "all", or "none"
# chunk_size = 1500          # characters
# chunk_overlap = 200
# longest_statement = 12000  # characters
# long_statements = "cut"    # or "drop", or "keep"
# seconds = 120              # for one paper

[index]
# encoder = "lemmata-mini"   # packaged, as minilm is; or a model folder, a hub name, an address
# dimension = 0              # 0: as many as the encoder makes
# expand = false             # show the encoder what the locations in a log are

[graph]                      # more: [graph.concepts], [extract], [llm], [link], [embed] in docs/graph.md

[evaluate]
# measures = "MRR@10,nDCG@10,R@20,R@100,Success@1,MAP@100"
# level = "passage"          # or "document"

[ingest.columns]             # of tables of logs
# id = "id"
# text = "text"
# title = ""
# date = "date"
# location = "location"
# related = "related"
"""


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How a corpus is indexed."""

    SMALLEST: ClassVar = {"dimension": 0}
    encoder: str = DEFAULT
    dimension: int = 0  # of the vectors, for Matryoshka models; 0: all of them
    expand: bool = False  # show the encoder what the locations in a log are


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """What is measured and how."""

    CHOICES: ClassVar = {"level": ("passage", "document")}
    measures: str = "MRR@10,nDCG@10,R@20,R@100,Success@1,MAP@100"
    level: str = "passage"  # or document: any passage of a relevant document counts
    baseline: str = ""  # retriever that the others are compared with; the first one
    seed: int = 0
    command: str = ""


_TABLES = {
    "ingest": "lemmata.ingest.sources:IngestOptions",
    "index": "lemmata.project:IndexOptions",
    "graph": "lemmata.stages.graph:GraphOptions",
    "extract": "lemmata.stages.extract:ExtractOptions",
    "link": "lemmata.stages.link:LinkOptions",
    "embed": "lemmata.stages.embed:EmbedVerbOptions",
    "llm": "lemmata.llm.endpoint:EndpointOptions",
    "split": "lemmata.mine.splits:SplitOptions",
    "mine": "lemmata.stages.mine:MineOptions",
    "audit": "lemmata.stages.mine:AuditOptions",
    "recipes.*": "lemmata.mine.export:Recipe",
    "pretrain.*": "lemmata.train.pretrain:PretrainOptions",
    "finetune.*": "lemmata.train.finetune:FinetuneOptions",
    "run": "lemmata.run:RunOptions",
    "evaluate": "lemmata.project:EvaluateOptions",
}


class Check(NamedTuple):
    """One finding of the doctor."""

    name: str
    fine: bool
    finding: str


def _silent(_what: str, _done: int, _total: int | None) -> None:
    pass


class Project:
    """A workspace. `Project.init` makes one, `Project(folder)` opens it."""

    def __init__(self, folder: str | Path = ".") -> None:
        self.layout = Layout(Path(folder))
        if not self.layout.config.is_file():
            raise WorkspaceError(f"{folder} is no lemmata workspace: run 'lemmata init' there, or name one with -w")
        self.config = read_toml(self.layout.config, _TABLES)

    @classmethod
    def init(cls, folder: str | Path = ".") -> Project:
        """Make a folder a workspace; one that is a workspace already stays as it is."""
        layout = Layout(Path(folder))
        if layout.root.exists() and not layout.root.is_dir():
            raise WorkspaceError(f"{folder} is a file, not a folder")
        if not layout.config.exists():
            write_atomically(layout.config, _DEFAULT_CONFIG.encode())
        return cls(folder)

    @property
    def corpus(self) -> Corpus:
        """The passages; open until its `close`."""
        return Corpus(self.layout)

    # ------------------------------------------------------------ ingest

    def ingest(
        self,
        paths: Sequence[str | Path],
        *,
        settings: Mapping[str, Any] | None = None,
        workers: int | None = None,
        again: bool = False,
        progress: Progress = _silent,
    ) -> IngestReport:
        """Read sources into the corpus: what is new is added, what changed is replaced, what is gone is removed.

        `settings` go over those of `lemmata.toml`; `again` reads what did not change, too. Stopped at any point,
        the same call goes on from there and ends with the same corpus.
        """
        from lemmata.ingest.sources import IngestOptions
        from lemmata.stages.ingest import ingest

        options = self._options(IngestOptions, "ingest", settings)
        return ingest(
            self.layout, [Path(path) for path in paths], options, workers=workers, again=again, progress=progress
        )

    # ------------------------------------------------------------ index and search

    def index(
        self,
        *,
        settings: Mapping[str, Any] | None = None,
        dense: bool = True,
        rebuild: bool = False,
        progress: Progress = _silent,
    ) -> dict[str, Any]:
        """Bring the lexical index, the vectors and, for large corpora, the neighbour index up to date.

        Returns how many passages each of them had to work on. `rebuild` starts the lexical index anew, without
        the statistics of passages that are gone. What a killed run finished is not done again.
        """
        from lemmata.encode.load import load_encoder
        from lemmata.stages.index import content_hashes, index_ann, index_lexical, index_vectors

        begin = time.perf_counter()
        options = self._options(IndexOptions, "index", settings)
        with self.layout.hold(), contextlib.closing(self.corpus) as corpus:
            if not len(corpus):
                raise WorkspaceError(f"the corpus in {self.layout.root} is empty: ingest something first")
            hashes = content_hashes(corpus, progress)
            report: dict[str, Any] = {"passages": len(corpus)}
            if rebuild:
                self.layout.manifest(self.layout.lexical).unlink(missing_ok=True)
            report["tokenised"] = index_lexical(self.layout, corpus, hashes, progress)
            if dense:
                encoder = load_encoder(
                    options.encoder,
                    dimension=options.dimension or None,
                    key=_key(),
                    cache=self.layout.encodings,
                    models=self.layout.models,
                )
                report["encoder"] = encoder.name
                seen, expansion = self._seen_by_encoder(corpus, options)
                if expansion:
                    hashes = content_hashes(seen, progress)
                report["encoded"] = index_vectors(
                    self.layout,
                    seen,
                    hashes,
                    encoder,
                    options.encoder,
                    progress,
                    cut=options.dimension,
                    expansion=expansion,
                )
                report["neighbours"] = index_ann(self.layout, corpus, progress)  # exact, or ann
        report["seconds"] = time.perf_counter() - begin
        return report

    def estimate_index(self, *, settings: Mapping[str, Any] | None = None) -> Estimate | None:
        """What a remote encoder would be asked for the whole corpus; None for an encoder that runs here."""
        from itertools import islice

        from lemmata.encode.load import load_encoder
        from lemmata.encode.remote import Estimate, RemoteEncoder

        options = self._options(IndexOptions, "index", settings)
        if not options.encoder.startswith(("http://", "https://")):
            return None
        encoder = load_encoder(options.encoder, key=_key(), cache=self.layout.encodings, models=self.layout.models)
        assert isinstance(encoder, RemoteEncoder)
        parts = []
        with contextlib.closing(self.corpus) as corpus:
            contents = corpus.contents()
            while batch := list(islice(contents, 1000)):
                parts.append(encoder.estimate(batch))
        return Estimate(
            sum(part.tokens for part in parts),
            sum(part.cost for part in parts),
            sum(part.calls for part in parts),
            sum(part.cached for part in parts),
        )

    def _seen_by_encoder(self, corpus: Corpus, options: IndexOptions) -> tuple[Contents, str]:
        """The texts to encode, and what names the addition to them."""
        if not options.expand:
            return corpus, ""
        from lemmata.stages.link import ExpandedCorpus

        expanded = ExpandedCorpus(self.layout, corpus)
        return expanded, expanded.expansion

    def retriever(self) -> Retriever:
        """Search in this workspace."""
        from lemmata.search import Retriever

        return Retriever(self.layout, key=_key())

    # ------------------------------------------------------------ the graph

    def build_graph(self, *, settings: Mapping[str, Any] | None = None, progress: Progress = _silent) -> dict[str, Any]:
        """Links, concepts, relations and mentions by rules; returns what the graph holds now."""
        from lemmata.stages.graph import GraphOptions
        from lemmata.stages.graph import build as build_it

        return build_it(self.layout, self._options(GraphOptions, "graph", settings), progress)

    def preview_extraction(
        self, *, settings: Mapping[str, Any] | None = None, model: Mapping[str, Any] | None = None
    ) -> Preview:
        """Calls, tokens, cost and seconds that `extract_graph` would take from here on."""
        from lemmata.llm.endpoint import EndpointOptions
        from lemmata.stages.extract import ExtractOptions, preview_extraction

        options = self._options(ExtractOptions, "extract", settings)
        return preview_extraction(self.layout, options, self._options(EndpointOptions, "llm", model), _key())

    def extract_graph(
        self,
        limits: Limits,
        *,
        settings: Mapping[str, Any] | None = None,
        model: Mapping[str, Any] | None = None,
        progress: Progress = _silent,
    ) -> dict[str, Any]:
        """Concepts and relations by a language model, never beyond the limits; goes on where it was stopped."""
        from lemmata.llm.endpoint import EndpointOptions
        from lemmata.stages.extract import ExtractOptions, extract_concepts

        options = self._options(ExtractOptions, "extract", settings)
        return extract_concepts(
            self.layout, options, self._options(EndpointOptions, "llm", model), limits, _key(), progress
        )

    def import_graph(
        self,
        paths: Sequence[str | Path],
        *,
        format: str = "auto",  # noqa: A002 - the word that users know
        name: str = "",
        strict: bool = True,
        progress: Progress = _silent,
    ) -> dict[str, Any]:
        """Take in a graph from files; without `strict`, what can not be used is left out and counted."""
        from lemmata.stages.graph import import_graph

        files = [Path(path) for path in paths]
        return import_graph(
            self.layout, files, format=format, name=name or files[0].stem, strict=strict, progress=progress
        )

    def export_graph(self, path: str | Path, *, format: str = "auto") -> dict[str, int]:  # noqa: A002
        """Write the graph to a file or folder."""
        from lemmata.stages.graph import export_graph

        return export_graph(self.layout, Path(path), format=format)

    def link_graph(
        self,
        *,
        withheld: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        progress: Progress = _silent,
    ) -> dict[str, Any]:
        """Predict links of logs to locations and to each other; `withheld` true links measure the result."""
        from lemmata.stages.link import LinkOptions, link

        options = self._options(LinkOptions, "link", settings)
        return link(self.layout, options, Path(withheld) if withheld else None, progress)

    def embed_graph(self, *, settings: Mapping[str, Any] | None = None, progress: Progress = _silent) -> dict[str, Any]:
        """Vectors for all nodes of the graph, begun from the vectors of their texts."""
        from lemmata.stages.embed import EmbedVerbOptions, embed

        return embed(self.layout, self._options(EmbedVerbOptions, "embed", settings), _key(), progress)

    def concept(self, identity: str) -> dict[str, Any]:
        """All that the graph knows of a concept; one that was merged away is shown as what stands for it."""
        from lemmata.stages.graph import describe_concept

        return describe_concept(self.layout, identity)

    def merges(self, *, similar: bool = False) -> list[Merge]:
        """Merges of concepts and what became of them; with `similar` also candidates by the encoder."""
        from lemmata.encode.load import load_encoder
        from lemmata.stages.graph import merges

        return merges(self.layout, load_encoder(DEFAULT) if similar else None)

    def decide_merge(
        self, kept: str, gone: str, verdict: str | None, *, progress: Progress = _silent
    ) -> dict[str, Any]:
        """`accept` or `reject` a merge of two concepts, or take the verdict back with None."""
        from lemmata.stages.graph import decide_merge

        return decide_merge(self.layout, kept, gone, verdict, progress)

    # ------------------------------------------------------------ training data

    def split(self, *, settings: Mapping[str, Any] | None = None, progress: Progress = _silent) -> dict[str, Any]:
        """Part the corpus and its concepts into train, validation and test, before anything is mined."""
        from lemmata.mine.splits import SplitOptions
        from lemmata.stages.split import split

        return split(self.layout, self._options(SplitOptions, "split", settings), progress)

    def mine(
        self,
        what: str,
        *,
        name: str = "",
        of: str = "",
        kind: str = "embedding",
        found_within: int = 0,
        settings: Mapping[str, Any] | None = None,
        progress: Progress = _silent,
    ) -> dict[str, Any]:
        """Mine `pairs`, `queries`, `triplets` or `negatives` into the training set `name`.

        `of` is the set that negatives are added to; `kind` says where triplets come from; `found_within` keeps
        only queries that find their passage among so many hits.
        """
        from lemmata.stages import mine as verbs

        options = self._options(verbs.MineOptions, "mine", settings)
        into = (self.layout, name or what)
        gate = self._gate()
        if what == "pairs":
            return verbs.mine_pair_set(*into, options, gate, progress)
        if what == "queries":
            return verbs.mine_query_set(*into, options, gate, progress, found_within=found_within, key=_key())
        if what == "triplets":
            return verbs.mine_triplet_set(*into, options, gate, progress, kind=kind, of=of)
        if what == "negatives":
            return verbs.mine_negative_set(*into, of or "pairs", options, gate, progress, key=_key())
        raise LemmataError(f"there is nothing to mine called {what!r} (there are: pairs, queries, triplets, negatives)")

    def preview_queries(self, *, model: Mapping[str, Any] | None = None) -> Preview:
        """Calls, tokens, cost and seconds that `write_queries` would take from here on."""
        from lemmata.llm.endpoint import EndpointOptions
        from lemmata.stages.mine import MineOptions, preview_queries

        endpoint = self._options(EndpointOptions, "llm", model)
        return preview_queries(self.layout, self._options(MineOptions, "mine", None), endpoint, _key())

    def write_queries(
        self,
        limits: Limits,
        *,
        name: str = "written",
        model: Mapping[str, Any] | None = None,
        found_within: int = 0,
        progress: Progress = _silent,
    ) -> dict[str, Any]:
        """Queries for the passages by a language model, never beyond the limits; goes on where it was stopped."""
        from lemmata.llm.endpoint import EndpointOptions
        from lemmata.stages.mine import MineOptions, mine_written_set

        return mine_written_set(
            self.layout,
            name,
            self._options(MineOptions, "mine", None),
            self._options(EndpointOptions, "llm", model),
            limits,
            self._gate(),
            progress,
            found_within=found_within,
            key=_key(),
        )

    def import_queries(
        self,
        path: str | Path | None = None,
        *,
        queries: str | Path | None = None,
        qrels: str | Path | None = None,
        name: str = "imported",
        whole: bool = False,
        found_within: int = 0,
        progress: Progress = _silent,
    ) -> dict[str, Any]:
        """Queries that somebody else wrote, from JSON lines at `path` or from `queries` with their `qrels`.

        Only those of training passages are taken. `whole` leaves out texts that end without a mark.
        """
        from lemmata.ingest.beir import read_qrels, read_queries
        from lemmata.mine.imported import judged_queries, read_imported
        from lemmata.stages.mine import mine_imported_set

        if path is not None and queries is None and qrels is None:
            file, given = str(path), read_imported(Path(path))
        elif path is None and queries is not None and qrels is not None:
            file = str(qrels)
            given = judged_queries(read_queries(Path(queries)), read_qrels(Path(qrels)), file=Path(qrels).name)
        else:
            raise LemmataError("queries come from one file of JSON lines, or from --queries with --qrels")
        more: dict[str, Any] = {"file": file, "whole": whole, "found_within": found_within, "key": _key()}
        return mine_imported_set(self.layout, name, given, self._gate(), progress, **more)

    def mix(self, recipe: str, *, name: str = "", progress: Progress = _silent) -> dict[str, Any]:
        """One training set from several, by a recipe of `lemmata.toml`; with what each contributed."""
        from lemmata.mine.export import Recipe
        from lemmata.stages import mine as verbs

        recipes = self.config.get("recipes", {})
        if recipe not in recipes:
            known = ", ".join(recipes) or "none yet"
            raise ConfigError(f"{self.layout.config} has no table [recipes.{recipe}] (there are: {known})")
        chosen = build(Recipe, recipes[recipe], f"[recipes.{recipe}]")
        report, table = verbs.mix_sets(self.layout, name or recipe, chosen, self._gate(), progress)
        return {**report, "table": [row._asdict() for row in table]}

    def audit(self, names: Sequence[str] = (), *, test: Sequence[Example] = (), progress: Progress = _silent) -> Audit:
        """Look for held-out data in mined sets, and for `test` queries; LeakageError where there is some."""
        from lemmata.stages.mine import audit

        gate = self._gate()
        return audit(self.layout, names, gate._replace(test=[*gate.test, *test]), progress)

    def training_sets(self) -> dict[str, dict[str, Any]]:
        """Every mined set with its manifest."""
        from lemmata.stages.mine import sets

        return sets(self.layout)

    def export_training(self, name: str, path: str | Path, *, file_format: str = "parquet") -> int:
        """Write a mined set as `parquet`, `tevatron`, `flagembedding` or `tsv`."""
        from lemmata.stages.mine import export

        return export(self.layout, name, Path(path), file_format)

    # ------------------------------------------------------------ training

    def pretrain(
        self, name: str = "pretrained", *, settings: Mapping[str, Any] | None = None, progress: Progress = _silent
    ) -> dict[str, Any]:
        """Adapt an encoder to the language of the corpus, by [pretrain.NAME]; its judge decides whether it is kept."""
        from lemmata.stages.train import pretrain_model
        from lemmata.train.pretrain import PretrainOptions

        options = self._named_options(PretrainOptions, "pretrain", name, settings)
        judge = self.finetune_options(options.judge) if options.judge else None
        return pretrain_model(self.layout, name, options, judge, progress)

    def finetune(
        self, name: str = "tuned", *, settings: Mapping[str, Any] | None = None, progress: Progress = _silent
    ) -> dict[str, Any]:
        """Fine-tune an encoder on mined sets, by [finetune.NAME]; stopped at any point, the same call goes on."""
        from lemmata.stages.train import finetune_model

        return finetune_model(self.layout, name, self.finetune_options(name, settings), progress)

    def pack(
        self, name: str, folder: str | Path, *, settings: Mapping[str, Any] | None = None, progress: Progress = _silent
    ) -> dict[str, Any]:
        """Write the job of a fine-tuning to a folder that can be trained where this workspace is not."""
        from lemmata.stages.train import pack_job

        job = pack_job(self.layout, self.finetune_options(name, settings), Path(folder), progress)
        return {
            "texts": len(job.texts),
            "tokens": len(job.texts.flat),
            "sets": {told: len(records) for told, records in job.sets.items()},
            "validations": {task.name: len(task.queries) for task in job.validations},
        }

    def models(self) -> dict[str, dict[str, Any]]:
        """Every trained model with its manifest."""
        from lemmata.stages.train import list_models

        return list_models(self.layout)

    def finetune_options(self, name: str, settings: Mapping[str, Any] | None = None) -> FinetuneOptions:
        """What [finetune.NAME] says."""
        from lemmata.train.finetune import FinetuneOptions

        return self._named_options(FinetuneOptions, "finetune", name, settings)

    def _named_options(self, kind: type[Options], verb: str, name: str, settings: Mapping[str, Any] | None) -> Options:
        tables = self.config.get(verb, {})
        if tables and name not in tables:
            raise ConfigError(f"{self.layout.config} has no table [{verb}.{name}] (there are: {', '.join(tables)})")
        return build(kind, merged(tables.get(name, {}), settings or {}), f"[{verb}.{name}]")

    def _gate(self) -> Gate:
        """What mined sets have to pass: the audit's options, with the test queries that [audit] names."""
        from lemmata.ingest.beir import read_qrels, read_queries
        from lemmata.leakage import examples
        from lemmata.stages.mine import AuditOptions, Gate

        options = self._options(AuditOptions, "audit", None)
        if not options.queries and not options.qrels:
            return Gate(options)
        if not (options.queries and options.qrels):
            raise ConfigError(f"{self.layout.config}: [audit]: queries and qrels go together")
        texts = read_queries(self.layout.root / options.queries)
        return Gate(options, examples(texts, read_qrels(self.layout.root / options.qrels)))

    def _options(self, kind: type[Options], table: str, settings: Mapping[str, Any] | None) -> Options:
        """The options of a verb: `settings` over the table of `lemmata.toml`."""
        return build(kind, merged(self.config.get(table, {}), settings or {}), f"[{table}]")

    # ------------------------------------------------------------ evaluate

    def task(
        self,
        name: str,
        *,
        part: str = "",
        share: float = 0.2,
        limit: int = 0,
        seed: int = 0,
        protocol: str = "passage",
    ) -> Task:
        """A task that the corpus poses by itself: `references`, `documents`, `concepts` or `descriptions`.

        What is asked comes from a `part` of the split (`validation`, `test`), whose seen and unseen documents are
        reported apart; without one, from a random `share` of the documents or concepts. `limit` keeps a random
        sample of the queries. `protocol` is `passage` or `seed`, for concepts.
        """
        from lemmata.stages.evaluate import pose

        generator = np.random.default_rng(seed)
        return pose(self.layout, name, generator, part=part, share=share, limit=limit, protocol=protocol)

    def evaluate(
        self,
        task: Task,
        *,
        retrievers: Sequence[str] = ("lexical", "dense", "hybrid"),
        options: EvaluateOptions | None = None,
        train: Sequence[Example] = (),
        allow_leakage: bool = False,
        progress: Progress = _silent,
    ) -> Report:
        """Run retrievers on a task: measures per query with intervals, comparisons, and notes on how it was done.

        `train` are the examples that anything here was trained or tuned on; a task that is known from them
        is refused unless `allow_leakage`, which then stands in the report. Queries whose documents occur in
        training are reported apart, as *seen* and *unseen*.
        """
        from lemmata.evaluate.report import Report
        from lemmata.evaluate.significance import compare
        from lemmata.measures import evaluate as measure
        from lemmata.measures import gains, judged, parse_measure

        options = options or EvaluateOptions()
        measures = [parse_measure(name) for name in options.measures.split(",")]
        generator = np.random.default_rng(options.seed)
        notes = list(task.notes)
        with contextlib.closing(self.retriever()) as retriever:
            corpus = retriever.corpus
            judgments = judged(task.qrels, corpus.row)
            groups: dict[str, Any] = {
                name: np.array([query in members for query in task.qrels], bool)
                for name, members in task.groups.items()
            }
            groups = {name: members for name, members in groups.items() if members.any()}
            if train:
                notes += self._audit(corpus, task, train, allow_leakage)
                groups = _seen(corpus, task, train)
            documents = corpus.document_numbers() if options.level == "document" else None
            if documents is not None:
                notes.append("document level: a document counts by its best passage")
            depth = max(100, *(m.cutoff for m in measures)) * (10 if documents is not None else 1)
            # judged as not relevant does not count; nothing relevant is nothing missed
            relevant = np.array([max(1, sum(grade > 0 for grade in grades.values())) for grades in task.qrels.values()])
            results: dict[str, Any] = {}
            recall: dict[str, Any] = {}
            for name in retrievers:
                ranked = _ranked(retriever, task, name, depth, corpus, progress)
                results[name] = measure(ranked, judgments, measures, documents=documents)
                recall[name] = np.cumsum(gains(ranked[:, :100], judgments) > 0, axis=1) / relevant[:, None]
        names = [str(m) for m in measures]
        baseline = retrievers[0] if options.baseline == "" else options.baseline
        comparisons = (
            [c for name in names[:2] for c in compare(results, name, baseline, generator)] if len(results) > 1 else []
        )
        texts = {query: task.queries[query] for query in task.qrels}
        return Report(
            task=task.name,
            queries=list(task.qrels),
            texts=texts,
            retrievers=results,
            groups=groups,
            comparisons=comparisons,
            recall=recall,
            notes=notes,
            command=options.command,
        )

    def _audit(self, corpus: Corpus, task: Task, train: Sequence[Example], allow_leakage: bool) -> list[str]:
        from lemmata.leakage import audit, examples

        def text(identity: str) -> str:
            return corpus[corpus.row(identity)].text

        def neighbours(identity: str) -> list[str]:
            passage = corpus[corpus.row(identity)]
            around = [link.target for link in passage.links if link.target]
            return around + [source for source, _ in corpus.referring(identity)]

        result = audit(train, examples(task.queries, task.qrels), text=text, neighbours=neighbours)
        grave = [offence for offence in result.offences if offence.kind != "neighbour"]
        if grave and not allow_leakage:
            raise LemmataError(f"{result.sentence()}; --allow-leakage evaluates all the same and says so")
        return [("LEAKAGE ALLOWED: " if grave else "") + result.sentence()]

    def tune(self, task: Task, *, measure: str = "MRR@10", progress: Progress = _silent) -> dict[str, Any]:
        """Choose how dense and lexical rankings are fused, on a validation task, and remember it."""
        from lemmata.measures import evaluate, judged, parse_measure
        from lemmata.search import Fusion, tune

        with contextlib.closing(self.retriever()) as retriever:
            corpus = retriever.corpus
            judgments = judged(task.qrels, corpus.row)
            wanted = parse_measure(measure)
            depth = Fusion().depth
            sides = [
                _ranked_with_scores(retriever, task, name, depth, corpus, progress) for name in ("dense", "lexical")
            ]

        def value(ranked: Integers) -> float:
            return float(evaluate(ranked, judgments, [wanted])[str(wanted)].mean())

        best, tried = tune(value, sides[0], sides[1], max(100, wanted.cutoff))
        table = [{**asdict(fusion), measure: round(score, 4)} for fusion, score in tried]
        content = {"verb": "tune", "fusion": asdict(best), "measure": measure, "queries": len(task.queries)}
        write_manifest(self.layout.fusion, {**content, "task": task.name, "tried": table})
        return {**content, "tried": table}

    # ------------------------------------------------------------ info

    def _manifest(self, artefact: Path) -> dict[str, Any] | None:
        return read_manifest(self.layout.manifest(artefact))

    def _graph_counts(self, counts: Mapping[str, Any], documents: int, passages: int, locations: int) -> dict[str, Any]:
        """Nodes and edges of the graph, or what the corpus alone says of them while there is none."""
        built = self._manifest(self.layout.graph)
        if built is not None:
            embedded = self._manifest(self.layout.embedding)
            current = embedded is not None and embedded["inputs"] == built["inputs"]
            report = {name: built["report"][name] for name in ("nodes", "edges", "concepts", "merges")}
            return {**report, "graph": {"sources": built["report"]["sources"], "embedded": current}}
        nodes = {"passage": passages, "document": documents, **({"location": locations} if locations else {})}
        return {
            "nodes": nodes,
            "edges": {relation: number["resolved"] for relation, number in counts["links"].items()},
            "concepts": {},
        }

    def info(self) -> dict[str, Any]:
        """Counts of everything in the workspace."""
        corpus = self.corpus
        counts = corpus.counts()
        corpus.close()
        locations = counts["documents"].get("location", 0)
        documents = sum(counts["documents"].values()) - locations
        passages = sum(counts["passages"].values())
        return {
            "workspace": str(self.layout.root),
            "documents": documents,
            "documents_by_kind": counts["documents"],
            "passages": counts["passages"],
            "passages_in_all": passages,
            **self._graph_counts(counts, documents, passages, locations),
            "links": counts["links"],
            "labels": counts["labels"],
            "bibliography": counts["bibliography"],
            "skips": counts["skips"],
            "models": sorted(
                {*self.models(), *({manifest["made_by"]} if (manifest := self._manifest(self.layout.vectors)) else ())}
            ),
            "indexes": [
                name
                for name, folder in (
                    ("lexical", self.layout.lexical),
                    ("dense", self.layout.vectors),
                    ("ann", self.layout.ann),
                )
                if self._manifest(folder)
            ],
        }


def _ranked_with_scores(
    retriever: Retriever, task: Task, name: str, depth: int, corpus: Corpus, progress: Progress
) -> tuple[Integers, Floats]:
    """Rankings for all queries of a task, the passage that a query is itself left out."""
    queries = list(task.qrels)
    own = np.array([corpus.row(task.itself[query]) if query in task.itself else -1 for query in queries], np.int64)
    rows = np.full((len(queries), depth), -1, np.int64)
    scores = np.full((len(queries), depth), -np.inf, np.float32)
    for start in range(0, len(queries), 128):
        progress(f"searching ({name})", start, len(queries))
        texts = [task.queries[query] for query in queries[start : start + 128]]
        found, values = retriever.search_rows(texts, depth + 1, name, task.candidates)
        mine = found == own[start : start + 128, None]
        last = np.where(mine.any(axis=1), mine.argmax(axis=1), depth)[:, None]  # what is left out here
        keep = np.arange(depth)[None, :] + (np.arange(depth)[None, :] >= last)
        rows[start : start + 128] = np.take_along_axis(found, keep, 1)
        scores[start : start + 128] = np.take_along_axis(values, keep, 1)
    return rows, scores


def _ranked(retriever: Retriever, task: Task, name: str, depth: int, corpus: Corpus, progress: Progress) -> Integers:
    return _ranked_with_scores(retriever, task, name, min(depth, len(corpus)), corpus, progress)[0]


def _seen(corpus: Corpus, task: Task, train: Sequence[Example]) -> dict[str, Any]:
    """Queries by whether a document of their answers occurs in training."""

    def document(identity: str) -> str:
        return corpus[corpus.row(identity)].document

    trained = {document(passage) for example in train for passage in example.passages}
    seen = np.array([any(document(passage) in trained for passage in task.qrels[query]) for query in task.qrels], bool)
    return {"seen": seen, "unseen": ~seen}


def _key() -> str:
    """The key for encoders that answer at an address."""
    return os.environ.get("OPENAI_API_KEY", "")


# ---------------------------------------------------------------- doctor

_OPTIONAL = {"pypdfium2": "pdf", "pyarrow": "parquet", "faiss": "ann", "openai": "llm", "torch": "train"}


def doctor(folder: str | Path = ".") -> list[Check]:
    """What works here and what does not, each with its cure."""
    checks = [
        Check("python", sys.version_info >= (3, 11), platform.python_version()),
        Check(
            "sqlite",
            sqlite3.sqlite_version_info >= (3, 35),
            f"{sqlite3.sqlite_version} (3.35 or newer is needed)",
        ),
    ]
    for module, extra in _OPTIONAL.items():
        there = importlib.util.find_spec(module) is not None
        cure = "installed" if there else f"not installed: pip install 'lemmata[{extra}]'"
        checks.append(Check(f"extra {extra}", there, cure))
    layout = Layout(Path(folder))
    free = shutil.disk_usage(layout.root if layout.root.is_dir() else ".").free
    checks.append(Check("disk", free > 2**30, f"{free / 2**30:.1f} GiB free"))
    if not layout.config.is_file():
        checks.append(Check("workspace", False, f"{folder} is none: run 'lemmata init'"))
        return checks
    try:
        project = Project(folder)
        checks.append(Check("workspace", True, str(layout.root)))
        corpus = project.corpus
        checks.append(Check("corpus", True, f"{len(corpus):,} passages"))
        corpus.close()
    except (ConfigError, WorkspaceError) as error:
        checks.append(Check("workspace", False, str(error)))
    return checks
