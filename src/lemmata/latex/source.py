r"""From the files of a project to one text in which every character still knows its file and line.

Decoding, `\input` and its relatives, comments and conditionals.
Knows neither disk nor archives: files come in through a callable, so nothing outside can be read.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

__all__ = [
    "SHORT",
    "VERBATIM",
    "Flat",
    "SourceLimits",
    "decode",
    "flatten",
    "match_brace",
    "match_bracket",
    "match_dollar",
    "read_argument",
]

VERBATIM = frozenset(
    "verbatim verbatim* Verbatim Verbatim* BVerbatim LVerbatim lstlisting minted alltt semiverbatim".split()
)

# ---------------------------------------------------------------- bytes to text

_INPUTENC = re.compile(rb"\\usepackage\s*\[\s*([a-z0-9-]+)\s*\]\s*\{\s*inputenc\s*\}")
_ENCODINGS = {
    "latin1": "latin-1",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin9": "iso8859-15",
    "ansinew": "cp1252",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "koi8-r": "koi8-r",
    "applemac": "mac-roman",
    "macce": "mac-latin2",
}


def decode(data: bytes) -> str:
    """Text of a source file, with line ends as newlines; never fails.

    UTF-8 (or 16, by its mark) where the bytes are that, else what `inputenc` names, else cp1252, and
    Latin-1 for the bytes that cp1252 does not know.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", errors="replace")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            named = _INPUTENC.search(data)
            encoding = _ENCODINGS.get(named[1].decode(), "cp1252") if named else "cp1252"
            try:
                text = data.decode(encoding)
            except UnicodeDecodeError:
                text = data.decode("latin-1")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


# ---------------------------------------------------------------- braces

_BRACE = re.compile(r"[^\\{}]*+(?:\\.[^\\{}]*+)*+(?:(\{)|\})", re.DOTALL)
_UNBRACKETED = re.compile(r"[^\\\]{}]*+(?:\\.[^\\\]{}]*+)*+", re.DOTALL)
_DOLLAR = re.compile(r"\\.|[{}$]|\n[ \t]*\n", re.DOTALL)
_BLANK = re.compile(r"[ \t]*(?:\n[ \t]*)?")
# how far the end of an argument is looked for, in characters: no honest one is longer, and hostile text has many
# that never end
_REACH = 100_000
SHORT = 2_000  # of a name, a title, a caption


def match_brace(text: str, start: int, end: int | None = None) -> int:
    """Offset behind the brace that closes the one at `start`; -1 when there is none before `end`, or near."""
    limit = start + _REACH if end is None else end
    if text.find("}", start, limit) < 0:  # the usual case where text is cut off, and much faster than to look closely
        return -1
    depth = 0
    for found in _BRACE.finditer(text, start, limit):
        if found[1]:
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return found.end()
    return -1


def match_bracket(text: str, start: int, reach: int = 4000) -> int:
    """Offset behind the `]` that closes the `[` at `start`, outside braces; -1 when there is none near."""
    limit = min(len(text), start + reach)
    if text.find("]", start, limit) < 0:
        return -1
    at = start + 1
    while at >= 0 and (run := _UNBRACKETED.match(text, at, limit)) and run.end() < limit:
        at = run.end()
        if text[at] == "]":
            return at + 1
        at = match_brace(text, at, limit) if text[at] == "{" else -1
    return -1


def match_dollar(text: str, start: int, reach: int = 20_000) -> int:
    r"""Offset behind the dollar that closes the one at `start`, past those inside braces, as in `\text{$x$}`.

    -1 when there is none near, or only behind an empty line.
    """
    depth = 0
    for found in _DOLLAR.finditer(text, start + 1, min(len(text), start + reach)):
        mark = found[0]
        if mark == "$" and depth <= 0:
            return found.end()
        if mark[0] == "\n":
            return -1
        depth += (mark == "{") - (mark == "}")
    return -1


def read_argument(text: str, start: int, reach: int = _REACH) -> tuple[str, int] | None:
    """The braced group that follows `start` behind optional blanks, and the offset behind it."""
    blank = _BLANK.match(text, start)
    begin = blank.end() if blank else start
    if begin >= len(text) or text[begin] != "{":
        return None
    end = match_brace(text, begin, begin + reach)
    return None if end < 0 else (text[begin + 1 : end - 1], end)


