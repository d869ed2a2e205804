"""Archives: all kinds are read, hostile and damaged ones end in a reason and never in a crash."""

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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.archives import Limits, Package, open_plain, read_package, sniff
from lemmata.errors import ArchiveError

TREE = {
    "main.tex": b"\\begin{document}x\\end{document}\n" * 40,
    "sections/one.tex": b"",
    "fig/a b.png": bytes(700),
}

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
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


def header(name: bytes, size: int = 0, kind: bytes = b"0", magic: bytes = b"ustar\x0000") -> bytearray:
    """A tar header with a right checksum; sizes that need it go in base 256."""
    block = bytearray(512)
    block[: len(name)] = name
    block[124:136] = b"%011o\0" % size if size < 8**11 else b"\x80" + size.to_bytes(11, "big")
    block[156:157] = kind
    block[257 : 257 + len(magic)] = magic
    return sealed(block)


def sealed(block: bytearray) -> bytearray:
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return block


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


def pax(records: dict[str, str]) -> bytes:
    text = b""
    for key, value in records.items():
        rest = f" {key}={value}\n".encode()
        length = next(n for n in range(len(rest), len(rest) + 9) if n == len(rest) + len(str(n)))
        text += str(length).encode() + rest
    return bytes(header(b"pax", len(text), b"x")) + padded(text)


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


# ---------------------------------------------------------------- what is read


def test_every_kind_is_known_by_its_content() -> None:
    for kind, compress in COMPRESSIONS.items():
        assert sniff(compress(b"x")[:512]) == kind
        assert sniff(compress(b"")[:512]) == kind
    assert sniff(tar_of(TREE)[:512]) == "tar"
    assert sniff(zip_of(TREE)[:512]) == "zip"
    assert sniff(zip_of({})) == "zip"
    assert sniff(b"%PDF-1.5\n") == "pdf"
    for plain in (b"", b"\\documentclass{article}", b"BZh is no bzip2", b"% made for %PDF-1.5", bytes(512)):
        assert sniff(plain) == ""


def test_a_tar_from_before_ustar_is_known_by_its_checksum() -> None:
    block = header(b"old.tex", 2, b"\0", magic=b"")
    assert sniff(bytes(block)) == "tar"
    block[0] ^= 1
    assert sniff(bytes(block)) == ""


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


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_zips_are_read(tmp_path: Path, method: int) -> None:
    tree = TREE | {"größe.tex": b"2"}
    assert read(tmp_path, zip_of(tree, method), name="misleading.tar.gz") == (tree, [])


def test_zip64_is_read(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, archive.open("a.tex", "w", force_zip64=True) as member:
        member.write(b"wide")
    assert read(tmp_path, buffer.getvalue()).files == {"a.tex": b"wide"}


def test_a_directory_with_zip64_fields_is_followed(tmp_path: Path) -> None:
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 45, 0, 0, 0, 0, zlib.crc32(b"wide"), 4, 4, 1, 0) + b"awide"
    wide = struct.pack("<2H3Q", 1, 24, 4, 4, 0)
    central = struct.pack(
        "<4s6H3L5H2L",
        b"PK\1\2",
        45,
        45,
        0,
        0,
        0,
        0,
        zlib.crc32(b"wide"),
        *[0xFFFFFFFF] * 2,
        1,
        28,
        0,
        0,
        0,
        0,
        0xFFFFFFFF,
    )
    central += b"a" + wide
    place = len(local)
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(central), place)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, place + len(central), 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    content = local + central + end64 + locator + end
    assert zipfile.ZipFile(io.BytesIO(content)).read("a") == b"wide"  # the oracle agrees that this is a zip
    assert read(tmp_path, content).files == {"a": b"wide"}


def test_a_zip_behind_other_data_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, b"#!/bin/sh\nexec unzip\n" + zip_of(TREE)) == (TREE, [])


