"""A full disk, a clock that jumps, and memory that runs out: one sentence, and nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.make import search, write_papers

from lemmata.project import Project

# ---------------------------------------------------------------- full


FILL = """
import json, os, shutil, subprocess, sys
from pathlib import Path
source, place = Path(sys.argv[1]), Path(sys.argv[2])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)], check=True)
shutil.copytree(source, place, dirs_exist_ok=True)
sys.path.insert(0, sys.argv[3])
from lemmata.core.errors import WorkspaceError
from lemmata.project import Project
from tests.make import write_papers
from tests.make import search
papers = write_papers(place / "papers", *(f"name{number}" for number in range(30)))
project = Project(place / "w")
before = search(project)
ballast = place / "ballast"
writers = {
    "ingest": lambda: project.ingest([papers], workers=1),
    "graph": project.build_graph,
    "index": lambda: project.index(settings={"encoder": "hashing"}, rebuild=True),
    "split": project.split,
    "pairs": lambda: project.mine("pairs"),
}
outcomes = []
for name, write in writers.items():
    for kilobytes in (0, 64):
        state = os.statvfs(place)
        ballast.write_bytes(bytes(max(0, state.f_bavail * state.f_frsize - 1024 * kilobytes)))
        sentence = ""
        try:
            write()
        except WorkspaceError as error:
            sentence = str(error)
        ballast.unlink()
        outcomes.append([name, kilobytes, sentence, [str(problem.sentence) for problem in project.verify().problems]])
        if name == "ingest" and sentence:
            assert search(project) == before
    write()
assert [problem for problem in project.verify().problems] == []
assert search(project)
print(json.dumps(outcomes))
"""


def test_every_stage_on_a_full_disk_says_so_and_keeps_the_state_before(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    place = tmp_path_factory.mktemp("disk")
    folders = [str(folder) for folder in (project.root.parent, place, Path(__file__).parents[2])]
    command = ["unshare", "--mount", sys.executable, "-c", FILL, *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "permission denied" in done.stderr:
        pytest.skip("a disk cannot be mounted here")
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    failed = [sentence for _, _, sentence, _ in outcomes if sentence]
    assert len(failed) >= 5
    assert all("the disk is full" in sentence for sentence in failed), failed
    assert not any(problems for *_, problems in outcomes), outcomes


# ---------------------------------------------------------------- clocks


@pytest.mark.parametrize("moment", [0, 4_102_444_800], ids=["1970", "2100"])
def test_times_of_files_in_the_past_or_the_future_change_nothing(project: Project, moment: int) -> None:
    before = search(project)
    folder = project.root.parent
    for path in folder.rglob("*"):
        os.utime(path, (moment, moment))
    assert project.verify().problems == []
    assert search(project) == before
    report = project.ingest([folder / "papers"])
    assert (report.added, report.changed, report.removed) == (0, 0, 0)
    assert project.index(settings={"encoder": "hashing"})["encoded"] == 0
    assert project.info()["problems"] == []


def test_a_file_that_changed_while_its_time_stayed_is_read_again(project: Project) -> None:
    paper = project.root.parent / "papers" / "width.tex"
    times = paper.stat().st_atime_ns, paper.stat().st_mtime_ns
    paper.write_text(paper.read_text("utf-8").replace("By induction", "By intuition"), "utf-8")
    os.utime(paper, ns=times)
    assert project.ingest([paper.parent]).changed == 1


# ---------------------------------------------------------------- memory


LIMITED = """
import resource, sys
size = int(sys.argv.pop(1)) << 20
resource.setrlimit(resource.RLIMIT_AS, (size, size))
from lemmata.cli.main import main
main()
"""


def test_a_file_larger_than_the_memory_is_a_note_and_the_others_are_read(project: Project, tmp_path: Path) -> None:
    papers = write_papers(tmp_path / "papers", "area")
    sentence = "The sum of a partition is a number that grows with its parts and with nothing else.\n\n"
    (papers / "huge.tex").write_text(
        f"\\documentclass{{article}}\\begin{{document}}{sentence * 300_000}\\end{{document}}"
    )
    with closing(project.corpus) as corpus:
        number = len(corpus)
    arguments = ["ingest", str(papers), "--workers", "1", "-w", str(project.root)]
    command = [sys.executable, "-c", LIMITED, "300", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    assert "memory ran out while it was read: split it into smaller files" in done.stdout
    assert "Traceback" not in done.stderr
    with closing(project.corpus) as corpus:
        assert len(corpus) == number + 2
    (papers / "huge.tex").unlink()
    assert project.ingest([papers]).failed == 0
