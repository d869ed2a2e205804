r"""LaTeX papers to records: from the files of a folder or archive to passages, labels and references.

A broken statement costs that statement; a broken paper costs that paper. Everything skipped becomes a Skip.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lemmata.core.errors import InputError, MissingExtra
from lemmata.core.types import (
    HEADING,
    NUMBER,
    PART,
    PRINTED,
    REFERRING,
    SOLVED,
    Label,
    Passage,
    Reading,
    Skip,
    part_id,
    unique_id,
)  # fmt: skip
from lemmata.ingest.front_matter import read_front_matter
from lemmata.ingest.numbering import number_paper, numbered_names, with_contents, with_labels
from lemmata.ingest.paper_state import PaperOptions, PaperState
from lemmata.ingest.prose import read_chunks
from lemmata.ingest.references import bibliographies_beside, bibliographies_by_folder, read_references
from lemmata.ingest.text import read_pdf
from lemmata.latex.arguments import fill, read_values
from lemmata.latex.calls import calls_as_environments, read_calls_of_statements
from lemmata.latex.cleaned import Cleaned, join
from lemmata.latex.command_table import MATH
from lemmata.latex.commands import MOST_FAILURES, arguments_of, read_calls, without_notes
from lemmata.latex.expand import (
    WORD,
    Definitions,
    Macro,
    Opening,
    expand,
    read_call,
    read_definitions,
    read_environments,
    structural,
)
from lemmata.latex.flatten import flatten
from lemmata.latex.generated import generators, plain_names, written_loops
from lemmata.latex.kinds import Kind, read_kinds
from lemmata.latex.lists import read_lists
from lemmata.latex.mains import (
    Main,
    complete_papers,
    confidence,
    format_file_of,
    rank_mains,
    read_tex_files,
    stale_copy_of,
    wrappers,
)
from lemmata.latex.marked import read_marks, wrap_term_macros
from lemmata.latex.numbers import NUMBERED
from lemmata.latex.sentences import chunks
from lemmata.latex.source import SHORT, Flat, decode, read_argument, write_out_shorthands
from lemmata.latex.statements import Statement, attach_footnotes, innermost, proved_labels, read_structure
from lemmata.latex.targets import read_targets, referring_macros

_LONGEST_STATEMENT = 8  # chunks; of a longer one the index also reads the parts
_LONGEST_TITLE = 200  # characters
# The question or the task of an example is no title.
_SENTENCES = re.compile(r"\?(?: |$)|[^\W\d_]{3}[.!] +[A-Z].*[.!]$|^(?:\S+ ){6}.*\.$", re.DOTALL)
_SOURCE_SUFFIXES = (".tex", ".ltx", ".texx", ".bib", ".bbl", ".sty", ".cls", ".def", ".bbx", ".aux", ".txt", "")


def is_source_file(name: str) -> bool:
    """Whether a file of a package can contribute text; figures and junk cannot."""
    parts = name.split("/")
    base = parts[-1]
    if any(part == "__MACOSX" or part.startswith("._") for part in parts) or base == ".DS_Store":
        return False
    if base.lower().startswith("00readme") or re.fullmatch(r"[\w.-]*\.\d+", base):
        return True
    return posixpath.splitext(base)[1].lower() in _SOURCE_SUFFIXES


# ---------------------------------------------------------------- passages


def _abstracts(paper: PaperState) -> list[Passage]:
    text = paper.flat.text
    spans = list(paper.structure.abstracts)
    if not spans:  # amsppt and revtex also have \abstract{...}
        for command in re.finditer(r"\\abstract(?![a-zA-Z])(?=\s*\{)", text):
            argument = read_argument(text, command.end(), 20_000)
            if argument is not None:
                spans.append((argument[1] - 1 - len(argument[0]), argument[1] - 1))
                paper.structure.apart.append((command.start(), argument[1]))
                paper.structure.apart.sort()
                break
    passages = []
    for number, (begin, end) in enumerate(spans, 1):
        abstract, links = paper.clean(paper.expand(begin, end), "refers_to")
        if abstract.text:
            identity, raw = unique_id(f"{paper.document}#abstract-{number}", paper.taken), text[begin:end].strip()
            passages.append(paper.passage(identity, "abstract", (begin, end), abstract, links, raw=raw))
    return passages


def _statements(paper: PaperState) -> list[Passage]:
    counts: Counter[str] = Counter()
    passages = []
    for statement in paper.structure.statements:
        kind = paper.kinds.get(statement.environment)
        # Calls count by the name of their macro: an environment of the same kind keeps its number.
        counted = statement.environment if kind and kind.form == "call" else statement.kind
        counts[counted] += 1
        name = statement.label or f"{counted}-{counts[counted]}"
        passages.append(_statement(paper, statement, f"{paper.document}#{name}"))
    statements = [passage for passage in passages if passage is not None]
    return [*statements, *(part for statement in statements for part in _parts(statement, paper.options))]


def _parts(statement: Passage, options: PaperOptions) -> list[Passage]:
    """The parts of a long statement, and of a solution, for the index."""
    parts: list[str] = []
    bare = statement.bare()
    solution = bare.proof if SOLVED in statement.metadata else ""
    for text, longest in ((bare.text, _LONGEST_STATEMENT * options.chunk_size), (solution, 0)):
        if len(text) > longest:
            parts += (text[b:e] for b, e in chunks(text, options.chunk_size, options.chunk_overlap))
    return [
        replace(
            statement,
            id=part_id(statement.id, number),
            kind=PART,
            text=part,
            raw="",
            proof="",
            metadata={key: value for key, value in statement.metadata.items() if key == HEADING},
            links=(),
        )
        for number, part in enumerate(parts, 1)
    ]


def _statement(paper: PaperState, statement: Statement, identity: str) -> Passage | None:
    whole = paper.flat.text
    spans, at = [], statement.content
    for begin, end in sorted(statement.proofs):
        if at <= begin < statement.close:  # a proof inside the environment is not part of the statement
            spans.append((at, max(at, whole.rfind("\\begin", at, begin))))
            at = min(statement.close, whole.find("}", end) + 1 or end)
    spans.append((at, statement.close))
    source = "".join(paper.expand(*span) for span in spans)
    text, links = paper.clean(source, "refers_to")
    if not text.text:
        paper.skip(statement.begin, f"{statement.kind} without text")
        return None
    macros = paper.macros.at(statement.begin)
    heading = expand(statement.note, macros)
    note, note_links = paper.clean(without_notes(heading), "refers_to")
    links += note_links
    for argument in arguments_of(heading, "footnote"):  # it belongs to the text, not to the title
        footnote, note_links = paper.clean(argument, "refers_to")
        text = join((text, footnote), "\n\n")
        links += note_links
    if len(note.text) > _LONGEST_TITLE or _SENTENCES.search(note.text):
        text, note = join((note, text), "\n\n"), Cleaned("", [])
    proofs = []
    for span, proof_note in zip(statement.proofs, statement.proof_notes, strict=True):
        _, note_links = paper.clean(proof_note, "proof_uses")
        proved = proved_labels(proof_note)
        links += (link for link in note_links if link.relation == "cites" or link.label not in proved)
        proof, proof_links = paper.clean(paper.expand(*span), "proof_uses")
        proofs.append(proof)
        links += proof_links
    identity = unique_id(identity, paper.taken)
    paper.spans += ((*span, identity) for span in statement.proofs)
    return paper.passage(
        identity,
        statement.kind,
        (statement.begin, statement.end),
        text,
        links,
        title=" ".join(note.text.split()).rstrip(" ,;:"),
        section=paper.section(statement.section, statement.begin),
        raw="".join(whole[begin:end] for begin, end in spans).strip(),
        proof=join(proofs, "\n\n"),
        confidence=statement.confidence,
        metadata={
            "environment": statement.environment,
            **({NUMBER: statement.number} if statement.number else {}),
            **({SOLVED: True} if statement.solved and any(proof.text for proof in proofs) else {}),
            **({PRINTED: printed} if statement.number and (printed := paper.printed_name(statement)) else {}),
            **read_marks(source, text.text),
        },
    )


def _labels(paper: PaperState) -> list[Label]:
    """Each label with the passage that contains it; a label between passages names the next one in its section."""
    around = innermost(paper.spans)
    spans = sorted(paper.spans)
    starts = [span[0] for span in spans]
    sections = [section.offset for section in paper.structure.sections]
    labels: dict[str, Label] = {}
    for offset, name in sorted(paper.structure.labels):
        target = around(offset)
        number = bisect_right(starts, offset)
        if not target and number < len(spans):
            same_section = bisect_right(sections, offset) == bisect_right(sections, starts[number])
            target = spans[number][2] if same_section else ""
        labels.setdefault(name, Label(paper.document, name, target or paper.document))
    return list(labels.values())


def _referring(paper: PaperState, passages: Iterable[Passage], labels: Iterable[Label]) -> dict[str, str]:
    r"""The macros, but for `\ref`, that refer to labels which this paper does not have."""
    links = (link for passage in passages for link in passage.links if link.relation in ("refers_to", "proof_uses"))
    outside = {link.label for link in links} - {label.name for label in labels}
    if not outside:
        return {}
    found = referring_macros(paper.flat.text, paper.flat.body, paper.macros, outside)
    return dict([(label, macro) for label, macro in sorted(found.items()) if macro != "ref"][:_MOST_REFERRING])


_MOST_REFERRING = 2_000
_EXTERNAL = re.compile(r"\\externaldocument\s*(?:\[([^\]]{0,200})\])?\s*(?:\[[^\]]{0,2000}\])?\s*\{([^{}]*)\}")


def _prefixes(text: str, document: str) -> dict[str, str]:
    """Prefixes of the labels of other documents (`\\externaldocument`)."""
    folder = posixpath.dirname(document)
    return {
        prefix.strip(): posixpath.normpath(posixpath.join(folder, name.strip()))
        for prefix, name in _EXTERNAL.findall(text)
        if name.strip()
    }


def _without_self_links(passages: Iterable[Passage], labels: Iterable[Label]) -> list[Passage]:
    """The passages without links to labels inside themselves or their own proofs."""
    targets = {label.name: label.target for label in labels}
    return [
        replace(passage, links=tuple(link for link in passage.links if targets.get(link.label) != passage.id))
        if any(targets.get(link.label) == passage.id for link in passage.links)
        else passage
        for passage in passages
    ]


# ---------------------------------------------------------------- papers that are a PDF in a wrapper

_INCLUDED_PDF = re.compile(r"\\includepdf(?:merge)?(?![a-zA-Z])\s*(?:\[[^\]]{0,2000}\])?\s*\{([^{}]*)\}")
_WRAPPER_TEXT = 1000  # characters besides the abstract; a paper with more has text of its own


def _included_pdfs(
    paper: PaperState, main: str, read: Callable[[str], bytes | None], own: Sequence[Passage]
) -> list[Reading]:
    """The PDF files that a paper includes, if it has little text of its own; PDF files that are not read are skips."""
    calls: dict[str, int] = {}  # path: offset
    for call in _INCLUDED_PDF.finditer(paper.flat.text, paper.flat.body):
        for name in call[1].split(",")[: 1 if "merge" not in call[0][:20] else None]:
            path = posixpath.normpath(posixpath.join(posixpath.dirname(main), name.strip()))
            calls.setdefault(path if path.lower().endswith(".pdf") else path + ".pdf", call.start())
    readings: list[Reading] = []
    is_wrapper = sum(len(passage.text) for passage in own if passage.kind != "abstract") < _WRAPPER_TEXT
    options = paper.options
    for path, offset in calls.items():
        if not is_wrapper:
            paper.skip(offset, f"the included {path} is not read, as the paper has text of its own")
            continue
        data = read(path)
        if data is None:
            paper.skip(offset, f"the text is in {path}, which does not exist or is too large")
            continue
        try:
            reading = read_pdf(data, paper.document, path, size=options.chunk_size, overlap=options.chunk_overlap)
        except (InputError, MissingExtra) as error:
            cause = error.cause if isinstance(error, InputError) else error
            paper.skip(offset, f"the text is in {path}: {cause}")
        else:
            paper.skips += reading.skips
            readings += [reading] if reading.documents else []
    return readings


# ---------------------------------------------------------------- one paper


def read_paper(
    read: Callable[[str], bytes | None],
    main: Main,
    document: str,
    options: PaperOptions | None = None,
    *,
    preamble: str = "",
    beside: Sequence[str] = (),
) -> Reading:
    """Read one paper; `read` returns the bytes of a path inside its project, or None.

    `preamble` holds definitions that come before those of the paper; `beside` are `.bib` files for a paper that
    names no bibliography. Raises FileNotFoundError when the main file is missing.
    """
    files: dict[str, str] = {}
    texts: dict[str, str | None] = {}

    def read_bytes(path: str) -> bytes | None:
        data = read(path)
        files[path] = "" if data is None else hashlib.sha256(data).hexdigest()
        return data

    def read_text(path: str) -> str | None:
        if path not in texts:
            data = read_bytes(path)
            texts[path] = None if data is None else decode(data)
        return texts[path]

    paper = open_paper(read_text, main, document, options, preamble)
    flat, macros, structure, skips = paper.flat, paper.macros, paper.structure, paper.skips
    start = len(preamble) + 1 if preamble and flat.text else 0
    structure.apart += (call.span() for call in _INCLUDED_PDF.finditer(flat.text, flat.body))
    structure.apart.sort()
    paper.targets = read_targets(flat.text, flat.body, structure, paper.title, paper.numbers)
    record, names = read_front_matter(flat, start, document, main, macros)
    record = with_contents(record, paper)
    passages = [*_abstracts(paper), *_statements(paper), *read_chunks(paper)]
    chunk_count = sum(passage.kind == "chunk" for passage in passages)
    for pdf in _included_pdfs(paper, main.path, read_bytes, passages):
        own = pdf.documents[0]
        record = replace(record, title=record.title or own.title, authors=record.authors or own.authors)
        passages += (
            replace(passage, id=f"{document}@{number}") for number, passage in enumerate(pdf.passages, chunk_count + 1)
        )
        chunk_count += len(pdf.passages)
    for offset, problem in structure.problems:
        paper.skip(offset, problem)
    if drawings := structure.drawings:
        several = f"{len(drawings):,} drawings were left out: their code is no text"
        paper.skip(drawings[0][0], several if len(drawings) > 1 else "1 drawing was left out: its code is no text")
    unexpanded = {name: why for name, why in macros.problems.items() if flat.text.find(f"\\{name}", flat.body) >= 0}
    if unexpanded:
        record = replace(record, metadata={**record.metadata, "unexpanded": unexpanded})
    references = read_references(flat.text, main.path, read_text, paper.cited, beside, macros.everything())
    prefixes = _prefixes(flat.text, document)
    if not passages:
        skips.append(Skip(main.path, 0, "it contains no text"))
    labels = _labels(paper)
    passages, (record,) = with_labels(passages, paper, labels), with_labels([record], paper, labels)
    labels = [*names, *labels, *numbered_names(paper, passages, labels)]
    if referring := _referring(paper, passages, labels):
        record = replace(record, metadata={**record.metadata, REFERRING: referring})
    return Reading(
        documents=[record],
        passages=_without_self_links(passages, labels),
        labels=labels,
        references={document: references} if references else {},
        prefixes={document: prefixes} if prefixes else {},
        skips=skips,
        files=files,
    )


def open_paper(
    read: Callable[[str], str | None],
    main: Main,
    document: str,
    options: PaperOptions | None = None,
    preamble: str = "",
) -> PaperState:
    """A paper as one text with its structure and its numbers; `read` returns the text of a path, or None."""
    flat = write_out_shorthands(flatten(read, main.path, main.format_file))
    skips = [Skip(*missing) for missing in flat.missing]
    if preamble and flat.text:
        flat, _ = flat.edit([(0, 0, preamble + "\n")])
    flat, macros, kinds, openings = _prepare(flat)
    list_styles = read_lists(flat.text, openings, (name for name, kind in kinds.items() if kind.kind))
    structure = read_structure(
        flat.text, flat.body, kinds, lambda part, at: expand(part, macros.at(at)) if "\\" in part else part
    )
    attach_footnotes(flat.text, flat.body, structure)
    definitions = [(s.begin, s.end) for s in structure.statements if s.kind == "definition"]
    wrap_term_macros(macros, flat.text, definitions)
    paper = PaperState(document, flat, macros, structure, options or PaperOptions(), skips, list_styles, kinds)
    number_paper(paper, openings, main.path, read)
    return paper


def _prepare(flat: Flat) -> tuple[Flat, Definitions, dict[str, Kind], dict[str, Opening]]:
    """Read the definitions, remove them from the body, and expand the macros that carry structure."""
    flat, macros = _with_generated_definitions(flat)
    if macros.setters:  # what they define belongs to the definitions
        flat, _ = flat.edit(_expanded_calls(flat, macros.setters, macros))
        macros = read_definitions(flat.text)
    environments, environment_spans = read_environments(flat.text)
    kinds = read_kinds(flat.text, environments)
    macros.spans += environment_spans
    macros.entries[:0] = [(0, name, Macro(*opening), False) for name, opening in _commands(flat, environments)]
    macros.settle(flat.body)
    edits = [(b, e, "") for b, e in set(macros.spans) if b >= flat.body]
    calls = read_calls_of_statements(flat.text, flat.body, macros, environments, kinds)
    kinds |= calls
    environments |= {name: kind.opening for name, kind in calls.items()}
    chosen = structural(macros.everything(), kinds.keys() | NUMBERED)
    chosen = {name: macro for name, macro in chosen.items() if name not in calls}
    edits += _expanded_calls(flat, chosen, macros, edits)
    edits += _headings_of_environments(flat, environments)
    edits += _displays_of_environments(flat, environments)
    edits += _titles_of_boxes(flat, {name: box for name, box in environments.items() if name not in kinds})
    flat = _edited(flat, macros, edits)
    flat = _edited(flat, macros, calls_as_environments(flat.text, flat.body, calls))
    edits = []
    for label in _COMPUTED_LABEL.finditer(flat.text, flat.body):
        name = expand(label[1], macros.at(label.start()))
        edits.append((*label.span(1), name))
    return _edited(flat, macros, edits), macros, kinds, environments


def _edited(flat: Flat, macros: Definitions, edits: Iterable[tuple[int, int, str]]) -> Flat:
    """The text after those of the edits that are disjoint; the definitions move with it."""
    disjoint: list[tuple[int, int, str]] = []
    for edit in sorted(edits):
        if not disjoint or edit[0] >= disjoint[-1][1]:
            disjoint.append(edit)
    if disjoint:
        flat, moved = flat.edit(disjoint)
        macros.entries = [(moved(offset), *rest) for offset, *rest in macros.entries]  # type: ignore[misc]
        macros.settle(flat.body)
    return flat


_HEADING = re.compile(r"\\(?:part|chapter|(?:sub)*section)(?![a-zA-Z])\*?(?=\s*\{)")


def _begins(flat: Flat, name: str, opening: Opening) -> Iterator[tuple[re.Match[str], list[str], int]]:
    r"""Each `\begin` of an environment with all of its arguments, and the offset after them."""
    for begin in re.compile(r"\\begin\s*\{" + re.escape(name) + r"\}").finditer(flat.text, flat.body):
        values, end = read_values(flat.text, begin.end(), opening.arguments, SHORT)
        if len(values) == len(opening.arguments):
            yield begin, values, end


def _headings_of_environments(flat: Flat, openings: dict[str, Opening]) -> list[tuple[int, int, str]]:
    r"""Edits that write the heading of `\begin{chapterpage}{Title}` in front of it, and take it out of its opening."""
    edits: list[tuple[int, int, str]] = []
    for name, opening in list(openings.items()):
        heading = _HEADING.search(opening.text)
        title = read_argument(opening.text, heading.end()) if heading else None
        if heading is None or title is None or any(kind != "m" for kind, _ in opening.arguments):
            continue
        openings[name] = opening._replace(text=opening.text[: heading.start()] + opening.text[title[1] :])
        for begin, values, _ in _begins(flat, name, opening):
            edits.append((begin.start(), begin.start(), f"{heading[0]}{{{fill(title[0], values)}}}"))
    return edits


_OPENS_DISPLAY = re.compile(
    r"\s*(?:\\begin\s*\{([a-zA-Z*]+)\}|\\csname\s*([a-zA-Z*]+)\\endcsname|\\([a-zA-Z]+)|(?P<brackets>\\\[|\$\$))\s*"
)


def _displays_of_environments(flat: Flat, openings: Mapping[str, Opening]) -> list[tuple[int, int, str]]:
    r"""Edits that write `\begin{myequation}`, where it only opens a display of LaTeX, as `\begin{equation}`."""
    displays: dict[str, str] = {}
    for name, opening in openings.items():
        opened = _OPENS_DISPLAY.fullmatch(opening.text)
        if opened is None or opening.arguments or name in MATH:
            continue
        display = "displaymath" if opened["brackets"] else opened[opened.lastindex or 0]
        if (display := displays.get(display, display)) in MATH:
            displays[name] = display
    if not displays:
        return []
    names = re.compile(r"\\(?:begin|end)\s*\{(" + "|".join(map(re.escape, displays)) + r")\}")
    return [(*found.span(1), displays[found[1]]) for found in names.finditer(flat.text, flat.body)]


_BOX_TITLE = re.compile(
    r"\\begin\{tcolorbox\}\[(?:.*,)?\s*title\s*=\s*(?:\{((?:[^{}]|\{[^{}]*\})*)\}|([^,\]]*))", re.DOTALL
)
_FRAME = re.compile(r"\\begin\s*\{(?:mdframed|tcolorbox|framed|shaded|leftbar)\}")
_IN_BOLD = re.compile(r"\\textbf\s*(?=\{)")


def _title_of_box(opening: Opening) -> str:
    """The title with which an environment opens a frame, with `#1` for its argument; empty where it has none."""
    if title := _BOX_TITLE.match(opening.text):
        return title[1] or title[2] or ""
    if len(opening.arguments) != 1 or not _FRAME.search(opening.text):
        return ""
    return next((title for _, title, _ in read_calls(_IN_BOLD, opening.text, SHORT) if "#1" in title), "")


def _titles_of_boxes(flat: Flat, openings: Mapping[str, Opening]) -> list[tuple[int, int, str]]:
    r"""Edits that write the title of a box of the paper's own as its option: `\begin{note}{A}` as `[title={A}]`."""
    edits = []
    for name, opening in openings.items():
        title = _title_of_box(opening)
        if "#" not in title:
            continue
        for begin, values, end in _begins(flat, name, opening):
            if "title" not in flat.text[begin.end() : end]:
                edits.append((begin.end(), end, f"[title={{{fill(title, values)}}}]"))
    return edits


