"""The command line: parse, call, print. Everything heavy is imported inside the command that needs it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from lemmata.errors import LemmataError

if TYPE_CHECKING:
    from rich.console import Console

    from lemmata.leakage import Example
    from lemmata.evaluate.tasks import Task
    from lemmata.project import Progress, Project
    from lemmata.store.corpus import Corpus
    from lemmata.types import Hit, Passage

__all__ = ["app", "main"]

app = typer.Typer(
    name="lemmata",
    help="Turn a corpus and its graph into a search engine that speaks its language.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Workspace = Annotated[Path, typer.Option("-w", "--workspace", help="The workspace folder.", metavar="DIR")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
HERE = Path()


def main() -> None:
    """Run the command line; a user's error is one sentence and exit code 1."""
    try:
        app(standalone_mode=True)
    except LemmataError as error:
        _fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away; that is not an error
        sys.exit(0)
    except KeyboardInterrupt:
        _fail("stopped; nothing done so far is lost, the same command goes on from here", 130)


def _fail(message: str, code: int = 1) -> NoReturn:
    print(f"lemmata: {message}", file=sys.stderr)  # noqa: T201
    sys.exit(code)


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))  # noqa: T201


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


@contextmanager
def _progress() -> Iterator[Progress]:
    """A progress line with rate and time left on a terminal, a word every ten seconds elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        last = time.monotonic()

        def tell(what: str, done: int, total: int | None) -> None:
            nonlocal last
            if time.monotonic() - last > 10:
                last = time.monotonic()
                print(f"{what}: {done:,}" + (f" of {total:,}" if total else ""), file=sys.stderr)  # noqa: T201

        yield tell
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, Any] = {}
        begun: dict[str, float] = {}

        def show(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total, rate="")
                begun[what] = time.monotonic()
            passed = time.monotonic() - begun[what]
            rate = f"{done / passed:,.0f}/s" if done and passed > 0.2 else ""
            bars.update(tasks[what], completed=done, total=total, rate=rate)

        yield show


# ---------------------------------------------------------------- workspace


@app.command()
def init(
    workspace: Annotated[Path, typer.Argument(help="The folder to make a workspace.", metavar="[DIR]")] = HERE,
) -> None:
    """Make a folder a workspace."""
    from lemmata.project import Project

    project = Project.init(workspace)
    _console().print(f"workspace [bold]{project.layout.root}[/], settings in {project.layout.config}")


@app.command()
def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files, folders or archives.", metavar="PATHS...")],
    workspace: Workspace = HERE,
    reader: Annotated[
        str,
        typer.Option("--as", help="auto, papers, logs, hierarchy, passages, text or pdf.", metavar="READER"),
    ] = "",
    id_column: Annotated[str, typer.Option("--id", help="Column of a table that holds the id.", metavar="COLUMN")] = "",
    text_column: Annotated[str, typer.Option("--text", help="... the text.", metavar="COLUMN")] = "",
    title_column: Annotated[str, typer.Option("--title", help="... a title.", metavar="COLUMN")] = "",
    date_column: Annotated[str, typer.Option("--date", help="... the date.", metavar="COLUMN")] = "",
    location_column: Annotated[str, typer.Option("--location", help="... the location.", metavar="COLUMN")] = "",
    related_column: Annotated[
        str, typer.Option("--related", help="... the log that it follows up.", metavar="COLUMN")
    ] = "",
    workers: Annotated[int | None, typer.Option(help="Processes; default: one per core.", min=1)] = None,
    again: Annotated[bool, typer.Option("--again", help="Read what did not change, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read sources into the corpus; again: add, update, remove."""
    from dataclasses import asdict

    from lemmata.project import Project

    columns = {
        "id": id_column,
        "text": text_column,
        "title": title_column,
        "date": date_column,
        "location": location_column,
        "related": related_column,
    }
    settings: dict[str, Any] = {"reader": reader} if reader else {}
    if any(columns.values()):
        settings["columns"] = {name: column for name, column in columns.items() if column}
    project = Project(workspace)
    with _progress() as progress:
        report = project.ingest(paths, settings=settings, workers=workers, again=again, progress=progress)
    if as_json:
        _print_json(asdict(report))
        return
    console = _console()
    changes = [
        f"{len(report.added):,} added",
        f"{len(report.updated):,} updated",
        f"{len(report.removed):,} removed",
    ]
    console.print(f"[bold]{', '.join(changes)}[/], {report.unchanged:,} unchanged, in {report.seconds:.1f} s")
    console.print(
        f"{report.passages:,} passages in {report.documents:,} documents;"
        f" {report.resolved:,} of {report.links:,} links lead somewhere"
    )
    for name, cause in list(report.failed.items())[:10]:
        console.print(f"[red]could not be read[/] {name}: {cause}", markup=True)
    if len(report.failed) > 10:
        console.print(f"... and {len(report.failed) - 10:,} more")
    if report.skips:
        console.print(f"{report.skips:,} notes on what was left out: lemmata info --skips")


