"""Opening what lies on disk: archives and compressed files, by content and never by name.

An archive is hostile until proven otherwise, so tar and zip are read here, piece by piece and within
limits, and never by the standard library's readers, which believe what a header claims before any limit
can be asked. Nothing is written to disk. It does not know what the files are for: the caller's `wanted` does.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import re
import stat
import struct
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

from lemmata.errors import ArchiveError
from lemmata.types import Skip

__all__ = ["Limits", "Package", "open_plain", "read_package", "sniff"]

_BLOCK = 512  # of a tar; also what `sniff` looks at
_INPUT = 4096  # bytes that go into a decompressor at once
_STEP = 2048  # bytes that come out at once: what is lost of the good bytes right before damage
_PIECE = 1 << 16
_FLOOR = 16 << 20  # small texts may compress better than any ratio
_NAME = 1024  # characters
_EXTENDED = 1 << 20  # bytes of one extended tar header
_ALL_EXTENDED = 16 << 20  # of all in one tar: their records are slow to read
_LEAST = 1024  # bytes that a piece counts for at least: streams cost time even where they are empty
_MEMORY = 256 << 20  # for the dictionary of xz
_COMPRESSIONS = ("gzip", "xz", "bzip2", "zstd")
_ARCHIVES = (*_COMPRESSIONS, "zip", "tar")
_SUFFIXES = {".gz", ".xz", ".bz2", ".zst", ".tgz", ".txz", ".tbz", ".tbz2", ".tzst"}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may come out of one archive, the archives inside it included."""

    total_bytes: int = 256 * 2**20  # of wanted members together, unpacked
    file_bytes: int = 64 * 2**20  # of one member
    files: int = 50_000  # members, wanted or not
    ratio: int = 200  # unpacked : packed, applied once more than 16 MiB came out
    nested: int = 1  # archives inside an archive


class Package(NamedTuple):
    """What an archive holds, in memory."""

    files: dict[str, bytes]  # by normalised relative posix name
    skips: list[Skip]


class _Damage(Exception):  # noqa: N818 - not an error yet: what came before it is kept
    """Bytes that are not what their format says, and the member they belong to, where that is known."""

    def __init__(self, cause: str, member: str = "") -> None:
        super().__init__(cause)
        self.member = member


# ---------------------------------------------------------------- what it is


