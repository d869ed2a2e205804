"""A training job on disk: every text tokenised once, the training sets and validation tasks as numbers of texts.

It needs no workspace and no corpus, so it can be prepared on one machine and trained on another.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import InputError, WorkspaceError
from lemmata.core.types import Integers, Progress
from lemmata.core.workspace import read_manifest, write_manifest
from lemmata.encode.bert import max_tokens, read_architecture
from lemmata.encode.static import is_static, static_settings
from lemmata.evaluate.measures import Judged, evaluate, parse_measure

NUMBERS = np.int32  # of texts
BATCH = 1000  # texts that are tokenised at once
_CHARACTERS = 64  # per token that the model reads; the tokenizer never sees more of a text


class TokenizedTexts(NamedTuple):
    """Texts as token ids, special tokens included, one after the other."""

    flat: npt.NDArray[Any]  # (tokens,) uint16 or int32
    starts: Integers  # (texts + 1,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def lengths(self, numbers: Integers, longest: int) -> Integers:
        """Tokens of texts, as a model that reads `longest` tokens sees them."""
        lengths: Integers = np.minimum(self.starts[numbers + 1] - self.starts[numbers], longest)
        return lengths

    def padded(self, numbers: Integers, longest: int, pad: int) -> tuple[Integers, Integers]:
        """Token ids and attention mask (n, width); a text that is cut keeps its last token, which closes it."""
        lengths = self.lengths(numbers, longest)
        width = -(-int(lengths.max()) // 8) * 8 if len(lengths) else 0  # GPUs are fastest with multiples of 8
        width = min(width, longest)
        mask = np.arange(width)[None, :] < lengths[:, None]
        places = np.minimum(self.starts[numbers][:, None] + np.arange(width)[None, :], max(len(self.flat) - 1, 0))
        ids = np.where(mask, self.flat[places].astype(np.int64), pad)
        ids[np.arange(len(numbers)), lengths - 1] = self.flat[self.starts[numbers + 1] - 1]
        return ids, mask.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Validation:
    """A retrieval task that is measured during training."""

    name: str
    queries: Integers  # (q,) numbers of texts
    passages: Integers  # (p,)
    judged: Judged  # rows are places in `passages`
    itself: Integers  # (q,) the place of the passage that a query is, never an answer; else -1
    measure: str = "MRR@10"
    general: bool = False  # a guard against forgetting, not what training is for

    def scores(self, ranked: Integers, measures: Sequence[str]) -> dict[str, npt.NDArray[np.float64]]:
        """Measures for each query; ranked: places (q, k) best first."""
        return evaluate(ranked, self.judged, [parse_measure(name) for name in measures])


@dataclass(frozen=True, slots=True)
class Job:
    """What is trained on and measured; opened with `open_job`."""

    folder: Path
    texts: TokenizedTexts
    sets: Mapping[str, Integers]  # (records, columns) anchor, positive, negatives; -1 where a record has fewer
    validations: Sequence[Validation]
    facts: Mapping[str, Any] = field(default_factory=dict)  # where everything came from


class JobWriter:
    """Writes a job. Texts are numbered as they come and tokenised in batches, each distinct one once."""

    def __init__(
        self, folder: Path, base: Path, progress: Progress, *, prompts: Mapping[str, str] | None = None
    ) -> None:
        from tokenizers import Tokenizer

        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        (folder / "manifest.json").unlink(missing_ok=True)
        settings = static_settings(base) if is_static(base) else None
        self._longest = int(settings["max_tokens"]) if settings else max_tokens(base)
        shutil.copyfile(_tokenizer_of(base), folder / "tokenizer.json")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._longest)
        self._kind = np.uint16 if self._tokenizer.get_vocab_size() < 2**16 else np.int32
        if prompts:  # a cross-encoder has none of its own
            self._prompts: Mapping[str, str] = {"query": "", "passage": "", **prompts}
        else:
            self._prompts = dict(settings["prompts"]) if settings else read_architecture(base).prompts
        self._number_of: dict[bytes, int] = {}
        self._waiting: list[str] = []
        self._lengths: list[npt.NDArray[np.int32]] = []
        self._tokens = folder / "tokens.bin"
        self._tokens.write_bytes(b"")
        self._progress = progress
        self._sets: list[dict[str, Any]] = []
        self._validations: list[dict[str, Any]] = []

    def number(self, text: str, role: str) -> int:
        """The number of a text as the encoder sees it in a role: query or passage."""
        content = (self._prompts[role] + text.lstrip()[: self._longest * _CHARACTERS]).encode("utf-8", "replace")
        key = hashlib.blake2b(content, digest_size=16).digest()
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self._number_of)
            self._waiting.append(content.decode("utf-8"))
            if len(self._waiting) >= BATCH:
                self._tokenize()
        return number

    def _tokenize(self) -> None:
        encodings = self._tokenizer.encode_batch_fast(self._waiting)
        with self._tokens.open("ab") as stream:  # closed between batches, since preparing may fail in between
            stream.write(np.concatenate([np.asarray(encoding.ids, self._kind) for encoding in encodings]).tobytes())
        self._lengths.append(np.array([len(encoding.ids) for encoding in encodings], np.int32))
        self._waiting = []
        self._progress("tokenising", len(self._number_of), None)

    def add_set(self, name: str, records: Iterable[Sequence[str | None]], facts: Mapping[str, Any]) -> int:
        """A training set: rows of texts, anchor, positive and negatives (None where a record has fewer)."""
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
    ) -> None:
        """A validation task; rows of `judged` and `itself` are places in `passages`."""
        reported_name = str(parse_measure(measure))
        parts: dict[str, Integers | npt.NDArray[np.int32]] = {
            "queries": np.array([self.number(text, "query") for text in queries], NUMBERS),
            "passages": np.array([self.number(text, "passage") for text in passages], NUMBERS),
            "indptr": judged.indptr,
            "rows": judged.rows,
            "grades": judged.grades,
            "itself": itself,
        }
        for part, array in parts.items():
            np.save(self._folder / f"validation-{len(self._validations)}-{part}.npy", array.astype(NUMBERS))
        facts = {"name": name, "measure": reported_name, "general": general, "ids": list(judged.queries)}
        self._validations.append(facts)

    def close(self, facts: Mapping[str, Any]) -> Job:
        """Write the rest, the manifest last."""
        if self._waiting:
            self._tokenize()
        lengths = np.concatenate([np.zeros(1, np.int32), *self._lengths])
        np.save(self._folder / "starts.npy", np.cumsum(lengths, dtype=np.int64))
        content = {
            "verb": "prepare",
            "tokens": np.dtype(self._kind).name,
            "longest": self._longest,
            "sets": self._sets,
            "validations": self._validations,
            "facts": dict(facts),
        }
        write_manifest(self._folder / "manifest.json", content)
        return open_job(self._folder)


def open_job(folder: Path) -> Job:
    """A prepared job; WorkspaceError where there is none or it is incomplete."""
    manifest = read_manifest(folder / "manifest.json")
    if manifest is None or manifest.get("verb") != "prepare":
        raise WorkspaceError(f"{folder} holds no training job; 'lemmata train prepare' writes one")
    try:
        flat = np.memmap(folder / "tokens.bin", np.dtype(manifest["tokens"]), "r")
        texts = TokenizedTexts(flat, np.load(folder / "starts.npy"))
        sets = {facts["name"]: np.load(folder / f"set-{n}.npy") for n, facts in enumerate(manifest["sets"])}
        validations = [_open_validation(folder, n, facts) for n, facts in enumerate(manifest["validations"])]
    except (OSError, ValueError, EOFError) as error:  # numpy raises them for files that are missing or cut
        raise WorkspaceError(f"the training job in {folder} is incomplete ({error}); prepare it again") from error
    if texts.starts[-1] != len(texts.flat):
        tokens = f"{len(texts.flat):,} of {texts.starts[-1]:,} tokens"
        raise WorkspaceError(f"the training job in {folder} is incomplete ({tokens}); prepare it again")
    return Job(
        folder,
        texts,
        {name: numbers.astype(np.int64) for name, numbers in sets.items()},
        validations,
        {"sets": manifest["sets"], "longest": manifest["longest"], **manifest["facts"]},
    )


def _open_validation(folder: Path, number: int, facts: Mapping[str, Any]) -> Validation:
    def part(name: str) -> Integers:
        return np.asarray(np.load(folder / f"validation-{number}-{name}.npy"), np.int64)

    return Validation(
        name=facts["name"],
        queries=part("queries"),
        passages=part("passages"),
        judged=Judged(facts["ids"], part("indptr"), part("rows"), part("grades")),
        itself=part("itself"),
        measure=facts["measure"],
        general=facts["general"],
    )


# ---------------------------------------------------------------- another model's tokens

_SAME_ROLE = ({"[PAD]", "<pad>"}, {"[UNK]", "<unk>"}, {"[MASK]", "<mask>"})


def translated(job: Job, model: Path) -> Job:
    """The job in the token ids of another model with the same word pieces; InputError where they differ.

    Teachers are often of another family with the same word pieces: MPNet has those of BERT.
    """
    from tokenizers import Tokenizer

    source, target = job.folder / "tokenizer.json", _tokenizer_of(model)
    if source.read_bytes() == target.read_bytes():
        return job
    tokenizers = [Tokenizer.from_file(str(file)) for file in (source, target)]
    for tokenizer in tokenizers:
        tokenizer.no_padding()
    old, new = (tokenizer.get_vocab(with_added_tokens=True) for tokenizer in tokenizers)
    alias = dict(new)
    for names in _SAME_ROLE:
        for token in names & new.keys():
            alias |= dict.fromkeys(names - new.keys(), new[token])
    table = np.full(max(old.values()) + 1, -1, np.int64)
    for token, number in old.items():
        table[number] = alias.get(token, -1)
    # the special tokens around a text go by their place: MPNet has [CLS] among its pieces and opens with <s>
    old_frame, new_frame = (tokenizer.encode("").ids for tokenizer in tokenizers)
    if len(old_frame) != len(new_frame):
        cause = f"adds {len(new_frame)} special tokens to a text where the model of this job adds {len(old_frame)}"
        raise InputError(cause, file=str(target))
    table[old_frame] = new_frame
    used = np.unique(np.asarray(job.texts.flat))
    if missing := int((table[used] < 0).sum()):
        raise InputError(
            f"splits words differently than the model of this job: it lacks {missing:,} of {len(used):,} tokens",
            file=str(target),
        )
    kind = np.uint16 if table.max() < 2**16 else np.int32
    return replace(job, texts=TokenizedTexts(table[job.texts.flat].astype(kind), job.texts.starts))


def _tokenizer_of(model: Path) -> Path:
    file = model / "tokenizer.json"
    if not file.is_file():
        raise InputError("has no tokenizer.json", file=str(model))
    return file
