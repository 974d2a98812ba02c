"""Projects: settings are found by every process, for as long as they live."""

from __future__ import annotations

from inturn.testing import ManualClock, app_for_tests
from inturn.visitors.graph.model import load_graph
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