def test_a_zip_with_a_comment_and_one_followed_by_garbage_are_read(tmp_path: Path) -> None:
    buffer = io.BytesIO(zip_of(TREE))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = b"PK\5\6 is not the end"
    assert read(tmp_path, buffer.getvalue()) == (TREE, [])
    assert read(tmp_path, zip_of(TREE) + b"garbage" * 9) == (TREE, [])


@pytest.mark.parametrize("content", [tar_of({}), gzip.compress(tar_of({})), zip_of({})], ids=["tar", "gzip", "zip"])
def test_empty_archives_are_empty(tmp_path: Path, content: bytes) -> None:
    if sniff(content[:512]):  # a bare run of zeros is no tar that could be known
        assert read(tmp_path, content) == ({}, [])
    else:
        with pytest.raises(ArchiveError):
            read(tmp_path, content)


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
def test_one_compressed_file_is_named_after_its_archive(tmp_path: Path, file: str, inside: str) -> None:
    assert read(tmp_path, gzip.compress(b"\\section{A}"), name=file) == ({inside: b"\\section{A}"}, [])


def test_a_compressed_pdf_is_not_called_tex(tmp_path: Path) -> None:
    assert list(read(tmp_path, gzip.compress(b"%PDF-1.5"), name="2004.14974.gz").files) == ["2004.14974.pdf"]


@pytest.mark.parametrize(
    ("original", "inside"),
    [
        ("real.tex", "real.tex"),
        ("9901001", "9901001.tex"),
        ("../evil.tex", "a.tex"),
        ("a\tb", "a.tex"),
        ("", "a.tex"),
    ],
)
def test_the_name_in_a_gzip_header_counts_where_it_is_sane(tmp_path: Path, original: str, inside: str) -> None:
    named = bytearray(gzip.compress(b"text", mtime=0))
    named[3] |= 8
    named[10:10] = original.encode() + b"\0"
    assert list(read(tmp_path, bytes(named), name="a.gz").files) == [inside]


def test_only_what_is_wanted_is_read(tmp_path: Path) -> None:
    for content in (tar_of(TREE), gzip.compress(tar_of(TREE)), zip_of(TREE)):
        package = read(tmp_path, content, tex)
        assert package == ({name: TREE[name] for name in TREE if tex(name)}, [])
    assert read(tmp_path, gzip.compress(b"x"), tex, name="a.csv.gz") == ({}, [])


def test_unwanted_links_and_damaged_unwanted_zip_members_cause_no_skip(tmp_path: Path) -> None:
    content = header(b"a.png", 0, b"2") + header(b"a.tex", 1) + padded(b"x")
    assert read(tmp_path, bytes(content), tex) == ({"a.tex": b"x"}, [])
    broken = zip_of({"a.tex": b"x", "b.png": b"picture"}, zipfile.ZIP_STORED).replace(
        b"picture", b"pictures"[:6] + b"X", 1
    )
    assert read(tmp_path, broken, tex) == ({"a.tex": b"x"}, [])


def test_names_are_normalised(tmp_path: Path) -> None:
    files = {"./a//b.tex": b"1", "c/./d.tex": b"2", "./": b""}
    assert read(tmp_path, tar_of(files)) == ({"a/b.tex": b"1", "c/d.tex": b"2"}, [])
    assert read(tmp_path, zip_of({"e\\f.tex": b"3", "g\\": b""})) == ({"e/f.tex": b"3"}, [])


def test_concatenated_streams_padding_and_garbage_behind_them(tmp_path: Path) -> None:
    for compress in COMPRESSIONS.values():
        packed = compress(b"one ") + compress(b"") + compress(b"two")
        for rest in (b"", bytes(3000), b"garbage", b"\x1f"):
            assert read(tmp_path, packed + rest, name="a.tex.gz") == ({"a.tex": b"one two"}, [])
    half = len(tar_of(TREE)) // 2
    parts = gzip.compress(tar_of(TREE)[:half]) + gzip.compress(tar_of(TREE)[half:]) + b"garbage"
    assert read(tmp_path, parts) == (TREE, [])