def sniff(head: bytes) -> str:
    """What a file is, from its first 512 bytes: gzip, xz, bzip2, zstd, zip, tar, pdf, or "" for all else."""
    if head.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if head.startswith(b"\xfd7zXZ\0"):
        return "xz"
    if re.match(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", head):  # with the first block's mark: BZh alone is a word
        return "bzip2"
    if re.match(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", head):  # a frame, or one to be passed over
        return "zstd"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08PK\x03\x04", b"PK00PK\x03\x04")):
        return "zip"
    if head[257:262] == b"ustar" or (len(head) >= _BLOCK and _checksum_fits(head[:_BLOCK])):
        return "tar"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"%PDF-"):
        return "pdf"
    return ""


def _checksum_fits(header: bytes) -> bool:
    try:
        claimed = _number(header[148:156])
    except _Damage:
        return False
    rest = header[:148] + b" " * 8 + header[156:]
    return claimed == sum(rest) or claimed == sum(struct.unpack("512b", rest))  # ancient tars summed signed bytes


def _number(field: bytes) -> int:
    """A tar header's number: octal digits, or base 256 where its first bit is set."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    digits = field.split(b"\0", 1)[0].strip(b" ")
    if digits.strip(b"01234567"):
        raise _Damage(f"a number in a header reads {_printable(digits)}")
    return int(digits or b"0", 8)


# ---------------------------------------------------------------- decompression, piece by piece


class _Decompressor(Protocol):
    """What bz2 and lzma offer, and what the two classes below make of zlib and zstandard."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Deflate:
    def __init__(self, window: int) -> None:
        self._inner = zlib.decompressobj(window)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        unpacked = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail and len(unpacked) < max_length
        return unpacked


class _Zstandard:
    """zstandard knows no `max_length`: it gets 256 bytes at a time, at most 8 MiB of output."""

    def __init__(self) -> None:
        import zstandard

        self._error: type[Exception] = zstandard.ZstdError
        self._inner = zstandard.ZstdDecompressor(max_window_size=_MEMORY // 2).decompressobj()
        self._tail = b""

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def needs_input(self) -> bool:
        return not self._tail

    @property
    def unused_data(self) -> bytes:
        return bytes(self._inner.unused_data) + self._tail

    def decompress(self, data: bytes, max_length: int) -> bytes:  # noqa: ARG002 - see above
        data = self._tail + data
        self._tail = data[256:]
        try:
            return bytes(self._inner.decompress(data[:256]))
        except self._error as error:
            raise ValueError(str(error)) from error


def _decompressor(kind: str) -> _Decompressor:
    if kind == "gzip":
        return _Deflate(31)
    if kind == "deflate":
        return _Deflate(-15)
    if kind == "bzip2":
        return bz2.BZ2Decompressor()
    if kind == "xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    return _Zstandard()


def _decompressed(blocks: Iterator[bytes], kind: str) -> Iterator[tuple[int, bytes]]:
    """Pieces of at most some 64 KiB (zstd: 8 MiB), each with the number of packed bytes read so far.

    The first is small, for those who only want a look; a stream ends with its own, which may be empty.
    Streams that follow one another are one, as for gzip itself; zeros and garbage behind them are ignored.
    All good bytes come before the `_Damage`, but for the last `_STEP` (bzip2: its block).
    """
    decompressor = _decompressor(kind)
    packed, size, steps = 0, 0, list[bytes]()
    enough = _BLOCK
    damage = ""
    while True:
        data = b""
        if decompressor.eof:
            yield packed, b"".join(steps)
            size, steps = 0, []
            data = decompressor.unused_data.lstrip(b"\0")
            while len(data) < 16 and (block := next(blocks, b"")):
                packed += len(block)
                data = (data + block).lstrip(b"\0")
            if sniff(data) != kind:
                break
            decompressor = _decompressor(kind)
        elif decompressor.needs_input:
            data = next(blocks, b"")
            packed += len(data)
            if not data:
                damage = f"the {kind} data end too early, after {packed:,} bytes"
                break
        try:
            step = decompressor.decompress(data, _STEP)
        except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, MemoryError) as error:
            damage = f"the {kind} data are damaged near byte {packed:,} ({str(error) or 'out of memory'})"
            break
        if step:
            size += len(step)
            steps.append(step)
        if size >= enough:
            yield packed, b"".join(steps)
            size, steps, enough = 0, [], _PIECE
    if size:
        yield packed, b"".join(steps)
    if damage:
        raise _Damage(damage)


def _blocks(source: BinaryIO) -> Iterator[bytes]:
    while block := source.read(_INPUT):
        yield block


def _peeked(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first 512 bytes or what there is, and all the pieces again."""
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= _BLOCK:
            break
    return head[:_BLOCK], chain([head], pieces)


class _Stream(io.RawIOBase):
    """Pieces of bytes as a file; closing it closes the file that they come from."""

    def __init__(self, pieces: Iterator[bytes], source: BinaryIO | None = None) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
        super().close()


def open_plain(path: Path, limits: Limits = Limits()) -> BinaryIO:  # noqa: B008 - frozen
    """The bytes of a file, decompressed where it is compressed; everything else comes as it is.

    It may be of any size. Only what unpacks past `file_bytes` at ten times the ratio of an archive (logs
    compress well) is refused. That, and damage, show as an ArchiveError from `read`, where they are met.
    """
    source = path.open("rb")
    try:
        kind = sniff(source.peek(_BLOCK)[:_BLOCK])
    except BaseException:
        source.close()
        raise
    if kind not in _COMPRESSIONS:
        return source

    def pieces() -> Iterator[bytes]:
        unpacked = 0
        try:
            for packed, piece in _decompressed(_blocks(source), kind):
                unpacked += len(piece)
                if unpacked > max(limits.file_bytes, 10 * limits.ratio * packed):
                    raise ArchiveError(_bomb(10 * limits.ratio, packed, unpacked), file=str(path))
                yield piece
        except _Damage as damage:
            raise ArchiveError(str(damage), file=str(path)) from damage

    return cast(BinaryIO, io.BufferedReader(_Stream(pieces(), source), _PIECE))


def _bomb(ratio: int, packed: int, unpacked: int) -> str:
    return f"{packed:,} packed bytes unpack to {unpacked:,} and more; over {ratio:,} to 1 is refused"


# ---------------------------------------------------------------- names


def _printable(name: str | bytes) -> str:
    """A name that can be shown, whatever it holds."""
    text = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
    text = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:_NAME])
    return text[:200] + "…" if len(text) > 200 else text


def _normalised(name: str) -> tuple[str, str]:
    """`./a//b` as `a/b`, and why it must not be used, or ""."""
    if len(name) > _NAME:
        return _printable(name), f"its name has more than {_NAME:,} characters"
    kinds = {unicodedata.category(letter) for letter in name}
    if "Cs" in kinds:  # what `surrogateescape` makes of other bytes
        return _printable(name), "its name is not UTF-8"
    if "Cc" in kinds:
        return _printable(name), "its name holds control characters"
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:[\\/]", name):
        return _printable(name), "its name is an absolute path"
    if ".." in re.split(r"[\\/]", name):
        return _printable(name), "its name climbs out of the archive with .."
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return ("/".join(parts), "") if parts else (_printable(name), "it has no name")


def _original_name(head: bytes) -> str:
    """The file name in a gzip header, "" where there is none."""
    start = 10
    if len(head) < start or not head[3] & 8:
        return ""
    if head[3] & 4:  # extra fields come first
        start += 2 + int.from_bytes(head[10:12], "little")
    name, end, _ = head[start:].partition(b"\0")
    return name.decode("latin-1") if end else ""


def _single_name(head: bytes, file: str, content: str) -> str:
    """The name of what a bare compressed file holds; `content` is what `sniff` says of that."""
    path = PurePosixPath(file)
    while path.suffix.lower() in _SUFFIXES:
        path = path.with_suffix("")
    names = (_original_name(head) if sniff(head) == "gzip" else "", path.name, "file")
    name = next(name for name in names if not _normalised(name)[1] and not re.search(r"[\\/]", name))
    # arXiv's ids end in what only looks like a suffix: 2004.14974 and 2004.14974v2
    if re.fullmatch(r"|\.\d+(v\d+)?", PurePosixPath(name).suffix):
        name += ".pdf" if content == "pdf" else ".tex"
    return name


# ---------------------------------------------------------------- tar


class _Cursor:
    """A file that is read forwards, and where it stands."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self.position = 0

    def read(self, count: int) -> bytes:
        data = self._source.read(count)
        self.position += len(data)
        return data

    def until(self, end: int) -> Iterator[bytes]:
        while missing := max(0, end - self.position):
            piece = self.read(min(_PIECE, missing))
            if not piece:
                raise _Damage(f"the tar ends at byte {self.position:,}, {missing:,} bytes too early")
            yield piece

    def move(self, end: int) -> None:
        for _ in self.until(end):
            pass


class _TarMember(NamedTuple):
    name: bytes
    kind: bytes
    size: int  # of the data that follow
    fault: str  # why it can not be used, or ""


_TAR_FAULTS = {
    b"1": "it is a hard link",
    b"2": "it is a symbolic link",
    b"3": "it is a device",
    b"4": "it is a device",
    b"6": "it is a pipe",
    b"S": "it is a sparse file",
}


def _tar_members(cursor: _Cursor) -> Iterator[_TarMember]:
    """The members in order, the cursor at their data; the caller moves it to the end of these."""
    extended: dict[bytes, bytes] = {}  # what comes before a member and belongs to it
    fault = ""
    extended_bytes = 0
    while header := cursor.read(_BLOCK):
        start = cursor.position - len(header)
        if len(header) < _BLOCK:
            raise _Damage(f"the tar ends at byte {cursor.position:,}, in the middle of a header")
        if not any(header):
            return
        if not _checksum_fits(header):
            raise _Damage(f"the tar header at byte {start:,} is damaged (its checksum is wrong)")
        kind, size = header[156:157], _number(header[124:136])
        if kind in (b"x", b"X", b"L") and size <= _EXTENDED:
            data = b"".join(cursor.until(cursor.position + size))
            cursor.read(-size % _BLOCK)
            extended_bytes += size
            if extended_bytes > _ALL_EXTENDED:
                raise _Damage(f"the tar has more than {_ALL_EXTENDED:,} bytes of extended headers")
            if kind == b"L":
                extended[b"path"] = data.rstrip(b"\0")
            else:
                try:
                    extended |= _pax_records(data)
                except _Damage as damage:
                    fault = str(damage)
            continue
        if kind in (b"x", b"X", b"L", b"K", b"g"):
            if kind not in (b"K", b"g"):  # a link's target and remarks on the whole archive are of no use
                fault = f"its extended header claims {size:,} bytes"
            cursor.move(cursor.position + size)
            cursor.read(-size % _BLOCK)
            continue
        name = header[:100].split(b"\0", 1)[0]
        if header[257:263] == b"ustar\0" and header[345]:
            name = header[345:500].split(b"\0", 1)[0] + b"/" + name
        name = extended.get(b"GNU.sparse.name", extended.get(b"path", name))
        # Links, devices and directories have no data, whatever their header says.
        size = 0 if kind in (b"1", b"2", b"3", b"4", b"5", b"6") else int(extended.get(b"size", size))
        if kind in (b"\0", b"0", b"7"):
            kind = b"5" if name.endswith(b"/") else b"0"  # as tars did before there was a kind
            if b"GNU.sparse" in extended:
                fault = fault or _TAR_FAULTS[b"S"]
        elif kind != b"5":
            fault = fault or _TAR_FAULTS.get(kind, f"it is of the unknown kind {_printable(kind)}")
        more = kind == b"S" and header[482]
        while more:  # the map of a sparse file goes on
            block = cursor.read(_BLOCK)
            more = len(block) == _BLOCK and block[504]
        yield _TarMember(name, kind, size, fault)
        cursor.read(-size % _BLOCK)
        extended, fault = {}, ""


_PAX_RECORD = re.compile(rb"(\d{1,7}) ([^=\n]{1,255})=")  # its length in bytes, its key; then the value


def _pax_records(data: bytes) -> dict[bytes, bytes]:
    """The records of an extended header that matter here: path, size and the marks of sparse files."""
    records = {}
    start = 0
    while start < len(data) and data[start]:
        match = _PAX_RECORD.match(data, start)
        end = start + int(match[1]) if match else 0
        if not match or not match.end() < end <= len(data) or data[end - 1 : end] != b"\n":
            raise _Damage("its extended header is damaged")
        key, value = match[2], data[match.end() : end - 1]
        if key == b"size" and not re.fullmatch(rb"[0-9]{1,20}", value):
            raise _Damage(f"its extended header gives the size as {_printable(value)}")
        if key in (b"path", b"size", b"GNU.sparse.name"):
            records[key] = value
        if key.startswith(b"GNU.sparse"):
            records[b"GNU.sparse"] = b""
        start = end
    return records


# ---------------------------------------------------------------- zip


class _ZipMember(NamedTuple):
    name: bytes
    flags: int
    method: int
    checksum: int | None  # None where it is not known
    packed: int
    size: int | None
    header: int  # where its local header stands
    mode: int  # of Unix, 0 for others


_ZIP_METHODS = {0: "", 8: "deflate", 12: "bzip2", 93: "zstd", 95: "xz"}
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_ZIP_END = struct.Struct("<4s4H2LH")
_ZIP64_END = struct.Struct("<4sQ2H2L4Q")


def _read_at(source: BinaryIO, position: int, count: int) -> bytes:
    if position < 0 or position >= 1 << 63:
        return b""
    source.seek(position)
    return source.read(count)


def _find_directory(source: BinaryIO) -> tuple[int, int, int] | None:
    """Start and end of a zip's directory, and how far its positions are off for data put before the zip."""
    file_size = source.seek(0, os.SEEK_END)
    base = max(0, file_size - _ZIP_END.size - 65535)
    tail = _read_at(source, base, file_size - base)
    at = len(tail)
    while (at := tail.rfind(b"PK\x05\x06", 0, at)) >= 0:
        if len(tail) - at < _ZIP_END.size:
            continue
        *_, count, size, position, comment = _ZIP_END.unpack_from(tail, at)
        end = base + at
        if count == 0xFFFF or 0xFFFFFFFF in (size, position):
            found = end - 20 - _ZIP64_END.size
            wide = _read_at(source, found, _ZIP64_END.size)
            if wide[:4] == b"PK\x06\x06" and len(wide) == _ZIP64_END.size:
                *_, count, size, position = _ZIP64_END.unpack(wide)
                end = found
        start = end - size
        empty = size == count == 0 and at + _ZIP_END.size + comment == len(tail)
        if empty or _read_at(source, start, 4) == b"PK\x01\x02":
            return start, end, start - position
    return None


def _zip_members(source: BinaryIO, start: int, end: int, shift: int) -> Iterator[_ZipMember]:
    """The members as the directory lists them."""
    while start < end:
        fixed = _read_at(source, start, _CENTRAL.size)
        if len(fixed) < _CENTRAL.size or fixed[:4] != b"PK\x01\x02":
            raise _Damage(f"the zip's directory is damaged at byte {start:,}")
        (_, made_by, _, flags, method, _, _, checksum, packed, size, name_size, extra_size, comment_size) = (
            _CENTRAL.unpack(fixed)[:13]
        )
        attributes, header = _CENTRAL.unpack(fixed)[-2:]
        name, extra = source.read(name_size), source.read(extra_size)
        wide = iter(_wide_sizes(extra[:_BLOCK]))
        size = next(wide, size) if size == 0xFFFFFFFF else size
        packed = next(wide, packed) if packed == 0xFFFFFFFF else packed
        header = next(wide, header) if header == 0xFFFFFFFF else header
        mode = attributes >> 16 if made_by >> 8 == 3 else 0
        yield _ZipMember(name, flags, method, checksum, packed, size, header + shift, mode)
        start += _CENTRAL.size + name_size + extra_size + comment_size


def _wide_sizes(extra: bytes) -> list[int]:
    """The numbers of a zip64 field, in their order."""
    start = 0
    while start + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, start)
        if kind == 1:
            data = extra[start + 4 : start + 4 + size]
            return [value for (value,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8])]
        start += 4 + size
    return []


