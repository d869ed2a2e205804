"""The text that a reader is shown as the definition of a term, or none: no definition rather than a wrong one.

A sentence that one of the rules in `candidates` found may still define something else, or nothing by itself: an
example, a longer term, a property or a purpose, a name for what stands elsewhere. Such sentences give no text.
"""

from __future__ import annotations

import bisect
import re
from typing import NamedTuple

from lemmata.core.types import Passage
from lemmata.core.words import PHRASE_BREAKS, STOP_WORDS
from lemmata.graph.concepts.symbols import symbols_of
from lemmata.graph.concepts.terms import FORMULA, ITEM, property_or_object, sentence_spans, sure_kind

LONGEST_DEFINITION = 1200  # characters; an encoder reads little more
CONDITION = re.compile(r"\b(?:[Ii]f|[Ww]hen|[Ww]henever|iff|provided|wenn|falls)\b")
_FEWEST_WORDS = 4
_LETTERS = re.compile(r"[^\W\d_]{2,}")

# ---------------------------------------------------------------- what belongs to the sentence

_REFERS_BACK = re.compile(
    r"\W*(?:(?:These|This|Then|Such|Its|It(?! is \w+ (?:to|that)\b)|They|Those|If,? in addition|The (?:latter|former)"
    r"|In (?:this|that) case|Diese[rsnm]?|Solche\w*)"
    r"|(?:An?|Any|The) [^.,;:$]{1,60} (?:(?:with|of|having|satisfying) (?:these|this|those)|in this (?:way|manner))"
    r"|The [^.,;:$]{1,40} (?:just|above) (?:stated|given|described|mentioned)"
    r"|We (?:\w+ )?call (?:such|it|them|this|these))\b"
)
_SETTING = re.compile(r"\W*(?:Definition\W+)?(?:(?:Now )?[Dd]efine|Let|Suppose|Assume|Given|Fix|Consider|Put|Recall)\b")
_OWN_SETTING = re.compile(
    r"\W*(?:Definition\W+)?(?:(?:In|For|On|Over) (?:an?|any|each|every|two)|Let|Suppose|Given|If)\b"
)
_CONTINUES = re.compile(r"\W*(?:Moreover|Furthermore|In addition|Additionally|The defining)\b")
_FAR = 30  # sentences above a definition that may introduce its symbols
_LEAD = 700  # characters of a passage above a definition that are shown
_ABOUT_ANY = re.compile(
    r"\W*(?:Definition\W+)?(?:(?:In|For|On|Over|Given|If|When|By|Let|Suppose|We (?:call|say that|say|define)|Call) )?"
    r"(?:(?:[Aa]n?|[Aa]ny|[Ee]very|[Ee]ach|[Tt]wo|all)\b|(?!The|This|It|Its|They|Then|These|Here|There)"
    r"[A-Z][\w'’-]+(?: [\w'’-]+){0,3} (?:is|are|was|consists?|refers?|means)\b|"
    r"[Tt]he [\w '’-]{1,60}(?: \$+)? (?:of|on|in|for|over|between) (?:an?|any|two|each|every)\b|"
    r"[\w '’-]{1,60} we (?:mean|understand)\b)"
)
_ABOUT_SYMBOL = re.compile(r"\W*(?:(?:We|One) (?:call|says?(?: that)?) |(?:If|When|Given) )?\$")
_REST = 500  # characters of a paragraph that are shown after a definition
_WHOLE = re.compile(r"[.!?$)”]\s*$")
_ASIDE = re.compile(
    r"\W*(?:For (?:example|instance)|Examples?|Notes?|Notice|Remarks?|Observe|Theorem|Lemma|Proposition|Proof|"
    r"Corollary|Exercise|See|As an example|However|We (?:will|now|shall)|Let us|"
    r"In this (?:article|entry|section|chapter)|Clearly|Similarly|Likewise|One can|It can be|"
    r"It is (?:easy|clear|not|known|\w+ to))\b"
)
_FOOTNOTE = r"\s*+\(\s*+[A-Z$][^()]*+(?:\([^()]*+\)[^()]*+)*+\)\s*+"
_FOOTNOTE_BEFORE, _FOOTNOTE_AFTER = re.compile(rf"{_FOOTNOTE}(?=[A-Z$])"), re.compile(rf"(?<=[.!?]){_FOOTNOTE}$")
_FOOTNOTES = re.compile(r"\s*\(\s*[A-Z“](?:[^()]|\((?:[^()]|\([^()]*\))*\))*[.”!?:]\s*\)\s*")
_LOST_REFERENCE = re.compile(r",? \(?(?:see|cf\.?)(?: also)?\)?(?=[.,;)]|$)")
_ANNOUNCES = re.compile(
    r"(?::|\b(?:following|as follows|folgende\w*)\b[^.]*\.?|\b(?:if|iff|when|whenever|such that|wenn|falls))\s*$"
)
_STEP = re.compile(r"\W*(?:First|We (?:first|start|begin)|To )\b")
_GOES_ON = re.compile(r"\s*(?:where|with|such that|for (?:all|any|each|every|some)|and)\b")
_EXPLAINED = re.compile(r"[\s,]*(?:\([^()]*\))?[\s,]*(?:which|that) (?:is|are) (?:an?|the)\b")
_ITEM = re.compile(rf"\s*(?:•|–\s|\((?:\d|[a-z]|[ivx]+)\)|{ITEM})\s*")
_IN_MARKDOWN = re.compile(rf"\s*{ITEM}")
_HEADING = re.compile(rf"(?:(?:{_ITEM.pattern}|\s*Definitions?(?:\s*\d+)?[.:]?\s+(?=[A-Z$])))+")

