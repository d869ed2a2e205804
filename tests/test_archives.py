"""Archives: all formats are read; hostile and damaged ones end in a reason and never in a crash."""

import bz2
import gzip
import io
import lzma
import os
import random
import stat
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.archives import Limits, Package, open_decompressed, read_package, sniff
from lemmata.core.errors import ArchiveError

TREE = {
    "main.tex": b"\\begin{document}x\\end{document}\n" * 40,
    "sections/one.tex": b"",
    "fig/a b.png": bytes(700),
}

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": partial(lzma.compress, preset=0),
    "bzip2": bz2.compress,
    "zstd": zstandard.compress,
}


def everything(name: str) -> bool:
    return True


def tex(name: str) -> bool:
    return name.endswith(".tex")


def tar_of(files: dict[str, bytes], format: int = tarfile.GNU_FORMAT) -> bytes:  # noqa: A002
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zip_of(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def header(name: bytes, size: int = 0, kind: bytes = b"0", magic: bytes = b"ustar\x0000") -> bytes:
    """A tar header with a correct checksum; sizes that need it are in base 256."""
    block = bytearray(512)
    block[: len(name)] = name
    block[124:136] = b"%011o\0" % size if size < 8**11 else b"\x80" + size.to_bytes(11, "big")
    block[156:157] = kind
    block[257 : 257 + len(magic)] = magic
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


def pax(records: dict[str, str]) -> bytes:
    text = b""
    for key, value in records.items():
        rest = f" {key}={value}\n".encode()
        length = next(n for n in range(len(rest), len(rest) + 9) if n == len(rest) + len(str(n)))
        text += str(length).encode() + rest
    return header(b"pax", len(text), b"x") + padded(text)


A = header(b"a.tex", 1) + padded(b"x")
B = header(b"b.tex", 1) + padded(b"y")


def read(
    folder: Path,
    content: bytes,
    wanted: Callable[[str], bool] = everything,
    limits: Limits = Limits(),  # noqa: B008
    name: str = "archive",
) -> Package:
    path = folder / name
    path.write_bytes(content)
    return read_package(path, wanted, limits)


def causes(package: Package) -> dict[str, str]:
    return {skip.file: skip.cause for skip in package.skips}


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Fails where more memory is in use at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- formats


def test_every_format_is_recognised_by_its_content() -> None:
    for kind, compress in COMPRESSIONS.items():
        assert sniff(compress(b"x")[:512]) == kind
        assert sniff(compress(b"")[:512]) == kind
    assert sniff(tar_of(TREE)[:512]) == "tar"
    assert sniff(zip_of(TREE)[:512]) == "zip"
    assert sniff(zip_of({})) == "zip"
    assert sniff(b"%PDF-1.5\n") == "pdf"
    old_tar = header(b"old.tex", 2, b"\0", magic=b"")  # from before ustar: only the checksum tells
    assert sniff(old_tar) == "tar"
    assert sniff(b"O" + old_tar[1:]) == ""
    for plain in (b"", b"\\documentclass{article}", b"BZh is no bzip2", b"% made for %PDF-1.5", bytes(512)):
        assert sniff(plain) == ""


@pytest.mark.parametrize("compression", ["", *COMPRESSIONS])
@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tars_of_all_formats_and_compressions_are_read(
    tmp_path: Path,
    compression: str,
    format: int,  # noqa: A002
) -> None:
    tree = TREE | {f"{'deep/' * 18}name.tex": b"long"}
    if format != tarfile.USTAR_FORMAT:
        tree |= {"long/" * 60 + "ö" * 90: b"longer", "größe.tex": b"2"}
    content = tar_of(tree, format)
    if compression:
        content = COMPRESSIONS[compression](content)
    assert read(tmp_path, content, name="misleading.zip") == (tree, [])


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zips_are_read(tmp_path: Path, method: int) -> None:
    tree = TREE | {"größe.tex": b"2"}
    assert read(tmp_path, zip_of(tree, method), name="misleading.tar.gz") == (tree, [])
    assert read(tmp_path, zip_of(tree, method) + b"garbage" * 9) == (tree, [])
    for empty in (gzip.compress(tar_of({})), zip_of({})):
        assert read(tmp_path, empty) == ({}, [])


@pytest.mark.parametrize(
    ("file", "inside"),
    [
        ("2004.14974.gz", "2004.14974.tex"),
        ("2004.14974v2.gz", "2004.14974v2.tex"),
        ("2004.14974", "2004.14974.tex"),
        ("hep-th9901001.gz", "hep-th9901001.tex"),
        ("paper.tex.gz", "paper.tex"),
        ("paper.tgz", "paper.tex"),
        ("notes.md.xz", "notes.md"),
    ],
)
def test_a_compressed_file_is_named_after_its_archive(tmp_path: Path, file: str, inside: str) -> None:
    assert read(tmp_path, gzip.compress(b"\\section{A}"), name=file) == ({inside: b"\\section{A}"}, [])
    assert list(read(tmp_path, gzip.compress(b"%PDF-1.5"), name="2004.14974.gz").files) == ["2004.14974.pdf"]


@pytest.mark.parametrize(
    ("original", "inside"),
    [("real.tex", "real.tex"), ("9901001", "9901001.tex"), ("../x.tex", "a.tex"), ("a\tb", "a.tex"), ("", "a.tex")],
)
def test_the_name_in_a_gzip_header_is_used_where_it_is_safe(tmp_path: Path, original: str, inside: str) -> None:
    named = bytearray(gzip.compress(b"text", mtime=0))
    named[3] |= 8
    named[10:10] = original.encode() + b"\0"
    assert list(read(tmp_path, bytes(named), name="a.gz").files) == [inside]


def test_only_wanted_files_are_read_and_reported(tmp_path: Path) -> None:
    for content in (tar_of(TREE), gzip.compress(tar_of(TREE)), zip_of(TREE)):
        package = read(tmp_path, content, tex)
        assert package == ({name: TREE[name] for name in TREE if tex(name)}, [])
    assert read(tmp_path, gzip.compress(b"x"), tex, name="a.csv.gz") == ({}, [])
    assert read(tmp_path, header(b"link.png", 0, b"2") + A, tex) == ({"a.tex": b"x"}, [])
    damaged = zip_of({"a.tex": b"x", "b.png": b"picture"}, zipfile.ZIP_STORED).replace(b"picture", b"pictuXX", 1)
    assert read(tmp_path, damaged, tex) == ({"a.tex": b"x"}, [])


def test_names_are_normalised(tmp_path: Path) -> None:
    files = {"./a//b.tex": b"1", "c/./d.tex": b"2", "./": b""}
    assert read(tmp_path, tar_of(files)) == ({"a/b.tex": b"1", "c/d.tex": b"2"}, [])
    assert read(tmp_path, zip_of({"e\\f.tex": b"3", "g\\": b""})) == ({"e/f.tex": b"3"}, [])


def test_concatenated_streams_are_read_as_one_and_garbage_after_them_is_ignored(tmp_path: Path) -> None:
    for compress in COMPRESSIONS.values():
        packed = compress(b"one ") + compress(b"") + compress(b"two")
        for rest in (b"", bytes(3000), b"garbage", b"\x1f"):
            assert read(tmp_path, packed + rest, name="a.tex.gz") == ({"a.tex": b"one two"}, [])
    half = len(tar_of(TREE)) // 2
    parts = gzip.compress(tar_of(TREE)[:half]) + gzip.compress(tar_of(TREE)[half:]) + b"garbage"
    assert read(tmp_path, parts) == (TREE, [])


@pytest.mark.parametrize("end", [b"", bytes(512), bytes(1024), bytes(512) + b"x" * 512])
def test_a_tar_may_end_with_or_without_blocks_of_zeros(tmp_path: Path, end: bytes) -> None:
    assert read(tmp_path, A + end) == ({"a.tex": b"x"}, [])
    assert read(tmp_path, gzip.compress(A + end)) == ({"a.tex": b"x"}, [])


# ---------------------------------------------------------------- archives inside archives


def test_archives_inside_archives_are_opened_to_the_allowed_depth(tmp_path: Path) -> None:
    innermost = zip_of({"deep.tex": b"3"})
    inner = gzip.compress(tar_of({"b.tex": b"2", "innermost.zip": innermost}))
    package = read(tmp_path, zip_of({"a.tex": b"1", "sub/inner.tgz": inner}), tex)
    assert package.files == {"a.tex": b"1", "sub/inner.tgz/b.tex": b"2"}
    assert causes(package) == {"sub/inner.tgz/innermost.zip": "it is a zip archive too deep inside archives"}
    content = b"text"
    for _ in range(4):
        content = tar_of({"a": content})
    assert read(tmp_path, content, limits=Limits(nested=2)).files == {}
    assert read(tmp_path, content, limits=Limits(nested=3)).files == {"a/a/a/a": b"text"}
    package = read(tmp_path, tar_of({"fig.ps.gz": gzip.compress(b"%!PS", mtime=0)}))
    assert package == ({"fig.ps.gz/fig.ps": b"%!PS"}, [])


def test_a_damaged_inner_archive_is_a_skip_and_keeps_what_came_before(tmp_path: Path) -> None:
    package = read(tmp_path, tar_of({"a.tex": b"1", "b.gz": gzip.compress(b"x" * 999)[:-20], "c.tex": b"3"}))
    assert package.files == {"a.tex": b"1", "c.tex": b"3"}
    assert "end too early" in causes(package)["b.gz"]
    inner = tar_of({"x.tex": b"1", "y.tex": b"2" * 600})[:2000]
    package = read(tmp_path, tar_of({"in.tar": inner, "z.tex": b"3"}))
    assert package.files == {"in.tar/x.tex": b"1", "z.tex": b"3"}
    assert "bytes too early; what came before is kept" in causes(package)["in.tar/y.tex"]


# ---------------------------------------------------------------- hostile members


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("/etc/x.tex", "absolute"),
        ("C:\\x.tex", "absolute"),
        ("c:/x.tex", "absolute"),
        ("\\\\host\\x.tex", "absolute"),
        ("../x.tex", "leaves the archive"),
        ("a/../../x.tex", "leaves the archive"),
        ("a/..", "leaves the archive"),
        ("a\\..\\x.tex", "leaves the archive"),
        ("a\x1b[2J.tex", "control"),
        ("a\nb.tex", "control"),
        ("a\x7f.tex", "control"),
        ("n" * 1025, "1,024 characters"),
    ],
)
def test_hostile_names_are_refused_and_the_rest_is_read(tmp_path: Path, name: str, cause: str) -> None:
    for content in (tar_of({name: b"evil", "good.tex": b"1"}), zip_of({name: b"evil", "good.tex": b"1"})):
        package = read(tmp_path, content, tex)
        assert package.files == {"good.tex": b"1"}
        (skip,) = package.skips
        assert cause in skip.cause
        assert skip.file.isprintable()


