"""Writes requirements-demo.txt: what the demo needs of constraints.txt, with the hashes of wheels for this machine.

    .venv/bin/python .ci/pin_hashes.py

Run it on Linux x86_64 with Python 3.11, after `make demo`: what a package needs is read from its installed metadata.
Reads the pages of the package index; nothing is downloaded. Packages without a fitting wheel have no hash, and neither
has torch: its builds for CPUs come from other indexes, with other hashes.
"""

from __future__ import annotations

import re
import tomllib
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
ELSEWHERE = "torch"
HEAD = """\
# What the demo needs, made by .ci/pin_hashes.py for Linux x86_64 and Python 3.11; `make demo-hashes` installs it.
# Without a hash: {unpinned}.
"""


def demo_packages() -> set[str]:
    """The names of all packages that the extra `demo` and the build of lemmata need, directly or not."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = declared["project"]["optional-dependencies"]
    waiting = [*declared["build-system"]["requires"], *declared["project"]["dependencies"], *extras["demo"]]
    seen: set[tuple[str, str]] = set()  # names with an extra, or without
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {extra for other, extra in seen if other == name}:
            seen.add((name, extra))
            if name == "lemmata":  # what is installed of it may be older than pyproject.toml
                waiting += extras.get(extra, ())
            else:
                waiting += [text for text in requires(name) or () if _applies(Requirement(text), extra)]
    return {name for name, _ in seen} - {"lemmata"}


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


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
    needed = demo_packages()
    packages = [line for line in lines if "==" in line and canonicalize_name(line.partition("==")[0]) in needed]
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
