"""What locations say in words: their own texts, and the text of a log with the descriptions of its locations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lemmata.core.types import Document
from lemmata.plant.hierarchy import build_tree
from lemmata.plant.names import tokenise


def location_texts(locations: Iterable[Document]) -> dict[str, str]:
    """For each location its title, then those of the locations above it: `Rücklaufpumpe P202, Kolonne K201`.

    A location without a title is called by its code. Of the locations above, the root of the plant says nothing and
    is left out; so is a title that repeats one below it.
    """
    tree = build_tree(locations)
    texts = {}
    for row, identity in enumerate(tree.ids):
        path = [tree.titles[row].strip() or tree.codes[row]]
        above = int(tree.parent[row])
        while above >= 0 and tree.parent[above] >= 0:
            if (title := tree.titles[above].strip()) and title not in path:
                path.append(title)
            above = int(tree.parent[above])
        texts[identity] = ", ".join(path)
    return texts


def expand(
    text: str, mentions: Iterable[tuple[int, int, str]], titles: Mapping[str, str], known: Iterable[str] = ()
) -> str:
    """`P203 kavitiert` to `P203 (Rücklaufpumpe P203) kavitiert`, for passages that are indexed and trained on.

    A mention is start and end of a part of the text and the id of the location that it names. Each location is
    described once, after its first mention; one that is only `known`, or whose mention is empty, at the end of the
    text. Nothing is added for a location without a title, for a title whose words are in the mention already (for one
    that is only known: in the text), nor inside a longer mention.
    """
    mentions = list(mentions)
    spans = sorted({span for span in mentions if span[0] < span[1]}, key=lambda span: (span[0], -span[1]))
    added: dict[str, tuple[int, str]] = {}  # by location
    for start, end, location in spans:
        if location in added or any(other[0] < end < other[1] for other in spans):
            continue
        title = titles.get(location, "").strip()
        mentioned = {token.word for token in tokenise(text[start:end])}
        if not {token.word for token in tokenise(title)} <= mentioned:
            added[location] = (end, f" ({title})")
    named = {location for _, _, location in spans}
    words = {token.word for token in tokenise(text)}
    unnamed = dict.fromkeys([*(location for *_, location in mentions if location not in named), *known])
    described = [titles.get(location, "").strip() for location in unnamed if location not in named]
    missing = [title for title in described if not {token.word for token in tokenise(title)} <= words]
    text += "".join(f" ({title})" for title in dict.fromkeys(missing))
    for end, title in sorted(added.values(), key=lambda addition: addition[0])[::-1]:
        text = text[:end] + title + text[end:]
    return text
