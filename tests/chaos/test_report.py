"""The verdict of `make chaos` is bad when ours was caught, and also when the naive lock was not."""

from __future__ import annotations

import io

from rich.console import Console

from tests.chaos.checker import Violation
from tests.chaos.history import History
from tests.chaos.report import Pair, is_good, show
from tests.chaos.scenario import SCENARIOS, Result

CLEAN = Result(History(), [])
CAUGHT = Result(History(), [Violation("overlap", "1-1", "two at once")])
ONLY_FENCES = Result(History(), [Violation("fence", "1-1", "the same fence twice")])


def _pair(ours: Result, naive: Result) -> list[Pair]:
    return [Pair(SCENARIOS[0], ours, naive)]


def test_the_verdict_needs_a_clean_lock_and_a_caught_naive_one() -> None:
    assert is_good(_pair(CLEAN, CAUGHT))
    assert not is_good(_pair(CAUGHT, CAUGHT))
    assert not is_good(_pair(CLEAN, CLEAN))
    assert not is_good(_pair(CLEAN, ONLY_FENCES))


def test_every_store_must_have_caught_the_naive_lock() -> None:
    other = next(scenario for scenario in SCENARIOS if scenario.store != SCENARIOS[0].store)
    assert not is_good([*_pair(CLEAN, CAUGHT), Pair(other, CLEAN, CLEAN)])


def test_the_report_shows_both_locks_and_what_was_found() -> None:
    out = io.StringIO()
    show(_pair(CAUGHT, ONLY_FENCES), Console(file=out, width=200))
    assert "two at once" in out.getvalue()
    assert "naive lock was not caught" in out.getvalue()
