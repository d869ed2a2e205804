"""Read archives and compressed files by their content, never by their name; nothing is written to disk.

An archive is hostile until proven otherwise. Everything is read piece by piece within `Limits`. `zipfile` and
`tarfile.TarInfo` parse the headers; tar data are read here, because `tarfile` trusts the sizes in a header.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import re
import stat
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

import zstandard

from lemmata.core.errors import ArchiveError
from lemmata.core.types import Skip

_BLOCK = 512  # bytes of a tar block; also what `sniff` looks at
_INPUT = 256  # compressed bytes per step
_PIECE = 1 << 16  # uncompressed bytes per step
_RATIO_FLOOR = 16 << 20  # bytes; below this, any compression ratio is allowed
_LONGEST_NAME = 1024  # characters
_EXTENDED = 1 << 20  # bytes of one extended tar header
_ALL_EXTENDED = 16 << 20  # bytes of all extended headers of one tar: their records are slow to read
_DIRECTORY = 8 << 20  # bytes of a zip's directory: 50,000 members with names of 100 characters
_LEAST = 1024  # bytes that a piece counts for at least: empty streams cost time too
_MEMORY = 256 << 20  # bytes for the dictionary of xz
_COMPRESSIONS = ("gzip", "xz", "bzip2", "zstd")
_SUFFIXES = {".gz", ".xz", ".bz2", ".zst", ".tgz", ".txz", ".tbz", ".tbz2", ".tzst"}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may come out of one archive, including the archives inside it."""

    total_bytes: int = 256 * 2**20  # of all wanted members, unpacked
    file_bytes: int = 64 * 2**20  # of one member
    files: int = 50_000  # members, wanted or not
    ratio: int = 200  # unpacked : packed, applied once more than 16 MiB came out
    nested: int = 1  # levels of archives inside an archive


class Package(NamedTuple):
    """The wanted content of an archive, in memory."""

    files: dict[str, bytes]  # by normalised relative posix name
    skips: list[Skip]


class _Damage(Exception):  # noqa: N818 - not an error yet: what came before the damage is kept
    """Bytes that do not fit their format, and the member they belong to, where that is known."""

    def __init__(self, cause: str, member: str = "") -> None:
        super().__init__(cause)
        self.member = member


# ---------------------------------------------------------------- formats


_MAGIC = {
    "gzip": rb"\x1f\x8b\x08",
    "xz": rb"\xfd7zXZ\0",
    "bzip2": rb"BZh[1-9](1AY&SY|\x17rE8P\x90)",  # with the magic number of a block: BZh may be a word
    "zstd": rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18",  # a frame, or a skippable frame
    "zip": rb"PK(\x03\x04|\x05\x06)",
    "tar": rb"(?s:.{257})ustar",
    "pdf": rb"(\xef\xbb\xbf)?\s*%PDF-",
}


def sniff(head: bytes) -> str:
    """The format of a file from its first 512 bytes: gzip, xz, bzip2, zstd, zip, tar, pdf, or "" for all else."""
    kind = next((kind for kind, magic in _MAGIC.items() if re.match(magic, head)), "")
    if not kind and len(head) >= _BLOCK:
        with suppress(tarfile.HeaderError):  # tars from before ustar have no magic number, only a checksum
            tarfile.TarInfo.frombuf(head[:_BLOCK], "utf-8", "surrogateescape")
            return "tar"
    return kind


# ---------------------------------------------------------------- decompression


_DECOMPRESSION_ERRORS = (
    *(zlib.error, lzma.LZMAError, zstandard.ZstdError),
    *(OSError, EOFError, ValueError, MemoryError),
)


def _decompressor(kind: str) -> Any:
    if kind == "gzip":
        return zlib.decompressobj(31)
    if kind == "bzip2":
        return bz2.BZ2Decompressor()
    if kind == "xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    return zstandard.ZstdDecompressor(max_window_size=_MEMORY // 2).decompressobj()


