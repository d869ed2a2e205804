"""The chain of the thesis as docs/papers.md has it, on the bundled notes with a small model and a scripted writer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.llm_server import Server
from tests.make import lemmata
from tests.small_bert import small_bert
from tests.training import some_papers

from lemmata.core.errors import LeakageError
from lemmata.corpus.training_files import read_questions, set_file
from lemmata.project import Project

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("pyarrow")
pytest.importorskip("sentence_transformers")

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"^## Questions to theorems.*?(?=^## )", re.DOTALL | re.MULTILINE)
WORDS = [
    f"{first}{second}" for first in ("car", "bel", "dor", "mil", "ton") for second in ("an", "os", "ex", "ula", "ine")
]
MEASURES = ["MRR@10", "Success@1", "Success@3", "Success@5", "R@30", "P@3", "P@5", "P@10", "nDCG@10"]


def section() -> str:
    found = SECTION.search((ROOT / "docs" / "papers.md").read_text(encoding="utf-8"))
    assert found is not None
    return found[0]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", section(), re.DOTALL)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT that knows the words of the notes, which stand beside it."""
    folder = tmp_path_factory.mktemp("base")
    texts = " ".join(path.read_text("utf-8", "ignore") for path in some_papers(folder / "papers").iterdir())
    return small_bert(folder / "tiny", sorted({*texts.split(), "How", "do", "meet?", *WORDS}))


@pytest.mark.parametrize("writer", ["model", "rules"])
def test_the_settings_of_the_page_make_its_table(small: Path, server: Server, tmp_path: Path, writer: str) -> None:
    [settings, *_] = blocks("toml")
    assert settings.startswith('recipe = "thesis"')
    settings = settings.replace('sources = ["papers"]', f'sources = ["{small.parent}/papers"]\nbase = "hashing"')
    settings = settings.replace("unseen = 0.024", "unseen = 0.4\ntest = 0.3")
    if writer == "rules":
        settings = re.sub(r"\[llm\]\n(?:\w.*\n)*", "", settings).replace("limits", 'mine = ["queries"]\nlimits')
    else:
        drawn = np.random.default_rng(0).choice(WORDS, (700, 5)).tolist()
        replies = [{"text": json.dumps({"question": f"How do {' '.join(words)} meet?"})} for words in drawn]
        server.script(replies={"": replies})
        settings = settings.replace("http://localhost:11434/v1", server.url)
    project = Project.init(tmp_path / "w")
    more = f'[finetune.tuned]\nbase = "{small}"\nrate = 1e-3\nbatch = 32\n'
    project.config_file.write_text(f"{settings}\n{more}", encoding="utf-8")
    said = lemmata("run", "-w", project.root)
    [report] = json.loads((project.root / "run" / "report.json").read_text(encoding="utf-8"))
    assert report["task"].startswith("questions")
    for row in report["retrievers"].values():
        assert list(row["measures"]) == [*(f"{name} (whole-document)" for name in MEASURES), *MEASURES]
        assert set(row["groups"]) <= {"seen", "unseen"}
        assert sum(group["queries"] for group in row["groups"].values()) == report["queries"]
        assert row["measures"]["Success@1 (whole-document)"] >= row["measures"]["Success@1"]
    assert "tuned + BM25" in report["retrievers"]
    assert "mine questions" in said
    assert set(project.training_sets()) == {"questions", "written" if writer == "model" else "queries"}
    assert read_questions(project, "questions")
    with pytest.raises(LeakageError):
        set_file(project, "questions")
    assert lemmata("run", "-w", project.root).count("up to date") > 5
