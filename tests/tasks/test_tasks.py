"""Tasks as rows: made, found, listed page by page, changed and deleted, on each database."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from inturn.capabilities.parse_task.models import ParsedTask, Priority
from inturn.database import Connection, Database
from inturn.http.problems import Problem
from inturn.tasks.ledger import User
from inturn.tasks.tables import subtasks, tasks
from inturn.tasks.tasks import (
    Sort,
    Task,
    change_task,
    create_many_subtasks,
    create_task,
    delete_task,
    find_task_by_id,
    list_tasks,
)

ADA, BOB, ADA_ELSEWHERE = User("acme", "ada"), User("acme", "bob"), User("other", "ada")
SORTS: list[Sort] = [
    "created_at", "-created_at", "due_date", "-due_date", "priority", "-priority", "title", "-title",
]  # fmt: skip
T = TypeVar("T")


class Desk:
    """The functions under test, each in a transaction of its own."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.made = 0

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        return await self.database.transaction(work)

    async def add(
        self,
        title: str = "Pay the rent",
        *,
        user: User = ADA,
        due: str | None = "2024-01-19",
        category: str = "finance",
        level: str = "high",
        score: int = 7,
        at: float = 1000.0,
        request_id: str = "",
        parts: tuple[str, ...] = (),
    ) -> str:
        self.made += 1
        parsed = ParsedTask(
            title=title, due_date=date.fromisoformat(due) if due else None, category=category,
            priority=Priority(level=level, score=score, reason="It is due."), subtasks=None,
        )  # fmt: skip

        async def make(c: Connection) -> str:
            task_id = await create_task(c, user, request_id or f"r{self.made}", "as it was written", parsed, at)
            await create_many_subtasks(c, task_id, [(each, False) for each in parts])
            return task_id

        return await self.run(make)

    async def get(self, task_id: str, user: User = ADA) -> Task:
        found = await self.run(lambda c: find_task_by_id(c, user, task_id))
        assert found is not None
        return found

    async def page(self, user: User = ADA, **query: Any) -> tuple[list[Task], str | None]:
        return await self.run(lambda c: list_tasks(c, user, **query))

    async def titles(self, user: User = ADA, **query: Any) -> list[str]:
        return [task.title for task in (await self.page(user, **query))[0]]

    async def walk(self, limit: int, **query: Any) -> list[str]:
        """The ids of all pages."""
        found, cursor = await self.page(limit=limit, **query)
        ids = [task.id for task in found]
        while cursor is not None:
            assert len(found) == limit
            found, cursor = await self.page(limit=limit, cursor=cursor, **query)
            ids += [task.id for task in found]
        return ids

    async def change(self, task_id: str, at: float = 2000.0, **given: Any) -> Task:
        task = await self.get(task_id)
        await self.run(lambda c: change_task(c, task, given, at))
        return await self.get(task_id)


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


def forged(content: object) -> str:
    written = content if isinstance(content, str) else json.dumps(content)
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


# -- made and found


async def test_a_task_is_found_as_it_was_made(desk: Desk) -> None:
    task = await desk.get(await desk.add(parts=("first", "second", "third"), request_id="the-request"))
    assert (task.title, task.due_date, task.category) == ("Pay the rent", date(2024, 1, 19), "finance")
    assert task.priority.model_dump() == {"level": "high", "score": 7, "reason": "It is due."}
    assert (task.tasks_service_request_id, task.natural_language) == ("the-request", "as it was written")
    assert [(part.title, part.is_done) for part in task.subtasks] == [
        ("first", False), ("second", False), ("third", False),
    ]  # fmt: skip
    assert (task.is_done, task.completed_at, task.created_at, task.updated_at) == (False, None, 1000.0, 1000.0)


async def test_a_task_may_have_no_day_and_no_subtasks(desk: Desk) -> None:
    task = await desk.get(await desk.add(due=None))
    assert (task.due_date, task.subtasks) == (None, [])


async def test_a_request_has_one_task(desk: Desk) -> None:
    await desk.add(request_id="same")
    with pytest.raises(IntegrityError):
        await desk.add(request_id="same")
    assert len((await desk.page())[0]) == 1