def _decompressed(stream: BinaryIO, kind: str) -> Iterator[tuple[int, bytes]]:
    """Pieces of at most 8 MiB, each with the number of packed bytes read so far.

    Concatenated streams count as one, as in gzip itself; zeros and garbage after them are ignored. Every
    stream gives at least one piece, which may be empty.
    """
    bounded = kind in ("xz", "bzip2")  # the others expand the few bytes of `_INPUT` to 8 MiB at most
    decompressor = _decompressor(kind)
    packed = 0
    while True:
        data = b""
        if decompressor.eof:
            data = decompressor.unused_data.lstrip(b"\0")
            while len(data) < 16 and (block := stream.read(_INPUT)):
                packed += len(block)
                data = (data + block).lstrip(b"\0")
            if sniff(data) != kind:
                return
            decompressor = _decompressor(kind)
        elif not bounded or decompressor.needs_input:
            data = stream.read(_INPUT)
            packed += len(data)
            if not data:
                raise _Damage(f"the {kind} data end too early, after {packed:,} bytes")
        try:
            piece = decompressor.decompress(data, _PIECE) if bounded else decompressor.decompress(data)
        except _DECOMPRESSION_ERRORS as error:
            cause = str(error) or "out of memory"
            raise _Damage(f"the {kind} data are damaged near byte {packed:,} ({cause})") from error
        if piece or decompressor.eof:
            yield packed, piece


