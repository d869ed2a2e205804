r"""How the page shows the formulas of corpora: as formulas, with names of unknown commands, as diagrams, as source.

    python -m bench.formulas WORKSPACE ... [--show 20]
    python -m bench.formulas WORKSPACE ... --sheet FOLDER     # beside what TeX makes of them, to be judged by eye

`--sheet` needs latex, dvipng and Chromium: FOLDER gets pictures of formulas, ours above TeX's, and the share of ink
that both have in common after each was scaled to the same height.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lemmata.latex.sentences import formulas
from lemmata.project import Project
from lemmata.server import mathml
from lemmata.server.diagrams import DIAGRAM


def all_formulas(workspace: str) -> Iterator[str]:
    """The formulas of all passages and proofs."""
    with contextlib.closing(Project(workspace).corpus) as corpus:
        for passage in corpus:
            for text in (passage.text, passage.proof):
                yield from (text[begin + 1 : end - 1] for begin, end in formulas(text) if end - begin > 2)


def shown_as(formula: str) -> str:
    """What the page makes of a formula."""
    html = mathml.formula_html(formula, True)
    if html.startswith("<code"):
        return "diagram as source" if DIAGRAM.search(formula) else "source"
    if DIAGRAM.search(formula):
        return "diagram"
    return "with unknown commands" if unknown_commands(formula) else "formula"


def unknown_commands(formula: str) -> list[str]:
    """Commands that the converter does not know, and shows by their names."""
    from latex2mathml.converter import Converter

    tree = Converter(display="block").convert_to_element(mathml._prepared(formula))
    return [text for element in tree.iter() if mathml._COMMAND.fullmatch(text := element.text or "")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspaces", nargs="+")
    parser.add_argument("--show", type=int, default=0, help="commands and sources to print")
    parser.add_argument("--most", type=int, default=60_000, help="different formulas of a workspace that are looked at")
    parser.add_argument("--sheet", type=Path)
    parser.add_argument("--number", type=int, default=200, help="formulas on the sheet")
    options = parser.parse_args()
    sample: list[str] = []
    for workspace in options.workspaces:
        counts = Counter(all_formulas(workspace))
        chosen = random.Random(0).sample(sorted(counts), min(options.most, len(counts)))
        ways: Counter[str] = Counter()
        commands: Counter[str] = Counter()
        sources = []
        for formula in chosen:
            way = shown_as(formula)
            ways[way] += counts[formula]
            if way == "with unknown commands":
                commands.update(dict.fromkeys(unknown_commands(formula), counts[formula]))
            elif way.endswith("source"):
                sources.append(formula)
        total = sum(ways.values())
        record = {way: [number, round(number / total, 5)] for way, number in ways.most_common()}
        print(json.dumps({"workspace": Path(workspace).name, "formulas": total, "different": len(chosen), **record}))
        if options.show:
            print("unknown:", commands.most_common(options.show))
            for formula in sources[: options.show]:
                print("source:", re.sub(r"\s+", " ", formula)[:400])
        sample += random.Random(1).sample(chosen, min(len(chosen), options.number // len(options.workspaces)))
    if options.sheet:
        from bench.formula_sheet import make_sheet

        make_sheet(sample, options.sheet)


if __name__ == "__main__":
    main()
