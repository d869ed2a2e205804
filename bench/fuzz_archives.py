"""Mutate real archives and check that their readers raise no errors but the allowed ones.

    python bench/fuzz_archives.py ARCHIVE_OR_FOLDER... [--mutations 10000] [--seed 1] [--seconds-each 10]

Each mutant is alone in a temporary folder. A target fails with any other exception, where it takes too long or too
much memory, and where it writes a file, opens a connection or starts a process. Prints counts as one JSON document;
the exit code is 1 where something failed. `--only INDEX` runs one mutant again.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import json
import lzma
import os
import random
import resource
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from lemmata.archives import read_package, sniff
from lemmata.errors import InputError
from lemmata.ingest.sources import IngestOptions, find_units, read_unit


def read_all(path: Path) -> None:
    """Read all members of an archive; no name may leave it."""
    package = read_package(path, lambda _: True)
    for name in package.files:
        if {"", ".", ".."} & set(name.split("/")) or "\0" in name:
            raise AssertionError(f"the name {name!r} was not refused")


def read_papers(path: Path) -> None:
    """Read an archive into records, as `lemmata ingest` does."""
    options = IngestOptions()
    for unit in find_units(path, options).units:
        for reading in read_unit(path.parent, unit, options):
            assert all(passage.text for passage in reading.passages)


TARGETS: dict[str, Callable[[Path], None]] = {"papers": read_papers, "read_package": read_all}
ALLOWED = (InputError,)
LARGE = 1 << 18  # bytes; larger archives are drawn rarely
ADDRESS_SPACE = 4 << 30  # bytes; larger allocations fail

# ---------------------------------------------------------------- seed archives


class Seed(NamedTuple):
    """A real archive, and its uncompressed tar where it has one."""

    name: str
    packed: bytes
    tar: bytes


UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "xz": lzma.decompress,
    "bzip2": bz2.decompress,
    "zstd": lambda packed: zstandard.ZstdDecompressor().decompressobj().decompress(packed),
    "tar": bytes,
}
PACK: list[Callable[[bytes], bytes]] = [
    lambda tar: gzip.compress(tar, 1),
    lambda tar: gzip.compress(tar, 1),
    lambda tar: lzma.compress(tar, preset=0),
    lambda tar: bz2.compress(tar, 1),
    lambda tar: bytes(zstandard.compress(tar, 1)),
    bytes,
]


def read_seeds(paths: list[Path]) -> list[Seed]:
    """All archives below the paths, and each tar also as a zip."""
    seeds = []
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    for path in sorted(file for file in files if not file.is_dir()):
        packed = path.read_bytes()
        kind = sniff(packed[:512])
        if kind in UNPACK:
            tar = UNPACK[kind](packed)
            tar = tar if sniff(tar[:512]) == "tar" else b""
            seeds.append(Seed(path.name, packed, tar))
            if tar:
                seeds.append(Seed(path.name + ".zip", as_zip(tar), tar))
        elif kind == "zip":
            seeds.append(Seed(path.name, packed, b""))
    return seeds


def as_zip(tar: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(tar)) as source, zipfile.ZipFile(buffer, "w") as archive:
        for number, member in enumerate(source):
            content = source.extractfile(member) if member.isfile() else None
            if content:
                archive.writestr(
                    member.name, content.read(), zipfile.ZIP_DEFLATED if number % 3 else zipfile.ZIP_STORED
                )
    return buffer.getvalue()


def inside_zip(name: str, packed: bytes) -> bytes:
    """An intact zip with an archive as a member."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("whole.tex", b"whole")
        archive.writestr(name, packed)
    return buffer.getvalue()


# ---------------------------------------------------------------- mutations of bytes

NUMBERS = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]
TOKENS = [
    *(rb"\input{", rb"\begin{theorem}", rb"\end{", rb"\label{", rb"\cite{,,}", rb"\verb|", rb"\[", b"\\"),
    *(rb"\def\a{\a\a}\a", rb"\newcommand{\x}[9]{#1#1}", b"{" * 50, b"}", b"$", b"$$", b"%"),
    *(b"\0", b"\r", b"\xff\xfe", b"\xe2\x80"),
]


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8, 64])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite_run(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    size = min(rng.choice([1, 4, 16, 512, 4096]), len(data) - start)
    run = rng.choice([bytes(size), b"\xff" * size, rng.randbytes(size)])
    return data[:start] + run + data[start + size :]


def truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def delete_run(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.choice([1, 3, 512, 5000]) :]


def insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    piece = rng.choice([rng.randbytes(rng.randrange(1, 600)), bytes(512), data[at : at + 700], rng.choice(TOKENS)])
    return data[:at] + piece + data[at:]


BYTES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "bits": flip_bits,
    "run": overwrite_run,
    "truncation": truncate,
    "deletion": delete_run,
    "insertion": insert,
}