_COMPUTED_LABEL = re.compile(r"\\label\s*\{([^{}]*\\[a-zA-Z@][^{}]*)\}")
_MOST_ROUNDS = 6  # of macros that define macros that define macros
_MOST_GENERATED = 300_000  # characters of definitions that macros make in one round
_MOST_GROWTH = 20_000_000  # characters that macros with structure may add to a paper


def _commands(flat: Flat, environments: Mapping[str, Opening]) -> Iterator[tuple[str, Opening]]:
    r"""The environments that only put their argument in a font and are called like macros: `\name{…}`."""
    for name, opening in environments.items():
        is_plain = opening.arguments and not re.search(r"\\(?:begin|label|refstepcounter)\b", opening.text)
        if is_plain and flat.text.find(f"\\{name}{{", flat.body) >= 0:
            yield name, opening


def _with_generated_definitions(flat: Flat) -> tuple[Flat, Definitions]:
    """The text with definitions that macros and loops make written out, and all its definitions."""
    for _ in range(_MOST_ROUNDS):
        if edits := plain_names(flat.text):
            flat, _ = flat.edit(edits)
        macros = read_definitions(flat.text)
        chosen = generators(macros)
        spans = [(*span, "") for span in macros.spans]
        edits = written_loops(flat.text, chosen.keys()) or _expanded_calls(flat, chosen, macros, spans, start=0)
        edits = [(begin, end, written) for begin, end, written in edits if written != flat.text[begin:end]]
        if not edits:
            break
        flat, _ = flat.edit(edits)
    return flat, read_definitions(flat.text) if edits else macros


