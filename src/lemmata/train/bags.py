"""A static encoder as a torch model, so that it is trained by the same code as any other encoder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from lemmata.core.types import Integers
from lemmata.encode.static import read_static, static_settings, write_static


class StaticModel(nn.Module):
    """The mean of token vectors; called like a sentence-transformers model, with `input_ids` and `attention_mask`.

    The numbers are scaled to a mean square of 1, which leaves the directions of all texts as they are and makes
    learning rates comparable between bases.
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        super().__init__()
        settings = static_settings(folder)
        vectors = read_static(folder)
        scale = float(np.sqrt(np.mean(np.square(vectors)))) or 1.0
        self._vectors = vectors / scale
        self._tokens: Integers = np.arange(len(vectors))
        self._places: Any = None  # of the tokens among those that are trained; None: all are
        self.bag = nn.EmbeddingBag.from_pretrained(torch.from_numpy(self._vectors), freeze=False, mode="mean")
        self.folder = folder
        self.max_seq_length = int(settings["max_tokens"])
        self.prompts: Mapping[str, str] = dict(settings["prompts"])
        self.tokenizer = SimpleNamespace(pad_token_id=0)  # any will do: the mask hides it
        self.to(device)

    @property
    def device(self) -> Any:
        return self.bag.weight.device

    def get_embedding_dimension(self) -> int:
        return int(self.bag.embedding_dim)

    def train_only(self, tokens: Integers) -> None:
        """Train the vectors of these tokens, the only ones that texts may have from now on; the others stay.

        A step of the optimizer takes time for every vector, and a small corpus has a tenth of the vocabulary.
        """
        places = np.full(len(self._vectors), -1)
        places[tokens] = np.arange(len(tokens))
        self._tokens, self._places = tokens, torch.from_numpy(places).to(self.device)
        chosen = torch.from_numpy(self._vectors[tokens]).to(self.device)
        self.bag = nn.EmbeddingBag.from_pretrained(chosen, freeze=False, mode="mean")

    def forward(self, features: Mapping[str, Any]) -> dict[str, Any]:
        mask = features["attention_mask"].bool()
        lengths = mask.sum(dim=1)
        ids = features["input_ids"][mask]
        ids = ids if self._places is None else self._places[ids]
        return {"sentence_embedding": self.bag(ids, lengths.cumsum(0) - lengths)}

    def save(self, out: Path) -> None:
        """Write a folder that `StaticEncoder` loads; its name is that of the folder until the caller gives another."""
        prompts = {"query": self.prompts.get("query", "")}
        prompts["passage"] = self.prompts.get("passage", self.prompts.get("document", ""))
        vectors = self._vectors.copy()
        vectors[self._tokens] = self.bag.weight.detach().float().cpu().numpy()
        tokenizer = (self.folder / "tokenizer.json").read_text(encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        write_static(out, out.name, vectors, tokenizer, max_tokens=self.max_seq_length, prompts=prompts)
