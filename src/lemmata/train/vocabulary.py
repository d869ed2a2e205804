r"""LaTeX commands as tokens of their own: which ones, how a tokenizer reads them, and their first vectors.

The added tokens of a tokenizer are not enough: they either match inside a longer command (`\in` in `\infty`) or miss
`X\to Y` and `\sum_i`, and after a lower-casing normaliser `\Gamma` is `\gamma`. So a first step of the normaliser
replaces the backslash of each chosen command, if the whole command and its case match, by a sign that nothing else
uses; the added tokens begin with that sign. All of this is stored in `tokenizer.json`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lemmata.core.errors import ConfigError, require

SIGNS = "⧵⧹⧷⟍"  # one for each case of a command (`\Gamma`, `\gamma`); mathematical signs that LaTeX sources lack
_COMMAND = re.compile(r"(?<!\\)\\[A-Za-z]+")  # after the line break `\\`, letters are a word


def count_commands(text: str) -> Counter[str]:
    r"""How often each command occurs in a text, with its backslash."""
    return Counter(_COMMAND.findall(text))


def choose_commands(counts: Counter[str], tokenizer: Any, number: int) -> list[str]:
    """The most frequent commands, at most `number`, that the tokenizer breaks up; ties go by name."""
    chosen: list[str] = []
    cases: Counter[str] = Counter()
    for command in sorted(counts, key=lambda command: (-counts[command], command)):
        if len(chosen) >= number:
            break
        broken = len(tokenizer.tokenize(command)) > 1
        if broken and cases[command.lower()] < len(SIGNS):
            cases[command.lower()] += 1
            chosen.append(command)
    return chosen


def with_commands(tokenizer: Any, commands: Sequence[str]) -> Any:
    """A tokenizer of transformers that reads `commands` as one token each, with ids from `len(tokenizer)` on.

    It is of the general class: a class such as BertTokenizer replaces its normaliser when it is loaded.
    """
    transformers = require("transformers", "train")
    tokenizers = require("tokenizers", "train")
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    signs: dict[str, list[str]] = {}  # by sign: names
    for command in commands:
        sign = next(s for s in SIGNS if command[1:].lower() not in map(str.lower, signs.get(s, [])))
        signs.setdefault(sign, []).append(command[1:])
    steps = [
        tokenizers.normalizers.Replace(tokenizers.Regex(rf"(?<!\\)\\(?=(?:{'|'.join(names)})(?![A-Za-z]))"), sign)
        for sign, names in signs.items()
    ]
    normalizer = backend.normalizer
    backend.normalizer = tokenizers.normalizers.Sequence([*steps, *([normalizer] if normalizer else [])])
    sign_of = {"\\" + name: sign for sign, names in signs.items() for name in names}
    special = {name: token for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
    result = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        padding_side=tokenizer.padding_side,
        **special,
    )
    tokens = [
        sign_of[command] + (normalizer.normalize_str(command[1:]) if normalizer else command[1:])
        for command in commands
    ]
    result.add_tokens([tokenizers.AddedToken(token, normalized=True) for token in tokens])
    for number, command in enumerate(commands):
        if result.encode(command, add_special_tokens=False) != [len(tokenizer) + number]:
            raise ConfigError(f"the tokenizer of this base cannot learn {command} as a token; set new_tokens = 0")
    return result


def add_rows(model: Any, tokenizer: Any, commands: Sequence[str]) -> None:
    """Give the commands rows in a model's embedding, each the mean of the rows of its pieces in the old tokenizer.

    The bias of an output layer starts as the mean of its pieces too.
    """
    torch = require("torch", "train")
    size = len(tokenizer) + len(commands)
    if size > model.get_input_embeddings().num_embeddings:  # some models have spare rows
        model.resize_token_embeddings(size, mean_resizing=False)
    output = model.get_output_embeddings()
    parts = [model.get_input_embeddings().weight, getattr(output, "bias", None)]
    with torch.no_grad():
        for number, command in enumerate(commands):
            pieces = tokenizer.encode(command, add_special_tokens=False)
            for values in parts:
                if values is not None:
                    values[len(tokenizer) + number] = values[pieces].mean(0)


def write_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Replace the tokenizer in a model's folder by one from `with_commands`."""
    for name in ("vocab.txt", "special_tokens_map.json", "added_tokens.json"):
        (folder / name).unlink(missing_ok=True)  # they describe the old vocabulary
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"  # a name that every version of transformers knows
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
