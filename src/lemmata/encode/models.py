"""Which encoder a name means. The back-ends are imported only when they are asked for."""

from __future__ import annotations

from pathlib import Path

from lemmata.errors import InputError
from lemmata.types import Encoder

__all__ = ["MINILM", "load_encoder"]

MINILM = Path(__file__).parent.parent / "models" / "minilm"
"""The packaged default: all-MiniLM-L6-v2, exported by `export.py`."""

_POSSIBLE = (
    "minilm (the default), hashing, a folder written by export-encoder, a sentence-transformers folder,"
    " a hub name such as intfloat/e5-small-v2, or an address such as http://localhost:11434/v1#model"
)


def load_encoder(
    spec: str,
    *,
    dimension: int | None = None,
    threads: int | None = None,
    key: str = "",
    cache: Path | None = None,
) -> Encoder:
    """The encoder that `spec` names; `dimension` cuts its vectors.

    `threads` is for what runs here, `key` and `cache` (a SQLite file) for what answers at an address.
    """
    if spec == "hashing":
        from lemmata.encode.hashing import HashingEncoder

        return HashingEncoder(dimension or 256)
    folder = MINILM if spec == "minilm" else Path(spec).expanduser()
    if (folder / "encoder.json").is_file():
        from lemmata.encode.onnx import OnnxEncoder

        return OnnxEncoder(folder, dimension=dimension, threads=threads)
    if spec.startswith(("http://", "https://")) and "#" in spec:
        from lemmata.encode.remote import RemoteEncoder

        address, model = spec.rsplit("#", 1)
        return RemoteEncoder(address, model, key, dimension=dimension, cache=cache)
    if (folder / "modules.json").is_file() or (spec.count("/") == 1 and not folder.exists()):
        from lemmata.encode.transformer import TransformerEncoder

        return TransformerEncoder(spec, dimension=dimension, threads=threads)
    raise InputError(f"no encoder is called {spec!r}; possible are {_POSSIBLE}")