def test_zstd_frames_to_be_passed_over_are_passed_over(tmp_path: Path) -> None:
    empty = b"\x50\x2a\x4d\x18" + struct.pack("<L", 5) + b"12345"
    content = empty + zstandard.compress(b"one ") + empty + zstandard.compress(b"two")
    assert read(tmp_path, content, name="a.tex.zst").files == {"a.tex": b"one two"}


@pytest.mark.parametrize("end", [b"", bytes(512), bytes(1024), bytes(512) + b"x" * 512])
def test_a_tar_may_end_as_it_likes(tmp_path: Path, end: bytes) -> None:
    content = bytes(header(b"a.tex", 3)) + padded(b"abc")
    assert read(tmp_path, content + end) == ({"a.tex": b"abc"}, [])
    assert read(tmp_path, gzip.compress(content + end)) == ({"a.tex": b"abc"}, [])


# ---------------------------------------------------------------- archives inside archives


def test_an_archive_inside_an_archive_is_opened_once(tmp_path: Path) -> None:
    innermost = zip_of({"deep.tex": b"3"})
    inner = gzip.compress(tar_of({"b.tex": b"2", "innermost.zip": innermost}))
    package = read(tmp_path, zip_of({"a.tex": b"1", "sub/inner.tgz": inner}), tex)
    assert package.files == {"a.tex": b"1", "sub/inner.tgz/b.tex": b"2"}
    assert causes(package) == {"sub/inner.tgz/innermost.zip": "it is a zip archive too deep inside archives"}


def test_how_deep_it_goes_is_a_limit(tmp_path: Path) -> None:
    content = b"text"
    for _ in range(4):
        content = tar_of({"a": content})
    assert read(tmp_path, content, limits=Limits(nested=0)).files == {}
    assert read(tmp_path, content, limits=Limits(nested=2)).files == {}
    assert read(tmp_path, content, limits=Limits(nested=3)).files == {"a/a/a/a": b"text"}


def test_a_compressed_file_in_a_tar_stands_under_its_own_name(tmp_path: Path) -> None:
    package = read(tmp_path, tar_of({"fig.ps.gz": gzip.compress(b"%!PS", mtime=0)}))
    assert package == ({"fig.ps.gz/fig.ps": b"%!PS"}, [])


def test_a_broken_archive_inside_an_archive_is_a_skip(tmp_path: Path) -> None:
    package = read(tmp_path, tar_of({"a.tex": b"1", "b.gz": gzip.compress(b"x" * 999)[:-20], "c.tex": b"3"}))
    assert package.files == {"a.tex": b"1", "c.tex": b"3"}
    assert "end too early" in causes(package)["b.gz"]


def test_damage_inside_an_inner_archive_keeps_what_came_before(tmp_path: Path) -> None:
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
        ("../x.tex", "climbs"),
        ("a/../../x.tex", "climbs"),
        ("a/..", "climbs"),
        ("a\\..\\x.tex", "climbs"),
        ("a\x1b[2J.tex", "control"),
        ("a\nb.tex", "control"),
        ("a\x7f.tex", "control"),
        ("n" * 1025, "1,024 characters"),
    ],
)
def test_hostile_names_are_refused_and_the_rest_goes_on(tmp_path: Path, name: str, cause: str) -> None:
    for content in (tar_of({name: b"evil", "good.tex": b"1"}), zip_of({name: b"evil", "good.tex": b"1"})):
        package = read(tmp_path, content, tex)
        assert package.files == {"good.tex": b"1"}
        (skip,) = package.skips
        assert cause in skip.cause
        assert skip.file.isprintable()


def test_names_with_zero_bytes_or_in_another_encoding_are_refused(tmp_path: Path) -> None:
    tar = pax({"path": "a\0b.tex"}) + header(b"a.tex", 1) + padded(b"x") + header(b"\xe9.tex", 1) + padded(b"y")
    assert [skip.cause for skip in read(tmp_path, tar).skips] == [
        "its name holds control characters",
        "its name is not UTF-8",
    ]
    content = zip_of({"aXb.tex": b"x", "größe": b"y"})
    content = content.replace(b"aXb.tex", b"a\0b.tex").replace("größe".encode(), b"gr\xff\xff\xff\xffe")
    assert [skip.cause for skip in read(tmp_path, content).skips] == [
        "its name holds control characters",
        "its name is not UTF-8",
    ]


