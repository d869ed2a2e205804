"""Writes requirements-demo.txt: every package of constraints.txt with the hash of its wheel for this machine's Python.

    .venv/bin/python .ci/pin_hashes.py

Run it on Linux x86_64 with Python 3.11. Wheels that do not come from the index (torch for CPUs may lie in a local
folder) have no hash that holds elsewhere, so they are left out, and named at the end of the file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNPINNED = ("torch",)  # by which index it comes depends on the machine: CPU builds have hashes of their own
HEAD = """\
# Made by .ci/pin_hashes.py from constraints.txt; for Linux x86_64 and Python 3.11. `make demo-hashes` installs it.
# Without a hash: {unpinned}.
"""


def main() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    names = [line for line in lines if re.match(r"[\w.-]+==", line) and line.partition("==")[0] not in UNPINNED]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:", "--quiet"]
        command = [sys.executable, "-m", "pip", "install", *options, "--report", str(report), *names]
        subprocess.run(command, check=True)
        chosen = json.loads(report.read_text("utf-8"))["install"]
    entries = []
    for item in chosen:
        name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        entries.append(f"{name}=={item['metadata']['version']} \\\n    --hash=sha256:{digest}\n")
    text = HEAD.format(unpinned=", ".join(UNPINNED)) + "".join(sorted(entries))
    (ROOT / "requirements-demo.txt").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
