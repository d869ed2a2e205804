"""Commands that show the content of a workspace: list, show."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lemmata.cli.output import HERE, AsJson, WorkspaceDir, counted, open_console, print_json, styled

if TYPE_CHECKING:
    from rich.console import Console


def list_(
    what: Annotated[
        str,
        typer.Argument(help="documents, passages, concepts, bibliography, locations or sources.", metavar="WHAT"),
    ] = "documents",
    workspace: WorkspaceDir = HERE,
    document: Annotated[str, typer.Option(help="Only passages or bibliography of this document.", metavar="ID")] = "",
    kind: Annotated[str, typer.Option(help="Only documents, passages or concepts of this kind.", metavar="KIND")] = "",
    k: Annotated[int, typer.Option("-k", help="Number of items to print; 0: all.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """List documents, passages, concepts, bibliography, locations or sources."""
    from lemmata.project import Project

    records = Project(workspace).listing(what, document=document, kind=kind)
    shown = list(itertools.islice(records, k or None))
    if as_json:
        print_json(shown)
        return
    console = open_console()
    if not shown:
        console.print(f"no {what}")
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = _COLUMNS.get(what) or list(shown[0])
    for name in columns:
        numeric = all(isinstance(record[name], int) for record in shown)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for record in shown:
        table.add_row(*(_cell(record[name]) for name in columns))
    console.print(table)
    if more := sum(1 for _ in records):
        console.print(f"and {more:,} more")


_COLUMNS = {
    "documents": ["id", "kind", "date", "passages", "title"],
    "passages": ["id", "kind", "title", "section"],
    "concepts": ["id", "kind", "passages", "name"],
    "bibliography": ["document", "key", "year", "title", "target"],
}


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    return "" if value is None else " ".join(str(value).split())


def show(
    identity: Annotated[str, typer.Argument(help="Id of a passage, document, location or concept.", metavar="ID")],
    workspace: WorkspaceDir = HERE,
    as_json: AsJson = False,
) -> None:
    """Show a passage, document, location or concept with its links."""
    from lemmata.project import Project

    content = Project(workspace).show(identity)
    if as_json:
        print_json(content)
        return
    console = open_console()
    if content["type"] == "concept":
        _print_concept(console, identity, content)
    elif content["type"] == "passage":
        _print_passage(console, content)
    else:
        _print_document(console, content)


def _print_passage(console: Console, passage: dict[str, Any]) -> None:
    from lemmata.core.types import INSERTED

    title = f" ({passage['title']})" if passage["title"] else ""
    console.print(styled((passage["id"], "bold cyan"), f"  {passage['kind']}{title}"))
    lines = f":{passage['first_line']}-{passage['last_line']}" if passage["first_line"] else ""
    where = " / ".join(filter(None, (passage["document_title"], passage["section"])))
    place = f"{passage['file']}{lines}"
    console.print("  ".join(filter(None, (passage["date"], where, place))) + "\n", style="dim")
    console.print(passage["text"])
    if passage["proof"]:
        console.print(styled("\n", ("Proof.", "bold"), f" {passage['proof']}"))
    metadata = {name: value for name, value in passage["metadata"].items() if name != INSERTED}
    if metadata:
        console.print()
    for name, value in metadata.items():
        console.print(styled("  ", (name, "green"), f" {_cell(value)}"))
    if passage["summaries"]:
        console.print(styled("\n", ("Summaries:", "bold")))
    for summary in passage["summaries"]:
        console.print(styled("  ", (summary["author"], "green"), f" {summary['text']}"))
    _print_links(console, passage)


def _print_document(console: Console, document: dict[str, Any]) -> None:
    console.print(styled((document["id"], "bold cyan"), f"  {document['kind']}"))
    for part in (document["title"], ", ".join(document["authors"])):
        if part:
            console.print(part)
    place = (document["date"], ", ".join(document["categories"]), document["file"])
    console.print("  ".join(filter(None, place)), style="dim")
    for passage in document.get("passages", ()):
        title = f"  {passage['title']}" if passage["title"] else ""
        console.print(styled("  ", (passage["kind"], "green"), f" {passage['id']}{title}"))
    if document.get("bibliography"):
        console.print(f"\n{len(document['bibliography']):,} entries of its bibliography:")
    for entry in document.get("bibliography", ()):
        text = entry["title"] or _cell(entry["text"])[:120]
        where = f"  → {entry['target']}" if entry["target"] else ""
        console.print(styled("  ", (entry["key"], "green"), f" {text}", (where, "cyan")))
    _print_links(console, document)


def _print_links(console: Console, content: dict[str, Any]) -> None:
    """Print the links of a passage or document in both directions, its concepts, and other edges of the graph."""
    links = [(link["relation"], link["target"] or f"{link['label']} (not in the corpus)") for link in content["links"]]
    links += [(f"{link['relation']} from", link["source"]) for link in content["referred_by"]]
    for edge in content["edges"]:
        outgoing = edge["source"] == content["id"]
        relation = edge["relation"] if outgoing else f"{edge['relation']} from"
        links.append((relation, f"{edge['target'] if outgoing else edge['source']} ({edge['maker']})"))
    if links:
        console.print()
    for relation, target in links:
        console.print(styled("  ", (relation, "green"), f" {target}"))
    if content["concepts"]:
        names = ", ".join(dict.fromkeys(concept["name"] for concept in content["concepts"]))
        console.print(styled("\n", ("Concepts:", "bold"), f" {names}"))
    if "problem" in content:
        console.print(content["problem"], style="yellow")


def _print_concept(console: Console, identity: str, concept: dict[str, Any]) -> None:
    """Print the names of a concept, its relations with their evidence, and its passages.

    `identity` is what was asked for; it may have been merged into this concept.
    """
    console.print(styled((concept["name"], "bold cyan"), f"  {concept['kind']}  ", (concept["id"], "dim")))
    if identity != concept["id"]:
        console.print(f"{identity} was merged into it", style="dim")
    if concept["aliases"]:
        console.print(f"also: {', '.join(concept['aliases'])}")
    if concept["description"]:
        console.print(f"\n{concept['description']}\n")
    for edge in concept["edges"]:
        outgoing = edge["source"] == concept["id"]
        relation = f"{edge['relation']} {edge['target']}" if outgoing else f"{edge['source']} {edge['relation']} it"
        console.print(styled("  ", (relation, "green"), "  ", (f"{edge['evidence']} ({edge['maker']})", "dim")))
    passages = concept["passages"]
    shown = ", ".join(passages[:8]) + (", …" if len(passages) > 8 else "")
    console.print(
        f"\n{counted(len(passages), 'passage')} {'mentions' if len(passages) == 1 else 'mention'} it: {shown}"
    )