def test_a_zip_name_without_the_mark_of_unicode_is_read_as_utf_8_or_as_of_old(tmp_path: Path) -> None:
    content = zip_of({"aaaa.tex": b"1", "bb.tex": b"2"})
    content = content.replace(b"aaaa.tex", "öü.tex".encode()).replace(b"bb.tex", b"\x94\x81.tex")
    assert read(tmp_path, content).files == {"öü.tex": b"1", "öü.tex"[:2] + ".tex": b"2"}


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (b"1", "hard link"),
        (b"2", "symbolic link"),
        (b"3", "device"),
        (b"4", "device"),
        (b"6", "pipe"),
        (b"S", "sparse"),
        (b"Q", "unknown kind Q"),
    ],
)
def test_members_that_are_no_files_are_refused(tmp_path: Path, kind: bytes, cause: str) -> None:
    content = header(b"a.tex", 0, kind) + header(b"b.tex", 1) + padded(b"x")
    package = read(tmp_path, bytes(content))
    assert package.files == {"b.tex": b"x"}
    assert cause in causes(package)["a.tex"]


def test_a_sparse_map_that_goes_on_is_passed_over(tmp_path: Path) -> None:
    first = header(b"a.tex", 512, b"S", b"ustar  \0")
    first[482] = 1
    more, last = bytearray(512), bytearray(512)
    more[504] = 1
    content = bytes(sealed(first) + more + last) + b"d" * 512 + bytes(header(b"b.tex", 1)) + padded(b"x")
    package = read(tmp_path, content)
    assert package.files == {"b.tex": b"x"}
    assert list(causes(package)) == ["a.tex"]


def test_a_sparse_file_of_the_newer_kind_is_refused_under_its_real_name(tmp_path: Path) -> None:
    sparse = pax({"GNU.sparse.major": "1", "GNU.sparse.name": "real.tex", "GNU.sparse.realsize": "9" * 19})
    content = sparse + header(b"GNUSparseFile.1/real.tex", 512) + bytes(512) + header(b"b.tex", 1) + padded(b"x")
    package = read(tmp_path, content)
    assert package.files == {"b.tex": b"x"}
    assert causes(package) == {"real.tex": "it is a sparse file"}


def test_links_and_encrypted_members_of_a_zip_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, mode in (
            ("link.tex", stat.S_IFLNK),
            ("pipe.tex", stat.S_IFIFO),
            ("good.tex", stat.S_IFREG),
        ):
            info = zipfile.ZipInfo(name)
            info.external_attr = (mode | 0o644) << 16
            archive.writestr(info, b"/etc/passwd")
        archive.writestr("secret.tex", b"?")
    content = bytearray(buffer.getvalue())
    content[content.rindex(b"PK\1\2") + 8] |= 1  # as the directory marks an encrypted member
    package = read(tmp_path, bytes(content))
    assert list(package.files) == ["good.tex"]
    assert causes(package) == {
        "link.tex": "it is a symbolic link",
        "pipe.tex": "it is a device or a pipe",
        "secret.tex": "it is encrypted",
    }


def test_an_unknown_compression_inside_a_zip_is_a_skip(tmp_path: Path) -> None:
    package = read(tmp_path, zip_of({"a.tex": b"1" * 99}, zipfile.ZIP_LZMA))
    assert causes(package) == {"a.tex": "it is compressed by method 14, which is not known here"}


def test_of_a_repeated_name_the_last_is_kept_and_that_is_said(tmp_path: Path) -> None:
    tar = header(b"a.tex", 1) + padded(b"1") + header(b"./a.tex", 1) + padded(b"2")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.tex", b"1")
        archive.writestr(".//a.tex", b"2")
    for content in (bytes(tar), buffer.getvalue()):
        package = read(tmp_path, content)
        assert package.files == {"a.tex": b"2"}
        assert "the last one is kept" in causes(package)["a.tex"]