# ---------------------------------------------------------------- what defines nothing

# Sentences that speak of a name, of an example, or of what would have a name.
_NO_DEFINITION = re.compile(
    r"\b(?:should|would|could|might|cannot|not|never|convention)\b[^.;:]{0,60}\bcalled\b|"
    r"^\W*(?:Because|Since|Here|Notice|Note|Observe|Besides|Technically|Again|Perhaps|However|But|Thus|Hence|So|"
    r"Therefore|Indeed|Conversely|Otherwise|Another|First consider|Let us|In our|If you|As an?|As we|In fact|"
    r"Most often|The same|While|Whereas|Although|And|One (?:way|kind|type|example)|"
    r"In the (?:later|latter|former|parent))\b|"
    r"^\W*In (?:this|the|our) (?:example|section|chapter|proof|notation)\b|"
    r"^\W*In the (?:\w+ )?case \$|^\W*(?:That is|Expressed|Likewise|One can|It can be|"
    r"In some (?:literature|texts|books))\b|"
    r"^\W*If \$+ (?:is|are) (?:also|moreover|furthermore)\b|"
    r"^\W*If there (?:is|are) no\b|\bonly (?:\w+ )?used\b|\buseful applications\b|"
    r"^\W*The (?:first|second|third|last) (?:condition|property|axiom|equation|inequality|identity|formula)\b|"
    r"^\W*(?:Any|Every|All|The) other\b|^\W*The following (?:theorem|lemma|proposition|result)\b|"
    r"^\W*For (?:example|instance)\b|\bas in(?: and\b|[.,;])|\bby the following table\b|\bin the example\b|"
    r"\b(?:shows?|proves?) that\b[^.;:]*\bdefine\b|\bwhat (?:is|are)\b|\?\s*$"
)
# What these words stand for is not in the sentence.
_ELSEWHERE = re.compile(
    r"\b(?:[Ff]or (?:example|instance)|e\.g|[Ii]n the same way|"
    r"[Tt]his|[Tt]hese|[Tt]hose|above|below|such(?! that)|[Tt]hus|latter|former|previous\w*|preceding|as in|"
    r"(?:so|just) \w+ed|the (?:obtained|resulting)|aforementioned|in Figure|in Table|"
    r"the (?:\w+ ){1,2}(?:is|are|will|may) also (?:be )?(?:called|known))\b|"
    r"^\W*(?:\w+\W+){0,8}calls? (?:it|them)\b|^\W*\w+ \w+ of (?:it|them)\b|"
    r"^\W*(?!If|When|Given|Let|For)\w.*\b(?:it|they) (?:is|are) (?:\w+ ){0,2}(?:called|known)\b"
)
_ELSEWHERE_AFTER = re.compile(
    r"\bsuch an? [\w-]+\s*[.;]|\bthey are both\b|\bevery such\b|\babove\b(?! or\b| the\b)|"
    r"\bthese (?:conditions|two|three|four)\b"
)
# The text refers to what is not shown, or the author has not finished it.
_UNFINISHED = re.compile(
    r"\b(?:Axiom|Proposition|Theorem|Lemma|Corollary|Condition|Equation|Definition)s? \(?(?:\d|[IVX]+\b)|"
    r"\bcriteri(?:a|on) \d|(?<!and )\bonly if\b|\bTODO\b|\bTBD\b|\bunder the (?:first|second) definition\b|"
    r"\b(?:defined|mentioned|described|given|introduced) (?:earlier|before|previously)\b|"
    r"\bdefined (?:analogously|similarly)\b|\bin (?:a similar|the same|an analogous) (?:way|manner|fashion)\b|"
    r"\b(?:defined|provided|given|described|constructed|introduced) (?:in|by|from)\s*[.,;)]|\bbegins as follows\b|"
    r"\bsatisf\w+ (?:the )?(?:condition|equation|axiom)s?(?: (?:for|and|if|is)\b|[.,])|:\s*\d+\.$|\b[ie]\.[eg]\.$|"
    r"\b(?:of|by|in|from|than|with|and|the|an?|to|possible)\s*[.]$|"  # a reference was lost
    r"\b(?:from|by|[Ss]ee)\s*\.(?=\s)|\bBy,|\bin and\b|\bdiagrams? (?:in )?\(?\d|\bin the (?:following )?diagram\b|"
    r"_\{[^{}]*\}\s*_\{"  # a quantifier was lost
)
_ANAPHOR = re.compile(
    r"\b(?:th(?:is|ese)|(?<=[,;] )the(?= \w+ (?:is|are|will|may|can)\b[^.;:]{0,20}\b(?:called|said to)\b)|"
    r"(?<=\bthen )the(?= \w+ (?:is|are|will|may|can)\b[^.;:]{0,20}\b(?:called|said to)\b)) ([a-z]{3,})\b"
)
_DANGLING = re.compile(  # a text that begins with what belongs to one before it
    r"\W*(?:Similarly|Likewise|Also|Again|Generally|More generally|Consequently|Then|This|These|So|Thus|Hence|If the|"
    r"Therefore|In this case|Moreover|Furthermore|By contrast|Otherwise|Just as|Remarks?|Proof|Such|"
    r"For example|For instance|Now|Here(?!')|In words|In other words|In particular|"
    r"It(?! is \w+ (?:to|that)\b))\b"
)
_NO_NOUN = STOP_WORDS | frozenset("means implies case kind way type types two three properties conditions".split())
_MID_LIST, _LIST_START = re.compile(r"\((?:[2-9]|[b-h]|i[iv]+)\)"), re.compile(r"\((?:1|a|i)\)")
_NO_CONTEXT = re.compile(  # a sentence before that is of no help
    r"\W*(?:[a-z(•$]|It (?!is \w+ (?:to|that)\b)|"
    r"(?:We|With|They|That|However|Since|Because|In the end|Prove|Show|Then|Hence|Note|Equivalently|"
    r"Furthermore|Thus|In (?:Lemma|Theorem|Section))\b)|"
    r".*\b(?:[Ff]igure|[Tt]h(?:is|ese|ose)|above|below|such(?! that))\b"
)
_NO_SETTING = re.compile(
    r"\W*(?:[a-z•]|(?:Then|Hence|Thus|So|Therefore|It|This|These|They|Note|Prove|Show|For example|Clearly|As|"
    r"Observe|To|By|In other words)\b)"
)
_CALLED = r"(?:called|termed|named|known as|referred to as|said to be|denoted)"
_BE = r"(?:is|are|was|were|will be|may be|can be)(?: \w+){0,2}?"
_PLAIN = r"(?:(?!(?:of|on|in|for|from|with|by|under|between|that|which|\w+ing|\w+ed)\b)[\w-]+ ){0,3}"
# `The subgroups $A_i$ are then called`: which ones?
_ONLY_NAMED = re.compile(
    rf"\W*\$,? {_BE} {_CALLED}\b|"
    rf"\W*(?:\w+, )?(?:[Tt]he|(?:An? )?\w+ (?:of|over|in)) {_PLAIN}(?:\$ )*{_BE} {_CALLED}\b"
    r"|\W*(?:\w+, )?[Ww]e (?:\w+ ){0,2}(?:call|refer to) (?:the [\w-]+ )?\$(?: (?:of|in|on) \$)?(?: as)?"
    r"|\W*We define an? [\w-]+ \$,? which we call"
)
_VARIABLE_NAMED = re.compile(  # `The minimal generating set $H$ of $M$ is called`
    rf"\W*(?:\w+, )?[Tt]he {_PLAIN}\$(?:(?!\b(?:all|each|every|any|an?|those)\b).)* {_BE} {_CALLED}\b"
)
_PROPERTY_NAMED = re.compile(r"\bcalls? an?\s*$")  # `call an expression closed`: not the name
_ARTICLE_BEFORE = re.compile(r"\b(?:an?|the)\s*$")  # `called an alternating or symplectic plane`: nor this
_ARTICLE_LAST = re.compile(r"(?:\s+(?:an?|the|its))?\s*$")
_CALLED_END = re.compile(rf"\b{_CALLED}(?: an?| the| its)?\s*$")
_OTHER_NAME = re.compile(  # `An independent set is sometimes called a`
    rf"\W*(?:An? |The )?(?:[\w-]+ ){{1,3}}(?:of \$ )?(?:is|are) (?:also|often|sometimes) {_CALLED}(?: an?| the)?\s*"
)
_ONE_OF_SEVERAL = re.compile(rf"\b{_CALLED} [^.;:,$]*\band (?:an? |the )?$")
_AND_OTHERS = re.compile(r"\s+and\s+(?:an?\s|the\s)?[a-z-]+(?:\s[a-z-]+)?\s*[.,;]")
_BRACKETS = re.compile(r"\((?:[^()]|\([^()]*\))*\)")
_VAGUE = re.compile(
    r"\b(?:certain|[Rr]oughly|[Ii]nformally|[Ll]oosely|[Gg]enerally speaking|similar to|special case|"
    r"nothing more than|sort of|(?:is|are) (?:essentially|basically|almost)|probably the|somehow|"
    r"not defined|interesting|specific|variation (?:of|on)|the reverse of|resembling|as described by|"
    r"special (?:type|kind)|variant of|set-up|style|emphasi[sz]es|signifying|can be defined only|one of the systems|"
    r"(?:laws|rules|properties) that are called|in some sense)\b"
)
# After the subject: what it is good for or related to, not what it is.
_PURPOSE = re.compile(
    r"[^.;:]{0,60}?\b(?:(?:is|are) (?:\w+ly )?(?:used|useful|important|needed|an? (?:[\w-]+ ){0,3}"
    r"(?:way|tool|means|example|analogu?e?|generali[sz]ation|consequence|variant form|definition|notion|term"
    r"|statement about) ?(?:of|to|for|in)?)\b|describes\b)"
)
# A kind without what sets the term apart: `is a divide-and-conquer sampling strategy`, `is a clique`.
_ONLY_A_KIND = re.compile(
    r"\s*(?:\([^()]*\)|of an? \w+)?\s*(?:is|are) (?:an?|the) (?:(?:[\w-]+ )?\w+(?:\.|, and\b)|"
    r"(?:[\w()-]+ ){0,4}(?:strateg|display|setup|techni|method|tool|approach|step|hierarch|process|notation)\w*"
    r"(?: (?:of|in|on|for)(?: [\w()-]+){1,5})?\s*\.)"
)
# A structure of which only the elements are told: `The polynomial ring is the set of all sequences`.
_ONLY_A_SET = re.compile(
    r"(?:.*\b)?(?:ring|group|algebra|product|space|module|field|monoid|category|completion)\b[^.;:]{0,60}?"
    r" (?:is|are)(?: defined (?:as|to be))? the set\b"
)
_STRUCTURE = re.compile(
    r"\b(?:operation|addition|multiplication|topology|metric|structure|with|together|under|endowed)\b"
)
# `A frame is a pair of a set, whose elements are called worlds`: defines a frame.
_PART_OF_ANOTHER = re.compile(
    r"\W*(?:\w+, )?(?:An?|The)\b(?:(?!\b(?:which|that|whose|where|with)\b)[^.;:]){1,80}?"
    r" (?:is|are) (?:an?|the|any)\b.*\bcalled\b"
)
_ITEM_BEFORE = re.compile(r"(?:•|\s\((?:\d|[a-z]|[ivx]+)\)) ")
_CALLED_AFTER = re.compile(rf"\s+in which\b|(?:\s*\$)?(?: (?:in|of|on) \S+)? {_BE} {_CALLED}\b")
_PREDICATE = re.compile(r"\b(?:is|are)(?: an?| the)?\s*$")
_SET_OF = re.compile(r"\b[Tt]he (?:\S+-)?(?:set|type|collection) of(?: all)?\s*$")  # names the set, not its elements
_INSTANCE = re.compile(r"\W*(?:Every|Each|All|The)\b")
_AT_ONCE = re.compile(r"[^.;:]{0,60}?\b(?:if|iff|when|whenever|provided|exactly|precisely)\b")
_STATED = re.compile(r"\b(?:stat|say|assert|postulat|claim|mean|conjectur)\w*\b|\b(?:that|if|then|every|for all)\b|\$")
_JOINED = re.compile(r"\s*(?:\$|\w)?[-–][\w$]")
_OF_A_KIND = re.compile(r"\s+of (?:the \w+ (?:kind|type)|(?:one|two|several|\w+) (?:real |complex )?variables?)\b")
_WORD_AFTER = re.compile(r"^\s+([a-z]+)\b")
_MEASURES = frozenset("base cardinality degree dimension length level order period rank size weight".split())
_VERBS = frozenset(
    """consists means modulo refers denotes states says asserts represents measures postulates claims iff
    relative""".split()
)
_FORMULA = re.compile(r"\$[^$]*\$")
_RELATION = re.compile(r"[=<>≤∈]|\\(?:simeq|equiv|sum|prod|in|leq?|geq?|subset\w*|mapsto|to|mid|cong|times|cdot|int)\b")
_HOLLOW = STOP_WORDS | frozenset(
    """element elements member members object objects set type subset subtype class call called say said known refer
    referred define defined mean denote denoted termed named given let also then usually often sometimes will may which
    where with from into that such there have has corresponding depict simply just result""".split()
)
_EMPTY_NAME = re.compile(r"^(?:equivalent|another|importan\w+) |(?:portion|characteri[sz]ation|consequence)$")