def _peeked(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first 512 bytes (fewer where there are no more), and all pieces from the start."""
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= _BLOCK:
            break
    return head[:_BLOCK], chain([head], pieces)


class _Stream(io.RawIOBase):
    """Pieces of bytes as a file; closing it closes the file that they come from."""

    def __init__(self, pieces: Iterator[bytes], stream: BinaryIO | None = None) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")
        self._stream = stream

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
        if self._stream is not None:
            self._stream.close()
        super().close()


def open_decompressed(path: Path, limits: Limits = Limits()) -> BinaryIO:  # noqa: B008 - frozen
    """The bytes of a file, decompressed where it is compressed; every other file as it is, of any size.

    Raises ArchiveError from `read` at damage, and where a file unpacks past `file_bytes` at more than the ratio.
    """
    stream = path.open("rb")
    kind = sniff(stream.peek(_BLOCK)[:_BLOCK])
    if kind not in _COMPRESSIONS:
        return stream

    def pieces() -> Iterator[bytes]:
        unpacked = 0
        try:
            for packed, piece in _decompressed(stream, kind):
                unpacked += len(piece)
                if unpacked > max(limits.file_bytes, limits.ratio * packed):
                    raise ArchiveError(_bomb(limits.ratio, packed, unpacked), file=str(path))
                yield piece
        except _Damage as damage:
            raise ArchiveError(str(damage), file=str(path)) from damage

    return cast(BinaryIO, io.BufferedReader(_Stream(pieces(), stream), _PIECE))


def _bomb(ratio: int, packed: int, unpacked: int) -> str:
    return f"{packed:,} packed bytes unpack to {unpacked:,} or more; over {ratio:,} to 1 is refused"


# ---------------------------------------------------------------- names


def printable(name: str) -> str:
    """A name that can be shown, whatever it contains."""
    text = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in name[:_LONGEST_NAME])
    return text[:200] + "…" if len(text) > 200 else text


def name_fault(name: str) -> str:
    """Why a name cannot be an id or be shown, or ""."""
    if len(name) > _LONGEST_NAME:
        return f"its name has more than {_LONGEST_NAME:,} characters"
    categories = {unicodedata.category(letter) for letter in name} if not name.isprintable() else set()
    if "Cs" in categories:  # what `surrogateescape` makes of bytes that are not UTF-8
        return "its name is not UTF-8"
    return "its name contains control characters" if "Cc" in categories else ""


def _normalised(name: str) -> tuple[str, str]:
    """`./a//b` as `a/b`, and why the name must not be used, or ""."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if cause := name_fault(name):
        pass
    elif name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:[\\/]", name):
        cause = "its name is an absolute path"
    elif ".." in re.split(r"[\\/]", name):
        cause = "its name leaves the archive with .."
    else:
        cause = "" if parts else "it has no name"
    return (printable(name), cause) if cause else ("/".join(parts), "")


def _original_name(head: bytes) -> str:
    """The file name in a gzip header, "" where there is none."""
    start = 10
    if sniff(head) != "gzip" or len(head) < start or not head[3] & 8:
        return ""
    if head[3] & 4:  # extra fields come first
        start += 2 + int.from_bytes(head[10:12], "little")
    name, end, _ = head[start:].partition(b"\0")
    return name.decode("latin-1") if end else ""


def _single_name(head: bytes, file: str, content: str) -> str:
    """The name of the file in a bare compressed file; `content` is its format from `sniff`."""
    path = PurePosixPath(file)
    while path.suffix.lower() in _SUFFIXES:
        path = path.with_suffix("")
    names = (_original_name(head), path.name, "file")
    name = next(name for name in names if not _normalised(name)[1] and not re.search(r"[\\/]", name))
    # arXiv ids end in what only looks like a suffix: 2004.14974 and 2004.14974v2
    if re.fullmatch(r"|\.\d+(v\d+)?", PurePosixPath(name).suffix):
        name += ".pdf" if content == "pdf" else ".tex"
    return name


# ---------------------------------------------------------------- tar


_Member = tuple[str, str, int, Iterator[bytes]]  # name, why it cannot be used (or ""), size, content
_NO_DATA = (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE)


def _tar_members(tar: BinaryIO) -> Iterator[_Member]:
    """The members in order; the content of each must be read to its end before the next is asked for."""
    extended: dict[str, str] = {}  # path and size from the extended headers of a member
    extended_bytes = 0
    while True:
        block = tar.read(_BLOCK)
        if not any(block):  # zeros, or the end of the file
            return
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise _Damage(f"a tar header is damaged ({error})") from error
        kind, size = header.type, header.size
        if size < 0:
            raise _Damage("a tar header has a negative size")
        if kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
            extended_bytes += size
            if size > _EXTENDED or extended_bytes > _ALL_EXTENDED:
                raise _Damage(f"the extended headers of the tar claim {extended_bytes:,} bytes")
            data = b"".join(_tar_content(tar, size))
            extended |= _pax_records(data) if kind == tarfile.XHDTYPE else {"path": _decode(data.rstrip(b"\0"))}
        elif kind in (tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK):  # remarks on the archive, the target of a link
            for _ in _tar_content(tar, size):
                pass
        else:
            name = extended.get("path", header.name) + ("/" if header.isdir() else "")
            size = 0 if kind in _NO_DATA else int(extended.get("size", size))
            regular = kind in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
            link = header.issym() or header.islnk()
            fault = "" if regular else "it is a link" if link else "it is not a regular file"
            yield name, fault, size, _tar_content(tar, size)
            extended = {}


def _tar_content(tar: BinaryIO, size: int) -> Iterator[bytes]:
    """The data of a member; moves past the padding after them."""
    left = size
    while left:
        piece = tar.read(min(_PIECE, left))
        if not piece:
            raise _Damage(f"the tar ends {left:,} bytes too early")
        left -= len(piece)
        yield piece
    tar.read(-size % _BLOCK)


_PAX_RECORD = re.compile(rb"^\d{1,7} (?:path=([^\n]*)|size=(\d{1,20})$|(GNU\.sparse))", re.M)  # after its length


def _pax_records(data: bytes) -> dict[str, str]:
    """The path and the size in an extended header."""
    records: dict[str, str] = {}
    for path, size, sparse in _PAX_RECORD.findall(data):
        if sparse:
            raise _Damage("the tar has a sparse file, which cannot be read")
        records |= {"path": _decode(path)} if path else {"size": _decode(size)} if size else {}
    return records


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


# ---------------------------------------------------------------- zip


class _ZipSource:
    """A file for `zipfile`, which reads a directory of any claimed size at once."""

    def __init__(self, stream: BinaryIO) -> None:
        self.seek, self.tell, self.seekable, self._read = stream.seek, stream.tell, stream.seekable, stream.read

    def read(self, count: int = -1) -> bytes:
        if count > _DIRECTORY:
            raise _Damage(f"the directory of the zip claims {count:,} bytes")
        return self._read(count)


_ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError),
)


