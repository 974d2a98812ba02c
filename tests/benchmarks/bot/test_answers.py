"""Every kind of fault in what a user got is counted, and what is right has none."""

from __future__ import annotations

import pytest

from benchmarks.bot.answers import Faults, answer, faults_in, in_parts

RIGHT = ["q1+q2 1", "q1+q2 2", "p1 1", "p1 2"]


@pytest.mark.parametrize(
    ("texts", "faults"),
    [
        (RIGHT, Faults()),
        (["p1 1", "p1 2", "q1+q2 1", "q1+q2 2"], Faults()),
        (["q1 1", "q1 2", "p1 1", "p1 2", "q2 1", "q2 2"], Faults()),
        (["q1 1", "q1 1", "q1 2", "q1 2", "q2 1", "q2 2", "p1 1", "p1 2"], Faults(doubled=2)),
        (["q1+q2 1", "q1+q2 2", "q2 1", "q2 2", "p1 1", "p1 2"], Faults(doubled=2)),
        ([], Faults(lost=6)),
        (["q1 1", "q1 2", "p1 1", "p1 2"], Faults(lost=2)),
        ([*RIGHT[:3], "I could not come up with an answer just now."], Faults(lost=1)),
        (["q1+q2 2", "q1+q2 1", "p1 1", "p1 2"], Faults(reordered=1)),
        (["q2 1", "q2 2", "q1 1", "q1 2", "p1 1", "p1 2"], Faults(reordered=1)),
        (["q1+q2 1", "p1 1", "q1+q2 2", "p1 2"], Faults(interleaved=2)),
        (["q1+q2 1", "p1 1", "p1 2", "q1+q2 2"], Faults(interleaved=1)),
    ],
)
def test_faults_are_counted_by_kind(texts: list[str], faults: Faults) -> None:
    assert faults_in(texts, ["q1", "q2"], ["p1"]) == faults


async def test_an_answer_names_all_that_was_asked() -> None:
    assert await answer("q1\nq2") == in_parts("q1+q2") == "q1+q2 1\n\nq1+q2 2"


def test_faults_add_up_by_kind() -> None:
    assert Faults.sum([Faults(1, 2, 3, 4), Faults(interleaved=1)]) == Faults(1, 2, 3, 5)