class Source(NamedTuple):
    passage: Passage
    masked: str
    spans: list[tuple[int, int]]
    german: bool
    is_article: bool  # begins a document, or is a definition: all of it is about what it defines


def definition_of(name: str, source: Source, number: int, place: tuple[int, int]) -> str:
    """The text that defines a name, of one sentence of a passage and what belongs to it; "" where it does not define.

    `place` is the span of the term in the masked text. The sentence comes with the one before it where it begins with
    `these` or with a variable, and with the list or condition that it announces. A footnote is a text of its own.
    """
    passage, masked, spans, german, is_article = source
    start, end = spans[number]
    if place[0] - start > LONGEST_DEFINITION:  # cut before its term
        return ""
    if footnote := _FOOTNOTE_BEFORE.match(masked, start, end):  # to the sentence before
        start = footnote.end() if footnote.end() <= place[0] else start
    if inner := _footnote_around(masked, start, place[0]):
        inside = [(inner[0] + first, inner[0] + last) for first, last in sentence_spans(masked[slice(*inner)])]
        number = max(at for at, span in enumerate(inside) if span[0] <= place[0])
        return definition_of(name, source._replace(spans=inside), number, place)
    sentence = masked[start:end]
    explained = _EXPLAINED.match(masked, place[1], end)  # what is called a confounder, which is a variable that
    if (not explained and _NO_DEFINITION.search(sentence)) or len(_LETTERS.findall(sentence)) < _FEWEST_WORDS:
        return ""
    first = start
    before = _short(masked[slice(*spans[number - 1])]) if number else ""
    if _REFERS_BACK.match(sentence):
        if not before or (not german and _NO_CONTEXT.match(before)):
            return ""
        first = spans[number - 1][0]
        if _REFERS_BACK.match(before):
            if number < 2 or _NO_CONTEXT.match(_short(masked[slice(*spans[number - 2])])):
                return ""
            first = spans[number - 2][0]
    elif (
        before and not german and not _ELSEWHERE.search(before) and _names_formula_of(source, number, place[0], before)
    ):
        first = spans[number - 1][0]
    announces = _ANNOUNCES.search(sentence)
    if announces:
        if number + 1 == len(spans):
            return ""
        number += 1
        end = spans[number][1]
        if _STEP.match(masked, spans[number][0]):
            return ""
    elif number + 1 < len(spans) and sentence.rstrip().endswith("$") and _GOES_ON.match(masked, spans[number + 1][0]):
        number += 1
        end = spans[number][1]
    elif footnote := _FOOTNOTE_AFTER.search(sentence):
        end = start + footnote.start()
    follows = [_CONTINUES, _ITEM] if announces or _ITEM_BEFORE.search(sentence) else [_CONTINUES]
    while number + 1 < len(spans) and any(rule.match(masked, spans[number + 1][0]) for rule in follows):
        number += 1  # a list is shown to its end, and so are laws that hold moreover
        end = spans[number][1]
        follows = [_CONTINUES, _ITEM]
    if not german and end - first > 3 * LONGEST_DEFINITION:  # too long even without its footnotes
        return ""
    context = "" if first == start else before
    text = passage.text
    first = first if german else _first_needed(name, source, first, end)
    heading = _HEADING.match(text, first)
    shown = _without_footnotes(" ".join(text[heading.end() if heading else first : end].split()))
    if german:
        return shown
    after = _short(masked[place[1] : min(end, place[1] + LONGEST_DEFINITION)])
    is_inside = first > spans[0][0] and not (_ABOUT_ANY.match(masked, first) or _SETTING.match(masked, first))
    if is_article and is_inside and passage.kind != "definition":  # an article has begun with what this is about
        return ""
    if _has_unknown(shown, name, passage.kind == "definition"):
        return ""
    if not _defines(name, _short(masked[start : place[0]]), after, context, shown):
        return ""
    rest = text[end : _paragraph_end(source, first, number)] if is_article else ""
    return _without_footnotes(" ".join(f"{shown} {rest}".split()))


