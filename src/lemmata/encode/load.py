"""Which encoder a name means. The back-ends are imported only when they are asked for."""

from __future__ import annotations

from pathlib import Path

from lemmata.errors import InputError
from lemmata.types import Encoder

__all__ = ["DEFAULT", "PACKAGED", "encoder_kind", "load_encoder", "model_folder"]

_MODELS = Path(__file__).parent.parent / "models"
DEFAULT = "lemmata-mini"
PACKAGED = {DEFAULT: _MODELS / DEFAULT, "minilm": _MODELS / "minilm"}
"""What comes with lemmata, by name: our own encoder, and all-MiniLM-L6-v2, from which it was trained."""

_POSSIBLE = (
    "lemmata-mini (the default), minilm, hashing, a folder written by export-encoder, a sentence-transformers folder,"
    " a hub name such as intfloat/e5-small-v2, or an address such as http://localhost:11434/v1#model"
)


def load_encoder(
    spec: str,
    *,
    dimension: int | None = None,
    threads: int | None = None,
    key: str = "",
    cache: Path | None = None,
    models: Path | None = None,
) -> Encoder:
    """The encoder that `spec` names; `dimension` cuts its vectors.

    `threads` is for what runs here, `key` and `cache` (a SQLite file) for what answers at an address, `models` the
    folder of a workspace's own models, whose names come first.
    """
    kind = encoder_kind(spec, models)
    folder = model_folder(spec, models)
    if kind == "hashing":
        from lemmata.encode.hashing import HashingEncoder

        return HashingEncoder(dimension or 256)
    if kind == "onnx":
        from lemmata.encode.onnx import OnnxEncoder

        return OnnxEncoder(folder, dimension=dimension, threads=threads)
    if kind == "remote":
        from lemmata.encode.remote import RemoteEncoder

        address, model = spec.rsplit("#", 1)
        return RemoteEncoder(address, model, key, dimension=dimension, cache=cache)
    from lemmata.encode.transformer import TransformerEncoder

    return TransformerEncoder(folder if folder.exists() else spec, dimension=dimension, threads=threads)


def encoder_kind(spec: str, models: Path | None = None) -> str:
    """What runs the encoder that `spec` names: hashing, onnx, remote or transformer; InputError where nothing does.

    Nothing is loaded for it. A hub name is taken for what it says.
    """
    folder = model_folder(spec, models)
    if spec == "hashing":
        return "hashing"
    if (folder / "encoder.json").is_file():
        return "onnx"
    if spec.startswith(("http://", "https://")) and "#" in spec:
        return "remote"
    if (folder / "modules.json").is_file() or (spec.count("/") == 1 and not folder.exists()):
        return "transformer"
    if models is not None and folder.parent == models:
        raise InputError(f"the model {spec!r} was not kept: it did worse on validation than its base")
    raise InputError(f"no encoder is called {spec!r}; possible are {_POSSIBLE}")


def model_folder(spec: str, models: Path | None = None) -> Path:
    """Where the files of a model are, if anywhere: a workspace's own, a packaged one, or the path itself."""
    own = models / spec if models and "/" not in spec and spec not in (".", "..") else None
    if own is not None and own.is_dir():
        return own / "onnx" if (own / "onnx" / "encoder.json").is_file() else own
    return PACKAGED.get(spec, Path(spec).expanduser())