def test_names_with_zero_bytes_or_in_another_encoding_are_refused(tmp_path: Path) -> None:
    tar = pax({"path": "a\0b.tex"}) + A + header(b"\xe9.tex", 1) + padded(b"y") + B
    package = read(tmp_path, tar)
    assert package.files == {"b.tex": b"y"}
    assert [skip.cause for skip in package.skips] == ["its name contains control characters", "its name is not UTF-8"]
    content = zip_of({"aXb.tex": b"x", "größe": b"y"})
    package = read(tmp_path, content.replace(b"aXb.tex", b"a\0b.tex"))
    assert package.files == {"größe": b"y"}
    assert [skip.cause for skip in package.skips] == ["its name contains control characters"]
    with pytest.raises(ArchiveError):
        read(tmp_path, content.replace("größe".encode(), b"gr\xff\xff\xff\xffe"))


def test_a_zip_name_without_the_flag_for_unicode_is_read_as_utf_8_or_as_cp437(tmp_path: Path) -> None:
    content = zip_of({"aaaa.tex": b"1", "bb.tex": b"2"})
    content = content.replace(b"aaaa.tex", "öä.tex".encode()).replace(b"bb.tex", b"\x94\x81.tex")
    assert read(tmp_path, content).files == {"öä.tex": b"1", "öü.tex": b"2"}


