"""BM25 over the tokens of passages: plain arrays on disk, opened in milliseconds, incremental.

The score of a passage p for the tokens t of a query (Robertson and Zaragoza 2009, with Lucene's idf):

    sum over t of  q(t) * idf(t) * f / (f + k1 * (1 - b + b * |p| / mean length)),   f: how often t stands in p
    idf(t) = log(1 + (n - df + 0.5) / (df + 0.5)),                                   df: passages that hold t
    q(t) = (k3 + 1) * c / (k3 + c),                                                  c: how often the query names t

A symbol of the query counts once, however often it stands there (`Tokenizer.counts`).

A passage may have a heading: that of its section, the title of its document. Its tokens are kept apart, so that a
search may leave them out, which gives the scores of an index without headings. With a heading weight w the two fields
are joined (BM25F; Robertson, Zaragoza and Taylor 2004); the length of the text says nothing about its heading:

    f / (1 - b + b * |p| / mean length) + w * h,   h: how often t stands in the heading

takes the place of f, k1 that of the length, and df counts the passages that hold t in either field.

A proof is a row of its own behind all passages, which finds its passage: this scores the larger of its own score and a
share of that of its proof. n, df and the mean length are those of the passages alone, so that their scores do not
depend on proofs.

The tokens are those of the corpus' language (see `tokens.py`); the index stores it, with the parts of compounds, so
that queries and later passages are read in the same way. bm25s is the oracle for the scores, in any language.

A folder holds segments of consecutive passages and `index.json`, which names them. What is stored (frequencies and
lengths) does not depend on the rest of the collection; n, df and the mean length are counted at query time, over the
passages that are still there. So an index that grew and shrank gives exactly the rankings and scores of a new one.
"""

from __future__ import annotations

import json
import math
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import chain, islice, repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import WorkspaceError, other_format
from lemmata.core.files import create_array, read_array, read_json, release_pages, write_atomically, writing
from lemmata.core.types import Floats, Integers, Mask, Ranking, no_hits
from lemmata.search.spelling import SHORTEST, Spelling
from lemmata.search.tokens import Tokenizer
from lemmata.vectors.exact import best, check_allowed

FORMAT = 5  # raised when the files or the tokens change
K3 = 8.0  # how much the repetition of a word in a query counts; 0: not at all
_INDEX = "index.json"
_ORDER = "order.npy"  # the row of each passage, -1 for a removed one; missing where all stand in order
_PROVEN = "proven.npy"  # the row of the passage of each proof; missing where there are none
_PARTS = "parts.txt"  # parts of compounds, one a line; missing in English
_WORDS = "words.txt"  # of a segment: the words among its tokens, one a line, in the order of the keys
_CURE = "run 'lemmata index' again"
_CHUNK = 1 << 16  # passages counted in memory at once
_MERGED_POSTINGS = 1 << 22  # postings moved in memory at once


class _Segment(NamedTuple):
    """The postings of consecutive passages; token i stands in `rows[starts[i] : starts[i + 1]]`."""

    keys: npt.NDArray[np.uint64]  # (tokens,) hashes, sorted
    starts: Integers  # (tokens + 1,)
    rows: npt.NDArray[np.int32]  # (postings,) counted from the first passage of the segment
    frequencies: npt.NDArray[np.uint16]  # (postings,); of a token of headings with that in the text, see _BITS_IN_TEXT
    lengths: npt.NDArray[np.int32]  # (passages,) in tokens, without the heading


_Postings = tuple[int, npt.NDArray[np.int32], npt.NDArray[np.uint16]]  # first passage of the segment, rows, frequencies


class _Term(NamedTuple):
    """A token of a query; no passage gains more from it than its weight."""

    weight: np.float32
    in_texts: list[_Postings]
    in_headings: list[_Postings]
    heading_weight: np.float32
    proof_weight: np.float32

    @property
    def postings(self) -> int:
        return sum(len(rows) for _, rows, _ in (*self.in_texts, *self.in_headings))


