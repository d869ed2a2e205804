"""The retriever: a query to candidates of several kinds, fused into hits.

Every part is opened at its first use: a lexical search loads no encoder.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.artefacts import Artefact, artefact, neighbour_index, open_artefact, read_artefact, summary_neighbours
from lemmata.core.errors import InputError, LemmataError, WorkspaceError, suggest
from lemmata.core.files import is_writable, read_array
from lemmata.core.types import CrossEncoder, Crowding, Encoder, Floats, Hit, Index, Integers, Mask
from lemmata.core.workspace import Workspace, open_manifest, read_manifests, vector_set, vector_sets
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import repeats
from lemmata.encode.cross import load_cross_encoder
from lemmata.encode.load import BASELINE, encoder_id, encoder_kind, is_static_encoder, load_encoder
from lemmata.graph.lengths import open_lengths
from lemmata.graph.metric import LearnedMetric, StoredMetric, open_metric
from lemmata.graph.store import Citations, open_citations, open_graph
from lemmata.search.fusion import DIFFUSION, EQUAL, Fusion, Rank, default_fusion, fuse
from lemmata.search.lexical import LexicalIndex
from lemmata.search.paths import PathSearch, Ranking, direct_path
from lemmata.search.summaries.score import SummaryIndex
from lemmata.search.summaries.store import StoredSummaries, open_summaries
from lemmata.search.tokens import one_form
from lemmata.vectors.ann import AnnIndex
from lemmata.vectors.exact import ExactIndex, Matrix
from lemmata.vectors.milvus import MilvusIndex
from lemmata.vectors.store import StoredVectors, no_vectors, open_vectors, unfinished

if TYPE_CHECKING:
    from lemmata.encode.remote import Allowance


RETRIEVERS = ("auto", "hybrid", "dense", "lexical", "diffusion", "geodesic")
WITH_ENCODER = ("auto", "hybrid", "dense", "diffusion", "geodesic")  # those that may name an encoder: dense:minilm
# of a word in the heading of a section or in the title of a document, against 1 for a word of the text below; chosen on
# validation queries (`bench/lexical_search.py --choose`), where 1 to 3 differ little
HEADING_WEIGHT = 1.5
RERANKED = 50  # hits that a retriever NAME+rerank reads again
RERANK_WEIGHT = 0.5  # of the cross-encoder, until validation chose another
_DIVERSIFIED = 100  # first hits that `diversity` orders anew
_RERANK = re.compile(r"(?P<retriever>.+?)\+rerank(?P<number>\d*)(?::(?P<model>.+))?", re.DOTALL)
_ISO_DATE = re.compile(r"\d{4}(-\d\d(-\d\d(T.+)?)?)?")
LONGEST_QUERY = 20_000  # characters; the rest is ignored


@dataclass(frozen=True, slots=True)
class Filter:
    """Restricts a search; an empty field allows all.

    A category includes its subcategories (math includes math.CO), a location everything below it.
    """

    kinds: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    since: str = ""  # ISO date, inclusive
    until: str = ""
    locations: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()  # column and value of the metadata, in any case of letters
    ids: tuple[str, ...] = ()  # of passages; unknown ones are ignored


# ---------------------------------------------------------------- on arrays


def split_reranker(name: str) -> tuple[str, int, str]:
    """`dense+rerank20:MODEL` as retriever, number of hits and cross-encoder; 0 hits where the name has no `+rerank`."""
    match = _RERANK.fullmatch(name)
    if match is None:
        return name, 0, ""
    return match["retriever"], int(match["number"] or RERANKED), match["model"] or ""


def rerank(rows: Integers, scores: Floats, cross: Floats, weight: float) -> tuple[Integers, Floats]:
    """Sort the first hits of rankings (n, k) again, by their scores `cross` (n, first) of a cross-encoder.

    The new score is (1 - w) · old + w · cross, each standardised within the query's first hits; with w = 1 the
    cross-encoder alone decides. The hits after them keep their order, and stay behind.
    """
    first = cross.shape[1]
    if not first:
        return rows, scores
    is_hit = rows[:, :first] >= 0
    old, new = _standardised(scores[:, :first], is_hit), _standardised(cross, is_hit)
    combined = np.where(is_hit, (1 - weight) * old + weight * new, -np.inf)
    order = np.argsort(-combined, axis=1, kind="stable")
    low = np.min(np.where(is_hit, combined, np.inf), axis=1, keepdims=True)
    last = np.min(np.where(is_hit, scores[:, :first], np.inf), axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        behind = np.where(rows[:, first:] >= 0, low + scores[:, first:] - last, -np.inf)
    head = np.take_along_axis(rows[:, :first], order, 1), np.take_along_axis(combined, order, 1)
    return (
        np.concatenate([head[0], rows[:, first:]], axis=1),
        np.concatenate([head[1], behind], axis=1).astype(np.float32),
    )


def _standardised(scores: Floats, is_hit: Mask) -> Floats:
    """Mean 0 and standard deviation 1 in each row, over the hits; 0 where all are equal."""
    count = np.maximum(is_hit.sum(axis=1, keepdims=True), 1)
    filled = np.where(is_hit, scores, 0).astype(np.float64)
    centred = np.where(is_hit, filled - filled.sum(axis=1, keepdims=True) / count, 0)
    spread = np.sqrt((centred**2).sum(axis=1, keepdims=True) / count)
    return np.where(spread > 1e-6, centred / np.maximum(spread, 1e-6), 0).astype(np.float32)


def without_itself(rows: Integers, scores: Floats, itself: Integers) -> tuple[Integers, Floats]:
    """Rankings (n, k) without the passage that each query is (n,), as (n, k - 1); without its last where it is none."""
    columns = np.arange(rows.shape[1] - 1)[None, :]
    is_own = rows == itself[:, None]
    own = np.where(is_own.any(axis=1), is_own.argmax(axis=1), rows.shape[1])[:, None]
    columns = columns + (columns >= own)
    return np.take_along_axis(rows, columns, 1), np.take_along_axis(scores, columns, 1)


def diversify(relevance: Floats, vectors: Floats, k: int, weight: float) -> Integers:
    """Positions of `k` candidates by maximal marginal relevance (Carbonell and Goldstein 1998).

    Each step takes the candidate with the largest (1 - w) · relevance - w · (similarity to the nearest chosen one);
    relevance (n,) is scaled to [0, 1], vectors (n, dim) have length 1.
    """
    spread = float(relevance.max() - relevance.min()) if len(relevance) else 0.0
    scaled = (relevance - relevance.min()) / spread if spread > 0 else np.ones_like(relevance)
    nearest = np.zeros(len(relevance), dtype=np.float32)
    free = np.ones(len(relevance), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < min(k, len(relevance)):
        value = np.where(free, (1 - weight) * scaled - weight * nearest, -np.inf)
        position = int(np.argmax(value))
        chosen.append(position)
        free[position] = False
        nearest = np.maximum(nearest, vectors @ vectors[position])
    return np.array(chosen, dtype=np.int64)


def _check_date(date: str) -> None:
    """Refuse what is no year, month, date or time in ISO form."""
    try:
        if not _ISO_DATE.fullmatch(date):  # dates are compared as texts, which is wrong for 20240131 and 2024-W05
            raise ValueError
        datetime.datetime.fromisoformat(f"{date}-01-01"[:10] if len(date) in (4, 7) else date)
    except ValueError:
        raise LemmataError(f"{date!r} is no date: write YYYY, YYYY-MM or YYYY-MM-DD") from None


# ---------------------------------------------------------------- on a workspace


def rerankers(models: Path) -> list[str]:
    """The names of the trained rerankers in a folder of models."""
    return [name for name, manifest in read_manifests(models).items() if manifest.get("verb") == "reranker"]


def parse_retriever(name: str) -> tuple[str, str]:
    """The kind of a retriever and its encoder, without a `+rerank`: `dense:minilm` is ("dense", "minilm")."""
    kind, named, encoder = split_reranker(name)[0].partition(":")
    if kind not in RETRIEVERS:
        known = (*RETRIEVERS, *(f"{each}:ENCODER" for each in WITH_ENCODER))
        raise LemmataError(f"there is no retriever {name!r}{suggest(kind, known)}")
    if named and (kind not in WITH_ENCODER or not encoder):
        possible = " and ".join(f"{each}:ENCODER" for each in WITH_ENCODER)
        raise LemmataError(f"there is no retriever {name!r}: only {possible} name an encoder")
    return kind, encoder


def _open_neighbours(workspace: Workspace, item: Artefact | None, matrix: Matrix) -> Index:
    """The index over vectors that was made of them: in Milvus, as a graph, or none, which means exact search."""
    if item is None or not item.manifest.exists():
        return ExactIndex(matrix)
    stored = open_artefact(workspace, item).get("milvus")
    if stored is None:
        return AnnIndex.open(workspace.ann_graph(item.folder), matrix)
    slots, kinds = (read_array(item.folder / f"{name}.npy", item.cure) for name in ("slots", "kinds"))
    return MilvusIndex(workspace.milvus_uri(stored["uri"]), stored["alias"], matrix, slots, kinds)


def _drop_blank(queries: Floats, ranking: Ranking) -> Ranking:
    """The ranking without neighbours of queries (n, dim) that have no words: their vector is 0."""
    blank = ~queries.any(axis=1)
    ranking[0][blank], ranking[1][blank] = -1, -np.inf
    return ranking


class DenseSide:
    """The vectors of one encoder, their index, and the encoder for queries; each opened at its first use.

    `encoder` is empty for the default one. `given` replaces the encoder that made the vectors. `latex` tells whether
    the corpus is written in LaTeX.
    """

    def __init__(
        self,
        workspace: Workspace,
        corpus: str,
        encoder: str = "",
        *,
        given: Encoder | None = None,
        allowance: Allowance | None = None,
        latex: Callable[[], bool] = lambda: False,
    ) -> None:
        self._workspace, self._corpus, self._name = workspace, corpus, encoder
        self._given, self._allowance = given, allowance
        self._latex = latex

    @property
    def exists(self) -> bool:
        places = vector_set(self._workspace, self._name)
        return places is not None and places.manifest.exists()

    @cached_property
    def vectors(self) -> StoredVectors:
        if self._name and not self.exists:
            self._check_name()
        return open_vectors(self._workspace, self._corpus, self._name)

    def _check_name(self) -> None:
        """InputError for an encoder that neither has vectors nor exists; names the sets that there are."""
        if self._name != BASELINE:  # looking for that one would export it
            try:
                encoder_kind(self._name, self._workspace.models_folder)
            except InputError as error:
                sets = ", ".join(vectors.encoder for vectors in vector_sets(self._workspace)) or "none"
                raise InputError(f"{error} (vectors there are of: {sets})") from error

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64] | None:
        """Of the text of each passage; None where there are no vectors of this corpus."""
        try:
            return self.vectors.hashes if self.exists else None
        except WorkspaceError:
            return None

    @cached_property
    def crowding(self) -> Crowding:
        """How crowded it is around each passage."""
        return self.vectors.crowding

    @cached_property
    def encoder(self) -> Encoder:
        vectors = self.vectors
        dimension = vectors.matrix.shape[1]
        encoder = self._given or load_encoder(
            vectors.encoder,
            dimension=vectors.cut or None,
            key=self._workspace.key,
            cache=self._workspace.encodings if is_writable(self._workspace.root) else None,
            models=self._workspace.models_folder,
            allowance=self._allowance,
        )
        if encoder.dimension != dimension:
            raise InputError(
                f"the index has vectors of dimension {dimension}, {encoder.name} makes {encoder.dimension}:"
                " run 'lemmata index --encoder …' with the encoder you want"
            )
        if self._given is None and vectors.made_by != encoder.name:  # of a model of the same name as today's
            raise WorkspaceError(
                f"the vectors of {vectors.encoder} were made by {vectors.made_by}, it is {encoder.name} now:"
                f" run 'lemmata index --encoder {vectors.encoder}' again"
            )
        return encoder

    @cached_property
    def index(self) -> Index:
        places = vector_set(self._workspace, self._name)
        item = neighbour_index(places) if places is not None else None
        return _open_neighbours(self._workspace, item, self.vectors.matrix)

    @cached_property
    def summaries(self) -> StoredSummaries | None:
        """Short texts about passages with their vectors; None where none were chosen."""
        stored = open_summaries(self._workspace, self._corpus, self._name)
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
        summaries, places = self.summaries, vector_set(self._workspace, self._name)
        if summaries is None or places is None:
            return self.index
        nearest = _open_neighbours(self._workspace, summary_neighbours(places), summaries.matrix)
        return SummaryIndex(self.index, self.vectors.matrix, nearest, summaries.matrix, np.asarray(summaries.rows))

    @cached_property
    def _stored_metric(self) -> StoredMetric | None:
        return open_metric(self._workspace, self._name)

    @cached_property
    def metric(self) -> LearnedMetric | None:
        """The metric that was learned from links; None where there is none that helps."""
        stored = self._stored_metric
        if stored is None:
            return None
        from lemmata.encode.onnx import open_network  # loads onnxruntime

        return LearnedMetric(stored.h, stored.epsilon, open_network(stored.head))

    @cached_property
    def geodesics(self) -> Geodesics:
        """What the retriever `geodesic` walks: by the learned metric where one helps, else by text."""
        stored = self._stored_metric
        if stored is None or stored.graph is None:
            return Geodesics(self.paths, None)
        graph, passages = open_graph(self._workspace), len(self.vectors.matrix)
        paths = PathSearch(graph, stored.graph, passages, seeds=stored.seeds, query_weight=stored.query_weight)
        return Geodesics(paths, self.metric)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Vectors of queries (n, dim); 0 for one without words."""
        texts = [text[:LONGEST_QUERY] for text in texts]
        if not all(map(str.isascii, texts)) and self._latex():  # as its passages write λ and x²
            texts = [one_form(text) for text in texts]
        blank = np.array([not text.strip() for text in texts], bool)
        return np.where(blank[:, None], 0, self.encoder.encode(texts, role="query"))

    def learned(self, queries: Floats, depth: int, allowed: Mask | None = None) -> Rank | None:
        """What ranks passages by the learned metric of each query (n, dim); None where there is no metric."""
        metric = self.metric
        if metric is None:
            return None
        return lambda rows: _drop_blank(queries, metric.search_among(queries, depth, rows, allowed))

    @cached_property
    def paths(self) -> PathSearch:
        """The graph with the lengths of its edges; WorkspaceError where one of them is missing or out of date."""
        return PathSearch(
            open_graph(self._workspace), open_lengths(self._workspace, self._name), len(self.vectors.matrix)
        )

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
        places = vector_set(self._workspace, self._name)
        cure = "delete it, or fit it again with 'lemmata evaluate --tune'"
        fitted = open_manifest(places.fusion, cure) if places else None
        static = places is not None and is_static_encoder(places.encoder, self._workspace.models_folder)
        return Fusion(**fitted["fusion"]) if fitted else default_fusion(static=static)


