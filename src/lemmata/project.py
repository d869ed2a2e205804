"""A workspace folder and its verbs, one line each; the work is done in the folder of each topic.

Most verbs take their options from `lemmata.toml`, overridden by `settings`, and return a report. Each verb can be
stopped at any time: the same call resumes, and ends with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemmata.core.types import Progress
from lemmata.core.workspace import Settings, Workspace, read_manifests, silent
from lemmata.corpus.corpus import Corpus, skips, sources
from lemmata.evaluate.evaluate import corpus_task, evaluate, evaluate_options, tune, tune_rerank
from lemmata.evaluate.export import export_beir, export_corpus
from lemmata.evaluate.judge import judge, preview_judged_queries
from lemmata.evaluate.mteb import run_mteb
from lemmata.ingest.ingest import ingest, remove
from lemmata.inspect.inspect import inspect
from lemmata.maintain.content import listing, show
from lemmata.maintain.info import document_statistics, info
from lemmata.maintain.publish import PullReport, pull, push
from lemmata.maintain.verify import collect_garbage, repair, verify
from lemmata.mine.domain import select_domain
from lemmata.mine.embedding import embed_graph
from lemmata.mine.mine import export_training, import_queries, mine, mix, preview_queries, write_queries
from lemmata.mine.splits import split
from lemmata.mine.training_sets import audit, training_sets
from lemmata.search.ask import ask, open_chat
from lemmata.search.bridge import find_bridge
from lemmata.search.index import estimate_index, index, make_allowance, packaged_encoder, remove_encoder
from lemmata.search.map import build_map
from lemmata.search.retriever import Retriever
from lemmata.train.learn_metric import learn_metric
from lemmata.train.train import (
    finetune_model,
    prepare_job,
    pretrain_model,
    reranker_model,
    static_model,
    update_model,
)

if TYPE_CHECKING:
    from lemmata.graph.concepts.merge import Merge
    from lemmata.llm.chat import Preview
    from lemmata.llm.endpoint import EndpointOptions, Limits


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

    def _endpoint_options(self, settings: Settings | None) -> EndpointOptions:
        from lemmata.llm.endpoint import EndpointOptions

        return self.options(EndpointOptions, "llm", settings)

    # ------------------------------------------------------------ ingest, index, search

    ingest = ingest
    remove = remove
    sources = sources
    skips = skips

    index = index
    remove_encoder = remove_encoder
    estimate_index = estimate_index
    allowance = make_allowance
    packaged_encoder = packaged_encoder

    def retriever(self) -> Retriever:
        """Search in this workspace."""
        return Retriever(self)

    bridge = find_bridge
    map = build_map
    chat = open_chat
    ask = ask

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

    split = split
    mine = mine
    preview_queries = preview_queries
    write_queries = write_queries
    import_queries = import_queries
    select_domain = select_domain
    mix = mix
    embed_graph = embed_graph
    audit = audit
    training_sets = training_sets
    export_training = export_training

    # ------------------------------------------------------------ training

    pretrain = pretrain_model
    finetune = finetune_model
    train_further = update_model
    train_reranker = reranker_model
    train_static = static_model
    train_metric = learn_metric
    prepare = prepare_job

    def models(self) -> dict[str, dict[str, Any]]:
        """Every trained model with its manifest."""
        return read_manifests(self.models_folder)

    # ------------------------------------------------------------ evaluate

    task = corpus_task
    evaluate_options = evaluate_options
    evaluate = evaluate
    tune = tune
    tune_rerank = tune_rerank
    preview_judged_queries = preview_judged_queries
    judge = judge
    mteb = run_mteb
    export_corpus = export_corpus
    export_beir = export_beir

    inspect = inspect
