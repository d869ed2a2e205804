"""Compare two versions of lemmata: what they read, what they find and what they cost.

    python -m bench.gate BEFORE AFTER [--data DIR] [--only WORD …] [--json FILE]

BEFORE and AFTER are checkouts (folders with src/lemmata) or programs of installed versions. `--only` takes parts
(reading, quality, speed) and cases (see --help). Without --data, the examples alone are compared. What was measured
of a version is kept in the work folder, by the content of its files, and used again; a run that was stopped goes on.

Passes where at least 99.5 % of the facts of each category of each case are the same; where no 95 % interval of a
paired difference of nDCG@10 lies below 0, and no mean falls by more than 0.01; and where no step takes more than 1.5
times as long or as much memory. Exit code 1 where it does not.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.gate import quality, reading, speed
from bench.gate.cases import EXAMPLES, NAMES, Case, make_case
from bench.gate.checkout import Checkout, GateError

PARTS = ("reading", "quality", "speed")
SPEED_CASE, SPEED_WITHOUT_DATA = "stacks-cut", "qseries"
LISTED = 12  # differences of a category on the console; the JSON has more
KEPT = 200
# names how this program measures, so that nothing is used again that was measured otherwise
_OWN_CODE = hashlib.sha256(
    b"".join((Path(__file__).parent / f"{name}.py").read_bytes() for name in ("cases", "reading", "quality"))
).hexdigest()[:8]


# ---------------------------------------------------------------- one version, one case


def results_of(checkout: Checkout, case: Case, parts: Sequence[str], work: Path) -> dict[str, Any]:
    """What a version read and found in a case; made where it is not kept from before."""
    key = hashlib.sha256(f"{checkout.name} {checkout.key} {case!r} {_OWN_CODE}".encode()).hexdigest()[:16]
    wanted = {"reading": case.reading and "reading" in parts, "quality": bool(case.tasks) and "quality" in parts}
    kept = {part: work / "kept" / f"{case.name}-{part}-{key}.json.gz" for part, asked in wanted.items() if asked}
    missing = {part for part, path in kept.items() if not path.exists()}
    if missing:
        folder = work / f"{case.name}-{checkout.name}-{checkout.key}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        begin = time.perf_counter()
        for part, result in _make(checkout, case, missing, folder):
            kept[part].parent.mkdir(parents=True, exist_ok=True)
            partial = kept[part].with_suffix(".partial")
            with gzip.open(partial, "wt", encoding="utf-8") as stream:
                json.dump(result, stream)
            partial.rename(kept[part])
        say(f"{checkout.name} {case.name}: {time.perf_counter() - begin:.0f} s")
        shutil.rmtree(folder)
    return {part: json.loads(gzip.decompress(path.read_bytes())) for part, path in kept.items()}


def _make(checkout: Checkout, case: Case, parts: set[str], folder: Path) -> Iterable[tuple[str, Any]]:
    """The parts that are asked for, each as soon as it is measured."""
    workspace = folder / "workspace"
    there = ("-w", workspace)
    checkout.run("init", workspace)
    checkout.run("ingest", *case.sources, *case.ingest, *there)
    checkout.run("graph", "build", *there)
    if case.linked:
        checkout.run("graph", "link", *there)
    if "reading" in parts:
        yield "reading", reading.digests(reading.read_facts(checkout, workspace, folder))
    if "quality" in parts:
        yield "quality", quality.measure(checkout, case, workspace, folder)


# ---------------------------------------------------------------- both


def compare(before: Checkout, after: Checkout, options: argparse.Namespace) -> dict[str, Any]:
    """All comparisons, each with its verdict."""
    work, parts = options.work, [part for part in PARTS if not options.parts or part in options.parts]
    out = work / "data"
    out.mkdir(parents=True, exist_ok=True)
    cases = [make_case(name, options.data, out) for name in options.cases]
    cases = [case for case in cases if (case.reading and "reading" in parts) or (case.tasks and "quality" in parts)]
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = [[pool.submit(results_of, each, case, parts, work) for each in (before, after)] for case in cases]
        try:
            pairs = [[future.result() for future in both] for both in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    record: dict[str, Any] = {"before": before.commit, "after": after.commit, "failures": []}
    record["reading"], record["quality"], record["speed"] = [], [], []
    for case, (old, new) in zip(cases, pairs, strict=True):
        if "reading" in old:
            comparisons, differences = reading.compare(case.name, old["reading"], new["reading"])
            for each in comparisons:
                listed = [held._asdict() for held in differences if held.category == each.category]
                row = {**each._asdict(), "share": round(each.share, 5), "passes": each.passes}
                record["reading"].append(row | ({"differences": listed[:KEPT]} if listed else {}))
        if "quality" in old:
            for found in quality.compare(case.name, old["quality"], new["quality"]):
                record["quality"].append({**found._asdict(), "difference": found.difference, "passes": found.passes})
    if "speed" in parts and not options.unmeasured:
        name = SPEED_CASE if SPEED_CASE in options.cases else SPEED_WITHOUT_DATA
        measured = speed.measure((before, after), make_case(name, options.data, out), work / "speed")
        record["speed"] = [{**each._asdict(), "ratio": each.ratio, "passes": each.passes} for each in measured]
    for part in PARTS:
        record["failures"] += [f"{part}: {_name(part, row)}" for row in record[part] if not row["passes"]]
    return record


def _name(part: str, row: dict[str, Any]) -> str:
    names = {"reading": ("case", "category"), "quality": ("case", "task", "retriever"), "speed": ("step",)}
    return " ".join(row[key] for key in names[part])


# ---------------------------------------------------------------- what is printed


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def report(record: dict[str, Any]) -> None:
    """Tables of everything that changed, and the verdict."""
    if rows := record["reading"]:
        same, everything = sum(row["same"] for row in rows), sum(max(row["before"], row["after"]) for row in rows)
        print(f"\nReading: {same:,} of {everything:,} facts are the same, {len(rows)} categories of cases")
        for row in rows:
            if row["same"] < max(row["before"], row["after"]):
                print(
                    f"{_sign(row)} {row['case']:16} {row['category']:16} {row['before']:>8,} → {row['after']:>8,}"
                    f"  same {row['share']:.2%}"
                )
                for each in row["differences"][:LISTED]:
                    print(f"      {each['place']} {each['about']}: {_change(each['before'], each['after'])}")
    if rows := record["quality"]:
        print(f"\nQuality, nDCG@10: {sum(not row['difference'] for row in rows)} of {len(rows)} comparisons are equal")
        for row in rows:
            if row["difference"] or row["other_queries"] or not row["passes"]:
                low, high = row["interval"]
                print(
                    f"{_sign(row)} {_name('quality', row):52} {row['before']['nDCG@10']:.3f} → "
                    f"{row['after']['nDCG@10']:.3f}  {row['difference']:+.4f} [{low:+.4f}, {high:+.4f}]  "
                    f"{row['better']} better, {row['worse']} worse of {row['queries']}"
                    + (f", {row['other_queries']} other queries" if row["other_queries"] else "")
                )
    if rows := record["speed"]:
        print("\nSpeed and memory: the least of three")
        for row in rows:
            before, after = f"{row['before']:.4g}", f"{row['after']:.4g}"
            print(f"{_sign(row)} {row['step']:28} {before:>8} → {after:>8} {row['unit']:10} {row['ratio']:.2f} ×")
    failures = record["failures"]
    print(f"\n{record['before']} → {record['after']}: " + ("passes" if not failures else f"{len(failures)} failures"))
    for failure in failures:
        print(f"  {failure}")


def _sign(row: dict[str, Any]) -> str:
    return " " if row["passes"] else "✗"


def _change(before: str | None, after: str | None) -> str:
    """What a value was and is, from the first character that differs."""
    if before is None or after is None:
        return "only after" if before is None else "only before"
    first = next((at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    start = max(0, first - 15)
    return f"{before[start : first + 45]!r} → {after[start : first + 45]!r}"


# ---------------------------------------------------------------- the command line


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gate",
        description=__doc__,
        epilog=f"cases: {' '.join(NAMES)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--data", type=Path, help="the folder of data sets")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="parts and cases")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "lemmata-gate", metavar="DIR")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="workspaces at the same time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all comparisons here")
    options = parser.parse_args()
    if unknown := set(options.only) - {*PARTS, *NAMES}:
        parser.error(f"--only {' '.join(sorted(unknown))}: neither a part ({', '.join(PARTS)}) nor a case")
    options.parts = [word for word in options.only if word in PARTS]
    named = [name for name in NAMES if name in options.only]
    options.cases = named or (list(NAMES) if options.data else list(EXAMPLES))
    options.unmeasured = bool(named) and "speed" not in options.parts
    try:
        record = compare(Checkout(options.before, "before"), Checkout(options.after, "after"), options)
    except GateError as error:
        sys.exit(f"the gate cannot be run: {error}")
    report(record)
    if options.json:
        options.json.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
    sys.exit(bool(record["failures"]))


if __name__ == "__main__":
    main()