def statement_of(name: str, text: str) -> str:
    """The statement of a named result as it is shown; "" where it cannot be understood by itself."""
    shown = _without_footnotes(" ".join(text.split()))
    symbols = symbols_of(shown, name)
    return "" if _UNFINISHED.search(shown) or symbols.letters & symbols.missing else shown


def _has_unknown(text: str, name: str, is_definition: bool) -> bool:
    """Whether a text uses letters of which it says nothing: several, or one for a set or a space.

    A definition has the notation of its section, so that there only a set or space that it speaks of counts.
    """
    symbols = symbols_of(text, name)
    unknown = symbols.letters & symbols.missing
    counted = symbols.alone & unknown if is_definition else unknown
    return len(unknown) > 1 + is_definition or any(not letter.islower() or len(letter) > 1 for letter in counted)


def _without_footnotes(text: str) -> str:
    """A text without the sentences that it has in brackets."""
    masked = FORMULA.sub(lambda formula: "$" * (formula.end() - formula.start()), text)
    for footnote in reversed(list(_FOOTNOTES.finditer(masked))):
        text = f"{text[: footnote.start()]} {text[footnote.end() :]}"
    return _LOST_REFERENCE.sub("", text).strip()


def _first_needed(name: str, source: Source, first: int, end: int) -> int:
    """Where the text begins that a definition needs to be understood.

    A sentence about any thing of a kind stands by itself, after the `Let` right above it. One that uses a symbol of
    the text above comes with that text. In an article a sentence about one thing (`the series`, `if $x < y$`) comes
    with its paragraph, and with all that stands above it if that is short.
    """
    text, masked = source.passage.text, source.masked
    place = bisect.bisect_right(source.spans, first, key=lambda span: span[1])
    above = [span for span in source.spans[max(0, place - _FAR) : place] if _fits(text[span[0] : end])]
    items = [number for number, (start, _) in enumerate(above) if _IN_MARKDOWN.match(masked, start)]
    above = [] if _IN_MARKDOWN.match(masked, first) else above[items[-1] + 1 if items else 0 :]
    symbols = symbols_of(text[first:end], name)
    is_near = not _OWN_SETTING.match(masked, first)
    begin = first
    uses_letters = any(len(symbol) == 1 or symbol in symbols.letters for symbol in symbols.missing)
    needs_more = uses_letters or not _ABOUT_ANY.match(masked, first)
    if above and (needs_more if source.is_article else _ABOUT_SYMBOL.match(masked, first)):
        if above[0][0] == source.spans[0][0] and first - above[0][0] <= _LEAD:
            return above[0][0]
        paragraph = text.rfind("\n\n", 0, first) + 1
        begin = next((start for start, _ in above if start >= paragraph), first)
    wanted = symbols.used if begin == first else symbols.letters
    missing = wanted & symbols_of(text[begin:end], name).missing
    for start, stop in reversed(above):
        is_near = is_near and bool(_SETTING.match(masked, start) and symbols.used & symbols_of(text[start:stop]).used)
        fewer = wanted & symbols_of(text[start:end], name).missing if missing else missing
        if start < begin and (is_near or fewer < missing or (begin < first and _NO_SETTING.match(masked, begin))):
            begin, missing = start, fewer
    return begin


