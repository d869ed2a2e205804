"""A random BERT of two layers that is trained in seconds, and a task for it: words that mean the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from lemmata.measures import Judged
from lemmata.train.job import Job, JobWriter

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = 40  # and as many that mean the same


def silent(_what: str, _done: int, _total: int | None) -> None:
    pass


def small_bert(folder: Path, *, query_prompt: str = "") -> Path:
    """A sentence-transformers folder."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    torch.set_num_threads(1)
    torch.manual_seed(0)
    words = [f"{kind}{number}" for kind in "ab" for number in range(WORDS)]
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, "ask", *words])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=32, **names)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "1_Pooling").mkdir()
    kind = "sentence_transformers.models"
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{kind}.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{kind}.Pooling"},
    ]
    contents = {
        "modules.json": modules,
        "1_Pooling/config.json": {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True},
        "sentence_bert_config.json": {"max_seq_length": 16, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": {"query": query_prompt, "document": ""}},
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content))
    return folder


def sayings(count: int, seed: int) -> list[tuple[str, str]]:
    """Three words, and the same said with the other words."""
    chosen = np.random.default_rng(seed).integers(0, WORDS, (count, 3)).tolist()
    return [(" ".join(f"a{n}" for n in three), " ".join(f"b{n}" for n in three)) for three in chosen]


def small_job(folder: Path, base: Path, *, records: int = 400, negatives: int = 0, general: bool = False) -> Job:
    """Training pairs and a validation task of other sayings."""
    writer = JobWriter(folder, base, silent)
    pairs = sayings(records, 1)
    others = [positive for _, positive in sayings(records, 2)]
    writer.add_set("pairs", ((*pair, *[other] * negatives) for pair, other in zip(pairs, others, strict=True)), {})
    held = list(dict.fromkeys(sayings(60, 3)))
    each = np.arange(len(held))
    judged = Judged([str(n) for n in each], np.arange(len(held) + 1), each, np.ones(len(held), np.int64))
    nothing = np.full(len(held), -1)
    asked, answers = [pair[0] for pair in held], [pair[1] for pair in held]
    writer.add_validation("sayings", asked, answers, judged, nothing, measure="MRR@10")
    if general:  # what the random model can do from the beginning: find equal texts
        writer.add_validation("equal", answers, answers, judged, nothing, measure="MRR@10", general=True)
    return writer.close({})
