"""Makes the archive of a small workspace in the present format; run it once when the format changes.

`python -m tests.workspaces.make` writes `format-N.tar.xz` beside this file.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from lemmata.core.workspace import FORMAT
from lemmata.project import Project

HERE = Path(__file__).parent
PAPER = r"""\documentclass{article}
\newtheorem{theorem}{Theorem}
\newtheorem{definition}{Definition}
\title{The %(name)s of a lantern}
\begin{document}
\section{Lanterns}
\begin{definition}\label{def-%(name)s}
The \emph{%(name)s} of a lantern is the number of its panes that show %(name)s light at dusk.
\end{definition}
\begin{theorem}[Law of the %(name)s]\label{thm-%(name)s}
A lantern with $n$ panes has a %(name)s of at most $n$; compare Definition \ref{def-%(name)s}.
\end{theorem}
\begin{proof} Count the panes one by one. \end{proof}
\end{document}
"""
NAMES = ("amber", "cobalt", "crimson", "emerald", "ivory", "violet")


def write_papers(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"{name}.tex").write_text(PAPER % {"name": name}, "utf-8")
    return folder


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = Project.init(folder / "w")
        project.ingest([write_papers(folder / "papers", *NAMES)], workers=1)
        project.build_graph()
        project.split()
        project.mine("pairs")
        project.index(settings={"encoder": "hashing", "dimension": 32})
        with tarfile.open(HERE / f"format-{FORMAT}.tar.xz", "w:xz") as archive:
            for path in ("papers", "w"):
                archive.add(folder / path, path, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if member.name.endswith(".lock"):
        return None
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