def _zip_members(stream: BinaryIO) -> Iterator[_Member]:
    """The members in the order of the directory."""
    try:
        archive = zipfile.ZipFile(_ZipSource(stream))
    except _ZIP_ERRORS as error:
        raise _Damage(f"the zip cannot be read ({error})") from error
    for info in archive.infolist():
        name = info.orig_filename
        if not info.flag_bits & 0x800:  # macOS writes UTF-8 without the flag for it
            with suppress(UnicodeError):
                name = name.encode("cp437").decode("utf-8")
        yield name.replace("\\", "/"), _zip_fault(info), info.file_size, _zip_content(archive, info)


def _zip_fault(info: zipfile.ZipInfo) -> str:
    """Why a member cannot be read, or ""."""
    mode = info.external_attr >> 16 if info.create_system == 3 else 0
    if info.flag_bits & 0x2041 or info.compress_type == 99:
        return "it is encrypted"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "it is a link" if stat.S_ISLNK(mode) else "it is not a regular file"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others have no bound on a step
        return f"it is compressed by method {info.compress_type}, which cannot be read"
    return ""


def _zip_content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    try:
        with archive.open(info) as member:
            while piece := member.read(_PIECE):
                yield piece
    except _ZIP_ERRORS as error:
        raise _Damage(f"it is damaged ({str(error) or 'it ends too early'})") from error


# ---------------------------------------------------------------- packages


