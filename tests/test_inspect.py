"""Inspect: measures against values by hand and other implementations, and reports that are safe and repeatable."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import lemmata, make_workspace, to_lines, unit_vectors
from tests.small_bert import small_bert

from lemmata.core.errors import LemmataError
from lemmata.core.types import Floats
from lemmata.core.workspace import read_manifest, write_manifest
from lemmata.encode.load import PACKAGED, baseline_folder, model_folder
from lemmata.encode.restore import restore
from lemmata.inspect.inspect import InspectOptions, _choose
from lemmata.inspect.layers import AttentionByLayer, Reading, open_layers, pool_static, read_text, summarise_readings
from lemmata.inspect.space import (
    alignment,
    compare_neighbours,
    effective_rank,
    measure_space,
    nearest,
    neighbour_purity,
    partition_isotropy,
    random_pairs,
    separation,
    spectrum,
    tsne_maps,
    uniformity,
)
from lemmata.inspect.tokens import (
    Tokens,
    common_commands,
    cut_spans,
    pieces,
    read_tokenizer,
    token_norms,
    tokenise,
    vocabulary_overlap,
)
from lemmata.project import Project

NANO = "lemmata-nano"
needs_nano = pytest.mark.skipif(NANO not in PACKAGED, reason="the static encoder is not packaged")


# ---------------------------------------------------------------- tokens


def word_pieces(folder: Path, *words: str) -> Tokens:
    """A WordPiece tokenizer as BERT has it, with these tokens."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = {token: number for number, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    around = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=around)
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tokenizer.enable_padding(length=64)
    tokenizer.enable_truncation(8)
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return read_tokenizer(folder / "tokenizer.json")


def test_words_and_commands_are_counted_in_pieces(tmp_path: Path) -> None:
    tokens = word_pieces(tmp_path, "let", "\\", "$", "al", "##pha", "x", "=", "be", "##ta", "sum")
    cut = tokenise(tokens, ["Let $\\alpha = \\sum x$ be", "beta zzz", ""], max_tokens=6)
    # [CLS] let $ \ al ##pha = \ sum x $ be [SEP], then [CLS] be ##ta [UNK] [SEP], then [CLS] [SEP]
    assert cut.lengths.tolist() == [13, 5, 2]
    assert cut.cut_off == pytest.approx(1 / 3)
    assert cut.commands == (2, 1.5, 0.5)  # alpha in two pieces, sum in one
    assert cut.words == (4, 1.25, 0.75)  # let, be, beta, zzz
    assert cut.counts["be"] == 2
    assert "[CLS]" not in cut.counts
    assert cut.in_formulas == pytest.approx(9 / cut.counts.total())
    assert cut.unknown == pytest.approx(1 / 14)
    assert pieces(tokens, "alpha") == ["al", "##pha"]


@given(st.lists(st.integers(1, 4), max_size=12), st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=8))
def test_pieces_of_a_span_are_those_that_share_a_character(sizes: list[int], spans: list[tuple[int, int]]) -> None:
    ends = np.cumsum([0, *sizes])
    offsets = np.array(list(pairwise(ends)), np.int64).reshape(-1, 2)
    places = [(begin, begin + length) for begin, length in spans]
    by_hand = [
        sum(bool(set(range(*place)) & set(range(int(begin), int(end)))) for begin, end in offsets) for place in places
    ]
    assert cut_spans(offsets, places).tolist() == by_hand


def test_vocabularies_with_other_marks_are_compared_by_what_they_mean(tmp_path: Path) -> None:
    first = word_pieces(tmp_path / "first", "the", "##ta", "theta", "x")
    second = Tokens(None, {"▁the": 0, "ta": 1, "▁theta": 2, "ing": 3}, None, frozenset())
    overlap = vocabulary_overlap(first, second, {"the": 3, "x": 1})
    assert overlap.shared == 3
    assert overlap.jaccard == pytest.approx(3 / 5)
    assert overlap.text == pytest.approx(3 / 4)


def test_frequent_commands_come_from_formulas_only() -> None:
    texts = ["$\\alpha\\beta$ and \\gamma", "costs \\$5 and $\\beta$"]
    assert common_commands(texts, 5) == [("\\beta", 2), ("\\alpha", 1)]


