"""The data of pretraining: texts worth reading, tokenised once into a file, cut into windows, words masked.

Windows, their order and their masks follow from (seed, epoch, window) alone.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import InputError, require
from lemmata.core.types import Integers, Mask, Progress
from lemmata.core.workspace import read_manifest, write_manifest

UNMASKED = -100  # the label of a token that is not masked
SHARE = 0.15  # of tokens that are masked
CHARACTERS = 2**20  # tokenised at once
Ids = npt.NDArray[Any]  # (n,) uint16 or int32 on disk, int64 in a window


# ---------------------------------------------------------------- what is read

_UNREAD_KINDS = frozenset("algorithm code listing table figure reference bibliography location".split())

_UNREAD_HEADING = re.compile(
    r"(?:(?:appendix|anhang|annexe?)\b\s*)?(?:[\dA-Z]{1,2}(?:\.\d+)*[.:)]?\s+)?[-–—:.\s]*(?:"
    r"references?(?: and notes| cited)?|(?:selected |annotated )?bibliograph\w*|literatur\w*|works cited|citations"
    r"|(?:further|suggested|recommended) reading|références"
    r"|acknowledge?ments?\b.*|thanks|danksagung\w*|remerciements|dedication|funding\b.*|financial support|grants?"
    r"|authors?|list of authors|contributors|authors?['’]?s? (?:contributions?|information|affiliations?|address\w*)"
    r"|affiliations?|(?:contact|mailing) address\w*|about the authors?|credits?|credit authorship\b.*"
    r"|(?:declaration of )?(?:conflicts? of|competing|declaration of) interests?|declarations?"
    r"|(?:data|code|software)(?: and (?:data|code|materials?|software))? availability\b.*|availability of\b.*"
    r"|supplementary (?:materials?|information|files?)|(?:table of )?contents|inhaltsverzeichnis|table des matières"
    r"|(?:subject |author |notation )?index(?: of (?:notations?|symbols|terms|names))?"
    r"|list of (?:figures|tables|symbols|abbreviations|publications|notations?)|other chapters|changelog"
    r"|(?:numerical |extended |additional |supplementary )?tables?(?: of (?:values|numbers|numerical|coefficients|data)"
    r"\b.*)?|(?:additional |supplementary )?figures|(?:raw |numerical )data"
    r"|(?:(?:source|computer|program|python|sage|sagemath|magma|maple|mathematica|matlab|gap|lean|coq|c\+\+|julia|r) )?"
    r"(?:code|codes|program|programs|scripts?|listings?)(?: listings?)?|quell(?:code|text)\w*"
    r"|(?:.* )?(?:free documentation )?licen[cs]e"
    r")\s*[.:]?",
    re.IGNORECASE,
)


def worth_reading(kind: str, section: str, sections: Sequence[str] = ()) -> bool:
    """Whether a passage of this kind, under this heading (`outer / inner`), holds prose and mathematics.

    Statements, proofs, chunks, abstracts and logs are read; code, tables and everything below a heading such as
    References, Acknowledgements, Contents or Source code are not. With `sections`, a heading must also contain one of
    these words; passages without a heading, such as an abstract, are always read.
    """
    if kind in _UNREAD_KINDS:
        return False
    headings = [heading.strip() for heading in section.split(" / ") if heading.strip()]
    if any(_UNREAD_HEADING.fullmatch(heading) for heading in headings):
        return False
    return not (sections and headings) or any(word.lower() in section.lower() for word in sections)


# ---------------------------------------------------------------- tokens


class Tokens(NamedTuple):
    """Documents one after the other, without special tokens."""

    flat: Ids  # memory-mapped
    starts: Integers  # (documents + 1,)
    documents: list[str]  # ids; a document whose texts were not consecutive is listed several times


def texts_key(tokenizer: Any, texts: Iterable[tuple[str, str]]) -> str:
    """A hash of the texts and the tokenizer."""
    digest = hashlib.blake2b(tokenizer.backend_tokenizer.to_str().encode(), digest_size=16)
    for document, text in texts:
        for part in (document, text):
            data = part.encode("utf-8", "replace")
            digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _joined(texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Consecutive texts of one document as one text."""
    for document, group in itertools.groupby(texts, key=lambda pair: pair[0]):
        text = "\n\n".join(text for _, text in group)
        yield document, text.encode("utf-8", "replace").decode("utf-8")  # tokenizers refuse lone surrogates