# ---------------------------------------------------------------- limits


def test_a_file_over_the_limit_is_skipped_and_the_rest_goes_on(tmp_path: Path) -> None:
    files = {"big.tex": b"x" * 1001, "small.tex": b"x" * 1000}
    for content in (tar_of(files), gzip.compress(tar_of(files)), zip_of(files)):
        package = read(tmp_path, content, limits=Limits(file_bytes=1000))
        assert list(package.files) == ["small.tex"]
        assert causes(package) == {"big.tex": "it has 1,001 bytes; the limit for one file is 1,000"}
    package = read(tmp_path, gzip.compress(b"x" * 1001), limits=Limits(file_bytes=1000), name="a.gz")
    assert causes(package) == {"a.tex": "it has more than 1,000 bytes, the limit for one file"}


def test_more_than_the_total_of_wanted_bytes_is_an_error_with_numbers(tmp_path: Path) -> None:
    files = {"a.tex": b"x" * 600, "b.tex": b"y" * 600, "c.png": b"z" * 6000}
    for content in (tar_of(files), zip_of(files)):
        with pytest.raises(ArchiveError, match=r"archive: holds more than 1,199 bytes of wanted files"):
            read(tmp_path, content, tex, Limits(total_bytes=1199))
        assert len(read(tmp_path, content, tex, Limits(total_bytes=1200)).files) == 2


def test_too_many_members_are_an_error_even_where_they_hide_in_an_inner_archive(tmp_path: Path) -> None:
    files = {f"{number}.png": b"" for number in range(60)}
    for content in (tar_of(files), zip_of(files), tar_of({"a.zip": zip_of(files)})):
        with pytest.raises(ArchiveError, match="more than 50 members"):
            read(tmp_path, content, tex, Limits(files=50))


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_a_bomb_stops_at_the_limit_without_the_memory(tmp_path: Path, kind: str) -> None:
    compress = COMPRESSIONS[kind]
    body = compress(bytes(1 << 22)) * 20  # 80 MB
    start = compress(bytes(header(b"a.tex", 20 << 22)))
    for content in (start + body, body):
        for wanted in (everything, tex):
            tracemalloc.start()
            with pytest.raises(ArchiveError, match=r"packed bytes unpack to [\d,]+ and more; over 200 to 1 is refused"):
                read(tmp_path, content, wanted, name="a.tex.gz")
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 64 << 20


def test_a_single_zstd_frame_that_explodes_is_a_bomb_too(tmp_path: Path) -> None:
    content = zstandard.compress(bytes(1 << 28))
    tracemalloc.start()
    with pytest.raises(ArchiveError, match="over 200 to 1"):
        read(tmp_path, content)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_a_bomb_inside_an_inner_archive_counts_against_the_outer_file(tmp_path: Path) -> None:
    inner = gzip.compress(gzip.compress(bytes(1 << 20)) * 500)  # small, 500 KB, 500 MB
    with pytest.raises(ArchiveError, match="over 200 to 1"):
        read(tmp_path, inner)


def test_millions_of_empty_streams_and_records_are_refused_and_not_read_for_minutes(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="over 200 to 1"):
        read(tmp_path, gzip.compress(gzip.compress(b"", 1) * 200_000))
    records = bytes(header(b"pax", 1 << 20, b"x")) + b"128 a=%121d\n" % 0 * (1 << 13)
    good = bytes(header(b"a.tex", 1)) + padded(b"x")
    package = read(tmp_path, good + records * 20)
    assert package.files == {"a.tex": b"x"}
    assert "more than 16,777,216 bytes of extended headers" in package.skips[0].cause


