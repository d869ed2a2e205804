"""Settings: every key is documented, checked and listed by one command."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import pytest
from tests.make import cpu_seconds, lemmata

from lemmata.core.config import RECIPES, Option, all_options, build, merged, options_of, read_assignments, read_toml
from lemmata.core.errors import ConfigError, near, suggest
from lemmata.core.records import FLAT
from lemmata.project import Project


@dataclass(frozen=True, slots=True)
class Inner:
    size: int = 3  # of something


@dataclass(frozen=True, slots=True)
class Nested:
    CHOICES: ClassVar = {"names": ("anna", "berta"), "weights": ("left", "right")}
    names: list[str] = field(default_factory=list)  # of others
    weights: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outer:
    CHOICES: ClassVar = {"mode": ("fast", "exact")}
    SMALLEST: ClassVar = {"share": 0.0}
    mode: str = "fast"  # or exact
    share: float = 0.5
    inner: Annotated[Inner, FLAT] = field(default_factory=Inner)
    nested: Nested = field(default_factory=Nested)


def test_keys_come_with_default_and_comment_and_nested_records_are_tables() -> None:
    assert list(options_of(Outer, "t")) == [
        Option("t", "mode", "fast", "or exact"),
        Option("t", "share", 0.5, ""),
        Option("t", "size", 3, "of something"),
        Option("t.nested", "names", [], "of others"),
        Option("t.nested", "weights", {}, ""),
    ]


def test_a_table_becomes_a_record() -> None:
    options = build(Outer, {"share": 1, "size": 7, "nested": {"names": ["anna"]}}, "t")
    assert options == Outer(share=1.0, inner=Inner(7), nested=Nested(["anna"]))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mod": "fast"}, "'mod'.*'mode'"),
        ({"mode": "slow"}, r"t\.mode = 'slow' .*fast, exact"),
        ({"share": -1.0}, r"t\.share = -1.0 .*0"),
        ({"share": "much"}, r"t\.share = 'much'"),
        ({"size": True}, r"t\.size = True"),
        ({"nested": {"names": ["anna", "bertha"]}}, r"t\.nested\.names\[1\] = 'bertha'.*'berta'"),
        ({"nested": {"weights": {"rihgt": 1.0}}}, r"t\.nested\.weights = 'rihgt'.*'right'"),
        ({"nested": {"weights": {"right": "x"}}}, r"t\.nested\.weights\.right = 'x'"),
        ({"nested": {"name": []}}, r"t\.nested .*'name'.*'names'"),
        ({"nested": 3, "sise": 4}, r"t\.nested = 3 .*'sise'.*'size'"),
    ],
)
def test_a_wrong_setting_is_named_with_its_cure(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(Outer, values, "t")


def test_an_unknown_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lemmata.toml"
    path.write_text("[indx]\nencoder = 'hashing'\n")
    with pytest.raises(ConfigError, match=r"\[indx\].*'index'"):
        read_toml(path, {"index": "lemmata.search.index:IndexOptions"})


def test_settings_override_table_by_table() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 9}}) == {"a": {"b": 9, "c": 2}, "d": 3}


def test_every_setting_has_a_description_and_they_are_few() -> None:
    options = [option for option, _ in all_options()]
    assert [option for option in options if not option.description] == []
    of_papers = 2 + 1 + 15  # of the process industry; of Math-Embed; of geodesic search: [geodesic], nine of [metric]
    assert len({(option.table, option.key) for option in options}) == len(options) <= 107 + of_papers
    assert sum(option.table == "finetune.*" for option in options) <= 20


def test_the_command_lists_defaults_and_values(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "w")
    assert len(project.config_file.read_text().splitlines()) < 10
    project.config_file.write_text('[index]\nencoder = "hashing"\n')
    listed = json.loads(lemmata("config", "index", "-w", tmp_path / "w", "--json"))
    assert {key: listed[0][key] for key in ("key", "value", "default")} == {
        "key": "encoder",
        "value": "hashing",
        "default": "auto",
    }
    project.config_file.write_text(
        '[index]\nencoder = "hashing"\n[finetune.a]\nepochs = 2.0\n[finetune.b]\nbatch = 8\n'
    )
    shown = lemmata("config", "-w", tmp_path / "w")
    assert "[finetune.a]" in shown
    assert "[finetune.b]" in shown
    assert "\n[finetune.NAME]" not in shown
    assert "epochs = 2.0" in shown
    assert '(default "auto")' in shown
    tomllib.loads(shown)  # what is printed is TOML
    assert "there is no table [indx]" in lemmata("config", "indx", "-w", tmp_path / "w", code=1)


def test_misspelled_miners_and_sources_of_pairs_are_refused_when_the_settings_are_read(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "w")
    for text, message in (
        ('[run]\nmine = ["paris"]\n', r"run\.mine\[0\] = 'paris'.*'pairs'"),
        ("[mine.pairs.weights]\ntitel = 2.0\n", r"mine\.pairs\.weights = 'titel'.*'title'"),
    ):
        project.config_file.write_text(text)
        with pytest.raises(ConfigError, match=message):
            Project(tmp_path / "w").config  # noqa: B018 - reading it is the point


def test_an_unknown_word_is_compared_in_no_time_with_very_many() -> None:
    many = [f"passage-{number}" for number in range(200_000)]
    assert near("pasage-123456", ["other", *many]).startswith("; did you mean passage-123456 or ")
    assert suggest("b" * 10_000, many[:2]) == " (there are: passage-0, passage-1)"
    assert cpu_seconds(lambda: near("a" * 10_000, many)) < 20


def test_assignments_of_a_command_line_are_checked_like_the_file() -> None:
    words = [
        "negatives.number=7",
        "gate = none",
        "llm.url=http://host:1/v1#x",
        "finetune.tuned.sets={pairs = 2.0}",
    ]
    own, others = read_assignments(words, "mine")
    assert own == {"negatives": {"number": 7}, "gate": "none"}
    assert others == {"llm": {"url": "http://host:1/v1#x"}, "finetune": {"tuned": {"sets": {"pairs": 2.0}}}}
    assert read_assignments(["epochs=2", "sets.pairs=1.5"], "finetune.tuned")[0] == {
        "epochs": 2,
        "sets": {"pairs": 1.5},
    }


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("gat=none", "did you mean 'gate'"),
        ("pairs.wights=7", "did you mean 'weights'"),
        ("negatives.number=x", "number = 'x'"),
        ("lm.url=x", "'llm'"),
        ("gate", "'gate'"),
        ("=3", "'=3'"),
    ],
)
def test_a_wrong_assignment_is_refused_with_what_was_meant(word: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        read_assignments([word], "mine")


def test_a_switch_without_a_value_is_refused_with_what_to_write() -> None:
    with pytest.raises(ConfigError, match="write -o expand=true"):
        read_assignments(["expand"], "index")


def test_a_key_that_is_given_twice_is_a_list_and_never_the_last_value() -> None:
    own, _ = read_assignments(["columns.text=a", "columns.text=b"], "ingest")
    assert own == {"columns": {"text": ["a", "b"]}}
    with pytest.raises(ConfigError, match=r"seconds = \[1, 2\]"):
        read_assignments(["seconds=1", "seconds=2"], "ingest")


def test_the_settings_of_a_file_go_over_those_of_its_recipe(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "w")
    project.config_file.write_text('recipe = "math-embed"\n[finetune.tuned]\nbase = "minilm"\nepochs = 1\n')
    tuned = Project(tmp_path / "w").config["finetune"]["tuned"]
    assert (tuned["base"], tuned["epochs"], tuned["tokens"]) == ("minilm", 1, 256)
    project.config_file.write_text('recipe = "math-embd"\n')
    with pytest.raises(ConfigError, match=r"'math-embd'.*'math-embed'"):
        Project(tmp_path / "w").config  # noqa: B018 - reading it is the point


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_settings_that_there_are_and_is_documented(name: str) -> None:
    assert read_toml(RECIPES[name])
    assert f'recipe = "{name}"' in (Path(__file__).parents[1] / "docs" / "papers.md").read_text(encoding="utf-8")
