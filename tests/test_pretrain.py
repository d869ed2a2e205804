"""Pretraining: windows, masks, and runs of a tiny BERT, killed and resumed."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import killed_at
from tests.small_bert import SPECIAL, add_weights, bare_base

from lemmata.core.config import build
from lemmata.core.errors import ConfigError, InputError
from lemmata.core.workspace import silent
from lemmata.train.pretrain import PretrainOptions, masked_logits, pretrain, rate_factor
from lemmata.train.windows import (
    UNMASKED,
    Masking,
    Windows,
    cut_windows,
    hold_out,
    mask_window,
    read_masking,
    tokenise,
    worth_reading,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
sentence_transformers = pytest.importorskip("sentence_transformers")

WORDS = "let x y be a ring field ideal prime module of the is and every maximal then over finite map".split()
PIECES = ["##s", "##ly", "math", "##cal", "in", "##ft", "##y", "to", "gamma", "sum", "i", "1", "2"]
SIGNS = list("\\$_^{}.,=")


def make_base(folder: Path) -> Path:
    """A sentence-transformers folder: a random BERT of two layers with a small WordPiece vocabulary."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    bare_base(folder, prompts={"query": "every ", "document": ""}, longest=48)
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *WORDS, *PIECES, *SIGNS])}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    backend.save(str(folder / "tokenizer.json"))
    return add_weights(folder, positions=64)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def tokenizer(base: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(base)


def written(number: int = 40) -> list[tuple[str, str]]:
    """Documents whose next word can be guessed from the last."""
    generator = np.random.default_rng(0)
    texts = []
    for document in range(number):
        at, words = int(generator.integers(len(WORDS))), []
        for _ in range(90):
            words.append(WORDS[at])
            at = (at + int(generator.integers(1, 3))) % len(WORDS)
        texts.append((f"paper-{document}", " ".join(words)))
    return texts


OPTIONS = PretrainOptions(rate=3e-3, batch=8)


# ---------------------------------------------------------------- what is read


@pytest.mark.parametrize(
    ("kind", "section"),
    [
        ("theorem", "Introduction"),
        ("proof", "Proofs of the main results"),
        ("chunk", "Preliminaries / Reference measures"),
        ("chunk", "Codes over finite fields"),
        ("lemma", "Appendix A: Proofs"),
        ("abstract", ""),
        ("chunk", "Results and discussion"),
        ("chunk", "Tables of groups and their cohomology"),
        ("log", ""),
    ],
)
def test_prose_with_mathematics_is_worth_reading(kind: str, section: str) -> None:
    assert worth_reading(kind, section)


@pytest.mark.parametrize(
    ("kind", "section"),
    [
        ("chunk", "References"),
        ("chunk", "Acknowledgements and funding"),
        ("chunk", "6. Acknowledgments"),
        ("chunk", "Author contributions"),
        ("chunk", "Appendix B: Source code"),
        ("chunk", "Introduction / Acknowledgment"),
        ("chunk", "Table of numerical values"),
        ("chunk", "Data availability"),
        ("chunk", "GNU Free Documentation License"),
        ("algorithm", "Method"),
    ],
)
def test_lists_acknowledgements_and_code_are_not(kind: str, section: str) -> None:
    assert not worth_reading(kind, section)


def test_sections_can_be_named() -> None:
    assert worth_reading("chunk", "Main Results", ["results"])
    assert not worth_reading("chunk", "History", ["results"])
    assert worth_reading("abstract", "", ["results"])


def test_options_come_from_a_table() -> None:
    options = build(PretrainOptions, {"sections": ["proof"], "epochs": 2}, "[pretrain.a]")
    assert (options.sections, options.epochs) == (["proof"], 2.0)
    with pytest.raises(ConfigError, match="batch = 0"):
        build(PretrainOptions, {"batch": 0}, "[pretrain.a]")


# ---------------------------------------------------------------- windows


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 12), st.data())
def test_windows_cover_every_token_and_share_their_overlap(sizes: list[int], length: int, data: Any) -> None:
    overlap = data.draw(st.integers(0, length - 1))
    starts = np.cumsum([0, *sizes], dtype=np.int64)
    windows = cut_windows(starts, length, overlap).tolist()
    covered = Counter(place for first, last in windows for place in range(first, last))
    assert sorted(covered) == list(range(starts[-1]))
    for begin, end in pairwise(starts.tolist()):
        own = [window for window in windows if begin <= window[0] < end]
        assert all(begin <= first < last <= end for first, last in own)
        assert all(last - first == length for first, last in own[:-1])
        for (_, last), (following, end_of_following) in pairwise(own):
            assert last - following == overlap
            assert end_of_following > last


