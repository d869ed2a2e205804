"""A workspace folder and its verbs, one line each; the work is done in the folder of each topic.

Most verbs take their options from `lemmata.toml`, overridden by `settings`, and return a report. Each verb can be
stopped at any time: the same call resumes, and ends with the same result.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemmata.core.errors import ConfigError, LemmataError, WorkspaceError
from lemmata.core.objects import is_url
from lemmata.core.types import CrossEncoder, Progress
from lemmata.core.workspace import Options, Settings, Workspace, default_encoder, read_manifest, read_manifests, silent
from lemmata.corpus.corpus import Corpus, skips, sources
from lemmata.encode.load import AUTO, encoder_for
from lemmata.ingest.ingest import ingest, remove
from lemmata.maintain.content import listing, show
from lemmata.maintain.info import document_statistics, info
from lemmata.maintain.publish import PullReport, pull, push
from lemmata.maintain.verify import collect_garbage, repair, verify

if TYPE_CHECKING:
    from lemmata.corpus.leakage import Audit, Example
    from lemmata.corpus.split import Keys
    from lemmata.encode.remote import Allowance, Estimate
    from lemmata.evaluate.evaluate import EvaluateOptions
    from lemmata.evaluate.report import Report
    from lemmata.evaluate.tasks import Task
    from lemmata.graph.concepts.merge import Merge
    from lemmata.llm.chat import Chat, Preview
    from lemmata.llm.endpoint import EndpointOptions, Limits
    from lemmata.mine.mine import MineOptions
    from lemmata.mine.training_sets import AuditPolicy, NewSet
    from lemmata.search.ask import Event
    from lemmata.search.bridge import Bridge
    from lemmata.search.index import IndexOptions
    from lemmata.search.retriever import Retriever
    from lemmata.train.finetune import FinetuneOptions


def _is_everything(part: str) -> bool:
    """Whether queries are about all passages, not about the training part alone."""
    if part not in ("train", "all"):
        raise LemmataError(f"queries are about the part train or all, not {part!r}")
    return part == "all"


class Project(Workspace):
    """A workspace. `Project.init` makes one, `Project(folder)` opens it."""

    def __init__(self, folder: str | Path = ".", progress: Progress = silent) -> None:
        super().__init__(folder, progress)
        self.check()

    @property
    def corpus(self) -> Corpus:
        """The passages; call its `close` when done."""
        return Corpus(self)

    info = info
    document_statistics = document_statistics
    listing = listing
    show = show
    verify = verify
    repair = repair
    collect_garbage = collect_garbage
    push = push

    @staticmethod
    def pull(url: str, root: str | Path, progress: Progress = silent) -> PullReport:
        """Bring a folder to the state that was last pushed to a URL."""
        return pull(Workspace(root, progress), url)

    # ------------------------------------------------------------ options

    def model_options(self, kind: type[Options], group: str, name: str, settings: Settings | None = None) -> Options:
        """The options of a model; a base that is not named is the packaged encoder for the corpus."""
        options = self.named_options(kind, group, name, settings)
        if getattr(options, "base", "") != AUTO:
            return options
        return replace(options, base=self.packaged_encoder(static=group == "static"))  # type: ignore[type-var]

    def packaged_encoder(self, *, static: bool = False) -> str:
        """The packaged encoder for the language of the corpus."""
        from lemmata.search.index import stored_language

        return encoder_for(stored_language(self), static=static)

    def finetune_options(self, name: str, settings: Settings | None = None) -> FinetuneOptions:
        """The options of [finetune.NAME]."""
        from lemmata.train.finetune import FinetuneOptions

        return self.model_options(FinetuneOptions, "finetune", name, settings)

    def static_options(self, name: str, settings: Settings | None = None) -> FinetuneOptions:
        """The options of [static.NAME], as those of the fine-tuning that it is."""
        from lemmata.train.static import StaticOptions, as_finetune

        return as_finetune(self.model_options(StaticOptions, "static", name, settings))

    def evaluate_options(self, settings: Settings | None = None) -> EvaluateOptions:
        """The options of [evaluate]."""
        from lemmata.evaluate.evaluate import EvaluateOptions

        return self.options(EvaluateOptions, "evaluate", settings)

    def _index_options(self, settings: Settings | None) -> IndexOptions:
        from lemmata.search.index import IndexOptions
        from lemmata.vectors.store import vectors_manifest

        table = self.config.get("index", {})
        settings = {**(settings or {}), **self._chosen_summaries(settings or {}, table)}
        if "encoder" not in {**settings, **table}:  # the index keeps its encoder, and how its vectors were made
            with contextlib.suppress(WorkspaceError):  # a damaged note is made again
                stored = vectors_manifest(self) or {"encoder": default_encoder(self)}
                kept = {"encoder": stored["encoder"], "dimension": stored.get("cut", 0)}
                kept["expand"] = bool(stored.get("expansion"))
                settings = {key: value for key, value in kept.items() if value} | table | settings
        if "language" not in {**settings, **table}:
            stored = read_manifest(self.manifest(self.lexical_folder)) or {}
            settings = {**settings, "language": stored["setting"]} if stored.get("setting") else settings
        return self.options(IndexOptions, "index", settings)

    def _chosen_summaries(self, settings: Settings, table: Settings) -> Settings:
        """The key `summaries`: as given, with files by their path below the workspace; or as chosen before."""
        from lemmata.search.summaries.texts import chosen_sources

        if "summaries" not in settings:
            return {} if "summaries" in table else {"summaries": chosen_sources(self)}
        names = settings["summaries"]
        known = {"none", *read_manifests(self.training_folder)}
        words = [word.strip() for word in names.split(",")]
        files = [word not in known and Path(word).is_file() for word in words]
        paths = [
            os.path.relpath(word, self.root) if is_file else word for word, is_file in zip(words, files, strict=True)
        ]
        return {"summaries": ",".join(paths)}

    def _endpoint_options(self, settings: Settings | None) -> EndpointOptions:
        from lemmata.llm.endpoint import EndpointOptions

        return self.options(EndpointOptions, "llm", settings)

    def _mine_options(self, settings: Settings | None = None) -> MineOptions:
        from lemmata.mine.mine import MineOptions

        return self.options(MineOptions, "mine", settings)

    def _audit_policy(self) -> AuditPolicy:
        """The audit that every mined set has to pass, with the test queries that [audit] names."""
        from lemmata.corpus.leakage import examples
        from lemmata.ingest.beir import read_qrels, read_queries
        from lemmata.mine.training_sets import AuditOptions, AuditPolicy

        options = self.options(AuditOptions, "audit")
        if not options.queries and not options.qrels:
            return AuditPolicy(options)
        if not (options.queries and options.qrels):
            raise ConfigError(f"{self.config_file}: [audit]: queries and qrels go together")
        queries = read_queries(self.root / options.queries)
        return AuditPolicy(options, examples(queries, read_qrels(self.root / options.qrels)))

    def _new_set(self, name: str, gate: str = "", part: str = "train") -> NewSet:
        """A set to be mined; `gate` is a cross-encoder, "none" for no gate, and by default that of [mine]."""
        from lemmata.mine.training_sets import NewSet

        gate = gate or self._mine_options().gate
        gate = "" if gate == "none" else gate
        return NewSet(self, name, self._audit_policy(), gate, _is_everything(part))

    # ------------------------------------------------------------ ingest, index, search

    ingest = ingest
    remove = remove
    sources = sources
    skips = skips

    def index(
        self,
        *,
        settings: Settings | None = None,
        dense: bool = True,
        rebuild: bool = False,
        allowance: Allowance | None = None,
    ) -> dict[str, Any]:
        """Bring the lexical index, the vectors and, for large corpora, the neighbour index up to date.

        Search uses the vectors of this encoder from then on; those of others are kept. `allowance` caps what a remote
        encoder uses.
        """
        from lemmata.search.index import index

        options = self._index_options(settings)
        return index(self, options, dense=dense, rebuild=rebuild, allowance=allowance)

    def remove_encoder(self, name: str) -> dict[str, Any]:
        """Delete the vectors of an encoder; those of the others stay."""
        from lemmata.search.index import remove_encoder

        return remove_encoder(self, name)

    def estimate_index(self, *, settings: Settings | None = None) -> Estimate | None:
        """Calls and tokens that a remote encoder needs for what has no vectors yet; None for a local encoder."""
        from lemmata.search.index import estimate

        return estimate(self, self._index_options(settings))

    def retriever(self) -> Retriever:
        """Search in this workspace."""
        from lemmata.search.retriever import Retriever

        return Retriever(self)

    def bridge(self, source: str, target: str, *, k: int = 5) -> Bridge:
        """Paths through the graph between two texts, passages or concepts, and the passages on them."""
        from lemmata.search.bridge import bridge

        with self.retriever() as retriever:
            return bridge(retriever, source, target, k)

    def map(self, *, seed: int = 0) -> dict[str, Any]:
        """Place all passages in the plane, for the map of the web page."""
        from lemmata.search.map import build_map

        return build_map(self, seed)

    def chat(self, model: Settings | None = None) -> Chat | None:
        """The language model of [llm], overridden by `model`; None where none is named. Call its `close` when done."""
        from lemmata.llm.chat import Chat

        options = self._endpoint_options(model)
        return Chat(options, self.answers, self.key) if options.model else None

    def ask(self, question: str, *, settings: Settings | None = None, model: Settings | None = None) -> Iterator[Event]:
        """The events of an answer from the corpus, in which every sentence cites passages: see `lemmata.search.ask`."""
        from lemmata.search.ask import AnswerOptions, answer

        options = self.options(AnswerOptions, "ask", settings)
        with contextlib.ExitStack() as stack:
            retriever = stack.enter_context(self.retriever())
            chat = self.chat(model)
            if chat is not None:
                stack.callback(chat.close)
            hits = retriever.search(question, 2 * options.passages) if question.strip() else []
            encoder = retriever.encoder if chat is not None and retriever.has_vectors else None
            yield from answer(
                question,
                hits,
                chat,
                options=options,
                note=retriever.words_only,
                encoder=encoder,
                tokenize=retriever.lexical.tokenizer,
            )

    # ------------------------------------------------------------ graph

    def build_graph(self, *, settings: Settings | None = None) -> dict[str, Any]:
        """Links, concepts, relations and mentions by rules."""
        from lemmata.graph import build as graph

        return graph.build(self, self.options(graph.GraphOptions, "graph", settings))

    def preview_extraction(self, *, settings: Settings | None = None, model: Settings | None = None) -> Preview:
        """Calls, tokens, cost and seconds that `extract_graph` would need from here on."""
        from lemmata.graph.concepts.extract import ExtractOptions
        from lemmata.graph.extract import preview_extraction

        options = self.options(ExtractOptions, "extract", settings)
        return preview_extraction(self, options, self._endpoint_options(model))

    def extract_graph(
        self, limits: Limits, *, settings: Settings | None = None, model: Settings | None = None
    ) -> dict[str, Any]:
        """Concepts and relations by a language model, never beyond the limits."""
        from lemmata.graph.concepts.extract import ExtractOptions
        from lemmata.graph.extract import extract_concepts

        options = self.options(ExtractOptions, "extract", settings)
        return extract_concepts(self, options, self._endpoint_options(model), limits)

    def import_graph(
        self,
        paths: Sequence[str | Path],
        *,
        format: str = "auto",  # noqa: A002 - the word that users know
        name: str = "",
        strict: bool = True,
    ) -> dict[str, Any]:
        """Import a graph from files; without `strict`, unusable records are skipped and counted."""
        from lemmata.graph.build import import_graph

        files = tuple(Path(path) for path in paths)
        return import_graph(self, files, format=format, name=name or files[0].stem, strict=strict)

    def remove_import(self, name: str) -> dict[str, Any]:
        """Remove an imported graph by its name."""
        from lemmata.graph.build import remove_import

        return remove_import(self, name)

    def export_graph(self, path: str | Path, *, format: str = "auto") -> dict[str, int]:  # noqa: A002
        """Write the graph to a file or folder."""
        from lemmata.graph.build import export_graph

        return export_graph(self, Path(path), format=format)

    def link_graph(self, *, withheld: str | Path | None = None, settings: Settings | None = None) -> dict[str, Any]:
        """Predict links of logs to locations and to earlier logs; true links in `withheld` measure the result."""
        from lemmata.plant.link import LinkOptions, link

        options = self.options(LinkOptions, "link", settings)
        return link(self, options, Path(withheld) if withheld else None)

    def embed_graph(self, *, settings: Settings | None = None) -> dict[str, Any]:
        """Learn a vector for every node of the graph, initialised from the vector of its text."""
        from lemmata.mine.embedding import EmbedStageOptions, embed

        return embed(self, self.options(EmbedStageOptions, "embed", settings))

    def merges(self, *, similar: bool = False) -> list[Merge]:
        """Merges of concepts and their status; with `similar` also candidates by the packaged encoder."""
        from lemmata.encode.load import DEFAULT, load_encoder
        from lemmata.graph.build import merges

        return merges(self, load_encoder(DEFAULT) if similar else None)

    def decide_merge(self, kept: str, gone: str, verdict: str | None) -> dict[str, Any]:
        """`accept` or `reject` a merge of two concepts, or withdraw the verdict with None."""
        from lemmata.graph.build import decide_merge

        return decide_merge(self, kept, gone, verdict)

    # ------------------------------------------------------------ training data

    def split(self, *, settings: Settings | None = None) -> dict[str, Any]:
        """Split the corpus and its concepts into train, validation and test, before anything is mined.

        Without any option, those of the stored split count.
        """
        from lemmata.mine.splits import SplitOptions, split

        if not settings and "split" not in self.config:  # "run 'lemmata split' again" must not mean another split
            stored = read_manifest(self.manifest(self.split_folder)) or {}
            known = {field.name for field in fields(SplitOptions)}
            settings = {name: value for name, value in stored.get("options", {}).items() if name in known}
        return split(self, self.options(SplitOptions, "split", settings))

    def mine(
        self,
        what: str,
        *,
        name: str = "",
        of: str = "",
        kind: str = "embedding",
        found_within: int = 0,
        part: str = "train",
        settings: Settings | None = None,
    ) -> dict[str, Any]:
        """Mine `pairs`, `queries`, `triplets` or `negatives` into the training set `name`.

        `of` is the set that negatives are added to (`pairs`), or whose queries get triplets (`queries`); `kind` says
        where triplets come from; `found_within` keeps only queries that find their passage among so many hits.
        The cross-encoder `gate` in `settings` drops positives and negatives that it doubts; "none": no gate. Queries of
        the `part` "all" are about held-out passages too: they serve search as summaries, and no training.
        """
        from lemmata.mine import mine
        from lemmata.mine.embedding import EmbedStageOptions

        options = self._mine_options(settings)
        if part != "train" and what != "queries":
            raise LemmataError(f"{what} are mined from the training part only: --part {part} is for queries")
        new = self._new_set(name or what, options.gate, part)
        if what == "pairs":
            return mine.mine_pair_set(new, options.pairs)
        if what == "queries":
            return mine.mine_query_set(new, options.queries, found_within=found_within)
        if what == "triplets":
            embedding = self.options(EmbedStageOptions, "embed")
            return mine.mine_triplet_set(new, options, embedding, kind=kind, of=of)
        if what == "negatives":
            return mine.mine_negative_set(new, of or "pairs", options.negatives)
        raise LemmataError(f"cannot mine {what!r} (there are: pairs, queries, triplets, negatives)")

    def preview_queries(self, *, model: Settings | None = None, part: str = "train") -> Preview:
        """Calls, tokens, cost and seconds that `write_queries` would need from here on."""
        from lemmata.mine.mine import preview_queries

        options, endpoint = self._mine_options().written, self._endpoint_options(model)
        return preview_queries(self, options, endpoint, everything=_is_everything(part))

    def write_queries(
        self,
        limits: Limits,
        *,
        name: str = "written",
        model: Settings | None = None,
        found_within: int = 0,
        gate: str = "",
        part: str = "train",
    ) -> dict[str, Any]:
        """Queries for the passages by a language model, never beyond the limits.

        Those of the `part` "all" are about held-out passages too: they serve search as summaries, and no training.
        """
        from lemmata.mine.mine import mine_written_set

        options, endpoint = self._mine_options().written, self._endpoint_options(model)
        new = self._new_set(name, gate, part)
        return mine_written_set(new, options, endpoint, limits, found_within=found_within)

    def import_queries(
        self,
        path: str | Path | None = None,
        *,
        queries: str | Path | None = None,
        qrels: str | Path | None = None,
        name: str = "imported",
        complete: bool = False,
        found_within: int = 0,
        gate: str = "",
    ) -> dict[str, Any]:
        """Import existing queries, from JSON lines at `path` or from `queries` with their `qrels`.

        Only those of training passages are taken. `complete` drops queries that do not end in punctuation.
        """
        from lemmata.ingest.beir import read_qrels, read_queries
        from lemmata.ingest.queries import judged_queries, read_imported
        from lemmata.mine.mine import mine_imported_set

        if path is not None and queries is None and qrels is None:
            file, records = str(path), read_imported(Path(path))
            command = ["import", str(path)]
        elif path is None and queries is not None and qrels is not None:
            file = str(qrels)
            records = judged_queries(read_queries(Path(queries)), read_qrels(Path(qrels)), file=Path(qrels).name)
            command = ["import", "--queries", str(queries), "--qrels", str(qrels)]
        else:
            raise LemmataError("queries come from one file of JSON lines, or from --queries with --qrels")
        new = self._new_set(name, gate)
        return mine_imported_set(new, records, file=file, complete=complete, found_within=found_within, command=command)

    def select_domain(
        self, general: str | Path, out: str | Path, *, share: float = 0.1, encoder: str = "", seed: int = 0
    ) -> dict[str, Any]:
        """Write the passages of a general corpus (JSON lines) that are about the field of this one to `out`."""
        from lemmata.mine.domain import select_domain

        return select_domain(self, Path(general), Path(out), share=share, encoder=encoder, seed=seed)

    def mix(self, mixture: str, *, name: str = "") -> dict[str, Any]:
        """Mix several training sets into one, as [mixtures.NAME] says; returns what each contributed."""
        from lemmata.mine.export import Mixture
        from lemmata.mine.mine import mix_sets

        options = self.named_options(Mixture, "mixtures", mixture, required=True)
        report, table = mix_sets(self._new_set(name or mixture, "none"), options, mixture)
        return {**report, "table": [row._asdict() for row in table]}

    def audit(self, names: Sequence[str] = (), *, test: Sequence[Example] = ()) -> Audit:
        """Look for held-out data and for `test` queries in mined sets; LeakageError where there are any."""
        from lemmata.mine.training_sets import audit

        policy = self._audit_policy()
        return audit(self, names, policy._replace(test=[*policy.test, *test]))

    def training_sets(self) -> dict[str, dict[str, Any]]:
        """Every mined set with its manifest; `out_of_date` says why it should be mined again, or is empty."""
        from lemmata.core.artefacts import older_source

        manifests = read_manifests(self.training_folder)
        return {name: {**manifest, "out_of_date": older_source(self, name)} for name, manifest in manifests.items()}

    def export_training(self, name: str, path: str | Path, *, file_format: str = "parquet") -> int:
        """Write a mined set as `parquet`, `tevatron`, `flagembedding` or `tsv`."""
        from lemmata.mine.mine import export

        return export(self, name, Path(path), file_format)

    # ------------------------------------------------------------ training

    def pretrain(self, name: str = "pretrained", *, settings: Settings | None = None) -> dict[str, Any]:
        """Adapt an encoder to the language of the corpus, by [pretrain.NAME]; kept only if it helps."""
        from lemmata.train.pretrain import PretrainOptions
        from lemmata.train.train import pretrain_model

        options = self.model_options(PretrainOptions, "pretrain", name, settings)
        judge = self.finetune_options(options.judge) if options.judge else None
        return pretrain_model(self, name, options, judge)

    def finetune(self, name: str = "tuned", *, settings: Settings | None = None) -> dict[str, Any]:
        """Fine-tune an encoder on mined sets, by [finetune.NAME]; resumes from the last checkpoint."""
        from lemmata.train.train import finetune_model

        return finetune_model(self, name, self.finetune_options(name, settings))

    def train_further(
        self, name: str, new: Keys, start: str, *, static: bool = False, settings: Settings | None = None
    ) -> dict[str, Any]:
        """Train a model of the workspace further after passages came in, by [finetune.NAME] with replay and guard.

        A `static` one is trained by [static.NAME]. `new` are hashes of the passages' ids, `start` is the sha256 of the
        weights before; `run` knows both.
        """
        from lemmata.train.train import update_model

        options = (self.static_options if static else self.finetune_options)(name, settings)
        return update_model(self, name, options, new, start, static=static)

    def train_reranker(self, name: str = "reranker", *, settings: Settings | None = None) -> dict[str, Any]:
        """Train a cross-encoder on mined sets, by [reranker.NAME]; resumes from the last checkpoint."""
        from lemmata.train.reranker import RerankerOptions
        from lemmata.train.train import reranker_model

        options = self.model_options(RerankerOptions, "reranker", name, settings)
        return reranker_model(self, name, options)

    def train_static(self, name: str = "static", *, settings: Settings | None = None) -> dict[str, Any]:
        """Train a static encoder on mined sets, by [static.NAME]; resumes from the last checkpoint."""
        from lemmata.train.train import finetune_model

        return finetune_model(self, name, self.static_options(name, settings), static=True)

    def train_metric(self, *, encoder: str = "", settings: Settings | None = None) -> dict[str, Any]:
        """Learn a metric from vectors and links, by [metric]; `geodesic` uses it only if it helps on validation."""
        from lemmata.train.learn_metric import MetricStageOptions, learn_metric

        return learn_metric(self, self.options(MetricStageOptions, "metric", settings), encoder)

    def prepare(self, name: str, folder: str | Path, *, settings: Settings | None = None) -> dict[str, Any]:
        """Write everything a fine-tuning needs into one folder, to train it on another machine."""
        from lemmata.train.train import prepare_job

        return prepare_job(self, self.finetune_options(name, settings), Path(folder))

    def models(self) -> dict[str, dict[str, Any]]:
        """Every trained model with its manifest."""
        return read_manifests(self.models_folder)

    # ------------------------------------------------------------ evaluate

    def task(self, name: str, **options: Any) -> Task:
        """A task made from the corpus: `references`, `documents`, `concepts` or `descriptions`.

        Options: `part` of the split, or a random `share` of the corpus; `limit`, `protocol`, `seed`.
        """
        from lemmata.evaluate.evaluate import TaskOptions, corpus_task

        return corpus_task(self, name, TaskOptions(**options))

    def evaluate(
        self,
        task: Task,
        *,
        retrievers: Sequence[str] = ("lexical", "dense", "hybrid", "auto"),
        options: EvaluateOptions | None = None,
        train: Sequence[Example] = (),
        allow_leakage: bool = False,
        allow_missing: bool = False,
        command: str = "",
        trec: str | Path | None = None,
        allowance: Allowance | None = None,
    ) -> Report:
        """Run retrievers on a task: measures per query with intervals, comparisons and notes.

        `dense:NAME`, `hybrid:NAME` and `auto:NAME` are retrievers with the encoder NAME, whose vectors are made where
        they are missing or out of date. `allowance` caps what remote encoders use.

        `train` are the examples that anything here was trained on; leaking tasks are refused unless `allow_leakage`,
        judgments of passages that are not in the corpus unless `allow_missing`.
        `trec` names a file for the rankings, as TREC runs.
        """
        from lemmata.evaluate.evaluate import evaluate
        from lemmata.search.index import IndexOptions

        return evaluate(
            self,
            task,
            options or self.evaluate_options(),
            retrievers=retrievers,
            trec=Path(trec) if trec is not None else None,
            train=train,
            allow_leakage=allow_leakage,
            allow_missing=allow_missing,
            command=command,
            index=self.options(IndexOptions, "index"),
            allowance=allowance,
        )

    def preview_judged_queries(self, *, part: str = "test", limit: int = 200, model: Settings | None = None) -> Preview:
        """Calls, tokens, cost and seconds that the queries of `judge` would need from a language model."""
        from lemmata.evaluate.judge import PoolOptions, preview_written

        options = PoolOptions(part=part, limit=limit)
        return preview_written(self, options, self._mine_options().written, self._endpoint_options(model))

    def judge(
        self,
        folder: str | Path,
        by: str | CrossEncoder,
        *,
        queries: str | Path | None = None,
        model: Settings | None = None,
        limits: Limits | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Make a test collection in `folder`: queries from a held-out part, candidates of all retrievers, judged.

        `by` is a cross-encoder, or its name. Queries are made by rules; by the language model of `model`, within
        `limits`; or come from the file `queries`. Options: `part`, `limit`, `depth`, `retrievers`, `thresholds` and
        `seed`.
        """
        from lemmata.evaluate import judge
        from lemmata.ingest.beir import read_queries

        chosen = judge.PoolOptions(**options)
        made_by = "rules"
        if queries is not None:
            asked, made_by = judge.given_queries(read_queries(Path(queries))), str(queries)
        elif limits is not None:
            endpoint, made_by = self._endpoint_options(model), self._endpoint_options(model).model
            asked = judge.written(self, chosen, self._mine_options().written, endpoint, limits)
        else:
            asked = judge.ruled(self, chosen, self._mine_options().queries)
        if isinstance(by, str):
            from lemmata.encode.cross import load_cross_encoder

            grader: CrossEncoder = load_cross_encoder(by, models=self.models_folder)
        else:
            grader = by
        return judge.judge(self, Path(folder), asked, grader, chosen, made_by=made_by)

    def mteb(
        self, tasks: Sequence[str], *, encoder: str = "", retrievers: Sequence[str] = ("dense",)
    ) -> list[dict[str, Any]]:
        """Run tasks of mteb, or BEIR folders as such, on an encoder (default: that of the index) and on BM25."""
        from lemmata.evaluate.mteb import run_mteb

        name = encoder or self._index_options(None).encoder
        name = self.packaged_encoder() if name == AUTO else name
        return run_mteb(self, tasks, name, retrievers=retrievers)

    def inspect(self, encoders: Sequence[str] = (), out: str | Path | None = None, **options: Any) -> dict[str, Any]:
        """Look inside encoders on a sample of the corpus; writes a report with figures, and returns its numbers.

        The first one is compared with the others. Options: `documents` and `passages` (ids) to draw, `sample` and
        `seed`.
        """
        from lemmata.inspect.inspect import InspectOptions, inspect

        folder = Path(out) if out is not None else None
        return inspect(self, encoders, folder, InspectOptions(**options))

    def export_corpus(self, path: str | Path) -> dict[str, Any]:
        """Write the cleaned passages as JSON lines, which `ingest` reads back; `path` may be a URL."""
        from lemmata.evaluate.export import export_corpus, export_corpus_to_store

        if is_url(path):
            return export_corpus_to_store(self, str(path))
        return export_corpus(self, Path(path))

    def export_beir(self, task: Task, folder: str | Path) -> dict[str, Any]:
        """Write a task as a BEIR folder: `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`."""
        from lemmata.evaluate.export import export_beir

        return export_beir(self, task, Path(folder))

    def tune(
        self,
        task: Task,
        *,
        measure: str = "MRR@10",
        encoder: str = "",
        allow_missing: bool = False,
        allowance: Allowance | None = None,
    ) -> dict[str, Any]:
        """Fit the weights of the retriever `auto` to a validation task, for one encoder."""
        from lemmata.evaluate.evaluate import tune
        from lemmata.search.index import IndexOptions

        return tune(
            self,
            task,
            measure,
            encoder=encoder,
            allow_missing=allow_missing,
            index=self.options(IndexOptions, "index"),
            allowance=allowance,
        )

    def allowance(self, *, tokens: int = 0, cost: float = 0.0, price: float = 0.0) -> Allowance:
        """What remote encoders may use in one command; 0 is no cap. Without a `price`, that of [index]."""
        from lemmata.encode.remote import Allowance

        return Allowance(tokens=tokens, cost=cost, price=price or self._index_options(None).price)

    def tune_rerank(
        self,
        task: Task,
        retriever: str = "auto+rerank",
        *,
        measure: str = "MRR@10",
        allow_missing: bool = False,
        allowance: Allowance | None = None,
    ) -> dict[str, Any]:
        """Choose the weight of a cross-encoder beside the retriever's own score, on a validation task."""
        from lemmata.evaluate.evaluate import tune_rerank

        return tune_rerank(
            self,
            task,
            retriever,
            measure,
            allow_missing=allow_missing,
            allowance=allowance,
        )
