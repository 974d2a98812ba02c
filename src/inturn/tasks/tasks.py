"""Tasks and their subtasks, as rows. Every function runs inside its caller's transaction."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from pydantic import BaseModel, Field, FiniteFloat, StringConstraints, TypeAdapter

from inturn.capabilities.parse_task.models import ParsedTask
from inturn.database import Connection
from inturn.http.problems import Problem
from inturn.tasks.ledger import User
from inturn.tasks.tables import subtasks, tasks

Sort = Literal[
    "created_at", "-created_at", "due_date", "-due_date", "priority", "-priority", "title", "-title",
]  # fmt: skip
_NO_DAY = date(9999, 12, 31)
"""Where a task without a due date stands: behind those that have one."""
_Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
_PLACES: dict[str, TypeAdapter[tuple[str, Any, str]]] = {
    "created_at": TypeAdapter(tuple[str, FiniteFloat, _Id]),
    "due_date": TypeAdapter(tuple[str, date, _Id]),
    "priority": TypeAdapter(tuple[str, Annotated[int, Field(ge=-(2**31), lt=2**31)], _Id]),
    "title": TypeAdapter(tuple[str, Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")], _Id]),
}
"""What a cursor may hold. Anybody can write one, and no database may stumble over it."""


class TaskPriority(BaseModel):
    """How urgent a task is."""

    level: str = Field(description="Such as `high`.")
    score: int = Field(description="How urgent it is, inside its level.")
    reason: str = Field(description="Why.")


class Subtask(BaseModel):
    """A step of a task."""

    id: str = Field(description="Stays the same when the subtask is changed.")
    title: str = Field(description="What to do.")
    is_done: bool = Field(description="Whether it is ticked off.")


class Task(BaseModel):
    """A task of a user."""

    id: str = Field(description="The id of the task.")
    tasks_service_request_id: str = Field(description="The request that it came from.")
    natural_language: str = Field(description="What the user wrote.")
    title: str = Field(description="What to do.")
    due_date: date | None = Field(description="A day, or null.")
    category: str = Field(description="Such as `work`.")
    priority: TaskPriority = Field(description="How urgent it is.")
    subtasks: list[Subtask] = Field(description="In their order.")
    is_done: bool = Field(description="Whether it is ticked off.")
    completed_at: float | None = Field(description="Seconds since the epoch.")
    created_at: float = Field(description="Seconds since the epoch.")
    updated_at: float = Field(description="Seconds since the epoch.")


async def create_task(
    at: Connection, user: User, request_id: str, natural_language: str, parsed: ParsedTask, now: float
) -> str:
    """Returns its id. A request has one task: a second one is refused by the table."""
    task_id = uuid.uuid4().hex
    await at.execute(
        sa.insert(tasks).values(
            id=task_id, tenant_id=user.tenant_id, user_id=user.user_id, request_id=request_id,
            natural_language=natural_language, title=parsed.title, due_date=parsed.due_date, category=parsed.category,
            priority_level=parsed.priority.level, priority_score=parsed.priority.score,
            priority_reason=parsed.priority.reason, completed_at=None, created_at=now, updated_at=now,
        )
    )  # fmt: skip
    return task_id


async def create_many_subtasks(at: Connection, task_id: str, given: Iterable[tuple[str, bool]]) -> None:
    """`given`: title, and whether it is done, in their order."""
    rows = [
        {"id": uuid.uuid4().hex, "task_id": task_id, "position": position, "title": title, "is_done": is_done}
        for position, (title, is_done) in enumerate(given)
    ]
    if rows:
        await at.execute(sa.insert(subtasks), rows)


async def find_task_by_id(at: Connection, user: User, task_id: str, *, locks: bool = False) -> Task | None:
    """`None` for a task of somebody else, too. `locks`: until the end of the transaction nobody else changes it."""
    query = sa.select(tasks).where(tasks.c.id == task_id, *_of(user))
    row = (await at.execute(query.with_for_update() if locks else query)).one_or_none()
    return None if row is None else (await _with_subtasks(at, [row]))[0]


async def find_tasks(at: Connection, user: User, task_ids: Sequence[str]) -> dict[str, Task]:
    """By their ids, those that there are."""
    rows = (await at.execute(sa.select(tasks).where(tasks.c.id.in_(task_ids), *_of(user)))).all()
    return {task.id: task for task in await _with_subtasks(at, rows)}


async def list_tasks(
    at: Connection,
    user: User,
    *,
    status: Literal["open", "done"] | None = None,
    category: str | None = None,
    priority: str | None = None,
    due_before: date | None = None,
    due_after: date | None = None,
    text: str | None = None,
    sort: Sort = "-created_at",
    limit: int = 50,
    cursor: str | None = None,
) -> tuple[list[Task], str | None]:
    """A page, and the cursor of the next one. A cursor says where its page ended, so that tasks which come or go
    between two pages make no other task appear twice or be left out.
    """
    query = sa.select(tasks).where(*_of(user))
    if status is not None:
        query = query.where(tasks.c.completed_at.is_(None) if status == "open" else tasks.c.completed_at.is_not(None))
    for column, wanted in ((tasks.c.category, category), (tasks.c.priority_level, priority)):
        if wanted is not None:
            query = query.where(column == wanted)
    if due_before is not None:
        query = query.where(tasks.c.due_date < due_before)
    if due_after is not None:
        query = query.where(tasks.c.due_date > due_after)
    if text:
        query = query.where(tasks.c.title.icontains(text, autoescape=True))
    name, descends = sort.removeprefix("-"), sort.startswith("-")
    by: Any = {
        "created_at": tasks.c.created_at,
        "due_date": sa.func.coalesce(tasks.c.due_date, sa.literal(_NO_DAY, sa.Date)),
        "priority": tasks.c.priority_score,
        "title": tasks.c.title,
    }[name]
    if cursor is not None:
        value, last_id = _read_cursor(cursor, sort)
        here, there = sa.tuple_(by, tasks.c.id), sa.tuple_(sa.literal(value, by.type), sa.literal(last_id))
        query = query.where(here < there if descends else here > there)
    order = (by.desc(), tasks.c.id.desc()) if descends else (by.asc(), tasks.c.id.asc())
    rows = (await at.execute(query.add_columns(by.label("place")).order_by(*order).limit(limit + 1))).all()
    page = rows[:limit]
    following = _cursor(sort, page[-1].place, page[-1].id) if len(rows) > limit else None
    return await _with_subtasks(at, page), following


async def change_task(at: Connection, task: Task, given: dict[str, Any], now: float) -> None:
    """`given`: the fields that change, as `Task` names them."""
    values: dict[str, Any] = {name: given[name] for name in ("title", "due_date", "category") if name in given}
    if "priority" in given:
        changed = task.priority.model_dump() | given["priority"]
        values |= {f"priority_{name}": value for name, value in changed.items()}
    if "is_done" in given and given["is_done"] != task.is_done:
        values["completed_at"] = now if given["is_done"] else None
    if "subtasks" in given:
        await _change_subtasks(at, task, given["subtasks"])
    await at.execute(sa.update(tasks).where(tasks.c.id == task.id).values(**values, updated_at=now))


async def _change_subtasks(at: Connection, task: Task, given: list[dict[str, Any]]) -> None:
    """All of them are given. Those that keep their id are the same ones."""
    known = {each.id for each in task.subtasks}
    await at.execute(sa.delete(subtasks).where(subtasks.c.task_id == task.id))
    rows = [
        {
            "id": each["id"] if each.get("id") in known else uuid.uuid4().hex,
            "task_id": task.id,
            "position": position,
            "title": each["title"],
            "is_done": each.get("is_done", False),
        }
        for position, each in enumerate(given)
    ]
    if rows:
        await at.execute(sa.insert(subtasks), rows)


async def delete_task(at: Connection, user: User, task_id: str) -> bool:
    """Its subtasks go with it."""
    return (await at.execute(sa.delete(tasks).where(tasks.c.id == task_id, *_of(user)))).rowcount == 1


def _of(user: User) -> tuple[sa.ColumnElement[bool], ...]:
    return tasks.c.tenant_id == user.tenant_id, tasks.c.user_id == user.user_id


async def _with_subtasks(at: Connection, rows: Sequence[Any]) -> list[Task]:
    if not rows:
        return []
    query = (
        sa.select(subtasks)
        .where(subtasks.c.task_id.in_([row.id for row in rows]))
        .order_by(subtasks.c.task_id, subtasks.c.position)
    )
    found: dict[str, list[Subtask]] = {}
    for each in await at.execute(query):
        found.setdefault(each.task_id, []).append(Subtask(id=each.id, title=each.title, is_done=each.is_done))
    return [_task(row, found.get(row.id, [])) for row in rows]


def _task(row: Any, parts: list[Subtask]) -> Task:
    return Task(
        id=row.id,
        tasks_service_request_id=row.request_id,
        natural_language=row.natural_language,
        title=row.title,
        due_date=row.due_date,
        category=row.category,
        priority=TaskPriority(level=row.priority_level, score=row.priority_score, reason=row.priority_reason),
        subtasks=parts,
        is_done=row.completed_at is not None,
        completed_at=row.completed_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _cursor(sort: str, place: Any, task_id: str) -> str:
    told = place.isoformat() if isinstance(place, date) else place
    written = json.dumps([sort, told, task_id], ensure_ascii=False)
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def _read_cursor(cursor: str, sort: str) -> tuple[Any, str]:
    try:
        written = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        made_for, place, task_id = _PLACES[sort.removeprefix("-")].validate_json(written, strict=True)
        if made_for != sort:
            raise ValueError("it belongs to another sort")
        return place, task_id
    except ValueError:
        why = "is not a cursor of this list: take next_cursor of the page before, with the same sort"
        raise Problem(
            "invalid-request", f"cursor: {why}", more={"errors": [{"field": "cursor", "message": why}]}
        ) from None