async def test_many_subtasks_keep_their_order_and_their_ticks(desk: Desk) -> None:
    task_id = await desk.add()
    given = [(f"part {number}", number % 3 == 0) for number in range(40)]
    await desk.run(lambda c: create_many_subtasks(c, task_id, given))
    assert [(part.title, part.is_done) for part in (await desk.get(task_id)).subtasks] == given


async def test_subtasks_need_their_task(desk: Desk) -> None:
    with pytest.raises(IntegrityError):
        await desk.run(lambda c: create_many_subtasks(c, "no-such-task", [("lost", False)]))


@pytest.mark.parametrize("stranger", [BOB, ADA_ELSEWHERE])
async def test_a_task_of_somebody_else_is_not_there(desk: Desk, stranger: User) -> None:
    task_id = await desk.add(parts=("mine",))
    assert await desk.run(lambda c: find_task_by_id(c, stranger, task_id)) is None
    assert await desk.run(lambda c: find_task_by_id(c, stranger, task_id, locks=True)) is None
    assert not await desk.run(lambda c: delete_task(c, stranger, task_id))
    assert await desk.page(stranger) == ([], None)
    assert [part.title for part in (await desk.get(task_id)).subtasks] == ["mine"]


# -- listed


async def test_every_filter_leaves_what_it_names(desk: Desk) -> None:
    done = await desk.add("a", due="2024-01-01", category="work", level="low", score=1)
    await desk.add("b", due="2024-01-02", category="work", level="high", score=7)
    await desk.add("c", due=None, category="errand", level="high", score=8)
    await desk.change(done, is_done=True)

    async def found(**query: Any) -> list[str]:
        return await desk.titles(sort="title", **query)

    assert await found() == ["a", "b", "c"]
    assert await found(status="done") == ["a"]
    assert await found(status="open") == ["b", "c"]
    assert await found(category="work") == ["a", "b"]
    assert await found(category="WORK") == []
    assert await found(priority="high") == ["b", "c"]
    assert await found(due_before=date(2024, 1, 2)) == ["a"]
    assert await found(due_after=date(2024, 1, 1)) == ["b"]
    assert await found(due_after=date(2024, 1, 1), due_before=date(2024, 1, 2)) == []
    assert await found(status="open", category="work", priority="high", text="B") == ["b"]
    assert await found(status="done", priority="high") == []


async def test_a_text_is_part_of_the_title_and_no_pattern(desk: Desk) -> None:
    titles = ["100% wool", "and/or", "back\\slash", "it's", "snake_case"]
    for title in titles:
        await desk.add(title)
    expected = {
        "%": titles[:1], "_": titles[4:], "\\": titles[2:3], "/": titles[1:2], "'": titles[3:4], "WOOL": titles[:1],
        "Case": titles[4:], "0%_w": [], "%%": [], "snake case": [], "": titles,
    }  # fmt: skip
    assert {text: await desk.titles(text=text, sort="title") for text in expected} == expected


async def test_pages_of_every_size_are_the_whole_list_in_its_order(desk: Desk) -> None:
    days = ("2024-01-03", None, "2024-01-01", None, "2024-01-03", "9999-12-31", "2024-01-02")
    for number, day in enumerate(days):
        await desk.add(
            "abcabca"[number], due=day, score=(5, -1, 5, 0, 2, 2, 5)[number], at=(1.5, 1.5, 3, 2, 2, 1, 9)[number]
        )
    await desk.add("b", user=BOB)

    def place(task: Task, name: str) -> Any:
        return {
            "created_at": task.created_at, "due_date": task.due_date or date.max, "priority": task.priority.score,
            "title": task.title,
        }[name]  # fmt: skip

    for sort in SORTS:
        found = (await desk.page(sort=sort, limit=100))[0]
        by = [(place(task, sort.removeprefix("-")), task.id) for task in found]
        assert by == sorted(by, reverse=sort.startswith("-")), sort
        assert len(found) == len(days)
        for limit in (1, 2, 3, 7):
            assert await desk.walk(limit, sort=sort) == [task.id for task in found], (sort, limit)