# ---------------------------------------------------------------- one text


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """What a hostile source can not exceed."""

    characters: int = 64_000_000
    files: int = 5_000
    depth: int = 40


@dataclass(frozen=True, slots=True)
class Flat:
    """The text of a project as one string, and the way back from its offsets to files and lines."""

    text: str
    body: int  # offset behind \begin{document}, 0 where there is none
    files: tuple[str, ...]  # in the order of first use
    missing: tuple[tuple[str, int, str], ...]  # file, line, what it wanted to include and why it failed
    starts: Sequence[int]  # ascending: where each segment begins in `text`
    sources: Sequence[tuple[int, int]]  # of each segment: number of the file (its complement: replaced), offset
    texts: Sequence[str]  # of each file, decoded
    lines: list[list[int]] = field(default_factory=list)  # offsets of newlines, filled when asked for

    def place(self, offset: int) -> tuple[str, int]:
        """File and line (from 1) of the character at `offset`."""
        if not self.starts:
            return "", 0
        segment = max(0, bisect_right(self.starts, offset) - 1)
        end = self.starts[segment + 1] if segment + 1 < len(self.starts) else len(self.text)
        number, source = self._origin(segment, min(offset, max(end - 1, self.starts[segment])))
        number = max(number, ~number)
        if not self.lines:
            self.lines.extend([-1] for _ in self.texts)
        breaks = self.lines[number]
        if breaks == [-1]:
            breaks[:] = [found.start() for found in re.finditer("\n", self.texts[number])]
        return self.files[number], bisect_right(breaks, source - 1) + 1

    def _origin(self, segment: int, offset: int) -> tuple[int, int]:
        """Where the character at `offset` comes from, as in `sources`; all of a replacement from one place."""
        number, source = self.sources[segment]
        return (number, source) if number < 0 else (number, source + offset - self.starts[segment])

    def edit(self, edits: Iterable[tuple[int, int, str]]) -> tuple[Flat, Callable[[int], int]]:
        """A copy with spans replaced (ascending, apart), and the map from old offsets to new ones.

        Replaced text has the place at which its span began.
        """
        pieces: list[str] = []
        starts: list[int] = []
        sources: list[tuple[int, int]] = []
        marks: list[int] = [0]
        shifts: list[int] = [0]
        position = length = 0

        def keep(begin: int, end: int) -> None:
            nonlocal length
            if end <= begin:
                return
            segment = max(0, bisect_right(self.starts, begin) - 1)
            while segment < len(self.starts) and self.starts[segment] < end:
                low = max(self.starts[segment], begin)
                starts.append(length + low - begin)
                sources.append(self._origin(segment, low))
                segment += 1
            pieces.append(self.text[begin:end])
            length += end - begin

        for begin, end, replacement in edits:
            keep(position, begin)
            if replacement:
                segment = max(0, bisect_right(self.starts, begin) - 1)
                number, source = self._origin(segment, begin)
                starts.append(length)
                sources.append((min(number, ~number), source))
                pieces.append(replacement)
                length += len(replacement)
            position = end
            marks.append(end)
            shifts.append(length - end)
        keep(position, len(self.text))

        def moved(offset: int) -> int:
            return max(0, offset + shifts[bisect_right(marks, offset) - 1])

        flat = Flat(
            "".join(pieces),
            moved(self.body),
            self.files,
            self.missing,
            starts,
            sources,
            self.texts,
            self.lines,
        )
        return flat, moved


