"""The faults of both bots: one of ours ends the run, and so does a load under which nobody has any."""

from __future__ import annotations

import pytest

from benchmarks.bot.answers import Faults
from benchmarks.bot.race import OURS, UNGUARDED, figures
from inturn.errors import InTurnError


def test_the_faults_of_all_rounds_are_the_figure() -> None:
    ours, unguarded = figures({OURS: [Faults(), Faults()], UNGUARDED: [Faults(doubled=4), Faults(1, 0, 0, 2)]})
    assert ours.value == 0
    assert ours.is_reached
    assert unguarded.value == 7
    assert unguarded.reported == {"doubled": 5, "lost": 0, "reordered": 0, "interleaved": 2}
    assert unguarded.rounds == {OURS: [0, 0], UNGUARDED: [4, 3]}


@pytest.mark.parametrize("kind", Faults._fields)
def test_a_single_fault_of_ours_fails_the_run_and_is_named(kind: str) -> None:
    with pytest.raises(InTurnError, match=f"1 {kind}"):
        figures({OURS: [Faults(), Faults(**{kind: 1})], UNGUARDED: [Faults(doubled=4), Faults()]})


def test_a_load_without_faults_says_nothing() -> None:
    with pytest.raises(InTurnError, match="says nothing"):
        figures({OURS: [Faults()], UNGUARDED: [Faults()]})