def _fits(text: str) -> bool:
    """Whether a text is short enough to be shown, without its footnotes."""
    if not LONGEST_DEFINITION < len(text) < 3 * LONGEST_DEFINITION:
        return len(text) <= LONGEST_DEFINITION
    return len(_without_footnotes(" ".join(text.split()))) <= LONGEST_DEFINITION


def _paragraph_end(source: Source, first: int, number: int) -> int:
    """Where the rest of the paragraph ends that tells more about what a sentence has defined."""
    text, masked, spans = source.passage.text, source.masked, source.spans
    begin = end = last = spans[number][1]
    for start, stop in spans[number + 1 :]:
        is_apart = "\n\n" in text[last - 2 : start + 2] and _WHOLE.search(text[last - 9 : last])
        if is_apart or _IN_MARKDOWN.match(masked, start):
            break
        sentence = _short(masked[start:stop])
        if stop - first > LONGEST_DEFINITION or stop - begin > _REST or _ASIDE.match(sentence):
            break
        if _UNFINISHED.search(sentence.strip()):
            break
        last = stop
        if _WHOLE.search(text[start:stop]) and not _ANNOUNCES.search(sentence):
            end = stop
    return end


def _footnote_around(masked: str, start: int, place: int) -> tuple[int, int] | None:
    """The span of the sentences in brackets around a place, without the brackets; None outside of such."""
    depth = 0
    for at in range(place - 1, start - 1, -1):
        depth += (masked[at] == "(") - (masked[at] == ")")
        if depth > 0:
            break
    else:
        return None
    if not re.match(r"\s*[A-Z$]", masked[at + 1 : at + 9]):
        return None
    for end in range(place, min(len(masked), place + 2 * LONGEST_DEFINITION)):
        depth += (masked[end] == "(") - (masked[end] == ")")
        if not depth:
            return at + 1, end
    return None