@pytest.mark.parametrize(
    ("kind", "cause"),
    [(b"1", "link"), (b"2", "link"), *((kind, "not a regular file") for kind in (b"3", b"4", b"6", b"S", b"Q"))],
)
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, kind: bytes, cause: str) -> None:
    package = read(tmp_path, header(b"a.tex", 0, kind) + B)
    assert package.files == {"b.tex": b"y"}
    assert cause in causes(package)["a.tex"]


def test_links_and_encrypted_members_of_a_zip_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, mode in (("link.tex", stat.S_IFLNK), ("pipe.tex", stat.S_IFIFO), ("good.tex", stat.S_IFREG)):
            info = zipfile.ZipInfo(name)
            info.external_attr = (mode | 0o644) << 16
            archive.writestr(info, b"/etc/passwd")
        archive.writestr("method.tex", b"1" * 99, zipfile.ZIP_LZMA)
        archive.writestr("secret.tex", b"?")
    content = bytearray(buffer.getvalue())
    content[content.rindex(b"PK\1\2") + 8] |= 1  # the flag of an encrypted member
    package = read(tmp_path, bytes(content))
    assert list(package.files) == ["good.tex"]
    assert causes(package) == {
        "link.tex": "it is a link",
        "pipe.tex": "it is not a regular file",
        "method.tex": "it is compressed by method 14, which cannot be read",
        "secret.tex": "it is encrypted",
    }


