"""A training job on disk: every text tokenised once, the training sets and validation tasks as numbers of texts.

It needs no workspace and no corpus, so that it can be packed on one machine and trained on another, and the
processor that feeds a GPU only copies numbers.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.encode.bert import read_architecture
from lemmata.errors import InputError, WorkspaceError
from lemmata.measures import Judged, evaluate, parse_measure
from lemmata.store.layout import read_manifest, write_manifest
from lemmata.types import Integers, Mask, Progress

__all__ = ["Job", "JobWriter", "TokenizedTexts", "Validation", "fingerprint", "fitted", "open_job"]

NUMBERS = np.int32  # of texts
BATCH = 1000  # texts that are tokenised at once
_CHARACTERS = 64  # per token that the model reads; no tokenizer is shown more of a text


class TokenizedTexts(NamedTuple):
    """Texts as token ids, special tokens included, one after the other."""

    flat: npt.NDArray[Any]  # (tokens,) uint16 or int32
    starts: Integers  # (texts + 1,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def lengths(self, numbers: Integers, longest: int) -> Integers:
        """Tokens of texts as they are shown to a model that reads `longest`."""
        lengths: Integers = np.minimum(self.starts[numbers + 1] - self.starts[numbers], longest)
        return lengths

    def padded(self, numbers: Integers, longest: int, pad: int) -> tuple[Integers, Integers]:
        """Token ids and attention mask (n, width); a text that is cut keeps its last token, which closes it."""
        lengths = self.lengths(numbers, longest)
        width = -(-int(lengths.max()) // 8) * 8 if len(lengths) else 0  # what matrix units like
        width = min(width, longest)
        mask = np.arange(width)[None, :] < lengths[:, None]
        places = np.minimum(self.starts[numbers][:, None] + np.arange(width)[None, :], max(len(self.flat) - 1, 0))
        ids = np.where(mask, self.flat[places].astype(np.int64), pad)
        ids[np.arange(len(numbers)), lengths - 1] = self.flat[self.starts[numbers + 1] - 1]
        return ids, mask.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Validation:
    """Queries, candidates and judgments; measured while training goes on."""

    name: str
    queries: Integers  # (q,) numbers of texts
    passages: Integers  # (p,)
    judged: Judged  # rows are places in `passages`
    itself: Integers  # (q,) the place of the passage that a query is, never an answer; else -1
    measure: str = "MRR@10"
    general: bool = False  # a guard against forgetting, not what training is for
    documents: Integers | None = None  # (p,) number of each passage's document, where it is known
    unseen: Mask | None = None  # (q,) whether the documents of a query are held out whole, where it is known

    def scores(
        self, ranked: Integers, measures: Sequence[str], *, level: str = "passage"
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Measures for each query; ranked: places (q, k) best first. At the level `document`, documents are ranked."""
        chosen = [parse_measure(name) for name in measures]
        if level == "document" and self.documents is None:
            raise InputError(f"the documents of the task {self.name!r} are not known")
        return evaluate(ranked, self.judged, chosen, documents=self.documents if level == "document" else None)


@dataclass(frozen=True, slots=True)
class Job:
    """What is trained on and measured; opened with `open_job`."""

    folder: Path
    texts: TokenizedTexts
    sets: Mapping[str, Integers]  # (records, columns) anchor, positive, negatives; -1 where there is none
    validations: Sequence[Validation]
    facts: Mapping[str, Any] = field(default_factory=dict)  # where everything came from