class LexicalIndex:
    """BM25 over a folder that `build` or `add` wrote; memory-mapped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = 0  # postings since their pages were released
        self._load()

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        folder: Path,
        *,
        headings: Iterable[str] = (),
        proven: Integers | None = None,
        tokenizer: Tokenizer | None = None,
        k1: float = 1.2,
        b: float = 0.8,
    ) -> LexicalIndex:
        """Index the texts, row by row; an existing index in the folder is replaced at the end.

        `headings` has one per text, or is empty. The last texts are proofs of the `proven` rows. The
        tokenizer, by default that of English, is stored with the index.
        """
        tokenizer = tokenizer or Tokenizer()
        with writing(folder) as temporary:
            temporary.mkdir()
            if tokenizer.language != "en":
                (temporary / _PARTS).write_text("".join(f"{part}\n" for part in sorted(tokenizer.parts)), "utf-8")
            names = _write_segments(texts, headings, temporary, tokenizer, first=0)
            _write_rows(temporary / _PROVEN, proven)
            _write_index(temporary, names, k1, b, tokenizer.language)
        return cls(folder)

    @classmethod
    def open(cls, folder: Path) -> LexicalIndex:
        """Open what `build` wrote; WorkspaceError where there is no complete index."""
        return cls(folder)

    def __len__(self) -> int:
        return self._length

    @property
    def order(self) -> Integers:
        """The row of each passage and proof in the order in which they were added; -1 for a removed one."""
        return np.arange(len(self) + len(self._proven)) if self._order is None else self._order

    def add(
        self,
        texts: Iterable[str],
        headings: Iterable[str] = (),
        *,
        order: Integers | None = None,
        proven: Integers | None = None,
    ) -> None:
        """Append passages; they can be found at once.

        `order` has the row of each passage, old ones first; -1 removes it, as if it had never been added. The rows are
        0, 1, 2, …, each once; left out, the new passages come last. The last rows are proofs of the `proven` ones.

        Segments are merged when a later one is more than half as long as the one before it, so there are
        never more than log2(passages) of them and each posting is moved at most that often.
        """
        used = [int(name.split("-")[1]) for name in self._names]
        first = max(used, default=-1) + 1
        names = self._names + _write_segments(texts, headings, self._folder, self.tokenizer, first=first)
        lengths = [len(_read_segment(self._folder / name).lengths) for name in names]
        if order is None and self._order is not None:
            order = np.append(self._order, np.arange(sum(lengths) - len(self._order)) + len(self) + len(self._proven))
        while len(names) > 1 and 2 * lengths[-1] > lengths[-2]:
            merged = f"segment-{max(int(name.split('-')[1]) for name in names) + 1}"
            _merge([self._folder / name for name in names[-2:]], self._folder / merged)
            names[-2:] = [merged]
            lengths[-2:] = [lengths[-2] + lengths[-1]]
        is_ordered = order is None or np.array_equal(order, np.arange(len(order)))
        _write_rows(self._folder / _ORDER, None if is_ordered else order)
        _write_rows(self._folder / _PROVEN, proven)
        _write_index(self._folder, names, self._k1, self._b, self.tokenizer.language)
        for path in self._folder.glob("segment-*"):
            if path.name not in names:
                shutil.rmtree(path)
        self._load()

    def search(
        self,
        queries: Sequence[str],
        k: int,
        allowed: Mask | None = None,
        *,
        heading_weight: float = 0.0,
        proof_weight: float = 0.0,
    ) -> Ranking:
        """Rows and scores as in lemmata.core.types.Index; passages without a token of the query are no hits.

        `heading_weight` is that of a word in a heading against one in a passage of mean length, `proof_weight` the
        share of the score of its proof that a passage gets.
        """
        check_allowed(allowed, len(self))
        rows, scores = no_hits(len(queries), k)
        excluded = self._excluded(allowed, with_proofs=proof_weight > 0)
        for number, query in enumerate(queries if k > 0 else ()):
            terms = self._terms(query, heading_weight, proof_weight)
            passages, values = self._rank(terms, 2 * k if proof_weight and len(self._proven) else k, excluded)
            winners = best(values, k)
            rows[number, : len(winners)] = passages[winners]
            scores[number, : len(winners)] = values[winners]
        if self._read > _MOST_READ:
            self._read = 0
            for segment in self._segments:
                release_pages(segment.rows, segment.frequencies)
        return rows, scores

    def shares(self, query: str, rows: Integers, *, heading_weight: float = 0.0, proof_weight: float = 0.0) -> Floats:
        """How much of a query some passages hold (rows,): BM25 beside `bound`."""
        allowed = np.zeros(len(self), bool)
        allowed[rows] = True
        best_rows = self.search([query], len(rows), allowed, heading_weight=heading_weight, proof_weight=proof_weight)
        found, scores = (part[0] for part in best_rows)
        score_of = dict(zip(found.tolist(), scores.tolist(), strict=True))
        gained = np.array([score_of.get(row, 0.0) for row in rows.tolist()], np.float32)
        return np.asarray(gained / self.bound(query, heading_weight=heading_weight), np.float32)

    def bound(self, query: str, *, heading_weight: float = 0.0) -> float:
        """What BM25 is measured by: more than any passage can score, over the root of the number of words.

        It counts the words that the corpus does not have, too. No passage holds all words of a long query, hence the
        root.
        """
        tokens, terms = len(self.tokenizer.counts(query)), self._terms(query, heading_weight)
        rarest = math.log1p((len(self) + 0.5) / 0.5)
        most = sum(float(term.weight) for term in terms) + (tokens - len(terms)) * rarest
        return most / math.sqrt(tokens) if tokens else 1.0

    @cached_property
    def spelling(self) -> Spelling:
        """The words of the passages, for those that nearly write one of them."""
        counts: dict[str, int] = {}
        for name, segment in zip(self._names, self._segments, strict=True):
            words = _read_words(self._folder / name)
            for word, count in zip(words, np.diff(segment.starts).tolist(), strict=False):
                if word:
                    counts[word] = counts.get(word, 0) + count
        return Spelling(counts)

    def holding(self, token: str, most: int) -> list[int]:
        """The first rows that hold a token in their text."""
        ranges = [_find(segment, np.array([_key(token)], np.uint64)) for segment in self._segments]
        passages = [first + int(row) for first, rows, _ in self._postings(ranges, 0) for row in rows[: most + 8]]
        rows = passages if self._order is None else self._order[passages].tolist()
        return [row for row in rows if 0 <= row < len(self)][:most]

    def _rank(self, terms: Sequence[_Term], k: int, excluded: Mask | None) -> Ranking:
        """Rows, ascending, and scores of passages that hold the k best."""
        postings = sum(term.postings for term in terms)
        self._read += postings
        candidates = self._candidates(terms, k, excluded) if postings > _EXHAUSTIVE else None
        scores = self._zeros(excluded) if candidates is None else np.zeros(len(candidates), np.float32)
        for term in terms:  # in their order: the sum of floats depends on it
            self._add(scores, term, candidates)
        if candidates is None:
            candidates = np.flatnonzero(scores >= max(_at_most(scores, k), _TINY))
            scores = scores[candidates]
        rows = candidates if self._order is None else self._order[candidates]
        if len(self._proven):
            is_proof = rows >= len(self)
            rows[is_proof] = self._proven[rows[is_proof] - len(self)]
        by_row = np.lexsort((-scores, rows))
        rows, scores = rows[by_row], scores[by_row]
        is_best = np.diff(rows, prepend=-1) > 0  # of a passage and its proof
        return rows[is_best], scores[is_best]

    def _excluded(self, allowed: Mask | None, *, with_proofs: bool) -> Mask | None:
        """The passages and proofs, as they stand in the segments, that are no hits; None where all may be."""
        with_proofs = with_proofs or not len(self._proven)
        if allowed is None and not len(self._removed) and with_proofs:
            return None
        excluded = np.zeros(len(self._norms), bool)
        if allowed is not None or not with_proofs:
            allowed = np.ones(len(self), bool) if allowed is None else allowed
            allowed = np.append(allowed, allowed[self._proven] & with_proofs)
            excluded = ~(allowed if self._order is None else allowed[self._order])
        excluded[self._removed] = True
        return excluded

    def _zeros(self, excluded: Mask | None) -> Floats:
        """Scores to begin with; nothing can be added to those of excluded passages."""
        scores = np.zeros(len(self._norms), np.float32)
        if excluded is not None:
            scores[excluded] = -np.inf
        return scores

    def _candidates(self, terms: Sequence[_Term], k: int, excluded: Mask | None) -> Integers:
        """Passages that hold the k best, ascending; those that cannot be among them are mostly left out.

        MaxScore (Turtle and Flood 1995): a token adds at most its weight. Tokens are added in the order of weights,
        until a passage with none of them cannot reach the k-th best. The others, which are the most frequent, are then
        looked up, and only for the passages that they can still lift high enough.
        """
        scores = self._zeros(excluded)
        ordered = sorted(terms, key=lambda term: -term.weight)
        left = np.cumsum([0.0, *(float(term.weight) for term in reversed(ordered))])[::-1]  # what is still to come
        candidates: Integers | None = None
        least = _TINY  # no more than the k-th best score
        for number, term in enumerate(ordered):
            # passages gain about half of the weights, so only then can the k-th best have more than what is to come
            if candidates is None and term.postings > _MANY and left[0] > 2.5 * left[number]:
                least = max(least, _SLACK * _at_most(scores, k))
                if least > left[number]:
                    usable = scores >= least - left[number]
                    if _LOOK_UP * np.count_nonzero(usable) < term.postings:
                        candidates = np.flatnonzero(usable)
                        scores = scores[candidates]
            self._add(scores, term, candidates)
            if candidates is not None:
                least = max(least, _SLACK * _at_most(scores, k))
                kept = scores >= least - left[number + 1]
                candidates, scores = candidates[kept], scores[kept]
        if candidates is None:
            candidates = np.flatnonzero(scores >= max(least, _SLACK * _at_most(scores, k)))
        return candidates

    def _terms(self, query: str, heading_weight: float, proof_weight: float = 0.0) -> list[_Term]:
        """The tokens of a query that stand in a passage, in their order."""
        counts = self.tokenizer.counts(query)
        keys = np.array([_key(prefix + token) for prefix in ("", _HEADING) for token in counts], np.uint64)
        ranges = [_find(segment, keys) for segment in self._segments]
        terms = []
        for number, count in enumerate(counts.values()):
            in_texts = self._postings(ranges, number)
            in_headings = self._postings(ranges, len(counts) + number) if heading_weight else []
            holding = sum(self._count(first, rows) for first, rows, _ in in_texts)
            for first, rows, packed in in_headings:
                not_in_text = packed & _MOST_IN_TEXT == 0
                holding += self._count(first, rows[not_in_text])
            if holding or (proof_weight and in_texts):
                idf = math.log1p((len(self) - holding + 0.5) / (holding + 0.5))
                weight = np.float32((K3 + 1) * count / (K3 + count) * idf)
                of_heading = np.float32(heading_weight / self._k1)
                terms.append(_Term(weight, in_texts, in_headings, of_heading, np.float32(proof_weight)))
        return terms

    def _postings(self, ranges: list[tuple[list[int], list[int]]], number: int) -> list[_Postings]:
        """Those of one of the tokens, from its range in each segment."""
        parts = []
        for segment, first, (starts, stops) in zip(self._segments, self._offsets.tolist(), ranges, strict=True):
            place = slice(starts[number], stops[number])
            if place.start < place.stop:
                parts.append((first, segment.rows[place], segment.frequencies[place]))
        return parts

    def _count(self, first: int, rows: npt.NDArray[np.int32]) -> int:
        """How many of the rows of a segment, which begins at `first`, are passages: no removed ones, and no proofs."""
        if not len(self._uncounted) or not len(rows):
            return len(rows)
        begin, end = np.searchsorted(self._uncounted, (first, first + int(rows[-1]) + 1))
        return len(rows) - len(_look_up(rows, self._uncounted[begin:end] - first)[0])

    def _add(self, scores: Floats, term: _Term, candidates: Integers | None) -> None:
        """Add what a token gives to each of the candidates, which ascend; None: to all passages."""
        for postings in term.in_texts:
            places, passages, frequencies = _select(*postings, candidates)
            gains = frequencies.astype(np.float32)
            gains /= self._norms.take(passages, mode="clip") + gains
            gains *= term.weight
            if self._is_proof is not None:
                gains[self._is_proof[passages]] *= term.proof_weight
            np.add.at(scores, places, gains)
        for postings in term.in_headings:
            places, passages, packed = _select(*postings, candidates)
            # u / (u + 1), u = f / norm, becomes (u + h) / (u + h + 1), which is more by h / ((u + 1) (u + h + 1))
            times = (packed >> _BITS_IN_TEXT) * term.heading_weight
            divisor = (packed & _MOST_IN_TEXT) / self._norms.take(passages, mode="clip")
            divisor += 1
            gains = term.weight * times
            times += divisor
            times *= divisor
            gains /= times
            np.add.at(scores, places, gains)

    def _load(self) -> None:
        content = read_json(self._folder / _INDEX, _CURE)
        language = str(content.get("language", "en"))
        if content.get("format") != FORMAT:
            raise other_format(self._folder, content.get("format"), FORMAT, _CURE)
        if not hasattr(self, "tokenizer"):  # which an index keeps when it grows
            self.tokenizer = Tokenizer(language, () if language == "en" else _read_parts(self._folder / _PARTS))
        self.__dict__.pop("spelling", None)
        self._k1, self._b = float(content["k1"]), float(content["b"])
        self._names: list[str] = content["segments"]
        self._segments = [_read_segment(self._folder / name) for name in self._names]
        lengths = np.concatenate([np.empty(0, np.int32), *(segment.lengths for segment in self._segments)])
        self._offsets = np.cumsum([0, *(len(segment.lengths) for segment in self._segments)])[:-1]
        self._order = _read_rows(self._folder / _ORDER)
        self._proven = _NO_ROWS if (proven := _read_rows(self._folder / _PROVEN)) is None else proven
        self._removed = _NO_ROWS if self._order is None else np.flatnonzero(self._order < 0)
        self._length = len(lengths) - len(self._removed) - len(self._proven)
        if self._length < 0 or (self._order is not None and self._order.shape != lengths.shape):
            raise WorkspaceError(f"the files in {self._folder} belong to several indexes: {_CURE}")
        rows = np.arange(len(lengths)) if self._order is None else self._order
        self._is_proof = rows >= self._length if len(self._proven) else None
        self._uncounted = self._removed if self._is_proof is None else np.flatnonzero(self._is_proof | (rows < 0))
        # summed as integers: the mean does not depend on the segments
        total = int(lengths.sum(dtype=np.int64)) - int(lengths[self._uncounted].sum(dtype=np.int64))
        mean = max(1.0, total / max(1, self._length))
        self._norms: Floats = (self._k1 * (1 - self._b + self._b * lengths / mean)).astype(np.float32)


_HEADING = "\n"  # in front of the tokens of headings; no token of a text holds one
# The frequency of a token in a heading is stored with that in the text below it, which then need not be looked up.
_BITS_IN_TEXT = 12
_MOST_IN_TEXT = np.uint16((1 << _BITS_IN_TEXT) - 1)
_NO_ROWS = np.empty(0, np.int64)
_MOST_IN_HEADING = np.iinfo(np.uint16).max >> _BITS_IN_TEXT
_EXHAUSTIVE = 1 << 17  # postings of a query that are all added
_MANY = 1 << 16  # postings of a token before which it is worth while to see whether all are needed
_MOST_READ = 1 << 24  # postings, some 100 MB, until their pages are released; to map them again takes milliseconds
_LOOK_UP = 8  # postings that are added in the time in which one is looked up
_SLACK = 0.9999  # sums of 32-bit floats in another order differ by less
_TINY = 1e-30  # less than any score
_STRIPES = 4096  # maxima among which the k-th best score is looked for


def _key(token: str) -> int:
    """64-bit hash of a token; two of a million tokens collide in one of forty million indexes."""
    return int.from_bytes(blake2b(token.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def _find(segment: _Segment, keys: npt.NDArray[np.uint64]) -> tuple[list[int], list[int]]:
    """Where the postings of each key start and stop; equal where the segment lacks the key."""
    if not len(segment.keys):
        return [0] * len(keys), [0] * len(keys)
    places = np.minimum(np.searchsorted(segment.keys, keys), len(segment.keys) - 1)
    held = segment.keys[places] == keys
    starts = segment.starts[places]
    return starts.tolist(), np.where(held, segment.starts[places + 1], starts).tolist()


def _select(
    first: int, rows: npt.NDArray[np.int32], frequencies: npt.NDArray[np.uint16], candidates: Integers | None
) -> tuple[Integers, Integers, npt.NDArray[np.uint16]]:
    """The postings of the candidates: their places among these, their passages and frequencies; None: of all."""
    if candidates is None:
        passages = rows.astype(np.int64)
        passages += first
        return passages, passages, frequencies
    begin, end = np.searchsorted(candidates, (first, first + int(rows[-1]) + 1))
    held, places = _look_up(rows, candidates[begin:end] - first)
    held += begin
    return held, candidates[held], frequencies[places]


def _look_up(rows: npt.NDArray[np.int32], wanted: Integers) -> tuple[Integers, Integers]:
    """Which of the wanted rows are there, and where; both ascend, and no wanted one comes after the last."""
    wanted_rows = wanted.astype(np.int32)  # of the same type, or searching would copy all rows
    places = np.searchsorted(rows, wanted_rows)
    held = np.flatnonzero(rows[places] == wanted_rows)
    return held, places[held]


def _at_most(scores: Floats, k: int) -> float:
    """The k-th largest score, or a little less; 0 where there are not so many."""
    stripes = max(_STRIPES, 16 * k)
    if len(scores) > 4 * stripes:  # the k-th largest of maxima is no larger, and nearly as large
        scores = scores[: len(scores) // stripes * stripes].reshape(-1, stripes).max(axis=0)
    return max(0.0, float(np.partition(scores, len(scores) - k)[len(scores) - k])) if len(scores) >= k else 0.0


# ---------------------------------------------------------------- on disk


def _write_index(folder: Path, names: list[str], k1: float, b: float, language: str) -> None:
    content = {"format": FORMAT, "k1": k1, "b": b, "segments": names}
    if language != "en":
        content["language"] = language
    write_atomically(folder / _INDEX, json.dumps(content, indent=1).encode())


def _read_parts(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise WorkspaceError(f"{path} cannot be read: {_CURE}") from error


def _write_segments(
    texts: Iterable[str], headings: Iterable[str], folder: Path, tokenizer: Tokenizer, *, first: int
) -> list[str]:
    """Write the texts as one segment (none without texts), chunk by chunk so that memory stays bounded."""
    parts: list[Path] = []
    remaining = zip(texts, chain(headings, repeat("")), strict=False)
    while chunk := _count(islice(remaining, _CHUNK), tokenizer):
        parts.append(folder / f"segment-{first + len(parts)}")
        _write_segment(*chunk, parts[-1])
    if len(parts) > 1:
        merged = folder / f"segment-{first + len(parts)}"
        _merge(parts, merged)
        for part in parts:
            shutil.rmtree(part)
        parts = [merged]
    return [part.name for part in parts]


def _count(passages: Iterator[tuple[str, str]], tokenize: Tokenizer) -> tuple[_Segment, list[str]] | None:
    """The postings of some texts with headings, and the words among the tokens; None without texts."""
    vocabulary: defaultdict[str, int] = defaultdict()
    vocabulary.default_factory = vocabulary.__len__  # a new token gets the next number
    numbers: list[npt.NDArray[np.int32]] = []
    lengths: list[int] = []
    for text, heading in passages:
        tokens = tokenize(text)
        lengths.append(len(tokens))
        if heading:
            tokens += [_HEADING + token for token in tokenize(heading)]
        numbers.append(np.fromiter(map(vocabulary.__getitem__, tokens), np.int32, len(tokens)))
    if not numbers:
        return None
    sizes = [len(tokens) for tokens in numbers]
    keys, places = np.unique(np.fromiter(map(_key, vocabulary), np.uint64, len(vocabulary)), return_inverse=True)
    flat = places[np.concatenate(numbers)] * len(numbers) + np.repeat(np.arange(len(numbers)), sizes)
    postings, frequencies = np.unique(flat, return_counts=True)
    frequencies = np.minimum(frequencies, np.iinfo(np.uint16).max)
    in_text = np.full(len(keys), -1)  # the place of the same token in texts, for tokens of headings
    for token, number in vocabulary.items():
        if token.startswith(_HEADING):
            in_text[places[number]] = places[vocabulary[token[1:]]] if token[1:] in vocabulary else len(keys)
    headed = np.flatnonzero(in_text[postings // len(numbers)] >= 0)
    wanted = in_text[postings[headed] // len(numbers)] * len(numbers) + postings[headed] % len(numbers)
    found = np.minimum(np.searchsorted(postings, wanted), len(postings) - 1)
    below = np.where(postings[found] == wanted, np.minimum(frequencies[found], _MOST_IN_TEXT), 0)
    frequencies[headed] = below | np.minimum(frequencies[headed], _MOST_IN_HEADING) << _BITS_IN_TEXT
    starts = np.searchsorted(postings, np.arange(len(keys) + 1) * len(numbers))
    words = [""] * len(keys)
    for token, number in vocabulary.items():
        if len(token) >= SHORTEST and token.isalpha():
            words[places[number]] = token
    segment = _Segment(
        keys,
        starts.astype(np.int64),
        (postings % len(numbers)).astype(np.int32),
        frequencies.astype(np.uint16),
        np.array(lengths, np.int32),
    )
    return segment, words


def _write_segment(segment: _Segment, words: Sequence[str], folder: Path) -> None:
    with writing(folder) as temporary:
        temporary.mkdir()
        for name, array in segment._asdict().items():
            np.save(temporary / f"{name}.npy", array)
        (temporary / _WORDS).write_text("\n".join(words), "utf-8")


def _read_words(folder: Path) -> list[str]:
    """The word of each key, empty for other tokens."""
    return (folder / _WORDS).read_text("utf-8").split("\n")


def _read_segment(folder: Path) -> _Segment:
    # asarray: still memory-mapped, but sliced without the cost of the memmap class
    return _Segment(*(np.asarray(read_array(folder / f"{name}.npy", _CURE)) for name in _Segment._fields))


def _write_rows(path: Path, rows: Integers | None) -> None:
    if rows is None or not len(rows):
        path.unlink(missing_ok=True)
        return
    with writing(path) as temporary, temporary.open("wb") as file:
        np.save(file, rows)


def _read_rows(path: Path) -> Integers | None:
    return np.asarray(read_array(path, _CURE)) if path.exists() else None


def _merge(folders: Sequence[Path], merged: Path) -> None:
    """Join segments of consecutive rows; a bounded number of postings is in memory at a time."""
    segments = [_read_segment(folder) for folder in folders]
    keys = np.unique(np.concatenate([segment.keys for segment in segments]))
    places = [np.searchsorted(keys, segment.keys) for segment in segments]
    counts = np.zeros(len(keys), np.int64)
    for segment, positions in zip(segments, places, strict=True):
        counts[positions] += np.diff(segment.starts)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    total = (int(starts[-1]),)
    with writing(merged) as temporary:
        temporary.mkdir()
        np.save(temporary / "keys.npy", keys)
        np.save(temporary / "starts.npy", starts)
        np.save(temporary / "lengths.npy", np.concatenate([segment.lengths for segment in segments]))
        words = [""] * len(keys)
        for folder, positions in zip(folders, places, strict=True):
            for place, word in zip(positions.tolist(), _read_words(folder), strict=False):
                words[place] = words[place] or word
        (temporary / _WORDS).write_text("\n".join(words), "utf-8")
        rows = create_array(temporary / "rows.npy", np.dtype(np.int32), total)
        frequencies = create_array(temporary / "frequencies.npy", np.dtype(np.uint16), total)
        free = starts[:-1].copy()  # where the next posting of each token goes
        offset = 0
        for segment, positions in zip(segments, places, strict=True):
            segment_counts = np.diff(segment.starts)
            first = 0
            while first < len(positions):
                last = int(np.searchsorted(segment.starts, segment.starts[first] + _MERGED_POSTINGS, "right")) - 1
                last = min(max(last, first + 1), len(positions))
                begin, end = int(segment.starts[first]), int(segment.starts[last])
                shift = free[positions[first:last]] - segment.starts[first:last]
                targets = np.arange(begin, end) + np.repeat(shift, segment_counts[first:last])
                rows[targets] = segment.rows[begin:end] + np.int32(offset)
                frequencies[targets] = segment.frequencies[begin:end]
                first = last
            free[positions] += segment_counts
            offset += len(segment.lengths)
        rows.flush()
        frequencies.flush()
        del rows, frequencies