def test_of_a_repeated_name_the_last_member_is_kept_with_a_skip(tmp_path: Path) -> None:
    tar = A + header(b"./a.tex", 1) + padded(b"2")
    for content in (tar, zip_of({"a.tex": b"1", ".//a.tex": b"2"})):
        package = read(tmp_path, content)
        assert package.files == {"a.tex": b"2"}
        assert "the last member is kept" in causes(package)["a.tex"]


# ---------------------------------------------------------------- limits


def test_a_file_over_the_limit_is_skipped_and_the_rest_is_read(tmp_path: Path) -> None:
    files = {"big.tex": b"x" * 1001, "small.tex": b"x" * 1000}
    for content in (tar_of(files), gzip.compress(tar_of(files)), zip_of(files)):
        package = read(tmp_path, content, limits=Limits(file_bytes=1000))
        assert list(package.files) == ["small.tex"]
        assert causes(package) == {"big.tex": "it has 1,001 bytes or more; the limit for one file is 1,000"}
    package = read(tmp_path, gzip.compress(b"x" * 1001), limits=Limits(file_bytes=1000), name="a.gz")
    assert causes(package) == {"a.tex": "it has 1,001 bytes or more; the limit for one file is 1,000"}


def test_more_than_the_total_of_wanted_bytes_is_an_error_with_numbers(tmp_path: Path) -> None:
    files = {"a.tex": b"x" * 600, "b.tex": b"y" * 600, "c.png": b"z" * 6000}
    for content in (tar_of(files), zip_of(files)):
        with pytest.raises(ArchiveError, match="1,199"):
            read(tmp_path, content, tex, Limits(total_bytes=1199))
        assert len(read(tmp_path, content, tex, Limits(total_bytes=1200)).files) == 2


def test_too_many_members_are_an_error_also_inside_an_inner_archive(tmp_path: Path) -> None:
    files = {f"{number}.png": b"" for number in range(60)}
    for content in (tar_of(files), zip_of(files), tar_of({"a.zip": zip_of(files)})):
        with pytest.raises(ArchiveError, match="50"):
            read(tmp_path, content, tex, Limits(files=50))


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_a_bomb_stops_at_the_limit_without_using_its_memory(tmp_path: Path, kind: str) -> None:
    compress = COMPRESSIONS[kind]
    body = compress(bytes(1 << 22)) * 20  # 80 MB
    start = compress(header(b"a.tex", 20 << 22))
    for content in (start + body, body, compress(bytes(1 << 26))):
        for wanted in (everything, tex):
            with (
                at_most(64 << 20),
                pytest.raises(ArchiveError, match="200 to 1"),
            ):
                read(tmp_path, content, wanted, name="a.tex.gz")