@app.command()
def info(
    workspace: Workspace = HERE,
    skips: Annotated[bool, typer.Option("--skips", help="List what was left out, and why.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what the workspace holds."""
    from lemmata.project import Project

    project = Project(workspace)
    if skips:
        corpus = project.corpus
        found = corpus.skips()
        corpus.close()
        if as_json:
            _print_json([skip._asdict() for skip in found])
            return
        for skip in found:
            place = f"{skip.file}:{skip.line}" if skip.line else skip.file
            print(f"{place}: {skip.cause}")  # noqa: T201
        return
    content = project.info()
    if as_json:
        _print_json(content)
        return
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("documents", f"{content['documents']:,}")
    table.add_row("passages", f"{content['passages_in_all']:,}")
    for kind, number in content["passages"].items():
        table.add_row(f"  {kind}", f"{number:,}")
    table.add_row("links", f"{sum(link['all'] for link in content['links'].values()):,}")
    for relation, number in content["links"].items():
        table.add_row(f"  {relation}", f"{number['resolved']:,} of {number['all']:,} resolved")
    bibliography = content["bibliography"]
    table.add_row("bibliography", f"{bibliography['in_corpus']:,} of {bibliography['entries']:,} entries in the corpus")
    table.add_row("left out", f"{content['skips']:,} notes")
    _console().print(table)


@app.command()
def show(
    identity: Annotated[str, typer.Argument(help="Id of a passage or document.", metavar="ID")],
    workspace: Workspace = HERE,
    as_json: AsJson = False,
) -> None:
    """Show one passage with its proof, its place and its links."""
    from lemmata.project import Project

    corpus = Project(workspace).corpus
    passage = corpus[_row(corpus, identity)]
    if as_json:
        from dataclasses import asdict

        content = asdict(passage)
        content["links"] = [link._asdict() for link in passage.links]
        content["referred_by"] = [{"source": s, "relation": r} for s, r in corpus.referring(identity)]
        _print_json(content)
    else:
        _show(_console(), corpus, passage)
    corpus.close()


def _show(console: Console, corpus: Corpus, passage: Passage) -> None:
    from rich.markup import escape

    title = f" ({escape(passage.title)})" if passage.title else ""
    console.print(f"[bold cyan]{escape(passage.id)}[/]  {passage.kind}{title}")
    document = corpus.document(passage.document)
    lines = f":{passage.first_line}-{passage.last_line}" if passage.first_line else ""
    where = " / ".join(filter(None, (document.title, passage.section)))
    console.print(f"[dim]{escape(where)}  {escape(passage.file)}{lines}[/]\n")
    console.print(escape(passage.text))
    if passage.proof:
        console.print(f"\n[bold]Proof.[/] {escape(passage.proof)}")
    links = [(link.relation, link.target or f"{link.label} (not in the corpus)") for link in passage.links]
    links += [(f"{relation} from", source) for source, relation in corpus.referring(passage.id)]
    if links:
        console.print()
    for relation, target in links:
        console.print(f"  [green]{relation}[/] {escape(target)}")


@app.command()
def doctor(workspace: Workspace = HERE, as_json: AsJson = False) -> None:
    """Check the installation and the workspace."""
    from lemmata.project import doctor as examine

    checks = examine(workspace)
    if as_json:
        _print_json([check._asdict() for check in checks])
        return
    console = _console()
    for check in checks:
        mark = "[green]ok[/]" if check.fine else "[yellow]--[/]"
        console.print(f"{mark}  {check.name}: {check.finding}")


# ---------------------------------------------------------------- search


@app.command()
def index(
    workspace: Workspace = HERE,
    encoder: Annotated[
        str, typer.Option(help="minilm (packaged), a model folder, a hub name, or an address.", metavar="ENCODER")
    ] = "",
    dimension: Annotated[int, typer.Option(help="Cut vectors to so many numbers; 0: all.", min=0)] = 0,
    dense: Annotated[bool, typer.Option("--dense/--no-dense", help="Make vectors, or only the lexical index.")] = True,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Start the lexical index anew.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build or update the indexes."""
    from lemmata.project import Project

    settings: dict[str, Any] = {"encoder": encoder} if encoder else {}
    if dimension:
        settings["dimension"] = dimension
    project = Project(workspace)
    with _progress() as progress:
        report = project.index(settings=settings, dense=dense, rebuild=rebuild, progress=progress)
    if as_json:
        _print_json(report)
        return
    parts = [f"{report['tokenised']:,} tokenised"]
    if "encoded" in report:
        parts.append(f"{report['encoded']:,} encoded with {report['encoder']}")
    _console().print(f"{report['passages']:,} passages: {', '.join(parts)}, in {report['seconds']:.1f} s")


Count = Annotated[int, typer.Option("-k", help="How many results.", min=1, max=10_000)]
Kinds = Annotated[list[str] | None, typer.Option("--kind", help="Only this kind; may be repeated.", metavar="KIND")]
Documents = Annotated[list[str] | None, typer.Option("--document", help="Only this document.", metavar="ID")]
Categories = Annotated[list[str] | None, typer.Option("--category", help="Only this category.", metavar="NAME")]
Since = Annotated[str, typer.Option(help="Only from this date on (ISO).", metavar="DATE")]
Until = Annotated[str, typer.Option(help="Only up to this date (ISO).", metavar="DATE")]
Diversity = Annotated[float, typer.Option(help="0: the best; towards 1: unlike each other.", min=0, max=1)]


@app.command()
def search(
    text: Annotated[str, typer.Argument(help="What you look for.", metavar="TEXT")],
    workspace: Workspace = HERE,
    k: Count = 10,
    retriever: Annotated[str, typer.Option(help="auto, hybrid, dense or lexical.", metavar="NAME")] = "auto",
    kind: Kinds = None,
    document: Documents = None,
    category: Categories = None,
    since: Since = "",
    until: Until = "",
    diversity: Diversity = 0.0,
    as_json: AsJson = False,
) -> None:
    """Search the corpus."""
    from lemmata.project import Project
    from lemmata.search import Filter

    opened = Project(workspace).retriever()
    only = Filter(tuple(kind or ()), tuple(document or ()), tuple(category or ()), since, until)
    hits = opened.search(text, k, retriever=retriever, only=only, diversity=diversity)
    _print_hits(opened.corpus, hits, text, as_json)
    opened.close()


@app.command()
def similar(
    identity: Annotated[str, typer.Argument(help="Id of a passage.", metavar="ID")],
    workspace: Workspace = HERE,
    k: Count = 10,
    kind: Kinds = None,
    document: Documents = None,
    category: Categories = None,
    since: Since = "",
    until: Until = "",
    diversity: Diversity = 0.0,
    as_json: AsJson = False,
) -> None:
    """Find passages like a passage."""
    from lemmata.project import Project
    from lemmata.search import Filter

    opened = Project(workspace).retriever()
    only = Filter(tuple(kind or ()), tuple(document or ()), tuple(category or ()), since, until)
    row = _row(opened.corpus, identity)
    hits = opened.similar(identity, k, only=only, diversity=diversity)
    _print_hits(opened.corpus, hits, opened.corpus[row].text, as_json)
    opened.close()


def _row(corpus: Corpus, identity: str) -> int:
    try:
        return corpus.row(identity)
    except KeyError:
        import difflib

        near = difflib.get_close_matches(identity, corpus.ids(), 3, 0.6)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise LemmataError(f"there is no passage {identity!r}{hint}") from None


def _print_hits(corpus: Corpus, hits: list[Hit], query: str, as_json: bool) -> None:
    passages = corpus.passages([corpus.row(hit.id) for hit in hits])
    if as_json:
        _print_json(
            [
                {
                    "rank": rank,
                    "id": hit.id,
                    "score": hit.score,
                    "kind": passage.kind,
                    "document": passage.document,
                    "title": passage.title,
                    "text": passage.text,
                    "path": [step._asdict() for step in hit.path],
                }
                for rank, (hit, passage) in enumerate(zip(hits, passages, strict=True), 1)
            ]
        )
        return
    if not hits:
        _console().print("nothing found")
        return
    from rich.table import Table
    from rich.text import Text

    from lemmata.excerpts import excerpt

    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0))
    table.add_column("", justify="right", style="dim")
    table.add_column("score", justify="right")
    table.add_column("passage", overflow="fold", ratio=1)
    for rank, (hit, passage) in enumerate(zip(hits, passages, strict=True), 1):
        cell = Text()
        cell.append(passage.kind, "green")
        cell.append(f"  {passage.title}" if passage.title else "", "bold")
        cell.append(f"  {hit.id}\n", "cyan")
        shown, marks = excerpt(passage.text, query)
        body = Text(shown)
        for begin, end in marks:
            body.stylize("bold yellow", begin, end)
        table.add_row(str(rank), f"{hit.score:.3f}", cell + body)
    _console().print(table)


# ---------------------------------------------------------------- evaluate


@app.command()
def evaluate(
    workspace: Workspace = HERE,
    queries: Annotated[Path | None, typer.Option(help="JSON lines with _id and text.", metavar="FILE")] = None,
    qrels: Annotated[Path | None, typer.Option(help="Judgments, BEIR or TREC.", metavar="FILE")] = None,
    beir: Annotated[Path | None, typer.Option(help="Folder with queries and qrels/test.tsv.", metavar="DIR")] = None,
    task: Annotated[str, typer.Option(help="A task from the corpus: references or documents.", metavar="NAME")] = "",
    share: Annotated[float, typer.Option(help="Share of the documents held out for --task.", min=0, max=1)] = 0.2,
    limit: Annotated[int, typer.Option(help="At most so many queries for --task; 0: all.", min=0)] = 0,
    retriever: Annotated[str, typer.Option(help="Names, parted by commas.", metavar="NAMES")] = "lexical,dense,hybrid",
    measures: Annotated[str, typer.Option(help="Names, parted by commas.", metavar="NAMES")] = "",
    level: Annotated[str, typer.Option(help="passage or document.", metavar="LEVEL")] = "",
    train_queries: Annotated[Path | None, typer.Option(help="Queries that were trained on.", metavar="FILE")] = None,
    train_qrels: Annotated[Path | None, typer.Option(help="Judgments that were trained on.", metavar="FILE")] = None,
    allow_leakage: Annotated[bool, typer.Option("--allow-leakage", help="Go on when test data is known.")] = False,
    tune: Annotated[bool, typer.Option("--tune", help="Choose the fusion on this, as validation data.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a report for the browser.", metavar="FILE")] = None,
    seed: Annotated[int, typer.Option(help="For samples and intervals.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure retrievers on queries with known answers."""
    from lemmata.config import build, merged
    from lemmata.evaluate.report import as_html, terminal_table
    from lemmata.evaluate.report import as_json as report_as_json
    from lemmata.project import EvaluateOptions, Project
    from lemmata.store.files import write_atomically

    project = Project(workspace)
    given = {"measures": measures, "level": level}
    settings: dict[str, Any] = {key: value for key, value in given.items() if value}
    settings |= {"seed": seed, "command": " ".join(["lemmata", *sys.argv[1:]])}
    options = build(EvaluateOptions, merged(project.config.get("evaluate", {}), settings), "[evaluate]")
    chosen = _task(project, queries, qrels, beir, task, share, limit, seed)
    with _progress() as progress:
        if tune:
            result = project.tune(chosen, measure=options.measures.split(",")[0], progress=progress)
            if as_json:
                _print_json(result)
            else:
                best = result["fusion"]
                _console().print(f"fusion by {best['method']}, weight {best['weight']} for the dense side, from now on")
            return
        report = project.evaluate(
            chosen,
            retrievers=[name.strip() for name in retriever.split(",")],
            options=options,
            train=_examples(train_queries, train_qrels),
            allow_leakage=allow_leakage,
            progress=progress,
        )
    if html is not None:
        write_atomically(html, as_html(report).encode())
    if as_json:
        _print_json(report_as_json(report))
    else:
        _console().print(terminal_table(report))


def _task(
    project: Project,
    queries: Path | None,
    qrels: Path | None,
    beir: Path | None,
    name: str,
    share: float,
    limit: int,
    seed: int,
) -> Task:
    from lemmata.evaluate.tasks import task_from
    from lemmata.ingest.beir import read_qrels, read_queries

    if sum((bool(queries or qrels), beir is not None, bool(name))) != 1:
        raise LemmataError("evaluate needs one of --queries with --qrels, --beir, or --task")
    if name:
        return project.task(name, share=share, limit=limit, seed=seed)
    if beir is not None:
        packed = sorted(beir.glob("queries.jsonl*"))
        queries = packed[0] if packed else beir / "queries.jsonl"
        qrels = beir / "qrels" / "test.tsv"
    if queries is None or qrels is None:
        raise LemmataError("--queries and --qrels go together")
    return task_from(str(beir or queries), read_queries(queries), read_qrels(qrels))


def _examples(queries: Path | None, qrels: Path | None) -> list[Example]:
    from lemmata.leakage import Example
    from lemmata.ingest.beir import read_qrels, read_queries

    if queries is None and qrels is None:
        return []
    if queries is None or qrels is None:
        raise LemmataError("--train-queries and --train-qrels go together")
    texts = read_queries(queries)
    return [
        Example(query, texts.get(query, ""), tuple(passage for passage, grade in grades.items() if grade > 0))
        for query, grades in read_qrels(qrels).items()
    ]


@app.command("export-encoder")
def export_encoder(
    source: Annotated[str, typer.Argument(help="A sentence-transformers folder.", metavar="MODEL")],
    out: Annotated[Path, typer.Argument(help="The folder to write.", metavar="OUT")],
    precision: Annotated[str, typer.Option(help="fp32, fp16, int8-weights or int8.", metavar="NAME")] = "fp32",
    workspace: Workspace = HERE,
    force: Annotated[bool, typer.Option("--force", help="Write it even if it drifts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a model into ONNX and measure its drift on the corpus."""
    from itertools import islice

    from lemmata.encode.export import export_encoder as export
    from lemmata.project import Project

    corpus = Project(workspace).corpus
    texts = list(islice(corpus.contents(), 2000))
    corpus.close()
    drift = export(source, out, precision, texts=texts, force=force)
    if as_json:
        _print_json(drift._asdict())
    else:
        _console().print(
            f"{out}: mean cosine {drift.mean_cosine:.5f}, smallest {drift.least_cosine:.5f},"
            f" top-10 overlap {drift.overlap:.3f}"
        )


# ---------------------------------------------------------------- demo


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="A new folder for the demo's workspace.", metavar="[DIR]")] = Path(
        "demo"
    ),
) -> None:
    """The whole story on the bundled example, offline."""
    from lemmata.project import Project

    console = _console()
    notes = example("qseries")
    question = "in how many ways can one fill a Young diagram so that rows and columns increase"

    def step(text: str, command: str) -> None:
        console.print(f"\n[bold]{text}[/]\n[dim]$ lemmata {command}[/]")

    step("Make a workspace and read the example: LaTeX notes on q-series.", f"ingest examples/qseries -w {folder}")
    project = Project.init(folder)
    with _progress() as progress:
        report = project.ingest([notes], progress=progress)
    console.print(
        f"{report.passages:,} passages in {report.documents:,} documents, {report.resolved:,} of {report.links:,}"
        f" links resolved, in {report.seconds:.1f} s"
    )
    step("What was found?", f"info -w {folder}")
    info(folder)
    corpus = project.corpus
    chosen = max(corpus, key=lambda p: (bool(p.title and p.proof), len(p.links) + len(corpus.referring(p.id))))
    step("One statement with its proof and its links.", f"show '{chosen.id}' -w {folder}")
    _show(console, corpus, chosen)
    corpus.close()
    step("Index it: BM25 that reads formulas, and vectors from the packaged encoder.", f"index -w {folder}")
    index(folder)
    step("Ask in your own words.", f'search "{question}" -w {folder} -k 3')
    search(question, folder, k=3)
    step("How good is it? 64 questions with known answers, never used for anything else.",
         f"evaluate --beir examples/qseries -w {folder} --html {folder}/report.html")  # fmt: skip
    evaluate(folder, beir=notes, measures="MRR@10,nDCG@10,R@20", html=folder / "report.html")
    console.print(f"\nEvery query is in {folder}/report.html. Your own corpus is the same few commands.")


def example(name: str) -> Path:
    """The folder of a bundled example, in an installation or in a checkout."""
    installed = Path(__file__).parent / "examples" / name
    checkout = Path(__file__).parents[2] / "examples" / name
    for folder in (installed, checkout):
        if folder.is_dir():
            return folder
    raise LemmataError(f"the example {name!r} is not part of this installation")