class JobWriter:
    """Writes a job; texts are numbered as they come and tokenised in batches, each distinct one once."""

    def __init__(
        self,
        folder: Path,
        base: Path,
        progress: Progress,
        *,
        longest: int = 0,
        prompts: Mapping[str, str] | None = None,
    ) -> None:
        from tokenizers import Tokenizer

        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        (folder / "manifest.json").unlink(missing_ok=True)
        architecture = read_architecture(base)
        self._longest = min(longest or architecture.max_tokens, architecture.max_tokens)
        tokenizer = base / "tokenizer.json"
        if not tokenizer.is_file():
            raise InputError("has no tokenizer.json", file=str(base))
        shutil.copyfile(tokenizer, folder / "tokenizer.json")
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._longest)
        self._kind = np.uint16 if self._tokenizer.get_vocab_size() < 2**16 else np.int32
        self._prompts = {"query": "", "passage": "", **prompts} if prompts else architecture.prompts
        self._number_of: dict[bytes, int] = {}
        self._waiting: list[str] = []
        self._lengths: list[npt.NDArray[np.int32]] = []
        self._tokens = folder / "tokens.bin"
        self._tokens.write_bytes(b"")
        self._progress = progress
        self._sets: list[dict[str, Any]] = []
        self._validations: list[dict[str, Any]] = []

    def number(self, text: str, role: str) -> int:
        """The number of a text as it is shown to the encoder in a role: query or passage."""
        shown = self._prompts[role] + text.lstrip()[: self._longest * _CHARACTERS]
        key = hashlib.blake2b(shown.encode("utf-8", "replace"), digest_size=16).digest()
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self._number_of)
            self._waiting.append(shown.encode("utf-8", "replace").decode("utf-8"))
            if len(self._waiting) >= BATCH:
                self._tokenize()
        return number

    def _tokenize(self) -> None:
        found = self._tokenizer.encode_batch_fast(self._waiting)
        with self._tokens.open("ab") as stream:  # not held open: packing may fail between two batches
            stream.write(np.concatenate([np.asarray(one.ids, self._kind) for one in found]).tobytes())
        self._lengths.append(np.array([len(one.ids) for one in found], np.int32))
        self._waiting = []
        self._progress("tokenising", len(self._number_of), None)

    def add_set(self, name: str, records: Iterable[Sequence[str | None]], facts: Mapping[str, Any]) -> int:
        """A training set: rows of texts, anchor, positive and negatives (None where there are fewer)."""
        numbers = np.array(list(self._rows(records)), NUMBERS)
        if not numbers.size:
            raise WorkspaceError(f"the training set {name!r} is empty")
        np.save(self._folder / f"set-{len(self._sets)}.npy", numbers)
        self._sets.append({"name": name, "records": len(numbers), **facts})
        return len(numbers)

    def _rows(self, records: Iterable[Sequence[str | None]]) -> Iterator[list[int]]:
        for anchor, *others in records:
            if anchor is None or not others or others[0] is None:
                raise InputError("a training record needs an anchor and a positive")
            yield [
                self.number(anchor, "query"),
                *(-1 if text is None else self.number(text, "passage") for text in others),
            ]

    def add_validation(
        self,
        name: str,
        queries: Sequence[str],
        passages: Iterable[str],
        judged: Judged,
        itself: Integers,
        *,
        measure: str,
        general: bool = False,
        documents: Integers | None = None,
        unseen: Mask | None = None,
    ) -> None:
        """A validation task; rows of `judged` and `itself` are places in `passages`."""
        chosen = str(parse_measure(measure))  # by this name it is reported
        parts: dict[str, Integers | npt.NDArray[np.int32]] = {
            "queries": np.array([self.number(text, "query") for text in queries], NUMBERS),
            "passages": np.array([self.number(text, "passage") for text in passages], NUMBERS),
            "indptr": judged.indptr,
            "rows": judged.rows,
            "grades": judged.grades,
            "itself": itself,
            **({} if documents is None else {"documents": documents}),
            **({} if unseen is None else {"unseen": unseen.astype(np.int64)}),
        }
        for part, array in parts.items():
            np.save(self._folder / f"validation-{len(self._validations)}-{part}.npy", array.astype(NUMBERS))
        self._validations.append({"name": name, "measure": chosen, "general": general, "ids": list(judged.queries)})

    def close(self, facts: Mapping[str, Any]) -> Job:
        """Write what is left, the manifest last."""
        if self._waiting:
            self._tokenize()
        lengths = np.concatenate([np.zeros(1, np.int32), *self._lengths])
        np.save(self._folder / "starts.npy", np.cumsum(lengths, dtype=np.int64))
        content = {
            "verb": "pack",
            "tokens": np.dtype(self._kind).name,
            "longest": self._longest,
            "sets": self._sets,
            "validations": self._validations,
            "facts": dict(facts),
        }
        write_manifest(self._folder / "manifest.json", content)
        return open_job(self._folder)