def test_a_bomb_inside_an_inner_archive_counts_against_the_outer_file(tmp_path: Path) -> None:
    inner = gzip.compress(gzip.compress(bytes(1 << 20)) * 500)  # small, 500 KB, 500 MB
    with pytest.raises(ArchiveError, match=r"200.*1"):
        read(tmp_path, inner)


def test_millions_of_empty_streams_or_records_are_refused_quickly(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"200.*1"):
        read(tmp_path, gzip.compress(gzip.compress(b"", 1) * 200_000))
    records = header(b"pax", 1 << 20, b"x") + b"128 a=%121d\n" % 0 * (1 << 13)
    package = read(tmp_path, A + records * 20)
    assert package.files == {"a.tex": b"x"}
    assert "the extended headers of the tar claim 17,825,792 bytes" in package.skips[0].cause


def overlapping_zip(members: int, size: int) -> bytes:
    """A zip whose directory lists one member of `size` zeros many times."""
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = packed.compress(bytes(size)) + packed.flush()
    common = (20, 0, 8, 0, 0, zlib.crc32(bytes(size)), len(data), size, 1)
    body = struct.pack("<4s5H3L2H", b"PK\3\4", *common, 0) + b"x" + data
    directory = (struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, *common, *[0] * 6) + b"x") * members
    counts = (0, 0, members & 0xFFFF, members & 0xFFFF)
    return body + directory + struct.pack("<4s4H2LH", b"PK\5\6", *counts, len(directory), len(body), 0)


def test_zip_members_count_against_the_ratio_also_where_they_overlap(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"200.*1"):
        read(tmp_path, zip_of({f"{number}.tex": bytes(1 << 20) for number in range(40)}))
    with at_most(64 << 20), suppress(ArchiveError):  # newer versions of zipfile refuse all but one member themselves
        assert len(read(tmp_path, overlapping_zip(2000, 1 << 20)).files) <= 1


def test_a_zip_directory_of_any_claimed_size_is_not_read_into_memory(tmp_path: Path) -> None:
    content = overlapping_zip(200_000, 1)
    with at_most(24 << 20), pytest.raises(ArchiveError, match="9,400,000"):
        read(tmp_path, content)


def test_a_zip_member_that_unpacks_to_more_than_it_claims_is_a_skip(tmp_path: Path) -> None:
    content = bytearray(zip_of({"liar.tex": b"x" * 5000, "good.tex": b"1"}))
    at = content.index(b"PK\1\2") + 24
    content[at : at + 4] = struct.pack("<L", 10)
    package = read(tmp_path, bytes(content))
    assert package.files == {"good.tex": b"1"}
    assert "it is damaged" in causes(package)["liar.tex"]


def test_a_tar_member_that_claims_eight_exbibytes_is_a_skip(tmp_path: Path) -> None:
    liar = header(b"liar.tex", 8 << 60) + padded(b"y")
    package = read(tmp_path, A + liar)
    assert package.files == {"a.tex": b"x"}
    assert [skip.file for skip in package.skips] == ["liar.tex", "liar.tex"]
    assert "9,223,372,036,854,775,808 bytes" in package.skips[0].cause
    assert "too early" in package.skips[1].cause
    with pytest.raises(ArchiveError):
        read(tmp_path, liar)
    with pytest.raises(ArchiveError):
        read(tmp_path, pax({"size": "9" * 20}) + A)


