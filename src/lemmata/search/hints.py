"""What somebody who searched should know: of names and numbers, words that nobody wrote, languages, missing parts."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lemmata.core.types import Hit
from lemmata.core.words import GERMAN_STOP_WORDS, language_of
from lemmata.encode.load import ENGLISH_ONLY, PLANT
from lemmata.search.encoder_index import LONGEST_QUERY
from lemmata.search.exact import missing_number
from lemmata.search.filter import LONGEST_NAME
from lemmata.search.query import Query
from lemmata.search.spelling import corrected
from lemmata.vectors.store import no_vectors, unfinished

if TYPE_CHECKING:
    from lemmata.search.retriever import Retriever


def missing_part(retriever: Retriever, encoder: str = "") -> str:
    """What the fitted weights of `auto` count on and is not there, in one sentence; empty where all is."""
    index = retriever.dense(encoder)
    if not index.exists:
        return ""
    if index.fusion.uses_graph and retriever.citations is None:
        return "searched without citations, which the weights of auto count on: run 'lemmata graph build'"
    if index.fusion.learned and index.metric is None:
        return "searched without a learned metric, which the weights of auto count on: run 'lemmata train metric'"
    return ""


def words_only(retriever: Retriever) -> str:
    """Why `auto` ranks all passages, or new ones, by words only, in one sentence; empty where it does not."""
    made = unfinished(retriever.workspace)
    if not retriever.has_vectors:
        reason = retriever.dense().refusal or made or no_vectors(retriever.workspace)
        return f"searched by words only: {reason}"
    return f"new passages are searched by words only: {made}" if retriever.dense().is_outdated else ""


def hint(retriever: Retriever, text: str) -> str:
    """About a query, in one sentence; empty where there is nothing to tell."""
    with contextlib.suppress(KeyError):
        retriever.corpus.row(text.strip())
        return f"{text.strip()} is the id of a passage; to see it: lemmata show {shlex.quote(text.strip())}"
    text = retriever.read_query(text).text
    if not text or (told := missing_number(retriever.corpus, text) or foreign(retriever, text)):
        return told if text else ""
    if any(retriever.is_known(each[:LONGEST_QUERY]) for each in (text, *retriever.also_searched(text))):
        return ""
    if retriever.named(text):  # a code that stands in a column, not in a text
        return ""
    return "no word of the query occurs in the corpus: these are the nearest by meaning, which may be far off"


def dated(retriever: Retriever, text: str) -> str:
    """That the words of a query name a time which its hits are from; empty where they do not."""
    query = retriever.read_query(text)
    if not query.is_dated or query.filter is None:
        return ""
    ends = {"since": query.filter.since, "until": query.filter.until}
    said = " ".join(f"{name}:{date}" for name, date in ends.items() if date)
    return f"only logs of the time that the query names ({said}): put the date in quotes to search for its words"


def foreign(retriever: Retriever, text: str) -> str:
    """What to do about a German query to an English corpus whose vectors know English only; else empty.

    German names are in English queries, too: most words of the query must be missing in the corpus.
    """
    if len(text) > LONGEST_NAME or language_of(text) != "de" or retriever.lexical.tokenizer.language != "en":
        return ""
    if not retriever.dense().exists or (encoder := retriever.dense().vectors.encoder) not in ENGLISH_ONLY:
        return ""
    words = text.split()
    is_told = not GERMAN_STOP_WORDS.isdisjoint(word.casefold() for word in words)  # letters alone may be nonsense
    if not is_told or 2 * sum(map(retriever.is_word, words)) >= len(words):
        return ""
    return (
        f"the query seems to be German and the corpus is English, which {encoder} does not bring together;"
        f" {PLANT} does: lemmata index --encoder {PLANT}"
    )


def did_you_mean(retriever: Retriever, text: str, hits: Sequence[Hit]) -> str:
    """A query with words of the corpus in the place of those that no passage has; empty where it has all.

    Where a query found nothing because of its quotes, it is meant without them.
    """
    query = retriever.read_query(text)
    if not hits and query.phrases:
        return " ".join(text.replace('"', " ").split())
    if len(text) > LONGEST_NAME or query != Query(text):  # names and values are no words to correct
        return ""
    return corrected(text, retriever.lexical, lambda row: retriever.corpus[row].text, retriever.is_known)
