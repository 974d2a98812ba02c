"""What chance finds is kept, and run again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.lanes.scenario import SCENARIOS as LANES
from tests.chaos.scenario import SCENARIOS as LOCKS
from tests.kept_cases import FILE, cases, keep

RANDOM = """
from hypothesis import given, settings, strategies as st

@settings(max_examples=20)
@given(st.integers(0, 10**9))
def test_it(number):
    with open("numbers.txt", "a") as file:
        print(number, file=file)
    assert {good}
"""
# Hypothesis also draws from the numbers that stand in a module, so both must have the same ones.
FAILS, PASSES = "number < 10", "number < 10 or True"


def test_a_case_is_kept_once(tmp_path: Path) -> None:
    file = tmp_path / "kept_cases.txt"
    file.write_text("# why\n\n")
    for seed in (5, 7, 5):
        keep("tests/a.py::test_b[c d]", seed, file)
    assert cases(file) == [("tests/a.py::test_b[c d]", 5), ("tests/a.py::test_b[c d]", 7)]


def test_every_kept_case_names_a_test_or_a_scenario_that_there_is() -> None:
    scenarios = {f"chaos locks {each.store} {each.name}" for each in LOCKS}
    scenarios |= {f"chaos lanes {each.store} {each.name}" for each in LANES}
    for name, _ in cases():
        path, _, function = name.partition("::")
        if path.startswith("tests/"):
            assert f"def {function.partition('[')[0]}(" in (FILE.parent.parent / path).read_text("utf-8"), name
        else:
            assert name in scenarios


class Project:
    """A project of one random test, under the conftest of this one."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        tests = folder / "tests"
        tests.mkdir()
        here = FILE.parent
        for name in ("conftest.py", "kept_cases.py", "floor.py"):
            (tests / name).symlink_to(here / name)
        (tests / "servers").symlink_to(here / "servers")
        (tests / "__init__.py").touch()
        (tests / "kept_cases.txt").touch()
        (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    alone\n    timed\n    random\n")

    def run(self, good: str, *options: str) -> tuple[int, list[int]]:
        """The status, and the numbers that were drawn."""
        (self.folder / "tests/test_random.py").write_text(RANDOM.format(good=good))
        numbers = self.folder / "numbers.txt"
        numbers.unlink(missing_ok=True)
        plugins = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin"]
        command = [sys.executable, "-m", "pytest", *plugins, *options, "tests/test_random.py"]
        alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **self.environment}
        ended = subprocess.run(command, cwd=self.folder, env=alone, check=False, capture_output=True, text=True)
        print(ended.stdout, ended.stderr)  # seen if the test fails
        assert ended.returncode in (0, 1)
        return ended.returncode, [int(number) for number in numbers.read_text().split()]

    def kept(self) -> list[str]:
        return (self.folder / "tests/kept_cases.txt").read_text().splitlines()


@pytest.mark.parametrize("is_ci", ["", "true"])  # where `CI` is set, Hypothesis has defaults of its own
def test_plain_runs_draw_the_same_and_exploring_keeps_what_it_finds_for_all_runs_to_come(
    tmp_path: Path, is_ci: str
) -> None:
    project = Project(tmp_path, {"CI": is_ci})
    status, drawn = project.run(PASSES)
    assert (status, len(drawn)) == (0, 20)
    assert project.run(PASSES) == (0, drawn)
    status, found = project.run(FAILS, "--explore=1")
    assert status == 1
    assert found[:2] != drawn[:2]
    (line,) = project.kept()
    assert re.fullmatch(r"tests/test_random\.py::test_it \d+", line)
    status, again = project.run(PASSES)
    assert (status, again[:20], len(again)) == (0, drawn, 40)
    assert again[20:22] == found[:2]  # the case is run beside what a plain run draws
