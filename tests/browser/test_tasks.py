"""The page of tasks: a sentence becomes a task that can be seen, edited, ticked off and deleted, by everybody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise

import pytest
from playwright.sync_api import Page, Route, expect

from inturn.capabilities.parse_task.models import MAX_TEXT
from inturn.tasks.bodies import MAX_SUBTASKS
from inturn.web.pages import FOLDER
from tests.browser import measures
from tests.browser.chat_server import ChatServer
from tests.browser.conftest import Watch
from tests.browser.held_network import until_held
from tests.browser.tasks_page import GatedTasks, TasksPage

KEY = "a-key-of-sixteen-or-more"
EVIL = '<img src=x onerror="window.broken = 1">'
PARTY = "Plan the party: book a room, invite people, buy a cake"
RENT = "Pay the rent by Friday"


@pytest.fixture
def agent() -> GatedTasks:
    return GatedTasks()


@pytest.fixture
def server(sqlite_url: str, agent: GatedTasks) -> Iterator[ChatServer]:
    with ChatServer(sqlite_url, agent) as server:
        yield server


@pytest.fixture
def tasks(page: Page, server: ChatServer) -> TasksPage:
    return TasksPage(page, server).open()


def _next_friday() -> date:
    """After today, which is the same for the browser and the test."""
    today = date.today()
    return today + timedelta(days=(4 - today.weekday() - 1) % 7 + 1)


def _fill(tasks: TasksPage, agent: GatedTasks) -> None:
    """Everything that the page can show at once."""
    tasks.add(RENT, "Pay the rent")
    tasks.add(PARTY, "Plan the party")
    tasks.add("Call the dentist today, urgent!", "Call the dentist, urgent")
    tasks.card("Pay the rent").get_by_role("checkbox").check()
    tasks.fail("Do stuff")
    agent.hold()
    expect(tasks.write("Renew the passport")).to_have_attribute("data-state", "running")
    tasks.edit("Plan the party")


class TestASentence:
    def test_it_is_queued_and_runs_and_becomes_a_task(self, tasks: TasksPage, agent: GatedTasks) -> None:
        expect(tasks.page.get_by_text("Nothing to do.")).to_be_visible()
        agent.hold()
        request = tasks.write(RENT)
        expect(request).to_have_attribute("data-state", "running")
        expect(tasks.page.get_by_role("status")).to_have_text(f"Running: {RENT}")
        agent.open()
        card = tasks.card("Pay the rent")
        expect(card).to_contain_text("Finance")
        expect(card).to_contain_text("priority")
        expect(card.locator("time")).to_have_attribute("datetime", _next_friday().isoformat())
        expect(tasks.requests).to_have_count(0)
        expect(tasks.page.get_by_text("Nothing to do.")).to_be_hidden()
        expect(tasks.page.get_by_role("status")).to_contain_text("Added: Pay the rent")

    def test_its_steps_become_subtasks(self, tasks: TasksPage) -> None:
        card = tasks.add(PARTY, "Plan the party")
        expect(card.get_by_role("list", name="Subtasks").get_by_role("listitem")).to_have_text(
            ["Book a room", "Invite people", "Buy a cake"]
        )

    def test_a_vague_one_fails_with_suggestions_that_fill_the_field(self, tasks: TasksPage) -> None:
        request = tasks.fail("Do stuff")
        offers = request.get_by_role("group", name="Suggestions").get_by_role("button")
        text = offers.first.inner_text()
        offers.first.click()
        expect(tasks.field).to_have_value(text)
        expect(tasks.field).to_be_focused()
        tasks.page.keyboard.press("Enter")
        expect(tasks.cards).to_have_count(1)
        expect(tasks.requests).to_have_count(0)

    def test_a_failed_one_is_there_after_a_reload_until_it_is_dismissed(self, tasks: TasksPage) -> None:
        tasks.fail("Do stuff")
        tasks.reload()
        expect(tasks.requests).to_have_attribute("data-state", "failed")
        tasks.requests.get_by_role("button", name="Dismiss").click()
        expect(tasks.requests).to_have_count(0)
        expect(tasks.field).to_be_focused()
        tasks.reload()
        expect(tasks.requests).to_have_count(0)

    def test_one_that_is_under_way_is_followed_after_a_reload_and_in_another_tab(
        self, tasks: TasksPage, agent: GatedTasks
    ) -> None:
        agent.hold()
        tasks.write(RENT)
        tasks.reload()
        expect(tasks.requests).to_have_count(1)
        expect(tasks.requests).to_contain_text(RENT)
        # the reload may have been faster than the sentence: another tab finds what the server has
        expect(tasks.requests).to_have_attribute("data-state", "running")
        other = TasksPage(tasks.page.context.new_page(), tasks.server).open()
        expect(other.requests).to_contain_text(RENT)
        agent.open()
        for each in (tasks, other):
            expect(each.card("Pay the rent")).to_be_visible()
            expect(each.requests).to_have_count(0)

    def test_many_at_once_all_become_tasks(self, tasks: TasksPage, agent: GatedTasks) -> None:
        """More than the connections that a browser opens to a server."""
        agent.hold()
        for number in range(8):
            tasks.write(f"Call customer {number}")
        agent.open()
        expect(tasks.cards).to_have_count(8)
        expect(tasks.requests).to_have_count(0)

    def test_the_field_takes_as_much_as_the_server_does(self) -> None:
        page = (FOLDER / "tasks.html").read_text("utf-8")
        assert re.findall(r'<input id="sentence" maxlength="([0-9]+)"', page) == [str(MAX_TEXT)]


class TestABrokenConnection:
    @pytest.fixture(autouse=True)
    def expected(self, watch: Watch) -> None:
        watch.is_refusal_expected = True

    def test_a_sentence_whose_answer_was_lost_is_sent_again_under_its_key(self, tasks: TasksPage) -> None:
        keys: list[str] = []

        def lose(route: Route) -> None:
            if route.request.method != "POST":
                route.continue_()
                return
            keys.append(route.request.headers["idempotency-key"])
            if len(keys) == 1:
                route.fetch()
                route.abort()
            else:
                route.continue_()

        tasks.page.route("**/api/v1/tasks", lose)
        tasks.add(RENT, "Pay the rent")
        tasks.reload()
        expect(tasks.cards).to_have_count(1)
        assert len(keys) == 2
        assert len(set(keys)) == 1

    def test_a_sentence_that_never_arrived_is_sent_after_a_reload(self, tasks: TasksPage) -> None:
        tasks.page.route("**/api/v1/tasks", lambda route: route.abort())
        request = tasks.write(RENT)
        expect(request).to_contain_text("Trying again")
        tasks.page.unroute("**/api/v1/tasks")
        tasks.reload()
        expect(tasks.card("Pay the rent")).to_have_count(1)

    def test_a_request_is_followed_over_a_restart_of_the_server(
        self, tasks: TasksPage, agent: GatedTasks, server: ChatServer
    ) -> None:
        agent.hold()
        expect(tasks.write(RENT)).to_have_attribute("data-state", "running")
        server.stop()
        server.start()
        expect(tasks.card("Pay the rent")).to_be_visible()

    def test_a_request_is_followed_again_when_its_events_can_be_had_again(
        self, tasks: TasksPage, agent: GatedTasks
    ) -> None:
        tasks.page.route("**/api/v1/requests/**", lambda route: route.abort())
        agent.hold()
        request = tasks.write(RENT)
        expect(request).to_contain_text("The connection broke. Looking again")
        tasks.page.unroute("**/api/v1/requests/**")
        expect(request).to_have_attribute("data-state", "running")
        expect(request).to_contain_text("Running")
        agent.open()
        expect(tasks.card("Pay the rent")).to_be_visible()

    def test_a_sentence_that_was_given_up_is_tried_again_under_its_key(self, tasks: TasksPage) -> None:
        """Its answer may have been lost: under another key it might become a second task."""
        keys: list[str] = []

        def refuse(route: Route) -> None:
            if route.request.method != "POST":
                route.continue_()
                return
            keys.append(route.request.headers["idempotency-key"])
            away = {"code": "ai-unavailable", "title": "The AI service is away.", "retry_after": 0.01}
            route.fulfill(status=503, json=away)

        tasks.page.route("**/api/v1/tasks", refuse)
        request = tasks.write(RENT)
        expect(request).to_have_attribute("data-state", "refused")
        tasks.page.unroute("**/api/v1/tasks")
        tasks.page.on(
            "request", lambda sent: keys.append(sent.headers["idempotency-key"]) if sent.method == "POST" else None
        )
        request.get_by_role("button", name="Try again").click()
        expect(tasks.field).to_be_focused()
        expect(tasks.card("Pay the rent")).to_be_visible()
        assert len(keys) > 2
        assert len(set(keys)) == 1

    def test_a_list_that_is_slow_to_come_says_so(self, tasks: TasksPage) -> None:
        held: list[Route] = []
        tasks.page.route("**/api/v1/tasks?*", lambda route: held.append(route))
        tasks.page.reload()
        expect(tasks.page.get_by_text("Loading …")).to_be_visible()
        expect(tasks.page.get_by_text("Nothing to do.")).to_be_hidden()
        until_held(tasks.page, held).continue_()
        expect(tasks.page.get_by_text("Nothing to do.")).to_be_visible()
        expect(tasks.page.get_by_text("Loading …")).to_be_hidden()

    def test_what_cannot_be_saved_is_told_and_shown_as_it_was(self, tasks: TasksPage) -> None:
        card = tasks.add(RENT, "Pay the rent")
        tasks.page.route("**/api/v1/tasks/*", lambda route: route.abort())
        card.get_by_role("checkbox").click()
        expect(card.get_by_role("alert")).to_contain_text("Nothing was changed")
        expect(card.get_by_role("checkbox")).not_to_be_checked()
        tasks.page.unroute("**/api/v1/tasks/*")
        card.get_by_role("checkbox").check()
        expect(card).to_have_attribute("data-state", "done")
        expect(card.get_by_role("alert")).to_be_hidden()

    def test_a_page_that_is_opened_while_the_server_refuses_can_try_again(self, tasks: TasksPage) -> None:
        tasks.add(RENT, "Pay the rent")
        tasks.page.route("**/api/v1/**", lambda route: route.abort())
        tasks.page.reload()
        again = tasks.page.get_by_role("button", name="Try again")
        expect(again).to_be_visible()
        tasks.page.unroute("**/api/v1/**")
        again.click()
        expect(tasks.card("Pay the rent")).to_be_visible()
        expect(again).to_have_count(0)

    def test_a_task_that_was_deleted_elsewhere_goes_away(self, tasks: TasksPage) -> None:
        card = tasks.add(RENT, "Pay the rent")
        (found,) = tasks.page.request.get(f"{tasks.server.url}/api/v1/tasks").json()["tasks"]
        tasks.page.request.delete(f"{tasks.server.url}/api/v1/tasks/{found['id']}")
        card.get_by_role("checkbox").click()
        expect(tasks.cards).to_have_count(0)
        expect(tasks.page.get_by_role("status")).to_contain_text("deleted elsewhere")


class TestATask:
    def test_ticks_stay_over_a_reload(self, tasks: TasksPage) -> None:
        card = tasks.add(PARTY, "Plan the party")
        for step in ("Book a room", "Buy a cake"):  # one right after the other: neither undoes the other
            card.get_by_role("checkbox", name=step).check()
        expect(tasks.page.get_by_role("status")).to_have_text("Done: Buy a cake")
        tasks.reload()
        for step, is_done in (("Book a room", True), ("Invite people", False), ("Buy a cake", True)):
            expect(card.get_by_role("checkbox", name=step)).to_be_checked(checked=is_done)
        card.get_by_role("checkbox", name="Plan the party").check()
        expect(card).to_have_attribute("data-state", "done")
        tasks.reload()
        expect(tasks.page.get_by_text("Nothing to do.")).to_be_visible()
        tasks.show("Done")
        expect(card.get_by_role("checkbox", name="Plan the party")).to_be_checked()
        card.get_by_role("checkbox", name="Plan the party").uncheck()
        expect(card).to_have_attribute("data-state", "open")

    def test_it_is_edited_and_stays_so_over_a_reload(self, tasks: TasksPage) -> None:
        tasks.add(PARTY, "Plan the party")
        tasks.card("Plan the party").get_by_role("checkbox", name="Book a room").check()
        form = tasks.edit("Plan the party")
        form.get_by_label("Title").fill("Plan the wedding")
        form.get_by_label("Due date").fill("2031-02-01")
        form.get_by_label("Category").select_option("Work")
        form.get_by_label("Priority").select_option("Critical")
        form.get_by_role("button", name="Remove subtask Invite people").click()
        form.get_by_role("button", name="Add subtask").click()
        tasks.page.keyboard.type("Find a band")
        form.get_by_role("button", name="Save").click()
        card = tasks.card("Plan the wedding")
        expect(card.get_by_role("button", name="Edit")).to_be_focused()
        for _ in range(2):
            expect(card).to_contain_text("Critical priority")
            expect(card).to_contain_text("Work")
            expect(card).to_contain_text("Due Sat, 1 Feb 2031")
            steps = card.get_by_role("list", name="Subtasks").get_by_role("listitem")
            expect(steps).to_have_text(["Book a room", "Buy a cake", "Find a band"])
            expect(card.get_by_role("checkbox", name="Book a room")).to_be_checked()
            tasks.reload()
        form = tasks.edit("Plan the wedding")
        form.get_by_label("Due date").fill("")
        form.get_by_role("button", name="Save").click()
        expect(card).to_contain_text("No date")

    def test_an_edit_can_be_cancelled(self, tasks: TasksPage) -> None:
        tasks.add(RENT, "Pay the rent")
        form = tasks.edit("Pay the rent")
        form.get_by_label("Title").fill("Something else")
        tasks.page.keyboard.press("Escape")
        expect(tasks.card("Pay the rent").get_by_role("button", name="Edit")).to_be_focused()
        form = tasks.edit("Pay the rent")
        expect(form.get_by_label("Title")).to_have_value("Pay the rent")
        form.get_by_label("Title").fill("   ")
        form.get_by_role("button", name="Save").click()
        expect(form).to_contain_text("A task needs a title.")

    def test_an_edit_does_not_undo_a_tick_that_is_still_being_saved(self, tasks: TasksPage) -> None:
        card = tasks.add(PARTY, "Plan the party")
        held: list[Route] = []

        def hold(route: Route) -> None:
            if held or route.request.method != "PATCH":
                route.continue_()
            else:
                held.append(route)

        tasks.page.route("**/api/v1/tasks/*", hold)
        card.get_by_role("checkbox", name="Book a room").click()
        tick = until_held(tasks.page, held)
        form = tasks.edit("Plan the party")
        form.get_by_role("button", name="Remove subtask Buy a cake").click()
        form.get_by_role("button", name="Save").click()
        expect(form).to_have_attribute("aria-busy", "true")
        tick.continue_()
        expect(form).to_be_hidden()
        for _ in range(2):
            expect(card.get_by_role("checkbox")).to_have_count(3)
            expect(card.get_by_role("checkbox", name="Book a room")).to_be_checked()
            tasks.reload()

    def test_a_tick_keeps_and_shows_what_another_tab_has_changed(self, tasks: TasksPage) -> None:
        card = tasks.add(PARTY, "Plan the party")
        other = TasksPage(tasks.page.context.new_page(), tasks.server).open()
        form = other.edit("Plan the party")
        form.get_by_label("Title").fill("Plan the wedding")
        form.get_by_role("button", name="Add subtask").click()
        other.page.keyboard.type("Find a band")
        form.get_by_role("button", name="Save").click()
        expect(other.card("Plan the wedding")).to_be_visible()
        card.get_by_role("checkbox", name="Buy a cake").check()
        card = tasks.card("Plan the wedding")
        expect(card.get_by_role("checkbox", name="Buy a cake")).to_be_focused()
        for _ in range(2):
            steps = card.get_by_role("list", name="Subtasks").get_by_role("listitem")
            expect(steps).to_have_text(["Book a room", "Invite people", "Buy a cake", "Find a band"])
            expect(card.get_by_role("checkbox", name="Buy a cake")).to_be_checked()
            tasks.reload()

    def test_it_stays_while_it_is_edited_whatever_the_list_is_asked_for(self, tasks: TasksPage) -> None:
        tasks.add(PARTY, "Plan the party")
        tasks.add(RENT, "Pay the rent")
        form = tasks.edit("Pay the rent")
        form.get_by_label("Title").fill("Pay all of the rent")
        tasks.show("Done")
        expect(tasks.card("Plan the party")).to_have_count(0)
        expect(form.get_by_label("Title")).to_have_value("Pay all of the rent")
        form.get_by_role("button", name="Save").click()
        expect(tasks.card("Pay all of the rent")).to_be_visible()

    def test_it_has_no_more_subtasks_than_the_server_takes(self, tasks: TasksPage) -> None:
        tasks.add(RENT, "Pay the rent")
        (found,) = tasks.page.request.get(f"{tasks.server.url}/api/v1/tasks").json()["tasks"]
        steps = [{"title": f"Step {number}"} for number in range(MAX_SUBTASKS)]
        changed = tasks.page.request.patch(f"{tasks.server.url}/api/v1/tasks/{found['id']}", data={"subtasks": steps})
        assert changed.status == 200, changed.text()
        tasks.reload()
        form = tasks.edit("Pay the rent")
        form.get_by_role("button", name="Add subtask").click()
        expect(form.get_by_role("alert")).to_have_text(f"A task has at most {MAX_SUBTASKS} subtasks.")
        expect(form.get_by_label("Subtask", exact=True)).to_have_count(MAX_SUBTASKS)

    def test_it_is_deleted_once_that_is_confirmed(self, tasks: TasksPage) -> None:
        tasks.add(PARTY, "Plan the party")
        card = tasks.add(RENT, "Pay the rent")
        card.get_by_role("button", name="Delete").click()
        expect(tasks.dialog).to_contain_text("Pay the rent")
        tasks.dialog.get_by_role("button", name="Cancel").click()
        expect(card).to_be_visible()
        card.get_by_role("button", name="Delete").click()
        tasks.dialog.get_by_role("button", name="Delete").click()
        expect(card).to_have_count(0)
        expect(tasks.card("Plan the party").get_by_role("checkbox", name="Plan the party")).to_be_focused()
        tasks.reload()
        expect(tasks.cards).to_have_count(1)


def test_tasks_are_filtered_and_sorted_and_loaded_page_by_page(tasks: TasksPage) -> None:
    for number in range(25):
        made = tasks.page.request.post(
            f"{tasks.server.url}/api/v1/tasks?pattern=sync", data={"natural_language": f"Call customer {number:02}"}
        )
        assert made.status == 201, made.text()
    tasks.reload()
    expect(tasks.cards).to_have_count(20)
    titles = tasks.cards.locator("h3")
    expect(titles.first).to_have_text("Call customer 24")
    tasks.page.get_by_role("button", name="Load more").click()
    expect(tasks.cards).to_have_count(25)
    expect(tasks.page.get_by_role("button", name="Load more")).to_be_hidden()
    expect(tasks.cards.nth(20).get_by_role("checkbox")).to_be_focused()
    tasks.page.get_by_label("Sort by").select_option("Title, A to Z")
    expect(titles.first).to_have_text("Call customer 00")
    expect(tasks.cards).to_have_count(20)
    tasks.cards.first.get_by_role("checkbox").check()
    expect(tasks.cards.first).to_have_attribute("data-state", "done")
    tasks.show("Done")
    expect(titles).to_have_text(["Call customer 00"])
    tasks.show("All")
    expect(titles.first).to_have_text("Call customer 00")
    tasks.show("Open")
    expect(titles.first).to_have_text("Call customer 01")


class TestTheBudget:
    @pytest.fixture
    def server(self, sqlite_url: str, agent: GatedTasks) -> Iterator[ChatServer]:
        with ChatServer(sqlite_url, agent, INTURN_TOKEN_LIMIT="3000") as server:
            yield server

    def test_the_bar_shows_what_is_reserved_and_then_what_is_spent(self, tasks: TasksPage, agent: GatedTasks) -> None:
        expect(tasks.budget).to_have_attribute("aria-valuenow", "0")
        expect(tasks.budget).to_have_attribute("aria-valuemax", "3000")
        agent.tokens = 600
        agent.hold()
        tasks.write(RENT)
        expect(tasks.budget).to_have_attribute("aria-valuetext", re.compile(r"reserved\), resets "))
        agent.open()
        expect(tasks.budget).to_have_attribute("aria-valuenow", "600")
        expect(tasks.page.get_by_text(re.compile("600 of 3,000 tokens used · resets"))).to_be_visible()
        assert tasks.page.locator("#budget-spent").evaluate("bar => bar.style.inlineSize") == "20%"

    def test_if_it_is_used_up_the_page_says_when_it_resets(
        self, tasks: TasksPage, agent: GatedTasks, watch: Watch
    ) -> None:
        watch.is_refusal_expected = True
        agent.tokens = 2500
        tasks.add(RENT, "Pay the rent")
        request = tasks.write(PARTY)
        expect(request).to_have_attribute("data-state", "refused")
        expect(request).to_contain_text(
            re.compile(r"budget has no room for this\. It resets .*at \d\d:\d\d, in about \d+ ")
        )
        expect(request.get_by_role("button", name="Try again")).to_be_visible()
        expect(tasks.page.get_by_role("status")).to_contain_text("It resets")
        tasks.reload()
        expect(request).to_have_attribute("data-state", "refused")
        request.get_by_role("button", name="Dismiss").click()
        tasks.reload()
        expect(tasks.requests).to_have_count(0)

    def test_the_bar_of_a_budget_of_nothing_is_full(self, tasks: TasksPage) -> None:
        told = {"limit": 0, "spent": 0, "held": 900, "remaining": 0, "window_start": 0, "resets_at": 4_000_000_000}
        tasks.page.route("**/api/v1/budget", lambda route: route.fulfill(json=told))
        tasks.reload()
        expect(tasks.budget).to_have_attribute("data-level", "low")
        shares = "['spent', 'held'].map((name) => document.getElementById(`budget-${name}`).style.inlineSize)"
        assert tasks.page.evaluate(shares) == ["100%", "0%"]


class TestWithKeys:
    @pytest.fixture
    def server(self, sqlite_url: str, agent: GatedTasks) -> Iterator[ChatServer]:
        with ChatServer(sqlite_url, agent, INTURN_API_KEYS=f"{KEY}:ada:acme") as server:
            yield server

    def test_a_key_is_asked_for_and_used_for_streams_too(self, page: Page, server: ChatServer, watch: Watch) -> None:
        watch.is_refusal_expected = True
        page.goto(f"{server.url}/tasks")
        tasks = TasksPage(page, server)
        dialog = page.get_by_role("dialog", name="This server needs an API key")
        key = dialog.get_by_label("API key", exact=True)
        expect(key).to_be_focused()
        key.fill("some-wrong-key-that-is-long")
        key.press("Enter")
        expect(dialog).to_contain_text("The key was not accepted")
        key.fill(KEY)
        key.press("Enter")
        expect(tasks.budget).to_be_visible()
        tasks.add(RENT, "Pay the rent")
        tasks.reload()
        expect(tasks.card("Pay the rent")).to_be_visible()
        assert KEY not in page.url

    def test_a_key_that_is_withdrawn_is_asked_for_again_and_nothing_is_lost(
        self, page: Page, server: ChatServer, agent: GatedTasks, watch: Watch
    ) -> None:
        watch.is_refusal_expected = True
        page.goto(f"{server.url}/tasks")
        tasks = TasksPage(page, server)
        dialog = page.get_by_role("dialog", name="This server needs an API key")
        key = dialog.get_by_label("API key", exact=True)
        key.fill(KEY)
        key.press("Enter")
        expect(tasks.budget).to_be_visible()
        page.evaluate("async () => (await import('/page/storage.js')).apiKey.set('a-key-that-was-withdrawn')")
        tasks.write(RENT)
        expect(dialog).to_contain_text("The key was not accepted")
        key.fill(KEY)
        key.press("Enter")
        expect(tasks.card("Pay the rent")).to_be_visible()
        expect(tasks.field).to_be_focused()


class TestAccess:
    def test_a_keyboard_is_enough(self, tasks: TasksPage) -> None:
        page = tasks.page

        def go(name: str) -> None:
            """Tab by tab to what has this id or name, and everything on the way shows the focus."""
            for _ in range(40):
                page.keyboard.press("Tab")
                at, is_seen = measures.focus(page)
                label = page.evaluate("document.activeElement.getAttribute('aria-label')")
                assert is_seen or page.evaluate("document.activeElement.matches('.filter input')"), at
                if name in (at, label):
                    return
            raise AssertionError(f"{name} was not reached")

        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the new task")).to_be_focused()
        page.keyboard.press("Enter")
        expect(tasks.field).to_be_focused()
        page.keyboard.type(RENT)
        page.keyboard.press("Enter")
        expect(tasks.card("Pay the rent")).to_be_visible()
        go("Edit Pay the rent")
        page.keyboard.press("Enter")
        page.keyboard.press("Control+A")
        page.keyboard.type("Pay all the rent")
        page.keyboard.press("Enter")
        expect(tasks.card("Pay all the rent").get_by_role("button", name="Edit")).to_be_focused()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Space")
        expect(tasks.card("Pay all the rent")).to_have_attribute("data-state", "done")
        go("Delete Pay all the rent")
        page.keyboard.press("Enter")
        expect(tasks.dialog.get_by_role("button", name="Cancel")).to_be_focused()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        expect(tasks.cards).to_have_count(0)
        expect(tasks.field).to_be_focused()

    def test_everything_has_a_name_and_the_page_its_landmarks(self, tasks: TasksPage, agent: GatedTasks) -> None:
        _fill(tasks, agent)
        page = tasks.page
        assert measures.nameless(page) == []
        assert measures.duplicate_ids(page) == []
        expect(page.get_by_role("heading", level=1)).to_have_text("Tasks")
        for role in ("main", "banner", "status"):
            expect(page.locator("body").get_by_role(role)).to_have_count(1)
        levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((h) => Number(h.tagName[1]))")
        assert all(after <= before + 1 for before, after in pairwise(levels)), levels

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_all_text_has_enough_contrast(self, tasks: TasksPage, agent: GatedTasks, scheme: str) -> None:
        tasks.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
        _fill(tasks, agent)
        assert measures.contrast_faults(tasks.page) == []
        ground = tasks.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(245, 241, 233)", "dark": "rgb(17, 25, 23)"}[scheme]
        tasks.card("Call the dentist, urgent").get_by_role("button", name="Delete").click()
        assert measures.contrast_faults(tasks.page) == []

    @pytest.mark.parametrize("width", [320, 360, 768, 1280])
    def test_nothing_is_wider_than_the_window_or_too_low_for_a_finger(
        self, tasks: TasksPage, agent: GatedTasks, width: int
    ) -> None:
        tasks.page.set_viewport_size({"width": width, "height": 740})
        _fill(tasks, agent)
        tasks.write("Call " + "A" * 200)
        assert measures.overflow(tasks.page) == []
        assert measures.small_targets(tasks.page) == []

    def test_who_wants_no_motion_gets_none(self, tasks: TasksPage) -> None:
        tasks.add(RENT, "Pay the rent")
        moves = "card => getComputedStyle(card).animationName"
        assert tasks.cards.evaluate(moves) == "none"
        tasks.page.emulate_media(reduced_motion="no-preference")
        assert tasks.cards.evaluate(moves) != "none"

    def test_the_pages_lead_to_each_other(self, tasks: TasksPage) -> None:
        other_pages = tasks.page.get_by_role("navigation", name="Other pages")
        expect(other_pages.get_by_role("link", name="API reference")).to_have_attribute("href", "/docs")
        other_pages.get_by_role("link", name="Chat").click()
        tasks.page.get_by_role("link", name="Tasks").click()
        expect(tasks.field).to_be_visible()
        other_pages.get_by_role("link", name="API reference").click()
        tasks.page.get_by_role("link", name="Tasks", exact=True).click()
        expect(tasks.field).to_be_visible()


def test_hostile_text_stays_text(tasks: TasksPage) -> None:
    title = f"Call {EVIL}"
    tasks.field.fill(f"Call {EVIL} by Friday")
    tasks.field.press("Enter")
    expect(tasks.cards).to_have_count(1)
    tasks.cards.get_by_role("button", name="Edit").click()
    form = tasks.page.get_by_role("form", name="Edit")
    form.get_by_label("Title").fill(title)
    form.get_by_role("button", name="Add subtask").click()
    tasks.page.keyboard.type(EVIL)
    form.get_by_role("button", name="Save").click()
    for _ in range(2):
        expect(tasks.cards.locator("h3")).to_have_text(title)
        expect(tasks.cards.get_by_role("list", name="Subtasks")).to_have_text(EVIL)
        assert tasks.page.locator("main img, main script").count() == 0
        assert tasks.page.evaluate("window.broken") is None
        tasks.reload()
    policy = tasks.page.request.get(f"{tasks.server.url}/tasks").headers["content-security-policy"]
    assert "unsafe" not in policy