class Geodesics(NamedTuple):
    """The graph with lengths of edges, and the metric that measures the step from a query, where one was learned."""

    paths: PathSearch
    metric: LearnedMetric | None

    @property
    def depth(self) -> int:
        """How many of the nearest passages are looked at; one of them may be the query itself."""
        return self.paths.seeds + 1

    def near(self, side: DenseSide, queries: Floats, near: Ranking, allowed: Mask | None) -> list[Ranking]:
        """The nearest passages of all, and those that are allowed: a path may lead through what is no hit."""
        depth = near[0].shape[1]
        if self.metric is not None:
            masks = [None] if allowed is None else [None, allowed]
            return [_drop_blank(queries, self.metric.search(queries, depth, mask)) for mask in masks]
        if allowed is None:
            return [near]
        return [_drop_blank(queries, side.query_index.search(queries, self.depth)), near]


class Retriever:
    """Search in a workspace; `Retriever.open(folder)` opens one. Use it as a context manager, or call `close`.

    `encoder` replaces the one that made the index, for example to share a loaded one; `key` is the API key of a
    remote encoder, `allowance` what such encoders may use.
    """

    def __init__(
        self, workspace: Workspace, *, encoder: Encoder | None = None, allowance: Allowance | None = None
    ) -> None:
        self.workspace = workspace
        self.corpus = Corpus(workspace)
        self._encoder = encoder
        self._allowance = allowance
        self._dense: dict[str, DenseSide] = {}
        self._cross: dict[str, CrossEncoder] = {}
        if not len(self.corpus):
            raise WorkspaceError(f"the corpus in {workspace.root} is empty: ingest something first")

    @classmethod
    def open(cls, folder: str | Path = ".", *, encoder: Encoder | None = None) -> Retriever:
        """The retriever of a workspace folder."""
        return cls(Workspace(Path(folder)), encoder=encoder)

    def close(self) -> None:
        self.corpus.close()

    def __enter__(self) -> Retriever:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ parts, each opened at its first use

    @cached_property
    def lexical(self) -> LexicalIndex:
        item = artefact(self.workspace, "lexical")
        return read_artefact(
            self.workspace, item, self.corpus.digest, lambda _: LexicalIndex.open(self.workspace.lexical_folder)
        )

    def dense(self, encoder: str = "") -> DenseSide:
        """Everything that is made from the vectors of an encoder, by default of the one that search uses."""
        encoder = encoder_id(encoder, self.workspace.models_folder) if encoder else ""
        if encoder not in self._dense:
            given = None if encoder else self._encoder
            self._dense[encoder] = DenseSide(
                self.workspace,
                self.corpus.digest,
                encoder,
                given=given,
                allowance=self._allowance,
                latex=lambda: self.corpus.is_latex,
            )
        return self._dense[encoder]

    def release(self, encoder: str) -> None:
        """Free the memory of an encoder and its vectors; they are opened again when they are needed."""
        self._dense.pop(encoder_id(encoder, self.workspace.models_folder), None)

    @property
    def vectors(self) -> StoredVectors:
        return self.dense().vectors

    @property
    def encoder(self) -> Encoder:
        return self.dense().encoder

    @property
    def dense_index(self) -> Index:
        return self.dense().index

    @property
    def fusion(self) -> Fusion:
        """The fusion that was fitted for the default encoder, or the default."""
        return self.dense().fusion

    @cached_property
    def citations(self) -> Citations | None:
        """Which passages refer to which; None without a graph of this corpus."""
        return open_citations(self.workspace, self.corpus.digest)

    @property
    def has_vectors(self) -> bool:
        """Whether there are vectors to search with; those of an older corpus are none while new ones are made."""
        side = self.dense()
        if not side.exists or not self.workspace.indexing.exists():
            return side.exists
        try:
            return side.query_index is not None
        except WorkspaceError:
            return False

    def missing_part(self, encoder: str = "") -> str:
        """What the fitted weights of `auto` count on and is not there, in one sentence; empty where all is."""
        side = self.dense(encoder)
        if not side.exists:
            return ""
        if side.fusion.uses_graph and self.citations is None:
            return "searched without citations, which the weights of auto count on: run 'lemmata graph build'"
        if side.fusion.learned and side.metric is None:
            return "searched without a learned metric, which the weights of auto count on: run 'lemmata train metric'"
        return ""

    @property
    def words_only(self) -> str:
        """Why `auto` ranks by words only, in one sentence; empty where it does not."""
        if self.has_vectors:
            return ""
        return f"searched by words only: {unfinished(self.workspace) or no_vectors(self.workspace)}"

    def hint(self, text: str) -> str:
        """What somebody who searched for this should know, in one sentence; empty where there is nothing."""
        with contextlib.suppress(KeyError):
            self.corpus.row(text.strip())
            return f"{text.strip()} is the id of a passage; to see it: lemmata show {shlex.quote(text.strip())}"
        if (self.lexical.search([text[:LONGEST_QUERY]], 1)[0] >= 0).any():
            return ""
        return "no word of the query occurs in the corpus: these are the nearest by meaning, which may be far off"

    def _check_links(self) -> None:
        """Refuse diffusion where nothing can flow."""
        open_artefact(self.workspace, artefact(self.workspace, "graph"), self.corpus.digest)
        if self.citations is None or not len(self.citations.indices):
            raise WorkspaceError("no passage refers to another one in the graph: search with another retriever")

    def learned(self, texts: Sequence[str], depth: int, allowed: Mask | None = None, encoder: str = "") -> Rank | None:
        """What ranks passages by the learned metric of each query; None where there is no metric."""
        side = self.dense(encoder)
        if side.metric is None:
            return None
        return side.learned(side.encode_queries(texts), depth, allowed)

    # ------------------------------------------------------------ reranking

    def cross_encoder(self, model: str = "") -> CrossEncoder:
        """The cross-encoder that a name means; without a name, the workspace's reranker that was trained last."""
        model = self.reranker_name(model)
        if model not in self._cross:
            self._cross[model] = load_cross_encoder(model, models=self.workspace.models_folder)
        return self._cross[model]

    def reranker_name(self, model: str = "") -> str:
        """The name as it was given; without one, that of the reranker that was trained last."""
        if model:
            return model
        names = rerankers(self.workspace.models_folder)
        if not names:
            raise WorkspaceError(
                "there is no reranker yet: run 'lemmata train reranker', or name a model: dense+rerank:MODEL, or"
                " 'lemmata search --reranker MODEL'"
            )
        return max(names, key=lambda name: self.workspace.manifest(self.workspace.model(name)).stat().st_mtime_ns)

    def rerank_weight(self, retriever: str, model: str = "") -> float:
        """The weight of a cross-encoder behind a retriever, as validation chose it, or the default."""
        chosen = self.stored_rerank_weight(retriever, model)
        return float(chosen["weight"]) if chosen else RERANK_WEIGHT

    def stored_rerank_weight(self, retriever: str, model: str = "") -> dict[str, Any] | None:
        """How the weight of a cross-encoder was chosen: behind this retriever or, if never, last behind another."""
        chosen = open_manifest(self.workspace.rerank, "delete it, or choose again with 'lemmata evaluate --tune'") or {}
        reranker = self.cross_encoder(model).name
        weights = [each for each in chosen.get("weights", {}).values() if each["reranker"] == reranker]
        weights.sort(key=lambda each: each["retriever"] == retriever)  # stable: the last one chosen stays behind
        return weights[-1] if weights else None

    def cross_scores(self, texts: Sequence[str], rows: Integers, model: str = "") -> Floats:
        """Scores (n, k) of the passages in `rows` for each query; -inf where there is no hit."""
        places = np.argwhere(rows >= 0)
        needed = np.unique(rows[rows >= 0]).tolist()
        contents = {row: passage.content for row, passage in zip(needed, self.corpus.passages(needed), strict=True)}
        pairs = [(texts[query][:LONGEST_QUERY], contents[int(rows[query, place])]) for query, place in places.tolist()]
        scores = np.full(rows.shape, -np.inf, np.float32)
        scores[places[:, 0], places[:, 1]] = self.cross_encoder(model).score(pairs)
        return scores

    # ------------------------------------------------------------ searching

    def search_rows(
        self,
        texts: Sequence[str],
        k: int,
        retriever: str = "auto",
        allowed: Mask | None = None,
        fusion: Fusion | None = None,
        itself: Integers | None = None,
    ) -> tuple[Integers, Floats]:
        """Rows and scores (n, k) for many queries, best first; -1 where there are fewer than k.

        `retriever` is one of RETRIEVERS; dense:NAME, hybrid:NAME and auto:NAME use the vectors of that encoder.
        `NAME+rerank` reranks the first 50 hits, `NAME+rerank20:MODEL` the first 20 by another cross-encoder. `itself`
        (n,) is the passage that a query is, -1 for none: what it refers to gains nothing from that.
        """
        base, number, model = split_reranker(retriever)
        if number:
            depth = max(k, number)
            if itself is None:
                rows, scores = self.search_rows(texts, depth, base, allowed, fusion)
            else:
                rows, scores = self.search_rows(texts, depth + 1, base, allowed, fusion, itself)
                rows, scores = without_itself(rows, scores, itself)
            cross = self.cross_scores(texts, rows[:, :number], model)
            rows, scores = rerank(rows, scores, cross, self.rerank_weight(base, model))
            return rows[:, :k], scores[:, :k]
        retriever, encoder = parse_retriever(retriever)
        side = self.dense(encoder)
        if retriever == "auto" and not encoder and not self.has_vectors:
            retriever = "lexical"
        texts = [text[:LONGEST_QUERY] for text in texts]
        if retriever == "lexical":
            return self.lexical.search(texts, k, allowed, heading_weight=HEADING_WEIGHT)
        if retriever == "diffusion":
            self._check_links()
        fusion = fusion or {"auto": lambda: side.fusion, "diffusion": lambda: DIFFUSION}.get(retriever, lambda: EQUAL)()
        queries = side.encode_queries(texts)
        depth = k if retriever == "dense" else max(k, fusion.depth)
        if retriever == "geodesic":
            depth = max(k, side.geodesics.depth)
        dense = _drop_blank(queries, side.query_index.search(queries, depth, allowed))
        if retriever == "dense":
            return dense
        if retriever == "geodesic":
            walk = side.geodesics
            return walk.paths.nearest(walk.near(side, queries, dense, allowed), k, allowed, itself)
        lexical = self.lexical.search(texts, depth, allowed, heading_weight=HEADING_WEIGHT)
        learned = side.learned(queries, fusion.depth, allowed) if fusion.learned else None
        citations = self.citations if fusion.uses_graph else None
        crowding = side.crowding if fusion.calibrated else None
        return fuse(dense, lexical, k, fusion, citations, itself, allowed, learned, crowding)

    def search(
        self,
        text: str,
        k: int = 10,
        *,
        retriever: str = "auto",
        only: Filter | None = None,
        diversity: float = 0.0,
        rerank: int = 0,
        reranker: str = "",
        paths: bool = False,
    ) -> list[Hit]:
        """The best passages for a text; `diversity` (0 to 1) trades relevance for variety.

        A cross-encoder reads the first `rerank` hits again: the `reranker`, by default the one trained last. Of
        passages with the same text only the best is a hit; the others are named in its `repeats`. With `paths`, and
        always with the retriever `geodesic`, each hit has the shortest path to it through the graph.
        """
        if rerank:
            retriever = f"{retriever}+rerank{rerank}" + (f":{reranker}" if reranker else "")
        allowed = self._allowed(only)
        kind, encoder = parse_retriever(retriever)
        side = self.dense(encoder)
        hits = self._hits(lambda depth: self.search_rows([text], depth, retriever, allowed), k, diversity, side)
        if kind == "geodesic":  # its seeds depend on what is allowed
            return self._with_paths(hits, text, side, allowed, learned=True)
        return self._with_paths(hits, text, side) if paths else hits

    def _with_paths(
        self, hits: list[Hit], text: str, side: DenseSide, allowed: Mask | None = None, *, learned: bool = False
    ) -> list[Hit]:
        """The hits of a query with their paths; one that the graph does not lead to is one step away."""
        query = side.encode_queries([text])
        if not hits or not query.any():
            return hits
        walk = side.geodesics if learned else Geodesics(side.paths, None)
        rows = [self.corpus.row(hit.id) for hit in hits]
        near = side.query_index.search(query, walk.depth, allowed)
        paths = walk.paths.paths(walk.near(side, query, near, allowed), rows)
        direct = np.asarray(side.vectors.matrix[rows], np.float32) @ query[0]
        return [
            hit._replace(path=path or direct_path(hit.id, similarity))
            for hit, path, similarity in zip(hits, paths, direct.tolist(), strict=True)
        ]

    def similar(self, identity: str, k: int = 10, *, only: Filter | None = None, diversity: float = 0.0) -> list[Hit]:
        """The passages nearest to a passage, without itself; by vectors if there are any, else by words."""
        row = self.corpus.row(identity)
        allowed = self._allowed(only)
        allowed = np.ones(len(self.corpus), dtype=bool) if allowed is None else allowed
        allowed[row] = False
        if self.has_vectors:
            query = np.asarray(self.vectors.matrix[row : row + 1], dtype=np.float32)
            return self._hits(lambda depth: self.dense_index.search(query, depth, allowed), k, diversity, self.dense())
        texts = list(self.corpus.contents(row, row + 1))
        return self._hits(lambda depth: self.lexical.search(texts, depth, allowed), k, diversity, self.dense())

    def _allowed(self, only: Filter | None) -> Mask | None:
        if only is None or only == Filter():
            return None
        for date in filter(None, (only.since, only.until)):
            _check_date(date)
        shorter = min(len(only.since), len(only.until))
        if only.since[:shorter] > only.until[:shorter]:
            raise LemmataError(f"nothing is both since {only.since} and until {only.until}: change one of them")
        mask = self.corpus.select(**asdict(only))
        several = max(map(len, (only.kinds, only.documents, only.categories, only.locations, only.where))) > 1
        if several or not mask.any():
            self._check_names(only)
        return mask

    def _check_names(self, only: Filter) -> None:
        """Refuse names of a filter that the corpus does not have, with the closest that it has."""
        for what, names, list_known in (
            ("kind", only.kinds, lambda: [*self.corpus.counts()["passages"]]),
            ("document", only.documents, self.corpus.document_ids),
            ("category", only.categories, self._categories),
            ("column", tuple(column for column, _ in only.where), self.corpus.columns),
        ):
            known = list_known() if names else []
            for name in names:
                if name not in known:
                    raise LemmataError(f"there is no {what} {name!r} in the corpus{suggest(name, known)}")
        locations = self.corpus.locations() if only.locations else []
        folded = {name.casefold() for name in locations}
        for name in only.locations:
            if name.casefold().removeprefix("location:") not in folded:
                raise LemmataError(f"there is no location {name!r} in the corpus{suggest(name, locations)}")
        for column, value in only.where:
            values = self.corpus.values(column)
            if value.casefold() not in values:
                raise LemmataError(f"the column {column!r} has no value {value!r}{suggest(value.casefold(), values)}")

    def _categories(self) -> list[str]:
        """All categories with those above them: math.CO and math, as `Corpus.select` understands them."""
        categories = {category for document in self.corpus.documents() for category in document.categories}
        ends = {(category, match.start()) for category in categories for match in re.finditer(r"[.:]", category)}
        return sorted(categories | {category[:end] for category, end in ends})

    def _hits(
        self, rank: Callable[[int], tuple[Integers, Floats]], k: int, diversity: float, side: DenseSide
    ) -> list[Hit]:
        """The k best distinct passages of a ranking (1, depth); `rank` takes the depth, `side` tells them apart.

        With `diversity` the first _DIVERSIFIED change their order, however many are wanted: pages fit together.
        """
        wanted = max(k, _DIVERSIFIED) if diversity > 0 else k
        depth = max(50, 2 * wanted)
        while True:
            rows, scores = (part[0] for part in rank(depth))
            distinct = self._distinct(rows[rows >= 0], scores[rows >= 0], wanted, side)
            if len(distinct) >= wanted or rows[-1] < 0:
                break
            depth *= 4
        if diversity > 0 and distinct and side.exists:
            first = distinct[:_DIVERSIFIED]
            vectors = np.stack([side.vectors.matrix[row] for row, _ in first]).astype(np.float32)
            relevance = np.array([hit.score for _, hit in first], dtype=np.float32)
            order = diversify(relevance, vectors, k, min(diversity, 1.0))
            distinct = [first[place] for place in order] + distinct[_DIVERSIFIED:]
        return [hit for _, hit in distinct[:k]]

    def _distinct(self, rows: Integers, scores: Floats, wanted: int, side: DenseSide) -> list[tuple[int, Hit]]:
        """The rows and hits of a ranking, each text once, whatever its case and spacing; at least those `wanted`.

        Of texts that are equal to the letter, as the hashes beside the vectors tell, only the best is read.
        """
        equal: dict[int, list[int]] = {}
        keys = rows if side.hashes is None else side.hashes[rows]
        for place, key in enumerate(keys.tolist()):
            equal.setdefault(key, []).append(place)
        groups = list(equal.values())
        same: dict[str, tuple[int, Hit, list[int]]] = {}
        step = max(50, 2 * wanted)
        for start in range(0, len(groups), step):
            if len(same) >= wanted:
                break
            part = groups[start : start + step]
            passages = self.corpus.passages(rows[[places[0] for places in part]].tolist())
            for passage, (first, *others) in zip(passages, part, strict=True):
                text = " ".join(passage.content.split()).casefold()
                if text in same:
                    same[text][2].extend((first, *others))
                else:
                    same[text] = int(rows[first]), Hit(passage.id, float(scores[first]), passage=passage), others
        return [
            (row, hit._replace(repeats=self.corpus.ids_of(rows[sorted(others)].tolist())) if others else hit)
            for row, hit, others in same.values()
        ]


# ---------------------------------------------------------------- choosing the weight of a cross-encoder


def choose_rerank_weight(
    objective: Callable[[Integers], float], ranking: tuple[Integers, Floats], cross: Floats
) -> tuple[float, list[tuple[float, float]]]:
    """The weight of a cross-encoder with the highest value on validation rankings, and all tried with their values.

    Of equal values the smaller weight is taken.
    """
    tried = [
        (weight, objective(rerank(*ranking, cross, weight)[0]))
        for weight in (round(float(step), 2) for step in np.linspace(0, 1, 11))
    ]
    return max(tried, key=lambda pair: (pair[1], -pair[0]))[0], tried
