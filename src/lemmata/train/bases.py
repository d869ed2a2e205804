"""The models that a training starts from: in the workspace, packaged, in a folder or on the hub."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from lemmata.core.errors import ConfigError, InputError, require
from lemmata.core.files import sha256_of
from lemmata.core.workspace import Workspace, read_manifests
from lemmata.encode.load import BASELINE, PACKAGED, baseline_folder
from lemmata.encode.restore import restore
from lemmata.encode.static import is_static, static_sha256
from lemmata.train.ranks import make_once


def base_folder(workspace: Workspace | None, name: str, scratch: Path) -> Path:
    """The folder of a base, of sentence-transformers or of a static encoder.

    The weights of an exported model are restored to `scratch`.
    """
    folder = locate_base(workspace, name)
    return folder if is_static(folder) else trainable_copy(folder, scratch, "modules.json", restore)


def trainable_copy(folder: Path, scratch: Path, file: str, restored: Callable[[Path, Path], Path]) -> Path:
    """A model with weights that can be trained, which has this file; those of an exported one go to `scratch`."""
    if (folder / file).is_file():
        return folder
    out = scratch / f"base-{folder.name}-{weights_sha256(folder)[:8]}"
    make_once((out / file).is_file, lambda: restored(folder, out))
    return out


def locate_base(workspace: Workspace | None, name: str) -> Path:
    return find_base(workspace, name) or load_from_hub(name)


def find_base(workspace: Workspace | None, name: str) -> Path | None:
    """The folder of a base, of sentence-transformers or exported; None for a hub name. ConfigError if there is none.

    A path is relative to the workspace or to the current folder.
    """
    if workspace is not None and "/" not in name:
        own = workspace.model(name)
        if (own / "modules.json").is_file() or is_static(own):
            return own
    if workspace is not None and name in read_manifests(workspace.models_folder):
        raise ConfigError(f"the model {name!r} was not kept: fine-tuned, it did worse on validation than its base")
    if name in PACKAGED:
        return PACKAGED[name]
    if name == BASELINE:
        return baseline_folder()
    path = Path(name).expanduser()
    for folder in (workspace.root / path, path) if workspace is not None else (path,):
        if (folder / "modules.json").is_file() or (folder / "encoder.json").is_file():
            return folder
    if re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name) and not path.exists():
        return None
    available = ", ".join(
        (*PACKAGED, BASELINE, *(read_manifests(workspace.models_folder) if workspace is not None else ()))
    )
    raise ConfigError(f"there is no base model {name!r}; possible are {available}, a folder, or a hub name")


def load_from_hub(name: str) -> Path:
    hub = require("huggingface_hub", "train")
    try:
        return Path(hub.snapshot_download(name))
    except Exception as error:  # the hub's client raises many kinds
        raise InputError(f"cannot be downloaded from the hub ({str(error).splitlines()[0]})", file=name) from error


def weights_sha256(folder: Path) -> str:
    """Of a model's weights, in whatever format they are stored."""
    if is_static(folder):
        return static_sha256(folder)
    kinds = (folder.rglob(pattern) for pattern in ("*.safetensors", "*.bin", "model.onnx"))
    return sha256_of(next((files for kind in kinds if (files := sorted(kind))), []))


def base_sha256(workspace: Workspace | None, name: str) -> str:
    return weights_sha256(locate_base(workspace, name))