def tokenise(tokenizer: Any, texts: Iterable[tuple[str, str]], folder: Path, progress: Progress) -> Tokens:
    """Write the tokens of all texts to `folder`, the manifest last, or open them where they are complete."""
    manifest = read_manifest(folder / "manifest.json")
    if manifest is None:
        manifest = _write_tokens(tokenizer, texts, folder, progress)
    size = int(manifest["tokens"])
    kind = np.dtype(manifest["type"])
    flat = np.memmap(folder / "tokens.bin", kind, "r", shape=(size,)) if size else np.zeros(0, kind)
    documents = json.loads((folder / "documents.json").read_text(encoding="utf-8"))
    return Tokens(flat, np.load(folder / "starts.npy"), documents)


def _write_tokens(tokenizer: Any, texts: Iterable[tuple[str, str]], folder: Path, progress: Progress) -> dict[str, Any]:
    library = require("tokenizers", "train")
    backend = library.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    kind = np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.int32)
    folder.mkdir(parents=True, exist_ok=True)
    documents: list[str] = []
    lengths: list[int] = []
    with (folder / "tokens.bin").open("wb") as stream:
        for batch in _batches(_joined(texts)):
            for encoding in backend.encode_batch_fast([text for _, text in batch], add_special_tokens=False):
                ids = np.asarray(encoding.ids, kind)
                stream.write(ids.tobytes())
                lengths.append(len(ids))
            documents += [document for document, _ in batch]
            progress("tokenising", len(documents), None)
    np.save(folder / "starts.npy", np.cumsum([0, *lengths], dtype=np.int64))
    (folder / "documents.json").write_text(json.dumps(documents), encoding="utf-8")
    content = {"type": kind.name, "tokens": sum(lengths)}
    write_manifest(folder / "manifest.json", content)
    return content


