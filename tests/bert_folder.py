"""A BERT with random weights written by hand, without torch, and its tokenizers."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from lemmata.core.types import Floats

WORDS = "the partition function of theta rank crank graph lemma proof counts".split()

TEXTS = ["the partition function", "rank of the crank", "lemma", "theta graph counts the proof of the lemma", "the"]

WIDTH, LAYERS, HEADS, INNER, MAX_TOKENS = 64, 2, 2, 128, 16

MEAN = {"pooling_mode_mean_tokens": True}

POOLINGS: dict[str, dict[str, Any]] = {
    "mean": MEAN,
    "cls": {"pooling_mode": "cls"},
    "cls+mean": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
}


def write_bert(folder: Path, pooling: dict[str, Any], prompts: dict[str, str] | None = None) -> dict[str, Floats]:
    """A sentence-transformers folder with random weights, which are returned."""
    random = np.random.default_rng(3)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS) + 4, WIDTH),
        "embeddings.position_embeddings.weight": (32, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}"
        linear = {f"attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
        linear |= {"attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (INNER, WIDTH)}
        linear |= {"output.dense": (WIDTH, INNER)}
        for part, shape in linear.items():
            shapes |= {f"{prefix}.{part}.weight": shape, f"{prefix}.{part}.bias": shape[:1]}
        norms += [f"{prefix}.attention.output.LayerNorm", f"{prefix}.output.LayerNorm"]
    for norm in norms:
        shapes |= {f"{norm}.weight": (WIDTH,), f"{norm}.bias": (WIDTH,)}
    tensors = {
        name: (random.normal(0, 0.2, shape) + name.endswith("Norm.weight")).astype(np.float32)
        for name, shape in shapes.items()
    }
    folder.mkdir(parents=True)
    header, body = {}, b""
    for name, values in tensors.items():
        span = [len(body), len(body) + values.nbytes]
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": span}
        body += values.tobytes()
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    files: dict[str, Any] = {
        "config.json": {
            "model_type": "bert",
            "architectures": ["BertModel"],
            "hidden_size": WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "intermediate_size": INNER,
            "vocab_size": len(WORDS) + 4,
            "max_position_embeddings": 32,
            "type_vocab_size": 2,
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-12,
        },
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": WIDTH, **pooling},
        "sentence_bert_config.json": {"max_seq_length": MAX_TOKENS, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": prompts or {}},
        "tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "model_max_length": MAX_TOKENS},
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return tensors


def write_unigram(file: Path) -> Tokenizer:
    """A tokenizer as multilingual models have it: pieces with scores, padding is 1, words begin with a low line."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁query", "▁passage", ":", *(f"▁{word}" for word in WORDS[3:])]
    tokenizer = Tokenizer(models.Unigram([(piece, -float(number)) for number, piece in enumerate(pieces)], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(pieces[:4])
    tokenizer.save(str(file))
    return tokenizer