def _names_formula_of(source: Source, number: int, end: int, before: str) -> bool:
    """Whether a clause only gives a name to a formula of the sentence before it: `We call $C_P$ the`."""
    start = source.spans[number][0]
    clause = _ARTICLE_LAST.sub("", _short(source.masked[start:end]))
    if not before or " also " in clause or not _ONLY_NAMED.fullmatch(clause):
        return False
    if _NO_CONTEXT.match(before) or _ELSEWHERE.search(before):
        return False
    text = source.passage.text
    formula = _FORMULA.search(text, start, end)
    symbol = re.escape(formula[0].strip("$ ")) if formula else ""
    formulas = " ".join(_FORMULA.findall(text, *source.spans[number - 1]))
    return bool(symbol) and bool(re.search(rf"(?<![\w\\]){symbol}(?!\w)", formulas))


def _short(masked: str) -> str:
    """A masked text with one dollar for each formula."""
    return re.sub(r"\s+", " ", re.sub(r"\$+", "$", masked))


def _defines(name: str, before: str, after: str, context: str, text: str) -> bool:
    """Whether a text says by itself what a name means.

    Its sentence has `before` and `after` around the name, and `context` is the sentence before that, or "".
    """
    item = _ITEM.match(before)
    if item:
        before = before[item.end() :]
    if (
        before.count("(") > before.count(")")
        or "•" in before[:1]
        or (re.search(r"(?:^|[•)])\s*$", before) and after.lstrip().startswith(":"))
    ):
        return False
    if len(text) > LONGEST_DEFINITION or _UNFINISHED.search(text) or _DANGLING.match(text) or _is_dangling(name, text):
        return False
    if _MID_LIST.search(before) and not _LIST_START.search(before):
        return False
    if _ELSEWHERE_AFTER.search(after) or (re.search(r"\bcalls? (?:an?|the)\s*$", before) and re.match(r"\s*\$", after)):
        return False
    if not context and (_ELSEWHERE.search(before) or re.match(r"\s*[a-z]", before)):
        return False
    condition = bool(CONDITION.search(_ITEM_BEFORE.split(before)[-1]) or _AT_ONCE.match(after))
    if not condition and (_PART_OF_ANOTHER.match(before) or _ITEM_BEFORE.search(before)):
        return False
    condition = condition or bool(CONDITION.search(after))
    if not context and not condition:
        if _ONLY_NAMED.fullmatch(_ARTICLE_LAST.sub("", before)):
            return False
        if _VARIABLE_NAMED.match(before) and not any(map(_RELATION.search, _FORMULA.findall(text))):
            return False
    if _OTHER_NAME.fullmatch(before) and text.startswith(before[:9].lstrip()):
        return False
    if not condition and (_ONE_OF_SEVERAL.search(before) or (_CALLED_END.search(before) and _AND_OTHERS.match(after))):
        return False
    if (
        _VAGUE.search(_BRACKETS.sub("", f"{before} {after}"))
        or _PURPOSE.match(after)
        or _ONLY_A_KIND.match(after)
        or _CALLED_AFTER.match(after)
    ):
        return False
    if property_or_object(name) == "definition" and (
        _PROPERTY_NAMED.search(before) or (_ARTICLE_BEFORE.search(before) and re.match(r"\s+or\b", after))
    ):
        return False
    if _SET_OF.search(before):
        return False
    if _PREDICATE.search(before) and (_INSTANCE.match(before) or not condition):
        return False
    if _ONLY_A_SET.match(f"{name}{after}") and not _STRUCTURE.search(after):
        return False
    if sure_kind(name) and not _STATED.search(f"{context} {before} {after}"):
        return False
    return not _is_part(name, after) and not _is_circular(name, before, after) and _says_something(name, text)


