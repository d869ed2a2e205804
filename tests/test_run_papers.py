"""The settings of docs/papers.md are run as they stand, on small data and with a small base."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.llm_server import Server
from tests.make import NAMES, plant, write_papers
from tests.small_bert import small_bert
from tests.training import run_all, some_papers

from lemmata.corpus.training_files import read_training
from lemmata.llm.endpoint import Limits
from lemmata.project import Project

for _library in ("torch", "accelerate", "datasets", "onnx", "pyarrow", "sentence_transformers"):
    pytest.importorskip(_library)

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
QUICK = "epochs = 0.2\nbatch = 8\n"


def settings_of(recipe: str, *changes: tuple[str, str]) -> str:
    """The block of the page that names a recipe, with some lines changed."""
    block: str
    [block] = [text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if f'recipe = "{recipe}"' in text]
    for line, other in changes:
        assert line in block, line
        block = block.replace(line, other)
    return block


def workspace(folder: Path, settings: str) -> Path:
    folder.mkdir()
    (folder / "lemmata.toml").write_text(settings, encoding="utf-8")
    return folder


def test_descriptions_that_a_model_wrote_become_anchors_of_math_embed(tmp_path: Path) -> None:
    described = "A number that grows with the leaves of a tree."
    server = Server(tmp_path / "journal")
    entry = {"concepts": [{"name": "tree", "kind": "object", "description": described}], "relations": []}
    server.script(answer=json.dumps({"1": entry}))
    try:
        everything = [(f"concept_{part}", f"concept_{part} = 0.0  #") for part in ("test", "validation")]
        folder = workspace(tmp_path / "w", settings_of("math-embed", *everything))
        project = Project(folder)
        project.ingest([write_papers(tmp_path / "papers", *NAMES)])
        project.build_graph()
        report = project.extract_graph(Limits(calls=100), model={"url": server.url, "model": "large"})
        assert report["kept"]["descriptions"] == len(NAMES)
        project.split(settings={"validation": 0.0, "test": 0.0})
        project.mine("pairs")
    finally:
        server.kill()
    records = list(read_training(project.training_file("pairs")))
    assert {record["source"] for record in records} <= {"concepts", "edges"}  # the paper has no others
    assert any(record["anchor"] == described and record["relation"] == "description" for record in records)
    assert any("in a document that mentions it" in record["reason"] for record in records)


def test_math_embed_runs_with_the_settings_of_the_page(tmp_path: Path) -> None:
    base, papers = small_bert(tmp_path / "tiny"), some_papers(tmp_path / "papers")
    settings = settings_of("math-embed", ('base = "minilm"\nvalidation', f'base = "{base}"\n{QUICK}validation'),
                           ('base = "minilm"', 'base = "hashing"'), ('"papers"', f'"{papers}"'))  # fmt: skip
    reports, _ = run_all(workspace(tmp_path / "w", settings))
    assert [report.task.split()[0] for report in reports] == ["concepts", "descriptions"]
    measures = ["R@5", "R@10", "R@20", "MRR@10", "nDCG@10"]
    assert [list(values) for values in reports[0].retrievers.values()] == [measures] * 5


def test_the_process_industry_runs_with_the_settings_of_the_page(tmp_path: Path) -> None:
    base = small_bert(tmp_path / "tiny")
    settings = settings_of(
        "process-industry",
        ('[finetune.similar]\nbase = "lemmata-mini"', f'[finetune.similar]\nbatch = 8\nbase = "{base}"'),
        ("[finetune.tuned]", "[embed]\nepochs = 2\n\n[finetune.tuned]\nbatch = 8"),
        ("epochs = 1 ", "epochs = 0.2 "),
        ('base = "lemmata-mini" ', 'base = "hashing" '),
    )
    folder = workspace(tmp_path / "w", settings)
    plant.generate(folder / "plant", logs=160)
    [report], stages = run_all(folder)
    assert [name for name in stages if name.startswith("finetune")] == ["finetune similar", "finetune tuned"]
    assert list(report.retrievers["tuned"]) == ["MAP@10", "MRR@10", "nDCG@10"]
    pooling = json.loads((folder / "models" / "tuned" / "1_Pooling" / "config.json").read_text())
    assert pooling["pooling_mode"] == ["cls", "mean"]
