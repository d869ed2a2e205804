r"""The files of a LaTeX project as one text whose offsets map back to files and lines.

Handles encodings, `\input` and its relatives, comments and conditionals. Files come in through a callable, so
nothing outside the project can be read.
"""

from __future__ import annotations

import codecs
import posixpath
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, pairwise

VERBATIM = frozenset(
    "verbatim verbatim* Verbatim Verbatim* BVerbatim LVerbatim lstlisting minted alltt semiverbatim".split()
)
# Environments whose body is code that draws something.
DRAWINGS = frozenset(
    """
    asy asydef axis circuitikz dot2tex emp empgraph feynman feynmandiagram fmffile fmfgraph fmfgraph* forest
    loglogaxis metapost mfpic mpost mplibcode overpic pgfpicture picture pspicture pspicture* psgraph psgraph*
    sagesilent semilogxaxis semilogyaxis tikzpicture tikzpicture* tpic
    """.split()
)


# ---------------------------------------------------------------- bytes to text

_INPUTENC = re.compile(rb"\\usepackage\s*\[\s*([a-z0-9-]+)\s*\]\s*\{\s*inputenc\s*\}")
_ENCODINGS = {name: name for name in "latin1 latin2 latin5 latin9 cp1250 cp1251 koi8-r".split()}
_ENCODINGS |= {"ansinew": "cp1252", "applemac": "mac-roman", "macce": "mac-latin2"}
STRAY_BYTES = "lemmata.cp1252"  # error handler: bytes that are not UTF-8 are read as cp1252