def _zip_members_without_directory(source: BinaryIO) -> Iterator[_ZipMember]:
    """The members of a zip whose end is missing, one local header after the other."""
    position = _find(source, b"PK\x03\x04", 0)
    while position is not None:
        fixed = _read_at(source, position, _LOCAL.size)
        if len(fixed) < _LOCAL.size:
            return
        _, _, flags, method, _, _, checksum, packed, size, name_size, extra_size = _LOCAL.unpack(fixed)
        name = source.read(name_size)
        data = position + _LOCAL.size + name_size + extra_size
        after = data + packed
        if flags & 8:  # the sizes stand behind the data, whose end deflate itself knows
            checksum, size = None, None
            after = data
        following = _find(source, b"PK\x03\x04", after)
        if flags & 8:
            packed = (following or source.seek(0, os.SEEK_END)) - data
        yield _ZipMember(name, flags, method, checksum, packed, size, position, 0)
        position = following


def _find(source: BinaryIO, mark: bytes, start: int) -> int | None:
    """Where `mark` stands next, from `start` on."""
    before = b""
    while piece := _read_at(source, start, _PIECE):
        at = (before + piece).find(mark)
        if at >= 0:
            return start - len(before) + at
        before = piece[1 - len(mark) :]
        start += len(piece)
    return None