def edit_bytes(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        data = rng.choice(list(BYTES.values()))(data or b"\0", rng)
    return data


# ---------------------------------------------------------------- mutations of fields

NAMES = [
    b"../../x.tex",
    b"/etc/x.tex",
    b"C:\\x.tex",
    b"a\nb",
    b"\xff\xfe.tex",
    b"",
    b".",
    b"..",
    b"a/" * 49,
    b"x" * 100,
]
SIZES = [
    b"\x80" + b"\xff" * 11,
    b"\xff" * 12,
    b"77777777777\0",
    b"-0000000001\0",
    b"99999999999\0",
    b" " * 12,
    bytes(12),
]
KINDS = [bytes([kind]) for kind in b"01234567xXgLKSNVMDA\0\xff"]


def edit_tar_header(tar: bytes, rng: random.Random) -> bytes:
    """Change one field of one header and correct the checksum."""
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        starts = [member.offset for member in archive]
    start = rng.choice(starts)
    header = bytearray(tar[start : start + 512])
    field, values = rng.choice(
        [((0, 100), NAMES), ((124, 136), SIZES), ((156, 157), KINDS), ((345, 500), NAMES), ((257, 265), [])]
    )
    value = rng.choice(values) if values else rng.randbytes(field[1] - field[0])
    if field == (124, 136) and rng.random() < 0.5:
        value = b"%011o\0" % (
            int(header[124:135].strip(b" \0") or b"0", 8) + rng.choice([-1, 1, 511, 512, 1 << 20]) & 0o77777777777
        )
    header[slice(*field)] = value.ljust(field[1] - field[0], b"\0")
    if rng.random() < 0.2:
        header[482] = rng.randrange(2)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return tar[:start] + bytes(header) + tar[start + 512 :]


def edit_extended_header(tar: bytes, rng: random.Random) -> bytes:
    """Insert an extended header, valid or not, before a member."""
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        start = rng.choice([member.offset for member in archive])
    key = rng.choice(["path", "size", "GNU.sparse.name", "GNU.sparse.map", "linkpath", "hdrcharset", "x"])
    value = rng.choice(["../a.tex", "9" * rng.randrange(1, 30), "-1", "", "\0", "ö" * 600, "1,2,3", "BINARY"])
    text = f" {key}={value}\n".encode()
    text = str(len(text) + rng.choice([1, 2, 2, 2, 3, 3, 99, 10**9])).encode() + text
    member = tarfile.TarInfo("extended")
    member.type = rng.choice([b"x", b"x", b"g", b"L", b"K", b"X"])
    member.size = rng.choice([len(text), len(text), len(text) + 1, 1 << 30, 1 << 62])
    return (
        tar[:start] + member.tobuf(tarfile.GNU_FORMAT) + text.ljust(512 * (len(text) // 512 + 1), b"\0") + tar[start:]
    )


def edit_zip_header(packed: bytes, rng: random.Random) -> bytes:
    """Change a number near one of the signatures."""
    marks = [b"PK\1\2", b"PK\1\2", b"PK\3\4", b"PK\5\6"]
    starts = [at for mark in marks if (at := packed.find(mark, rng.randrange(len(packed)))) >= 0]
    start = rng.choice(starts or [0]) + rng.randrange(4, 46)
    size = rng.choice([1, 2, 2, 4, 4])
    value = rng.choice([*NUMBERS, rng.randrange(1 << 32)]) % (1 << 8 * size)
    return packed[:start] + value.to_bytes(size, "little") + packed[start + size :]


def edit_text(tar: bytes, rng: random.Random) -> bytes:
    """Change the content of one member and keep its length, so that the tar stays intact."""
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        member = rng.choice([member for member in archive if member.isfile()] or [tarfile.TarInfo()])
    start, size = member.offset_data, member.size
    text = edit_bytes(tar[start : start + size], rng) if size else b""
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(text) + 1)
        token = rng.choice(TOKENS)
        text = text[:at] + token + text[at + len(token) :]
    return tar[:start] + text[:size].ljust(size, b"\0") + tar[start + size :]


def mutant(seeds: list[Seed], index: int, random_seed: int) -> tuple[Seed, str, bytes]:
    """The mutant with this number, the same for the same seed archives and random seed."""
    rng = random.Random(f"{random_seed}/{index}")
    small = [seed for seed in seeds if len(seed.packed) < LARGE] or seeds
    seed = rng.choice(seeds if rng.random() < 0.05 else small)
    kinds = [*BYTES, "splice"] + ["zip header"] * 4 * (sniff(seed.packed) == "zip")
    if seed.tar:
        kinds += ["tar header", "tar header", "extended header", "text", "text", "tar bytes", "tar splice"]
    kind = rng.choice(kinds)
    pack = rng.choice(PACK if len(seed.tar) < LARGE else PACK[:2])
    if kind in BYTES:
        repacked = seed.tar and len(seed.tar) < LARGE and rng.random() < 0.5  # in another compression
        return seed, kind, BYTES[kind](pack(seed.tar) if repacked else seed.packed, rng)
    if kind in ("splice", "tar splice"):
        other = rng.choice(small)
        head, tail = (seed.packed, other.packed) if kind == "splice" else (seed.tar, other.tar or other.packed)
        joined = head[: rng.randrange(len(head))] + tail[rng.randrange(len(tail)) :]
        return seed, kind, joined if kind == "splice" else pack(joined)
    if kind == "zip header":
        return seed, kind, edit_zip_header(seed.packed, rng)
    edits = {
        "tar header": edit_tar_header,
        "extended header": edit_extended_header,
        "text": edit_text,
        "tar bytes": edit_bytes,
    }
    return seed, kind, pack(edits[kind](seed.tar, rng))


# ---------------------------------------------------------------- side effects


class Hang(BaseException):
    """A BaseException, so that no target catches it by accident."""


CHANGES = {
    *("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod"),
    *("os.utime", "os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen"),
    *("socket.connect", "socket.bind"),
}
armed = False
side_effects: list[str] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook that records the side effects of a target."""
    if not armed:
        return
    if event == "open":
        flags = arguments[2]
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND):
            side_effects.append(f"opened {arguments[0]!r} for writing")
    elif event in CHANGES:
        side_effects.append(f"{event} {arguments!r}")


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    global armed

    def stop(*_: object) -> None:
        raise Hang(f"more than {seconds} seconds")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    armed = True
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)


def peak_memory() -> int:
    """Bytes of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def attempt(target: Callable[[Path], None], path: Path, seconds: float, memory: int) -> tuple[str, str]:
    """The outcome ("read", the name of an allowed error, or "FAILED") and the cause of a failure."""
    side_effects.clear()
    before = peak_memory()
    outcome, cause = "read", ""
    try:
        with watched(seconds):
            target(path)
    except ALLOWED as error:
        outcome = type(error).__name__
        if not str(error).strip() or "\n" in str(error):
            cause = f"not one sentence: {str(error)!r}"
    except (Exception, Hang) as error:
        cause = "".join(traceback.format_exception(error)[-3:])
    entries = sorted(entry.name for entry in path.parent.iterdir())
    if entries != [path.name]:
        cause = cause or f"left in the folder: {entries}"
    if peak_memory() > max(before, memory):
        cause = cause or f"took {peak_memory() >> 20} MiB of memory"
    if side_effects:
        cause = cause or "; ".join(side_effects)
    return ("FAILED", cause) if cause else (outcome, "")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="ARCHIVE_OR_FOLDER")
    parser.add_argument("--target", choices=sorted(TARGETS), default="papers")
    parser.add_argument("--mutations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds-each", type=float, default=10)
    parser.add_argument("--memory", type=int, default=512, help="MiB that the process may use above its start")
    parser.add_argument("--only", type=int, help="run only the mutant with this number")
    options = parser.parse_args()

    target = TARGETS[options.target]
    seeds = read_seeds(options.paths)
    if not seeds:
        parser.error("no archive in these paths")
    sys.dont_write_bytecode = True
    sys.addaudithook(watch)
    outcomes: Counter[str] = Counter()
    by_mutation: dict[str, Counter[str]] = {}
    failures: list[dict[str, Any]] = []
    slowest = (0.0, -1)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed"
        for seed in seeds:  # also imports everything that the target needs
            path.write_bytes(seed.packed)
            target(path)
        path.unlink()
        memory = peak_memory() + (options.memory << 20)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, resource.RLIM_INFINITY))
        for index in range(options.mutations) if options.only is None else [options.only]:
            seed, kind, data = mutant(seeds, index, options.seed)
            if index % 10 == 9:
                kind, data = f"{kind}, nested", inside_zip(seed.name, data)
            path = Path(folder) / seed.name
            path.write_bytes(data)
            began = time.monotonic()
            outcome, cause = attempt(target, path, options.seconds_each, memory)
            slowest = max(slowest, (time.monotonic() - began, index))
            path.unlink(missing_ok=True)
            outcomes[outcome] += 1
            by_mutation.setdefault(kind, Counter())[outcome] += 1
            if cause:
                failures.append({"index": index, "archive": seed.name, "mutation": kind, "cause": cause})
            if index % 1000 == 999:
                print(f"{index + 1} mutants, {len(failures)} failures", file=sys.stderr)
    report = {
        "target": options.target,
        "seeds": len(seeds),
        "outcomes": dict(sorted(outcomes.items())),
        "by_mutation": {kind: dict(sorted(counts.items())) for kind, counts in sorted(by_mutation.items())},
        "seconds": round(time.monotonic() - started, 1),
        "slowest": {"seconds": round(slowest[0], 3), "index": slowest[1]},
        "peak_mib": peak_memory() >> 20,
        "failures": failures[:50],
    }
    print(json.dumps(report, indent=1))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
