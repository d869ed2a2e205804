from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.types import Document, Label, Reference
from lemmata.ingest.resolve import document_keys, entry_keys, match_entry, names_in_memory
from lemmata.ingest.resolve import resolve as resolve_links


def resolve(
    label: str, labels: list[Label], *, document: str = "a", relation: str = "refers_to", **more: object
) -> str | None:
    prefixes = more.get("prefixes", [])
    cited = more.get("cited", {})
    links = [(1, document, relation, label)]
    names = names_in_memory(labels, prefixes, {}, lambda d, key: cited.get((d, key)))  # type: ignore[arg-type, attr-defined]
    return next(resolve_links(links, names)).target


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


def cell(label: str, *known: str, relation: str = "reports_about") -> list[tuple[str, str | None]]:
    """The targets that a cell resolves to, the first with the label of the whole cell."""
    labels = [Label("", name, f"location:{name}") for name in known]
    names = names_in_memory(labels, [], {}, lambda *_: None)
    [resolved] = resolve_links([(1, "logs", relation, label)], names)
    return [(label, resolved.target), *resolved.others]


def test_a_name_with_a_comma_is_looked_up_whole_before_it_is_split() -> None:
    assert cell("Pump, main", "Pump, main", "Pump", "main") == [("Pump, main", "location:Pump, main")]
    assert cell("Pump, main", "Pump", "main") == [("Pump, main", "location:Pump"), ("main", "location:main")]
    assert cell("Pump, main", "Pump") == [("Pump, main", "location:Pump"), ("main", None)]
    assert cell("Pump, main", "main") == [("Pump, main", "location:main"), ("Pump", None)]
    assert cell("Pump, main", "Valve") == [("Pump, main", None)]


def test_a_list_may_hold_names_with_separators() -> None:
    assert cell("Pump, main; Valve | Fan", "Pump, main", "Pump", "Valve", "Fan") == [
        ("Pump, main; Valve | Fan", "location:Pump, main"),
        ("Valve", "location:Valve"),
        ("Fan", "location:Fan"),
    ]
    assert cell("Fan, Pump, main", "Pump, main", "Pump", "Fan")[1:] == [("Pump, main", "location:Pump, main")]
    assert cell("A|A; B;", "A", "B") == [("A|A; B;", "location:A"), ("B", "location:B")]
    assert cell("L1; L2", "L1", "L2", relation="related_to")[1:] == [("L2", "location:L2")]


def test_a_location_that_is_called_like_a_log_of_the_table_is_a_location() -> None:
    labels = [Label("logs", "17", "17"), Label("", "17", "location:17")]
    assert resolve("17", labels, document="logs", relation="reports_about") == "location:17"
    assert resolve("17", labels, document="logs", relation="related_to") == "17"


@given(st.lists(st.sampled_from(["A", "B", "A, B", "C; D"]), max_size=4, unique=True), st.text("ABCD,;| ", max_size=30))
def test_a_cell_resolves_to_known_names_only_and_each_once(known: list[str], label: str) -> None:
    targets = [target for _, target in cell(label, *known) if target is not None]
    assert len(set(targets)) == len(targets)
    assert all(name in known and name in label for name in (target.removeprefix("location:") for target in targets))


def test_a_hostile_cell_is_split_in_linear_time() -> None:
    assert len(cell("x," * 50_000 + "A", "A")) == 2


def test_a_citation_resolves_to_the_document_of_its_entry() -> None:
    assert resolve("K", [], relation="cites", cited={("a", "K"): "b"}) == "b"
    assert resolve("K", [Label("c", "K", "c#K")], relation="cites") is None


def match(reference: Reference, *documents: Document) -> str | None:
    def holders(key: str) -> list[str]:
        return [document.id for document in documents if key in document_keys(document)]

    return match_entry(entry_keys(reference), holders, "citing")


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
