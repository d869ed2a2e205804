"""The list of faults that the tests must notice fits the code; `make mutants` tries them."""

from __future__ import annotations

from tests.mutants import ROOT, broken, faults


def test_every_fault_changes_the_code_and_names_a_test_that_exists() -> None:
    names = [fault.name for fault in faults()]
    assert len(names) == len({*names})
    for fault in faults():
        assert fault.old != fault.new
        compile(broken(fault), fault.file, "exec")
        assert (ROOT / "tests" / fault.tests.split()[0]).is_file()
