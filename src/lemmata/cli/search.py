"""Commands: index, search, similar, bridge, map."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from lemmata.cli.output import (
    Assigned,
    EncoderBudget,
    On,
    assigned,
    counted,
    line,
    open_console,
    opened,
    perform,
    print_report,
    read_budget,
    showing_progress,
    styled,
    table,
)
from lemmata.core.errors import LemmataError, near
from lemmata.core.records import Member, members_of, schema_of
from lemmata.search.filter import Date, Filter, singular
from lemmata.search.names import NAMES, parse_retriever
from lemmata.search.query import SYNTAX

if TYPE_CHECKING:
    from rich.text import Text

    from lemmata.core.types import Hit, Step
    from lemmata.search.bridge import Bridge
    from lemmata.search.retriever import Retriever


def index(
    encoder: Annotated[
        str,
        Option(
            help="By default by language; lemmata-mini, -base, -plant, -nano, minilm, a model, folder or URL.",
            metavar="ENCODER",
        ),
    ] = "",
    summaries: Annotated[
        str,
        Option(
            help="Training sets or files of short texts that also find their passages, comma-separated; or none.",
            metavar="NAMES",
        ),
    ] = "",
    o: Assigned = None,
    dense: Annotated[bool, Option("--dense/--no-dense", help="Compute vectors, or only the lexical index.")] = True,
    rebuild: Annotated[
        bool, Option("--rebuild", help="Rebuild the lexical index, the copy in Milvus, and lost vectors.")
    ] = False,
    remove: Annotated[str, Option(help="Delete the vectors of this encoder.", metavar="ENCODER")] = "",
    budget: EncoderBudget = "",
    on: On = "",
) -> None:
    """Build or update the indexes.

    Vectors of several encoders stay side by side; search uses those of the encoder that was indexed last.
    """
    from lemmata.search.index import estimate_index, index, make_allowance, remove_encoder

    if remove:
        if any((encoder, summaries, o, rebuild, on)) or not dense:
            raise LemmataError("--remove only deletes: give the other options in a second call")
        print_report(remove_encoder(opened(), remove))
        return
    settings, others = assigned(o, "index", encoder=encoder or None, summaries=summaries or None)
    if not dense and (needing := [name for name in settings if name in _OF_VECTORS]):
        shown = f"--{needing[0]}" if needing[0] in ("encoder", "summaries") else needing[0]  # the others come by -o
        raise LemmataError(f"{shown} needs vectors: leave out --no-dense")
    workspace = opened(others, addresses=[settings.get("encoder", ""), settings.get("milvus", "")])
    estimate = estimate_index(workspace, settings=settings) if dense else None
    allowance = make_allowance(workspace, **read_budget(budget, ("tokens", "cost")), price=settings.get("price", 0.0))
    if estimate is not None:
        expected = f", at a cost of {estimate.tokens * allowance.price / 1e6:.4g}" if allowance.price else ""
        summary = f"about {counted(estimate.tokens, 'token')} in {counted(estimate.calls, 'call')}{expected}"
        typer.echo(f"{summary}; encoded already: {counted(estimate.cached, 'passage')}", err=True)
    with showing_progress(workspace, on):
        report = index(workspace, settings=settings, dense=dense, rebuild=rebuild, allowance=allowance)
    print_report(report, shown=_OF_INDEX)


_OF_VECTORS = ("encoder", "dimension", "summaries", "milvus")
_OF_INDEX = (
    *("passages", "parts", "tokenised", "encoded", "language", "encoder", "encoder_choice", "replaced_encoder"),
    *("milvus", "summaries", "dropped_summaries", "seconds", "notes"),
)


Count = Annotated[int, Option("-k", help="Number of results.", min=1, max=10_000)]
RetrieverName = Annotated[str, Option(help=f"{NAMES}.", metavar="NAME")]
Paths = Annotated[bool, Option("--paths", help="Show the path through the graph to each hit.")]
Diversity = Annotated[float, Option(help="0: most relevant; up to 1: most varied.", min=0, max=1)]


def _with_filter(command: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for each field of a filter in the place of its parameter `filter`."""
    signature = inspect.signature(command, eval_str=True)
    options = {member.name: _filter_option(member) for member in members_of(Filter)}
    others = [parameter for parameter in signature.parameters.values() if parameter.name != "filter"]
    place = list(signature.parameters).index("k") + 1
    parameters = [*others[:place], *options.values(), *others[place:]]

    @functools.wraps(command)
    def filtered(*positional: Any, **arguments: Any) -> None:
        values = {name: arguments.pop(name, None) for name in options}
        cells = [condition.partition("=") for condition in values["where"] or ()]
        for column, sign, value in cells:
            if not (column.strip() and sign):
                raise LemmataError(f"--where needs COLUMN=VALUE, not {column + sign + value!r}")
        values["where"] = [(column.strip(), value.strip()) for column, _, value in cells]
        given: dict[str, Any] = {
            name: value if isinstance(value, str) else tuple(value) for name, value in values.items() if value
        }
        command(*positional, filter=Filter(**given), **arguments)

    vars(filtered)["__signature__"] = signature.replace(parameters=parameters)
    filtered.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return filtered