@given(st.lists(st.text("abc", max_size=3), max_size=30), st.floats(0.01, 0.9))
def test_a_document_is_held_out_whole_or_not_at_all(names: list[str], share: float) -> None:
    held = hold_out(names, share, 0)
    inside = {name for name, h in zip(names, held, strict=True) if h}
    outside = {name for name, h in zip(names, held, strict=True) if not h}
    assert not inside & outside
    assert bool(inside) == (len(set(names)) > 1)
    assert bool(outside) == bool(names)


def test_tokens_are_written_once_and_joined_by_document(tokenizer: Any, tmp_path: Path) -> None:
    texts = [("a", "let x be"), ("a", "a ring"), ("b", ""), ("c", "\ud800 every ideals")]
    tokens = tokenise(tokenizer, texts, tmp_path / "tokens", silent)
    assert tokens.documents == ["a", "b", "c"]
    assert np.diff(tokens.starts).tolist() == [5, 0, 4]  # a lone surrogate is a question mark, which is unknown
    assert tokens.flat.dtype == np.uint16
    again = tokenise(tokenizer, iter(()), tmp_path / "tokens", silent)
    assert again.flat.tolist() == tokens.flat.tolist()


# ---------------------------------------------------------------- masks

PLAIN = Masking((2,), (3,), 0, 4, np.arange(60) > 4, np.isin(np.arange(60), range(40, 60)))


@given(st.lists(st.integers(0, 59), min_size=1, max_size=200), st.integers(0, 2**32))
def test_words_are_masked_whole_and_special_tokens_never(ids: list[int], seed: int) -> None:
    inputs, labels = mask_window(np.array(ids, np.uint16), PLAIN, np.random.default_rng(seed))
    assert (inputs[0], inputs[-1]) == (2, 3)
    assert len(inputs) == len(labels) == len(ids) + 2
    drawn = labels != UNMASKED
    assert (labels[drawn] == np.array([2, *ids, 3])[drawn]).all()
    assert (labels[drawn] > 4).all()
    assert (inputs[~drawn] == np.array([2, *ids, 3])[~drawn]).all()
    assert drawn.any() == any(number > 4 for number in ids)
    for at in range(1, len(ids)):  # a piece shares the fate of the token before it, if that is of its word
        if ids[at] >= 40 and ids[at - 1] > 4:
            assert drawn[at + 1] == drawn[at]


def test_about_fifteen_in_a_hundred_tokens_are_masked_and_eight_in_ten_of_them_hidden() -> None:
    generator = np.random.default_rng(0)
    pairs = [(ids, *mask_window(ids, PLAIN, generator)) for ids in (generator.integers(5, 60, 126) for _ in range(800))]
    drawn = np.concatenate([labels[1:-1] != UNMASKED for _, _, labels in pairs])
    before = np.concatenate([ids for ids, _, _ in pairs])
    after = np.concatenate([inputs[1:-1] for _, inputs, _ in pairs])
    assert drawn.mean() == pytest.approx(0.15, abs=0.005)
    assert (after[drawn] == 4).mean() == pytest.approx(0.8, abs=0.02)
    assert (after[drawn] == before[drawn]).mean() == pytest.approx(0.1, abs=0.02)