def open_job(folder: Path) -> Job:
    """A job that was packed; WorkspaceError where there is none or only half of one."""
    manifest = read_manifest(folder / "manifest.json")
    if manifest is None or manifest.get("verb") != "pack":
        raise WorkspaceError(f"{folder} holds no training job")
    try:
        flat = np.memmap(folder / "tokens.bin", np.dtype(manifest["tokens"]), "r")
        texts = TokenizedTexts(flat, np.load(folder / "starts.npy"))
        sets = {told["name"]: np.load(folder / f"set-{n}.npy") for n, told in enumerate(manifest["sets"])}
        validations = [_validation(folder, n, told) for n, told in enumerate(manifest["validations"])]
    except (OSError, ValueError, EOFError) as error:  # what numpy says of files that are missing or cut
        raise WorkspaceError(f"{folder} holds only a part of a training job ({error})") from error
    if texts.starts[-1] != len(texts.flat):
        found = f"{len(texts.flat):,} of {texts.starts[-1]:,} tokens"
        raise WorkspaceError(f"{folder} holds only a part of a training job ({found})")
    return Job(
        folder,
        texts,
        {name: numbers.astype(np.int64) for name, numbers in sets.items()},
        validations,
        {"sets": manifest["sets"], "longest": manifest["longest"], **manifest["facts"]},
    )


def _validation(folder: Path, number: int, told: Mapping[str, Any]) -> Validation:
    def part(name: str) -> Integers:
        return np.asarray(np.load(folder / f"validation-{number}-{name}.npy"), np.int64)

    def optional(name: str) -> Integers | None:
        return part(name) if (folder / f"validation-{number}-{name}.npy").is_file() else None

    unseen = optional("unseen")
    return Validation(
        name=told["name"],
        queries=part("queries"),
        passages=part("passages"),
        judged=Judged(told["ids"], part("indptr"), part("rows"), part("grades")),
        itself=part("itself"),
        measure=told["measure"],
        general=told["general"],
        documents=optional("documents"),
        unseen=None if unseen is None else unseen.astype(bool),
    )


# ---------------------------------------------------------------- another model's tokens

_ROLES = ({"[PAD]", "<pad>"}, {"[UNK]", "<unk>"}, {"[MASK]", "<mask>"})


def fitted(job: Job, model: Path) -> Job:
    """The job in the tokens of another model, as long as it parts words alike; InputError where it does not.

    Teachers and guides are often of another family with the same word pieces, as MPNet's are BERT's.
    """
    from tokenizers import Tokenizer

    own, other = job.folder / "tokenizer.json", model / "tokenizer.json"
    if not other.is_file():
        raise InputError("has no tokenizer.json", file=str(model))
    if own.read_bytes() == other.read_bytes():
        return job
    tokenizers = [Tokenizer.from_file(str(file)) for file in (own, other)]
    mine, theirs = (one.get_vocab(with_added_tokens=True) for one in tokenizers)
    alias = dict(theirs)
    for names in _ROLES:
        for token in names & theirs.keys():
            alias |= dict.fromkeys(names - theirs.keys(), theirs[token])
    table = np.full(max(mine.values()) + 1, -1, np.int64)
    for token, number in mine.items():
        table[number] = alias.get(token, -1)
    # what stands around a text goes by its place: MPNet has [CLS] among its pieces and opens with <s>
    around, there = (_frame(one) for one in tokenizers)
    if len(around) != len(there):
        cause = f"puts {len(there)} tokens of its own around a text where the model of this job puts {len(around)}"
        raise InputError(cause, file=str(other))
    table[around] = there
    used = np.unique(np.asarray(job.texts.flat))
    if (table[used] < 0).any():
        missing = int((table[used] < 0).sum())
        raise InputError(
            f"parts words otherwise than the model of this job: {missing:,} of {len(used):,} tokens are unknown to it",
            file=str(other),
        )
    kind = np.uint16 if table.max() < 2**16 else np.int32
    return replace(job, texts=TokenizedTexts(table[job.texts.flat].astype(kind), job.texts.starts))


def _frame(tokenizer: Any) -> list[int]:
    """The tokens that stand around every text."""
    tokenizer.no_padding()
    return list(tokenizer.encode("").ids)


def fingerprint(value: Any) -> str:
    """A short hash of something that JSON can say."""
    said = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()
