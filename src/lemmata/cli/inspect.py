"""Command: inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from lemmata.cli.output import counted, line, open_console, perform, table

_DIGITS = {"effective_rank": 1}  # of the other rows 3, as in the report
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

    perform(
        inspect,
        _print_inspected,
        encoders=encoders or (),
        out=out,
        documents=tuple(document or ()),
        passages=tuple(passage or ()),
        sample=sample,
    )


def _print_inspected(report: dict[str, Any]) -> None:
    from lemmata.evaluate.charts import number

    rows = []
    for row in _ROWS:
        values = [encoder[row] for encoder in report["encoders"].values()]
        if any(value is not None for value in values):
            rows.append((row.replace("_", " "), *(number(value, _DIGITS.get(row, 3)) for value in values)))
    open_console().print(table(("", *(f">{name}" for name in report["encoders"])), rows))
    with_modules = {name: encoder for name, encoder in report["encoders"].items() if encoder["modules"]}
    if with_modules:
        components = next(iter(with_modules.values()))["modules"]
        parts = [(part, *(encoder["modules"][part] for encoder in with_modules.values())) for part in components]
        open_console().print(table(("", *with_modules), parts))
    for name, encoder in with_modules.items():
        if encoder["moved"]:
            *most, least = (
                f"{part} ({share:.1%})" for part, share in sorted(encoder["moved"].items(), key=lambda item: -item[1])
            )
            line(f"training moved {name} the most in {', '.join(most[:3])}, the least in {least}")
    for change in report["changes"]:
        [overlap] = [key for key in change if key.startswith("overlap@")]
        line(f"{change['before']} → {change['after']}: {overlap} {change[overlap]:.3f}")
    for note in (*report["notes"], *(note for encoder in report["encoders"].values() for note in encoder["notes"])):
        line(note, style="yellow")
    figures = counted(len(report["figures"]), "figure")
    line(f"{report['report']}: {counted(report['sampled'], 'passage')}, {figures}")