def test_overlapping_zip_members_are_bounded(tmp_path: Path) -> None:
    checksum = zlib.crc32(bytes(1 << 20))
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = packed.compress(bytes(1 << 20)) + packed.flush()
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 0, checksum, len(data), 1 << 20, 1, 0)
    central = b"".join(
        struct.pack(
            "<4s6H3L5H2L",
            b"PK\1\2",
            20,
            20,
            0,
            8,
            0,
            0,
            checksum,
            len(data),
            1 << 20,
            5,
            *[0] * 4,
            0,
            0,
        )
        + b"%05d" % number
        for number in range(2000)
    )
    body = local + b"x" + data
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2000, 2000, len(central), len(body), 0)
    with pytest.raises(ArchiveError, match="over 200 to 1"):
        read(tmp_path, body + central + end)
    with pytest.raises(ArchiveError, match="bytes of wanted files"):
        read(tmp_path, body + central + end, limits=Limits(ratio=10**6, total_bytes=8 << 20))


def test_a_zip_member_that_unpacks_to_more_than_it_claims_is_a_skip(tmp_path: Path) -> None:
    content = bytearray(zip_of({"liar.tex": b"x" * 5000, "good.tex": b"1"}))
    content[content.index(b"PK\1\2") + 24 :][:4] = b""
    at = content.index(b"PK\1\2") + 24
    content[at : at + 4] = struct.pack("<L", 10)
    package = read(tmp_path, bytes(content))
    assert package.files == {"good.tex": b"1"}
    assert causes(package) == {"liar.tex": "it unpacks to more than the 10 bytes it claims"}


def test_a_tar_member_that_claims_eight_exbibytes_is_a_skip(tmp_path: Path) -> None:
    good = bytes(header(b"good.tex", 1)) + padded(b"x")
    package = read(tmp_path, good + bytes(header(b"liar.tex", 8 << 60)) + padded(b"y"))
    assert package.files == {"good.tex": b"x"}
    assert [skip.file for skip in package.skips] == ["liar.tex", "liar.tex"]
    assert "9,223,372,036,854,775,808 bytes" in package.skips[0].cause
    assert "too early" in package.skips[1].cause
    with pytest.raises(ArchiveError):
        read(tmp_path, bytes(header(b"liar.tex", 8 << 60)) + padded(b"y"))


