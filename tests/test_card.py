"""The model card: what the hub reads, that no fact is lost, and that missing facts are named."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import check_for_the_hub

from lemmata.encode.load import NANO, PACKAGED, PLANT
from lemmata.train.card import (
    Estimate,
    Guard,
    Measured,
    ModelFacts,
    SplitFacts,
    TrainingSet,
    inherited,
    model_card,
    write_card,
)
from lemmata.train.report import Point

BARE = ModelFacts(
    name="stacks-mini",
    base="minilm",
    base_sha256="53aa5117",
    licence="Apache-2.0",
    dimension=384,
    max_tokens=256,
    pooling=["mean"],
    command="lemmata train finetune --seed 7",
)
FULL = replace(
    BARE,
    prompts={"query": "search: ", "passage": ""},
    matryoshka=[128, 256],
    languages=["en", "no"],
    base_on_hub="sentence-transformers/all-MiniLM-L6-v2",
    sets=[TrainingSet("pairs", 41233, {"data.parquet": "ab12"}, "Stacks Project, GFDL")],
    split=SplitFacts("document", "cd34", {"train": {"rows": 9000}, "test": {"rows": 1000, "unseen": 990}}, 5),
    options={"rate": 3e-05, "sets": {"pairs": 1.0}, "template": "a|b `c`"},
    versions={"lemmata": "0.1.0", "torch": "2.13.0"},
    measures=[
        Measured("validation", "slogans", "MRR@10", 100, Estimate(0.35), Estimate(0.5)),
        Measured("test", "slogans", "nDCG@10", 1234, Estimate(0.4, 0.38, 0.42), Estimate(0.3912, 0.37, 0.41)),
    ],
    guards=[
        Guard("scifact", "nDCG@10", 300, Estimate(0.645), Estimate(0.64), 0.02),
        Guard("arguana", "nDCG@10", 1406, Estimate(0.5), Estimate(0.4), 0.02),
    ],
    sweep=[Point(1.0, 0.5, 0.6), Point(0.5, 0.48, 0.64)],
    share=0.5,
    intended_use="Search among statements of algebraic geometry.",
    limits=["English only.", "Formulae are read as text."],
)


def front_matter(card: str) -> Any:
    yaml = pytest.importorskip("yaml")
    _, header, _ = card.split("---\n", 2)
    return yaml.safe_load(header)


def line(card: str, start: str) -> str:
    [match] = [row for row in card.splitlines() if row.startswith(start)]
    return match


def test_the_front_matter_is_what_the_hub_reads() -> None:
    header = front_matter(model_card(FULL))
    [index] = header.pop("model-index")
    assert [result["dataset"]["split"] for result in index["results"]] == ["validation", "test"]
    assert header == {
        "language": ["en", "no"],  # and not False, as YAML would read it
        "license": "apache-2.0",
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "sentence-similarity", "feature-extraction", "lemmata", "matryoshka"],
        "base_model": "sentence-transformers/all-MiniLM-L6-v2",
    }
    hub = pytest.importorskip("huggingface_hub")
    data = hub.ModelCard(model_card(FULL)).data
    assert (data.license, data.base_model) == ("apache-2.0", "sentence-transformers/all-MiniLM-L6-v2")


def test_a_base_that_is_not_on_the_hub_is_not_linked_there() -> None:
    card = model_card(BARE)
    assert "base_model" not in front_matter(card)
    assert line(card, "| base |") == "| base | `minilm` |"
    assert line(card, "| sha256 of") == "| sha256 of the base weights | `53aa5117` |"


def test_every_fact_stands_in_the_card() -> None:
    card = model_card(FULL)
    facts = [
        "41,233",
        "`ab12`",
        "Stacks Project, GFDL",
        "`cd34`",
        "Split before mining: document, seed 5",
        "1,000 rows, 990 unseen",
    ]
    facts += ["`3e-05`", '`{"pairs": 1.0}`', "| torch | 2.13.0 |", "English only.", "algebraic geometry"]
    facts += ["lemmata train finetune --seed 7", 'query: `"search: "`', "256, 128", "truncate_dim=128", "dimension=128"]
    facts += ['SentenceTransformer("stacks-mini")', 'load_encoder("stacks-mini")']
    assert [fact for fact in facts if fact not in card] == []


def test_measures_have_intervals_and_differences_a_sign() -> None:
    card = model_card(FULL)
    cells = [cell.strip() for cell in line(card, "| test | slogans").strip("|").split("|")]
    assert cells == [
        "test",
        "slogans",
        "nDCG@10",
        "1,234",
        "0.4000 (0.3800 to 0.4200)",
        "0.3912 (0.3700 to 0.4100)",
        "−0.0088",
    ]
    assert line(card, "| validation | slogans").endswith("| 0.3500 | 0.5000 | +0.1500 |")


def test_a_guard_that_dropped_too_far_failed() -> None:
    card = model_card(FULL)
    assert line(card, "| scifact").endswith("| −0.0050 | 2.0% | passed |")
    assert line(card, "| arguana").endswith("| −0.1000 | 2.0% | **failed** |")


def test_the_chosen_share_is_marked() -> None:
    card = model_card(FULL)
    assert line(card, "| **0.5**") == "| **0.5** | 0.4800 | 0.6400 |"
    assert card.index("| **0.5**") < card.index("| 1 | 0.5000 |")
    assert "0.5 of the trained weights and 0.5 of the base weights" in card


def test_the_card_says_what_is_missing() -> None:
    card = model_card(BARE)
    for sentence in (
        "Not measured.",
        "may be worse than the base outside its domain",
        "No training sets were recorded.",
        "No split was recorded, so the queries above may have been trained on.",
        "No options were recorded.",
        "No versions were recorded.",
        "Not stated.",
    ):
        assert sentence in card, sentence
    validation_only = replace(FULL, measures=FULL.measures[:1])
    assert "Nothing was measured on test." in model_card(validation_only)


def test_the_json_holds_the_same_facts(tmp_path: Path) -> None:
    write_card(tmp_path, FULL)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == model_card(FULL)
    content = json.loads((tmp_path / "card.json").read_text(encoding="utf-8"))
    assert content["measures"][1]["before"] == {"value": 0.4, "low": 0.38, "high": 0.42}
    assert content["sets"][0]["files"] == {"data.parquet": "ab12"}
    assert content["sweep"][0] == {"share": 1.0, "domain": 0.5, "general": 0.6}
    assert content["split"]["counts"]["test"] == {"rows": 1000, "unseen": 990}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "card.json"]


def test_the_card_shows_the_curves_if_the_folder_has_them(tmp_path: Path) -> None:
    assert "![" not in model_card(FULL)
    (tmp_path / "curves.svg").touch()
    write_card(tmp_path, FULL)
    assert "![Training curves](curves.svg)" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_a_measure_that_is_nan_is_a_dash_and_null(tmp_path: Path) -> None:
    facts = replace(FULL, measures=[Measured("test", "t", "R@20", 0, Estimate(math.nan), Estimate(math.nan))])
    write_card(tmp_path, facts)
    assert line(model_card(facts), "| test | t").endswith("| – | – | – |")
    assert json.loads((tmp_path / "card.json").read_text())["measures"][0]["after"]["value"] is None


WILD = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PRINTED = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=20)


@pytest.mark.parametrize(
    ("readme", "licence", "languages"),
    [
        ("---\nlicense: mit\nlanguage:\n- de\n- en\n---\n# A model\n", "mit", ["de", "en"]),
        ("---\nlanguage: en\n---\n", "unknown", ["en"]),
        ("---\nlicense: [a\n---\n", "unknown", []),
        ("license: mit\n", "unknown", []),
        (None, "unknown", []),
    ],
)
def test_licence_and_languages_are_those_that_the_base_states(
    tmp_path: Path, readme: str | None, licence: str, languages: list[str]
) -> None:
    if readme is not None:
        (tmp_path / "README.md").write_text(readme)
    assert inherited(tmp_path) == {"licence": licence, "languages": languages}


def test_the_packaged_models_hand_on_their_licences() -> None:
    stated = {name: inherited(folder)["licence"] for name, folder in PACKAGED.items()}
    assert stated["lemmata-plant"] == "mit"
    assert stated["lemmata-mini"] == "apache-2.0"
    assert stated["lemmata-nano"] == "mit"
    assert "MinishLab" in (PACKAGED[NANO] / "LICENSE").read_text("utf-8")  # MIT asks for the notice


@given(name=WILD, licence=PRINTED, language=PRINTED, base=PRINTED)
def test_any_text_is_read_back_from_the_front_matter(name: str, licence: str, language: str, base: str) -> None:
    facts = replace(BARE, name=name, licence=licence, languages=[language], base_on_hub=base)
    yaml = pytest.importorskip("yaml")
    header: Any = yaml.safe_load(model_card(facts).split("\n---\n")[0])
    assert header["language"] == [language]
    assert header.get("license", "") == licence.lower()
    assert header.get("base_model", "") == base


@given(option=WILD, value=WILD, task=WILD)
def test_no_text_breaks_a_table(option: str, value: str, task: str) -> None:
    measured = replace(FULL.measures[0], task=task)
    card = model_card(replace(FULL, options={option: value}, measures=[measured]))
    for row, columns in ((line_after(card, "| option |"), 2), (line_after(card, "| part | task"), 7)):
        cells = row.replace("\\\\", "").replace("\\|", "").strip().strip("|").split("|")
        assert len(cells) == columns, row


def line_after(card: str, start: str) -> str:
    """The first row of the table whose head begins with `start`."""
    lines = card.split("\n")
    [head] = [number for number, row in enumerate(lines) if row.startswith(start)]
    return lines[head + 2]


def read_card(folder: Path) -> ModelFacts:
    """The facts of card.json, in the classes that wrote it."""
    facts = json.loads((folder / "card.json").read_text(encoding="utf-8"))

    def compared(item: Mapping[str, Any]) -> dict[str, Any]:
        return {**item, "before": Estimate(**item["before"]), "after": Estimate(**item["after"])}

    return ModelFacts(
        **{
            **facts,
            "sets": [TrainingSet(**item) for item in facts["sets"]],
            "split": SplitFacts(**facts["split"]) if facts["split"] else None,
            "measures": [Measured(**compared(item)) for item in facts["measures"]],
            "guards": [Guard(**compared(item)) for item in facts["guards"]],
            "sweep": [Point(**item) for item in facts["sweep"]],
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PACKAGED))
def test_the_packaged_card_shows_code_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (PACKAGED[name] / "README.md").read_text("utf-8"), re.DOTALL)
    assert len(blocks) == (1 if name == NANO else 2)  # sentence-transformers does not read a static encoder
    monkeypatch.chdir(tmp_path)
    similarities = []
    for block in blocks:
        exec(block, {})
        similarities.append(float(re.findall(r"-?\d+\.\d+", capsys.readouterr().out)[-1]))
    assert similarities[0] == pytest.approx(similarities[-1], abs=0.02)  # one unpacked, one as int8


@pytest.mark.parametrize("name", [PLANT, NANO])
def test_the_card_of_a_packaged_encoder_is_what_its_facts_say(tmp_path: Path, name: str) -> None:
    folder = PACKAGED[name]
    write_card(tmp_path, read_card(folder))
    for file in ("README.md", "card.json"):
        assert (tmp_path / file).read_bytes() == (folder / file).read_bytes()


# ---------------------------------------------------------------- the hub


@pytest.mark.parametrize("name", list(PACKAGED))
def test_the_packaged_cards_are_read_by_the_hub(name: str) -> None:
    data = check_for_the_hub(PACKAGED[name], name)
    assert data.library_name == "lemmata"  # the folder is ONNX, which sentence-transformers does not read as it is
    facts = json.loads((PACKAGED[name] / "card.json").read_text("utf-8"))
    listed = [
        (result.dataset_name, result.dataset_split, result.metric_name, result.metric_value)
        for result in data.eval_results
    ]
    measured = [
        (item["task"], item["part"], item["measure"], round(item["after"]["value"], 4)) for item in facts["measures"]
    ]
    assert sorted(listed) == sorted(measured)


def test_a_card_with_every_fact_and_a_bare_one_are_read_by_the_hub(tmp_path: Path) -> None:
    write_card(tmp_path, FULL)
    data = check_for_the_hub(tmp_path, "stacks-mini")
    [first, second] = data.eval_results
    assert (first.metric_name, first.metric_value, second.metric_value) == ("MRR@10", 0.5, 0.3912)
    write_card(tmp_path, BARE)
    hub = pytest.importorskip("huggingface_hub")
    assert hub.ModelCard.load(tmp_path / "README.md").data.eval_results is None
