"""A graph of real texts and links as large as ogbn-arxiv, for `bench.ablations` and `bench.algorithm1`.

    python -m bench.large_graph OUT.npz FILE.npz … --metamath set.mm --mathlib DATA/mathlib --abstracts DATA/arxiv-math

FILE is of `python -m bench.metric export … --encoder lemmata-nano`. To these come the theorems of Metamath's set.mm
(Debian's package metamath-databases) with the theorems that each proof uses, the declarations of mathlib with those
that each names, and, up to `--nodes` in all, abstracts without links. Of set.mm and mathlib 5 % each, drawn at random,
are validation and test. OUT.npz has everything and the vectors of lemmata-nano as bytes; `--seed` draws.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench.semantic import named_declarations

from lemmata.core.types import Floats
from lemmata.encode.load import NANO, load_encoder

_BLOCK = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--metamath", type=Path, required=True)
    parser.add_argument("--mathlib", type=Path, required=True)
    parser.add_argument("--abstracts", type=Path, required=True)
    parser.add_argument("--nodes", type=int, default=169_343)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    generator = np.random.default_rng(options.seed)
    parts = [dict(np.load(file)) for file in options.files]
    parts += [drawn(*metamath(options.metamath), generator), drawn(*mathlib(options.mathlib), generator)]
    missing = options.nodes - sum(len(part["part"]) for part in parts)
    abstracts = [
        f"{record['title']}\n{record['abstract']}" for record in records(options.abstracts / "abstracts.jsonl.xz")
    ]
    parts.append(drawn(abstracts[:missing], set(), generator))
    offsets = np.cumsum([0, *(len(part["part"]) for part in parts)])
    vectors = np.concatenate([np.asarray(part[f"vectors_{NANO}"], np.float32) for part in parts])
    scale = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-12) / 127  # lengths are of no use: unit vectors
    arrays: dict[str, Any] = {
        "links": np.concatenate([part["links"] + at for part, at in zip(parts, offsets, strict=False)]).astype(
            np.int32
        ),
        "part": np.concatenate([part["part"] for part in parts]),
        "candidates": np.concatenate([part["candidates"] for part in parts]),
        f"vectors_{NANO}": np.round(vectors / scale).astype(np.int8),
        "corpus": np.repeat(np.arange(len(parts)), np.diff(offsets)).astype(np.int8),
    }
    np.savez_compressed(options.out, **arrays)
    print(f"{offsets[-1]:,} nodes {np.diff(offsets).tolist()}, {[len(part['links']) for part in parts]} links")


def drawn(texts: list[str], links: set[tuple[int, int]], generator: np.random.Generator) -> dict[str, Any]:
    """What `bench.metric export` writes, for texts with links between their places."""
    part = generator.choice(3, len(texts), p=[0.9, 0.05, 0.05]) if links else np.zeros(len(texts))
    pairs = np.array(sorted(links), np.int32).reshape(-1, 2)
    everything = {"links": pairs, "part": part.astype(np.int8), "candidates": np.ones(len(texts), bool)}
    return everything | {f"vectors_{NANO}": encoded(texts)}


def encoded(texts: list[str]) -> Floats:
    encoder = load_encoder(NANO)
    blocks = [encoder.encode(texts[start : start + _BLOCK]) for start in range(0, len(texts), _BLOCK)]
    return np.concatenate(blocks)


def records(file: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def mathlib(folder: Path) -> tuple[list[str], set[tuple[int, int]]]:
    texts = {record["_id"]: f"{record['title']}\n{record['text']}" for record in records(folder / "corpus.jsonl.xz")}
    place = {name: number for number, name in enumerate(texts)}
    return list(texts.values()), {(place[one], place[other]) for one, other in named_declarations(folder)}


_COMMENT_OR_ASSERTION = re.compile(r"\$\((.*?)\$\)|(\S+)\s+\$([ap])\s+\|-\s(.*?)\$\.", re.DOTALL)


def metamath(file: Path) -> tuple[list[str], set[tuple[int, int]]]:
    """Every axiom, definition and theorem with what was said about it, and which of them each proof uses."""
    place: dict[str, int] = {}
    texts: list[str] = []
    links: set[tuple[int, int]] = set()
    comment = ""
    for match in _COMMENT_OR_ASSERTION.finditer(file.read_text("ascii")):
        said, label, _, content = match.groups()
        if label is None:
            comment = " ".join(said.split("(Contributed by")[0].split())
            continue
        statement, _, proof = content.partition("$=")
        number = place[label] = len(texts)
        texts.append(f"{comment}\n{' '.join(statement.split())}")
        links |= {(number, place[name]) for name in proof.split() if name in place and name != label}
        comment = ""
    return texts, links


if __name__ == "__main__":
    main()