def test_masks_are_new_in_each_epoch_and_the_same_in_each_run() -> None:
    tokens, places = np.arange(5, 40, dtype=np.uint16), np.array([[0, 20], [15, 35]])
    runs = [Windows(tokens, places, PLAIN, 7) for _ in range(2)]
    forward = [runs[0][n] for n in range(6)]
    backward = [runs[1][n] for n in reversed(range(6))][::-1]
    assert all((a[0] == b[0]).all() and (a[1] == b[1]).all() for a, b in zip(forward, backward, strict=True))
    of_first_window = {tuple(labels) for epoch in range(3) for _, labels in [runs[0].masked(epoch, 0)]}
    assert len(of_first_window) == 3


def test_a_tokenizer_says_what_belongs_to_a_word(tokenizer: Any) -> None:
    masking = read_masking(tokenizer)
    assert (masking.before, masking.after, masking.pad, masking.mask) == ((2,), (3,), 0, 4)
    assert masking.continues is not None
    assert [tokenizer.convert_ids_to_tokens(int(n)) for n in np.flatnonzero(masking.continues)] == [
        "##s",
        "##ly",
        "##cal",
        "##ft",
        "##y",
    ]
    assert np.flatnonzero(~masking.ordinary).tolist() == [0, 1, 2, 3, 4]


def test_a_tokenizer_without_marked_pieces_masks_tokens() -> None:
    from tokenizers import Tokenizer, models, processors

    backend = Tokenizer(models.BPE({"<s>": 0, "<pad>": 1, "<mask>": 2, "a": 3}, []))
    backend.post_processor = processors.TemplateProcessing(single="<s> $A <s>", special_tokens=[("<s>", 0)])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", mask_token="<mask>", cls_token="<s>"
    )
    masking = read_masking(tokenizer)
    assert masking.continues is None
    assert (masking.before, masking.after) == ((0,), (0,))


# ---------------------------------------------------------------- training


def test_the_rate_waits_rises_and_falls() -> None:
    rates = [rate_factor(step, 110, idle=10) for step in range(110)]
    assert rates[:10] == [0.0] * 10
    assert rates[10:16] == sorted(rates[10:16])
    assert rates[10] > 0
    assert max(rates) == rates[15] == 1.0
    assert rates[15:] == sorted(rates[15:], reverse=True)
    assert rates[-1] > 0 == rate_factor(110, 110, idle=10)


def test_logits_of_masked_tokens_alone_are_those_of_the_whole_model(base: Path) -> None:
    torch.manual_seed(1)
    model = transformers.AutoModelForMaskedLM.from_pretrained(base).eval()
    ids = torch.randint(5, 40, (3, 12))
    labels = torch.where(torch.rand(3, 12) < 0.3, ids, UNMASKED)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    with torch.no_grad():
        logits, wanted = masked_logits(model, batch)
        whole = model(input_ids=ids, attention_mask=batch["attention_mask"]).logits
    assert torch.equal(wanted, ids[labels != UNMASKED])
    assert torch.allclose(logits, whole[labels != UNMASKED], atol=1e-6)


def test_thirty_steps_lower_the_loss_and_the_result_is_a_sentence_encoder(base: Path, tmp_path: Path) -> None:
    texts = [(name, text + r" $x \in y \to x \in y$") for name, text in written()]
    progress: list[tuple[str, int, int | None]] = []
    options = PretrainOptions(**{**_settings(OPTIONS), "epochs": 1.0})
    report = pretrain(
        base,
        iter(texts),
        tmp_path / "out",
        options,
        work=tmp_path / "work",
        progress=lambda *step: progress.append(step),
    )
    losses = [loss for _, loss in report["losses"]]
    assert report["steps"] == report["losses"][-1][0] == 30
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3
    assert report["perplexity"]["after"] < report["perplexity"]["head"] < report["perplexity"]["before"]
    assert (report["head"], report["head_steps"], report["masked"]) == ("new", 3, "words")
    assert (report["documents"], report["held_out"]) == (40, 1)
    assert progress[-2][0].startswith("pretraining, loss ")
    assert progress[-2][1:] == (30, 30)

    old = sentence_transformers.SentenceTransformer(str(base), device="cpu")
    new = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    vectors = new.encode(["every prime ideal", r"x \in y"], normalize_embeddings=True)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-5)
    assert abs(float(vectors[0] @ vectors[1])) < 0.9999
    assert (new.prompts, new.max_seq_length) == (old.prompts, old.max_seq_length)
    assert new[1].get_config_dict() == old[1].get_config_dict()
    assert not np.allclose(new.encode("every ring"), old.encode("every ring"), atol=1e-3)


