"""Presence: who is online is seen by every process, until they leave or their time is over."""

from __future__ import annotations

import asyncio

import pytest

from inturn.errors import ArgumentError
from inturn.testing import ManualClock, app_for_tests
from inturn.visitors.presence import MAX_AGENTS, LanePresence
from inturn.visitors.projects import LaneProjects, ProjectSettings, StoredProject
from tests.conftest import MakeApp
from tests.waiting import until_waiting

DAY = 86400.0


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
        async with app.turn("project:p1", state=StoredProject) as turn:
            turn.state = StoredProject(until={f"human {number}": ends_at for number in range(MAX_AGENTS)})
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


async def test_settings_that_are_written_at_the_same_time_live_on(make_app: MakeApp) -> None:
    app = make_app()
    presence, projects = LanePresence(make_app()), LaneProjects(app)
    async with app.turn("project:p1", state=StoredProject) as turn:
        setting = asyncio.create_task(presence.set("p1", "anna", True))
        await until_waiting(app, "project:p1", 1)
        turn.state = StoredProject(settings=ProjectSettings().model_dump(mode="json"))
    await setting
    lane = await app.lanes.inspect("project:p1")
    assert lane.state_expires_in_s is not None
    assert lane.state_expires_in_s > 300 * DAY
    assert await projects.with_presence("p1") == (ProjectSettings(), True)


async def test_presence_alone_lives_a_day_whoever_reads_it(make_app: MakeApp) -> None:
    app = make_app()
    await LanePresence(app).set("p1", "anna", True)
    assert await LaneProjects(app).with_presence("p1") == (None, True)
    lane = await app.lanes.inspect("project:p1")
    assert lane.version == 1
    assert lane.state_expires_in_s is not None
    assert lane.state_expires_in_s <= DAY


async def test_projects_without_settings_are_bounded_and_those_with_settings_are_not() -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        presence, projects = LanePresence(app, most=2), LaneProjects(app)
        await projects.put("shop", ProjectSettings())
        for name in ("x1", "x2", "x2"):
            await presence.set(name, "anna", True, for_s=60)
        with pytest.raises(ArgumentError, match="2 projects without settings") as refused:
            await presence.set("x3", "anna", True)
        assert refused.value.field == "project_id"
        assert not await presence.human_online("x3")
        await presence.set("x3", "anna", True, tenant_id="acme")
        await presence.set("shop", "anna", True)
        clock.advance(61)
        await presence.set("x3", "anna", True)
        assert await presence.human_online("x3")


async def test_nothing_is_stored_for_a_project_that_nobody_is_online_for() -> None:
    async with app_for_tests() as app:
        presence = LanePresence(app)
        await presence.set("x1", "anna", False)
        await presence.set("x2", "anna", True)
        await presence.set("x2", "anna", False)
        for name in ("x1", "x2"):
            assert (await app.lanes.inspect(f"project:{name}")).state is None
