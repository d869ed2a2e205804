"""`lemmata run` with static encoders: their stages, the table, training further, and which settings are refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.make import killed_at, refused, say, to_lines, write
from tests.small_bert import sayings
from tests.training import change, run_all, run_until, values, write_recipe, write_small

from lemmata.core.errors import LemmataError
from lemmata.encode.load import NANO
from lemmata.encode.static import is_static
from lemmata.evaluate.report import Report, as_json
from lemmata.project import Project
from lemmata.run import run, stage_table

RECIPE = """
[split]
method = "stratified"
validation = 0.2
test = 0.2

[static.fast]
base = "{base}"
validation = {{ "../asked.tsv" = "MRR@10" }}

[evaluate]
measures = "MRR@10,nDCG@10,R@20"

[run]
sources = ["../notes.jsonl"]
static = ["fast"]
base = "hashing"
"""


def write_static_recipe(folder: Path) -> Path:
    """A workspace with nothing but settings, and beside it notes, validation queries and the base."""
    write_small(folder / "base", dimension=32)
    workspace = write_recipe(folder, folder / "base")
    (workspace / "lemmata.toml").write_text(RECIPE.format(base=folder / "base"), encoding="utf-8")
    lines = [f"{sayings(5, 100 + n)[1][0]}\tb{n}-1" for n in range(24)]
    (folder / "asked.tsv").write_text("query\tid\n" + "\n".join(lines), encoding="utf-8")
    return workspace


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    """A complete run; tests work on copies of its folder."""
    folder = write_static_recipe(tmp_path_factory.mktemp("run"))
    (report,), stages = run_all(folder)
    assert list(stages)[-5:] == ["mine pairs", "static fast", "index fast", "compare auto of fast", "tune fast"]
    assert not any(stages.values())
    return folder, report


def test_a_run_trains_indexes_fits_and_compares_a_static_encoder(first: tuple[Path, Report]) -> None:
    folder, report = first
    assert list(report.retrievers) == ["BM25", "hashing", "hashing + BM25", "fast", "fast + BM25", "fast, auto"]
    means = {name: sum(values(report, name)) / len(report.queries) for name in report.retrievers}
    assert means["fast"] > 0.3 > 0.2 > max(means["BM25"], means["hashing"])
    project = Project(folder)
    assert is_static(folder / "models" / "fast")
    assert list(project.models()) == ["fast"]  # no fine-tuning was asked for, so the default of `finetune` is none
    [default] = [vectors for vectors in project.info()["vectors"] if vectors["default"]]
    assert (default["encoder"], default["fusion"]["fitted"]["queries"]) == ("fast", 24)
    assert any(
        note.startswith("search uses fast") and "on 12 validation queries of asked" in note for note in report.notes
    )
    assert stage_table(project)["static fast"].startswith("../asked.tsv/MRR@10 0.")
    written = {path: path.read_bytes() for path in (folder / "run").glob("report*")}
    (again,), stages = run_all(folder)
    assert [name for name, done in stages.items() if not done] == ["ingest"]
    assert as_json(again) == as_json(report)
    assert written == {path: path.read_bytes() for path in written}, "also the order of the measures"
    code, out, _ = say("run", "-w", folder)
    assert code == 0
    assert "static fast: up to date" in out
    assert "fast, auto" in out


def searched(folder: Path) -> str:
    [default] = [vectors for vectors in Project(folder).info()["vectors"] if vectors["default"]]
    return str(default["encoder"])


@pytest.mark.parametrize("base", ["fast", "hashing"])
def test_search_stays_with_the_better_encoder_whatever_the_new_model_was_trained_from(
    first: tuple[Path, Report], tmp_path: Path, base: str
) -> None:
    folder = shutil.copytree(first[0].parent, tmp_path / "copy") / "notes"
    change(folder, 'static = ["fast"]\nbase = "hashing"', f'static = ["hasty"]\nbase = "{base}"')
    text = (folder / "lemmata.toml").read_text("utf-8")
    hasty = text[text.index("[static.fast]") : text.index("[evaluate]")].replace("fast", "hasty")
    (folder / "lemmata.toml").write_text(f"{text}\n{hasty}sets = {{ pairs = 0.05 }}\n", "utf-8")
    run_until(folder, "static hasty")
    assert searched(folder) == "fast", "what stops a run leaves search as it was"
    (report,), _ = run_all(folder)
    [sentence] = [note for note in report.notes if note.startswith("search stays with fast: auto has MRR@10")]
    assert sentence.endswith("which may be chance")
    assert searched(folder) == "fast"
    _, stages = run_all(folder)
    assert [name for name, done in stages.items() if not done] == ["ingest"]
    assert searched(folder) == "fast"


def kill_run(folder: Path, stage: str) -> None:
    """Kill a run when it reaches a stage."""

    def work(_: object) -> None:
        def announce(name: str, _done: bool) -> None:
            if name == stage:
                os.kill(os.getpid(), signal.SIGKILL)

        run(Project(folder), announce=announce)

    killed_at("", -1, work)  # by itself


def ask_less(folder: Path) -> None:
    """Leave fewer validation queries than can decide."""
    asked = folder.parent / "asked.tsv"
    asked.write_text("\n".join(asked.read_text("utf-8").splitlines()[:9]), "utf-8")


def test_a_killed_run_does_not_change_what_the_next_one_compares_with(
    first: tuple[Path, Report], tmp_path: Path
) -> None:
    folder = shutil.copytree(first[0].parent, tmp_path / "copy") / "notes"
    change(folder, 'static = ["fast"]', 'static = ["other"]')
    change(folder, "[static.fast]", "[static.other]")
    kill_run(folder, "compare auto of other")
    assert searched(folder) == "other"
    (report,), _ = run_all(folder)
    assert any(note.startswith("search stays with fast") for note in report.notes), "a model that finds as much"
    assert searched(folder) == "fast"


def test_a_run_that_was_killed_before_it_compared_has_adopted_nothing(tmp_path: Path) -> None:
    folder = write_static_recipe(tmp_path)
    ask_less(folder)
    kill_run(folder, "compare auto of fast")
    assert searched(folder) == "fast"
    (report,), _ = run_all(folder)
    assert any(note.startswith("search stays with hashing") for note in report.notes)
    assert searched(folder) == "hashing"


def test_few_validation_queries_change_nothing(first: tuple[Path, Report], tmp_path: Path) -> None:
    folder = shutil.copytree(first[0].parent, tmp_path / "copy") / "notes"
    ask_less(folder)
    for chosen in ("fast", "hashing"):
        Project(folder).index(settings={"encoder": chosen})
        (report,), _ = run_all(folder)
        [sentence] = [note for note in report.notes if note.startswith(f"search stays with {chosen}: auto has")]
        assert sentence.endswith("on 4 validation queries of asked, and fewer than 10 decide nothing")
        assert searched(folder) == chosen


def test_a_static_model_is_trained_further_on_new_passages(first: tuple[Path, Report], tmp_path: Path) -> None:
    folder = shutil.copytree(first[0].parent, tmp_path / "copy") / "notes"
    change(folder, "[run]\n", '[run]\nupdate = "always"\n')
    more = [
        {"_id": f"c{n}-{kind}", "text": text, "links": [f"c{n}-1"] if kind == 0 else []}
        for n in range(30)
        for kind, text in enumerate(sayings(1, 500 + n)[0])
    ]
    with (folder.parent / "notes.jsonl").open("a", encoding="utf-8") as stream:
        stream.write("\n" + "\n".join(map(json.dumps, more)))
    _, stages = run_all(folder)
    assert [name for name in stages if name.endswith(" fast")][:2] == ["compare fast", "update fast"]
    assert "new and" in stage_table(Project(folder))["update fast"]
    assert is_static(folder / "models" / "fast")
    _, stages = run_all(folder)
    assert [name for name, done in stages.items() if not done] == ["ingest"]


def test_sets_that_a_run_does_not_name_are_mined_again_where_the_corpus_changed(
    first: tuple[Path, Report], tmp_path: Path
) -> None:
    folder = shutil.copytree(first[0].parent, tmp_path / "copy") / "notes"
    change(folder, "[run]\n", "[mixtures.both]\nweights = { pairs = 1, others = 1 }\n\n[run]\n")
    project = Project(folder)
    project.mine("pairs", name="others")
    project.mix("both")
    queries = [{"id": f"b{n}-1", "text": f"what does saying {n} say?"} for n in range(12)]
    project.import_queries(write(tmp_path, {"queries.jsonl": to_lines(queries)}) / "queries.jsonl", name="asked")
    with (folder.parent / "notes.jsonl").open("a", encoding="utf-8") as stream:
        stream.writelines(f"\n{json.dumps({'_id': f'c{n}', 'text': f'A new note about {n}.'})}" for n in range(9))
    stages = run_until(folder, "compare fast")
    assert "mine other sets that are out of date" in stages
    out_of_date = {name: manifest["out_of_date"] for name, manifest in project.training_sets().items()}
    assert [name for name, cause in out_of_date.items() if cause] == ["asked"], "its file is not in the workspace"


def test_a_static_model_may_follow_a_fine_tuning_and_auto_compares_it_with_the_packaged_one(tmp_path: Path) -> None:
    folder = write_static_recipe(tmp_path)
    change(folder, 'base = "hashing"\n', "")
    stages = run_until(folder, f"index {NANO}")
    assert "split" in stages
    change(folder, 'static = ["fast"]', 'static = ["fast"]\nfinetune = ["tuned"]\nbase = "hashing"')
    change(folder, "[run]\n", f'[finetune.tuned]\nbase = "{tmp_path / "base"}"\nepochs = 0.1\n\n[run]\n')
    change(folder, f'[static.fast]\nbase = "{tmp_path / "base"}"', '[static.fast]\nbase = "tuned"')
    stages = run_until(folder, "index fast")
    assert list(stages)[-3:] == ["finetune tuned", "static fast", "index fast"]
    assert Project(folder).models()["fast"]["options"]["base"] == "tuned"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('static = ["fast"]', 'static = ["fats"]', "'fats'.*'fast'"),
        ('static = ["fast"]', "finetune = []", "finetune.*static"),
        ('static = ["fast"]', 'static = ["fast"]\nfinetune = ["fast"]', "'fast'"),
        ('base = "hashing"', 'base = "fast"', "base = 'fast'"),
    ],
)
def test_bad_settings_are_refused_before_any_stage(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = write_static_recipe(tmp_path)
    change(folder, old, new)
    with pytest.raises(LemmataError, match=message):
        run(Project(folder))
    assert [path.name for path in folder.iterdir()] == ["lemmata.toml"]
    refused(say("run", "-w", folder))


def test_a_static_base_that_is_not_there_is_refused_before_any_stage(tmp_path: Path) -> None:
    folder = write_static_recipe(tmp_path)
    change(folder, f'[static.fast]\nbase = "{tmp_path / "base"}"', '[static.fast]\nbase = "adapted"')
    with pytest.raises(LemmataError, match="'adapted'"):
        run(Project(folder))