@pytest.mark.parametrize("kind", [b"x", b"L", b"g", b"K"])
def test_an_extended_header_of_gigabytes_is_never_in_memory(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "a.tar"
    with path.open("wb") as file:
        file.write(header(b"pax", 1 << 26, kind))
        file.seek(1 << 26, os.SEEK_CUR)  # a hole
        file.write(header(b"a.tex", 1) + padded(b"x") + header(b"b.tex", 1) + padded(b"y"))
    tracemalloc.start()
    package = read_package(path, everything)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    if kind in b"xL":
        assert package.files == {"b.tex": b"y"}
        assert causes(package) == {"a.tex": "its extended header claims 67,108,864 bytes"}
    else:
        assert package == ({"a.tex": b"x", "b.tex": b"y"}, [])


@pytest.mark.parametrize(
    "text", [b"12 path=x.tex", b"9999999 path=x\n", b"path=x\n", b"8 size=x\n", b"99 " + b"9" * 99]
)
def test_a_damaged_extended_header_costs_its_member_only(tmp_path: Path, text: bytes) -> None:
    extended = bytes(header(b"pax", len(text), b"x")) + padded(text)
    content = extended + header(b"a.tex", 1) + padded(b"x") + header(b"b.tex", 1) + padded(b"y")
    package = read(tmp_path, content)
    assert package.files == {"b.tex": b"y"}
    assert "its extended header" in causes(package)["a.tex"]


def test_an_extended_size_counts_and_an_absurd_one_is_damage(tmp_path: Path) -> None:
    content = pax({"size": "3"}) + header(b"a.tex", 0) + padded(b"abc") + header(b"b.tex", 1) + padded(b"y")
    assert read(tmp_path, content).files == {"a.tex": b"abc", "b.tex": b"y"}
    with pytest.raises(ArchiveError, match="too early"):
        read(tmp_path, pax({"size": "9" * 20}) + header(b"a.tex", 0) + padded(b"abc"))


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("compression", ["", *COMPRESSIONS])
def test_a_truncated_tar_keeps_what_was_whole(tmp_path: Path, compression: str) -> None:
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


def test_a_damaged_tar_header_ends_the_reading_with_its_place(tmp_path: Path) -> None:
    content = bytearray(tar_of({"a.tex": b"1", "b.tex": b"2"}))
    content[1024] ^= 1
    package = read(tmp_path, bytes(content), name="p.tar")
    assert package.files == {"a.tex": b"1"}
    assert causes(package) == {
        "p.tar": "the tar header at byte 1,024 is damaged (its checksum is wrong); what came before is kept"
    }


def test_a_wrong_checksum_at_the_end_of_a_gzipped_tar_is_told(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(tar_of(TREE)))
    content[-6] ^= 1
    package = read(tmp_path, bytes(content))
    assert package.files == TREE
    assert "incorrect data check" in package.skips[0].cause


def test_a_truncated_zip_is_read_without_its_directory(tmp_path: Path) -> None:
    content = zip_of(TREE)
    package = read(tmp_path, content[: content.index(b"PK\1\2") + 9], name="p.zip")
    assert package.files == TREE
    assert causes(package) == {"p.zip": "the directory at the end of the zip is missing; what came before is kept"}
    cut = read(tmp_path, content[: content.rindex(b"PK\3\4") + 45], name="p.zip")
    assert list(cut.files) == ["main.tex", "sections/one.tex"]
    assert list(causes(cut)) == ["fig/a b.png", "p.zip"]


def test_a_truncated_zip_that_was_written_to_a_pipe_is_read_too(tmp_path: Path) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError

    buffer = Pipe()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in TREE.items():
            archive.writestr(name, text)
    content = buffer.getvalue()
    assert read(tmp_path, content[: content.index(b"PK\1\2")]).files == TREE


def test_a_damaged_zip_member_is_a_skip_and_all_damaged_an_error(tmp_path: Path) -> None:
    content = zip_of({"a.tex": b"first", "b.tex": b"second"}, zipfile.ZIP_STORED)
    package = read(tmp_path, content.replace(b"first", b"fIrst"))
    assert package == ({"b.tex": b"second"}, [("a.tex", 0, "its checksum is wrong")])
    with pytest.raises(ArchiveError, match="checksum is wrong"):
        read(tmp_path, content.replace(b"first", b"fIrst").replace(b"second", b"sEcond"))


def test_a_truncated_single_file_is_an_error(tmp_path: Path) -> None:
    for compress in COMPRESSIONS.values():
        with pytest.raises(ArchiveError, match="end too early"):
            read(tmp_path, compress(b"text " * 99)[:-5])


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "the file is empty"),
        (b"\\documentclass{article}", "the file is not an archive"),
        (b"%PDF-1.5", "the file is a PDF"),
        (b"\x1f\x8b\x08", "end too early"),
        (b"PK\3\4", "directory at the end of the zip is missing"),
        (bytes(300) + b"ustar", "not an archive"),
        (bytes(257) + b"ustar", "in the middle of a header"),
    ],
)
def test_what_is_no_archive_is_named(tmp_path: Path, content: bytes, cause: str) -> None:
    with pytest.raises(ArchiveError, match=cause):
        read(tmp_path, content)


def test_a_missing_file_is_the_disks_error_and_a_pipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_package(tmp_path / "none", everything)
    with pytest.raises(FileNotFoundError):
        open_plain(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ArchiveError, match="not a regular file"):
            read_package(path, everything)


def test_an_xz_that_asks_for_gigabytes_of_memory_is_refused(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 27}]
    content = bytearray(lzma.compress(b"text", filters=filters))
    at = content.index(b"\x21\x01") + 2
    content[at] = 40  # a dictionary of 4 GiB
    content[20:24] = struct.pack("<L", zlib.crc32(content[12:20]))
    with pytest.raises(ArchiveError, match=r"[Mm]emory"):
        read(tmp_path, bytes(content))