def test_token_norms_leave_out_special_tokens(tmp_path: Path) -> None:
    tokens = word_pieces(tmp_path, "x", "y")
    vectors = np.array([[9, 9]] * 4 + [[3, 4], [0, 2]], np.float32)
    assert token_norms(vectors, tokens) == {"x": 5.0, "y": 2.0}
    assert token_norms(vectors[:5], tokens) == {"x": 5.0}


# ---------------------------------------------------------------- the space


def test_alignment_and_uniformity_have_the_values_of_their_formulas() -> None:
    east, north, west = [1, 0], [0, 1], [-1, 0]
    vectors = np.array([east, north, west], np.float32)
    assert alignment(vectors[[0, 0]], vectors[[1, 2]]) == pytest.approx((2 + 4) / 2)
    pairs = np.array([[0, 0, 1], [1, 2, 2]])
    assert uniformity(vectors, pairs) == pytest.approx(np.log((np.exp(-4) + np.exp(-8) + np.exp(-4)) / 3))
    same = np.tile(vectors[:1], (3, 1))
    assert (alignment(same, same), uniformity(same, pairs)) == (0, 0)


def test_a_space_that_prefers_no_direction_is_isotropic_and_has_full_rank() -> None:
    axes = np.concatenate([np.eye(5), -np.eye(5)]).astype(np.float32)
    assert partition_isotropy(axes) == pytest.approx(1, abs=1e-5)
    assert effective_rank(axes) == pytest.approx(5, abs=1e-4)
    np.testing.assert_allclose(spectrum(axes), 0.2, atol=1e-6)
    cone = axes[:1] + 0.1 * axes
    assert partition_isotropy(cone / np.linalg.norm(cone, axis=1, keepdims=True)) < 0.2
    line = np.array([[1, 0], [-1, 0], [1, 0]], np.float32)
    assert effective_rank(line) == pytest.approx(1)
    assert effective_rank(np.ones((3, 2), np.float32)) == pytest.approx(1)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9), st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_separation_is_the_share_of_pairs_in_the_right_order(linked: list[int], random: list[int]) -> None:
    by_hand = np.mean([(a > b) + 0.5 * (a == b) for a in linked for b in random])
    assert separation(np.array(linked, np.float32), np.array(random, np.float32)) == pytest.approx(by_hand)


