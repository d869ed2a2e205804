"""The training of lemmata-mini, in small: a random BERT that learns from two of its kind and from pairs."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from recipes.lemmata_mini.arrays import MATHEMATICS, Arrays, Posed, task_arrays
from tests.small_bert import sayings, small_bert
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from lemmata.encode.load import DEFAULT, NANO, PACKAGED
from lemmata.encode.static import StaticEncoder
from lemmata.evaluate.tasks import task_from

pytest.importorskip("torch")
pytest.importorskip("transformers")

from recipes.lemmata_mini import distil, start
from recipes.lemmata_nano import make as nano

TEACHERS = ("lemmata-mini", "another")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Texts, pairs and tasks of sayings, and models that have taught."""
    folder = tmp_path_factory.mktemp("recipe")
    data, models = folder / "arrays", folder / "models"
    data.mkdir()
    arrays = Arrays()
    arrays.add_set("sayings", 1.5)
    for query, passage in sayings(120, 1):
        arrays.pairs.append((arrays.add(query, MATHEMATICS), arrays.add(passage, MATHEMATICS), 0))
    asked = [query for query, _ in sayings(30, 3)]
    queries = {str(number): query for number, query in enumerate(asked)}
    task = task_from("words", queries, {name: {name: 1} for name in queries})
    posed = [
        Posed(name, "science", "MRR@10", part, task, folder, list(queries), [f"{text} ask" for text in asked])
        for name, part in (*((guard, "validation") for guard in distil.GUARDS), ("words", "test"))
    ]
    arrays.write(data, task_arrays(arrays, posed, data))
    base = small_bert(folder / "base")
    for name in TEACHERS:
        shutil.copytree(base, models / name)
    distil.teach(distil.Data(data), models, TEACHERS)
    return data, models


def train(made: tuple[Path, Path], name: str, *more: str) -> Path:
    data, models = made
    words = ["distil", "train", data, models, name, "--init", "lemmata-mini", "--steps", 8, "--batch", 16]
    words += ["--teachers", *(f"{teacher}=0.5/0/0/0.5" for teacher in TEACHERS), *more]
    return run(made, name, words)


def run(made: tuple[Path, Path], name: str, words: list[object]) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(word) for word in words])
        distil.main()
    return made[1] / name


