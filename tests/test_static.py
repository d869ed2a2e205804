"""Static encoders: sums of token vectors, their folder, where they start from, and training them in a workspace."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import refused, say
from tests.small_bert import SPECIAL, VOCABULARY, bare_base
from tests.training import WORDS, write_notes, write_small

from lemmata.core.errors import ConfigError, InputError, WorkspaceError
from lemmata.core.workspace import silent
from lemmata.encode.hashing import HashingEncoder
from lemmata.encode.load import NANO, PACKAGED, encoder_kind, load_encoder
from lemmata.encode.onnx import open_tokenizer
from lemmata.encode.static import StaticEncoder, TokenNumbers, is_static, plain_tokenizer, read_static, write_static
from lemmata.project import Project
from lemmata.search.retriever import Retriever
from lemmata.train.static import COMMON, count_tokens, token_vectors, vocabulary
from lemmata.train.train import finetune_options


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static") / "small"
    write_small(folder)
    return folder


# ---------------------------------------------------------------- encoding


def test_many_threads_may_encode_at_once() -> None:
    """Words that are too long to be remembered are shared by the texts of all threads."""
    encoder = load_encoder(NANO)
    long = "x" * 70
    texts = [[f"{long} number {number} of word{number}", long] for number in range(200)]
    alone = [encoder.encode(pair) for pair in texts]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(load_encoder(NANO).encode, texts))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


@given(texts=st.lists(st.lists(st.sampled_from((*VOCABULARY, "unknown")), max_size=20), max_size=150))
def test_a_text_is_the_normalised_mean_of_its_first_tokens(folder: Path, texts: list[list[str]]) -> None:
    vectors = read_static(folder)
    encoded = load_encoder(str(folder)).encode([" ".join(words) for words in texts])
    assert encoded.shape == (len(texts), 8)
    for words, row in zip(texts, encoded, strict=True):
        if not words:
            assert not row.any()
            continue
        mean = np.mean([vectors[WORDS.index(word) if word in WORDS else 1] for word in words[:16]], axis=0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-5)


def test_it_agrees_with_the_static_embedding_of_sentence_transformers(folder: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    module = modules.StaticEmbedding(tokenizer, embedding_weights=read_static(folder))
    other = sentence_transformers.SentenceTransformer(modules=[module], device="cpu")
    texts = ["a1 a2 b3", "ask a1", "b3 b3 b3 nothing"]
    expected = other.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(StaticEncoder(folder).encode(texts), expected, atol=1e-5)


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.text("aé[MASK] \n\tQ,."), max_size=8))
def test_words_that_are_tokenised_once_have_the_tokens_of_whole_texts(
    numbers: TokenNumbers, tokenizer: Any, texts: list[str]
) -> None:
    expected = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    assert [ids.tolist() for ids in numbers(texts)] == expected
    assert [ids.tolist() for ids in numbers(texts)] == expected  # from memory


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    tokenizer = open_tokenizer(PACKAGED[NANO] / "tokenizer.json")
    tokenizer.enable_truncation(20)
    return tokenizer


@pytest.fixture(scope="module")
def numbers() -> TokenNumbers:
    return TokenNumbers(open_tokenizer(PACKAGED[NANO] / "tokenizer.json"), 20)


def test_the_memory_for_words_is_bounded(numbers: TokenNumbers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lemmata.encode.static._WORDS", 3)
    numbers(["one two three four five", "a" * 60])
    assert set(numbers._words) >= {"one", "five"}
    assert "a" * 60 not in numbers._words
    assert len(numbers(["six " + "b" * 60])[0]) > 1
    assert set(numbers._words) == {"six"}


def test_more_texts_than_are_tokenised_at_once_keep_their_order(folder: Path) -> None:
    encoder = StaticEncoder(folder)
    texts = [VOCABULARY[number % 50] for number in range(5000)]
    np.testing.assert_allclose(encoder.encode(texts), encoder.encode(texts[:50])[np.arange(5000) % 50], atol=1e-6)


def test_vectors_can_be_cut_and_say_so(folder: Path) -> None:
    whole, cut = StaticEncoder(folder), StaticEncoder(folder, dimension=3)
    assert (cut.name, cut.dimension) == (f"{whole.name}@3", 3)
    short = whole.encode(["a1 b2"])[:, :3]
    np.testing.assert_allclose(cut.encode(["a1 b2"]), short / np.linalg.norm(short), atol=1e-5)
    with pytest.raises(ConfigError, match=r"\b9\b"):
        StaticEncoder(folder, dimension=9)


def test_prompts_go_before_the_texts_of_their_role(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "asking")
    settings = json.loads((tmp_path / "asking" / "encoder.json").read_text())
    (tmp_path / "asking" / "encoder.json").write_text(json.dumps({**settings, "prompts": {"query": "ask "}}))
    encoder = StaticEncoder(tmp_path / "asking")
    queries, passages = encoder.encode(["a1", " "], "query"), encoder.encode(["ask a1", "a1"])
    np.testing.assert_allclose(queries[0], passages[0], atol=1e-6)
    assert not np.allclose(queries[0], passages[1])
    assert not queries[1].any()


def test_encoding_loads_neither_torch_nor_onnxruntime(folder: Path) -> None:
    code = (
        "import sys; from lemmata.encode.load import load_encoder\n"
        f"load_encoder({str(folder)!r}).encode(['a1 a2'])\n"
        "loaded = {'torch', 'onnxruntime', 'transformers', 'scipy'} & set(sys.modules); assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------- the folder


def test_vectors_come_back_as_they_were_up_to_half_a_step(tmp_path: Path) -> None:
    base = bare_base(tmp_path / "base")
    vectors = np.random.default_rng(1).normal(size=(len(SPECIAL) + len(VOCABULARY), 16)).astype(np.float32)
    vectors *= np.logspace(-4, 2, len(vectors), dtype=np.float32)[:, None]  # the weights of tokens differ greatly
    vectors[3] = 0
    write_static(tmp_path / "out", "out", vectors, plain_tokenizer(base / "tokenizer.json"))
    steps = np.abs(vectors).max(axis=1, keepdims=True) / 127
    assert (np.abs(read_static(tmp_path / "out") - vectors) <= 0.501 * steps + 1e-12).all()
    write_static(tmp_path / "again", "out", read_static(tmp_path / "out"), plain_tokenizer(base / "tokenizer.json"))
    assert StaticEncoder(tmp_path / "again").name == StaticEncoder(tmp_path / "out").name


def test_equal_names_mean_equal_vectors(folder: Path, tmp_path: Path) -> None:
    tokenizer = (folder / "tokenizer.json").read_text()
    write_static(tmp_path / "other", "small", -read_static(folder), tokenizer)
    assert StaticEncoder(tmp_path / "other").name != StaticEncoder(folder).name
    assert encoder_kind(str(folder)) == "static"


def shorten(folder: Path) -> None:
    for name in ("vectors.npy", "scales.npy"):
        np.save(folder / name, np.load(folder / name)[:5])


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda folder: (folder / "scales.npy").unlink(), InputError, "scales.npy missing"),
        (lambda folder: (folder / "vectors.npy").write_bytes(b"no array"), WorkspaceError, "vectors.npy is damaged"),
        (lambda folder: (folder / "encoder.json").write_text("{}"), InputError, "does not describe an encoder"),
        (lambda folder: np.save(folder / "scales.npy", np.ones(3)), InputError, "is no matrix in int8"),
        (shorten, InputError, "has 5 rows for 83 tokens"),
    ],
)
def test_a_damaged_folder_is_named(
    folder: Path,
    tmp_path: Path,
    damage: object,
    error: type[Exception],
    message: str,
) -> None:
    shutil.copytree(folder, tmp_path / "damaged")
    assert callable(damage)
    damage(tmp_path / "damaged")
    with pytest.raises(error, match=message):
        load_encoder(str(tmp_path / "damaged"))


def test_a_cut_vocabulary_splits_words_into_what_is_left(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokens = ["[UNK]", "ring", "rings", "##s", "field", "ж"]
    whole = Tokenizer(models.WordPiece({token: number for number, token in enumerate(tokens)}, unk_token="[UNK]"))
    whole.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    whole.enable_truncation(2)
    whole.save(str(tmp_path / "tokenizer.json"))
    kept = ["[UNK]", "##s", "ring", "field"]
    cut = Tokenizer.from_str(plain_tokenizer(tmp_path / "tokenizer.json", kept))
    assert cut.encode("rings field fields ж").tokens == ["ring", "##s", "field", "field", "##s", "[UNK]"]
    assert cut.encode("ring").ids == [2]


# ---------------------------------------------------------------- where they start from


def test_token_vectors_keep_directions_and_weigh_frequent_tokens_down(tmp_path: Path) -> None:
    base = bare_base(tmp_path / "base")
    file = base / "tokenizer.json"
    counts = count_tokens(["a1 a1 a2 elsewhere", "a1 b1"] * 1500, file)
    tokens = [*SPECIAL, *VOCABULARY]
    assert {token: int(counts[n]) for n, token in enumerate(tokens) if counts[n]} == {
        "[UNK]": 1500, "a1": 4500, "a2": 1500, "b1": 1500,
    }  # fmt: skip
    vectors = token_vectors(HashingEncoder(64), file, counts, silent)
    assert vectors.shape == (len(tokens), 64)
    assert not vectors[: len(SPECIAL)].any()
    encoded = HashingEncoder(64).encode(VOCABULARY)
    encoded -= encoded.mean(axis=0)
    weights = COMMON / (COMMON + counts[len(SPECIAL) :] / 9000)
    expected = (encoded @ encoded.T) * weights[:, None] * weights
    np.testing.assert_allclose(vectors[len(SPECIAL) :] @ vectors[len(SPECIAL) :].T, expected, atol=1e-5)


def test_a_vocabulary_is_in_the_order_of_its_numbers(folder: Path) -> None:
    from lemmata.encode.onnx import open_tokenizer

    assert tuple(vocabulary(open_tokenizer(folder / "tokenizer.json"))) == WORDS


# ---------------------------------------------------------------- training


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with pairs and the static encoder that was trained on them."""
    place = tmp_path_factory.mktemp("trained")
    write_small(place / "base", dimension=32)
    (place / "base" / "README.md").write_text("---\nlicense: mit\nlanguage: en\n---\n")
    project = Project.init(place / "notes")
    project.ingest([write_notes(place / "notes.jsonl")])
    project.split(settings={"method": "stratified", "validation": 0.2, "test": 0.2})
    project.mine("pairs")
    config = project.config_file
    table = f'[static.fast]\nbase = "{place / "base"}"\nvalidation = {{ references = "MRR@10" }}\n'
    config.write_text(config.read_text() + table)
    Project(place / "notes").train_static("fast")
    return place / "notes"


