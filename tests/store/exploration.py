"""Playing a machine against a store, by Hypothesis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

SQLITE = "sqlite:///{folder}/{{unique}}.db?synchronous=off"


def explore(machine: type[RuleBasedStateMachine], url: str, examples: int, **more: Any) -> None:
    run_state_machine_as_test(
        type("Machine", (machine,), {"url": url}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            **more,
        ),
    )


def is_found_out(folder: Path, machine: type[RuleBasedStateMachine], examples: int = 300) -> None:
    """For a store on SQLite that was broken on purpose."""
    url = SQLITE.format(folder=folder)
    at_once = {"phases": [Phase.generate], "report_multiple_bugs": False}
    with pytest.raises(AssertionError):
        explore(machine, url, examples, derandomize=True, database=None, **at_once)
