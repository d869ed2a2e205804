r"""A LaTeX project as one text: `\input` and its relatives, comments and conditionals.

Files come in through a callable, so nothing outside the project can be read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence

from lemmata.latex.expand import Macro, expand, read_call, read_macro, substitute
from lemmata.latex.source import SHORT, VERBATIM, Flat, Joined, end_of, read_argument, read_optional

# Bounds for hostile sources.
_CHARACTERS = 64_000_000
_FILES = 5_000
_DEPTH = 40  # files inside files
_MADE = 1_000_000  # characters that macros which include files may make

_DOCUMENT = re.compile(r"^[^%\n]*\\begin\s*\{document\}", re.MULTILINE)
_DEFINING = (
    "newcommand renewcommand providecommand DeclareRobustCommand def gdef edef xdef "
    "NewDocumentCommand RenewDocumentCommand ProvideDocumentCommand DeclareDocumentCommand"
).split()
_IMPORTS = "import subimport includefrom subincludefrom inputfrom subinputfrom".split()  # of a folder and a file
_INCLUSIONS = ["input", "include", "subfile", "subfileinclude", *_IMPORTS]
_WORDS = [
    *"begin end InputIfFileExists IfFileExists usepackage RequirePackage documentclass LoadClass endinput".split(),
    *"newif newenvironment excludecomment ifthenelse iffalse iftrue else fi bye enddocument".split(),
    *_INCLUSIONS,
    *_DEFINING,
]
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
_NAME = re.compile(r"\s*\{((?:[^{}\n]|\{\})*)\}")
_INCLUSION = re.compile(rf"\\(?:{'|'.join(_INCLUSIONS)})(?![a-zA-Z@])")
_CONTROL_NAME = re.compile(r"\*?\s*(?:\{\s*\\([a-zA-Z@]+)\s*\}|\\([a-zA-Z@]+))")
_LONGEST_PATH = 200  # of a macro that may be a part of one
_NO_PATH = re.compile(r"\\[a-zA-Z@]+\s*|[{}]")
_UNDEFINED = re.compile(r"\s*\\isundefined\s*\{?\s*\\([a-zA-Z@]+)\s*\}?\s*")
_BARE_NAME = re.compile(r"[ \t]+([^\s{}\\%]+)")


def _pattern(flags: Iterable[str], macros: Iterable[str] = ()) -> re.Pattern[str]:
    words = _WORDS + [name for flag in flags for name in ("if" + flag, flag + "true", flag + "false")]
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
        self.joined = Joined()
        self.files: list[str] = []
        self.texts: list[str] = []
        self.missing: list[tuple[str, int, str]] = []
        self.body = -1
        self.open: list[str] = []  # files being read, outermost first
        self.visits = 0
        self.made = 0  # characters made by macros
        self.depth = 0  # of macros that include files inside each other
        self.finished = False
        self.comments = {"comment"}
        self.flags: dict[str, bool] = {}
        self.macros: dict[str, Macro] = {}  # those that include files, and those that may be parts of paths
        self.including: dict[str, Macro] = {}  # the former
        self.origin: tuple[int, int] | None = None  # of the call that made the text being read, as in `Flat.origins`
        self.pattern = _DEFAULT_PATTERN
        self.failures_left = 200  # arguments that never close
        self.conditionals: tuple[str, _Branches] = "", {}  # of the file that was used last

    def emit(self, number: int, text: str, begin: int, end: int) -> None:
        self.joined.add(text[begin:end], self.origin or (number, begin))

    def miss(self, number: int, text: str, offset: int, cause: str) -> None:
        if self.origin is not None:
            text, offset = self.texts[number], self.origin[1]
        if len(self.missing) < 1000:
            self.missing.append((self.files[number], text.count("\n", 0, offset) + 1, cause))

    def argument(self, text: str, at: int) -> tuple[str, int] | None:
        """A short braced group after `at`; None for all groups once too many never closed."""
        argument = read_argument(text, at, SHORT) if self.failures_left else None
        self.failures_left -= argument is None and self.failures_left > 0
        return argument

    def branches(self, text: str, at: int) -> tuple[str, str, int] | None:
        """The two groups after a condition, for true and for false, and where the text continues."""
        then = self.argument(text, at)
        otherwise = self.argument(text, then[1]) if then else None
        return (then[0], *otherwise) if then and otherwise else None

    def find(self, name: str, suffixes: Sequence[str]) -> tuple[str, str] | None:
        """Path and text of an included file: beside the main file, beside the including one, at the root."""
        name = self.path(name).strip().strip('"').strip()
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

    def path(self, name: str) -> str:
        """The name of a file without macros."""
        return _NO_PATH.sub("", expand(name, self.macros)) if "\\" in name or "{" in name else name

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
        origin, self.origin = self.origin, None
        begin = _DOCUMENT.search(text) if part else None
        self._walk(self.files.index(path), text, begin.end() if begin else 0, part)
        self.origin = origin
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
            elif word in _DEFINING:
                scan = self._define(text, scan, word)
            elif word in self.including:
                self.emit(number, text, position, begin)
                position, scan = self._expand(number, text, begin, scan, word)
            elif word in ("else", "fi"):
                resume = jumps.get(begin, -1)
            elif word == "ifthenelse":
                self.emit(number, text, position, begin)
                position = begin
                if (branch := self._undefined_branch(text, scan)) is not None:
                    self._walk_made(number, begin, branch[0])
                    position = scan = branch[1]
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
        first = _NAME.match(text, scan + text.startswith("*", scan))
        if first is None:
            bare = _BARE_NAME.match(text, scan) if word == "input" else None
            if bare is None:
                return scan
            self.include(bare[1], number, text, begin)
            return bare.end()
        if word in _IMPORTS:
            second = _NAME.match(text, first.end())
            if second is None:
                return scan
            self.include(posixpath.join(first[1], second[1]), number, text, begin)
            return second.end()
        if word in ("InputIfFileExists", "IfFileExists"):
            present = self.find(first[1], _SUFFIXES) is not None
            branches = self.branches(text, first.end())
            if branches is None:
                return first.end()
            then, otherwise, end = branches
            if present and word == "InputIfFileExists":
                self.include(first[1], number, text, begin)
            self._walk_made(number, begin, then if present else otherwise)
            return end
        self.include(first[1], number, text, begin, part=word.startswith("subfile"))
        return first.end()

    def _define(self, text: str, scan: int, word: str) -> int:
        r"""Keep a macro that includes files or may be a part of a path; returns where the text continues.

        The files of the former are included where it is called.
        """
        control = _CONTROL_NAME.match(text, scan)
        name = (control[1] or control[2]) if control else ""
        definition = read_macro(text, word, control.end()) if control and self.failures_left else None
        if definition is None:
            self.failures_left -= self.failures_left > 0
            return scan
        macro, end = definition
        if macro is None or name in _WORDS:
            return scan
        if _INCLUSION.search(macro.body) and len(self.including) < 200:
            self.including[name] = self.macros[name] = macro._replace(body=_COMMENT.sub("", macro.body))
            self.pattern = _pattern(self.flags, self.including)
            return end
        if not macro.takes_arguments and len(macro.body) < _LONGEST_PATH:
            # of an \edef, what it means now
            self.macros[name] = Macro(self.path(macro.body)) if word in ("edef", "xdef") else macro
        return scan

    def _expand(self, number: int, text: str, begin: int, scan: int, name: str) -> tuple[int, int]:
        """Follow a macro that includes files; returns where the text and the search for more of them continue."""
        macro = self.including[name]
        call = read_call(macro, text, scan) if self.failures_left else None
        if call is None or self.made > _MADE:
            self.failures_left -= self.failures_left > 0
            return begin, scan
        values, end = call
        body = substitute(macro, values)
        self.made += 100 + len(body)
        macros = dict(self.macros)
        self._walk_made(number, begin, body)
        if "\\begingroup" in body:
            self.macros = macros
        return end, end

    def _walk_made(self, number: int, begin: int, text: str) -> None:
        """Append a text that the call at `begin` makes."""
        if self.depth == _DEPTH:
            return
        origin, self.origin = self.origin, self.origin or (~number, begin)
        self.depth += 1
        self._walk(number, text, 0, part=False)
        self.depth -= 1
        self.origin = origin

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

    def _undefined_branch(self, text: str, scan: int) -> tuple[str, int] | None:
        r"""The branch that `\ifthenelse{\isundefined{\name}}` takes in a preamble, and where the text continues.

        Such a name is an option that a script defines before it calls LaTeX; None where the project defines it itself,
        and for every other condition.
        """
        condition = self.argument(text, scan) if self.body < 0 else None
        name = _UNDEFINED.fullmatch(condition[0]) if condition else None
        if condition is None or name is None:
            return None
        is_defined = re.compile(rf"\\(?:let|{'|'.join(_DEFINING)})\*?\s*\{{?\s*\\{name[1]}(?![a-zA-Z@])")
        branches = self.branches(text, condition[1])
        if branches is None or any(is_defined.search(piece) for piece in self.joined.pieces):
            return None
        then, _, end = branches
        return then, end

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
    return Flat(text, max(walker.body, 0), files, missing, joined.starts, joined.origins, walker.texts)
