"""The verdict on lanes is bad when ours was caught, and also when the recipe was not."""

from __future__ import annotations

import io

from rich.console import Console

from tests.chaos.checker import Violation
from tests.chaos.lanes.history import Found, Told
from tests.chaos.lanes.report import MUST_BE_CAUGHT, Pair, is_good, show
from tests.chaos.lanes.scenario import SCENARIOS, Result


def _result(*kinds: str) -> Result:
    return Result(Told(), Found(), [Violation(kind, "lane:1", f"something was {kind}") for kind in kinds], 0.0)


def _pair(ours: Result, naive: Result | None) -> list[Pair]:
    return [Pair(SCENARIOS[0], ours, naive)]


def test_the_verdict_needs_clean_lanes_and_a_recipe_that_was_caught_with_everything() -> None:
    assert is_good(_pair(_result(), _result(*MUST_BE_CAUGHT)))
    assert is_good(_pair(_result(), None))
    assert not is_good(_pair(_result("lost"), _result(*MUST_BE_CAUGHT)))
    assert not is_good(_pair(_result(), _result()))
    assert not is_good(_pair(_result(), _result("lost")))


def test_what_one_scenario_does_not_show_another_may() -> None:
    assert is_good([*_pair(_result(), _result("lost")), *_pair(_result(), _result("applied twice", "out of order"))])


def test_the_report_shows_both_sides_and_what_was_found() -> None:
    out = io.StringIO()
    show(_pair(_result("zombie commit"), _result("lost")), Console(file=out, width=200))
    assert "something was zombie commit" in out.getvalue()
    assert "never caught with: applied twice" in out.getvalue()