async def test_tasks_without_a_day_stand_behind_those_with_one_and_before_them_the_other_way_round(desk: Desk) -> None:
    await desk.add("none", due=None)
    await desk.add("soon", due="2024-01-01")
    await desk.add("late", due="2030-01-01")
    assert await desk.titles(sort="due_date") == ["soon", "late", "none"]
    assert await desk.titles(sort="-due_date") == ["none", "late", "soon"]


@pytest.mark.parametrize("sort", ["created_at", "-due_date", "priority", "-title"])
async def test_tasks_that_come_and_go_between_pages_move_no_other(desk: Desk, sort: Sort) -> None:
    stays = [
        await desk.add(f"t{number}", due=f"2024-01-{number + 10}", score=number, at=float(number))
        for number in range(8)
    ]
    if sort.startswith("-"):
        stays.reverse()
    first, cursor = await desk.page(sort=sort, limit=3)
    assert [task.id for task in first] == stays[:3]
    await desk.run(lambda c: delete_task(c, ADA, stays[2]))  # the one that the cursor names
    await desk.run(lambda c: delete_task(c, ADA, stays[5]))
    await desk.add("a first", due="2023-01-01", score=-5, at=-5.0)
    await desk.add("z last", due="2025-01-01", score=99, at=99.0)
    rest, following = await desk.page(sort=sort, limit=100, cursor=cursor)
    assert [task.id for task in rest][:4] == [stays[3], stays[4], stays[6], stays[7]]
    assert len(rest) == 5  # and the one that came behind them
    assert following is None


async def test_the_last_page_has_no_cursor_also_if_it_is_full(desk: Desk) -> None:
    for _ in range(4):
        await desk.add()
    _, cursor = await desk.page(limit=2)
    last, following = await desk.page(limit=2, cursor=cursor)
    assert (len(last), following) == (2, None)
    assert (await desk.page(limit=4))[1] is None


async def test_pages_keep_their_filter(desk: Desk) -> None:
    ids = [await desk.add(category="work" if number % 2 else "errand", at=float(number)) for number in range(9)]
    assert await desk.walk(2, sort="created_at", category="work") == ids[1::2]


async def test_the_cursor_of_any_title_fits_into_a_query(desk: Desk) -> None:
    for title in ("\U0001f600" * 255, "\x01" * 255, '"' * 255, "é\\\n" * 85):
        ids = {await desk.add(title, category=title[:1].encode().hex()) for _ in range(2)}
        of_these: dict[str, Any] = {"sort": "title", "limit": 1, "category": title[:1].encode().hex()}
        (first,), cursor = await desk.page(**of_these)
        assert cursor is not None
        assert len(cursor) <= 3000
        (second,), _ = await desk.page(**of_these, cursor=cursor)
        assert {first.id, second.id} == ids


_ID = "0" * 32


FORGED: dict[Sort, list[str]] = {
    "priority": [
        "", "=", "nonsense", "é", "\U0001f600", forged("[" * 2000), forged([]), forged({}), forged("null"),
        forged(["priority", 1]), forged(["priority", 1, _ID, 1]), forged(["-priority", 1, _ID]),
        forged(["title", "a", _ID]), forged(["priority", None, _ID]), forged(["priority", True, _ID]),
        forged(["priority", "1", _ID]), forged(f'["priority",1e999,"{_ID}"]'), forged(["priority", 2**31, _ID]),
        forged(["priority", 10**30, _ID]), forged(f'["priority",{"9" * 900},"{_ID}"]'), forged(["priority", 1, "\0"]),
        forged('["priority",1,"\\ud800"]'), forged(["priority", 1, None]), forged(["priority", 1, "' OR 1=1 --"]),
        forged(["priority", 1, _ID + "\n"]),
    ],
    "created_at": [
        forged(f'["created_at",NaN,"{_ID}"]'), forged(f'["created_at",1e999,"{_ID}"]'),
        forged(f'["created_at",{"9" * 400},"{_ID}"]'), forged(["created_at", "x", _ID]),
    ],
    "due_date": [forged(["due_date", place, _ID]) for place in (5, "soon", "2024-02-30", None)],
    "title": [
        forged(["title", "a\0b", _ID]), forged(f'["title","\\ud800","{_ID}"]'), forged(["title", {"a": 1}, _ID]),
        forged(["title", 1, _ID]),
    ],
}  # fmt: skip


