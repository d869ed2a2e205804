"""What is made from the vectors of one encoder, and the encoder for queries; each part is opened at its first use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lemmata.core.artefacts import Artefact, neighbour_index, open_artefact, summary_neighbours
from lemmata.core.errors import InputError, WorkspaceError
from lemmata.core.files import read_array
from lemmata.core.types import Encoder, Floats, Index, Mask, Ranking
from lemmata.core.workspace import VectorSet, Workspace, open_manifest, read_manifest, vector_set, vector_sets
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import repeats
from lemmata.corpus.texts import Hashes
from lemmata.encode.load import BASELINE, encoder_kind, is_static_encoder, open_encoder
from lemmata.graph.lengths import open_lengths
from lemmata.graph.store import open_graph
from lemmata.graph.stored_metric import LearnedMetric, StoredMetric, open_metric
from lemmata.search.fusion import Fusion, Rank, default_fusion
from lemmata.search.paths import QUERY_WEIGHT, STARTS, GeodesicOptions, PathSearch
from lemmata.search.summaries.score import SummaryIndex
from lemmata.search.summaries.store import StoredSummaries, open_summaries
from lemmata.search.tokens import one_form
from lemmata.vectors.ann import AnnIndex
from lemmata.vectors.exact import ExactIndex, Matrix
from lemmata.vectors.fill import move_vectors
from lemmata.vectors.milvus import MilvusIndex, why_refused
from lemmata.vectors.store import StoredVectors, open_old_vectors, open_vectors

if TYPE_CHECKING:
    from lemmata.encode.remote import Allowance

LONGEST_QUERY = 20_000  # characters; the rest is ignored


def _open_neighbours(workspace: Workspace, item: Artefact | None, matrix: Matrix) -> Index:
    """The index over vectors that was made of them: in Milvus, as a graph, or none, which means exact search."""
    if item is None or not item.manifest.exists():
        return ExactIndex(matrix)
    stored = open_artefact(workspace, item).get("milvus")
    if stored is not None and why_refused(stored["uri"]):
        return ExactIndex(matrix)
    if stored is None:
        return AnnIndex.open(workspace.ann_graph(item.folder), matrix)
    slots, kinds = (read_array(item.folder / f"{name}.npy", item.cure) for name in ("slots", "kinds"))
    return MilvusIndex(workspace.milvus_uri(stored["uri"]), stored["alias"], matrix, slots, kinds)


def _drop_blank(queries: Floats, ranking: Ranking) -> Ranking:
    """The ranking without neighbours of queries (n, dim) that have no words: their vector is 0."""
    blank = ~queries.any(axis=1)
    ranking[0][blank], ranking[1][blank] = -1, -np.inf
    return ranking


class EncoderIndex:
    """The vectors of one encoder, their neighbour index, their summaries, and the encoder for queries.

    `encoder` is empty for the default one.
    """

    def __init__(
        self, workspace: Workspace, corpus: Corpus, encoder: str = "", *, allowance: Allowance | None = None
    ) -> None:
        self._workspace, self._corpus, self._name, self._allowance = workspace, corpus, encoder, allowance
        self._encoded: tuple[list[str], Floats] | None = None  # the last queries: hits, paths and confidence need them

    @property
    def _set(self) -> VectorSet | None:
        return vector_set(self._workspace, self._name)

    @property
    def exists(self) -> bool:
        return self._set is not None and self._set.manifest.exists()

    @cached_property
    def is_outdated(self) -> bool:
        """Whether the vectors are of an earlier corpus while those of this one are being made."""
        if self._set is None or not self._workspace.indexing.exists():
            return False
        made_from = (read_manifest(self._set.manifest) or {}).get("corpus", self._corpus.digest)
        return bool(made_from != self._corpus.digest)

    @cached_property
    def vectors(self) -> StoredVectors:
        """Those of this corpus or, while they are being made, of an earlier one, by the rows of this one.

        InputError for an encoder that neither has vectors nor exists; names the sets that there are.
        """
        if self._name not in ("", BASELINE) and not self.exists:  # looking for the baseline would export it
            try:
                encoder_kind(self._name, self._workspace.models_folder)
            except InputError as error:
                sets = ", ".join(vectors.encoder for vectors in vector_sets(self._workspace)) or "none"
                raise InputError(f"{error} (vectors there are of: {sets})") from error
        if self.is_outdated and self._set is not None:
            old = open_old_vectors(self._workspace, self._set.encoder)
            moved = None if old is None else move_vectors(old, self._corpus.hashes())
            if moved is not None:
                return moved
        return open_vectors(self._workspace, self._corpus.digest, self._name)

    @cached_property
    def hashes(self) -> Hashes | None:
        """Of the text of each passage; None where there are no vectors of this corpus."""
        try:
            return self.vectors.hashes if self.exists else None
        except WorkspaceError:
            return None

    @cached_property
    def refusal(self) -> str:
        """Why queries are not sent to the encoder, which only the workspace names; empty where they are."""
        return self._workspace.key.why_refused(self._set.encoder) if self._set is not None else ""

    @cached_property
    def encoder(self) -> Encoder:
        vectors = self.vectors
        encoder = open_encoder(self._workspace, vectors.encoder, dimension=vectors.cut, allowance=self._allowance)
        if vectors.made_by != encoder.name:  # of a model of the same name as today's
            raise WorkspaceError(
                f"the vectors of {vectors.encoder} were made by {vectors.made_by}, it is {encoder.name} now:"
                f" run 'lemmata index --encoder {vectors.encoder}' again"
            )
        return encoder

    @cached_property
    def index(self) -> Index:
        item = neighbour_index(self._set) if self._set is not None and not self.is_outdated else None
        return _open_neighbours(self._workspace, item, self.vectors.matrix)

    @cached_property
    def summaries(self) -> StoredSummaries | None:
        """Short texts about passages with their vectors; None where none were chosen."""
        stored = open_summaries(self._workspace, self._corpus.digest, self._name)
        if stored is None and any(other.summaries.is_dir() for other in vector_sets(self._workspace)):
            name = self.vectors.encoder
            raise WorkspaceError(f"the summaries are not encoded by {name} yet: run 'lemmata index --encoder {name}'")
        if stored is not None and stored.made_by != self.vectors.made_by:
            raise WorkspaceError(
                f"the summaries were encoded by {stored.made_by}, the passages by {self.vectors.made_by}:"
                f" run 'lemmata index --encoder {self.vectors.encoder}' again"
            )
        return stored

    @cached_property
    def query_index(self) -> Index:
        """The index that answers queries: of the passages and of their summaries."""
        summaries, vectors = self.summaries, self._set
        if summaries is None or vectors is None:
            return self.index
        nearest = _open_neighbours(self._workspace, summary_neighbours(vectors), summaries.matrix)
        return SummaryIndex(self.index, self.vectors.matrix, nearest, summaries.matrix, np.asarray(summaries.rows))

    @cached_property
    def _stored_metric(self) -> StoredMetric | None:
        return None if self.is_outdated else open_metric(self._workspace, self._name)

    @cached_property
    def metric(self) -> LearnedMetric | None:
        """The metric that was learned from links; None where there is none that helps."""
        stored = self._stored_metric
        if stored is None:
            return None
        from lemmata.encode.onnx import open_network  # loads onnxruntime

        return LearnedMetric(stored.h, stored.epsilon, open_network(stored.head))

    @cached_property
    def paths(self) -> PathSearch:
        """The graph with the lengths of its edges; WorkspaceError where one of them is missing or out of date."""
        graph, lengths = open_graph(self._workspace), open_lengths(self._workspace, self._name)
        return PathSearch(graph, lengths, len(self.vectors.matrix))

    @cached_property
    def geodesics(self) -> PathSearch:
        """What the retriever `geodesic` walks: by the learned metric where one helps, else by text."""
        stored, options = self._stored_metric, self._workspace.options(GeodesicOptions, "geodesic")
        passages = len(self.vectors.matrix)
        if stored is None or stored.graph is None:
            if options == GeodesicOptions():
                return self.paths
            graph, lengths = open_graph(self._workspace), open_lengths(self._workspace, self._name)
            return PathSearch(graph, lengths, passages, options=options, vectors=self.vectors.matrix)
        return PathSearch(
            open_graph(self._workspace),
            stored.graph,
            passages,
            starts=stored.starts or STARTS,
            query_weight=stored.query_weight or QUERY_WEIGHT,
            metric=self.metric,
            options=options,
        )

    def starts(self, paths: PathSearch, queries: Floats, near: Ranking, allowed: Mask | None) -> list[Ranking]:
        """The nearest passages of all, and those that are allowed: a path may lead through what is no hit.

        `near` are the allowed ones by the vectors; a learned metric measures the step from a query itself.
        """
        if paths.metric is not None:
            masks = [None] if allowed is None else [None, allowed]
            depth = near[0].shape[1]
            return [_drop_blank(queries, paths.metric.search(queries, depth, mask)) for mask in masks]
        return [near] if allowed is None else [self.search(queries, paths.starts + 1), near]

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> Ranking:
        """The nearest passages of queries (n, dim), by themselves or by their summaries."""
        return _drop_blank(queries, self.query_index.search(queries, k, allowed))

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Vectors of queries (n, dim); 0 for one without words."""
        texts = [text[:LONGEST_QUERY] for text in texts]
        last = self._encoded
        if last is not None and last[0] == texts:
            return last[1]
        queries = self._encode_queries(texts)
        self._encoded = texts, queries
        return queries

    def _encode_queries(self, texts: list[str]) -> Floats:
        if not all(map(str.isascii, texts)) and self._corpus.is_latex:  # as its passages write λ and x²
            texts = [one_form(text) for text in texts]
        blank = np.array([not text.strip() for text in texts], bool)
        return np.where(blank[:, None], 0, self.encoder.encode(texts, role="query"))

    def learned(self, queries: Floats, depth: int, allowed: Mask | None = None) -> Rank | None:
        """What ranks passages by the learned metric of each query (n, dim); None where there is no metric."""
        metric = self.metric
        if metric is None:
            return None
        return lambda rows: _drop_blank(queries, metric.search_among(queries, depth, rows, allowed))

    def hide_summaries(self, queries: Sequence[str]) -> Mask:
        """Search as if there were no summaries that equal or nearly repeat one of these queries; returns which (m,)."""
        index = self.query_index
        if self.summaries is None or not isinstance(index, SummaryIndex):
            return np.zeros(0, bool)
        hidden = repeats(list(self.summaries.texts()), queries)
        self.query_index = index.hiding(hidden)
        return hidden

    @cached_property
    def fusion(self) -> Fusion:
        """The fusion that was fitted for this encoder, or the default."""
        vectors = self._set
        if vectors is None:
            return default_fusion()
        fitted = open_manifest(vectors.fusion, "delete it, or fit it again with 'lemmata evaluate --tune'")
        static = is_static_encoder(vectors.encoder, self._workspace.models_folder)
        return Fusion(**fitted["fusion"]) if fitted else default_fusion(static=static)
