"""Commands that show the content of a workspace: list, show."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

from typer import Argument, Option

from lemmata.cli.output import counted, invocation, line, opened, print_report


def list_(
    what: Annotated[
        str, Argument(help="documents, passages, concepts, bibliography, locations or sources.", metavar="WHAT")
    ] = "documents",
    document: Annotated[str, Option(help="Only passages or bibliography of this document.", metavar="ID")] = "",
    kind: Annotated[str, Option(help="Only documents, passages or concepts of this kind.", metavar="KIND")] = "",
    k: Annotated[int, Option("-k", help="Number of items to print; 0: all.", min=0)] = 0,
) -> None:
    """List documents, passages, concepts, bibliography, locations or sources."""
    from lemmata.maintain.content import listing

    records = listing(opened(), what, document=document, kind=kind)
    shown = list(itertools.islice(records, k or None))
    print_report(shown, shown=_COLUMNS.get(what, ()), empty=f"no {what}")
    if not invocation.is_json and (more := sum(1 for _ in records)):
        line(f"and {more:,} more", style="dim")


_COLUMNS = {
    "documents": ["id", "kind", "date", "passages", "title"],
    "passages": ["id", "kind", "printed", "number", "title", "section"],
    "concepts": ["id", "kind", "passages", "name", "definition"],
    "bibliography": ["document", "key", "year", "title", "target"],
}
_MOST_PASSAGES = 50  # of a document with contents that are listed one by one


def show(
    identity: Annotated[str, Argument(help="Id of a passage, document, location or concept.", metavar="ID")],
    k: Annotated[int, Option("-k", help="Number of logs of a location; 0: all.", min=0)] = 20,
) -> None:
    """Show a passage, document or concept with its links, or the history of a location."""
    from lemmata.maintain.content import show

    content = show(opened(), identity, k=k)
    if content["type"] == "concept":
        print_report(content, lambda concept: _print_concept(identity, concept))
    elif content["type"] == "location":
        print_report(content, _print_location)
    else:
        print_report(content, _print_passage if content["type"] == "passage" else _print_document)


def _print_passage(passage: dict[str, Any]) -> None:
    from lemmata.core.types import BOOKKEEPING
    from lemmata.latex.readable import readable

    line((passage["id"], "bold cyan"), f"  {readable(passage['headline'])}")
    lines = f":{passage['first_line']}-{passage['last_line']}" if passage["first_line"] else ""
    where = readable(" / ".join(filter(None, (passage["document_title"], passage["section"]))))
    place = f"{passage['file']}{lines}"
    line("  ".join(filter(None, (passage["date"], where, place))) + "\n", style="dim")
    line(readable(passage["text"]))
    if passage["proof"]:
        line("\n", (f"{passage['proof_name']}.", "bold"), f" {readable(passage['proof'])}")
    metadata = {name: value for name, value in passage["metadata"].items() if name not in BOOKKEEPING}
    if metadata:
        line()
    for name, value in metadata.items():
        line("  ", (name, "green"), f" {' '.join(str(value).split())}")
    if passage["summaries"]:
        line("\n", ("Summaries:", "bold"))
    for summary in passage["summaries"]:
        line("  ", (summary["author"], "green"), f" {summary['text']}")
    _print_links(passage)


def _print_document(document: dict[str, Any]) -> None:
    from lemmata.server.records import numbered

    line((document["id"], "bold cyan"), f"  {document['kind']}")
    for part in (document["title"], ", ".join(document["authors"])):
        if part:
            line(part)
    place = (document["date"], ", ".join(document["categories"]), document["file"])
    line("  ".join(filter(None, place)), style="dim")
    for heading in document.get("contents", ()):
        if heading["title"] or heading["number"]:
            name = "  ".join(filter(None, (heading["number"], heading["title"])))
            count = counted(heading["statements"], "statement") if heading["statements"] else ""
            line("  " * (1 + heading["level"]), name, (f"  {count}" if count else "", "dim"))
    is_long = len(document.get("passages", ())) > _MOST_PASSAGES and document["contents"]
    if is_long:
        line(f"{counted(len(document['passages']), 'passage')}: lemmata list passages --document {document['id']}")
    for passage in () if is_long else document.get("passages", ()):
        title = f"  {passage['title']}" if passage["title"] else ""
        line("  ", (numbered(passage), "green"), f" {passage['id']}{title}")
    if document.get("bibliography"):
        line(f"\n{len(document['bibliography']):,} entries of its bibliography{'' if is_long else ':'}")
    for entry in () if is_long else document.get("bibliography", ()):
        text = entry["title"] or " ".join(entry["text"].split())[:120]
        where = f"  → {entry['target']}" if entry["target"] else ""
        line("  ", (entry["key"], "green"), f" {text}", (where, "cyan"))
    _print_links(document)


def _print_location(location: dict[str, Any]) -> None:
    """Print where a location stands, and its history: follow-ups are indented below the log that they follow."""
    line((location["id"], "bold cyan"), f"  {location['title']}")
    for word, places in (("part of", location["above"]), ("parts", location["parts"])):
        if places:
            line((word, "green"), " " + ", ".join(f"{place['id']} {place['title']}".rstrip() for place in places))
    history = location["history"]
    line(f"\n{counted(location['logs'], 'log')} here and below")
    name = location["id"].removeprefix("location:")
    for before, log in zip([None, *history], history, strict=False):
        is_first = before is None or before["thread"] != log["thread"]
        margin, mark = ("  ", "") if is_first else ("      ", "↳ ")
        place = "  ".join(other for other in log["location"] if other != name)
        others = [other for other in log["follows"] if before is None or other != before["id"]]
        follows = f"  follows {', '.join(others)}" if others else ""
        head = ((log["date"] or "no date", "green"), f"  {log['id']}", (f"  {place}" if place else "", "cyan"), follows)
        line(margin[: -len(mark)] if mark else margin, mark, *head)
        for text in filter(None, (log["title"], *log["text"].splitlines())):
            line(f"{margin}{text}")
    if more := location["logs"] - len(history):
        line(f"\nand {more:,} more: -k 0 shows all")
    if "problem" in location:
        line(location["problem"], style="yellow")


def _print_links(content: dict[str, Any]) -> None:
    """Print the links of a passage or document in both directions, its concepts, and other edges of the graph."""
    links = [(link["relation"], link["target"] or f"{link['label']} (not in the corpus)") for link in content["links"]]
    links += [(f"{link['relation']} from", link["source"]) for link in content["referred_by"]]
    for edge in content["edges"]:
        outgoing = edge["source"] == content["id"]
        relation = edge["relation"] if outgoing else f"{edge['relation']} from"
        links.append((relation, f"{edge['target'] if outgoing else edge['source']} ({edge['maker']})"))
    if links:
        line()
    for relation, target in links:
        line("  ", (relation, "green"), f" {target}")
    if content["concepts"]:
        names = ", ".join(dict.fromkeys(concept["name"] for concept in content["concepts"]))
        line("\n", ("Concepts:", "bold"), f" {names}")
    if "problem" in content:
        line(content["problem"], style="yellow")


def _print_concept(identity: str, concept: dict[str, Any]) -> None:
    """Print the names of a concept, its relations with their evidence, and its passages.

    `identity` is what was asked for; it may have been merged into this concept.
    """
    line((concept["name"], "bold cyan"), f"  {concept['kind']}  ", (concept["id"], "dim"))
    if identity != concept["id"]:
        line(f"{identity} was merged into it", style="dim")
    if concept["aliases"]:
        line(f"also: {', '.join(concept['aliases'])}")
    if concept["description"]:
        line(f"\n{concept['description']}\n")
    for edge in concept["edges"]:
        outgoing = edge["source"] == concept["id"]
        relation = f"{edge['relation']} {edge['target']}" if outgoing else f"{edge['source']} {edge['relation']} it"
        line("  ", (relation, "green"), "  ", (f"{edge['evidence']} ({edge['maker']})", "dim"))
    passages = concept["passages"]
    shown = ", ".join(passages[:8]) + (", …" if len(passages) > 8 else "")
    line(f"\n{counted(len(passages), 'passage')} {'mentions' if len(passages) == 1 else 'mention'} it: {shown}")
