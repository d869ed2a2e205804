"""Commands: index, search, similar, bridge."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lemmata.cli.output import (
    HERE,
    AsJson,
    MostCost,
    MostTokens,
    On,
    TokenPrice,
    WorkspaceDir,
    counted,
    megabytes,
    open_console,
    print_json,
    row_of,
    showing_progress,
)
from lemmata.core.errors import LemmataError
from lemmata.core.records import Member, members_of, schema_of
from lemmata.search.filter import Filter

if TYPE_CHECKING:
    from rich.text import Text

    from lemmata.core.types import Hit, Step
    from lemmata.corpus.corpus import Corpus
    from lemmata.project import Project
    from lemmata.search.tokens import Tokenizer


_LANGUAGE_NAMES = {"de": "German", "de+en": "German and English"}


def index(
    workspace: WorkspaceDir = HERE,
    encoder: Annotated[
        str,
        typer.Option(
            help="By default by language; lemmata-mini, lemmata-plant, lemmata-nano, minilm, a model, folder or URL.",
            metavar="ENCODER",
        ),
    ] = "",
    language: Annotated[
        str, typer.Option(help="Of the corpus: auto (detected), en, de or de+en.", metavar="LANGUAGE")
    ] = "",
    dimension: Annotated[int, typer.Option(help="Truncate vectors to this length; 0: full length.", min=0)] = 0,
    expand: Annotated[
        bool, typer.Option("--expand", help="Index logs with the descriptions of their locations.")
    ] = False,
    dense: Annotated[
        bool, typer.Option("--dense/--no-dense", help="Compute vectors, or only the lexical index.")
    ] = True,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the lexical index, and the copy in Milvus.")
    ] = False,
    remove: Annotated[str, typer.Option(help="Delete the vectors of this encoder.", metavar="ENCODER")] = "",
    summaries: Annotated[
        str,
        typer.Option(
            help="Training sets or files of short texts that also find their passages, comma-separated; or none.",
            metavar="NAMES",
        ),
    ] = "",
    milvus: Annotated[
        str,
        typer.Option(
            help="Let Milvus search the vectors: a server, or NAME.db for a file in the workspace; none: no more.",
            metavar="URI",
        ),
    ] = "",
    tokens: MostTokens = 0,
    cost: MostCost = 0.0,
    price: TokenPrice = 0.0,
    on: On = "",
    as_json: AsJson = False,
) -> None:
    """Build or update the indexes.

    Vectors of several encoders stay side by side; search uses those of the encoder that was indexed last.
    """
    from lemmata.core.workers import computing_on
    from lemmata.project import Project

    if remove:
        if any((encoder, language, dimension, expand, rebuild, summaries, milvus, on)) or not dense:
            raise LemmataError("--remove only deletes: give the other options in a second call")
        _remove_encoder(Project(workspace), remove, as_json)
        return
    settings: dict[str, Any] = {"encoder": encoder} if encoder else {}
    if language:
        settings["language"] = language
    if dimension:
        settings["dimension"] = dimension
    if expand:
        settings["expand"] = True
    needing = {"encoder": encoder, "dimension": dimension, "summaries": summaries, "milvus": milvus}
    if not dense and (given := [name for name, value in needing.items() if value]):
        raise LemmataError(f"--{given[0]} needs vectors: leave out --no-dense")
    if summaries:
        settings["summaries"] = summaries
    if milvus:
        settings["milvus"] = milvus
    project = Project(workspace)
    estimate = project.estimate_index(settings=settings) if dense else None
    allowance = project.allowance(tokens=tokens, cost=cost, price=price)
    if estimate is not None:
        expected = f", at a cost of {estimate.tokens * allowance.price / 1e6:.4g}" if allowance.price else ""
        summary = f"about {counted(estimate.tokens, 'token')} in {counted(estimate.calls, 'call')}{expected}"
        typer.echo(f"{summary}; encoded already: {counted(estimate.cached, 'passage')}", err=True)
    with showing_progress(project), computing_on(on, project.progress):
        report = project.index(settings=settings, dense=dense, rebuild=rebuild, allowance=allowance)
    if as_json:
        print_json(report)
        return
    parts = [f"{report['tokenised']:,} tokenised"]
    if "encoded" in report:
        parts.append(f"{report['encoded']:,} encoded with {report['encoder']}")
    console = open_console()
    console.print(f"{counted(report['passages'], 'passage')}: {', '.join(parts)}, in {report['seconds']:.1f} s")
    if report["language"] != "en":
        console.print(f"words are stemmed and compounds split as in {_LANGUAGE_NAMES[report['language']]}")
    if report.get("encoder_choice"):
        console.print(report["encoder_choice"])
    if "replaced_encoder" in report:
        console.print(f"the vectors of {report['replaced_encoder']} are replaced")
    if "default_before" in report:
        console.print(f"search now uses them; the vectors of {report['default_before']} are kept", soft_wrap=True)
    if report.get("neighbours") == "milvus":
        console.print(f"Milvus at {report['milvus']['uri']} searches them: {report['milvus']['sent']:,} vectors sent")
    if "left_in_milvus" in report:
        console.print(report["left_in_milvus"], style="yellow", soft_wrap=True)
    for encoder in report.get("not_moved", ()):
        advice = f"'lemmata index --encoder {encoder}' moves them too"
        console.print(f"the vectors of {encoder} are searched exactly now: {advice}", style="yellow", soft_wrap=True)
    _print_summaries(report)
    if "dropped_fusion" in report:
        dropped = "the weights of auto were fitted to what search used before and are dropped"
        console.print(f"{dropped}: run 'lemmata evaluate --tune' again", soft_wrap=True)


def _print_summaries(report: dict[str, Any]) -> None:
    console = open_console()
    if summaries := report.get("summaries"):
        authors = ", ".join(
            f"{source['summaries']:,} of {source['name']} ({source['author']})" for source in summaries["sources"]
        )
        number = counted(summaries["summaries"], "summary")
        about = f"{number} of {counted(summaries['passages'], 'passage')}, {summaries['encoded']:,} encoded: {authors}"
        console.print(about, markup=False, soft_wrap=True)
        for cause, count in summaries["left_out"].items():
            console.print(f"  {count:>9,}  left out: {_LEFT_OUT[cause]}")
        if bare := report["passages"] - summaries["passages"]:
            ranks = "passage without one ranks" if bare == 1 else "passages without one rank"
            console.print(f"{bare:,} {ranks} lower than before, relative to the others")
    if report.get("dropped_summaries"):
        console.print("the summaries are dropped")


_LEFT_OUT = {
    "of no passage": "the passage is not in the corpus",
    "empty": "no text",
    "repeated": "the same text for the same passage",
}


def _remove_encoder(project: Project, encoder: str, as_json: bool) -> None:
    report = project.remove_encoder(encoder)
    if as_json:
        print_json(report)
        return
    console = open_console()
    console.print(f"the vectors of {report['removed']} are deleted, {megabytes(report['bytes'])}", soft_wrap=True)
    if report["was_default"]:
        console.print("search uses words only until 'lemmata index --encoder NAME' names another encoder")


Count = Annotated[int, typer.Option("-k", help="Number of results.", min=1, max=10_000)]
Rerank = Annotated[int, typer.Option(help="Let a cross-encoder rerank this many hits; 0: none.", min=0, max=10_000)]
Reranker = Annotated[
    str, typer.Option(help="Cross-encoder for --rerank; default: the one trained last.", metavar="MODEL")
]
Diversity = Annotated[float, typer.Option(help="0: most relevant; up to 1: most varied.", min=0, max=1)]


def _with_filter(command: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for each field of a filter in the place of its parameter `only`."""
    signature = inspect.signature(command, eval_str=True)
    options = {member.name: _filter_option(member) for member in members_of(Filter)}
    others = [parameter for parameter in signature.parameters.values() if parameter.name != "only"]
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
        command(*positional, only=Filter(**given), **arguments)

    vars(filtered)["__signature__"] = signature.replace(parameters=parameters)
    filtered.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return filtered


