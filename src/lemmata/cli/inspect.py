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
    """What the report measures of each encoder; the whole of it is a page."""
    encoders = report["encoders"]
    notes = [*report["notes"], *(note for encoder in encoders.values() for note in encoder["notes"])]
    chosen = {name: report[name] for name in ("report", "sampled", "changes")}
    measures = {name: {row: encoder[row] for row in _ROWS} for name, encoder in encoders.items()}
    moved = {name: encoder["moved"] for name, encoder in encoders.items() if encoder["moved"]}
    return {**chosen, "encoders": measures, "moved": moved, "notes": notes}