def _filter_option(member: Member) -> inspect.Parameter:
    """The option of a field: --kind for kinds, repeatable; COLUMN=VALUE for pairs."""
    schema = schema_of(member.hint)
    name = singular(member)
    metavar = "DATE" if member.hint == Date else "COLUMN=VALUE" if schema["type"] == "object" else name.upper()
    kind = str if schema["type"] == "string" else list[str] | None
    default = "" if kind is str else None
    option = Option(f"--{name}", help=member.description, metavar=metavar)
    return inspect.Parameter(
        member.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=Annotated[kind, option]
    )


@_with_filter
def search(
    text: Annotated[str, Argument(help=f"The query. {SYNTAX}", metavar="TEXT")],
    k: Count = 10,
    retriever: RetrieverName = "auto",
    diversity: Diversity = 0.0,
    paths: Paths = False,
    *,
    filter: Filter,  # noqa: A002 - the word of the API
) -> None:
    """Search the corpus."""
    from lemmata.search.confidence import matches_badly
    from lemmata.search.hints import dated, did_you_mean, foreign, hint, missing_part, words_only
    from lemmata.search.retriever import Retriever

    if not text.strip():
        raise LemmataError("the query is empty: write what to search for")
    with Retriever(opened()) as searcher:
        hits = searcher.search(text, k, retriever=retriever, filter=filter, diversity=diversity, paths=paths)
        if parse_retriever(retriever) == ("auto", "") and (reason := words_only(searcher) or missing_part(searcher)):
            typer.echo(reason, err=True)
        if told := dated(searcher, text):
            typer.echo(told, err=True)
        is_told = (matches_badly(hits) and not foreign(searcher, text)) or (hits and hits[0].cites)
        if hits and not is_told and (told := hint(searcher, text)):
            typer.echo(told, err=True)
        if meant := did_you_mean(searcher, text, hits):
            typer.echo(f"did you mean: {meant}", err=True)
        if also := searcher.also_searched(searcher.read_query(text).text):
            typer.echo(f"also searched for: {', '.join(also)}", err=True)
        _print_hits(searcher, hits, searcher.read_query(text).text)


@_with_filter
def similar(
    identity: Annotated[str, Argument(help="Id of a passage.", metavar="ID")],
    k: Count = 10,
    retriever: RetrieverName = "",
    diversity: Diversity = 0.0,
    paths: Paths = False,
    *,
    filter: Filter,  # noqa: A002 - the word of the API
) -> None:
    """Find passages similar to a passage or, by a retriever, those that it could refer to."""
    from lemmata.search.retriever import Retriever

    with Retriever(opened()) as searcher:
        try:
            passage = searcher.corpus[searcher.corpus.row(identity)]
        except KeyError:
            known = near(identity, searcher.corpus.ids())
            raise LemmataError(f"there is no passage {identity!r}{known}") from None
        hits = searcher.similar(identity, k, retriever=retriever, filter=filter, diversity=diversity, paths=paths)
        _print_hits(searcher, hits, passage.text)


def bridge(
    source: Annotated[str, Argument(help="An id, the name of a concept, or a text.", metavar="A")],
    target: Annotated[str, Argument(help="The same.", metavar="B")],
    k: Annotated[int, Option("-k", help="Number of paths.", min=1, max=100)] = 5,
) -> None:
    """Connect two ideas by paths through the graph."""
    from lemmata.search.bridge import find_bridge

    print_report(find_bridge(opened(), source, target, k=k), _print_bridge)


