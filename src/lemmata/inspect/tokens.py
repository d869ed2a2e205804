"""How tokenizers cut the texts of a corpus: lengths, words and LaTeX in pieces, vocabularies, frequent tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.types import Floats, Integers
from lemmata.encode.onnx import open_tokenizer, readable

_FORMULA = re.compile(r"(?<!\\)\$[^$]*\$")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile(r"[^\W\d_]+")
_LONGEST = 100_000  # characters of a text that are tokenised
_BATCH = 256  # texts tokenised at once


class Tokens(NamedTuple):
    """A tokenizer that cuts nothing off and pads nothing."""

    tokenizer: Any
    vocabulary: Mapping[str, int]
    unknown: int | None  # number of the token for what it does not know
    special: frozenset[int]


def read_tokenizer(file: Path) -> Tokens:
    """The tokenizer of a `tokenizer.json`; InputError where there is none."""
    tokenizer = open_tokenizer(file)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    unknown = next((vocabulary[name] for name in ("[UNK]", "<unk>") if name in vocabulary), None)
    added = tokenizer.get_added_tokens_decoder().items()
    return Tokens(tokenizer, vocabulary, unknown, frozenset(number for number, token in added if token.special))


# ---------------------------------------------------------------- a corpus in tokens


class Cuts(NamedTuple):
    """Into how many tokens parts of texts are cut."""

    total: int  # parts
    pieces: float  # tokens for one part, on average; nan without any
    whole: float  # share of parts that are one token; nan without any


@dataclass(frozen=True, slots=True)
class Tokenisation:
    """The texts of a sample as one tokenizer cuts them."""

    tokens: Tokens
    lengths: Integers  # (texts,) tokens, with the special ones around a text
    max_tokens: int  # that the encoder reads
    used: int  # different ones in the sample
    unknown: float  # share of tokens
    in_formulas: float  # share of tokens inside $…$
    words: Cuts  # of prose
    commands: Cuts  # of LaTeX, in formulas, the name without its backslash
    counts: Counter[str]  # by token, without the special ones around a text

    @property
    def cut_off(self) -> float:
        """The share of texts whose end the encoder does not read."""
        return float((self.lengths > self.max_tokens).mean())


def tokenise(
    tokens: Tokens, texts: Sequence[str], max_tokens: int, progress: Callable[[int], None] = lambda _done: None
) -> Tokenisation:
    """Cut all texts; `progress` is told how many are done."""
    lengths = np.zeros(len(texts), np.int64)
    counts: Counter[str] = Counter()
    words: list[Integers] = []
    commands: list[Integers] = []
    inside = unknown = 0
    around = tokens.special - {tokens.unknown}
    for start in range(0, len(texts), _BATCH):
        part = [readable(text, _LONGEST) for text in texts[start : start + _BATCH]]
        for row, (text, encoding) in enumerate(zip(part, tokens.tokenizer.encode_batch(part), strict=True), start):
            lengths[row] = len(encoding.ids)
            own = [place for place, number in enumerate(encoding.ids) if number not in around]
            counts.update(encoding.tokens[place] for place in own)
            unknown += encoding.ids.count(tokens.unknown) if tokens.unknown is not None else 0
            offsets = np.array([encoding.offsets[place] for place in own], np.int64).reshape(-1, 2)
            formulas = [match.span() for match in _FORMULA.finditer(text)]
            prose = _spans(_WORD, _FORMULA.sub(lambda match: " " * len(match[0]), text))
            names = [(begin + 1, end) for place in formulas for begin, end in _spans(_COMMAND, text, *place)]
            words.append(cut_spans(offsets, prose))
            commands.append(cut_spans(offsets, names))
            inside += int(cut_spans(offsets, formulas).sum())
        progress(min(start + _BATCH, len(texts)))
    total = max(counts.total(), 1)
    return Tokenisation(
        tokens=tokens,
        lengths=lengths,
        max_tokens=max_tokens,
        used=len(counts),
        unknown=unknown / total,
        in_formulas=inside / total,
        words=_cuts(words),
        commands=_cuts(commands),
        counts=counts,
    )


def _spans(pattern: re.Pattern[str], text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    return [match.span() for match in pattern.finditer(text, start, len(text) if end is None else end)]


def cut_spans(offsets: Integers, spans: Sequence[tuple[int, int]]) -> Integers:
    """How many tokens (n, 2: begin and end, ascending) share a character with each span of a text."""
    if not len(offsets) or not spans:
        return np.zeros(len(spans), np.int64)
    begins, ends = np.array(spans, np.int64).T
    after = np.searchsorted(offsets[:, 0], ends, side="left")
    before = np.searchsorted(offsets[:, 1], begins, side="right")
    return np.asarray(after - before, np.int64)


def _cuts(parts: Sequence[Integers]) -> Cuts:
    every = np.concatenate([np.zeros(0, np.int64), *parts])
    if not len(every):
        return Cuts(0, float("nan"), float("nan"))
    return Cuts(len(every), float(every.mean()), float((every == 1).mean()))


def common_commands(texts: Iterable[str], most: int) -> list[tuple[str, int]]:
    """The most frequent LaTeX commands of formulas, with their counts."""
    counts: Counter[str] = Counter()
    for text in texts:
        for formula in _FORMULA.findall(text[:_LONGEST]):
            counts.update(_COMMAND.findall(formula))
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]


def pieces(tokens: Tokens, text: str) -> list[str]:
    """The tokens of a text, without the special ones around it."""
    return list(tokens.tokenizer.encode(readable(text, _LONGEST), add_special_tokens=False).tokens)


# ---------------------------------------------------------------- vocabularies


class VocabularyOverlap(NamedTuple):
    """What two vocabularies share."""

    shared: int  # tokens in both
    jaccard: float  # shared / in one of them
    text: float  # share of the sample's tokens, as the first one cuts it, that the second one has too


def plain_token(token: str, *, continues: bool) -> tuple[str, bool]:
    """A token without its marks, and whether it begins a word.

    WordPiece marks what continues a word (`##ing`), the others what begins one (`▁the`, `Ġthe`).
    """
    if continues:
        return (token[2:], False) if token.startswith("##") and len(token) > 2 else (token, True)
    return (token[1:], True) if token[:1] in ("▁", "Ġ") and len(token) > 1 else (token, False)


def plain_vocabulary(tokens: Tokens) -> dict[str, tuple[str, bool]]:
    """`plain_token` of every token but the special ones."""
    continues = any(token.startswith("##") and len(token) > 2 for token in tokens.vocabulary)
    return {
        token: plain_token(token, continues=continues)
        for token, number in tokens.vocabulary.items()
        if number not in tokens.special
    }


def vocabulary_overlap(first: Tokens, second: Tokens, counts: Mapping[str, int]) -> VocabularyOverlap:
    """What two vocabularies share; `counts` are those of the first tokenizer's tokens in a sample."""
    mine, others = plain_vocabulary(first), set(plain_vocabulary(second).values())
    own = set(mine.values())
    shared = len(own & others)
    in_both = sum(count for token, count in counts.items() if mine.get(token) in others)
    return VocabularyOverlap(shared, shared / max(len(own | others), 1), in_both / max(sum(counts.values()), 1))


# ---------------------------------------------------------------- token vectors


def token_norms(vectors: Floats, tokens: Tokens) -> dict[str, float]:
    """The length of the vector of each token, without special ones and those that have no row in `vectors`."""
    norms = np.linalg.norm(vectors, axis=1)
    return {
        token: float(norms[number])
        for token, number in tokens.vocabulary.items()
        if number not in tokens.special and number < len(norms)
    }