@pytest.mark.parametrize("kind", [b"x", b"L", b"g", b"K"])
def test_an_extended_header_of_gigabytes_is_never_in_memory(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "a.tar"
    with path.open("wb") as file:
        file.write(A + header(b"pax", 1 << 26, kind))
        file.seek(1 << 26, os.SEEK_CUR)  # a hole
        file.write(B)
    with at_most(8 << 20):
        package = read_package(path, everything)
    if kind in b"xL":
        assert package.files == {"a.tex": b"x"}
        assert "the extended headers of the tar claim 67,108,864 bytes" in causes(package)["a.tar"]
    else:
        assert package == ({"a.tex": b"x", "b.tex": b"y"}, [])


def test_the_path_and_size_of_an_extended_header_are_used(tmp_path: Path) -> None:
    content = pax({"path": "real.tex", "size": "3"}) + header(b"a.tex", 0) + padded(b"abc") + B
    assert read(tmp_path, content).files == {"real.tex": b"abc", "b.tex": b"y"}


def test_a_sparse_file_ends_the_reading(tmp_path: Path) -> None:
    package = read(tmp_path, A + pax({"GNU.sparse.major": "1", "GNU.sparse.realsize": "9" * 19}) + B)
    assert package.files == {"a.tex": b"x"}
    assert "sparse file" in package.skips[0].cause


def test_an_xz_that_asks_for_gigabytes_of_memory_is_refused(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 27}]
    content = bytearray(lzma.compress(b"text", filters=filters))
    at = content.index(b"\x21\x01") + 2
    content[at] = 40  # a dictionary of 4 GiB
    content[20:24] = struct.pack("<L", zlib.crc32(content[12:20]))
    with pytest.raises(ArchiveError, match=r"[Mm]emory"):
        read(tmp_path, bytes(content))


# ---------------------------------------------------------------- damage


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["", *COMPRESSIONS])
def test_a_truncated_tar_keeps_its_complete_members(tmp_path: Path, compression: str) -> None:
    noise = random.Random(1).randbytes
    files = {f"{number}.tex": noise(60_000) for number in range(40)}  # several blocks of bzip2 and zstd
    content = tar_of(files)
    if compression:
        content = COMPRESSIONS[compression](content)
    package = read(tmp_path, content[: len(content) * 2 // 3])
    assert len(package.files) >= 2
    assert all(files[name] == text for name, text in package.files.items())
    (skip,) = package.skips
    assert "too early" in skip.cause


def test_a_damaged_tar_header_ends_the_reading(tmp_path: Path) -> None:
    content = bytearray(tar_of({"a.tex": b"1", "b.tex": b"2"}))
    content[1024] ^= 1
    package = read(tmp_path, bytes(content), name="p.tar")
    assert package.files == {"a.tex": b"1"}
    assert causes(package) == {"p.tar": "a tar header is damaged (bad checksum); what came before is kept"}


def test_a_wrong_checksum_at_the_end_of_a_gzipped_tar_is_reported(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(tar_of(TREE | {"z.png": random.Random(1).randbytes(2000)})))
    content[-6] ^= 1
    package = read(tmp_path, bytes(content))
    assert package.files == TREE
    assert "incorrect data check" in package.skips[0].cause


def test_a_damaged_zip_member_is_a_skip_and_a_zip_of_damaged_members_an_error(tmp_path: Path) -> None:
    content = zip_of({"a.tex": b"first", "b.tex": b"second"}, zipfile.ZIP_STORED)
    package = read(tmp_path, content.replace(b"first", b"fIrst"))
    assert package.files == {"b.tex": b"second"}
    assert "it is damaged (Bad CRC-32" in causes(package)["a.tex"]
    with pytest.raises(ArchiveError, match="CRC"):
        read(tmp_path, content.replace(b"first", b"fIrst").replace(b"second", b"sEcond"))


def test_a_truncated_zip_or_compressed_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError):
        read(tmp_path, zip_of(TREE)[:-30])
    for compress in COMPRESSIONS.values():
        with pytest.raises(ArchiveError):
            read(tmp_path, compress(b"text " * 99)[:-5])


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "empty"),
        (b"\\documentclass{article}", "tar, zip"),
        (b"%PDF-1.5", "PDF"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"PK\3\4", "zip"),
        (bytes(300) + b"ustar", "tar, zip"),
        (bytes(257) + b"ustar", "tar header"),
    ],
)
def test_a_file_that_is_no_archive_is_an_error_that_says_so(tmp_path: Path, content: bytes, cause: str) -> None:
    with pytest.raises(ArchiveError, match=cause):
        read(tmp_path, content)