# ---------------------------------------------------------------- plain and compressed tables


def test_open_plain_streams_any_compression_and_leaves_the_rest_alone(tmp_path: Path) -> None:
    text = b"id,text\n" + b"".join(b"%d,pump\n" % number for number in range(50_000))
    path = tmp_path / "log.csv"
    for compress in (bytes, *COMPRESSIONS.values()):
        path.write_bytes(compress(text))
        with open_plain(path) as file:
            assert file.readline() == b"id,text\n"
            assert list(file) == text.splitlines(keepends=True)[1:]
    path.write_bytes(b"")
    with open_plain(path) as file:
        assert file.read() == b""


def test_open_plain_says_where_it_breaks(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(random.Random(1).randbytes(200_000))[:100_000])
    with open_plain(path) as file:
        assert len(file.read(50_000)) == 50_000
        with pytest.raises(ArchiveError, match=r"log\.gz: the gzip data end too early, after 100,000 bytes"):
            file.read()


def test_open_plain_reads_past_the_limit_of_a_file_but_not_a_bomb(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"a" * 10_000) * 10)
    with open_plain(path, Limits(file_bytes=1000)) as file:
        assert len(file.read()) == 100_000
    with open_plain(path, Limits(file_bytes=1000, ratio=30)) as file:
        assert len(file.read()) == 100_000
    with (
        open_plain(path, Limits(file_bytes=1000, ratio=1)) as file,
        pytest.raises(ArchiveError, match="over 10 to 1"),
    ):
        file.read()


def test_open_plain_closes_its_file(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"x"))
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208
    for _ in range(20):
        open_plain(path).close()
    assert not before or len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


# ---------------------------------------------------------------- properties

PARTS = st.text("abcäß .~-_0", min_size=1, max_size=12).filter(lambda part: part not in (".", ".."))
NAMES = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
CONTENTS = st.binary(max_size=2000).filter(lambda content: sniff(content[:512]) in ("", "pdf"))
TREES = st.dictionaries(NAMES, CONTENTS, max_size=8)


@settings(deadline=None)
@given(TREES, st.sampled_from([bytes, *COMPRESSIONS.values()]), st.sampled_from([0, 1, 2]))
def test_what_is_packed_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    tree: dict[str, bytes],
    compress: Callable[[bytes], bytes],
    format: int,  # noqa: A002
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    assert read(folder, zip_of(tree)) == (tree, [])
    if tree or compress is not bytes:
        formats = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)
        assert read(folder, compress(tar_of(tree, formats[format]))) == (tree, [])


MAGIC = [
    b"",
    b"\x1f\x8b\x08\0",
    b"\xfd7zXZ\0",
    b"BZh91AY&SY",
    b"\x28\xb5\x2f\xfd",
    b"PK\3\4",
    b"PK\1\2",
    b"PK\5\6",
]


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([*MAGIC, bytes(header(b"a.tex", 900)), tar_of(TREE), zip_of(TREE)]),
    st.binary(max_size=1500),
)
def test_any_bytes_end_in_a_package_or_an_archive_error(
    tmp_path_factory: pytest.TempPathFactory, magic: bytes, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes"
    for data in (magic + content, content + magic):
        path.write_bytes(data)
        with suppress(ArchiveError):
            read_package(path, everything)
        with open_plain(path) as file, suppress(ArchiveError):
            file.read()


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([tar_of(TREE), zip_of(TREE), *(compress(tar_of(TREE)) for compress in COMPRESSIONS.values())]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4),
)
def test_flipped_bits_never_give_a_name_that_leaves_the_archive(
    tmp_path_factory: pytest.TempPathFactory, archive: bytes, flips: list[tuple[float, int]]
) -> None:
    data = bytearray(archive)
    for place, mask in flips:
        data[int(place * len(data))] ^= mask
    try:
        package = read(tmp_path_factory.getbasetemp(), bytes(data))
    except ArchiveError:
        return
    for name in package.files:
        parts = name.split("/")
        assert not {"", ".", ".."} & set(parts)
