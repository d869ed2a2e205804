r"""The text of LaTeX files: encodings, braces, and one text of many files whose offsets map back to their lines."""

from __future__ import annotations

import codecs
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
    close = text.find("}", start, limit)
    if close < 0:  # a quick answer for text that is cut off, and for most arguments
        return -1
    if text.find("{", start + 1, close) < 0 and text.find("\\", start, close) < 0:
        return close + 1
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


@dataclass(slots=True)
class Joined:
    """Pieces of files, with the offset of each in the joined text and its origin as in `Flat.origins`."""

    pieces: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    origins: list[tuple[int, int]] = field(default_factory=list)
    length: int = 0

    def add(self, text: str, origin: tuple[int, int]) -> None:
        if text:
            if self.pieces and runs_into(self.pieces[-1], text):
                number, offset = origin
                self.append(" ", (min(number, ~number), offset))
            self.append(text, origin)

    def append(self, text: str, origin: tuple[int, int]) -> None:
        if text:
            self.pieces.append(text)
            self.starts.append(self.length)
            self.origins.append(origin)
            self.length += len(text)


@dataclass(frozen=True, slots=True)
class Flat:
    """The text of a project as one string, with a map from its offsets to files and lines."""

    text: str
    body: int  # offset after \begin{document}, 0 where there is none
    files: tuple[str, ...]  # in the order of first use
    missing: tuple[tuple[str, int, str], ...]  # file, line, which inclusion failed and why
    starts: Sequence[int]  # ascending offsets in `text` where the segments begin
    origins: Sequence[tuple[int, int]]  # of each segment: number of its file (complemented: an edit), offset in it
    texts: Sequence[str]  # of each file, decoded
    lines: dict[int, list[int]] = field(default_factory=dict)  # offsets of newlines by file, computed when needed

    def place(self, offset: int) -> tuple[str, int]:
        """File and line (from 1) of the character at `offset`."""
        if not self.text:
            return "", 0
        number, place = self._origin(min(offset, len(self.text) - 1))
        number = max(number, ~number)
        if number not in self.lines:
            self.lines[number] = [newline.start() for newline in re.finditer("\n", self.texts[number])]
        return self.files[number], bisect_left(self.lines[number], place) + 1

    def _origin(self, offset: int) -> tuple[int, int]:
        """File and offset of a character, as in `origins`; the same for all characters of an edit."""
        segment = bisect_right(self.starts, offset) - 1
        number, place = self.origins[segment]
        return (number, place) if number < 0 else (number, place + offset - self.starts[segment])

    def edit(self, edits: Iterable[tuple[int, int, str]]) -> tuple[Flat, Callable[[int], int]]:
        """A copy with replaced spans (ascending, disjoint), and the map from old offsets to new ones.

        Replaced text gets the place where its span began.
        """
        joined = Joined()
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
                number, place = self._origin(begin)
                joined.add(replacement, (min(number, ~number), place))
            position = end
            ends.append(end)
            shifts.append(joined.length - end)

        def moved(offset: int) -> int:
            return max(0, offset + shifts[bisect_right(ends, offset) - 1])

        text = "".join(joined.pieces)
        return replace(self, text=text, body=moved(self.body), starts=joined.starts, origins=joined.origins), moved


# ---------------------------------------------------------------- shorthands of babel

_GERMAN = re.compile(
    r"\\usepackage\s*\[[^\]]*\b(?:n?german|n?germanb|n?austrian|n?swissgerman)\b[^\]]*\]\s*\{[^{}]*\bbabel\b"
    r"|\\usepackage\s*(?:\[[^\]]*\])?\s*\{[^{}]*\bn?german\b[^{}]*\}"
    r"|\\documentclass\s*\[[^\]]*\bn?german\b"
)
_OFF = re.compile(r"shorthands\s*=\s*off|main\s*=\s*(?!n?german|n?austrian|n?swiss)")
_SHORTHAND = re.compile(r"(?<!\\)(?<!char)\"([aouAOUszSZ`'=~|\"-]|ck|ff|ll|mm|nn|pp|rr|tt)")
_WRITTEN = dict(zip("aouAOUszSZ", ("ä", "ö", "ü", "Ä", "Ö", "Ü", "ß", "ß", "SS", "SZ"), strict=True)) | {
    "`": "„", "'": "“", "=": "-", "~": "-", "|": "", '"': "", "-": "",
}  # fmt: skip


def write_out_shorthands(flat: Flat) -> Flat:
    """A German paper with babel's shorthands as letters: `f"ur` is `für`; any other paper stays as it is."""
    if '"' not in flat.text or not (german := _GERMAN.search(flat.text)) or _OFF.search(german[0]):
        return flat
    edits = [(at.start(), at.end(), _WRITTEN.get(at[1], at[1])) for at in _SHORTHAND.finditer(flat.text)]
    return flat.edit(edits)[0] if edits else flat