def _print_bridge(connection: Bridge) -> None:
    from lemmata.core.types import Step

    if not connection.paths:
        ends = f"{connection.source!r} to {connection.target!r}"
        line(f"no path leads from {ends}: they lie in different parts of the graph")
        return
    for number, path in enumerate(connection.paths, 1):
        chance = f"{path.expected:.2g}" if path.expected < 10 else f"{min(path.expected, 1000):,.0f}"
        line(
            f"path {number}  length {path.length:.2f}, coherence {path.coherence:.2f},"
            f" such paths by chance: {chance}{' or more' if path.expected > 1000 else ''}",
            style="bold",
        )
        for step in path.steps:
            shown = _path((Step(*step[:4]),))
            if others := [passage for passage in step.evidence if passage not in (step.source, step.target)]:
                shown.append(f"  (in {', '.join(others)})", "dim")
            open_console().print("  ", shown, sep="")
    if connection.passages:
        line("\nbridge passages", style="bold")
    for passage in connection.passages[:10]:
        line(f"  {passage.score:.3f}  {passage.id}  on path {', '.join(map(str, passage.paths))}")


_NEAREST = 3  # hits that are shown where nothing matches well


def _print_hits(searcher: Retriever, hits: list[Hit], query: str) -> None:
    from lemmata.search.confidence import NOTHING, matches_badly
    from lemmata.server.records import hit_records

    documents = {hit.passage.document for hit in hits if hit.passage}
    dates = {document: searcher.corpus.document(document).date for document in documents}

    def show(_: list[Hit]) -> None:
        if not hits:
            line("nothing found")
            return
        if is_bad := matches_badly(hits):
            line(f"{NOTHING}; the nearest:", style="yellow")
        _print_table(searcher, hits[:_NEAREST] if is_bad else hits, query, dates)

    print_report(hits, show, record=hit_records(hits, dates.__getitem__))


def _print_table(searcher: Retriever, hits: list[Hit], query: str, dates: dict[str, str | None]) -> None:
    """Each hit with its source: file and line, section, date and the locations that a log is about."""
    from rich.text import Text

    from lemmata.search.excerpts import excerpt

    rows = []
    for rank, hit in enumerate(hits, 1):
        passage = hit.passage
        if passage is None:
            continue
        title = f"  {passage.title}" if passage.title else ""
        cell = styled((passage.numbered, "green"), (title, "bold"), (f"  {hit.id}\n", "cyan"))
        place = f"{passage.file}:{passage.first_line}" if passage.first_line else passage.file
        date = (passage.date or dates[passage.document] or "")[:10]
        source = " · ".join(filter(None, (place, passage.section, date, ", ".join(passage.locations))))
        cell.append(f"{source}\n" if source else "", "dim")
        shown, marks = excerpt(passage.with_solution, query, tokenize=searcher.lexical.tokenizer)
        body = Text(shown)
        for begin, end in marks:
            body.stylize("bold yellow", begin, end)
        cell += body
        if hit.path:
            cell += Text("\n") + _path(hit.path)
        if hit.cites:
            cell.append(f"\ncites {hit.cites}", "dim")
        if hit.repeats:
            more = f", and {len(hit.repeats) - 3} more" if len(hit.repeats) > 3 else ""
            cell.append(f"\nalso in: {', '.join(hit.repeats[:3])}{more}", "dim")
        rows.append((styled((str(rank), "dim")), f"{hit.score:.3f}", cell))
    listed = table((">", ">score", "passage"), rows, padding=(0, 2, 1, 0))
    listed.columns[2].ratio = 1
    open_console().print(listed)


def _path(path: tuple[Step, ...]) -> Text:
    """A path in one line: where it begins, and each edge with its direction, relation and length."""
    shown = styled((path[0].source, "dim"))
    for step in path:
        is_backwards = step.relation.startswith("^")
        relation = f"{step.relation.removeprefix('^')} {step.length:.2f}"
        shown.append(f" ←{relation}— " if is_backwards else f" —{relation}→ ", "magenta")
        shown.append(step.target, "cyan")
    return shown


def map_() -> None:
    """Place all passages in the plane, for the map of the web page."""
    from lemmata.search.map import build_map

    perform(build_map)