def test_a_missing_file_is_an_error_of_the_disk_and_a_pipe_is_refused(tmp_path: Path) -> None:
    for open_file in (open_decompressed, lambda path: read_package(path, everything)):
        with pytest.raises(FileNotFoundError):
            open_file(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ArchiveError, match=path.name):
            read_package(path, everything)


# ---------------------------------------------------------------- plain and compressed tables


def test_open_decompressed_streams_any_compression_and_leaves_other_files_as_they_are(tmp_path: Path) -> None:
    text = b"id,text\n" + b"".join(b"%d,pump\n" % number for number in range(50_000))
    path = tmp_path / "log.csv"
    for compress in (bytes, *COMPRESSIONS.values()):
        path.write_bytes(compress(text))
        with open_decompressed(path) as file:
            assert file.readline() == b"id,text\n"
            assert list(file) == text.splitlines(keepends=True)[1:]
    path.write_bytes(b"")
    with open_decompressed(path) as file:
        assert file.read() == b""


def test_open_decompressed_says_where_the_data_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(random.Random(1).randbytes(200_000))[:100_000])
    with open_decompressed(path) as file:
        assert len(file.read(50_000)) == 50_000
        with pytest.raises(ArchiveError, match=r"log\.gz"):
            file.read()


def test_open_decompressed_reads_past_the_limit_of_a_file_but_not_a_bomb(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"a" * 10_000) * 10)
    for limits in (Limits(), Limits(file_bytes=1000, ratio=300)):
        with open_decompressed(path, limits) as file:
            assert len(file.read()) == 100_000
    with (
        open_decompressed(path, Limits(file_bytes=1000, ratio=1)) as file,
        pytest.raises(ArchiveError, match="1 to 1"),
    ):
        file.read()


def test_open_decompressed_closes_its_file(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"x"))
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208
    for _ in range(20):
        open_decompressed(path).close()
    assert not before or len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


# ---------------------------------------------------------------- properties

PARTS = st.text("abcäß .~-_0", min_size=1, max_size=12).filter(lambda part: part not in (".", ".."))
NAMES = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
CONTENTS = st.binary(max_size=2000).filter(lambda content: sniff(content[:512]) in ("", "pdf"))
TREES = st.dictionaries(NAMES, CONTENTS, min_size=1, max_size=8)
ARCHIVES = [tar_of(TREE), zip_of(TREE), *(compress(tar_of(TREE)) for compress in COMPRESSIONS.values())]
MAGIC = [b"", b"\x1f\x8b\x08\0", b"\xfd7zXZ\0", b"BZh91AY&SY", b"\x28\xb5\x2f\xfd", b"PK\3\4", b"PK\1\2", b"PK\5\6"]


@given(TREES, st.sampled_from([bytes, *COMPRESSIONS.values()]), st.sampled_from([1, 2]))
def test_packed_files_are_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    tree: dict[str, bytes],
    compress: Callable[[bytes], bytes],
    format: int,  # noqa: A002 - GNU or pax
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    assert read(folder, zip_of(tree)) == (tree, [])
    assert read(folder, compress(tar_of(tree, format))) == (tree, [])


@given(
    st.sampled_from([*MAGIC, header(b"a.tex", 900), *ARCHIVES]),
    st.binary(max_size=1500),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=4),
)
def test_any_bytes_end_in_safe_names_or_an_archive_error(
    tmp_path_factory: pytest.TempPathFactory, archive: bytes, content: bytes, flips: list[tuple[float, int]]
) -> None:
    flipped = bytearray(archive or b"x")
    for place, mask in flips:
        flipped[int(place * len(flipped))] ^= mask
    path = tmp_path_factory.getbasetemp() / "bytes"
    for data in (flipped, archive + content, content + archive):
        path.write_bytes(data)
        with suppress(ArchiveError):
            for name in read_package(path, everything).files:
                assert not {"", ".", ".."} & set(name.split("/"))
        with open_decompressed(path) as file, suppress(ArchiveError):
            file.read()