def read_package(
    path: Path,
    wanted: Callable[[str], bool],
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Package:
    """The wanted files of a tar, a zip, a compressed tar, or of one compressed file alone.

    The members of an archive inside the archive get the prefix `its-name/`. Where a name is repeated, the last
    member is kept, as unpacking would do. Members that are refused or damaged are in `skips` with the reason;
    hostile names are reported whether wanted or not. Raises ArchiveError where nothing could be read or the
    archive exceeds a limit.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise ArchiveError("is not a regular file", file=str(path))  # a pipe could block for ever
    with path.open("rb") as stream:
        reader = _PackageReader(wanted, limits, str(path), os.fstat(stream.fileno()).st_size)
        try:
            reader.read(stream, path.name, depth=0)
        except _Damage as damage:
            raise ArchiveError(str(damage), file=str(path)) from damage
    return Package(reader.files, reader.skips)


class _PackageReader:
    """Reads one archive and those inside it; counts what is used of the limits."""

    def __init__(self, wanted: Callable[[str], bool], limits: Limits, path: str, packed: int) -> None:
        self.files: dict[str, bytes] = {}
        self.skips: list[Skip] = []
        self._wanted = wanted
        self._limits = limits
        self._path = path
        self._packed = packed  # bytes of the file
        self._unpacked = 0  # bytes from decompression, wanted or not
        self._held = 0  # bytes of wanted members
        self._members = 0
        self._intact = 0  # members without damage

    def read(self, stream: BinaryIO, file: str, depth: int) -> None:
        """Read one archive; `file` is its name, or its path inside the outer archive."""
        intact = self._intact
        try:
            self._read_format(stream, file, depth)
        except _Damage as damage:
            if self._intact == intact:
                raise
            self._skip(damage.member or printable(file), f"{damage}; what came before is kept")

    def _read_format(self, stream: BinaryIO, file: str, depth: int) -> None:
        head = stream.read(_BLOCK)
        kind = sniff(head)
        stream.seek(0)
        prefix = f"{file}/" if depth else ""
        if kind == "tar":
            self._read_tar(stream, prefix, depth)
        elif kind == "zip":
            self._read_zip(stream, prefix, depth)
        elif kind in _COMPRESSIONS:
            content, pieces = _peeked(self._metered(piece for _, piece in _decompressed(stream, kind)))
            if sniff(content) == "tar" or (len(content) == _BLOCK and not any(content)):  # an empty tar is all zeros
                self._read_tar(cast(BinaryIO, io.BufferedReader(_Stream(pieces), _PIECE)), prefix, depth)
                for _ in pieces:  # up to the checksum at the end
                    pass
            else:
                self._count()
                name = _single_name(head, PurePosixPath(file).name, sniff(content))
                self._take(prefix + name, 0, pieces, depth)
                self._intact += 1
        else:
            format_name = "a PDF" if kind == "pdf" else "not an archive" if head else "empty"
            raise _Damage(f"the file is {format_name}; tar, zip, gzip, xz, bzip2 and zstd can be read")

    def _read_tar(self, tar: BinaryIO, prefix: str, depth: int) -> None:
        for name, fault, size, content in _tar_members(tar):
            try:
                self._offer(prefix, name, fault, size, content, depth)
                for _ in content:
                    pass
            except _Damage as damage:
                raise _Damage(str(damage), damage.member or prefix + printable(name)) from damage
            self._intact += 1

    def _read_zip(self, stream: BinaryIO, prefix: str, depth: int) -> None:
        intact = self._intact
        first_damage = None
        for name, fault, size, content in _zip_members(stream):
            try:
                self._offer(prefix, name, fault, size, self._metered(content), depth)
                self._intact += 1
            except _Damage as damage:  # the other members can still be read
                first_damage = first_damage or damage
                member_name = prefix + _normalised(name)[0]
                if self._wanted(member_name):
                    self._skip(member_name, str(damage))
        if first_damage and self._intact == intact:
            raise first_damage

    def _offer(self, prefix: str, name: str, fault: str, size: int, pieces: Iterator[bytes], depth: int) -> None:
        """Take a member, or refuse it for its name or for its `fault`; directories are ignored."""
        self._count()
        if name.endswith("/"):
            return
        name, cause = _normalised(name)
        name = prefix + name
        if cause or (fault and self._wanted(name)):
            self._skip(name, cause or fault)
        elif not fault:
            self._take(name, size, pieces, depth)

    def _take(self, name: str, size: int, pieces: Iterator[bytes], depth: int) -> None:
        """Keep a member that is wanted, or open it where it is an archive."""
        head, pieces = _peeked(pieces)
        kind = sniff(head)
        if kind in (*_COMPRESSIONS, "zip", "tar"):
            if depth >= self._limits.nested:
                self._skip(name, f"it is a {kind} archive too deep inside archives")
            elif (content := self._hold(name, size, pieces, wanted=False)) is not None:
                try:
                    self.read(io.BytesIO(content), name, depth + 1)
                except _Damage as damage:
                    self._skip(name, f"it is a {kind} archive and cannot be read: {damage}")
        elif self._wanted(name) and (content := self._hold(name, size, pieces, wanted=True)) is not None:
            if name in self.files:
                self._skip(name, "its name is repeated; the last member is kept")
            self.files[name] = content

    def _hold(self, name: str, size: int, pieces: Iterator[bytes], *, wanted: bool) -> bytes | None:
        """A member in memory, or None and a skip where it is too long; `size` is what its header claims."""
        limit = self._limits.file_bytes
        content = bytearray()
        for piece in pieces if size <= limit else ():
            content += piece
            self._held += len(piece) if wanted else 0
            if self._held > self._limits.total_bytes:
                total = f"{self._limits.total_bytes:,} bytes of wanted files"
                raise ArchiveError(f"holds more than {total}, the limit for one archive", file=self._path)
            if len(content) > limit:
                break
        if max(size, len(content)) > limit:
            self._skip(name, f"it has {max(size, len(content)):,} bytes or more; the limit for one file is {limit:,}")
            return None
        return bytes(content)

    def _metered(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._unpacked += max(_LEAST, len(piece))
            if self._unpacked > max(_RATIO_FLOOR, self._limits.ratio * self._packed):
                raise ArchiveError(_bomb(self._limits.ratio, self._packed, self._unpacked), file=self._path)
            yield piece

    def _count(self) -> None:
        self._members += 1
        if self._members > self._limits.files:
            raise ArchiveError(f"holds more than {self._limits.files:,} members, the limit", file=self._path)

    def _skip(self, name: str, cause: str) -> None:
        self.skips.append(Skip(name, 0, cause))
