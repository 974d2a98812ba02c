"""Projects: settings are found by every process, for as long as they live."""

from __future__ import annotations

import pytest

from inturn.errors import ArgumentError
from inturn.testing import ManualClock, app_for_tests
from inturn.visitors.graph.model import load_graph
from inturn.visitors.presence import LanePresence
from inturn.visitors.projects import MAX_READ, LaneProjects, ProjectSettings
from tests.conftest import MakeApp
from tests.visitors.graph.graphs import RIGHT

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
    for number in range(MAX_READ + 10):
        await first.put("p1", ProjectSettings(instructions=str(number)))
        await second.get("p1")
    assert len(second._read) == MAX_READ


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


async def test_a_tenant_may_have_so_many_projects_and_delete_one(make_app: MakeApp) -> None:
    first, second = LaneProjects(make_app(), 3), LaneProjects(make_app(), 3)
    for number in range(3):
        await first.put(f"p{number}", ProjectSettings(), "acme")
    with pytest.raises(ArgumentError, match="at most 3 projects"):
        await second.put("p3", ProjectSettings(), "acme")
    assert await second.get("p3", "acme") is None
    await second.put("p1", ProjectSettings(instructions="changed"), "acme")
    await second.put("p3", ProjectSettings(), "beta")
    await second.delete("p0", "acme")
    await second.delete("p0", "acme")
    assert await first.get("p0", "acme") is None
    await first.put("p3", ProjectSettings(), "acme")
    with pytest.raises(ArgumentError, match="delete one first"):
        await first.put("p0", ProjectSettings(), "acme")


async def test_a_project_that_has_expired_makes_room() -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        projects = LaneProjects(app, 2)
        for name in ("old", "read"):
            await projects.put(name, ProjectSettings())
        clock.advance(200 * 86400)
        assert await projects.get("read") is not None
        clock.advance(200 * 86400)
        await projects.put("new", ProjectSettings())
        assert await projects.get("read") is not None
        with pytest.raises(ArgumentError):
            await projects.put("more", ProjectSettings())


async def test_presence_and_settings_of_a_project_do_not_touch_each_other(make_app: MakeApp) -> None:
    app = make_app()
    projects, presence = LaneProjects(app), LanePresence(app)
    await presence.set("p1", "anna", True)
    await projects.put("p1", ProjectSettings(instructions="Be kind."))
    settings, is_online = await projects.with_presence("p1")
    assert settings is not None
    assert (settings.instructions, is_online) == ("Be kind.", True)
    await presence.set("p1", "anna", False)
    settings, is_online = await projects.with_presence("p1")
    assert settings is not None
    assert (settings.instructions, is_online) == ("Be kind.", False)
