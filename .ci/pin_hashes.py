"""Writes requirements-demo.txt: every package of constraints.txt with the hashes of the wheels that fit this machine.

    .venv/bin/python .ci/pin_hashes.py

Run it on Linux x86_64 with Python 3.11. Reads the pages of the package index; nothing is downloaded. Packages without a
fitting wheel have no hash, and neither has torch: its builds for CPUs come from other indexes, with other hashes.
"""

from __future__ import annotations

import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
ELSEWHERE = "torch"
HEAD = """\
# Made by .ci/pin_hashes.py from constraints.txt, for Linux x86_64 and Python 3.11; `make demo-hashes` installs it.
# Without a hash: {unpinned}.
"""


def read(address: str, tries: int = 4) -> str:
    """A page of the index, asked for again where the connection breaks."""
    try:
        request = urllib.request.Request(address, headers={"Accept": "text/html"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(answer.read().decode())
    except OSError:
        if tries == 1:
            raise
        return read(address, tries - 1)


def hashes(package: str) -> list[str]:
    """The SHA-256 of every wheel of a package (`name==version`) that fits this machine."""
    name, _, version = package.partition("==")
    page = read(f"{INDEX}/{canonicalize_name(name)}/")
    fitting = []
    for file, digest in re.findall(r"""href=["'][^"']*?([^"'/#]+\.whl)#sha256=([0-9a-f]{64})""", page):
        try:
            _, other, _, tags = parse_wheel_filename(file.replace("%2B", "+"))
        except InvalidWheelFilename:
            continue
        if str(other) == version and not tags.isdisjoint(TAGS):
            fitting.append(digest)
    return sorted(fitting)


TAGS = frozenset(sys_tags())


def main() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    packages = [line for line in lines if re.match(r"[\w.-]+==", line)]
    pinned = [package for package in packages if package.partition("==")[0] != ELSEWHERE]
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(pinned, pool.map(hashes, pinned), strict=True))
    unpinned = [ELSEWHERE, *(package.partition("==")[0] for package, digests in found.items() if not digests)]
    text = HEAD.format(unpinned=", ".join(unpinned))
    for package, digests in found.items():
        if digests:
            name, _, version = package.partition("==")
            marks = " \\\n".join(f"    --hash=sha256:{digest}" for digest in digests)
            text += f"{canonicalize_name(name)}=={version} \\\n{marks}\n"
    (ROOT / "requirements-demo.txt").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