def _batches(texts: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    size = 0
    for document, text in texts:
        batch.append((document, text))
        size += len(text)
        if size >= CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def cut_windows(starts: Integers, length: int, overlap: int) -> Integers:
    """First and last place, exclusive, of each window (n, 2), document by document, in order.

    Two neighbours share exactly `overlap` tokens; a document's last window may be shorter, but is never only overlap.
    """
    step = length - overlap
    sizes = np.diff(starts)
    number = np.where(sizes > 0, 1 + np.maximum(0, -(-(sizes - length) // step)), 0)
    of_document = np.repeat(np.arange(len(sizes)), number)
    within = np.arange(len(of_document)) - np.repeat(np.cumsum(number) - number, number)
    first = starts[of_document] + within * step
    return np.stack((first, np.minimum(first + length, starts[of_document + 1])), axis=1).astype(np.int64)


def hold_out(documents: Sequence[str], share: float, seed: int) -> Mask:
    """Which documents are held out (n,): about `share`, at least one where there are two."""
    distinct = sorted(set(documents), key=lambda name: hashlib.blake2b(f"{seed}:{name}".encode()).digest())
    number = max(0, min(max(1, round(share * len(distinct))), len(distinct) - 1))
    chosen = set(distinct[:number])
    return np.array([name in chosen for name in documents], bool)


# ---------------------------------------------------------------- masks


class Masking(NamedTuple):
    """What masking needs to know of a tokenizer."""

    before: tuple[int, ...]  # special tokens that open a window
    after: tuple[int, ...]  # and close it
    pad: int
    mask: int
    ordinary: Mask  # (ids,) no special token
    continues: Mask | None  # (ids,) belongs to the word before it; None where each token counts as a word


def read_masking(tokenizer: Any) -> Masking:
    """Whole words are masked where continued pieces have a prefix (`##`), as in WordPiece; elsewhere single tokens."""
    if tokenizer.mask_token_id is None or tokenizer.pad_token_id is None:
        raise InputError("the base's tokenizer has no mask or padding token, so the base cannot be pretrained")
    plain = tokenizer.encode("a", add_special_tokens=False)
    framed = tokenizer.encode("a")
    at = next(n for n in range(len(framed)) if framed[n : n + len(plain)] == plain)
    ordinary = np.ones(len(tokenizer), bool)
    ordinary[[number for number in tokenizer.all_special_ids if number < len(ordinary)]] = False
    prefix = getattr(tokenizer.backend_tokenizer.model, "continuing_subword_prefix", None)
    continues = None
    if prefix:
        continues = np.zeros(len(tokenizer), bool)
        continues[[number for token, number in tokenizer.get_vocab().items() if token.startswith(prefix)]] = True
    return Masking(
        tuple(framed[:at]),
        tuple(framed[at + len(plain) :]),
        tokenizer.pad_token_id,
        tokenizer.mask_token_id,
        ordinary,
        continues,
    )


def mask_window(ids: Ids, masking: Masking, generator: np.random.Generator) -> tuple[Ids, Ids]:
    """Input and labels of a window (n,), both with its special tokens.

    Whole words are chosen, at least one, until they make up about `SHARE` of the tokens. Of their tokens 80 % become
    the mask, 10 % a random ordinary token, 10 % stay (Devlin et al. 2019, arXiv:1810.04805).
    """
    ids = np.asarray(ids, np.int64)
    ordinary = masking.ordinary[ids]
    begins = np.ones(len(ids), bool)
    if masking.continues is not None and len(ids):
        begins[1:] = ~masking.continues[ids[1:]] | ~ordinary[:-1]
    word = np.cumsum(begins) - 1
    candidates = np.unique(word[ordinary])
    order = generator.permutation(candidates)
    sizes = np.bincount(word, minlength=1)[order]
    reached = np.cumsum(sizes)
    chosen = order[reached - sizes / 2 <= SHARE * ordinary.sum()] if len(order) else order
    masked = np.isin(word, chosen if len(chosen) else order[:1]) & ordinary
    labels = np.where(masked, ids, UNMASKED)
    fate = generator.random(len(ids))
    others = generator.choice(np.flatnonzero(masking.ordinary), len(ids))
    inputs = np.where(masked & (fate < 0.8), masking.mask, ids)
    inputs = np.where(masked & (fate >= 0.9), others, inputs)
    frame = np.full(len(masking.before), UNMASKED), np.full(len(masking.after), UNMASKED)
    return (
        np.concatenate((masking.before, inputs, masking.after)).astype(np.int64),
        np.concatenate((frame[0], labels, frame[1])).astype(np.int64),
    )


class Windows:
    """Windows of all epochs, in the order in which they are read; number n belongs to epoch n // windows."""

    def __init__(self, tokens: Ids, places: Integers, masking: Masking, seed: int) -> None:
        self._tokens, self._places, self._masking, self._seed = tokens, places, masking, seed
        self._order: tuple[int, Integers] = (-1, np.zeros(0, np.int64))  # of one epoch

    def __getitem__(self, number: int) -> tuple[Ids, Ids]:
        epoch, place = divmod(number, len(self._places))
        if self._order[0] != epoch:
            self._order = epoch, np.random.default_rng((self._seed, epoch)).permutation(len(self._places))
        return self.masked(epoch, int(self._order[1][place]))

    def masked(self, epoch: int, window: int) -> tuple[Ids, Ids]:
        first, last = self._places[window]
        generator = np.random.default_rng((self._seed, epoch, window))
        return mask_window(self._tokens[first:last], self._masking, generator)


def collate(pairs: Sequence[tuple[Ids, Ids]], pad: int, longest: int) -> dict[str, Any]:
    """Windows as one batch of tensors (n, width); the width is a multiple of 8, or `longest`."""
    torch = require("torch", "train")
    width = min(-(-max(len(ids) for ids, _ in pairs) // 8) * 8, longest)
    ids = np.full((len(pairs), width), pad, np.int64)
    labels = np.full((len(pairs), width), UNMASKED, np.int64)
    attention = np.zeros((len(pairs), width), np.int64)
    for row, (inputs, targets) in enumerate(pairs):
        ids[row, : len(inputs)], labels[row, : len(inputs)], attention[row, : len(inputs)] = inputs, targets, 1
    arrays = {"input_ids": ids, "attention_mask": attention, "labels": labels}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
