from __future__ import annotations

from lemmata.ingest.resolve import match_bibliography, resolve_links
from lemmata.types import Document, Label, Reference


def resolve(
    label: str, labels: list[Label], *, document: str = "a", relation: str = "refers_to", **more: object
) -> str | None:
    prefixes = more.get("prefixes", [])
    cited = more.get("cited", {})
    links = [(1, document, relation, label)]
    resolved = resolve_links(links, labels, prefixes, lambda d, key: cited.get((d, key)))  # type: ignore[arg-type, attr-defined]
    return next(resolved)[0]


def test_a_label_is_looked_up_in_its_own_document_first() -> None:
    labels = [Label("b", "x", "b#x"), Label("a", "x", "a#x")]
    assert resolve("x", labels) == "a#x"


def test_a_label_of_another_document_must_be_unique_in_the_folder() -> None:
    assert resolve("x", [Label("b", "x", "b#x")]) == "b#x"
    assert resolve("x", [Label("b", "x", "b#x"), Label("c", "x", "c#x")]) is None
    assert resolve("x", [Label("far/b", "x", "far/b#x")]) is None


def test_the_longest_prefix_wins() -> None:
    labels = [Label("spaces", "morphisms-x", "wrong"), Label("spaces-morphisms", "x", "right")]
    prefixes = [("a", "spaces-", "spaces"), ("a", "spaces-morphisms-", "spaces-morphisms")]
    assert resolve("spaces-morphisms-x", labels, prefixes=prefixes) == "right"


def test_a_shorter_prefix_is_tried_when_the_longer_one_does_not_resolve() -> None:
    labels = [Label("spaces", "morphisms-y", "spaces#y")]
    prefixes = [("a", "spaces-", "spaces"), ("a", "spaces-morphisms-", "spaces-morphisms")]
    assert resolve("spaces-morphisms-y", labels, prefixes=prefixes) == "spaces#y"


def test_names_and_ids_are_resolved_in_the_whole_corpus() -> None:
    labels = [
        Label("far/b", "name:Group", "far/b"),
        Label("", "P-1", "location:P-1"),
        Label("logs", "17", "17"),
    ]
    assert resolve("name:Group", labels) == "far/b"
    assert resolve("P-1", labels, relation="reports_about") == "location:P-1"
    assert resolve("17", labels, relation="related_to") == "17"


def test_a_citation_resolves_to_the_document_of_its_entry() -> None:
    assert resolve("K", [], relation="cites", cited={("a", "K"): "b"}) == "b"
    assert resolve("K", [Label("c", "K", "c#K")], relation="cites") is None


def match(reference: Reference, *documents: Document) -> str | None:
    return next(match_bibliography([(1, "citing", reference)], documents))[3]


def test_entries_match_by_arxiv_id_then_doi_then_title() -> None:
    by_id = Document("2004.14974", "One title of a paper", metadata={"doi": "10.1/ABC"})
    other = Document("other", "Another title of a paper")
    assert match(Reference("k", arxiv="2004.14974", title="Another title of a paper"), by_id, other) == "2004.14974"
    assert match(Reference("k", doi="10.1/abc"), by_id, other) == "2004.14974"
    assert match(Reference("k", title="ANOTHER title, of a paper."), by_id, other) == "other"


def test_short_and_shared_titles_match_nothing() -> None:
    assert match(Reference("k", title="Algebra"), Document("a", "Algebra")) is None
    twins = Document("a", "The same long title"), Document("b", "The same long title")
    assert match(Reference("k", title="The same long title"), *twins) is None


def test_no_document_cites_itself_by_title() -> None:
    assert match(Reference("k", title="A long enough title"), Document("citing", "A long enough title")) is None
