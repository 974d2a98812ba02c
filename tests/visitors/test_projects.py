"""Projects and presence: what is set is found, for as long as it lives."""

from __future__ import annotations

import pytest

from inturn.conversations.graph.model import load_graph
from inturn.visitors.presence import LanePresence
from inturn.visitors.projects import MOST_READ, LaneProjects, ProjectSettings
from inturn.testing import ManualClock, app_for_tests
from tests.visitors.conftest import MakeApp
from tests.visitors.graph.test_model import RIGHT

DAY = 86400


async def test_settings_are_found_by_other_processes(make_app: MakeApp) -> None:
    first, second = LaneProjects(make_app()), LaneProjects(make_app())
    assert await second.get("p1") is None
    settings = ProjectSettings(enabled=False, busy="drop", instructions="Be brief.")
    await first.put("p1", settings)
    assert await second.get("p1") == settings
    assert await second.get("p1", "acme") is None
    await first.put("a:p1", settings)
    assert await second.get("p1", "a") is None, "a name with a colon is not another tenant's project"


async def test_a_graph_is_checked_once_and_a_new_one_is_seen_at_once(make_app: MakeApp) -> None:
    first, second = LaneProjects(make_app()), LaneProjects(make_app())
    await first.put("p1", ProjectSettings(graph=load_graph(RIGHT)))
    read, again = await second.get("p1"), await second.get("p1")
    assert read is not None
    assert again is not None
    assert read.graph is again.graph
    read.busy = "drop"
    assert again.busy == "merge", "what a reader does to its settings is nobody else's"
    await first.put("p1", ProjectSettings(instructions="No graph."))
    assert await second.get("p1") == ProjectSettings(instructions="No graph.")
    for number in range(MOST_READ + 10):
        await first.put("p1", ProjectSettings(instructions=str(number)))
        await second.get("p1")
    assert len(second._read) == MOST_READ


async def test_settings_live_a_year_and_reading_them_renews_that() -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        projects = LaneProjects(app)
        await projects.put("p1", ProjectSettings())
        for _ in range(5):
            clock.advance(200 * DAY)
            assert await projects.get("p1") is not None
        clock.advance(100 * DAY)
        assert await projects.get("p1") is not None, "more than half is left: it is only read"
        assert (await app.lanes.inspect("project:p1")).version == 6
        clock.advance(366 * DAY)
        assert await projects.get("p1") is None


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


@pytest.mark.parametrize("for_s", [0, -1, 86401])
async def test_it_is_not_for_ever(for_s: float) -> None:
    async with app_for_tests() as app:
        with pytest.raises(ValueError, match="for_s"):
            await LanePresence(app).set("p1", "anna", True, for_s)