_DOCUMENT = re.compile(r"^[^%\n]*\\begin\s*\{document\}", re.MULTILINE)
_WORDS = (
    "begin end input include subfile subfileinclude import subimport includefrom inputfrom "
    "InputIfFileExists usepackage RequirePackage documentclass LoadClass endinput newif newenvironment "
    "excludecomment iffalse iftrue else fi bye enddocument"
)
# escapes first, so that `\%` is no comment and `\\begin` no environment; all alternatives begin with a backslash,
# which is searched for much faster than this or a percent sign
_TOKENS = (
    r"\\(?:[^a-zA-Z]|(?:url|href|path)\s*\{[^{}\n]*\}"
    r"|(?:verb|lstinline)(?![a-zA-Z])\*?(?:\[[^\]\n]{0,500}\])?(?P<fence>[^\sa-zA-Z{*])[^\n]{0,2000}?(?P=fence)"
    r"|(?P<word>"
)
# the next line's indent belongs to a comment, but a blank line behind it stays a paragraph break
_COMMENT = re.compile(r"%[^\n]*(?:\n[ \t]*+(?!\n))?")
# TeX skips over comments, but not over \verb, when it looks for the end of a conditional
_CONDITIONAL = re.compile(
    r"\\(?:[^a-zA-Z]|newif\s*\\if[a-zA-Z@]*|(?:(if(?!thenelse|f\b|undefined\b)[a-zA-Z@]*)|(else)|(fi))(?![a-zA-Z@]))"
    r"|%[^\n]*",
    re.DOTALL,
)
_NAME = re.compile(r"\s*\{([^{}\n]*)\}")
_PLAIN_NAME = re.compile(r"[ \t]+([^\s{}\\%]+)")


def _pattern(flags: Iterable[str]) -> re.Pattern[str]:
    words = _WORDS.split() + [name for flag in flags for name in ("if" + flag, flag + "true", flag + "false")]
    return re.compile(_TOKENS + "|".join(map(re.escape, words)) + ")(?![a-zA-Z@]))", re.DOTALL)


_PLAIN_PATTERN = _pattern(())
_Branches = dict[int, tuple[tuple[int, int] | None, tuple[int, int]]]


def _match_conditionals(text: str) -> _Branches:
    r"""The spans of the `\else` (None without one) and the `\fi` of every conditional, by its offset."""
    branches: _Branches = {}
    opened: list[tuple[int, tuple[int, int] | None]] = []
    for found in _CONDITIONAL.finditer(text):
        if found[1]:
            opened.append((found.start(), None))
        elif found[2] and opened and opened[-1][1] is None:
            opened[-1] = opened[-1][0], found.span()
        elif found[3] and opened:
            begin, other = opened.pop()
            branches[begin] = other, found.span()
    return branches