def _filter_option(member: Member) -> inspect.Parameter:
    """The option of a field: --kind for kinds, repeatable; COLUMN=VALUE for pairs."""
    schema = schema_of(member.hint)
    name = member.name if schema["type"] != "array" else member.name.replace("ies", "y").removesuffix("s")
    metavar = {"string": "DATE", "object": "COLUMN=VALUE"}.get(schema["type"], name.upper())
    kind = str if schema["type"] == "string" else list[str] | None
    default = "" if kind is str else None
    option = typer.Option(f"--{name}", help=member.description, metavar=metavar)
    return inspect.Parameter(
        member.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=Annotated[kind, option]
    )


@_with_filter
def search(
    text: Annotated[str, typer.Argument(help="The query.", metavar="TEXT")],
    workspace: WorkspaceDir = HERE,
    k: Count = 10,
    retriever: Annotated[
        str, typer.Option(help="auto, hybrid, dense, lexical, diffusion, geodesic; auto:ENCODER …", metavar="NAME")
    ] = "auto",
    diversity: Diversity = 0.0,
    rerank: Rerank = 0,
    reranker: Reranker = "",
    paths: Annotated[bool, typer.Option("--paths", help="Show the path through the graph to each hit.")] = False,
    as_json: AsJson = False,
    *,
    only: Filter,
) -> None:
    """Search the corpus."""
    from lemmata.project import Project

    if reranker and not rerank:
        raise LemmataError("--reranker needs --rerank N: the number of hits that it reads")
    if not text.strip():
        raise LemmataError("the query is empty: write what to search for")
    with Project(workspace).retriever() as opened:
        hits = opened.search(
            text, k, retriever=retriever, only=only, diversity=diversity, rerank=rerank, reranker=reranker, paths=paths
        )
        if retriever == "auto" and (reason := opened.words_only or opened.missing_part()):
            typer.echo(reason, err=True)
        if hits and (hint := opened.hint(text)):
            typer.echo(hint, err=True)
        _print_hits(opened.corpus, hits, text, as_json, opened.lexical.tokenizer)