def _is_dangling(name: str, text: str) -> bool:
    """Whether a text speaks of `this function` where nothing before it is a function."""
    plain = _BRACKETS.sub("", text)
    for anaphor in _ANAPHOR.finditer(plain):
        noun = anaphor[1].rstrip("s")
        if anaphor[1] not in _NO_NOUN and name not in noun and noun not in f"{name} {plain[: anaphor.start()].lower()}":
            return True
    return False


def _is_part(name: str, after: str) -> bool:
    """Whether the sentence has the name only as the beginning of a longer one."""
    words = name.split()
    if _JOINED.match(after) or _OF_A_KIND.match(after) or (len(words) == 1 and name.endswith("ly")):
        return True
    is_measured = words[-1] in _MEASURES or words[-2:-1] in (["of"], ["in"])  # free group of rank $|A|$
    if len(words) > 1 and is_measured and re.match(r"\s*\$", after):
        return True
    of = re.match(r"\s+of (?!(?:an?|the|any|each|every|two|some|all|one|its|these|those)\b)([a-z]+)\b(?!\s*\$)", after)
    if of and of[1] not in _MEASURES:  # exact sequence of pointed sets
        return True
    if len(words) > 1 and words[-1].endswith("ed") and re.match(r"\s+(?:by|or|from)\b", after):
        return True
    word = next(iter(_WORD_AFTER.findall(after[:40])), "")
    return word in {"form", "forms"} or not (word in PHRASE_BREAKS or word in _VERBS or word.endswith("ly") or not word)