class _Flattener:
    """State of one walk over the files of a project."""

    def __init__(self, read: Callable[[str], str | None], main: str, limits: SourceLimits) -> None:
        self.read = read
        self.folder = posixpath.dirname(main)
        self.limits = limits
        self.pieces: list[str] = []
        self.length = 0
        self.starts: list[int] = []
        self.sources: list[tuple[int, int]] = []
        self.files: list[str] = []
        self.texts: list[str] = []
        self.missing: list[tuple[str, int, str]] = []
        self.body = -1
        self.open: list[str] = []  # files being read, outermost first
        self.visits = 0
        self.finished = False
        self.comments = {"comment"}
        self.flags: dict[str, bool] = {}
        self.pattern = _PLAIN_PATTERN
        self.patience = 200  # arguments that never close
        self.conditionals: tuple[str, _Branches] | None = None  # of the file that was asked for last

    def emit(self, number: int, text: str, begin: int, end: int) -> None:
        if end > begin:
            self.starts.append(self.length)
            self.sources.append((number, begin))
            self.pieces.append(text[begin:end])
            self.length += end - begin

    def miss(self, number: int, text: str, offset: int, cause: str) -> None:
        if len(self.missing) < 1000:
            self.missing.append((self.files[number], text.count("\n", 0, offset) + 1, cause))

    def argument(self, text: str, at: int) -> tuple[str, int] | None:
        """A braced group behind `at`, not too long; none any more when too many never closed."""
        found = read_argument(text, at, SHORT) if self.patience else None
        if found is None:
            self.patience = max(0, self.patience - 1)
        return found

    def find(self, name: str, suffixes: Sequence[str]) -> tuple[str, str] | None:
        """Path and text of an included file: beside the main file, beside the including one, at the root."""
        name = name.strip().strip('"').strip()
        if not name or name.startswith("/") or "\x00" in name:
            return None
        folders = dict.fromkeys((self.folder, posixpath.dirname(self.open[-1]), ""))
        for folder in folders:
            path = posixpath.normpath(posixpath.join(folder, name))
            if path.startswith("../"):
                continue
            for suffix in suffixes:
                text = self.read(path + suffix)
                if text is not None:
                    return path + suffix, text
        return None

    def include(self, name: str, number: int, text: str, offset: int, *, part: bool = False) -> None:
        found = self.find(name, (".tex", "", ".ltx", ".texx"))
        if found is None:
            self.miss(number, text, offset, f"included file {name.strip()[:200]!r} is not there")
        elif found[0] in self.open:
            self.miss(number, text, offset, f"{found[0]!r} includes itself")
        else:
            self.walk(*found, part=part)

    def walk(self, path: str, text: str, *, part: bool = False) -> None:
        """Append a file; of a `part` (a subfile with a preamble of its own) only its body."""
        self.visits += 1
        if len(self.open) >= self.limits.depth or self.visits > self.limits.files:
            self.missing.append((path, 0, "too many files inside files"))
            return
        if path in self.files:
            number = self.files.index(path)
        else:
            number = len(self.files)
            self.files.append(path)
            self.texts.append(text)
        self.open.append(path)
        position = 0
        if part:
            begin = _DOCUMENT.search(text)
            position = begin.end() if begin else 0
        self._walk(number, text, position, part)
        self.open.pop()

    def _walk(self, number: int, text: str, position: int, part: bool) -> None:
        jumps: dict[int, int] = {}  # at this \else or \fi go on there
        unclosed: set[str] = set()  # environments that were seen not to end in this file
        scan = position
        found = self.pattern.search(text, scan)
        while not self.finished:
            if found is not None and found.start() < scan:
                found = self.pattern.search(text, scan)
            begin = found.start() if found else len(text)
            percent = text.find("%", scan, begin)
            if percent >= 0:
                comment = _COMMENT.match(text, percent)
                assert comment is not None  # it begins with the percent sign
                self.emit(number, text, position, percent)
                position = scan = comment.end()
                continue
            if found is None:
                break
            scan = found.end()
            word = found["word"]
            if word is None:
                continue
            if self.length > self.limits.characters:
                self.miss(number, text, begin, f"cut at {self.limits.characters:,} characters")
                self.finished = True
                break
            if word == "begin":
                named = _NAME.match(text, scan)
                name = named[1].strip() if named else ""
                if named and (name in VERBATIM or name in self.comments) and name not in unclosed:
                    end = re.compile(r"\\end\s*\{" + re.escape(name) + r"\}").search(text, named.end())
                    if end is None:
                        unclosed.add(name)
                    elif name in VERBATIM:
                        scan = end.end()
                    else:
                        self.emit(number, text, position, begin)
                        position = scan = end.end()
                elif named and name == "document" and self.body < 0:
                    self.emit(number, text, position, named.end())
                    position = scan = named.end()
                    self.body = self.length
            elif word == "end":
                named = _NAME.match(text, scan)
                if named and named[1].strip() == "document":
                    self.emit(number, text, position, begin)
                    self.finished = not part
                    return
            elif word in ("endinput", "bye", "enddocument"):
                self.emit(number, text, position, begin)
                self.finished = word != "endinput"
                return
            elif word in ("usepackage", "RequirePackage", "documentclass", "LoadClass"):
                if self.body < 0:
                    scan = self._package(number, text, position, scan, word)
                    position = scan if scan > found.end() else position
            elif word in ("newif", "newenvironment", "excludecomment"):
                self._declare(text, scan, word)
            elif word in ("else", "fi"):
                if begin in jumps:
                    self.emit(number, text, position, begin)
                    position = scan = jumps[begin]
            elif word.startswith("if"):
                target = self._branch(text, begin, scan, word, jumps)
                if target >= 0:
                    self.emit(number, text, position, begin)
                    position = scan = target
            elif word.endswith(("true", "false")) and word not in ("iftrue", "iffalse"):
                flag, value = (word[:-4], True) if word.endswith("true") else (word[:-5], False)
                self.flags[flag] = value
                self.emit(number, text, position, begin)
                position = scan
            else:
                self.emit(number, text, position, begin)
                position = scan = self._input(number, text, begin, scan, word)
        if not self.finished:
            self.emit(number, text, position, len(text))

    def _input(self, number: int, text: str, begin: int, scan: int, word: str) -> int:
        """Follow an inclusion; returns where to go on, which is `begin` + the bare word where it is none."""
        first = _NAME.match(text, scan)
        if first is None:
            plain = _PLAIN_NAME.match(text, scan) if word == "input" else None
            if plain is None:
                return scan
            self.include(plain[1], number, text, begin)
            return plain.end()
        if word in ("import", "subimport", "includefrom", "inputfrom"):
            second = _NAME.match(text, first.end())
            if second is None:
                return scan
            self.include(posixpath.join(first[1], second[1]), number, text, begin)
            return second.end()
        if word == "InputIfFileExists":
            present = self.find(first[1], (".tex", "", ".ltx", ".texx")) is not None
            then = self.argument(text, first.end())
            otherwise = self.argument(text, then[1]) if then else None
            if then is None or otherwise is None:
                return first.end()
            if present:
                self.include(first[1], number, text, begin)
            chosen, end = then if present else otherwise
            self.emit(number, text, end - 1 - len(chosen), end - 1)
            return otherwise[1]
        self.include(first[1], number, text, begin, part=word.startswith("subfile"))
        return first.end()

    def _package(self, number: int, text: str, position: int, scan: int, word: str) -> int:
        """Read packages and classes that lie beside the paper, for the macros that they define."""
        blank = _BLANK.match(text, scan)
        at = blank.end() if blank else scan
        if at < len(text) and text[at] == "[":
            at = match_bracket(text, at)
        argument = self.argument(text, at) if at >= 0 else None
        if argument is None:
            return scan
        names, end = argument
        suffix = ".cls" if word in ("documentclass", "LoadClass") else ".sty"
        local = [self.find(name, (suffix,)) for name in names.split(",") if 0 < len(name) < 200]
        if not any(local):
            return scan
        self.emit(number, text, position, end)
        for found in local:
            if found is not None and found[0] not in self.open:
                self.walk(*found)
        return end

    def _declare(self, text: str, scan: int, word: str) -> None:
        if word == "newif":
            flag = re.compile(r"\s*\\if([a-zA-Z@]+)").match(text, scan)
            if flag and flag[1] not in self.flags and len(self.flags) < 200:
                self.flags[flag[1]] = False
                self.pattern = _pattern(self.flags)
            return
        named = _NAME.match(text, scan) or _NAME.match(text, scan + 1)
        if named is None:
            return
        if word == "excludecomment":
            self.comments.add(named[1].strip())
        else:  # an environment that opens a comment hides its content
            opening = self.argument(text, named.end())
            if opening is not None and re.match(r"\s*\\(?:begin\s*\{comment\}|comment(?![a-zA-Z]))", opening[0]):
                self.comments.add(named[1].strip())

    def _branch(self, text: str, begin: int, scan: int, word: str, jumps: dict[int, int]) -> int:
        """Where the text of a decidable conditional goes on; -1 where it is not decided here."""
        if word not in ("iffalse", "iftrue") and word[2:] not in self.flags:
            return -1
        if self.conditionals is None or self.conditionals[0] is not text:
            self.conditionals = text, _match_conditionals(text)
        branches = self.conditionals[1].get(begin)
        if branches is None:
            return -1  # never closed, or named by \newif: leave it alone
        other, (close, end) = branches
        if word == "iftrue" or self.flags.get(word[2:], False):
            jumps[other[0] if other else close] = end
            return scan
        if other is None:
            return end
        jumps[close] = end
        return other[1]


def flatten(read: Callable[[str], str | None], main: str, limits: SourceLimits | None = None) -> Flat:
    r"""The text of `main` with everything that it includes, without comments, up to `\end{document}`.

    `read` gives the decoded text of a path inside the project, or None. Raises FileNotFoundError when
    the main file itself is not there; anything else that is missing is listed in the result.
    """
    text = read(main)
    if text is None:
        raise FileNotFoundError(main)
    walker = _Flattener(read, main, limits or SourceLimits())
    walker.walk(main, text)
    return Flat(
        "".join(walker.pieces),
        max(walker.body, 0),
        tuple(walker.files),
        tuple(walker.missing),
        walker.starts,
        walker.sources,
        walker.texts,
    )
