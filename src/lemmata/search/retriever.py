"""The retriever: a query to candidates of several kinds, fused into hits.

Every part is opened at its first use: a lexical search loads no encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from lemmata.core.artefacts import artefact, open_artefact, read_artefact
from lemmata.core.errors import WorkspaceError
from lemmata.core.types import Encoder, Floats, Hit, Integers, Mask, Ranking, no_hits
from lemmata.core.workspace import Workspace, open_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.encode.load import encoder_id
from lemmata.graph.store import Citations, open_citations
from lemmata.plant.hierarchy import build_tree
from lemmata.plant.names import Names, index_names
from lemmata.search.confidence import (
    FIRST,
    LEAST,
    SENTENCES,
    SHORT,
    UNKNOWN_WORDS,
    Scale,
    measure_scale,
    own_sentences,
    unrelated_texts,
)
from lemmata.search.definitions import asked_term, defining_rows
from lemmata.search.encoder_index import LONGEST_QUERY, EncoderIndex
from lemmata.search.exact import MOST_NAMED, citing_rows, coded_rows, labelled_rows, named_rows, put_first, titled_rows
from lemmata.search.filter import LONGEST_NAME, Filter, allowed_rows
from lemmata.search.fusion import DIFFUSION, EQUAL, Fusion, fuse
from lemmata.search.lexical import LexicalIndex
from lemmata.search.names import RETRIEVERS, parse_retriever, split_reranker
from lemmata.search.paths import direct_path
from lemmata.search.period import named_period
from lemmata.search.query import Query, parse_query
from lemmata.search.ranking import diversify, fold_parts, place_by_words, rerank, without_itself
from lemmata.search.rerankers import Rerankers
from lemmata.search.synonyms import Glossary, also_meant
from lemmata.vectors.store import StoredVectors

if TYPE_CHECKING:
    from lemmata.encode.remote import Allowance


# of a word in the heading of a section or in the title of a document, against 1 for a word of the text below; chosen on
# validation queries (`bench/lexical_search.py --choose`), where 1 to 3 differ little
HEADING_WEIGHT = 1.5
# share of the score of its proof that a statement gets; up to 0.6 validation queries on three corpora lose nothing
PROOF_WEIGHT = 0.6
_DIVERSIFIED = 100  # first hits that `diversity` orders anew
_MOST_READ = 20_000  # passages that are read for phrases and excluded words
_PERHAPS_INTRODUCED = 30  # passages in which an abbreviation is looked for
_REMEMBERED = 256  # queries
_PERHAPS_NAMED = 100  # first passages by words whose titles are compared with a query


class _Fields(TypedDict):
    heading_weight: float
    proof_weight: float


_FIELDS = _Fields(heading_weight=HEADING_WEIGHT, proof_weight=PROOF_WEIGHT)


class Retriever:
    """Search in a workspace; `Retriever.open(folder)` opens one. Use it as a context manager, or call `close`.

    `allowance` is what remote encoders may use.
    """

    def __init__(self, workspace: Workspace, *, allowance: Allowance | None = None) -> None:
        self.workspace = workspace
        self.corpus = Corpus(workspace)
        self.rerankers = Rerankers(workspace, self.corpus)
        self._allowance = allowance
        self._dense: dict[str, EncoderIndex] = {}
        self._also: dict[str, list[str]] = {}  # by query
        if not len(self.corpus):
            raise WorkspaceError(f"the corpus in {workspace.root} is empty: ingest something first")

    @classmethod
    def open(cls, folder: str | Path = ".") -> Retriever:
        """The retriever of a workspace folder."""
        return cls(Workspace(Path(folder)))

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

    def dense(self, encoder: str = "") -> EncoderIndex:
        """Everything that is made from the vectors of an encoder, by default of the one that search uses."""
        encoder = encoder_id(encoder, self.workspace.models_folder) if encoder else ""
        if encoder not in self._dense:
            self._dense[encoder] = EncoderIndex(self.workspace, self.corpus, encoder, allowance=self._allowance)
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

    @cached_property
    def citations(self) -> Citations | None:
        """Which passages refer to which; None without a graph of this corpus."""
        return open_citations(self.workspace, self.corpus.digest)

    @property
    def has_vectors(self) -> bool:
        """Whether there are vectors to search with, and an encoder for queries that may be asked.

        While new ones are made, those of a similar corpus will do.
        """
        index = self.dense()
        if index.refusal:
            return False
        if not index.exists or not self.workspace.indexing.exists():
            return index.exists
        try:
            return index.query_index is not None
        except WorkspaceError:
            return False

    @cached_property
    def _glossary(self) -> Glossary:
        return Glossary(self.workspace.glossary)

    def also_searched(self, text: str) -> list[str]:
        """What is searched for besides a query: other words of the glossary, long and short forms of abbreviations."""
        known = [] if len(text) > LONGEST_NAME else self._also.get(text)
        if known is not None:
            return known

        def read(rows: Sequence[int]) -> list[str]:
            return [passage.text for passage in self.corpus.passages(list(rows))]

        def first_texts() -> list[str]:
            rows = self.lexical.search([text], _PERHAPS_INTRODUCED, **_FIELDS)[0][0]
            return read(rows[rows >= 0].tolist())

        def texts_with(word: str) -> list[str]:
            tokens = self.lexical.tokenizer(word)
            return read(self.lexical.holding(tokens[0], _PERHAPS_INTRODUCED)) if tokens else []

        terms = also_meant(text, self._glossary, texts_with, first_texts)
        if len(self._also) >= _REMEMBERED:
            self._also = {}  # other threads may be reading the one before
        self._also[text] = terms
        return terms

    def _check_links(self) -> None:
        """Refuse diffusion where nothing can flow."""
        open_artefact(self.workspace, artefact(self.workspace, "graph"), self.corpus.digest)
        if self.citations is None or not len(self.citations.indices):
            raise WorkspaceError("no passage refers to another one in the graph: search with another retriever")

    # ------------------------------------------------------------ searching

    @cached_property
    def _parts(self) -> dict[int, int]:
        return self.corpus.parts()

    def _find_whole(self, search: Callable[[int, Mask | None], Ranking], k: int, allowed: Mask | None) -> Ranking:
        """The result of a search for k allowed passages in which the parts of a passage count as the passage."""
        if not self._parts:
            return search(k, allowed)
        whole = np.arange(len(self.corpus))
        whole[list(self._parts)] = list(self._parts.values())
        found = search(min(len(whole), k + len(self._parts)), None if allowed is None else allowed[whole])
        return fold_parts(*found, whole, k)

    def search_rows(
        self,
        texts: Sequence[str],
        k: int,
        retriever: str = "auto",
        allowed: Mask | None = None,
        fusion: Fusion | None = None,
        itself: Integers | None = None,
    ) -> Ranking:
        """Rows and scores (n, k) for many queries, best first; -1 where there are fewer than k.

        `retriever` is one of RETRIEVERS; dense:NAME, hybrid:NAME and auto:NAME use the vectors of that encoder.
        `NAME+rerank` reranks the first 50 hits, `NAME+rerank20:MODEL` the first 20 by another cross-encoder. `itself`
        (n,) is the passage that a query is, -1 for none: what it refers to gains nothing from that.
        """

        def search(depth: int, allowed: Mask | None) -> Ranking:
            return self._search_rows(texts, depth, retriever, allowed, fusion, itself)

        return self._find_whole(search, k, allowed)

    def _search_rows(
        self,
        texts: Sequence[str],
        k: int,
        retriever: str,
        allowed: Mask | None,
        fusion: Fusion | None,
        itself: Integers | None,
    ) -> Ranking:
        base, number, model = split_reranker(retriever)
        if number:
            depth = max(k, number)
            if itself is None:
                rows, scores = self.search_rows(texts, depth, base, allowed, fusion)
            else:
                rows, scores = self.search_rows(texts, depth + 1, base, allowed, fusion, itself)
                rows, scores = without_itself(rows, scores, itself)
            cross = self.rerankers.scores(texts, rows[:, :number], model)
            rows, scores = rerank(rows, scores, cross, self.rerankers.weight(base, model))
            return rows[:, :k], scores[:, :k]
        retriever, encoder = parse_retriever(retriever)
        index = self.dense(encoder)
        if retriever == "auto" and not encoder and not self.has_vectors:
            retriever = "lexical"
        texts = [text[:LONGEST_QUERY] for text in texts]
        if retriever == "lexical":
            return self.lexical.search(texts, k, allowed, **_FIELDS)
        if retriever == "diffusion":
            self._check_links()
        if fusion is None:
            fusion = index.fusion if retriever == "auto" else DIFFUSION if retriever == "diffusion" else EQUAL
        queries = index.encode_queries(texts)
        depth = k if retriever == "dense" else max(k, fusion.depth)
        if retriever == "geodesic":
            depth = max(k, index.geodesics.starts + 1)  # one of them may be the query itself
        dense = index.search(queries, depth, allowed)
        if retriever == "dense":
            return dense
        if retriever == "geodesic":
            paths = index.geodesics
            return paths.nearest(index.starts(paths, queries, dense, allowed), k, allowed, itself, queries)
        if retriever not in ("auto", "hybrid", "diffusion"):
            raise NotImplementedError(f"{retriever!r} is a row of RETRIEVERS without a branch here")
        lexical = self.lexical.search(texts, depth, allowed, **_FIELDS)
        if index.is_outdated:
            dense = place_by_words(dense, lexical, np.asarray(~index.vectors.matrix.any(axis=1)))
        learned = index.learned(queries, fusion.depth, allowed) if fusion.learned else None
        citations = self.citations if fusion.uses_graph else None
        crowding, bounds = (index.vectors.crowding, self.bounds(texts)) if fusion.calibrated else (None, None)
        return fuse(dense, lexical, k, fusion, citations, itself, allowed, learned, crowding, bounds)

    def bounds(self, texts: Sequence[str]) -> Floats:
        """What the scores of words are measured by (n,)."""
        return np.array([self.lexical.bound(text[:LONGEST_QUERY], heading_weight=HEADING_WEIGHT) for text in texts])

    def read_query(self, text: str) -> Query:
        """The parts of a query; a name of a passage is one, whatever signs it holds (`section:intro`)."""
        query = parse_query(text)
        if query.text != text and self.corpus.named([text.strip()]):
            return Query(text)
        if not self._log_dates or query.reads_texts or (query.filter and (query.filter.since or query.filter.until)):
            return query
        period = named_period(query.text, *self._log_dates)
        if period is None:
            return query
        chosen = replace(query.filter or Filter(), since=period.since, until=period.until)
        return replace(query, text=period.text, filter=chosen, is_dated=True)

    @cached_property
    def _log_dates(self) -> tuple[str, str] | None:
        """The first and the last date of logs; None where none has a date."""
        return self.corpus.log_dates()

    def search(
        self,
        text: str,
        k: int = 10,
        *,
        retriever: str = "auto",
        filter: Filter | None = None,  # noqa: A002 - the word of the API
        diversity: float = 0.0,
        paths: bool = False,
    ) -> list[Hit]:
        """The best passages for a text; `diversity` (0 to 1) trades relevance for variety.

        A "quoted phrase", an excluded -word and field:value restrict the search, as `filter` does; without other words,
        what they allow comes in the order of the corpus.
        Passages that the text names come first: by id, label, title, or "Theorem 4.2 of Partitions"; then those that
        cite a work which it names, with its entry in the bibliography as `cites`.
        Of passages with the same text only the best is a hit; the others are named in its `repeats`. With `paths`, and
        always with the retriever `geodesic`, each hit has the shortest path to it through the graph.
        """
        query = self.read_query(text)
        text = query.text
        masks = [mask for each in (filter, query.filter) if (mask := allowed_rows(self.corpus, each)) is not None]
        allowed = np.logical_and.reduce(masks) if masks else None
        kind, encoder = parse_retriever(retriever)
        index = self.dense(encoder)
        citing = citing_rows(self.corpus, text, self.is_word, allowed)
        named = [*dict.fromkeys([*self.named(text, retriever, allowed), *citing])]
        meant = " ".join([text, *self.also_searched(text)])

        def rank(depth: int) -> Ranking:
            if not text and allowed is not None:
                return self._in_order(allowed, depth)
            ranking = self.search_rows([meant], depth, retriever, allowed)
            return put_first(named, *ranking) if named else ranking

        hits = self._hits(rank, k, diversity, index, query)
        if citing:
            entries = {self.corpus[row].id: entry for row, entry in citing.items()}
            hits = [hit._replace(cites=entries.get(hit.id, "")) for hit in hits]
        uses_vectors = RETRIEVERS[kind].by_vectors and (bool(encoder) or self.has_vectors)
        hits = self._with_confidence(hits, dict.fromkeys([text, meant]), index if uses_vectors else None, named)
        if RETRIEVERS[kind].by_paths:  # its starts depend on what is allowed
            return self._with_paths(hits, text, index, allowed, learned=True)
        return self._with_paths(hits, text, index) if paths else hits

    def named(self, text: str, retriever: str = "auto", allowed: Mask | None = None) -> list[int]:
        """The rows that a query names, by id, label, number, title, author or code, or whose definition it asks for;
        none for most queries.
        """
        rows = named_rows(self.corpus, text, allowed) or self._titled(text, allowed)
        rows = rows or self._defining(text, allowed) or self._coded(text, retriever, allowed)
        return rows or [row for row in labelled_rows(self.corpus, text) if allowed is None or allowed[row]]

    def _titled(self, text: str, allowed: Mask | None) -> list[int]:
        """The rows whose name a text is: they have its title, or are among the first by words."""
        if len(text) > LONGEST_NAME:
            return []
        titled = [row for row in self.corpus.titled(text, _PERHAPS_NAMED) if allowed is None or allowed[row]]
        by_words = self.search_rows([text], _PERHAPS_NAMED, "lexical", allowed)[0][0]
        rows = list(dict.fromkeys([*titled, *by_words[by_words >= 0].tolist()]))
        return titled_rows(self.corpus, text, rows, self.lexical.tokenizer, partial(self.is_word, heading_weight=0))

    def _defining(self, text: str, allowed: Mask | None) -> list[int]:
        """The rows that define the term which a query asks for; without any, those that have it as a title."""
        term = asked_term(text[:LONGEST_NAME])
        if not term:
            return []
        by_words = self.search_rows([term], _PERHAPS_NAMED, "lexical", allowed)[0][0]
        rows = defining_rows(self.corpus, term, by_words[by_words >= 0].tolist())
        return rows[:MOST_NAMED] or self._titled(term, allowed)

    @cached_property
    def _places(self) -> Names:
        return index_names(build_tree(self.corpus.documents(kind="location", links=True)))

    def _coded(self, text: str, retriever: str, allowed: Mask | None) -> list[int]:
        """The first rows about what a code in a query stands for; where words stand beside it, they rank them."""
        if len(text) > LONGEST_NAME or not (any(map(str.isdigit, text)) or len(text.split()) == 1):
            return []
        rows, words = coded_rows(self.corpus, text, self._places, self.lexical.holding)
        whole = dict.fromkeys(self._parts.get(row, row) for row in rows)
        rows = [row for row in whole if allowed is None or allowed[row]]
        if rows and words:
            coded = np.zeros(len(self.corpus), bool)
            coded[rows] = True
            found = self.search_rows([words], MOST_NAMED, retriever, coded)[0][0]
            rows = found[found >= 0].tolist() or rows
        return rows[:MOST_NAMED]

    def _in_order(self, allowed: Mask, depth: int) -> Ranking:
        """The first allowed passages of the corpus."""
        allowed = allowed.copy()
        allowed[list(self._parts)] = False
        rows, scores = no_hits(1, depth)
        first = np.flatnonzero(allowed)[:depth]
        rows[0, : len(first)], scores[0, : len(first)] = first, 0
        return rows, scores

    # ------------------------------------------------------------ confidence

    @cached_property
    def _scales(self) -> dict[str, Scale]:
        """What scores mean here, by encoder; empty for words alone."""
        stored = open_manifest(self.workspace.confidence, "delete it and run 'lemmata index'") or {}
        scales = stored.get("scales", {}) if stored.get("corpus") == self.corpus.digest else {}
        return {encoder: Scale(*numbers) for encoder, numbers in scales.items() if numbers}

    def _scores(self, texts: Sequence[str], rows: Sequence[Integers], index: EncoderIndex | None) -> list[Floats]:
        """Cosines of some passages of each text, and how much they hold of it: (2, rows) each."""
        queries = None if index is None else index.encode_queries(texts)
        result = []
        for number, (text, places) in enumerate(zip(texts, rows, strict=True)):
            scores = np.zeros((2, len(places)), np.float32)
            if index is not None and queries is not None:
                scores[0] = np.asarray(index.vectors.matrix[places], np.float32) @ queries[number]
            scores[1] = self.lexical.shares(text[:LONGEST_QUERY], places, **_FIELDS)
            result.append(scores)
        return result

    def _with_confidence(
        self, hits: list[Hit], texts: Iterable[str], index: EncoderIndex | None, named: Sequence[int]
    ) -> list[Hit]:
        """The hits of a query, as it was typed and with its synonyms, with the best that their scores say of it.

        Those that it names are sure.
        """
        scale = self._scales.get(index.vectors.encoder if index is not None else "")
        texts = [text for text in texts if text]
        if scale is None or not hits or not texts:
            return hits
        rows = np.array([self.corpus.row(hit.id) for hit in hits])
        by_text = []
        for text, scores in zip(texts, self._scores(texts, [rows] * len(texts), index), strict=True):
            is_known = scores[1].any() or self.is_known(text[:LONGEST_QUERY])
            by_text.append([(1 if is_known else UNKNOWN_WORDS) * each for each in scale.confidences(scores)])
        held = [LEAST if holds_all else 0.0 for holds_all in self._holding_all(texts[0], rows)]
        confidences = map(max, held, *by_text)
        return [
            hit._replace(confidence=1.0 if row in named else confidence)
            for hit, row, confidence in zip(hits, rows.tolist(), confidences, strict=True)
        ]

    def _holding_all(self, text: str, rows: Integers) -> Mask:
        """Which passages hold every word of a short query (rows,): a rare name is matched, whatever its scores are."""
        words = [word for word in text[:LONGEST_QUERY].split() if self.lexical.tokenizer(word)]
        if not 0 < len(words) <= SHORT:
            return np.zeros(len(rows), bool)
        shares = [self.lexical.shares(word, rows, **_FIELDS) for word in words]
        return np.asarray(np.min(shares, axis=0) > 0)

    def measure_scale(self, encoder: str = "") -> Scale | None:
        """What scores mean in this corpus with the vectors of an encoder; without its name, of words."""
        count = len(self.corpus)
        rows = np.unique(np.linspace(0, count - 1, min(count, SENTENCES)).astype(np.int64)).tolist()
        own = own_sentences(zip(rows, self.corpus.passages(rows), strict=True))
        texts = [*(text for text, _ in own), *unrelated_texts()]
        itself = np.array([*(row for _, row in own), *(-1 for _ in unrelated_texts())])
        found = without_itself(
            *self.search_rows(texts, FIRST + 1, f"auto:{encoder}" if encoder else "lexical"), itself
        )[0]
        index = self.dense(encoder) if encoder else None
        scores = self._scores(texts, [places[places >= 0][:FIRST] for places in found], index)
        return measure_scale(scores[: len(own)], scores[len(own) :], dense=bool(encoder))

    def is_word(self, word: str, heading_weight: float = HEADING_WEIGHT) -> bool:
        """Whether a passage holds a word, or a heading above it, among which are its authors."""
        return int(self.lexical.search([word], 1, heading_weight=heading_weight)[0][0, 0]) >= 0

    def is_known(self, text: str) -> bool:
        """Whether a passage, a heading or a proof holds a word of a text."""
        return int(self.lexical.search([text], 1, **_FIELDS)[0][0, 0]) >= 0

    def _with_paths(
        self,
        hits: list[Hit],
        text: str,
        index: EncoderIndex,
        allowed: Mask | None = None,
        *,
        learned: bool = False,
        itself: int = -1,
    ) -> list[Hit]:
        """The hits of a query with their paths; one that the graph does not lead to is one step away."""
        query = index.encode_queries([text])
        if not hits or not query.any():
            return hits
        graph = index.geodesics if learned else index.paths
        rows = [self.corpus.row(hit.id) for hit in hits]
        near = index.query_index.search(query, graph.starts + 1, allowed)
        paths = graph.paths(index.starts(graph, query, near, allowed), rows, itself)
        direct = np.asarray(index.vectors.matrix[rows], np.float32) @ query[0]
        return [
            hit._replace(path=path or direct_path(hit.id, similarity))
            for hit, path, similarity in zip(hits, paths, direct.tolist(), strict=True)
        ]

    def similar(
        self,
        identity: str,
        k: int = 10,
        *,
        retriever: str = "",
        filter: Filter | None = None,  # noqa: A002 - the word of the API
        diversity: float = 0.0,
        paths: bool = False,
    ) -> list[Hit]:
        """The passages nearest to a passage, without itself; by vectors if there are any, else by words.

        With a `retriever` its text is the query, and its own links count for nothing, as when references are measured:
        what it could refer to. `paths` as in `search`.
        """
        row = self.corpus.row(identity)
        allowed = allowed_rows(self.corpus, filter)
        allowed = np.ones(len(self.corpus), dtype=bool) if allowed is None else allowed
        allowed[row] = False
        texts = list(self.corpus.contents(row, row + 1))
        kind, encoder = parse_retriever(retriever or "dense")
        index = self.dense(encoder)

        def search(depth: int, allowed: Mask | None) -> Ranking:
            if not (self.has_vectors or index.refusal):
                return self.lexical.search(texts, depth, allowed)
            return index.index.search(np.asarray(self.vectors.matrix[row : row + 1], np.float32), depth, allowed)

        def rank(depth: int) -> Ranking:
            if retriever:
                return self.search_rows(texts, depth, retriever, allowed, itself=np.array([row]))
            return self._find_whole(search, depth, allowed)

        hits = self._hits(rank, k, diversity, index)
        text = texts[0][:LONGEST_QUERY]
        if RETRIEVERS[kind].by_paths:
            return self._with_paths(hits, text, index, allowed, learned=True, itself=row)
        return self._with_paths(hits, text, index, itself=row) if paths else hits

    def _hits(
        self, rank: Callable[[int], Ranking], k: int, diversity: float, index: EncoderIndex, query: Query | None = None
    ) -> list[Hit]:
        """The k best distinct passages of a ranking (1, depth) that a query admits.

        `rank` takes the depth, `index` tells passages apart.

        With `diversity` the first _DIVERSIFIED change their order, however many are wanted: pages fit together.
        """
        wanted = max(k, _DIVERSIFIED) if diversity > 0 else k
        depth = max(50, 2 * wanted)
        while True:
            rows, scores = (part[0] for part in rank(depth))
            distinct = self._distinct(rows[rows >= 0], scores[rows >= 0], wanted, index, query)
            if len(distinct) >= wanted or rows[-1] < 0 or (query and query.reads_texts and depth >= _MOST_READ):
                break
            depth *= 4
        if diversity > 0 and distinct and index.exists:
            first = distinct[:_DIVERSIFIED]
            vectors = np.stack([index.vectors.matrix[row] for row, _ in first]).astype(np.float32)
            relevance = np.array([hit.score for _, hit in first], dtype=np.float32)
            order = diversify(relevance, vectors, k, min(diversity, 1.0))
            distinct = [first[place] for place in order] + distinct[_DIVERSIFIED:]
        return [hit for _, hit in distinct[:k]]

    def _distinct(
        self, rows: Integers, scores: Floats, wanted: int, index: EncoderIndex, query: Query | None
    ) -> list[tuple[int, Hit]]:
        """The rows and hits of a ranking, each text once, whatever its case and spacing; at least those `wanted`.

        Of texts that are equal to the letter, as the hashes beside the vectors tell, only the best is read.
        """
        equal: dict[int, list[int]] = {}
        keys = rows if index.hashes is None else index.hashes[rows]
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
                if query and not query.admits(f"{passage.title}\n{passage.text}", passage.proof):
                    continue
                text = " ".join(passage.content.split()).casefold()
                if text in same:
                    same[text][2].extend((first, *others))
                else:
                    same[text] = int(rows[first]), Hit(passage.id, float(scores[first]), passage=passage), others
        return [
            (row, hit._replace(repeats=self.corpus.ids_of(rows[sorted(others)].tolist())) if others else hit)
            for row, hit, others in same.values()
        ]