def _decode_as_cp1252(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("cp1252", errors="replace"), error.end


codecs.register_error(STRAY_BYTES, _decode_as_cp1252)


def decode(data: bytes) -> str:
    """The text of a source file, with newlines as line ends; never fails.

    UTF-8 (UTF-16 after its byte order mark) where the bytes are valid, else the encoding that `inputenc` names.
    Without one, stray bytes of a file in UTF-8 are read as cp1252; any other file is cp1252, else Latin-1.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", errors="replace")
    else:
        inputenc = _INPUTENC.search(data)
        named = _ENCODINGS.get(inputenc[1].decode()) if inputenc else None
        errors = STRAY_BYTES if not named and _is_mostly_utf_8(data) else "strict"
        for encoding in ("utf-8-sig", named or "cp1252", "latin-1"):  # the last one accepts all bytes
            with suppress(UnicodeDecodeError):
                text = data.decode(encoding, errors)
                break
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\ufffd")


def _is_mostly_utf_8(data: bytes) -> bool:
    """Whether the valid characters beyond ASCII outweigh the other bytes; a few occur in cp1252 by chance (`ß“`)."""
    valid = data.decode("utf-8", errors="ignore")
    size = len(valid.encode())
    return size - len(valid) > len(data) - size


# ---------------------------------------------------------------- braces

_BRACE = re.compile(r"[^\\{}]*+(?:\\.[^\\{}]*+)*+(?:(\{)|\})", re.DOTALL)
_UNBRACKETED = re.compile(r"[^\\\]{}]*+(?:\\.[^\\\]{}]*+)*+", re.DOTALL)
_DOLLAR = re.compile(r"\\.|[{}$]|\n[ \t]*\n", re.DOTALL)
_BLANKS = re.compile(r"\s*+")
_BLANK = re.compile(r"[ \t]*(?:\n[ \t]*)?")
# Characters to search for the end of an argument: no honest one is longer, and hostile text has many without end.
_REACH = 100_000
SHORT = 2_000  # for names, titles and captions


def match_brace(text: str, start: int, end: int | None = None) -> int:
    """Offset after the brace that closes the one at `start`; -1 where there is none before `end`, or near."""
    limit = start + _REACH if end is None else end
    if text.find("}", start, limit) < 0:  # a quick answer for text that is cut off
        return -1
    depth = 0
    for brace in _BRACE.finditer(text, start, limit):
        depth += 1 if brace[1] else -1
        if depth == 0 and not brace[1]:
            return brace.end()
    return -1


def match_bracket(text: str, start: int, reach: int = 4000) -> int:
    """Offset after the `]` that closes the `[` at `start`, outside braces; -1 where there is none near."""
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
    r"""Offset after the dollar that closes the one at `start`, past those inside braces, as in `\text{$x$}`.

    -1 where there is none near, or only after an empty line.
    """
    depth = 0
    for token in _DOLLAR.finditer(text, start + 1, min(len(text), start + reach)):
        mark = token[0]
        if mark == "$" and depth <= 0:
            return token.end()
        if mark[0] == "\n":
            return -1
        depth += (mark == "{") - (mark == "}")
    return -1


def skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Offset after the match of `pattern` at `at`; `at` where there is none."""
    match = pattern.match(text, at)
    return match.end() if match else at


@cache
def end_of(environment: str) -> re.Pattern[str]:
    r"""The `\end` of an environment."""
    return re.compile(r"\\end\s*\{\s*" + re.escape(environment) + r"\s*\}")


def skip_blanks(text: str, at: int) -> int:
    """Offset of the first character from `at` on that is not blank."""
    return skip(_BLANKS, text, at)


def read_optional(text: str, start: int) -> tuple[str, int] | None:
    """The content of the brackets that follow `start` after optional blanks, and the offset after them."""
    begin = skip_blanks(text, start)
    end = match_bracket(text, begin) if text[begin : begin + 1] == "[" else -1
    return (text[begin + 1 : end - 1], end) if end > 0 else None


def read_argument(text: str, start: int, reach: int = _REACH) -> tuple[str, int] | None:
    """The braced group that follows `start` after at most one newline, and the offset after it."""
    begin = skip(_BLANK, text, start)
    if text[begin : begin + 1] != "{":
        return None
    end = match_brace(text, begin, begin + reach)
    return None if end < 0 else (text[begin + 1 : end - 1], end)


# ---------------------------------------------------------------- one text

_OPEN_WORD = re.compile(r"(?<!\\)(?:\\\\)*+\\[a-zA-Z@]*+$")


def runs_into(before: str, after: str) -> bool:
    """Whether `before` ends in a control word that the letters at the beginning of `after` would lengthen."""
    first = after[:1]
    return (first.isalpha() or first == "@") and "\\" in before[-60:] and bool(_OPEN_WORD.search(before[-60:]))


# Bounds for hostile sources.
_CHARACTERS = 64_000_000
_FILES = 5_000
_DEPTH = 40  # files inside files


@dataclass(slots=True)
class _Joined:
    """Pieces of files, with the offset of each in the joined text and its origin as in `Flat.sources`."""

    pieces: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    sources: list[tuple[int, int]] = field(default_factory=list)
    length: int = 0

    def add(self, text: str, source: tuple[int, int]) -> None:
        if text:
            if self.pieces and runs_into(self.pieces[-1], text):
                number, offset = source
                self.append(" ", (min(number, ~number), offset))
            self.append(text, source)

    def append(self, text: str, source: tuple[int, int]) -> None:
        if text:
            self.pieces.append(text)
            self.starts.append(self.length)
            self.sources.append(source)
            self.length += len(text)


@dataclass(frozen=True, slots=True)
class Flat:
    """The text of a project as one string, with a map from its offsets to files and lines."""

    text: str
    body: int  # offset after \begin{document}, 0 where there is none
    files: tuple[str, ...]  # in the order of first use
    missing: tuple[tuple[str, int, str], ...]  # file, line, which inclusion failed and why
    starts: Sequence[int]  # ascending offsets in `text` where the segments begin
    sources: Sequence[tuple[int, int]]  # of each segment: number of its file (complemented: an edit), offset in it
    texts: Sequence[str]  # of each file, decoded
    lines: dict[int, list[int]] = field(default_factory=dict)  # offsets of newlines by file, computed when needed

    def place(self, offset: int) -> tuple[str, int]:
        """File and line (from 1) of the character at `offset`."""
        if not self.text:
            return "", 0
        number, source = self._origin(min(offset, len(self.text) - 1))
        number = max(number, ~number)
        if number not in self.lines:
            self.lines[number] = [newline.start() for newline in re.finditer("\n", self.texts[number])]
        return self.files[number], bisect_left(self.lines[number], source) + 1

    def _origin(self, offset: int) -> tuple[int, int]:
        """File and offset of a character, as in `sources`; the same for all characters of an edit."""
        segment = bisect_right(self.starts, offset) - 1
        number, source = self.sources[segment]
        return (number, source) if number < 0 else (number, source + offset - self.starts[segment])

    def edit(self, edits: Iterable[tuple[int, int, str]]) -> tuple[Flat, Callable[[int], int]]:
        """A copy with replaced spans (ascending, disjoint), and the map from old offsets to new ones.

        Replaced text gets the place where its span began.
        """
        joined = _Joined()
        ends, shifts = [0], [0]  # old offsets from which text is shifted, and by how much
        position = 0
        for begin, end, replacement in chain(edits, [(len(self.text), len(self.text), "")]):
            inner = self.starts[bisect_right(self.starts, position) : bisect_left(self.starts, begin)]
            for low, high in pairwise((position, *inner, begin)):
                if low < high:
                    joined.add(self.text[low:high], self._origin(low))
            if joined.pieces:  # what was apart stays apart
                if runs_into(joined.pieces[-1], replacement):
                    replacement = " " + replacement
                if runs_into(replacement or joined.pieces[-1], self.text[end : end + 1]):
                    replacement += " "
            if replacement:
                number, source = self._origin(begin)
                joined.add(replacement, (min(number, ~number), source))
            position = end
            ends.append(end)
            shifts.append(joined.length - end)

        def moved(offset: int) -> int:
            return max(0, offset + shifts[bisect_right(ends, offset) - 1])

        text = "".join(joined.pieces)
        return replace(self, text=text, body=moved(self.body), starts=joined.starts, sources=joined.sources), moved


_DOCUMENT = re.compile(r"^[^%\n]*\\begin\s*\{document\}", re.MULTILINE)
_WORDS = (
    "begin end input include subfile subfileinclude import subimport includefrom inputfrom "
    "InputIfFileExists usepackage RequirePackage documentclass LoadClass endinput newif newenvironment "
    "newcommand renewcommand providecommand def excludecomment iffalse iftrue else fi bye enddocument"
)
# Escapes come first, so that `\%` is no comment and `\\begin` no environment. All alternatives begin with a
# backslash, because a search for one character is fast.
_TOKENS = (
    r"\\(?:[^a-zA-Z]|(?:url|href|path)\s*\{[^{}\n]*\}"
    r"|(?:verb|lstinline)(?![a-zA-Z])\*?(?:\[[^\]\n]{0,500}\])?(?P<fence>[^\sa-zA-Z{*])[^\n]{0,2000}?(?P=fence)"
    r"|(?P<word>"
)
# The indent of the next line belongs to a comment, but an empty line after it is a paragraph break.
_COMMENT = re.compile(r"%[^\n]*(?:\n[ \t]*+(?!\n))?")
# TeX skips comments, but not \verb, when it searches the end of a conditional.
_CONDITIONAL = re.compile(
    r"\\(?:[^a-zA-Z]|newif\s*\\if[a-zA-Z@]*|(?:(if(?!thenelse|f\b|undefined\b)[a-zA-Z@]*)|(else)|(fi))(?![a-zA-Z@]))"
    r"|%[^\n]*",
    re.DOTALL,
)
_NAME = re.compile(r"\s*\{([^{}\n]*)\}")
# A macro and its number of parameters, up to the brace of its meaning.
_MACRO = re.compile(r"\*?\s*(?:\{\s*\\([a-zA-Z@]+)\s*\}|\\([a-zA-Z@]+))\s*(?:\[([1-9])\]|((?:#\d)+))\s*(?=\{)")
_INCLUSION = re.compile(
    r"\\(?:(input|include|subfile|subfileinclude)\s*\{([^{}\n]*)\}"
    r"|(?:import|subimport|includefrom|inputfrom)\*?\s*\{([^{}\n]*)\}\s*\{([^{}\n]*)\})"
)
_PARAMETER = re.compile(r"#([1-9])")
_BARE_NAME = re.compile(r"[ \t]+([^\s{}\\%]+)")


def _pattern(flags: Iterable[str], macros: Iterable[str] = ()) -> re.Pattern[str]:
    words = _WORDS.split() + [name for flag in flags for name in ("if" + flag, flag + "true", flag + "false")]
    words += macros
    return re.compile(_TOKENS + "|".join(map(re.escape, words)) + ")(?![a-zA-Z@]))", re.DOTALL)


_DEFAULT_PATTERN = _pattern(())
_SUFFIXES = (".tex", "", ".ltx", ".texx")
_Branches = dict[int, tuple[tuple[int, int] | None, tuple[int, int]]]


def _match_conditionals(text: str) -> _Branches:
    r"""The spans of the `\else` (None without one) and the `\fi` of every conditional, by its offset."""
    branches: _Branches = {}
    opened: list[tuple[int, tuple[int, int] | None]] = []
    for token in _CONDITIONAL.finditer(text):
        if token[1]:
            opened.append((token.start(), None))
        elif token[2] and opened and opened[-1][1] is None:
            opened[-1] = opened[-1][0], token.span()
        elif token[3] and opened:
            begin, other = opened.pop()
            branches[begin] = other, token.span()
    return branches


class _Flattener:
    """The state while the files of a project are joined."""

    def __init__(self, read: Callable[[str], str | None], main: str) -> None:
        self.read = read
        self.folder = posixpath.dirname(main)
        self.joined = _Joined()
        self.files: list[str] = []
        self.texts: list[str] = []
        self.missing: list[tuple[str, int, str]] = []
        self.body = -1
        self.open: list[str] = []  # files being read, outermost first
        self.visits = 0
        self.finished = False
        self.comments = {"comment"}
        self.flags: dict[str, bool] = {}
        self.including: dict[str, tuple[int, str]] = {}  # macros that include files: number of parameters, meaning
        self.pattern = _DEFAULT_PATTERN
        self.failures_left = 200  # arguments that never close
        self.conditionals: tuple[str, _Branches] = "", {}  # of the file that was used last

    def emit(self, number: int, text: str, begin: int, end: int) -> None:
        self.joined.add(text[begin:end], (number, begin))

    def miss(self, number: int, text: str, offset: int, cause: str) -> None:
        if len(self.missing) < 1000:
            self.missing.append((self.files[number], text.count("\n", 0, offset) + 1, cause))

    def argument(self, text: str, at: int) -> tuple[str, int] | None:
        """A short braced group after `at`; None for all groups once too many never closed."""
        argument = read_argument(text, at, SHORT) if self.failures_left else None
        self.failures_left -= argument is None and self.failures_left > 0
        return argument

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
        file = self.find(name, _SUFFIXES)
        if file is None:
            self.miss(number, text, offset, f"included file {name.strip()[:200]!r} does not exist")
        elif file[0] in self.open:
            self.miss(number, text, offset, f"{file[0]!r} includes itself")
        else:
            self.walk(*file, part=part)

    def walk(self, path: str, text: str, *, part: bool = False) -> None:
        """Append a file; of a `part` (a subfile with a preamble of its own) only its body."""
        self.visits += 1
        if len(self.open) >= _DEPTH or self.visits > _FILES:
            self.missing.append((path, 0, "too many files inside files"))
            return
        if path not in self.files:
            self.files.append(path)
            self.texts.append(text)
        self.open.append(path)
        begin = _DOCUMENT.search(text) if part else None
        self._walk(self.files.index(path), text, begin.end() if begin else 0, part)
        self.open.pop()

    def _walk(self, number: int, text: str, position: int, part: bool) -> None:
        jumps: dict[int, int] = {}  # from the offset of an \else or \fi to where the text continues
        unclosed: set[str] = set()  # environments that do not end in this file
        scan = position
        token = self.pattern.search(text, scan)
        while not self.finished:
            if token is not None and token.start() < scan:
                token = self.pattern.search(text, scan)
            begin = token.start() if token else len(text)
            percent = text.find("%", scan, begin)
            if percent >= 0:
                comment = _COMMENT.match(text, percent)
                assert comment is not None  # it begins with the percent sign
                self.emit(number, text, position, percent)
                position = scan = comment.end()
                continue
            if token is None:
                break
            scan = token.end()
            word = token["word"]
            if word is None:
                continue
            if self.joined.length > _CHARACTERS:
                self.miss(number, text, begin, f"cut at {_CHARACTERS:,} characters")
                self.finished = True
                break
            resume = -1  # where the text continues after a span that is dropped
            if word == "begin":
                named = _NAME.match(text, scan)
                name = named[1].strip() if named else ""
                if named and (name in VERBATIM or name in self.comments) and name not in unclosed:
                    end = end_of(name).search(text, named.end())
                    if end is None:
                        unclosed.add(name)
                    elif name in VERBATIM:
                        scan = end.end()
                    else:
                        resume = end.end()
                elif named and name == "document" and self.body < 0:
                    self.emit(number, text, position, named.end())
                    position = scan = named.end()
                    self.body = self.joined.length
            elif word in ("end", "endinput", "bye", "enddocument"):
                if word != "end" or end_of("document").match(text, begin):
                    self.emit(number, text, position, begin)
                    self.finished = word != "endinput" and not (part and word == "end")
                    return
            elif word in ("usepackage", "RequirePackage", "documentclass", "LoadClass"):
                if self.body < 0:
                    scan = self._package(number, text, position, scan, word)
                    position = scan if scan > token.end() else position
            elif word in ("newif", "newenvironment", "excludecomment"):
                self._declare(text, scan, word)
            elif word in ("newcommand", "renewcommand", "providecommand", "def"):
                scan = self._define(text, scan)
            elif word in self.including:
                self.emit(number, text, position, begin)
                position, scan = self._expand(number, text, begin, scan, word)
            elif word in ("else", "fi"):
                resume = jumps.get(begin, -1)
            elif word.startswith("if"):
                resume = self._branch(text, begin, scan, word, jumps)
            elif word.endswith(("true", "false")):
                self.flags[word[:-4] if word.endswith("true") else word[:-5]] = word.endswith("true")
                resume = scan
            else:
                self.emit(number, text, position, begin)
                position = scan = self._input(number, text, begin, scan, word)
            if resume >= 0:
                self.emit(number, text, position, begin)
                position = scan = resume
        if not self.finished:
            self.emit(number, text, position, len(text))

    def _input(self, number: int, text: str, begin: int, scan: int, word: str) -> int:
        """Follow an inclusion; returns where the text continues, `scan` where nothing is included."""
        first = _NAME.match(text, scan)
        if first is None:
            bare = _BARE_NAME.match(text, scan) if word == "input" else None
            if bare is None:
                return scan
            self.include(bare[1], number, text, begin)
            return bare.end()
        if word in ("import", "subimport", "includefrom", "inputfrom"):
            second = _NAME.match(text, first.end())
            if second is None:
                return scan
            self.include(posixpath.join(first[1], second[1]), number, text, begin)
            return second.end()
        if word == "InputIfFileExists":
            present = self.find(first[1], _SUFFIXES) is not None
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

    def _define(self, text: str, scan: int) -> int:
        r"""Keep a macro that includes the files that it is given; returns where the text continues.

        Its own `\input{#1}` names no file.
        """
        macro = _MACRO.match(text, scan)
        meaning = self.argument(text, macro.end()) if macro else None
        if macro is None or meaning is None or not any("#" in file[0] for file in _INCLUSION.finditer(meaning[0])):
            return scan
        name = macro[1] or macro[2]
        if len(self.including) < 200:
            self.including[name] = int(macro[3] or len(macro[4]) // 2), meaning[0]
            self.pattern = _pattern(self.flags, self.including)
        return meaning[1]

    def _expand(self, number: int, text: str, begin: int, scan: int, macro: str) -> tuple[int, int]:
        """Follow a macro that includes files; returns where the text and the search for more of them continue."""
        count, meaning = self.including[macro]
        arguments: list[str] = []
        end = scan
        for _ in range(count):
            argument = self.argument(text, end)
            if argument is None:
                return begin, scan
            arguments.append(argument[0])
            end = argument[1]
        place = (~number, begin)
        meaning = _PARAMETER.sub(lambda at: arguments[int(at[1]) - 1] if int(at[1]) <= count else "", meaning)
        at = 0
        for inclusion in _INCLUSION.finditer(meaning):
            self.joined.add(meaning[at : inclusion.start()], place)
            word, name, folder, file = inclusion.groups()
            path = name or posixpath.join(folder or "", file or "")
            self.include(path, number, text, begin, part=(word or "").startswith("subfile"))
            at = inclusion.end()
        self.joined.add(meaning[at:], place)
        return end, end

    def _package(self, number: int, text: str, position: int, scan: int, word: str) -> int:
        """Read the packages and classes in the project, for the macros that they define."""
        _, at = read_optional(text, scan) or ("", scan)
        argument = self.argument(text, at)
        if argument is None:
            return scan
        names, end = argument
        suffix = ".cls" if word in ("documentclass", "LoadClass") else ".sty"
        files = [self.find(name, (suffix,)) for name in names.split(",") if 0 < len(name) < 200]
        if not any(files):
            return scan
        self.emit(number, text, position, end)
        for file in files:
            if file is not None and file[0] not in self.open:
                self.walk(*file)
        return end

    def _declare(self, text: str, scan: int, word: str) -> None:
        if word == "newif":
            flag = re.compile(r"\s*\\if([a-zA-Z@]+)").match(text, scan)
            if flag and flag[1] not in self.flags and len(self.flags) < 200:
                self.flags[flag[1]] = False
                self.pattern = _pattern(self.flags, self.including)
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
        """Where the text continues after a conditional with a known value; -1 where the value is not known."""
        if word not in ("iffalse", "iftrue") and word[2:] not in self.flags:
            return -1
        if self.conditionals[0] is not text:
            self.conditionals = text, _match_conditionals(text)
        branches = self.conditionals[1].get(begin)
        if branches is None:
            return -1  # never closed, or the name in a \newif
        other, (close, end) = branches
        if word == "iftrue" or self.flags.get(word[2:], False):
            jumps[other[0] if other else close] = end
            return scan
        if other is None:
            return end
        jumps[close] = end
        return other[1]


def flatten(read: Callable[[str], str | None], main: str, format_file: str = "") -> Flat:
    r"""The text of `main` with everything that it includes, without comments, up to `\end{document}`.

    `read` gives the decoded text of a path inside the project, or None; what the `format_file` says comes first.
    Raises FileNotFoundError where the main file does not exist; other missing files are listed in the result.
    """
    text = read(main)
    if text is None:
        raise FileNotFoundError(main)
    walker = _Flattener(read, main)
    if format_file and (definitions := read(format_file)) is not None:
        walker.walk(format_file, definitions)
    walker.walk(main, text)
    joined, files, missing = walker.joined, tuple(walker.files), tuple(walker.missing)
    text = "".join(joined.pieces)
    return Flat(text, max(walker.body, 0), files, missing, joined.starts, joined.sources, walker.texts)


# ---------------------------------------------------------------- shorthands of babel

_GERMAN = re.compile(
    r"\\usepackage\s*\[[^\]]*\b(?:n?german|n?germanb|n?austrian|n?swissgerman)\b[^\]]*\]\s*\{[^{}]*\bbabel\b"
    r"|\\usepackage\s*(?:\[[^\]]*\])?\s*\{[^{}]*\bn?german\b[^{}]*\}"
    r"|\\documentclass\s*\[[^\]]*\bn?german\b"
)
_SHORTHAND = re.compile(r"(?<!\\)(?<!char)\"([aouAOUszSZ`'=~|\"-]|ck|ff|ll|mm|nn|pp|rr|tt)")
_WRITTEN = dict(zip("aouAOUszSZ", ("ä", "ö", "ü", "Ä", "Ö", "Ü", "ß", "ß", "SS", "SZ"), strict=True)) | {
    "`": "„", "'": "“", "=": "-", "~": "-", "|": "", '"': "", "-": "",
}  # fmt: skip


def write_out_shorthands(flat: Flat) -> Flat:
    """A German paper with babel's shorthands as letters: `f"ur` is `für`; any other paper stays as it is."""
    if '"' not in flat.text or not _GERMAN.search(flat.text):
        return flat
    edits = [(at.start(), at.end(), _WRITTEN.get(at[1], at[1])) for at in _SHORTHAND.finditer(flat.text)]
    return flat.edit(edits)[0] if edits else flat
