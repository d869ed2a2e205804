"""The commands in README and docs are run as they stand, each page in a folder of its own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest
from tests.make import run_command

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = re.compile(r"[|&;<>$`*~]")
FEW = {"partitions", "partition-congruences"}  # papers of the example for README, whose encoder takes its time
MORE = FEW | {"andrews-gordon", "bailey", "durfee", "hook-length", "mock-theta", "rogers-ramanujan"}
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [line[2:] for block in BLOCK.findall(text) for line in block.splitlines() if line.startswith("$ ")]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, when a metric is written
@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda p: p.name)
def test_the_commands_of_a_page_work(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first command by a shell, as a user types it; the others in this process, where they need no shell."""
    # what is judged by queries about all papers, or trained on
    is_judged = re.search("--beir examples|qseries/|train metric", " ".join(commands(page)))
    kept = FEW if page.name == "README.md" else MORE
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=None if is_judged else partial(all_but, kept))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for number, command in enumerate(commands(page)):
        plain = command.startswith("lemmata ") and not SHELL.search(command) and (number or page.name != "README.md")
        done = run_command(*shlex.split(command)[1:]) if plain else in_shell(command)
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"


def all_but(kept: set[str], folder: str, names: list[str]) -> list[str]:
    """The papers of the example that are not kept."""
    papers = [name for name in names if name.endswith(".tex") or (Path(folder) / name / "main.tex").exists()]
    return [name for name in papers if folder.endswith("qseries") and name.removesuffix(".tex") not in kept]


def in_shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False)


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_what_docs_name_of_the_benchmarks_is_there() -> None:
    """Scripts that left bench/ are named with the commit that has them."""
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "Makefile"]:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"-m bench\.(\w+)", text):
            assert list((ROOT / "bench").glob(f"{name}*/__main__.py")) or (ROOT / "bench" / f"{name}.py").exists(), name
        for name in re.findall(r"(?<!:)bench/([\w-]+\.\w+)", text):
            assert (ROOT / "bench" / name).exists(), f"{page.name}: {name}"


def test_every_extra_that_docs_name_can_be_installed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named: set[str] = set()
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        text = page.read_text(encoding="utf-8")
        lists = re.findall(r"[Ee]xtras?\b[\w\s:]*((?:`[a-z]+`(?:\s\([^)]*\))?[,\s]*)+)", text)
        named.update(*(re.findall(r"`([a-z]+)`", names) for names in lists))
        named.update(*(names.split(",") for names in re.findall(r"lemmata\[([a-z,]+)\]", text)))
    assert {"baseline", "pdf", "train"} <= named <= extras.keys()


def test_every_promise_of_security_has_its_test() -> None:
    promised = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "security.md").read_text(encoding="utf-8")))
    defined = {
        name
        for path in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
    }
    assert len(promised) > 30
    assert promised <= defined
