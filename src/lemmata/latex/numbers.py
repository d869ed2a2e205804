r"""The numbers that LaTeX prints: its counters, simulated in the order of the text.

Not a TeX engine: a counter that is computed, or declared where the source cannot be read, has no number rather than a
wrong one. Where a paper was compiled, its `.aux` files say the numbers of the labels (`read_aux`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from lemmata.latex.arguments import fill
from lemmata.latex.clean import plain
from lemmata.latex.counters import BOOKS, LEVELS, LONGEST_FORMAT, SECTIONS, Counters, letter
from lemmata.latex.expand import Definitions, Macro, Opening, read_call
from lemmata.latex.kinds import COMPUTED_REFERENCE
from lemmata.latex.source import SHORT, VERBATIM, end_of, read_argument, read_optional, skip_blanks


class Numbers(NamedTuple):
    """The printed numbers of a paper; what has none is missing."""

    places: dict[int, str]  # of statements and headings, by the offset of their `\begin` or command
    labels: dict[str, str]
    # What the openings of environments refer to and label, where counters make the labels, by the offset of `\begin`:
    referred: dict[int, str]
    labelled: dict[str, int]


# ---------------------------------------------------------------- declarations

_OPTION = re.compile(r"(?:^|,)\s*([a-z ]+?)\s*(?:=\s*(\{[^{}]*\}|[^,]*))?(?=,|$)", re.I)
_WITHIN = ("numberwithin", "within", "parent", "number within")
_LIKE = ("numberlike", "sibling", "sharenumber", "sharecounter", "use counter", "use counter from")


def _options(text: str) -> dict[str, str]:
    return {key.strip(): (value or "").strip().strip("{}").strip() for key, value in _OPTION.findall(text)}


# ---------------------------------------------------------------- the text in order

_EVENT = (
    r"\\(?=[\\\[@Nabcdefilnprs]|ma[ix]|(?:%s))(?:(?P<which>begin|end)\s*\{(?P<name>[^{}\n]*)\}"
    r"|(?P<section>part|chapter|(?:sub){0,2}section|(?:sub)?paragraph)(?P<star>\*?)(?=\s*[\[{])"
    r"|label\s*\{(?P<label>(?:[^{}]|\{[^{}]*\})*)\}"
    r"|(?P<item>item)(?![a-zA-Z])"
    r"|(?P<counter>setcounter|addtocounter|(?:ref)?stepcounter|newcounter|@addtoreset|@removefromreset|numberwithin"
    r"|counterwith(?:in|out)|newaliascnt)(?![a-zA-Z])(?P<only>\*?)"
    r"|(?P<theorem>(?:sp)?newtheorem|declaretheorem|newmdtheoremenv|newtcbtheorem|NewTcbTheorem|newtcolorbox"
    r"|NewTColorBox|newshadetheorem|newframedtheorem|newdefinition|newproof)(?![a-zA-Z])(?P<unnumbered>\*?)"
    r"|(?P<matter>appendix|(?:front|main|back)matter|(?:max|set)secnumdepth|setlist|newlist)(?![a-zA-Z])"
    r"|(?P<caption>caption)(?![a-zA-Z*])|captionof\s*\{(?P<captionof>\w+)\}|(?P<footnote>footnote(?:mark)?|footcite)(?![a-zA-Z])"
    r"|(?P<inner>subfigure|subfloat|subcaption(?:box)?)(?=\s*[\[{])"
    r"|(?P<display>\[)|(?P<call>%s)(?![a-zA-Z@])|(?P<escape>\\))"
)
_ROW = re.compile(
    r"\\(?:(begin|end)\s*\{([^{}\n]*)\}|label\s*\{([^{}]*)\}|(tag)\*?(?=\s*\{)|(notag|nonumber)(?![a-zA-Z])|(\\)|[^a-zA-Z])|([{}])"
)
_ONE_ROW = frozenset("equation multline dmath displaymath".split())
_ROWS = frozenset("align gather alignat flalign xalignat xxalignat eqnarray IEEEeqnarray".split())
_INNER_FLOATS = frozenset(("subfigure", "subtable"))
NUMBERED = frozenset(name + star for name in _ONE_ROW | _ROWS for star in ("", "*"))
FLOATS = {
    **dict.fromkeys("figure wrapfigure sidewaysfigure SCfigure marginfigure floatingfigure".split(), "figure"),
    **dict.fromkeys("table longtable wraptable sidewaystable margintable SCtable longtblr".split(), "table"),
    "algorithm": "algorithm",
    "listing": "listing",
}
_LISTS = {"enumerate": "enumerate", "compactenum": "enumerate", "inparaenum": "enumerate", "enumerate*": "enumerate"}
_ENUMERATION = ("enumi", "enumii", "enumiii", "enumiv")
_DECLARES = re.compile(
    r"\\(?:newtheorem|declaretheorem|newtcbtheorem|newmdtheoremenv|numberwithin|[a-z]*counter\w*)(?![a-zA-Z])"
)
_CLASS = re.compile(r"\\(?:documentclass|documentstyle|LoadClass)\s*(?:\[[^\]]*\])?\s*\{?\s*([\w.-]+)")
_PACKAGE = re.compile(r"\\(?:usepackage|RequirePackage)\s*(?:\[([^\]]*)\])?\s*\{([^{}]*)\}")
_SHORT_LABEL = re.compile(r"[AaIi1]")
_SHORT_STYLES = {"A": "Alph", "a": "alph", "I": "Roman", "i": "roman", "1": "arabic"}
_PRINTED = re.compile(  # counters with dots between; the name of the last one
    r"(?:\\(?:the[a-zA-Z]+|(?:arabic|[aA]lph|[rR]oman)\s*\{[^{}]*\})\.)*"
    r"\\(?:the([a-zA-Z]+)|(?:arabic|[aA]lph|[rR]oman)\s*\{([^{}]*)\})"
)
_NAME = re.compile(r"[a-zA-Z@]+")
_COMPUTED_LABEL = re.compile(r"\\label\s*\{([^{}\\]*\\(?:[^{}]|\{[^{}]*\})*)\}")
_DISPLAY_END = re.compile(r"\\\]")
_DEPTH = 200  # environments inside environments
_LONGEST_DISPLAY = 50_000  # characters


class _Scope(NamedTuple):
    environment: str
    current: str  # the number that a label had before
    lists: int  # open numbered lists


class _Reader:
    def __init__(
        self,
        text: str,
        body: int,
        definitions: Definitions,
        openings: Mapping[str, Opening],
        labels: Iterable[tuple[int, str]],
    ) -> None:
        self.text, self.body, self.openings = text, body, openings
        head = text[:body] or text[:20_000]
        classes = [name.strip() for name in _CLASS.findall(head)]
        books = [name for name in classes if name in BOOKS]
        used = re.search(r"\\chapter\s*[\[{]", text) if not classes else None
        self.document_class = books[0] if books else "book" if used else classes[-1] if classes else "article"
        self.counters = Counters(self.document_class)
        self.theorems: dict[str, str] = {}  # the counter of each environment; empty for one without numbers
        self.numbers = Numbers({}, {}, {}, {})
        self.current = ""
        self.stepped = ""  # the last counter of `refer`
        self.referred = 0  # how often `current` was set by a counter
        self.scopes: list[_Scope] = []
        self.footnotes: list[tuple[int, str]] = []  # end of a footnote, and the number that a label has after it
        self.lists: list[str] = []  # the counter of each open numbered list
        self.list_kinds = dict(_LISTS)
        self.list_formats: dict[tuple[str, int], str] = {}
        packages = [(options, name.strip()) for options, names in _PACKAGE.findall(head) for name in names.split(",")]
        self.packages = {name for _, name in packages}
        self.short_labels = any(name == "enumitem" and "short" in options for options, name in packages)
        self.in_main = True
        self.has_tags = "\\tag" in text
        self.greatest_depth = self.counters.values["secnumdepth"]
        self.formats = [
            (at, name, macro)
            for at, name, macro, _ in definitions.entries
            if macro and name[:3] in ("the", "c@" + name[2:3])
        ]
        self.formats_read = 0
        self.definitions = definitions
        self.spans = sorted(span for span in definitions.spans if span[0] < body)
        self.starts = [begin for begin, _ in self.spans]
        self.options: dict[int, list[str]] = {}  # labels that are arguments of a `\begin`, by its offset
        for offset, name in labels:
            if not text.startswith("\\label", offset):
                self.options.setdefault(offset, []).append(name)
        macros = definitions.at(body)
        self.callable = {name: macro for name, macro in macros.items() if _DECLARES.search(macro.body)}
        self.callable |= {  # \\newenvironment{name} also makes \\name
            name: Macro(opening.text)
            for name, opening in openings.items()
            if name.isalpha() and _DECLARES.search(opening.text) and f"\\{name}" in text
        }
        names = "|".join(map(re.escape, self.callable)) or "(?!)"
        self.event = re.compile(_EVENT % (names, names))

    def run(self) -> Numbers:
        self.scan(self.text, 0)
        return self.numbers

    def scan(self, text: str, depth: int) -> None:
        at = 0
        is_main = text is self.text
        while event := self.event.search(text, at):
            begin, at = event.span()
            if is_main:
                if (
                    begin < self.body
                    and (span := bisect_right(self.starts, begin) - 1) >= 0
                    and begin < self.spans[span][1]
                ):
                    at = max(at, self.spans[span][1])
                    continue  # inside a definition
                if self.formats_read < len(self.formats) and self.formats[self.formats_read][0] <= begin:
                    self.redefine(begin)
                while self.footnotes and self.footnotes[-1][0] <= begin:
                    _, self.current = self.footnotes.pop()
            at = self.handle(event, text, begin, at, depth)

    def handle(self, event: re.Match[str], text: str, begin: int, at: int, depth: int) -> int:
        group = event.lastgroup
        if group == "name":
            name = event["name"].strip()
            return self.begin(name, text, begin, at, depth) if event["which"] == "begin" else self.end(name, at)
        if group == "star":
            return self.section(event["section"], bool(event["star"]), begin, at, is_main=text is self.text)
        if group == "label":
            self.label(event["label"])
        elif group == "item":
            return self.item(text, at)
        elif group == "only":
            return self.count(event["counter"], bool(event["only"]), text, at)
        elif group == "unnumbered":
            return self.declare(event["theorem"], bool(event["unnumbered"]), text, at)
        elif group == "matter":
            return self.matter(event["matter"], text, at)
        elif group in ("caption", "captionof"):
            self.caption(event["captionof"] or "")
        elif group == "footnote":
            self.footnote(text, at)
        elif group == "inner":
            self.inner_figure()
        elif group == "display" and self.has_tags:
            return self.rows(text, at, _DISPLAY_END, "")
        elif group == "call" and depth < 5:
            return self.call(event["call"], text, at, depth)
        return at

    # ------------------------------------------------------------ labels

    def refer(self, counter: str, prefix: str = "") -> str:
        self.counters.step(counter)
        self.stepped = counter
        self.referred += 1
        self.current = prefix + self.counters.printed(counter)
        return self.current

    def label(self, name: str, number: str | None = None) -> None:
        name = " ".join((self.counters.show(name) if "\\" in name else name).split())
        number = self.current if number is None else number
        if name and number:
            self.numbers.labels.setdefault(name, number)

    def redefine(self, offset: int) -> None:
        r"""Take over the definitions of `\the…` up to an offset."""
        while self.formats_read < len(self.formats) and self.formats[self.formats_read][0] <= offset:
            _, name, macro = self.formats[self.formats_read]
            self.formats_read += 1
            if name.startswith("c@"):
                if macro.body.startswith("\\c@"):
                    self.counters.aliases[name[2:]] = macro.body[3:]
            elif not macro.arguments and name[3:] and len(macro.body) <= LONGEST_FORMAT:
                before = self.counters.formats.get(name[3:], "")
                self.counters.formats[name[3:]] = macro.body.replace(f"\\{name}", before)[: 2 * LONGEST_FORMAT]

    # ------------------------------------------------------------ environments

    def begin(self, name: str, text: str, begin: int, at: int, depth: int) -> int:
        if name in VERBATIM:
            close = end_of(name).search(text, at)
            return close.end() if close else at
        bare = name.removesuffix("*")
        if bare in _ONE_ROW or bare in _ROWS:
            counter = "equation" if bare == name and name != "displaymath" else ""
            return self.rows(text, at, end_of(name), counter, several=bare in _ROWS)
        before = self.current
        if len(self.scopes) < _DEPTH:
            self.scopes.append(_Scope(name, self.current, len(self.lists)))
        counter = self.theorems.get(name, "")
        if name in ("restatable", "restatable*"):
            _, after = read_optional(text, at) or ("", at)
            inner = read_argument(text, after, SHORT)
            counter = self.theorems.get(inner[0].strip(), "") if inner else ""
        number = ""
        if counter:
            number = self.refer(counter)
        elif name == "subequations":
            self.refer("equation")
            self.counters.values["parentequation"] = self.counters.values["equation"]
            self.scopes[-1:] = [_Scope(self.counters.formats["equation"], before, -1)]
            self.counters.formats["equation"] = self.current.replace("\\", "") + r"\alph{equation}"
            self.counters.set("equation", 0)
        elif bare in FLOATS:
            self.counters.set("part of a float", 0)
            self.float_has_number = False
        elif name == "sidecaption":  # of memoir: \\begin{sidecaption}{text}[label]
            _, end = read_optional(text, at) or ("", at)
            words = read_argument(text, end)
            self.caption("")
            self.label((read_optional(text, words[1]) or ("",))[0] if words else "")
        elif name in self.list_kinds:
            at = self.open_list(name, text, at)
        elif name in ("appendices", "subappendices"):
            self.matter("appendix", text, at)
        elif (opening := self.openings.get(name)) and depth < 5 and len(opening.text) < 2 * SHORT:
            referred = self.referred
            self.scan(opening.text, depth + 1)
            number = self.current if self.referred > referred else ""
            if text is self.text and "\\" in opening.text:
                number = self.read_computed(opening.text, begin, number)
        if text is self.text:
            if number:
                self.numbers.places[begin] = number
            for label in self.options.get(begin, ()):
                self.label(label)
        return at

    def read_computed(self, opening: str, begin: int, number: str) -> str:
        r"""The number that an opening prints, which may be longer than its counter: `\thechapter.\arabic{drill}`.

        Which label it refers to, and which it sets, is noted where counters make them.
        """
        for label in _COMPUTED_LABEL.finditer(opening):
            self.numbers.labelled.setdefault(self.counters.show(label[1]), begin)
        if reference := COMPUTED_REFERENCE.search(opening):
            self.numbers.referred[begin] = self.counters.show(reference[1])
        for printed in _PRINTED.finditer(COMPUTED_REFERENCE.sub("", _COMPUTED_LABEL.sub("", opening))):
            last = printed[1] or printed[2]
            if number and self.stepped in (last, *_NAME.findall(self.counters.formats.get(last, ""))):
                longer = self.counters.show(printed[0])
                return longer if longer.endswith(f".{number}") else number
        return number

    def end(self, name: str, at: int) -> int:
        if name == "subequations":
            for place in range(len(self.scopes) - 1, -1, -1):
                form, current, lists = self.scopes[place]
                if lists < 0:
                    del self.scopes[place:]
                    self.counters.formats["equation"], self.current = form, current
                    self.counters.set("equation", self.counters.values.get("parentequation", 0))
                    break
            return at
        place = next((n for n in range(len(self.scopes) - 1, -1, -1) if self.scopes[n].environment == name), -1)
        if place >= 0 and name != "document":
            scope = self.scopes[place]
            self.current = scope.current
            del self.scopes[place:]
            del self.lists[scope.lists :]
        return at

    def rows(self, text: str, at: int, close: re.Pattern[str], counter: str, *, several: bool = False) -> int:
        """Number the rows of a displayed formula; `counter` is empty where only a tag gives a number."""
        end = close.search(text, at, at + _LONGEST_DISPLAY)
        if end is None:
            return at
        labels: list[str] = []
        tag: str | None = None
        is_numbered = bool(counter)
        braces = environments = 0

        def finish() -> None:
            nonlocal tag, is_numbered
            number = tag
            if tag is None and is_numbered:
                self.counters.step(counter)
                number = self.counters.printed(counter)
            for label in labels:
                self.label(label, number or "")
            labels.clear()
            tag, is_numbered = None, bool(counter)

        for token in _ROW.finditer(text, at, end.start()):
            which, _, label, tagged, unnumbered, row, brace = token.groups()
            if brace:
                braces += 1 if brace == "{" else -1
            elif which:
                environments += 1 if which == "begin" else -1
            elif label is not None:
                labels.append(label)
            elif tagged:
                argument = read_argument(text, token.end(), SHORT)
                tag = plain(argument[0]) if argument else ""
            elif unnumbered:
                is_numbered = False
            elif row and several and braces <= 0 and environments <= 0:
                finish()
        finish()
        return end.end()

    # ------------------------------------------------------------ lists

    def open_list(self, name: str, text: str, at: int) -> int:
        options, end = read_optional(text, at) or ("", at)
        level = len(self.lists)
        if self.list_kinds[name] != "enumerate" or level >= len(_ENUMERATION):
            return end
        counter = _ENUMERATION[level]
        self.lists.append(counter)
        keys = _options(options)
        if "resume" not in keys and "resume*" not in keys:
            start = self.counters.value(keys.get("start", "1"))
            self.counters.set(counter, (1 if start is None else start) - 1)
        form = keys.get("ref") or keys.get("label") or ""
        if not form and options and "=" not in options and (short := _SHORT_LABEL.search(options)):
            style = f"\\{_SHORT_STYLES[short[0]]}*"
            whole = options[: short.start()] + style + options[short.end() :]
            form = whole if self.short_labels else style
        defaults = ((name, level + 1), (name, 0), ("enumerate", level + 1), ("enumerate", 0), ("", level + 1), ("", 0))
        if not form:
            form = next((self.list_formats[key] for key in defaults if key in self.list_formats), "")
        own = form.replace("*", f"{{{counter}}}") if form else ""
        standard = (rf"\arabic{{{counter}}}", rf"\alph{{{counter}}}", rf"\roman{{{counter}}}", rf"\Alph{{{counter}}}")
        self.counters.formats[counter] = own or self.counters.formats.get(f"{counter} of the paper", standard[level])
        self.item_prefix = "" if own and not (options and "=" not in options and not self.short_labels) else None
        return end

    def item(self, text: str, at: int) -> int:
        if self.lists and not text.startswith("[", skip_blanks(text, at)):
            counter = self.lists[-1]
            self.refer(counter, self.prefix(counter))
        return at

    def prefix(self, counter: str) -> str:
        """What stands in front of the number of an item in a reference: the numbers of the items around it."""
        if self.item_prefix is not None or counter == "enumi":
            return ""
        outer = [self.counters.printed(name) for name in _ENUMERATION[: _ENUMERATION.index(counter)]]
        return outer[0] + "".join(f"({number})" if place == 1 else number for place, number in enumerate(outer[1:], 1))

    item_prefix: str | None = None

    # ------------------------------------------------------------ sections, floats, footnotes

    def section(self, command: str, starred: bool, begin: int, at: int, *, is_main: bool) -> int:
        level = LEVELS[command] + (command == "part" and self.counters.top == "section")
        is_numbered = level <= self.counters.values.get("secnumdepth", 3) and (self.in_main or level > 0)
        if not starred and is_numbered:
            number = self.refer(command)
            if is_main:
                self.numbers.places[begin] = number
        return at

    def float(self) -> str:
        """The counter of the float around a place; empty outside of floats."""
        around = (scope.environment.removesuffix("*") for scope in reversed(self.scopes))
        return next((FLOATS[name] for name in around if name in FLOATS), "")

    def caption(self, kind: str) -> None:
        kind = kind or self.float()
        if any(scope.environment in _INNER_FLOATS for scope in self.scopes[-3:]):
            self.inner_figure()
        elif kind:
            if kind not in self.counters.values:
                self.counters.new(kind)
            self.refer(kind)
            self.float_has_number = True

    def inner_figure(self) -> None:
        """Number a part of a figure, whose own number may come after it."""
        if kind := self.float():
            counters = self.counters
            counters.step("part of a float")
            part = letter(counters.values["part of a float"])
            counters.set(kind, counters.values.get(kind, 0) + (not self.float_has_number))
            self.current = counters.printed(kind) + (f"({part})" if "subfigure" in self.packages else part)
            counters.set(kind, counters.values[kind] - (not self.float_has_number))

    float_has_number = False

    def footnote(self, text: str, at: int) -> None:
        if text.startswith("[", at):
            return
        self.counters.step("footnote")
        argument = read_argument(text, at) if text is self.text else None
        if argument and "\\label" in argument[0]:
            self.footnotes.append((argument[1], self.current))
            self.current = self.counters.printed("footnote")

    def matter(self, command: str, text: str, at: int) -> int:
        counters = self.counters
        if command == "appendix":
            for name in (counters.top, SECTIONS[SECTIONS.index(counters.top) + 1]):
                counters.set(name, 0)
            counters.formats[counters.top] = rf"\Alph{{{counters.top}}}"
        elif command == "newlist":
            new_list = read_argument(text, at, SHORT)
            kind = read_argument(text, new_list[1], SHORT) if new_list else None
            if new_list and kind:
                self.list_kinds[new_list[0].strip()] = "enumerate" if kind[0].startswith("enumerate") else "list"
                return kind[1]
        elif command == "setlist":
            names, at = read_optional(text, text.startswith("*", at) + at) or ("", at)
            keys = read_argument(text, at, SHORT)
            if keys:
                self.set_list(names, _options(keys[0]))
                return keys[1]
        elif command.endswith("secnumdepth"):
            argument = read_argument(text, at, SHORT)
            depth = {**LEVELS, "none": -10, "all": 5}.get(argument[0].strip()) if argument else None
            if depth is not None:
                counters.set("secnumdepth", depth)
                self.greatest_depth = depth if command.startswith("max") else self.greatest_depth
        else:
            self.in_main = command == "mainmatter"
            if self.document_class == "memoir":
                counters.set("secnumdepth", self.greatest_depth if self.in_main else -10)
        return at

    def set_list(self, names: str, keys: Mapping[str, str]) -> None:
        form = keys.get("ref") or keys.get("label")
        if form:
            parts = [part.strip() for part in names.split(",")]
            levels = [int(part) for part in parts if part.isdigit()] or [0]
            lists = [part for part in parts if part and not part.isdigit()] or [""]
            self.list_formats.update({(name, level): form for name in lists for level in levels})

    # ------------------------------------------------------------ counters and declarations

    def call(self, name: str, text: str, at: int, depth: int) -> int:
        """Follow a macro that declares theorems or moves counters; the text after it stays as it is."""
        macro = self.callable[name]
        values, _ = read_call(macro, text, at) or ((), at)
        known = [value if "\\" not in value else "" for value in values]  # what they hold is read in the text
        self.scan(fill(macro.body, known), depth + 1)
        return at

    def count(self, command: str, only: bool, text: str, at: int) -> int:
        first = read_argument(text, at, SHORT)
        if first is None:
            return at
        name, at = first[0].strip(), first[1]
        counters = self.counters
        if command.endswith("stepcounter"):
            if command == "refstepcounter":
                self.refer(name)
            else:
                counters.step(name)
            return at
        if command == "newcounter":
            outer, at = read_optional(text, at) or ("", at)
            counters.new(name, outer.strip())
            return at
        if command.startswith("counterwith") and (form := read_optional(text, at)):
            at = form[1]
        second = read_argument(text, at, SHORT)
        if second is None:
            return at
        if command == "newaliascnt":
            counters.aliases[name] = second[0].strip()
            counters.formats[name] = rf"\the{second[0].strip()}"
        elif command in ("setcounter", "addtocounter"):
            value = counters.value(second[0])
            if value is not None:
                counters.set(name, value + (counters.values.get(counters.name(name), 0) if command[0] == "a" else 0))
        elif command in ("counterwithout", "@removefromreset"):
            counters.free(name, second[0].strip(), prints=not only and command[0] != "@")
        else:
            counters.number_within(name, second[0].strip(), prints=not only and command[0] != "@")
        return second[1]

    def declare(self, command: str, unnumbered: bool, text: str, at: int) -> int:
        options, at = read_optional(text, at) or ("", at)
        names = read_argument(text, at, SHORT)
        if names is None:
            return at
        environments, at = [name.strip() for name in names[0].split(",") if name.strip()], names[1]
        if unnumbered or command == "newproof":
            self.theorems.update(dict.fromkeys(environments, ""))
            return at
        after, at = read_optional(text, at) or ("", at)
        shared = outer = ""
        if command == "declaretheorem" or "tc" in command.lower():
            keys = _options(f"{options},{after}" if command == "declaretheorem" else options)
            if "unnumbered" in keys or keys.get("numbered") == "no":
                self.theorems.update(dict.fromkeys(environments, ""))
                return at
            shared = next((keys[key] for key in _LIKE if key in keys), "")
            outer = next((keys[key] for key in _WITHIN if key in keys), "")
            if "olorbox" in command.lower() and not (shared or "auto counter" in keys):
                return at
            shared = self.theorems.get(shared) or shared
        else:
            shared = self.theorems.get(after.strip()) or after.strip()
            caption = read_argument(text, at, SHORT)
            if caption:
                outer, at = read_optional(text, caption[1]) or ("", caption[1])
        for environment in environments:
            if shared:
                self.theorems[environment] = shared
                self.counters.values.setdefault(self.counters.name(shared), 0)
                self.counters.formats.setdefault(environment, rf"\the{shared}")
            else:
                self.theorems[environment] = environment
                self.counters.new(environment)
                if outer.strip():
                    self.counters.number_within(environment, outer.strip())
        return at


def read_numbers(
    text: str,
    body: int,
    definitions: Definitions,
    openings: Mapping[str, Opening],
    labels: Iterable[tuple[int, str]] = (),
) -> Numbers:
    r"""The numbers of a paper whose text begins at `body`; `labels` are those of its structure, with their offsets."""
    return _Reader(text, body, definitions, openings, labels).run()


# ---------------------------------------------------------------- what LaTeX wrote itself

_NEW_LABEL = re.compile(r"\\newlabel\s*\{([^{}]*)\}\s*\{(?=\{)")
_INCLUDED = re.compile(r"\\@input\s*\{([^{}]*)\}")
_MOST_FILES = 200


def read_aux(read: Callable[[str], str | None], path: str) -> dict[str, str]:
    r"""The numbers of the labels in an `.aux` file and in those that it includes; empty where there is none."""
    numbers: dict[str, str] = {}
    waiting, seen = [path], {path}
    while waiting and len(seen) < _MOST_FILES:
        text = read(waiting.pop()) or ""
        for entry in _NEW_LABEL.finditer(text):
            argument = read_argument(text, entry.end(), SHORT)
            name = entry[1]
            if argument and argument[0].startswith("\\M@TitleReference"):  # memoir
                argument = read_argument(argument[0], len("\\M@TitleReference"), SHORT)
            if argument and not name.endswith("@cref") and (number := plain(argument[0]).strip()):
                numbers.setdefault(name, number)
        waiting += (other for other in _INCLUDED.findall(text) if other not in seen)
        seen.update(waiting)
    return numbers