@pytest.mark.parametrize("count", [5, 400])
def test_random_pairs_are_of_two_different_passages(count: int) -> None:
    first, second = random_pairs(count, 1000, np.random.default_rng(0))
    assert (first != second).all()
    assert len(first) == min(1000, count * (count - 1) // 2)
    assert {*first.tolist(), *second.tolist()} <= set(range(count))


def test_without_links_there_is_no_alignment() -> None:
    vectors = unit_vectors(20, 0, 4)
    nothing = np.zeros((0, 4), np.float32)
    space = measure_space(vectors, random_pairs(20, 50, np.random.default_rng(0)), (nothing, nothing))
    assert (space.alignment, space.separation) == (None, None)
    assert -1 < space.mean_cosine < 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_maps_keep_clusters_together_and_the_next_map_starts_from_the_last() -> None:
    generator = np.random.default_rng(0)
    centres = np.eye(3, 16, dtype=np.float32)
    groups = np.repeat(np.arange(3), 20)
    vectors = centres[groups] + 0.05 * generator.normal(size=(60, 16)).astype(np.float32)
    first, second = tsne_maps([vectors, vectors], seed=3)
    for points in (first, second):
        assert neighbour_purity(nearest_points(points, 5), groups) == 1
    moved = np.linalg.norm(first - second, axis=1).mean()
    radius = np.linalg.norm(first - first.mean(axis=0), axis=1).mean()
    assert moved < 0.3 * radius  # clusters may drift apart, but none changes its place
    np.testing.assert_array_equal(tsne_maps([vectors], seed=3)[0], first)


def nearest_points(points: Floats, k: int) -> npt.NDArray[np.int64]:
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    return np.argsort(distances, axis=1)[:, :k].astype(np.int64)


# ---------------------------------------------------------------- neighbours


@given(st.integers(2, 14), st.integers(1, 10), st.integers(0, 99))
def test_nearest_neighbours_are_those_of_all_cosines(count: int, k: int, seed: int) -> None:
    vectors = unit_vectors(count, seed, 3)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    by_hand = np.argsort(-cosines, axis=1, kind="stable")[:, : min(k, count - 1)]
    np.testing.assert_array_equal(nearest(vectors, k), by_hand)


def test_a_passage_among_equal_ones_is_not_its_own_neighbour() -> None:
    rows = nearest(np.ones((6, 2), np.float32), 3)
    assert rows.shape == (6, 3)
    assert all(row not in others for row, others in enumerate(rows.tolist()))


def test_the_passage_that_moved_has_changed_most() -> None:
    angles = np.array([0.0, 0.1, 0.2, 2.0, 2.1, 2.2])
    before = np.array([np.cos(angles), np.sin(angles)], np.float32).T
    angles[0] = 2.3
    after = np.array([np.cos(angles), np.sin(angles)], np.float32).T
    same = compare_neighbours(before, before, 2)
    assert same.overlaps.tolist() == [1] * 6
    changes = compare_neighbours(before, after, 2)
    assert changes.overlaps[0] == 0
    assert changes.most_changed(1).tolist() == [0]
    assert set(changes.before[0].tolist()) == {1, 2}
    assert set(changes.after[0].tolist()) == {4, 5}


# ---------------------------------------------------------------- inside the layers


def test_attention_is_summarised_as_by_hand() -> None:
    looks = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    alike = np.full((3, 3), 1 / 3)
    reading = Reading(
        ["a", "b", "c"], np.array([[looks], [alike]], np.float32), np.eye(3, dtype=np.float32), np.ones(3, np.float32)
    )
    attention, pooled = summarise_readings(lambda _text: reading, ["", ""], lambda _done: None)
    assert attention.first.tolist() == pytest.approx([0.5, 1 / 3])
    assert attention.last.tolist() == pytest.approx([0.5 / 3, 1 / 3])
    assert attention.own.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert attention.beside.tolist() == pytest.approx([(0.5 + 0.5) / 3, 4 / 9])
    assert attention.entropy.tolist() == pytest.approx([2 * np.log(2) / 3 / np.log(3), 1])
    assert pooled.token_norms.tolist() == [1, 1]
    assert pooled.agreement == pytest.approx(np.sqrt(3))


def test_tokens_of_a_static_encoder_agree_where_they_point_the_same_way() -> None:
    vectors = np.array([[2, 0], [4, 0], [0, 3]], np.float32)
    pooled = pool_static(vectors, [[0, 1], [], [0, 2]])
    assert pooled.token_norms.tolist() == [3, 2.5]
    assert pooled.pooled_norms.tolist() == pytest.approx([3, np.hypot(1, 1.5)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch and transformers
def test_attention_is_that_of_the_weights(tmp_path: Path) -> None:
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    folder = small_bert(tmp_path / "model")
    layers = open_layers(folder)
    reading = read_text(layers, "a1 b2 a3 a3")
    assert reading.tokens == ["[CLS]", "a1", "b2", "a3", "a3", "[SEP]"]
    assert reading.attention.shape == (2, 2, 6, 6)
    np.testing.assert_allclose(reading.attention.sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(reading.pooled, reading.vectors.mean(axis=0), atol=1e-5)
    own = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    ids = torch.tensor([[layers.model.tokenizer.convert_tokens_to_ids(token) for token in reading.tokens]])
    with torch.no_grad():
        expected = own(ids, output_attentions=True)
    np.testing.assert_allclose(reading.attention, torch.cat(expected.attentions).numpy(), atol=1e-6)
    np.testing.assert_allclose(reading.vectors, expected.last_hidden_state[0].numpy(), atol=1e-5)
    weights = {name: value.numpy() for name, value in own.state_dict().items()}
    np.testing.assert_allclose(reading.attention[0], first_layer(weights, ids[0].numpy()), atol=1e-5)
    assert len(read_text(layers, "a1 " * 40).tokens) == layers.max_tokens == 16


def first_layer(weights: dict[str, Any], ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The attention (heads, tokens, tokens) of the first layer of a BERT with two heads, in numpy."""
    parts = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    words, positions, types = (weights[f"embeddings.{part}.weight"] for part in parts)
    states = words[ids] + positions[: len(ids)] + types[0]
    centred = states - states.mean(axis=1, keepdims=True)
    states = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
    states = states * weights["embeddings.LayerNorm.weight"] + weights["embeddings.LayerNorm.bias"]
    queries, keys = (
        states @ weights[f"encoder.layer.0.attention.self.{part}.weight"].T
        + weights[f"encoder.layer.0.attention.self.{part}.bias"]
        for part in ("query", "key")
    )
    heads = []
    for place in (slice(0, 16), slice(16, 32)):
        scores = np.exp(queries[:, place] @ keys[:, place].T / 4)
        heads.append(scores / scores.sum(axis=1, keepdims=True))
    return np.array(heads)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_restored_integers_attend_as_the_floats_that_they_came_from(tmp_path: Path) -> None:
    text = "Let $p(n)$ be the number of partitions of $n$."
    exact = read_text(open_layers(baseline_folder()), text)
    restored = read_text(open_layers(restore(model_folder("minilm"), tmp_path / "restored")), text)
    assert restored.tokens == exact.tokens
    assert np.abs(restored.attention.mean(axis=1) - exact.attention.mean(axis=1)).max() < 0.05


# ---------------------------------------------------------------- the whole verb

HOSTILE = '<script>alert(1)</script> & "quoted" \x07 <img src=x onerror=alert(2)>'
NOTE = r"""\title{%s}
\newtheorem{lemma}{Lemma}
\begin{document}
%s
\end{document}
"""


def notes(title: str, count: int, seed: int) -> str:
    generator = np.random.default_rng(seed)
    words = "module ring ideal field prime finite local graph tree path kernel image".split()
    lemmas = []
    for number in range(count):
        text = " ".join(generator.choice(words, 8))
        reference = f" See \\ref{{{title}-{number - 1}}}." if number else ""
        name = f"[{title} {number}]"
        lemmas.append(
            f"\\begin{{lemma}}{name}\\label{{{title}-{number}}} Let $\\alpha_{number}$ be a {text}.{reference}"
        )
        lemmas.append("\\end{lemma}")
    return NOTE % (title, "\n".join(lemmas))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    rows = [{"id": f"hostile{n}", "title": HOSTILE, "text": f"{HOSTILE} ring number {n}"} for n in range(6)]
    files = {f"{name}.tex": notes(name, 14, seed) for seed, name in enumerate(("algebra", "topology"))}
    folder = tmp_path_factory.mktemp("inspect")
    made = make_workspace(folder, {**files, "hostile.jsonl": "\n".join(map(json.dumps, rows))})
    made.build_graph()
    return made


def check_report(folder: Path) -> str:
    """Nothing in a report runs or is loaded, and each figure is well-formed; returns the report."""
    html = (folder / "report.html").read_text("utf-8")
    assert "default-src 'none'" in html
    assert "<script" not in html
    assert "<img" not in html
    assert not re.search(r"""(?:src|href|url)\s*[=(]\s*["']?https?:""", html)
    for file in (folder / "figures").iterdir():
        svg = ElementTree.fromstring(file.read_text("utf-8"))
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        assert not [node for node in svg.iter() if node.tag.endswith(("script", "image"))]
        values = [value for node in svg.iter() for name, value in node.attrib.items() if name != "aria-label"]
        assert not [value for value in values if re.search("nan|inf", value)]
    return html


@pytest.mark.slow
@needs_nano
@pytest.mark.filterwarnings("ignore")
def test_a_report_escapes_hostile_text_and_is_the_same_again(project: Project, tmp_path: Path) -> None:
    chosen = [f"hostile{n}" for n in range(3)]
    report = project.inspect(["hashing", NANO], tmp_path / "one", passages=chosen, seed=4)
    html = check_report(tmp_path / "one")
    assert "&lt;script&gt;alert(1)" in html
    assert report["sampled"] == report["passages"] == 34
    assert report["links"] == 26
    assert report["cosines"]["passages"] == chosen
    assert report["encoders"]["hashing"]["tokens"] is None
    assert "hashes words" in report["encoders"]["hashing"]["notes"][0]
    nano = report["encoders"][NANO]
    assert nano["tokens"]["commands"]["total"] == 28
    assert nano["attention"] is None
    assert 0 < nano["separation"] <= 1
    [change] = report["changes"]
    assert (change["before"], change["after"]) == ("hashing", NANO)
    assert 0 < change["overlap@10"] < 1
    assert report == {**json.loads((tmp_path / "one" / "numbers.json").read_text()), **places(report)}
    project.inspect(["hashing", NANO], tmp_path / "two", passages=chosen, seed=4)
    for file in (tmp_path / "one").rglob("*.*"):
        other = tmp_path / "two" / file.relative_to(tmp_path / "one")
        assert file.name == "manifest.json" or file.read_bytes() == other.read_bytes(), file.name
    shown = check_report(tmp_path / "one")
    assert f"Neighbours by hashing and by {NANO}" in shown
    assert "What training changed" not in shown  # none was trained from the other
    alignment = report["encoders"]["hashing"]["alignment"]
    assert f"{alignment:.3f}" in shown
    project.inspect(["hashing"], tmp_path / "two", seed=5)  # replaces the one before
    assert "Neighbours by" not in check_report(tmp_path / "two")
    assert not (tmp_path / "two" / "figures" / f"cosines-{NANO}.svg").exists()


def places(report: dict[str, Any]) -> dict[str, Any]:
    return {name: report[name] for name in ("report", "figures")}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_transformer_shows_its_attention(project: Project, tmp_path: Path) -> None:
    folder = small_bert(tmp_path / "small", words=("module", "ring", "ideal", "let", "a"))
    report = project.inspect([str(folder)], tmp_path / "out")
    html = check_report(tmp_path / "out")
    view = report["encoders"][str(folder)]
    assert (view["kind"], view["layers"], view["heads"]) == ("transformer", 2, 2)
    assert set(view["attention"]) == set(AttentionByLayer.__dataclass_fields__)
    assert all(len(values) == 2 for values in view["attention"].values())
    assert 0 < view["pooling"]["agreement"] <= 1
    assert view["notes"] == []
    assert {"attention-small.svg", "attention-small-layer-2.svg", "cls-small-1.svg"} <= set(report["figures"])
    assert "what [CLS] looks at" in html


def test_only_what_is_drawn_is_read(project: Project) -> None:
    with_corpus = project.corpus
    chosen = _choose(project, with_corpus, InspectOptions(sample=10, passages=("hostile0", "hostile1"), seed=1))
    with_corpus.close()
    drawn = {*chosen.sample.tolist(), *chosen.links.ravel().tolist(), *chosen.points.tolist(), *chosen.cosines.tolist()}
    assert drawn == set(range(len(chosen.passages)))
    assert len(chosen.sample) == 10
    assert [chosen.passages[place].id for place in chosen.cosines] == ["hostile0", "hostile1"]
    assert chosen.groups == ["algebra", "topology"]


@pytest.mark.slow
@needs_nano
@pytest.mark.filterwarnings("ignore")
def test_without_names_a_trained_model_is_compared_with_its_base(project: Project, tmp_path: Path) -> None:
    root = tmp_path / "w"
    shutil.copytree(project.root, root)
    copy = Project(root)
    shutil.copytree(PACKAGED[NANO], copy.model("tuned"))
    write_manifest(copy.manifest(copy.model("tuned")), {"options": {"base": "hashing"}})
    copy.index(settings={"encoder": "tuned"})
    assert list(copy.inspect()["encoders"]) == ["hashing", "tuned"]
    assert (root / "inspect" / "report.html").is_file()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("lemmata-mimi", "there is no encoder 'lemmata-mimi'"),
        ("hashing hashing", "each encoder can be named once only"),
        ("hashing --passage algebra#algebra-1", "cosines need 2 to 30 passages, not 1"),
        (
            "hashing --passage algebra#algebra-1 --passage algebra#algebra-99",
            "there is no passage 'algebra#algebra-99'",
        ),
        ("hashing --document algebre", "there is no document 'algebre' with passages; did you mean algebra"),
    ],
)
def test_what_cannot_be_inspected_is_said_in_one_sentence(project: Project, command: str, sentence: str) -> None:
    error = lemmata("inspect", *command.split(" "), "-w", project.root, code=1)
    assert sentence in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_the_command_gives_numbers_and_never_replaces_a_foreign_folder(project: Project, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = json.loads(lemmata("inspect", "hashing", "-w", project.root, "--out", out, "--sample", "20", "--json"))
    assert report["sampled"] == 20
    assert report["encoders"]["hashing"]["dimension"] == 256
    assert read_manifest(out / "manifest.json") is not None
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    error = lemmata("inspect", "hashing", "-w", project.root, "--out", tmp_path / "mine", code=1)
    assert "is no inspection, so it is not replaced" in error
    assert (tmp_path / "mine" / "thesis.tex").is_file()
    with pytest.raises(
        LemmataError, match=project.graph_folder.name
    ):  # a folder of the workspace, with another manifest
        project.inspect(["hashing"], project.graph_folder)


def test_too_few_passages_and_no_index_are_said(tmp_path: Path) -> None:
    rows = [{"id": f"r{n}", "text": f"ring {n}"} for n in range(3)]
    small = make_workspace(tmp_path, {"p.jsonl": to_lines(rows)}, index="lexical")
    with pytest.raises(LemmataError, match=r"10.*3"):
        small.inspect(["hashing"])
    with pytest.raises(LemmataError, match="encoder"):
        small.inspect()


@pytest.mark.filterwarnings("ignore")
def test_a_corpus_without_links_and_documents_has_a_report_that_says_so(tmp_path: Path) -> None:
    rows = [{"id": f"r{n}", "text": f"ring and ideal {n} of {n % 7}"} for n in range(15)]
    plain = make_workspace(tmp_path, {"p.jsonl": to_lines(rows)}, index="lexical")
    report = plain.inspect(["hashing"], tmp_path / "out")
    assert report["encoders"]["hashing"]["alignment"] is None
    assert "run 'lemmata graph build'" in report["notes"][0]
    check_report(tmp_path / "out")


# ---------------------------------------------------------------- modules


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_modules_are_named_side_by_side_with_how_far_training_moved_them(project: Project, tmp_path: Path) -> None:
    """A BERT, the same with one layer doubled, and a ModernBERT: the table of the thesis."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tests.small_bert import small_modern

    words = ("module", "ring", "ideal", "let", "a")
    first, modern = small_bert(tmp_path / "first", words=words), small_modern(tmp_path / "modern")
    second = shutil.copytree(first, tmp_path / "second")
    model = transformers.AutoModel.from_pretrained(second)
    with torch.no_grad():
        for name, weight in model.encoder.layer[1].named_parameters():
            weight.mul_(1.0 if "attention" in name else 2.0)
    model.save_pretrained(second)
    names = [str(first), str(second), str(modern)]
    table = lemmata("inspect", *names, "-w", project.root, "--out", tmp_path / "out")
    assert "separation" in table
    assert f"{tmp_path / 'out' / 'report.html'} sampled 34" in " ".join(table.split())
    assert "module" in table
    assert "moved by training" in " ".join(table.split())
    report = json.loads((tmp_path / "out" / "numbers.json").read_text(encoding="utf-8"))
    bert, moved, other = (report["encoders"][name] for name in names)
    assert bert["modules"] == moved["modules"]
    expected = {
        "embeddings": ("BertEmbeddings", "ModernBertEmbeddings"),
        "token embeddings": ("10 × 32", "86 × 32"),
        "position embeddings": ("32", "rotary"),
        "segment embeddings": ("2", "–"),
        "norm of embeddings": ("LayerNorm", "LayerNorm"),
        "dropout of embeddings": ("0.1", "0"),
        "layers": ("2", "2"),
        "attention": ("2 heads, separate Q, K, V", "2 heads, one matrix for Q, K, V"),
        "attention norm, first layer": ("LayerNorm", "Identity"),
        "attention norm, last layer": ("LayerNorm", "LayerNorm"),
        "MLP": ("32 → 64, 64 → 32", "32 → 96, 48 → 32"),
        "final norm": ("–", "LayerNorm"),
        "pooler": ("BertPooler", "–"),
        "pooling": ("mean", "mean"),
        "reads": ("16 tokens", "1,024 tokens"),
    }
    assert {name: (bert["modules"][name], other["modules"][name]) for name in expected} == expected
    assert (bert["moved"], other["moved"]) == ({}, {})  # the first, and one of another shape
    changed = {part: change for part, change in moved["moved"].items() if change}
    assert changed == {"MLP 2": pytest.approx(1.0)}
    assert set(moved["moved"]) == {"embeddings", *(f"{kind} {n}" for kind in ("attention", "MLP") for n in (1, 2))}
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "How far the weights moved" in html
    assert "100.00%" in html
