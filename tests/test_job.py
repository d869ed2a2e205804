"""Jobs on disk: each text numbered once, tokens as the model's own tokenizer makes them, complete or refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.small_bert import SPECIAL, VOCABULARY, bare_base, one_answer_each, small_bert, small_job

from lemmata.core.errors import ConfigError, InputError, WorkspaceError
from lemmata.core.workspace import silent, write_manifest
from lemmata.train.job import BATCH, Job, JobWriter, open_job, translated

OTHER_NAMES = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_base(tmp_path_factory.mktemp("base"), prompts={"query": "ask "})


def said(job: Job, number: int, words: tuple[str, ...] = (*SPECIAL, *VOCABULARY)) -> str:
    """A text as its tokens say it."""
    start, end = job.texts.starts[number : number + 2]
    return " ".join(words[token] for token in job.texts.flat[start:end].tolist())


def test_a_text_is_tokenised_once_and_found_again_by_its_number(base: Path, tmp_path: Path) -> None:
    writer = JobWriter(tmp_path / "job", base, silent)
    texts = [f"a{n % 40} b{n // 40}" for n in range(BATCH + 300)]  # more than are tokenised at once
    assert [writer.number(text, "passage") for text in texts] == list(range(len(texts)))
    assert [writer.number(text, "passage") for text in reversed(texts)] == list(range(len(texts)))[::-1]
    writer.add_set("all", [("a1", "b1")], {})
    job = writer.close({})
    assert len(job.texts) == len(texts) + 2
    for number in (0, BATCH - 1, BATCH, len(texts) - 1):
        assert said(job, number) == f"[CLS] {texts[number]} [SEP]".replace("b40", "[UNK]")


def test_the_role_decides_what_stands_before_a_text(base: Path, tmp_path: Path) -> None:
    writer = JobWriter(tmp_path / "job", base, silent)
    writer.add_set("pairs", [("a1", "a1", None), ("a2", "b2", "a1")], {})
    job = writer.close({})
    assert job.sets["pairs"].tolist() == [[0, 1, -1], [2, 3, 1]]
    told = [said(job, number) for number in range(4)]
    assert told == ["[CLS] ask a1 [SEP]", "[CLS] a1 [SEP]", "[CLS] ask a2 [SEP]", "[CLS] b2 [SEP]"]


def test_sets_and_validations_keep_their_order_and_what_was_said_of_them(base: Path, tmp_path: Path) -> None:
    names = ["zeta", "alpha", "../mu/pairs:cites", "beta"]
    writer = JobWriter(tmp_path / "job", base, silent)
    for number, name in enumerate(names):
        assert writer.add_set(name, [(f"a{number}", f"b{number}")] * (number + 1), {"sha256": name}) == number + 1
    nothing = np.array([1, -1])
    for number, name in enumerate(names):
        queries, passages = [f"a{number}", "a9"], [f"b{number}", "b9", "a9"]
        general = bool(number % 2)
        answers = one_answer_each(2)
        writer.add_validation(name, queries, passages, answers, nothing, measure=f"r@{number + 5}", general=general)
    job = writer.close({"base": "none", "options": {"epochs": 2}})
    assert list(job.sets) == names
    assert [len(numbers) for numbers in job.sets.values()] == [1, 2, 3, 4]
    assert [said(job, int(numbers[0, 1])) for numbers in job.sets.values()] == [f"[CLS] b{n} [SEP]" for n in range(4)]
    assert [one["sha256"] for one in job.facts["sets"]] == names
    assert (job.facts["base"], job.facts["options"], job.facts["longest"]) == ("none", {"epochs": 2}, 16)
    assert [task.name for task in job.validations] == names
    assert [task.general for task in job.validations] == [False, True, False, True]
    for number, task in enumerate(job.validations):
        assert [said(job, n) for n in task.queries] == [f"[CLS] ask a{number} [SEP]", "[CLS] ask a9 [SEP]"]
        assert [said(job, n) for n in task.passages] == [f"[CLS] {t} [SEP]" for t in (f"b{number}", "b9", "a9")]
        assert task.itself.tolist() == [1, -1]
        assert task.measure == f"R@{number + 5}"  # by the name under which it is reported
        ranked = np.array([[2, 0, 1], [0, 2, -1]])
        assert task.scores(ranked, ["MRR@10"])["MRR@10"].tolist() == [0.5, 0.0]


def test_incomplete_records_and_unknown_measures_are_refused(base: Path, tmp_path: Path) -> None:
    writer = JobWriter(tmp_path / "job", base, silent)
    with pytest.raises(WorkspaceError, match="'nothing'"):
        writer.add_set("nothing", [], {})
    for record in [(None, "b1"), ("a1",), ("a1", None, "b2")]:
        with pytest.raises(InputError):
            writer.add_set("halves", [record], {})
    with pytest.raises(ConfigError, match="mmr@10"):
        writer.add_validation("x", ["a1"], ["b1"], one_answer_each(1), np.array([-1]), measure="mmr@10")


# ---------------------------------------------------------------- whole or refused


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: write_manifest(folder / "manifest.json", {"verb": "mine"}),
        lambda folder: (folder / "tokens.bin").unlink(),
        lambda folder: (folder / "tokens.bin").write_bytes(b""),
        lambda folder: (folder / "tokens.bin").write_bytes((folder / "tokens.bin").read_bytes()[:-2]),
        lambda folder: (folder / "tokens.bin").write_bytes((folder / "tokens.bin").read_bytes()[:-1]),
        lambda folder: (folder / "set-0.npy").unlink(),
        lambda folder: (folder / "starts.npy").write_bytes(b""),
        lambda folder: (folder / "validation-0-rows.npy").write_bytes(b"\x93NUMPY"),
        lambda folder: JobWriter(folder, folder.parent / "base", silent).number("a1", "query"),  # begun again
    ],
)
def test_an_incomplete_job_is_refused(tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    small_job(tmp_path / "job", bare_base(tmp_path / "base"), records=5)
    open_job(tmp_path / "job")
    damage(tmp_path / "job")
    with pytest.raises(WorkspaceError, match="job"):
        open_job(tmp_path / "job")


# ---------------------------------------------------------------- as the model's own tokenizer


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("model"), prompts={"query": "ask ", "document": ""})


@pytest.fixture(scope="module")
def model(bert: Path) -> Any:
    return pytest.importorskip("sentence_transformers").SentenceTransformer(str(bert), device="cpu")


WORDS = st.sampled_from([*VOCABULARY[:6], "unheard", "[SEP]", "\u00e9", "\ud800"])
TEXTS = st.lists(st.tuples(st.sampled_from(["", " ", "\n\t"]), st.lists(WORDS, max_size=20)), min_size=1, max_size=6)


@pytest.mark.slow
@given(pieces=TEXTS, longest=st.integers(3, 16), role=st.sampled_from(["query", "passage"]))
def test_tokens_are_those_of_sentence_transformers(
    bert: Path,
    model: Any,
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[tuple[str, list[str]]],
    longest: int,
    role: str,
) -> None:
    texts = [space + " ".join(words) + space for space, words in pieces]
    writer = JobWriter(tmp_path_factory.mktemp("job"), bert, silent)
    numbers = np.array([writer.number(text, role) for text in texts])
    writer.add_set("needed", [("a1", "b1")], {})
    job = writer.close({})
    pad = model.tokenizer.pad_token_id
    ids, mask = job.texts.padded(numbers, longest, pad)
    model.max_seq_length = longest
    prompt = "ask " if role == "query" else ""
    sound = [prompt + text.encode("utf-8", "replace").decode() for text in texts]
    wanted = model.preprocess(sound)
    assert [row[m == 1].tolist() for row, m in zip(ids, mask, strict=True)] == [
        row[m == 1].tolist() for row, m in zip(wanted["input_ids"], wanted["attention_mask"], strict=True)
    ]
    assert (ids[mask == 0] == pad).all()
    assert ids.shape[1] <= longest
    assert (np.diff(mask, axis=1) <= 0).all()
    assert (job.texts.lengths(numbers, longest) == mask.sum(axis=1)).all()


# ---------------------------------------------------------------- another model's tokens


TEXT = [("a1 b2", "b1 unheard a2"), ("b7", "a39 a0")]


def prepared(folder: Path, base: Path) -> Job:
    writer = JobWriter(folder, base, silent)
    writer.add_set("pairs", TEXT, {})
    return writer.close({})


@pytest.mark.parametrize(
    ("special", "more"),
    [
        (SPECIAL, ()),
        (OTHER_NAMES, ()),
        (("<pad>", "[UNK]", "<s>", "</s>", "<mask>"), ("[PAD]", "[CLS]", "[SEP]", "[MASK]")),  # as MPNet has it
    ],
    ids=["other numbers", "other names", "both names"],
)
def test_tokens_are_translated_for_a_model_with_the_same_pieces(
    tmp_path: Path, special: tuple[str, ...], more: tuple[str, ...]
) -> None:
    base = bare_base(tmp_path / "base")
    other = bare_base(tmp_path / "other", [*more, "surplus", *reversed(VOCABULARY)], special=special)
    job = prepared(tmp_path / "job", base)
    assert translated(job, base) is job
    result, expected = translated(job, other), prepared(tmp_path / "job2", other)
    assert result.texts.flat.tolist() == expected.texts.flat.tolist()
    assert result.texts.flat.tolist() != job.texts.flat.tolist()
    assert result.texts.starts.tolist() == expected.texts.starts.tolist()
    assert (result.sets, result.folder) == (job.sets, job.folder)


def test_models_that_split_words_differently_are_refused(tmp_path: Path) -> None:
    job = prepared(tmp_path / "job", bare_base(tmp_path / "base"))
    few = bare_base(tmp_path / "few", VOCABULARY[:-1])  # without b39, which no text has
    assert translated(job, few).texts.flat.tolist() == job.texts.flat.tolist()
    fewer = bare_base(tmp_path / "fewer", [word for word in VOCABULARY if word not in ("a1", "b7")])
    with pytest.raises(InputError, match=r"tokenizer\.json: .*2 of 10 tokens"):
        translated(job, fewer)
    open_ended = bare_base(tmp_path / "open", special=("[PAD]", "[UNK]", "", "[SEP]", "[MASK]"))
    with pytest.raises(InputError, match=r"1 special tokens .*2"):
        translated(job, open_ended)
    shutil.copytree(few, tmp_path / "none")
    (tmp_path / "none" / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        translated(job, tmp_path / "none")
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        JobWriter(tmp_path / "job3", tmp_path / "none", silent)
