"""Identifiers in references: of arXiv, DOIs, titles that can be compared."""

from __future__ import annotations

import re
from urllib.parse import unquote

from lemmata.core.words import slug
from lemmata.latex.clean import plain

NEW_ID = re.compile(r"(?<!\d)(?<!\d\.)(\d\d(?:0[1-9]|1[0-2]|\d\d)\.\d{4,5})(?:v\d+)?(?![\d])")
_VALID_NEW_ID = re.compile(r"(?:0[7-9]|1[0-4])(?:0[1-9]|1[0-2])\.\d{4}|(?:1[5-9]|[2-9]\d)(?:0[1-9]|1[0-2])\.\d{5}")
_ARCHIVES = (
    "astro-ph|cond-mat|gr-qc|hep-(?:ex|lat|ph|th)|math-ph|nlin|nucl-(?:ex|th)|physics|quant-ph|math|cs|q-bio|q-fin|"
    "stat|alg-geom|dg-ga|funct-an|q-alg|solv-int|chao-dyn|patt-sol|adap-org|comp-gas|cmp-lg|acc-phys|ao-sci|"
    "atom-ph|bayes-an|chem-ph|mtrl-th|plasm-ph|supr-con"
)
_OLD_ID = re.compile(
    rf"(?<![A-Za-z0-9-])({_ARCHIVES.replace('-', '-{1,2}')})"
    r"(?:\.[A-Za-z]{2}|\.[a-z-]{4,12})?/\s?((?:9[1-9]|0[0-7])(?:0[1-9]|1[0-2])\d{3})(?:v\d+)?(?!\d)",
    re.I,
)
_TAG = re.compile(r"(?:arxiv|\babs/|\be-?prints?\b)[^;]{0,30}$", re.I)
_OTHER_TAG = re.compile(r"(?:zbl|zbmath|zblatt|zentralblatt|jfm|mr|\ban|doi)\W*$|[\w./:=?–-]$", re.I)
_DOI = re.compile(r"(?<![\d.])10\.\d{4,9}(?:\.\d{1,9})*+/[^\s\"{}|^`\\&?#]{1,200}+")
_AFTER_DOI = re.compile(r"(?:/(?:abstract|full|fulltext|pdf|epdf|meta)|\.pdf|\.html?|/)$", re.I)


def arxiv_id(text: str) -> str:
    """The first arXiv id in a text, without version; "" if there is none.

    An id with a tag (arXiv:, abs/) is preferred to a bare number. A bare number must be a valid id, and neither the
    number of a review (Zbl 1203.11045) nor part of something longer.
    """
    if NEW_ID.fullmatch(stripped := text.strip()):
        return stripped.partition("v")[0]
    bare = ""
    tagged: list[tuple[int, str]] = []
    for match in NEW_ID.finditer(text):
        before = text[max(0, match.start() - 40) : match.start()]
        if _TAG.search(before) and not re.search(r"zbl|zbmath|10\.(?!48550/)\d{4,}/\S*$", before, re.I):
            tagged.append((match.start(), match[1]))
            break
        if not bare and _VALID_NEW_ID.fullmatch(match[1]) and not _OTHER_TAG.search(before):
            bare = match[1]
    if old := _OLD_ID.search(text):
        tagged.append((old.start(), f"{old[1].replace('--', '-').lower()}/{old[2]}"))
    return min(tagged)[1] if tagged else bare


def doi(text: str) -> str:
    """The first DOI in a text, in lower case and without a resolver's address; "" if there is none."""
    if "10." not in text:
        return ""
    if "\\" in text:
        text = re.sub(r"\{?\\textunderscore(?![A-Za-z])\s*+(?:\{\})?\}?", "_", text)
        text = re.sub(r"\{?\\([_%&#])\}?|\\allowbreak(?![A-Za-z])\s*+|\\-", lambda match: match[1] or "", text)
    if "$" in text:
        text = re.sub(r"\$([<>])\$", r"\1", text)
    if "%" in text and re.search(r"%2f|%28|%3a", text, re.I):
        text = unquote(text)
    match = _DOI.search(text)
    if not match:
        return ""
    identifier = match[0]
    while not identifier[-1].isalnum():
        last = identifier[-1]
        opening = {")": "(", "]": "[", ">": "<"}.get(last)
        if last not in ".,;:'’”*" and not (opening and identifier.count(opening) < identifier.count(last)):
            break
        identifier = identifier[:-1]
    identifier = _AFTER_DOI.sub("", identifier)
    return identifier.lower() if "/" in identifier and not identifier.endswith("/") else ""


def normalise_title(title: str) -> str:
    r"""A title for matching: lower-case letters and digits without accents; α and `\alpha` are alpha."""
    title = plain(title)
    return slug(title).replace("-", "") if re.search(r"[^\W_]", title) else ""
