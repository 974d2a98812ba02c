"""The pauses between attempts, and who decides whether there is another."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from inturn import Retry, Stop
from inturn.lanes.retry import Exhausted, RetryRule, error_record


@pytest.mark.parametrize(("attempt", "bound_ms"), [(1, 1000), (2, 2000), (4, 8000), (7, 60_000), (999, 60_000)])
def test_a_pause_has_full_jitter_below_a_bound_that_doubles(attempt: int, bound_ms: int) -> None:
    rule = RetryRule("block", 1000, 1.0, 60.0)
    pauses = [rule.judge(ValueError(), attempt).delay_ms for _ in range(500)]
    assert all(0 <= pause <= bound_ms for pause in pauses)
    assert min(pauses) < bound_ms * 0.1
    assert max(pauses) > bound_ms * 0.9


def test_the_last_attempt_is_followed_by_what_was_asked_for() -> None:
    assert RetryRule("block", 3, 1, 60).judge(ValueError(), 2).how == "retry"
    assert RetryRule("block", 3, 1, 60).judge(ValueError(), 3).how == "dead"
    assert RetryRule("park", 3, 1, 60).judge(ValueError(), 3).how == "park"
    assert RetryRule("skip", 3, 1, 60).judge(ValueError(), 1).how == "dead"


def test_a_handler_decides_by_what_it_raises() -> None:
    rule = RetryRule("block", 3, 1, 60)
    assert rule.judge(Retry(after=2.5), 1) == ("retry", 2500)
    assert rule.judge(Retry(after=0), 1) == ("retry", 0)
    assert rule.judge(Retry(after=timedelta(days=30)), 1) == ("retry", 30 * 86_400_000)
    assert rule.judge(Retry(), 1).how == "retry"
    assert rule.judge(Retry(after=1), 3).how == "dead"
    assert rule.judge(Stop(), 1).how == "dead"


@pytest.mark.parametrize(
    "after", [-1.0, float("nan"), float("inf"), 10**9, timedelta(days=366), timedelta(-1), "1", True]
)
def test_a_bad_pause_is_named_where_it_is_raised(after: Any) -> None:
    with pytest.raises(ValueError, match="after="):
        Retry(after=after)


def test_what_was_exhausted_or_is_hopeless_is_not_tried_again() -> None:
    assert RetryRule("block", 5, 1, 60).judge(Exhausted(5), 4) == ("dead", 0)
    assert RetryRule("block", 5, 1, 60).judge(ValueError(), 1, is_hopeless=True) == ("dead", 0)
    assert RetryRule("park", 5, 1, 60).judge(ValueError(), 1, is_hopeless=True) == ("park", 0)


def test_a_kept_traceback_that_is_cut_has_the_handler_and_then_whole_lines() -> None:
    def deeper(left: int) -> None:
        if not left:
            raise ValueError("at the bottom")
        (deeper if left % 2 else sideways)(left - 1)

    def sideways(left: int) -> None:
        deeper(left)

    try:
        deeper(60)
    except ValueError as error:
        lines = json.loads(error_record(error, 1))["traceback"].splitlines()
    cut = lines.index("…")
    assert [line for line in lines[:cut] if "deeper(60)" in line]
    assert lines[cut + 1].startswith("  ")
    assert lines[-1] == "ValueError: at the bottom"
    assert sum(len(line) + 1 for line in lines) <= 2000


def _fail_with(text: str) -> None:
    raise RuntimeError(text)


@pytest.mark.parametrize("is_cause", [False, True])
def test_a_long_text_leaves_room_for_the_calls(is_cause: bool) -> None:
    try:
        try:
            _fail_with("the provider answered:\n" + "\n".join(f"line {n} of a long body" for n in range(400)))
        except RuntimeError as cause:
            if is_cause:
                raise ValueError("cannot go on") from cause
            raise
    except (RuntimeError, ValueError) as error:
        kept = json.loads(error_record(error, 1))["traceback"]
    assert "in test_a_long_text_leaves_room_for_the_calls" in kept
    assert "in _fail_with" in kept
    assert "the provider answered:" in kept
    assert "cannot go on" in kept or not is_cause
    assert len(kept) <= 2000


def test_a_kept_error_says_what_happened_and_is_bounded() -> None:
    try:
        raise ValueError("x" * 10_000)
    except ValueError as error:
        kept = json.loads(error_record(error, 4))
    assert (kept["type"], kept["attempt"], len(kept["message"])) == ("ValueError", 4, 2000)
    assert len(kept["traceback"]) <= 2000
    assert kept["at"] > 1_700_000_000_000
