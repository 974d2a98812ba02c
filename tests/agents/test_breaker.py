"""The circuit breaker, by a clock that a test turns."""

from __future__ import annotations

import pytest

from inturn.agents.breaker import Admission, Breaker, Verdict
from tests.agents.scripted import Clock

USUAL, PROBE = Admission.USUAL, Admission.PROBE
ANSWERED, FAILED, UNKNOWN = Verdict.ANSWERED, Verdict.FAILED, Verdict.UNKNOWN


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(5, 30.0, clock)


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        admission = breaker.admit()
        assert admission is not None
        breaker.settle(admission, FAILED)


def test_it_opens_at_the_fifth_failure_in_a_row(breaker: Breaker) -> None:
    fail(breaker, 4)
    assert breaker.admit() is USUAL
    assert breaker.wait_s() == 0.0
    breaker.settle(USUAL, FAILED)
    assert breaker.is_open
    assert breaker.admit() is None
    assert breaker.wait_s() == 30.0


def test_an_answer_breaks_the_row(breaker: Breaker) -> None:
    for _ in range(3):
        fail(breaker, 4)
        breaker.settle(USUAL, ANSWERED)
    assert not breaker.is_open


def test_a_call_of_unknown_end_counts_for_nothing(breaker: Breaker) -> None:
    fail(breaker, 4)
    breaker.settle(USUAL, UNKNOWN)
    assert not breaker.is_open
    fail(breaker, 1)
    assert breaker.is_open


def test_after_its_time_a_single_probe_is_admitted(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 5)
    clock.now += 29.9
    assert breaker.admit() is None
    clock.now += 0.1
    assert breaker.admit() is PROBE
    assert breaker.admit() is None
    assert breaker.is_open


def test_a_probe_that_is_answered_closes_it(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 5)
    clock.now += 30
    breaker.settle(breaker.admit() or USUAL, ANSWERED)
    assert breaker.admit() is USUAL
    breaker.settle(USUAL, FAILED)
    assert not breaker.is_open


def test_a_probe_that_fails_opens_it_again_at_once(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 5)
    clock.now += 30
    breaker.settle(breaker.admit() or USUAL, FAILED)
    assert breaker.wait_s() == 30.0
    clock.now += 30
    assert breaker.admit() is PROBE


def test_a_probe_of_unknown_end_lets_the_next_one_probe(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 5)
    clock.now += 30
    breaker.settle(breaker.admit() or USUAL, UNKNOWN)
    assert breaker.admit() is PROBE


def test_a_late_failure_of_an_older_call_neither_prolongs_nor_ends_the_probe(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 5)
    clock.now += 20
    breaker.settle(USUAL, FAILED)
    assert breaker.wait_s() == 10.0
    clock.now += 10
    assert breaker.admit() is PROBE
    breaker.settle(USUAL, FAILED)
    assert breaker.admit() is None
