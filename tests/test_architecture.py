"""The rules of the architecture: floors, public API, start-up time, documented commands."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

import lemmata
from lemmata.cli.main import SHARED, make_app

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "lemmata"

FLOORS = {
    "core": 0,
    "corpus": 1,
    "encode": 1,
    "latex": 1,
    "llm": 1,
    "vectors": 2,
    "graph": 3,
    "plant": 4,
    "ingest": 5,
    "search": 6,
    "mine": 7,
    "evaluate": 8,
    "maintain": 9,
    "train": 9,
    "inspect": 10,
    "adapt": 11,
    "run": 11,
    "project": 12,
    "server": 13,
    "cli": 14,
    "__init__": 15,
    "__main__": 15,
}


def noun(path: Path) -> str:
    """The file or folder directly under the package to which a module belongs."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "examples" not in path.parts)


def imported(path: Path) -> list[str]:
    """The modules of lemmata that a file imports, also inside functions."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"^\s*from\s+\.", text, re.M), f"{path}: imports name the module that defines the name"
    return re.findall(r"^\s*(?:from|import)\s+(lemmata\b[\w.]*)", text, re.M)


def test_every_module_stands_on_a_floor() -> None:
    assert {noun(path) for path in modules()} <= FLOORS.keys()


def test_imports_go_down_only() -> None:
    for path in modules():
        for name in imported(path) if path != PACKAGE / "__init__.py" else ():
            assert name != "lemmata", f"{path} imports the public API"
            other = name.split(".")[1]
            assert other == noun(path) or FLOORS[other] < FLOORS[noun(path)], f"{path} imports {name}"


def test_every_module_opens_with_a_sentence() -> None:
    for path in modules():
        docstring = re.match(r'r?"""(.*?)(?:"""|\n\n)', path.read_text(encoding="utf-8"), re.S)
        assert docstring, path
        assert docstring[1].rstrip().endswith((".", ":")), path


def test_the_public_api_has_every_name_of_all() -> None:
    assert sorted(lemmata.__all__) == lemmata.__all__
    for name in lemmata.__all__:
        assert getattr(lemmata, name).__name__ == name
    assert dir(lemmata) == sorted([*lemmata.__all__, "__version__"])
    assert lemmata.__version__
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lemmata.no_such_name


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)


def test_help_loads_nothing_heavy_and_answers_at_once() -> None:
    heavy = "torch,numpy,transformers,onnxruntime,faiss,pyarrow,numba,rich.progress,lemmata.project,sqlite3"
    code = (
        "import sys; sys.argv = ['lemmata', '--help']\n"
        "from lemmata.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"loaded = [name for name in '{heavy}'.split(',') if name in sys.modules]\n"
        "assert not loaded, loaded"
    )
    run("-c", code)
    code = "import sys; sys.argv = ['lemmata', '--help']; from lemmata.cli.main import main; main()"
    # CPU time, beside that of an interpreter alone (0.025 s where it is quiet), and the best of many on a busy machine
    assert any(cpu_seconds(code) < max(0.3, 14 * cpu_seconds("pass")) for _ in range(20))


def cpu_seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run("-c", code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_import_lemmata_loads_no_torch() -> None:
    loaded = run("-c", "import lemmata, sys; print(*sys.modules)").stdout.split()
    assert "lemmata" in loaded
    assert not {"torch", "numpy"} & set(loaded)


def commands() -> dict[str, list[str]]:
    """All commands, those of groups as `group command`, with the names of their parameters."""
    parameters = {}

    def walk(command: Any, path: tuple[str, ...]) -> None:
        children = getattr(command, "commands", {})
        for name, child in children.items():
            walk(child, (*path, name))
        if not children:
            parameters[" ".join(path)] = [parameter.name for parameter in command.params]

    walk(typer.main.get_command(make_app()), ())
    return parameters


def test_commands_take_few_arguments() -> None:
    """A setting that nobody types daily is reached by -o; those that all commands have, as --help, count once."""
    own = [name for names in commands().values() for name in names if name not in SHARED]
    assert len(own) + len(SHARED) <= 215  # several plants; marks; folders; fields of queries


@pytest.mark.parametrize("command", sorted(commands()))
def test_every_command_is_documented(command: str) -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert f"lemmata {command}" in pages


def test_no_file_contains_a_path_of_the_machine_it_was_written_on() -> None:
    machine_path = re.compile("/(?:root|work|home)/" + "[a-z.]")
    written = {"", ".json", ".md", ".py", ".toml", ".txt"}
    made = {"build", "demo", "site"}  # by make, and no part of the repository
    for top in ROOT.iterdir():
        if top.name.startswith(".") or top.name in made:
            continue
        for path in [top, *top.rglob("*")]:
            if (
                path.suffix in written
                and path.is_file()
                and path.stat().st_size <= 2**20
                and "egg-info" not in str(path)
            ):
                assert machine_path.search(path.read_text(encoding="utf-8", errors="replace")) is None, path