def _settings(options: PretrainOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in options.__dataclass_fields__ if name.islower()}


def test_a_new_head_learns_alone_first(base: Path, tmp_path: Path) -> None:
    at_head: list[dict[str, Any]] = []
    heads = []

    def watch(what: str, done: int, total: int | None) -> None:
        if what == "measuring perplexity":
            heads.append(done)
        if total and len(heads) == 2 and done == heads[1] + 1:  # the checkpoint of the last step of the head is there
            from safetensors.torch import load_file

            folder = next((tmp_path / "work").glob(f"run-*/checkpoint-{heads[1]}"))
            at_head.append(load_file(folder / "weights.safetensors"))

    report = pretrain(base, written(), tmp_path / "out", OPTIONS, work=tmp_path / "work", progress=watch)
    assert heads == [0, report["head_steps"], report["steps"]]
    assert 0 < report["head_steps"] < report["steps"]
    first = transformers.AutoModel.from_pretrained(base).state_dict()
    last = transformers.AutoModel.from_pretrained(tmp_path / "out").state_dict()
    name = "encoder.layer.0.attention.self.query.weight"
    assert torch.equal(at_head[0][f"bert.{name}"], first[name])
    assert torch.equal(at_head[0]["bert.embeddings.word_embeddings.weight"], first["embeddings.word_embeddings.weight"])
    assert not torch.equal(last[name], first[name])
    assert torch.equal(last["pooler.dense.weight"], first["pooler.dense.weight"])  # not trained, and not lost


def test_a_killed_run_ends_like_one_that_was_not(base: Path, tmp_path: Path) -> None:
    whole = pretrain(base, written(), tmp_path / "a" / "out", OPTIONS, work=tmp_path / "a" / "work", progress=silent)
    train = partial(pretrain, base, written(), tmp_path / "out", OPTIONS, work=tmp_path / "work")
    killed_at("pretraining", 13, lambda progress: train(progress=progress))
    assert not (tmp_path / "out").exists()
    run = next((tmp_path / "work").glob("run-*"))
    last = max(int(folder.name.split("-")[1]) for folder in run.glob("checkpoint-*"))
    assert 5 < last < 13
    half = run / ".checkpoint-15.123"  # as if the kill had come while it was written
    half.mkdir()
    (half / "weights.safetensors").write_bytes(b"half")

    report = train(progress=silent)
    assert report["resumed_from"] == last
    for key in ("steps", "perplexity", "losses"):
        assert report[key] == whole[key]
    again = train(progress=silent)
    assert again["resumed_from"] == again["steps"]
    assert again["losses"] == report["losses"]


def test_impossible_runs_are_refused(base: Path, tmp_path: Path) -> None:
    def start(base: Path, texts: list[tuple[str, str]], **settings: Any) -> None:
        options = PretrainOptions(**{**_settings(OPTIONS), **settings})
        pretrain(base, texts, tmp_path / "out", options, work=tmp_path / "work", progress=silent)

    with pytest.raises(InputError, match=r"modules\.json"):
        start(tmp_path, written())
    with pytest.raises(InputError, match="text"):
        start(base, [("a", "")])
    with pytest.raises(ConfigError, match="epochs"):
        start(base, written(), epochs=0.0)
    assert not (tmp_path / "out").exists()
