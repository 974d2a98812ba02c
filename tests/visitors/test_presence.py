"""Presence: who is online is seen by every process, until they leave or their time is over."""

from __future__ import annotations

import pytest

from inturn.errors import ArgumentError
from inturn.testing import ManualClock, app_for_tests
from inturn.visitors.presence import MAX_AGENTS, LanePresence, Online
from tests.conftest import MakeApp


async def test_being_online_ends_by_word_or_by_time(make_app: MakeApp) -> None:
    presence, elsewhere = LanePresence(make_app()), LanePresence(make_app())
    await presence.set("p1", "anna", True)
    await presence.set("p1", "ben", True)
    assert set(await elsewhere.online("p1")) == {"anna", "ben"}
    assert not await elsewhere.human_online("p2")
    await elsewhere.set("p1", "anna", False)
    assert await presence.human_online("p1")
    await elsewhere.set("p1", "ben", False)
    assert not await presence.human_online("p1")


async def test_being_online_ends_by_itself() -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        presence = LanePresence(app)
        await presence.set("p1", "anna", True, for_s=60)
        await presence.set("p1", "ben", True)
        clock.advance(61)
        assert set(await presence.online("p1")) == {"ben"}
        clock.advance(3600)
        assert not await presence.human_online("p1")


async def test_when_too_many_are_online_the_next_is_told_so_and_those_who_are_can_still_come_and_go() -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        presence = LanePresence(app)
        ends_at = app.runtime.now_s() + 60
        async with app.turn("presence:p1", state=Online) as turn:
            turn.state = Online(until={f"human {number}": ends_at for number in range(MAX_AGENTS)})
        with pytest.raises(ArgumentError, match=f"at most {MAX_AGENTS} people can be online for a project") as refused:
            await presence.set("p1", "anna", True)
        assert refused.value.field == "agent_id"
        await presence.set("p1", "human 0", True, for_s=120)
        await presence.set("p1", "human 1", False)
        await presence.set("p1", "anna", True)
        assert len(await presence.online("p1")) == MAX_AGENTS


@pytest.mark.parametrize("for_s", [0, -1, 86401])
async def test_it_is_not_for_ever(for_s: float) -> None:
    async with app_for_tests() as app:
        with pytest.raises(ValueError, match="for_s"):
            await LanePresence(app).set("p1", "anna", True, for_s)