def _expanded_calls(
    flat: Flat,
    chosen: Mapping[str, Macro],
    macros: Definitions,
    definitions: Iterable[tuple[int, int, str]] = (),
    *,
    start: int | None = None,
) -> list[tuple[int, int, str]]:
    """The calls of the chosen macros outside definitions, expanded, as ascending edits."""
    if not chosen:
        return []
    edits: list[tuple[int, int, str]] = []
    starts = sorted((begin, end) for begin, end, _ in definitions)
    calls = re.compile(r"\\(" + "|".join(map(re.escape, chosen)) + r")(?![a-zA-Z@])")
    known = macros.everything()  # also those without arguments that the chosen ones call
    called = {name for macro in chosen.values() for name in WORD.findall(macro.body) if name not in chosen}
    called = {name for name in called if name in known and not known[name].takes_arguments}
    failures = growth = at = 0
    for call in calls.finditer(flat.text, flat.body if start is None else start):
        begin = call.start()
        before = bisect_right(starts, (begin, len(flat.text))) - 1
        if begin < at or (before >= 0 and begin < starts[before][1]):
            continue
        arguments = read_call(chosen[call[1]], flat.text, call.end())
        if arguments is not None and growth < (_MOST_GROWTH if start is None else _MOST_GENERATED):
            at = arguments[1]
            here = macros.at(begin)
            usable = {**{name: here[name] for name in called if name in here}, **chosen}
            edits.append((begin, at, expand(flat.text[begin:at], usable, macros.problems)))
            growth += len(edits[-1][2]) - (at - begin)
        elif (failures := failures + 1) == MOST_FAILURES:
            break
    return edits


