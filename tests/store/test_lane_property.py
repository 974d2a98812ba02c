"""Whatever is asked in whatever order, a store answers as the model of a lane does, and its lanes look the same.

On SQLite time passes by a clock that the test moves, and processes vanish; on Redis nothing lasts long enough to end,
and processes depart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from inturn.store.lane import Commit, Ended
from inturn.store.sqlite import advance, lane_verbs
from inturn.store.sqlite.lane import read_lane
from inturn.store.sqlite.transaction import Transaction
from tests.store.lane_driver import LaneDriver
from tests.store.lane_machine import LaneMachine, TimedLaneMachine
from tests.store.policy_machine import PolicyMachine, TimedPolicyMachine

pytestmark = pytest.mark.timeout(180)  # they compute, so a busy machine makes them slow

SQLITE = "sqlite:///{folder}/{{unique}}.db?synchronous=off"


def explore(machine: type[LaneDriver], url: str, examples: int, **more: Any) -> None:
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


def test_sqlite_answers_as_the_model_of_a_lane_does_while_time_passes(tmp_path: Path) -> None:
    explore(TimedLaneMachine, SQLITE.format(folder=tmp_path), 70)


def test_redis_answers_as_the_model_of_a_lane_does(redis_url: str) -> None:
    # no shrinking: each try costs connections, and SQLite shows the same sequence small
    explore(LaneMachine, redis_url, 60, phases=[Phase.reuse, Phase.generate])


def test_sqlite_answers_as_the_model_does_when_people_double_text(tmp_path: Path) -> None:
    explore(TimedPolicyMachine, SQLITE.format(folder=tmp_path), 60)


def test_redis_answers_as_the_model_does_when_people_double_text(redis_url: str) -> None:
    explore(PolicyMachine, redis_url, 60, phases=[Phase.reuse, Phase.generate])


def is_found_out(folder: Path, machine: type[LaneDriver] = TimedLaneMachine) -> None:
    url = SQLITE.format(folder=folder)
    at_once = {"phases": [Phase.generate], "report_multiple_bugs": False}
    with pytest.raises(AssertionError):
        explore(machine, url, 300, derandomize=True, database=None, **at_once)


def test_a_commit_that_does_not_look_at_the_fence_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine itself is put to the test."""
    honest = lane_verbs.commit

    def commit(tx: Transaction, commit: Commit) -> Ended:
        lane = read_lane(tx, commit.key)
        if lane and lane.holder:
            commit = commit._replace(token=lane.holder, fence=lane.granted)
        return honest(tx, commit)

    monkeypatch.setattr(lane_verbs, "commit", commit)
    is_found_out(tmp_path)


def test_a_lease_that_never_ends_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "lane_ends", lambda tx, lane: tx.now + 1)
    is_found_out(tmp_path)


def test_a_commit_that_is_accepted_after_the_interrupt_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = lane_verbs.commit

    def commit(tx: Transaction, commit: Commit) -> Ended:
        lane = read_lane(tx, commit.key)
        if lane and lane.yields == commit.token:
            return Ended("committed", None, 1)
        return honest(tx, commit)

    monkeypatch.setattr(lane_verbs, "commit", commit)
    is_found_out(tmp_path, TimedPolicyMachine)


def test_a_commit_of_messages_that_the_turn_has_never_seen_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = lane_verbs.commit
    monkeypatch.setattr(lane_verbs, "commit", lambda tx, commit: honest(tx, commit._replace(have=1000)))
    is_found_out(tmp_path, TimedPolicyMachine)
