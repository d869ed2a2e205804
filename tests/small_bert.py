"""A random BERT of two layers that is trained in seconds, and a task for it: words that mean the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.errors import require
from lemmata.core.workspace import silent
from lemmata.evaluate.measures import Judged
from lemmata.train.job import Job, JobWriter

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = 40  # and as many that mean the same
VOCABULARY = ("ask", *(f"{kind}{number}" for kind in "ab" for number in range(WORDS)))


def bare_base(
    folder: Path,
    words: Sequence[str] = VOCABULARY,
    *,
    special: Sequence[str] = SPECIAL,
    prompts: Mapping[str, str] | None = None,
    longest: int = 16,
) -> Path:
    """What a job is packed for: a sentence-transformers folder without weights, one token a word.

    `special` are what is padded with, unknown, opens, closes and masks; an empty one is left out of every text.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {token: number for number, token in enumerate([*filter(None, special), *words])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=special[1]))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    around = [(token, vocabulary[token]) for token in special[2:4] if token]
    single = " ".join(filter(None, (special[2], "$A", special[3])))
    pair = " ".join(filter(None, (single, "$B:1", special[3] and f"{special[3]}:1")))
    backend.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=around)
    folder.mkdir(parents=True, exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    kind = "sentence_transformers.models"
    contents: dict[str, Any] = {
        "config.json": {"max_position_embeddings": 2 * longest},
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{kind}.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{kind}.Pooling"},
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True},
        "sentence_bert_config.json": {"max_seq_length": longest, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": dict(prompts or {})},
    }
    (folder / "1_Pooling").mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content))
    return folder


def small_bert(folder: Path, words: Sequence[str] = VOCABULARY, *, prompts: Mapping[str, str] | None = None) -> Path:
    """A sentence-transformers folder with random weights."""
    return add_weights(bare_base(folder, words, prompts=prompts))


def add_weights(folder: Path, positions: int = 32) -> Path:
    """Give a folder with a tokenizer the random weights of a BERT."""
    torch, transformers = require("torch", "train"), require("transformers", "train")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), model_max_length=32, **names
    )
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def sayings(count: int, seed: int) -> list[tuple[str, str]]:
    """Three words, and the same said with the other words."""
    chosen = np.random.default_rng(seed).integers(0, WORDS, (count, 3)).tolist()
    return [(" ".join(f"a{n}" for n in three), " ".join(f"b{n}" for n in three)) for three in chosen]


def one_answer_each(count: int) -> Judged:
    """Query i is answered by passage i."""
    each = np.arange(count)
    return Judged([str(n) for n in each], np.arange(count + 1), each, np.ones(count, np.int64))


def small_job(
    folder: Path,
    base: Path,
    *,
    records: int = 200,
    negatives: int = 0,
    validation: Sequence[str] = ("sayings",),
    guard: Sequence[str] = (),
) -> Job:
    """Training pairs and tasks: other `sayings`, which are learned, and equal `words`, which the base knows.

    For `words` the answer shares two words with the query, and the same said with other words stands beside it:
    what the pairs teach is wrong there.
    """
    writer = JobWriter(folder, base, silent)
    pairs = sayings(records, 1)
    others = [positive for _, positive in sayings(records, 2)]
    writer.add_set("pairs", ((*pair, *[other] * negatives) for pair, other in zip(pairs, others, strict=True)), {})
    held = list(dict.fromkeys(sayings(60, 3)))
    asked, told = [pair[0] for pair in held], [pair[1] for pair in held]
    near = [" ".join((*text.split()[:2], f"a{number % WORDS}")) for number, text in enumerate(asked)]
    answers, nothing = one_answer_each(len(held)), np.full(len(held), -1)
    passages = {"sayings": told, "words": [*near, *told]}
    for name in (*validation, *guard):
        writer.add_validation(
            name, asked, passages[name], answers, nothing, measure="MRR@10", general=name not in validation
        )
    return writer.close({})


READS = 1024


def small_modern(folder: Path) -> Path:
    """A sentence-transformers folder of a random ModernBERT: rotary positions, local and global attention."""
    torch, transformers = require("torch", "train"), require("transformers", "train")
    torch.manual_seed(0)
    bare_base(folder, longest=READS)
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), model_max_length=8192, **names
    )
    config = transformers.ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=8192,
        global_attn_every_n_layers=2,
        local_attention=64,
        **{
            f"{name}_id": tokenizer.convert_tokens_to_ids(token) for name, token in names.items() if name != "unk_token"
        },
        bos_token_id=2,
        eos_token_id=3,
    )
    transformers.ModernBertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