def test_the_torch_model_makes_the_vectors_of_the_encoder(folder: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from lemmata.train.encoders import load_model, save_model

    model = load_model(folder, "cpu")
    ids = torch.tensor([[WORDS.index("a1"), WORDS.index("b2"), 0], [WORDS.index("ask"), 0, 0]])
    output = model({"input_ids": ids, "attention_mask": (ids > 0).long()})["sentence_embedding"]
    unit = torch.nn.functional.normalize(output, dim=1).detach().numpy()
    np.testing.assert_allclose(unit, StaticEncoder(folder).encode(["a1 b2", "ask"]), atol=1e-5)
    save_model(model, tmp_path / "saved")
    np.testing.assert_allclose(StaticEncoder(tmp_path / "saved").encode(["a1 b2", "ask"]), unit, atol=1e-2)


def test_only_the_tokens_of_a_job_are_trained_and_the_others_keep_their_vectors(folder: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from lemmata.train.encoders import load_model

    whole, part = load_model(folder, "cpu"), load_model(folder, "cpu")
    tokens = [WORDS.index(word) for word in ("a1", "b2", "ask")]
    part.train_only(np.array(sorted(tokens)))
    assert [tuple(weight.shape) for weight in part.parameters()] == [(3, 8)]
    ids = torch.tensor([[tokens[1], tokens[0], 0], [tokens[2], 0, 0]])
    features = {"input_ids": ids, "attention_mask": torch.tensor([[1, 1, 0], [1, 0, 0]])}
    outputs = [model(features)["sentence_embedding"].detach().numpy() for model in (whole, part)]
    np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-6)
    with torch.no_grad():
        part.bag.weight[sorted(tokens).index(tokens[0])] *= -1
    part.save(tmp_path / "saved")
    before, after = read_static(folder), read_static(tmp_path / "saved")
    before[tokens[0]] *= -1
    norms = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    np.testing.assert_allclose((before * after).sum(axis=1) / norms, 1, atol=1e-3)


def test_training_learns_which_words_mean_the_same(trained: Path) -> None:
    manifest = json.loads((trained / "models" / "fast" / "manifest.json").read_text())
    report = manifest["report"]
    assert manifest["verb"] == "static"
    assert load_encoder("fast", models=trained / "models").name.startswith("fast-static-")
    assert report["before"]["references/MRR@10"] < 0.1 < 0.4 < report["after"]["references/MRR@10"]
    encoder = load_encoder("fast", models=trained / "models")
    similarities = encoder.encode([f"a{n}" for n in range(40)]) @ encoder.encode([f"b{n}" for n in range(40)]).T
    assert (similarities.argmax(axis=1) == np.arange(40)).mean() > 0.8


def test_the_model_has_card_history_and_the_licence_of_its_base(trained: Path) -> None:
    model = trained / "models" / "fast"
    card = json.loads((model / "card.json").read_text())
    assert (card["licence"], card["dimension"], card["max_tokens"]) == ("mit", 32, 16)
    readme = (model / "README.md").read_text()
    assert "A static encoder" in readme
    assert "SentenceTransformer" not in readme
    assert (model / "history.json").is_file()
    assert (model / "trained.json").is_file()


def test_a_workspace_searches_with_its_static_encoder(trained: Path) -> None:
    code, out, _ = say("train", "static", "fast", "-w", trained, "--json")
    assert (code, json.loads(out)["done_before"]) == (0, True)
    code, out, _ = say("train", "models", "-w", trained)
    assert "static yes" in " ".join(out.split())
    assert say("index", "--encoder", "fast", "-w", trained)[0] == 0
    [vectors] = [each for each in Project(trained).info()["vectors"] if each["encoder"] == "fast"]
    assert vectors["fusion"]["formula"] == "0.4 dense + 0.6 lexical"  # the default of static encoders
    with Retriever.open(trained) as retriever:
        assert retriever.dense().fusion.formula == vectors["fusion"]["formula"]
    code, out, _ = say("search", "a7 a8 a9", "--retriever", "dense", "-k", "3", "-w", trained, "--json")
    words = {word for hit in json.loads(out) for word in hit["text"].split()}
    assert words & {"b7", "b8", "b9"}  # words that mean the same and are written otherwise


def test_training_starts_from_the_packaged_encoder_where_none_is_named(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "notes")
    project.ingest([write_notes(tmp_path / "notes.jsonl")])
    assert finetune_options(project, "static", static=True).base == NANO


def test_training_starts_from_the_token_vectors_of_any_encoder(trained: Path, tmp_path: Path) -> None:
    from tests.small_bert import small_bert

    base = small_bert(tmp_path / "tiny")
    shutil.copytree(trained, tmp_path / "notes")
    config = tmp_path / "notes" / "lemmata.toml"
    config.write_text(config.read_text() + "[static.taken]\nvalidation = { references = 'MRR@10' }\n")
    code, out, error = say("train", "static", "taken", "-o", f"base={base}", "-w", tmp_path / "notes")
    assert code == 0, error
    assert "next: lemmata index --encoder taken" in out
    assert is_static(tmp_path / "notes" / "models" / "taken")
    assert load_encoder("taken", models=tmp_path / "notes" / "models").dimension == 32


def test_what_needs_layers_refuses_a_static_base(trained: Path) -> None:
    base = trained / "models" / "fast"
    config = trained / "lemmata.toml"
    before = config.read_text()
    config.write_text(f'{before}[finetune.tuned]\nbase = "{base}"\nadapters = "lora"\n')
    try:
        assert "has no layers" in refused(say("train", "finetune", "tuned", "-w", trained))
        config.write_text(f'{before}[finetune.tuned]\nbase = "{base}"\nfreeze = 1\n')
        assert "freeze" in refused(say("train", "finetune", "tuned", "-w", trained))
        assert "is no sentence-transformers model" in refused(
            say("train", "pretrain", "-o", f"base={base}", "-w", trained)
        )
    finally:
        config.write_text(before)