@_with_filter
def similar(
    identity: Annotated[str, typer.Argument(help="Id of a passage.", metavar="ID")],
    workspace: WorkspaceDir = HERE,
    k: Count = 10,
    diversity: Diversity = 0.0,
    as_json: AsJson = False,
    *,
    only: Filter,
) -> None:
    """Find passages similar to a passage."""
    from lemmata.project import Project

    with Project(workspace).retriever() as opened:
        row = row_of(opened.corpus, identity)
        hits = opened.similar(identity, k, only=only, diversity=diversity)
        _print_hits(opened.corpus, hits, opened.corpus[row].text, as_json, opened.lexical.tokenizer)


def bridge(
    source: Annotated[str, typer.Argument(help="An id, the name of a concept, or a text.", metavar="A")],
    target: Annotated[str, typer.Argument(help="The same.", metavar="B")],
    workspace: WorkspaceDir = HERE,
    k: Annotated[int, typer.Option("-k", help="Number of paths.", min=1, max=100)] = 5,
    as_json: AsJson = False,
) -> None:
    """Connect two ideas by paths through the graph."""
    from lemmata.core.types import Step
    from lemmata.project import Project

    found = Project(workspace).bridge(source, target, k=k)
    if as_json:
        print_json(found.to_json())
        return
    console = open_console()
    if not found.paths:
        console.print(
            f"no path leads from {found.source!r} to {found.target!r}: they lie in different parts of the graph",
            markup=False,
            soft_wrap=True,
        )
        return
    for number, path in enumerate(found.paths, 1):
        chance = f"{path.expected:.2g}" if path.expected < 10 else f"{min(path.expected, 1000):,.0f}"
        console.print(
            f"path {number}  length {path.length:.2f}, coherence {path.coherence:.2f},"
            f" such paths by chance: {chance}{' or more' if path.expected > 1000 else ''}",
            style="bold",
            highlight=False,
        )
        for step in path.steps:
            line = _path((Step(*step[:4]),))
            if others := [passage for passage in step.evidence if passage not in (step.source, step.target)]:
                line.append(f"  (in {', '.join(others)})", "dim")
            console.print("  ", line, sep="")
    if found.passages:
        console.print("\nbridge passages", style="bold")
    for passage in found.passages[:10]:
        paths = ", ".join(map(str, passage.paths))
        console.print(f"  {passage.score:.3f}  {passage.id}  on path {paths}", markup=False, highlight=False)


def _print_hits(corpus: Corpus, hits: list[Hit], query: str, as_json: bool, tokenizer: Tokenizer) -> None:
    """Print the hits, each with its source: file and line, section, date and the locations that a log is about."""
    from lemmata.server.records import hit_records

    rows = [(hit, passage) for hit in hits if (passage := hit.passage)]
    dates = {document: corpus.document(document).date for document in {passage.document for _, passage in rows}}
    if as_json:
        print_json(hit_records(hits, dates.__getitem__))
        return
    if not hits:
        open_console().print("nothing found")
        return
    from rich.table import Table
    from rich.text import Text

    from lemmata.search.excerpts import excerpt

    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0))
    table.add_column("", justify="right", style="dim")
    table.add_column("score", justify="right")
    table.add_column("passage", overflow="fold", ratio=1)
    for rank, (hit, passage) in enumerate(rows, 1):
        cell = Text()
        cell.append(passage.kind, "green")
        cell.append(f"  {passage.title}" if passage.title else "", "bold")
        cell.append(f"  {hit.id}\n", "cyan")
        place = f"{passage.file}:{passage.first_line}" if passage.first_line else passage.file
        date = (passage.date or dates[passage.document] or "")[:10]
        source = " · ".join(filter(None, (place, passage.section, date, ", ".join(passage.locations))))
        cell.append(f"{source}\n" if source else "", "dim")
        shown, marks = excerpt(passage.text, query, tokenize=tokenizer)
        body = Text(shown)
        for begin, end in marks:
            body.stylize("bold yellow", begin, end)
        cell += body
        if hit.path:
            cell.append("\n")
            cell += _path(hit.path)
        if hit.repeats:
            more = f", and {len(hit.repeats) - 3} more" if len(hit.repeats) > 3 else ""
            cell.append(f"\nalso in: {', '.join(hit.repeats[:3])}{more}", "dim")
        table.add_row(str(rank), f"{hit.score:.3f}", cell)
    open_console().print(table)


def _path(path: tuple[Step, ...]) -> Text:
    """A path in one line: where it begins, and each edge with its direction, relation and length."""
    from rich.text import Text

    line = Text(path[0].source, "dim")
    for step in path:
        is_backwards = step.relation.startswith("^")
        relation = f"{step.relation.removeprefix('^')} {step.length:.2f}"
        line.append(f" ←{relation}— " if is_backwards else f" —{relation}→ ", "magenta")
        line.append(step.target, "cyan")
    return line
