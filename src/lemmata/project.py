"""A workspace folder and its verbs, one line each; the work is done in the folder of each topic.

Most verbs take their options from `lemmata.toml`, overridden by `settings`, and return a report. Each verb can be
stopped at any time: the same call resumes, and ends with the same result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lemmata.adapt import adapt, undo_adapt
from lemmata.core.types import Progress
from lemmata.core.workspace import Workspace, read_manifests, silent
from lemmata.corpus.corpus import Corpus, skips, sources
from lemmata.evaluate.evaluate import evaluate, evaluate_options
from lemmata.evaluate.export import export_beir, export_corpus
from lemmata.evaluate.judge import judge, preview_judged_queries
from lemmata.evaluate.judgments import clear_judgments, export_judgments, judgments
from lemmata.evaluate.mteb import run_mteb
from lemmata.evaluate.tuning import tune
from lemmata.evaluate.workspace_tasks import corpus_task
from lemmata.graph.build import build_graph, decide_merge, export_graph, import_graph, merges, remove_import
from lemmata.graph.extract import extract_graph, preview_extraction
from lemmata.ingest.ingest import ingest, remove
from lemmata.inspect.inspect import inspect
from lemmata.maintain.content import listing, show
from lemmata.maintain.info import document_statistics, info
from lemmata.maintain.verify import verify
from lemmata.mine.domain import select_domain
from lemmata.mine.embedding import embed_graph
from lemmata.mine.mine import export_training, import_queries, mine, mix, preview_queries, write_queries
from lemmata.mine.splits import split
from lemmata.mine.training_sets import audit, training_sets
from lemmata.plant.link import confirm_link, link_graph
from lemmata.run import run
from lemmata.search.ask import ask, open_chat
from lemmata.search.bridge import find_bridge
from lemmata.search.index import estimate_index, index, make_allowance, packaged_encoder, remove_encoder
from lemmata.search.map import build_map
from lemmata.search.retriever import Retriever
from lemmata.train.learn_metric import learn_metric
from lemmata.train.reranker import reranker_model
from lemmata.train.train import finetune_model, prepare_job, pretrain_model, static_model, update_model


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

    build_graph = build_graph
    preview_extraction = preview_extraction
    extract_graph = extract_graph
    import_graph = import_graph
    remove_import = remove_import
    export_graph = export_graph
    link_graph = link_graph
    confirm_link = confirm_link
    merges = merges
    decide_merge = decide_merge

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
    run = run
    adapt = adapt
    undo_adapt = undo_adapt

    def models(self) -> dict[str, dict[str, Any]]:
        """Every trained model with its manifest."""
        return read_manifests(self.models_folder)

    # ------------------------------------------------------------ evaluate

    task = corpus_task
    evaluate_options = evaluate_options
    evaluate = evaluate
    tune = tune
    preview_judged_queries = preview_judged_queries
    judge = judge
    mteb = run_mteb
    judgments = judgments
    export_judgments = export_judgments
    clear_judgments = clear_judgments
    export_corpus = export_corpus
    export_beir = export_beir

    inspect = inspect