# ---------------------------------------------------------------- packages

_COLLECTION = 10  # more main files than this make a collection of papers, not a paper with leftovers


def read_package_papers(
    files: Mapping[str, bytes],
    document: str,
    options: PaperOptions | None = None,
    *,
    single_paper: bool = True,
    preamble: str = "",
    load: Callable[[str], bytes | None] = lambda _: None,
) -> Iterator[Reading]:
    """The papers in an archive: one, with the best main file, or each of a collection.

    Several complete papers, or main files that include the same preamble (the chapters of a book), make a
    collection, unless the package is known to be a single paper, as those from arXiv are; there each other complete
    paper is a skip. The documents of a collection are named after their paths, below `document` unless that is
    empty. `load` returns a file of the archive that is not among `files`: the PDF that a paper includes.
    """

    def read(path: str) -> bytes | None:
        return load(path) if path not in files and path.lower().endswith(".pdf") else files.get(path)

    bibliographies = bibliographies_by_folder(files)

    def paper(main: Main, identity: str) -> Reading:
        beside = bibliographies_beside(main.path, bibliographies)
        return read_paper(read, main, identity, options, preamble=preamble, beside=beside)

    texts = {name: decode(data) for name, data in files.items()}
    tex_files = read_tex_files(texts)
    ranked = rank_mains(texts, tex_files)
    if not ranked:
        yield Reading(skips=[Skip("", 0, "no TeX file in this package")])
        return
    mains = [
        candidate.path
        for candidate in ranked
        if candidate.score >= 3 and re.search(r"\\begin\{document\}|\\documentstyle", texts[candidate.path])
    ]
    complete = complete_papers(tex_files)
    books = wrappers(tex_files)
    mains = [path for path in mains if path not in books]
    parts = {path for path in mains if complete and tex_files[path].is_part}
    mains = [path for path in mains if path not in parts]
    stale = {path: newer for path in complete if (newer := stale_copy_of(path, complete))}
    declared = ranked[0].score >= 50  # by a file such as 00README
    is_collection = not single_paper and not declared
    if is_collection and (len(mains) > _COLLECTION or _share_preamble(mains, texts)):
        collection = sorted({*mains, *complete} - stale.keys())
    else:
        collection = [path for path in complete if path not in stale] if is_collection else []
    same = [Skip(path, 0, f"same book as {paths[0]}") for paths in books.values() for path in paths[1:]]
    if len(collection) > 1:
        for path in collection:
            name = posixpath.splitext(path)[0]
            yield paper(Main(path), f"{document}/{name}" if document else name)
        skips = [Skip(path, 0, f"looks like an old copy of {newer}") for path, newer in stale.items()]
        if skips or same:
            yield Reading(skips=[*skips, *same])
        return
    path = ranked[0].path
    if not declared and path in books:
        path = books[path][0]
    runners_up = tuple(candidate.path for candidate in ranked[1:4])
    candidates = {each.path: tex_files[each.path] for each in ranked}
    main = Main(path, confidence(ranked), runners_up, format_file_of(path, candidates))
    reading = paper(main, document or posixpath.splitext(main.path)[0])
    others = (path for path in complete if path != main.path)
    skips = [Skip(path, 0, "it is not the main file of this package") for path in others]
    skips += same
    skips += (Skip(path, 0, "no main file includes it") for path in sorted(parts - reading.files.keys()))
    yield replace(reading, skips=[*reading.skips, *skips])


def _share_preamble(mains: Iterable[str], texts: Mapping[str, str]) -> bool:
    """Whether two main files include the same file in their preambles."""
    heads = (texts[path].partition("\\begin{document}")[0] for path in mains)
    includes = Counter(name for head in heads for name in set(re.findall(r"\\input\s*\{?\s*([\w./-]+)", head)))
    return any(count > 1 for count in includes.values())