def test_a_student_learns_from_teachers_and_pairs_and_is_written_as_it_is_measured(
    made: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model = train(made, "first", "--first", "0.3", "--rate", "5e-3")
    assert "cisi=" in capsys.readouterr().out
    data = distil.Data(made[0])
    rows = np.arange(6)
    before, after = (distil.open_encoder(made[1] / name, data).encode_all(rows) for name in ("lemmata-mini", "first"))
    assert before.shape == (6, 32)
    assert not np.allclose(before.numpy(), after.numpy(), atol=1e-3)
    written = pytest.importorskip("sentence_transformers").SentenceTransformer(str(model), device="cpu")
    texts = (made[0] / "texts.txt").read_text(encoding="utf-8").split("\n")[:6]
    np.testing.assert_allclose(written.encode(texts, normalize_embeddings=True), after.numpy(), atol=2e-3)


def test_a_static_encoder_with_words_of_its_own_learns_from_the_same_teachers(
    made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, folder = made
    tokens = ["[PAD]", "[UNK]", *"abcdefghijklmnopqrstuvwxyz", *(f"##{sign}" for sign in "abksu0123456789"), "жук"]
    pieces = Tokenizer(models.WordPiece({token: place for place, token in enumerate(tokens)}, unk_token="[UNK]"))
    pieces.normalizer, pieces.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    pieces.save(str(tmp_path / "tokenizer.json"))
    vectors = np.random.default_rng(0).normal(size=(len(tokens), 16)).astype(np.float32)
    pytest.importorskip("safetensors.numpy").save_file({"embeddings": vectors}, tmp_path / "model.safetensors")
    nano.start(data, folder, tmp_path)
    begun = StaticEncoder(folder / "nano-start")
    assert "1 words more" in capsys.readouterr().out
    kept = json.loads((folder / "nano-start" / "tokenizer.json").read_text())["model"]["vocab"]
    assert set(kept) == {*tokens, "ask"} - {"жук"}
    sums = [sum(vectors[tokens.index(piece)] for piece in word) for word in (("a", "##s", "##k"), ("b", "##1"))]
    expected = np.array([each / np.linalg.norm(each) for each in sums])
    np.testing.assert_allclose(begun.encode(["ask", "b1"]), expected, atol=2e-2)

    words = ["distil", "train", data, folder, NANO, "--init", "nano-start", "--steps", 40, "--batch", 32, "--rate", 0.1]
    run(made, NANO, [*words, "--teachers", "lemmata-mini=1/1/1/1"])
    read, rows = distil.Data(data), np.arange(6)
    texts = (data / "texts.txt").read_text(encoding="utf-8").split("\n")[:6]
    learnt = StaticEncoder(folder / NANO)
    np.testing.assert_allclose(
        learnt.encode(texts), distil.open_encoder(folder / NANO, read).encode_all(rows), atol=2e-3
    )
    assert not np.allclose(learnt.encode(texts), begun.encode(texts), atol=1e-2)

    run(made, NANO, ["distil", "score", data, folder, "nano-start", NANO])
    run(made, NANO, ["distil", "score", data, folder, "nano-start", NANO, "--part", "test"])
    nano.card(data, folder)
    facts = json.loads((folder / NANO / "card.json").read_text())
    assert facts["licence"] == "MIT"
    taught = json.loads((PACKAGED[DEFAULT] / "card.json").read_text(encoding="utf-8"))
    assert facts["sets"] == taught["sets"]  # those of its teacher, whose texts it learns from
    assert "MinishLab" in (folder / NANO / "LICENSE").read_text()


def test_a_model_that_has_forgotten_other_fields_is_refused_and_not_written(made: tuple[Path, Path]) -> None:
    with pytest.raises(SystemExit, match="scifact-train"):
        train(made, "forgetful", "--first", "0", "--rate", "3")
    assert not (made[1] / "forgetful").exists()


def test_a_guard_may_lose_one_percent() -> None:
    distil.check_guards({"scifact-train": 0.600, "cisi": 0.4}, {"scifact-train": 0.595, "cisi": 0.5})
    with pytest.raises(SystemExit, match=r"cisi 0\.400 → 0\.395"):
        distil.check_guards({"scifact-train": 0.600, "cisi": 0.4}, {"scifact-train": 0.7, "cisi": 0.395})


def test_a_text_that_is_cut_keeps_its_closing_token_and_is_padded(made: tuple[Path, Path]) -> None:
    encoder = distil.open_encoder(made[1] / "lemmata-mini", distil.Data(made[0]))
    ids, mask = encoder.texts.padded(np.array([0, 1]), 0, longest=3)
    whole, _ = encoder.texts.padded(np.array([0]), 0, longest=9)
    assert ids.shape == (2, 3)
    assert mask.all()
    assert ids[0].tolist() == [*whole[0, :2].tolist(), whole[0, -1].item()]


def test_a_blend_is_the_average_of_weights_and_one_of_a_model_with_itself_is_that_model(
    made: tuple[Path, Path],
) -> None:
    data, models = made
    parts = ["lemmata-mini=0.25", "another=0.75"]
    run(made, "mixed", ["distil", "blend", data, models, "mixed", *parts, "--init", "lemmata-mini"])
    read, rows = distil.Data(data), np.arange(4)
    mixed, own = (
        distil.open_encoder(models / name, read).encode_all(rows).numpy() for name in ("mixed", "lemmata-mini")
    )
    np.testing.assert_allclose(mixed, own, atol=2e-3)  # both are copies of one model


def test_a_centred_model_has_texts_that_are_less_alike(made: tuple[Path, Path]) -> None:
    data = distil.Data(made[0])
    encoder = distil.Transformer(made[1] / "lemmata-mini", data)
    rows = np.arange(20)
    before = encoder.encode_all(rows).numpy()
    distil.centre(encoder, data)
    after = encoder.encode_all(rows).numpy()
    assert (after @ after.T).mean() < (before @ before.T).mean()


def test_the_shares_of_teachers_are_read_by_domain() -> None:
    assert distil.parse_teachers(["a=.1/0/1/2", "b=1/1/1/1"]) == {"a": [0.1, 0, 1, 2], "b": [1, 1, 1, 1]}


def test_a_tokenizer_without_rare_tokens_cuts_the_texts_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [text for pair in sayings(200, 5) for text in pair]
    rare = ["Zymurgy was zymurgically zymotic, zymurgist."] * 3
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(texts + rare, trainers.BpeTrainer(vocab_size=700, special_tokens=special))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    content = json.loads(tokenizer.to_str())
    counts = start.used(tokenizer, texts)
    used = int((counts > 0).sum())
    content, rows = start.reduced(content, counts)
    smaller = Tokenizer.from_str(json.dumps(content))
    assert used <= len(rows) < tokenizer.get_vocab_size()
    for text in texts:
        assert [rows[number] for number in smaller.encode(text).ids] == tokenizer.encode(text).ids
    assert smaller.decode(smaller.encode(rare[0]).ids) == tokenizer.decode(tokenizer.encode(rare[0]).ids)
    monkeypatch.setattr(start, "MOST", len(rows) - 20)
    fewer, rows = start.reduced(json.loads(tokenizer.to_str()), counts)
    assert len(rows) <= start.MOST
    assert Tokenizer.from_str(json.dumps(fewer)).encode(texts[0]).ids
