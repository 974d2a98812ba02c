"""Two halves of the CPUs: whoever starts in the one stays there, and another may move to the rest."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.processes import in_first_half

MOVED = "import os; from benchmarks.processes import move_to_second_half as m; m(); print(os.sched_getaffinity(0))"


def test_the_halves_are_apart_and_together_all_that_there_was() -> None:
    before = os.sched_getaffinity(0)
    with in_first_half():
        first = os.sched_getaffinity(0)
        second = eval(subprocess.run([sys.executable, "-c", MOVED], capture_output=True, check=True, text=True).stdout)
    assert os.sched_getaffinity(0) == before
    assert first <= before
    assert second <= before
    if len(before) > 1:
        assert not first & second
        assert first | second == before
