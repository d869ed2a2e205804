"""What of a capable model's answers the text supports: concepts, descriptions and relations of the example corpus.

    python -m bench.extraction WORKSPACE [--show]

WORKSPACE has `examples/qseries`. The answers (`bench/extraction_answers.json`, by document and number of the prompt)
were written from the prompts as a large language model answers them, before any was checked.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections import Counter
from pathlib import Path

from lemmata.core.types import Passage
from lemmata.core.workspace import Workspace
from lemmata.corpus.corpus import Corpus
from lemmata.graph.concepts.extract import DEFAULTS, SCHEMA, extraction_prompts, read_extraction, reason_of
from lemmata.graph.extract import ExtractOptions
from lemmata.llm.answers import fit

ANSWERS = Path(__file__).with_name("extraction_answers.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--show", action="store_true", help="print every record that is kept or dropped")
    arguments = parser.parse_args()
    answers = json.loads(ANSWERS.read_text(encoding="utf-8"))
    given, kept, dropped = Counter[str](), Counter[str](), Counter[str]()
    with contextlib.closing(Corpus(Workspace(arguments.workspace))) as corpus:
        passages: dict[str, list[Passage]] = {}
        for passage in corpus:
            passages.setdefault(passage.document, []).append(passage.bare())
        for document in corpus.documents():
            prompts = extraction_prompts(passages.get(document.id, []), ExtractOptions())
            numbered = [(prompt, f"{document.id} {number}") for number, prompt in enumerate(prompts)]
            asked = [(prompt, fit(answers[key], SCHEMA, DEFAULTS).value) for prompt, key in numbered if key in answers]
            entries = [entry for _, value in asked for entry in value.values()]
            given["relations"] += sum(len(entry["relations"]) for entry in entries)
            given["concepts"] += len({item["name"] for entry in entries for item in entry["concepts"]})
            given["descriptions"] += sum(bool(item["description"]) for entry in entries for item in entry["concepts"])
            concepts, edges, skips = read_extraction(asked, document, passages.get(document.id, []))
            relations = [edge for edge in edges if edge.source.startswith("concept:")]
            kept.update(concepts=len(concepts), relations=len(relations))
            kept.update(edge.relation for edge in relations)
            kept["descriptions"] += sum(bool(concept.description) for concept in concepts)
            dropped.update(map(reason_of, skips))
            for record in (*concepts, *relations, *skips) if arguments.show else ():
                print(record)
    print(json.dumps({"given": given, "kept": kept, "dropped": dropped}, indent=1))


if __name__ == "__main__":
    main()