def _zip_name(member: _ZipMember) -> str:
    try:
        name = member.name.decode("utf-8", "surrogateescape" if member.flags & 0x800 else "strict")
    except UnicodeDecodeError:
        name = member.name.decode("cp437")  # as before Unicode; macOS writes UTF-8 without saying so
    return name.replace("\\", "/")


def _zip_fault(member: _ZipMember) -> str:
    """Why a member can not be read, or ""."""
    if member.flags & 0x2041 or member.method == 99:
        return "it is encrypted"
    if stat.S_ISLNK(member.mode):
        return "it is a symbolic link"
    if stat.S_IFMT(member.mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "it is a device or a pipe"
    if member.size is None and member.method == 0:
        return "nothing says where it ends"
    if member.method not in _ZIP_METHODS:
        return f"it is compressed by method {member.method}, which is not known here"
    return ""


# ---------------------------------------------------------------- packages


def read_package(
    path: Path,
    wanted: Callable[[str], bool],
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Package:
    """The wanted files of a tar, a zip, either inside a compression, or of one compressed file alone.

    The members of an archive inside the archive stand under `its-name/`. Where a name comes twice the last
    member is kept, as unpacking would leave it. What is refused or damaged is in `skips`, with the reason;
    hostile names are reported whether wanted or not. Raises ArchiveError where nothing could be read or where
    a limit on the whole is passed, OSError only from the disk itself.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise ArchiveError("is not a regular file", file=str(path))  # a pipe could block for ever
    with path.open("rb") as source:
        unpacking = _Unpacking(wanted, limits, str(path), os.fstat(source.fileno()).st_size)
        try:
            unpacking.read(source, path.name, depth=0)
        except _Damage as damage:
            raise ArchiveError(str(damage), file=str(path)) from damage
    return Package(unpacking.files, unpacking.skips)


class _Unpacking:
    """One archive and those inside it: what is kept so far, and what of the limits is used up."""

    def __init__(self, wanted: Callable[[str], bool], limits: Limits, path: str, packed: int) -> None:
        self.files: dict[str, bytes] = {}
        self.skips: list[Skip] = []
        self._wanted = wanted
        self._limits = limits
        self._path = path
        self._packed = packed
        self._unpacked = 0  # by decompression, wanted or not
        self._held = 0  # bytes of wanted members
        self._members = 0
        self._passed = 0  # members that were not damaged

    def read(self, source: BinaryIO, file: str, depth: int) -> None:
        """Take in all of one archive; `file` is its own name, or the path of a member that is one."""
        passed = self._passed
        try:
            self._read_kind(source, file, depth)
        except _Damage as damage:
            if self._passed == passed:
                raise
            self._skip(damage.member or _printable(file), f"{damage}; what came before is kept")

    def _read_kind(self, source: BinaryIO, file: str, depth: int) -> None:
        head = source.read(_BLOCK)
        kind = sniff(head)
        source.seek(0)
        if kind == "tar":
            self._read_tar(source, file, depth)
        elif kind in _COMPRESSIONS:
            pieces = self._metered(piece for _, piece in _decompressed(_blocks(source), kind))
            content, pieces = _peeked(pieces)
            # An empty tar is nothing but zeros; after a tar the rest is read for the checksum at its end.
            if sniff(content) == "tar" or (len(content) == _BLOCK and not any(content)):
                self._read_tar(cast(BinaryIO, io.BufferedReader(_Stream(pieces), _PIECE)), file, depth)
                for _ in pieces:
                    pass
            else:
                self._count()
                name = _single_name(head, PurePosixPath(file).name, sniff(content))
                self._take(_join(file, name, depth), None, pieces, depth)
                self._passed += 1
        elif kind == "zip" or (not kind and _find_directory(source)):  # other data may stand before a zip
            self._read_zip(source, file, depth)
        else:
            known = "a PDF" if kind == "pdf" else "not an archive" if head else "empty"
            raise _Damage(f"the file is {known}; tar, zip, gzip, xz, bzip2 and zstd can be read")

    def _read_tar(self, source: BinaryIO, file: str, depth: int) -> None:
        cursor = _Cursor(source)
        for member in _tar_members(cursor):
            self._count()
            name = member.name.decode("utf-8", "surrogateescape")
            end = cursor.position + member.size
            try:
                if member.kind != b"5":
                    self._offer(file, name, member.fault, member.size, cursor.until(end), depth)
                cursor.move(end)
            except _Damage as damage:
                raise _Damage(str(damage), damage.member or _join(file, _printable(name), depth)) from damage
            self._passed += 1

    def _read_zip(self, source: BinaryIO, file: str, depth: int) -> None:
        directory = _find_directory(source)
        members = _zip_members(source, *directory) if directory else _zip_members_without_directory(source)
        damage = None if directory else _Damage("the directory at the end of the zip is missing")
        passed = self._passed
        for member in members:
            self._count()
            name = _zip_name(member)
            try:
                if not name.endswith("/"):
                    pieces = self._metered(_zip_content(source, member))
                    self._offer(file, name, _zip_fault(member), member.size, pieces, depth)
            except _Damage as broken:
                damage = damage or broken
                member_name = _join(file, _normalised(name)[0], depth)
                if self._wanted(member_name):
                    self._skip(member_name, str(broken))
            else:
                self._passed += 1
        if damage and (not directory or self._passed == passed):
            raise damage

    def _offer(self, file: str, name: str, fault: str, size: int | None, pieces: Iterator[bytes], depth: int) -> None:
        """Refuse a member for its name, pass over it, refuse it for what it is (`fault`), or take it."""
        name, cause = _normalised(name)
        name = _join(file, name, depth)
        if cause:
            self._skip(name, cause)
        elif not fault:
            self._take(name, size, pieces, depth)
        elif self._wanted(name):
            self._skip(name, fault)

    def _take(self, name: str, size: int | None, pieces: Iterator[bytes], depth: int) -> None:
        """Read a member where it is wanted, or open it where it is an archive."""
        head, pieces = _peeked(pieces)
        kind = sniff(head)
        if kind in _ARCHIVES:
            if depth >= self._limits.nested:
                self._skip(name, f"it is a {kind} archive too deep inside archives")
                return
            content = self._hold(name, size, pieces, count=False)
            if content is None:
                return
            try:
                self.read(io.BytesIO(content), name, depth + 1)
            except _Damage as damage:
                self._skip(name, f"it is a {kind} archive and can not be read: {damage}")
        elif self._wanted(name):
            content = self._hold(name, size, pieces, count=True)
            if content is None:
                return
            if name in self.files:
                self._skip(name, "its name comes again; the last one is kept, as unpacking would leave it")
            self.files[name] = content

    def _hold(self, name: str, size: int | None, pieces: Iterator[bytes], count: bool) -> bytes | None:
        """A member in memory, or None, and a skip, where it is too long."""
        limit = self._limits.file_bytes
        if size is not None and size > limit:
            self._skip(name, f"it has {size:,} bytes; the limit for one file is {limit:,}")
            return None
        held, parts = 0, []
        for piece in pieces:
            held += len(piece)
            if count:
                self._held += len(piece)
            if self._held > self._limits.total_bytes:
                total = f"{self._limits.total_bytes:,} bytes of wanted files"
                raise ArchiveError(f"holds more than {total}, the limit for one archive", file=self._path)
            if held > limit:
                self._skip(name, f"it has more than {limit:,} bytes, the limit for one file")
                return None
            parts.append(piece)
        return b"".join(parts)

    def _metered(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._unpacked += max(_LEAST, len(piece))
            if self._unpacked > max(_FLOOR, self._limits.ratio * self._packed):
                raise ArchiveError(_bomb(self._limits.ratio, self._packed, self._unpacked), file=self._path)
            yield piece

    def _count(self) -> None:
        self._members += 1
        if self._members > self._limits.files:
            raise ArchiveError(f"holds more than {self._limits.files:,} members, the limit", file=self._path)

    def _skip(self, name: str, cause: str) -> None:
        self.skips.append(Skip(name, 0, cause))


def _join(file: str, name: str, depth: int) -> str:
    """The path of a member: below its archive's own where that is inside another."""
    return f"{file}/{name}" if depth else name


def _zip_content(source: BinaryIO, member: _ZipMember) -> Iterator[bytes]:
    """The unpacked bytes of a member, which are as many as it says and sum up to its checksum."""
    fixed = _read_at(source, member.header, _LOCAL.size)
    if len(fixed) < _LOCAL.size or fixed[:4] != b"PK\x03\x04":
        raise _Damage(f"it does not begin at byte {member.header:,}, where the directory says")
    start = member.header + sum(_LOCAL.unpack(fixed)[-2:]) + _LOCAL.size
    blocks = _between(source, start, start + member.packed)
    kind = _ZIP_METHODS[member.method]
    checksum = size = 0
    for piece in (piece for _, piece in _decompressed(blocks, kind)) if kind else blocks:
        size += len(piece)
        checksum = zlib.crc32(piece, checksum)
        if member.size is not None and size > member.size:
            raise _Damage(f"it unpacks to more than the {member.size:,} bytes it claims")
        yield piece
    if member.size is not None and size < member.size:
        raise _Damage(f"it ends after {size:,} of {member.size:,} bytes")
    if member.checksum is not None and checksum != member.checksum:
        raise _Damage("its checksum is wrong")


def _between(source: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    while start < end and (block := _read_at(source, start, min(_INPUT, end - start))):
        start += len(block)
        yield block
