r"""LaTeX to text for people and encoders: formulas between single dollars, no formatting, references listed apart.

The text has no references, since an encoder would learn to read the answer from them; a reader gets it with the name
of what each `\ref` and `\cite` leads to (`Cleaned.shown`). Items of lists and displayed formulas stand on lines of
their own, those of lists inside lists indented.

The macros of the paper must be expanded before (`lemmata.latex.expand`). Unknown commands are dropped and the text
of their arguments is kept; cleaning never fails.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache

from lemmata.latex import command_table as table
from lemmata.latex import marks
from lemmata.latex.cleaned import Cleaned, Target
from lemmata.latex.formulas import balance, escape_literal, separate_words, write_quantities
from lemmata.latex.lists import Lists
from lemmata.latex.reference_names import (
    follows_reference,
    kind_is_written,
    list_names,
    mark_key,
    name_citation,
    name_references,
    plain_label,
    read_keys,
)
from lemmata.latex.source import VERBATIM, end_of, match_brace, match_bracket, match_dollar, skip
from lemmata.latex.units import QUANTITY, quantity_in_text, read_quantity

_ACCENTED = re.compile(r"\s*(?:\{\s*(?:\\([ij])\b|(\w)(\w?))\s*\}|\\([ij])(?![a-zA-Z])\s?|(\w))")
# The ordinary characters before a token are part of the match: scanning a set is faster than trying alternatives.
# So are formulas that stay as they are: braces two deep at most, no blanks at the ends, commands that `formula` keeps.
_ORDINARY = r"[^\\$~&{}`'\-]*+"
_KEPT = rf"(?!{QUANTITY.pattern})\\(?!eqref|[cC]?ref|autoref|cite|label|no|protect|relax)[a-zA-Z]++"
_IN_FORMULA = rf"[^\\$\n{{}}]*+(?:{_KEPT}[^\\$\n{{}}]*+)*+"
_IN_GROUP = rf"{_IN_FORMULA}(?:\{{{_IN_FORMULA}\}}{_IN_FORMULA})*+"
_KEPT_FORMULA = rf"\$(?!\s){_IN_FORMULA}(?:\{{{_IN_GROUP}\}}{_IN_FORMULA})*+(?<![\s$])\$"
_TOKEN = re.compile(
    rf"(?P<text>{_ORDINARY}(?:(?:-(?!-)|'(?!')|{_KEPT_FORMULA}){_ORDINARY})*+)"
    r"(?:(?P<math>\$(?!\$)(?:[^$\\]|\\.)*+\$)"
    r"|\\(?P<word>[a-zA-Z@]+)(?P<star>\*?)"
    r"|\\(?P<symbol>.)"
    r"|(?P<display>\$\$)"
    r"|(?P<other>[{}~&$]|``|''|---?|[`\\]))",
    re.DOTALL,
)
_NAME = re.compile(r"\s*\{([^{}\n]*)\}")
_GLOSSARY_KEY = re.compile(r"\s*\([^()\n]{0,200}\)(?=\s*\{)")
_SPACE = re.compile(r"[ \t]*(?:\n[ \t]*(?!\n))?")
_TRIMMED = re.compile(r"(\\\\)|\\(?:label\s*\{[^{}]*\}|(?:nonumber|notag|protect|relax)(?![a-zA-Z]))\s*")
_INNER = re.compile(r"(\\\\)|\\(eqref|ref|[cC]ref|autoref|cite[tp]?)\s*(?:\[[^\]]{0,200}\])?\s*\{([^{}]*)\}")
_TITLE_OF_BOX = re.compile(r"(?:^|,)\s*(?:frame)?(?:title|caption)\s*=\s*")
_PICTURE = re.compile(r"\\(?:includegraphics|label|[vh]space)\*?\s*(?:\[[^\]]*\]\s*)?\{[^{}]*\}|\\[a-zA-Z@]+")
_LONGEST_PICTURE = 300  # characters of a note that is nothing else
_DEPTH = 20  # of arguments that are cleaned separately
_BREAK = re.compile(r"\n[ \t]*\n")
_PUNCTUATION = re.compile(r" ?[.,;:!?](?=\s|$)")
_DEEPEST_LIST = 50
_DEEPEST_INDENT = 8
_OVERLAY = re.compile(r"<[\d+\-,.|@:a-z ]{1,40}>")  # of beamer: \item<2->
_LONGEST_INLINE_DRAWING = 2_000  # characters
_END_OF_DRAWING = re.compile(r"[{};]")


@cache
def _literally(token: str) -> re.Pattern[str]:
    return re.compile(re.escape(token))


class _Cleaner:
    def __init__(self, text: str, find: Callable[[str], Target | None], lists: Lists, depth: int = 0) -> None:
        self.text = text
        self.find_target = find
        self.kind_written = False  # before the last reference; it counts for the rest of its list too
        self.depth = depth
        self.output: list[str] = []
        self.references: list[tuple[str, str]] = []
        self.named: list[tuple[int, int]] = []  # for each name in the output, the references that it stands for
        self.closers: list[str] = []  # the output at the end of each open group
        self.lists = lists
        self.tables = 0  # that are open
        self.blocks: set[str] = set()  # environments that had a title
        self.failures_left = 50  # groups that never close: each costs a search to the end
        self.unclosed: set[re.Pattern[str]] = set()  # closing tokens that do not occur any more

    def formula(self, content: str, space: str = "", end: str = "") -> None:
        """A formula with blanks around it; `end` is the punctuation after it."""
        if "\\" in content:
            if "ref" in content or "cite" in content:
                content = _INNER.sub(self.inner_reference, content)
            if "\\label" in content or "\\no" in content or "\\protect" in content or "\\relax" in content:
                content = _TRIMMED.sub(r"\1", content)
            if "$" in content:
                content = separate_words(content)
            if QUANTITY.search(content):
                content = write_quantities(content)
        first = last = ""  # references at the ends of the formula
        if marks.INNER_OPEN in content:
            if leading := marks.LEADING_MARKS.match(content):
                first, content = "".join(marks.INNER_MARK.findall(leading[0])), content[leading.end() :]
            while (content := content.rstrip()).endswith(marks.CLOSE):
                at = content.rindex(marks.INNER_OPEN)
                content, last = content[:at], content[at:] + last
        content = content.strip()
        if content.endswith("\\") and (len(content) - len(content.rstrip("\\"))) % 2:
            content = content[:-1].rstrip()  # the backslash would escape the dollar
        if content and not (first or last):
            self.output.append(f"{space}${content}${end}{space}")
        elif content:
            first, last = (
                first.replace(marks.CLOSE, " " + marks.CLOSE),
                last.replace(marks.INNER_OPEN, marks.INNER_OPEN + " "),
            )
            self.output += (space, "$", first, content, last, "$", end, space)
        elif first or last:
            self.output.append(re.sub(r"\\text\{([^{}]*)\}", r"\1", first + last).replace("\\", "") + end)

    def inner_reference(self, reference: re.Match[str]) -> str:
        r"""The mark of a reference inside a formula; `\text` is right inside and outside of `\text`."""
        escape, command, keys = reference.groups()
        if escape:
            return str(escape)
        family = "cite" if command.startswith("cite") else "ref"
        before = len(self.references)
        self.refer(family, keys)
        names = []
        for key in read_keys(keys):
            target = self.find_target(key) if family == "ref" else None
            shown = plain_label(target.number if target and target.number else key)
            names.append(mark_key(key, re.sub(r"([_#%&])", r"\\\1", shown)))
        name = list_names(names)
        if family == "cite":
            name = f"[{name}]"
        elif command == "eqref":
            name = f"({name})"
        if not name:
            return ""
        self.named.append((before, len(self.references)))
        return f"{marks.INNER_OPEN}{marks.NAMED}\\text{{{name}}}{marks.CLOSE}"

    def refer(self, family: str, keys: str) -> None:
        self.references += ((family, key) for key in read_keys(keys))

    def name(self, command: str, keys: Sequence[str], last: str = " and ") -> str:
        """What a reader sees in the place of a reference."""
        before = "".join(self.output[-6:])[-80:]
        targets = [self.find_target(key) or Target("") for key in keys]
        if not follows_reference(before):
            self.kind_written = kind_is_written(before, {target.kind for target in targets})
        return name_references(command, keys, targets, before, self.kind_written, last)

    def find(self, pattern: re.Pattern[str], at: int) -> tuple[int, int] | None:
        """Span of the next match of a closing token."""
        match = None if pattern in self.unclosed else pattern.search(self.text, at)
        if match is None:
            self.unclosed.add(pattern)
        return match.span() if match else None

    def skip_space(self, at: int) -> int:
        return skip(_SPACE, self.text, at) if self.text[at : at + 1] in " \t\n" else at

    def bracket(self, at: int) -> tuple[int, int] | None:
        """Offsets of the content of the bracketed group after `at`."""
        begin = self.skip_space(at)
        end = match_bracket(self.text, begin) if self.text[begin : begin + 1] == "[" else -1
        return (begin + 1, end - 1) if end > 0 else None

    def group(self, at: int) -> tuple[int, int] | None:
        """Offsets of the content of the braced group after `at`."""
        begin = self.skip_space(at)
        if self.text[begin : begin + 1] != "{" or not self.failures_left:
            return None
        end = match_brace(self.text, begin)
        if end < 0:
            self.failures_left -= 1
            return None
        return begin + 1, end - 1

    def skip_arguments(self, at: int, brackets: int = 0, groups: int = 0) -> int:
        """Offset after at most so many bracketed groups and then braced groups."""
        for read, count in ((self.bracket, brackets), (self.group, groups)):
            for _ in range(count):
                if (span := read(at)) is None:
                    break
                at = span[1] + 1
        return at

    def run(self) -> None:
        text, output = self.text, self.output
        position = 0
        while token := _TOKEN.match(text, position):
            begin, end = token.end("text"), token.end()
            if begin > position:
                output.append(text[position:begin])
            kind = token.lastgroup
            if kind == "math":
                position = self.inline(begin, end)
            elif kind == "other":
                self.punctuation(token["other"])
                position = end
            elif kind == "symbol":
                position = self.symbol(token["symbol"], end)
            elif kind == "display":
                position = self.display("$$", end, marks.LINE)
            else:
                position = self.word(token["word"], begin, end)
        output.append(text[position:])

    def display(self, closing: str, at: int, space: str) -> int:
        """A formula from `at` to the `closing` token; returns the offset after it, `at` where it never closes."""
        close = self.find(_literally(closing), at)
        if close is None:
            return at
        end = skip(_PUNCTUATION, self.text, close[1]) if space else close[1]
        self.formula(balance(self.text[at : close[0]]), space, self.text[close[1] : end].strip())
        return end

    def inline(self, begin: int, end: int) -> int:
        r"""A formula between dollars; with dollars inside `\text` it ends at the dollar outside all braces."""
        text = self.text
        content = text[begin + 1 : end - 1]
        if "\n" in content:  # no formula contains an empty line: the dollar was a stray one
            return begin + 1
        if self.failures_left and content.count("{") > content.count("}"):
            longer = match_dollar(text, begin)
            self.failures_left -= longer < 0
            end = max(end, longer)
            content = text[begin + 1 : end - 1]
        self.formula(content)
        return end

    def punctuation(self, mark: str) -> None:
        if mark == "{":
            self.closers.append("")
        elif mark == "}":
            if self.closers:
                self.output.append(self.closers.pop())
        elif mark in "~&":
            self.output.append(" ")
        elif mark != "$":
            self.output.append(table.TYPOGRAPHY.get(mark, mark))

    def symbol(self, character: str, end: int) -> int:
        if character == "(":
            return self.display("\\)", end, "")
        if character == "[":
            return self.display("\\]", end, marks.LINE)
        if character == "\\":
            self.output.append(marks.LINE if self.tables else " ")
            return self.skip_arguments(end + (self.text[end : end + 1] == "*"), brackets=1)
        if character in table.ACCENTS:
            return self.accent(character, end)
        if character in table.SPACES:
            self.output.append(" ")
        elif character in "%#_&{}":
            self.output.append(character)
        elif character == "$":
            self.output.append("\\$")  # a bare dollar would open a formula
        return end

    def accent(self, mark: str, end: int) -> int:
        letter = _ACCENTED.match(self.text, end)
        if letter is None:
            return end
        base = letter[1] or letter[2] or letter[4] or letter[5]
        self.output.append(unicodedata.normalize("NFC", base + table.ACCENTS[mark]) + (letter[3] or ""))
        return letter.end()

    def word(self, name: str, begin: int, end: int) -> int:
        """Handle the command `name`; returns the offset after it and after what belongs to it."""
        text = self.text
        if text[end : end + 1] == "<":
            end = skip(_OVERLAY, text, end)
        if name in table.REFERENCE or name in table.CITATION:
            return self.link(name, end)
        if name in table.PLAIN_TEX or "=" in text[end : end + 2]:
            pattern = table.PLAIN_TEX.get(name, table.ASSIGNED)
            if assigned := pattern.match(text, end):
                return self.swallow(assigned.end())
        count = table.DROPPED.get(name)
        if name == "glossary" and (key := _GLOSSARY_KEY.match(text, end)):  # of memoir: (key){term}{meaning}
            return self.swallow(self.skip_arguments(key.end(), groups=2))
        if name == "raisebox":  # {height}[above][below]{text}
            return self.skip_arguments(self.skip_arguments(end, groups=1), 2)
        if name == "titleformat":  # {command}[shape]{format}{label}{sep}{before}[after]
            end = self.skip_arguments(end, groups=1)
            return self.skip_arguments(self.skip_arguments(end, 1, 4), 1)
        if count is not None:
            return self.swallow(self.skip_arguments(end, 2 if count or name in table.WITH_OPTION else 0, count))
        if name in ("begin", "end"):
            named = _NAME.match(text, end)
            return self.environment(name, named[1].strip(), begin, named.end()) if named else end
        if name in table.SYMBOLS:
            self.output.append(table.SYMBOLS[name])
            return self.skip_space(end) if text[end : end + 1] in (" ", "\t") else end
        if name in table.ACCENTS:
            return self.accent(name, end)
        if name == "item":
            return self.item(end)
        if name in table.NOTES:
            return self.foot_note(end)
        if name in table.HEADINGS:
            return self.wrap(end, "\n\n", "\n\n" if name != "paragraph" else " ")
        if name in ("verb", "lstinline"):
            return self.verbatim(end)
        if name == "mintinline":
            return self.verbatim(self.skip_arguments(end, 1, 1))
        if name == "tikz":
            return self.inline_drawing(end)
        if name in ("url", "path", "ensuremath"):
            group = self.group(end)
            if group is None:
                return end
            if name == "ensuremath":
                self.formula(balance(text[slice(*group)]))
            else:
                self.output.append(escape_literal(text[slice(*group)]))
            return group[1] + 1
        if (command := QUANTITY.match(text, begin)) and (quantity := read_quantity(name, text, command.end())):
            self.output.append(quantity_in_text(*quantity[:2]))
            return quantity[2]
        if name in table.SKIPS_FIRST:
            return self.skip_arguments(end, 2, 2 if name in table.SKIPS_TWO else 1)
        if name in table.SKIPS_SECOND:
            return self.skip_second(name, end)
        # _unknown: the text of its braced arguments stays
        return self.swallow(self.skip_arguments(end, text[end : end + 1] == "["))

    def inline_drawing(self, end: int) -> int:
        r"""Skip `\tikz[...]{...}` or `\tikz[...] ...;`."""
        end = self.skip_arguments(end, brackets=1)
        if group := self.group(end):
            return group[1] + 1
        depth = 0
        for mark in _END_OF_DRAWING.finditer(self.text, end, end + _LONGEST_INLINE_DRAWING):
            depth += (mark[0] == "{") - (mark[0] == "}")
            if mark[0] == ";" and depth <= 0:
                return mark.end()
        return end

    def foot_note(self, end: int) -> int:
        """A note in brackets; one that holds nothing but a picture is left out."""
        begin = self.skip_arguments(end, brackets=1)
        close = match_brace(self.text, begin, begin + _LONGEST_PICTURE) if self.text[begin : begin + 1] == "{" else -1
        if close > 0 and not re.search(r"\w", _PICTURE.sub("", self.text[begin:close])):
            return close
        return self.wrap(end, " (", ")")

    def wrap(self, end: int, before: str, after: str) -> int:
        """Put texts before and after the argument of a command."""
        at = self.skip_arguments(end, brackets=1)
        if self.text[at : at + 1] != "{":
            return at
        self.output.append(before)
        self.closers.append(after)
        return at + 1

    def splice(self, inner: tuple[int, int], resume: int) -> int:
        """Clean a group separately and continue at `resume`; a group that is too deep is cleaned in place."""
        if self.depth == _DEPTH:
            return inner[0]
        part = _Cleaner(self.text[slice(*inner)], self.find_target, Lists(self.lists.styles), self.depth + 1)
        part.failures_left = min(10, self.failures_left) if part.depth < _DEPTH else 0
        part.run()
        self.output += part.output
        before = len(self.references)
        self.named += ((before + first, before + last) for first, last in part.named)
        self.references += part.references
        return resume

    def swallow(self, at: int) -> int:
        """TeX ignores blanks after a control word, but words must not be joined."""
        if self.text[at : at + 1] in (" ", "\t") and self.output and self.output[-1][-1:].isspace():
            return at + 1
        return at

    def link(self, name: str, end: int) -> int:
        if self.text[end : end + 1] == "*":
            end += 1
        family = "cite" if name in table.CITATION else "ref"
        if name == "hyperref":  # the text of \hyperref[label]{text} stays
            label = self.bracket(end)
            if label is None:
                return self.skip_arguments(end, groups=3)
            self.refer("ref", self.text[slice(*label)])
            return label[1] + 1
        start = end
        notes: list[str] = []
        while len(notes) < 2 and (note := self.bracket(end)) is not None:
            notes.append(self.note(note) if family == "cite" else "")
            end = note[1] + 1
        group = self.group(end)
        if group is None:
            return start
        keys = self.text[slice(*group)]
        before = len(self.references)
        self.refer(family, keys)
        names = read_keys(keys)
        at = group[1] + 1
        if name in ("crefrange", "Crefrange") and (last := self.group(at)) is not None:
            self.refer(family, self.text[slice(*last)])
            names += read_keys(self.text[slice(*last)])
            at = last[1] + 1
        elif family == "cite" and self.text[at : at + 2] == "*{" and (place := self.group(at + 1)) is not None:
            notes.append(self.note(place))  # of amsrefs
            at = place[1] + 1
        shown = ""
        if family == "cite":
            shown = name_citation(notes, names, "".join(self.output[-3:])) if name != "nocite" else ""
        elif names:
            shown = self.name(name, names, " to " if "range" in name else " and ")
        if shown:
            self.named.append((before, len(self.references)))
            shown = marks.NAMED + shown
            if self.output and self.output[-1].endswith(marks.CLOSE):
                shown = " " + shown  # \ref{a}\ref{b}: two names, not one word
        self.output.append(f"{marks.OPEN}{shown}{marks.CLOSE}")
        return at

    def note(self, span: tuple[int, int]) -> str:
        """The text of a note inside a citation."""
        if self.depth == _DEPTH:
            return ""
        part = _Cleaner(self.text[slice(*span)], self.find_target, Lists(), _DEPTH)
        part.failures_left = 0
        part.run()
        text = marks.KEY_MARKS.sub(r"\2", "".join(part.output))
        return " ".join(marks.ALL_MARKS.sub("", text).replace(marks.NAMED, "").split())

    def skip_second(self, name: str, end: int) -> int:
        first = self.group(end)
        second = self.group(first[1] + 1) if first else None
        if first is None or second is None:
            return end
        if name == "PMlinkname":
            self.refer("name", self.text[slice(*second)])
        return self.splice(first, second[1] + 1)

    def item(self, end: int) -> int:
        stack = self.lists.stack
        is_inline = bool(stack) and stack[-1].inline
        self.output.append(" " if is_inline else marks.LINE + marks.INDENT * min(len(stack) - 1, _DEEPEST_INDENT))
        if label := self.bracket(end):
            end = self.splice(label, label[1] + 1)
            self.output.append(" ")
        else:
            self.output.append(f"{stack[-1].next_label() if stack else '•'} ")
        return end

    def verbatim(self, end: int) -> int:
        end = self.skip_arguments(end + (self.text[end : end + 1] == "*"), brackets=1)
        fence = self.text[end : end + 1]
        if fence == "{":
            fence = "}"
        close = self.find(_literally(fence), end + 1) if fence.strip() else None
        if close is None:
            return end
        self.output.append(escape_literal(self.text[end + 1 : close[0]]))
        return close[1]

    def environment(self, which: str, name: str, begin: int, end: int) -> int:
        text = self.text
        if which == "end":
            if self.lists.is_list(name) and self.lists.stack:
                self.output.append(" " if self.lists.stack.pop().inline else marks.LINE)
            elif name in table.TABLES:
                self.tables -= self.tables > 0
                self.output.append(marks.LINE)
            else:
                self.output.append("\n\n" if name in self.blocks or name.rstrip("*") in table.BLOCKS else " ")
            return end
        if name in table.MATH or name in VERBATIM or name in table.DROPPED_ENVIRONMENTS:
            close = self.find(end_of(name), end)
            if close is None:
                return end
            if name in table.MATH:
                at = begin if name == "tikzcd" else self.skip_arguments(end, groups=name in table.WITH_ARGUMENT)
                after = skip(_PUNCTUATION, text, close[1])
                content = text[at : close[1] if name == "tikzcd" else close[0]]
                self.formula(balance(content), marks.LINE if name != "math" else " ", text[close[1] : after].strip())
                return after
            if name in VERBATIM:
                self.output.append("\n\n")
                if name not in ("verbatim", "verbatim*", "alltt"):
                    self.title_of_box(end)
                    end = self.skip_arguments(end, 1, name == "minted")
                self.output += (escape_literal(text[end : close[0]]), "\n\n")
            return close[1]
        end = skip(_OVERLAY, text, end)
        if self.lists.is_list(name) and len(self.lists.stack) < _DEEPEST_LIST:
            options = self.bracket(end)
            self.lists.open(name, text[slice(*options)] if options else "")
        if name in table.TABLES:
            self.tables += 1
            self.output.append(marks.LINE)
        self.output.append("\n\n" if name.rstrip("*") in table.BLOCKS else " ")
        for _ in range(table.ARGUMENTS_OF_BEGIN.get(name, 0)):  # brackets may stand between: {r}[0pt]{5cm}
            end = self.skip_arguments(end, 2, 1)
        if self.title_of_box(end):
            self.blocks.add(name)
        if name == "sidecaption" and (caption := self.group(end)):  # {caption}[label]
            return self.splice(caption, self.skip_arguments(caption[1] + 1, brackets=1))
        return self.skip_arguments(end, 2)

    def title_of_box(self, end: int) -> bool:
        """Put the title that the options of a box or listing have into a paragraph; False where there is none."""
        options = self.bracket(end)
        title = (
            _TITLE_OF_BOX.search(self.text[slice(*options)]) if options and "=" in self.text[end : options[1]] else None
        )
        if not options or not title:
            return False
        begin = options[0] + title.end()
        close = match_brace(self.text, begin, options[1]) if self.text[begin] == "{" else -1
        stop = self.text.find(",", begin, options[1]) if close < 0 else close
        self.output.append("\n\n")
        self.splice((begin, stop if stop >= 0 else options[1]), 0)
        self.output.append("\n\n")
        return True


def clean(
    text: str,
    find: Callable[[str], Target | None] = lambda _label: None,
    separator: str = "\n\n",
    lists: Lists | None = None,
) -> Cleaned:
    """The text of a piece of LaTeX, with `separator` between its paragraphs.

    `find` says what a label leads to, None where it is not known. `lists` are those around the text, and are brought
    up to date for the text after it.
    """
    if not text or text.isspace():  # as most notes are
        return Cleaned("", [])
    # Only the empty lines of the author separate paragraphs, not those that dropped commands leave.
    text = marks.OWN_CHARACTERS.sub("", text)
    if "erbatim" in text or "lstlisting" in text or "minted" in text or "alltt" in text:
        text = marks.mark_code(text)
    text = "\n\n".join(part.replace("\n", " ") for part in _BREAK.split(text))
    cleaner = _Cleaner(text, find, Lists() if lists is None else lists)
    cleaner.run()
    settled, insertions = marks.settle("".join(cleaner.output), separator)
    places = marks.place_references(cleaner.named, len(cleaner.references), insertions, len(settled))
    shown = [(offset, name.replace(marks.NAMED, "")) for offset, name in insertions]
    return Cleaned(settled, cleaner.references, shown or (), places)


def plain(text: str) -> str:
    """The text of a title, a name or a note, on one line."""
    return " ".join(clean(text).text.split())
