"""What is installed and loaded: no pickle, no code of models, a wheel with all that the demo needs, pinned hashes."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.small_bert import small_bert

from lemmata.core.errors import InputError
from lemmata.encode.load import load_encoder

ROOT = Path(__file__).parents[1]
FORBIDDEN = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


def python_files(*words: str) -> Iterator[tuple[Path, ast.Module]]:
    """The files that have any of these words."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text("utf-8")
        if any(word in text for word in words):
            yield path, ast.parse(text)


def calls(tree: ast.Module) -> Iterator[tuple[str, dict[str, ast.expr], int]]:
    """Name, named arguments and line of each call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            named = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
            yield ast.unparse(node.func), named, node.lineno


def is_constant(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def test_nothing_is_pickled() -> None:
    for path, tree in python_files(*FORBIDDEN, "torch.load"):
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert FORBIDDEN.isdisjoint(name.split(".")[0] for name in names), (path, names)
        for name, named, line in calls(tree):
            assert is_constant(named.get("allow_pickle", ast.Constant(False)), False), (path, line)
            if name.endswith("torch.load"):
                assert is_constant(named.get("weights_only"), True), (path, line)


def test_no_code_of_a_model_is_trusted() -> None:
    for path, tree in python_files("trust_remote_code", "AutoModel"):
        for name, named, line in calls(tree):
            assert is_constant(named.get("trust_remote_code", ast.Constant(False)), False), (path, line)
            if re.search(r"AutoModel\w*\.from_pretrained$", name):
                assert is_constant(named.get("use_safetensors"), True), (path, line)


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


def test_pickled_weights_and_code_of_a_model_are_never_run(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    folder, sprung = small_bert(tmp_path / "model"), tmp_path / "sprung"
    (folder / "code.py").write_text(f"import os\nos.mkdir({str(sprung)!r})\nclass Model: pass\n")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "code.Model"}}))
    assert load_encoder(str(folder)).encode(["some words"]).shape == (1, 32)
    assert not sprung.exists()
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Trap(sprung)}, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="safetensors"):
        load_encoder(str(folder))
    assert not sprung.exists()


# ---------------------------------------------------------------- what is installed


def test_the_wheel_holds_what_the_demo_reads() -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel")
    builder = wheel.WheelBuilder(str(ROOT))
    files = {file.distribution_path for file in builder.recurse_included_files()}
    examples = [path for path in (ROOT / "examples" / "qseries").rglob("*") if path.is_file()]
    assert len(examples) > 40
    assert {f"lemmata/{path.relative_to(ROOT).as_posix()}" for path in examples} <= files
    packaged = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {path.relative_to(ROOT / "src").as_posix() for path in packaged} <= files
    assert not [name for name in files if name.startswith(("tests", "bench"))]


def test_every_package_of_the_demo_has_the_hash_of_its_version_in_the_constraints() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    versions = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pinned.items()}
    text = (ROOT / "requirements-demo.txt").read_text()
    required = re.findall(r"^([\w.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\\n|\n))+)", text, re.M)
    needed = runpy.run_path(str(ROOT / ".ci" / "pin_hashes.py"))["demo_packages"]()
    assert {name for name, _, _ in required} == (needed & versions.keys()) - {"torch"}
    for name, version, _ in required:
        assert versions[name] == version, f"run 'python .ci/pin_hashes.py' again: {name}"