def _is_circular(name: str, before: str, after: str) -> bool:
    """Whether a sentence explains a name by itself: a thing is finite if its set is finite."""
    as_before = "" if property_or_object(name) == "definition" else ".* as(?: an?| the)?\\s*$"
    if re.search(rf"\b{re.escape(name)}s?\b{as_before}", before):
        return True
    if re.search(rf"\bof(?: an?| the)? {re.escape(name)}\b", after.split(". ")[0]):
        return True
    again = rf"\b(?:is|are|mean|as|by)(?: an?| the)? {re.escape(name)}(?=\s*(?:[.,;$]|$)| of\b)(?!, (?:i\.e|that is)\b)"
    return bool(re.search(again, _BRACKETS.sub("", after), re.IGNORECASE))


def _says_something(name: str, text: str) -> bool:
    """Whether a text is whole and says more than the term: another word, or a relation."""
    if re.search(r"\s\((?:1|i)\)\s", text) and not re.search(r"\s\((?:2|ii)\)\s", text):  # a list that is cut
        return False
    if re.search(r"(?:[\w,:;]|,\s*\$|[^.]\))$", text) or "\\bullet" in text or _EMPTY_NAME.search(name):
        return False
    rest = re.sub(re.escape(name), " ", _FORMULA.sub(" ", text), count=1, flags=re.IGNORECASE)
    words = {word.lower() for word in _LETTERS.findall(rest) if len(word) > 2}
    return bool(words - _HOLLOW) or any(map(_RELATION.search, _FORMULA.findall(text)))