async def test_a_forged_cursor_is_refused_and_says_where_cursors_come_from(desk: Desk) -> None:
    await desk.add()
    for sort, cursors in FORGED.items():
        for cursor in cursors:
            with pytest.raises(Problem) as refused:
                await desk.page(sort=sort, cursor=cursor)
            told = refused.value.document()
            assert (told["status"], told["code"], told["errors"][0]["field"]) == (422, "invalid-request", "cursor")
            assert "next_cursor" in told["detail"]


async def test_a_cursor_of_somebody_else_shows_nothing_of_theirs(desk: Desk) -> None:
    for number in range(3):
        await desk.add(f"ada {number}", at=float(number))
        await desk.add(f"bob {number}", user=BOB, at=float(number))
    _, cursor = await desk.page(ADA, sort="created_at", limit=1)
    assert {task.title[:3] for task in (await desk.page(BOB, sort="created_at", cursor=cursor))[0]} == {"bob"}


# -- changed and deleted


async def test_only_what_is_given_changes(desk: Desk) -> None:
    task_id = await desk.add(parts=("one", "two"))
    before = await desk.get(task_id)
    for given in ({"title": "Pay it"}, {"due_date": None}, {"category": "errand"}):
        changed = await desk.change(task_id, **given)
        expected = before.model_copy(update={**given, "updated_at": 2000.0})
        assert changed == expected
        before = changed
    changed = await desk.change(task_id, priority={"score": 3})
    assert changed.priority.model_dump() == {"level": "high", "score": 3, "reason": "It is due."}
    changed = await desk.change(task_id, at=3000.0)
    assert changed == changed.model_copy(update={"updated_at": 3000.0})


async def test_a_task_is_completed_once_and_can_be_opened_again(desk: Desk) -> None:
    task_id = await desk.add()
    assert (await desk.change(task_id, at=10.0, is_done=True)).completed_at == 10.0
    assert (await desk.change(task_id, at=20.0, is_done=True)).completed_at == 10.0
    assert (await desk.change(task_id, at=30.0, is_done=False)).completed_at is None
    assert (await desk.change(task_id, at=40.0, is_done=True)).completed_at == 40.0


async def test_subtasks_are_given_as_a_whole_and_those_with_an_id_stay_the_same(desk: Desk) -> None:
    task_id = await desk.add(parts=("one", "two", "three"))
    one, two, three = (await desk.get(task_id)).subtasks
    given = [
        {"id": three.id, "title": "three", "is_done": True},
        {"title": "new"},
        {"id": one.id, "title": "one, renamed"},
        {"id": "made-up", "title": "another"},
    ]
    parts = (await desk.change(task_id, subtasks=given)).subtasks
    assert [(part.title, part.is_done) for part in parts] == [
        ("three", True), ("new", False), ("one, renamed", False), ("another", False),
    ]  # fmt: skip
    assert (parts[0].id, parts[2].id) == (three.id, one.id)
    assert not {parts[1].id, parts[3].id} & {one.id, two.id, three.id, "made-up"}
    assert (await desk.change(task_id, subtasks=[])).subtasks == []


async def test_a_subtask_of_another_task_is_not_taken_away_from_it(desk: Desk) -> None:
    mine, other = await desk.add(parts=("mine",)), await desk.add(user=BOB, parts=("theirs",))
    (theirs,) = (await desk.get(other, BOB)).subtasks
    (copy,) = (await desk.change(mine, subtasks=[{"id": theirs.id, "title": "copied"}])).subtasks
    assert copy.id != theirs.id
    assert (await desk.get(other, BOB)).subtasks == [theirs]


async def test_a_deleted_task_is_gone_with_its_subtasks_and_no_other(desk: Desk) -> None:
    gone, stays = await desk.add(parts=("a", "b")), await desk.add(parts=("c",))
    assert await desk.run(lambda c: delete_task(c, ADA, gone))
    assert not await desk.run(lambda c: delete_task(c, ADA, gone))
    assert await desk.run(lambda c: find_task_by_id(c, ADA, gone)) is None
    left = await desk.run(lambda c: c.scalars(sa.select(subtasks.c.title)))
    assert list(left) == ["c"]
    assert list(await desk.run(lambda c: c.scalars(sa.select(tasks.c.id)))) == [stays]
