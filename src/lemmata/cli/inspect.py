"""Command: inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from lemmata.cli.output import print_report, working
from lemmata.cli.printer import print_record

_ROWS = ("mean_cosine", "isotropy", "effective_rank", "uniformity", "alignment", "separation", "purity@10")


def inspect(
    encoders: Annotated[
        list[str] | None,
        Argument(
            help="Encoders, the first one compared with the others; default: that of the index and its base.",
            metavar="[ENCODERS...]",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path | None, Option(help="Output folder; default: inspect in the workspace.", metavar="DIR")] = None,
    document: Annotated[list[str] | None, Option(help="Document on the map; repeat for more.", metavar="ID")] = None,
    passage: Annotated[
        list[str] | None, Option(help="Passage for cosines and attention; repeat for more.", metavar="ID")
    ] = None,
    sample: Annotated[int, Option(help="Passages to sample.", min=10)] = 1000,
) -> None:
    """Look inside encoders: tokens, norms, attention, space, and what training changed."""
    from lemmata.inspect.inspect import inspect

    with working() as workspace:
        report = inspect(
            workspace,
            encoders or (),
            out,
            documents=tuple(document or ()),
            passages=tuple(passage or ()),
            sample=sample,
        )
    print_report(report, lambda _: print_record(_measured(report)))


def _measured(report: dict[str, Any]) -> dict[str, Any]:
    """What the report measures of each encoder, side by side; the whole of it is a page."""
    encoders = report["encoders"]

    def side_by_side(key: str) -> dict[str, dict[str, Any]]:
        parts = dict.fromkeys(part for encoder in encoders.values() for part in encoder[key] or ())
        return {part: {name: (encoder[key] or {}).get(part) for name, encoder in encoders.items()} for part in parts}

    return {
        **{name: report[name] for name in ("report", "sampled", "changes")},
        "measure": {row: {name: encoder[row] for name, encoder in encoders.items()} for row in _ROWS},
        "module": side_by_side("modules"),
        "moved by training": side_by_side("moved"),
        "notes": [*report["notes"], *(note for encoder in encoders.values() for note in encoder["notes"])],
    }
