"""What the routes of the Tasks service take and answer."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from inturn.capabilities.outcome import ErrorInfo
from inturn.capabilities.parse_task.models import Day, Name, Score, Text
from inturn.tasks.ledger import Budget
from inturn.tasks.service import Request, Status
from inturn.tasks.tasks import Task

MAX_SUBTASKS = 50
_ID = "9f3c2a7b5d1e4f60a1b2c3d4e5f60718"
_TASK: dict[str, Any] = {
    "id": _ID, "tasks_service_request_id": _ID, "natural_language": "Pay the rent by Friday", "title": "Pay the rent",
    "due_date": "2024-01-19", "category": "finance",
    "priority": {"level": "high", "score": 7, "reason": "It is due on Friday."}, "subtasks": [], "is_done": False,
    "completed_at": None, "created_at": 1705320000.0, "updated_at": 1705320000.0,
}  # fmt: skip


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class TaskIn(BaseModel):
    """A sentence that says what to do."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"natural_language": "Pay the rent by Friday"}]}
    )

    natural_language: Text = Field(description="What to do, in your own words.")
    time_zone: Annotated[str, StringConstraints(max_length=64)] = Field(
        "UTC", description="An IANA time zone, such as Europe/Berlin: whose Friday it is."
    )


class Accepted(BaseModel):
    """The request is safe. Its task will be ready in a moment."""

    model_config = _example(tasks_service_request_id=_ID, message="The request was queued.")

    tasks_service_request_id: str = Field(description="Ask for it at `/api/v1/requests/{id}`.")
    message: str = Field(description="What happens next, for people.")


class RequestOut(BaseModel):
    """How far a request is, and what became of it."""

    model_config = _example(
        tasks_service_request_id=_ID, status="done", natural_language="Pay the rent by Friday",
        created_at=1705320000.0, changed_at=1705320001.5, task=_TASK,
    )  # fmt: skip

    tasks_service_request_id: str = Field(description="The id of the request.")
    status: Status = Field(description="`queued`, `running`, `done` with its task, or `failed` with the reason.")
    natural_language: str = Field(description="What the user wrote.")
    created_at: float = Field(description="Seconds since the epoch.")
    changed_at: float = Field(description="Seconds since the epoch.")
    task: Task | None = Field(None, description="Of a request that is done, unless the task was deleted.")
    error: ErrorInfo | None = Field(None, description="Why it failed.")

    @classmethod
    def of(cls, request: Request) -> RequestOut:
        return cls(
            tasks_service_request_id=request.id,
            status=request.status,
            natural_language=request.natural_language,
            created_at=request.created_at,
            changed_at=request.changed_at,
            task=request.task,
            error=request.error,
        )

    def told(self) -> dict[str, Any]:
        """Without what is not there; the nulls of a task are part of it."""
        written = self.model_dump(mode="json")
        if self.error is not None:
            written["error"] = self.error.model_dump(mode="json", exclude_none=True)
        return {name: value for name, value in written.items() if value is not None}


class RequestsOut(BaseModel):
    """The newest first."""

    model_config = _example(requests=[])

    requests: list[RequestOut] = Field(description="Those of the caller.")


class TasksOut(BaseModel):
    """A page of tasks."""

    model_config = _example(tasks=[_TASK], next_cursor=None)

    tasks: list[Task] = Field(description="Those of this page.")
    next_cursor: str | None = Field(description="Ask for the next page with it; null on the last one.")


class PriorityChange(BaseModel):
    """What is left out stays."""

    model_config = ConfigDict(extra="forbid")

    level: Name | None = Field(None, description="Such as `high`.")
    score: Score | None = Field(None, description="How urgent it is.")
    reason: Text | None = Field(None, description="Why.")


class SubtaskIn(BaseModel):
    """One with the id of a subtask that is there stays that subtask."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[str, StringConstraints(max_length=64)] | None = Field(None, description="Left out for a new one.")
    title: Text = Field(description="What to do.")
    is_done: bool = Field(False, description="Whether it is ticked off.")


class TaskChange(BaseModel):
    """What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"is_done": True}]})

    title: Text | None = Field(None, description="What to do.")
    due_date: Day | None = Field(None, description="A day, or null for none.")
    category: Name | None = Field(None, description="Such as `work`.")
    priority: PriorityChange | None = Field(None, description="How urgent it is.")
    is_done: bool | None = Field(None, description="Whether it is ticked off.")
    subtasks: Annotated[list[SubtaskIn], Field(max_length=MAX_SUBTASKS)] | None = Field(
        None, description="All of them, in their order."
    )

    @model_validator(mode="after")
    def _nothing_else_is_null(self) -> TaskChange:
        for name in self.model_fields_set - {"due_date"}:
            if getattr(self, name) is None:
                raise ValueError(f"{name} must not be null: leave it out to keep it")
        return self

    @model_validator(mode="after")
    def _each_subtask_is_there_once(self) -> TaskChange:
        given = [each.id for each in self.subtasks or () if each.id is not None]
        if len(set(given)) < len(given):
            raise ValueError("subtasks must not hold an id twice")
        return self

    def given(self) -> dict[str, Any]:
        changed = self.model_dump(exclude_unset=True)
        if self.priority is not None:
            changed["priority"] = self.priority.model_dump(exclude_none=True)
        return changed


class BudgetOut(BaseModel):
    """The tokens of a user in the window that runs now."""

    model_config = _example(
        limit=100000, spent=2400, held=1200, remaining=96400, window_start=1705276800, resets_at=1705363200
    )

    limit: int = Field(description="Tokens that may be used in a window.")
    spent: int = Field(description="Tokens that were used.")
    held: int = Field(description="Tokens that are reserved for requests under way.")
    remaining: int = Field(description="What is left.")
    window_start: int = Field(description="Seconds since the epoch.")
    resets_at: int = Field(description="When the next window begins, in seconds since the epoch.")

    @classmethod
    def of(cls, budget: Budget) -> BudgetOut:
        return cls(
            limit=budget.limit,
            spent=budget.spent,
            held=budget.held,
            remaining=budget.remaining,
            window_start=budget.window_start,
            resets_at=budget.resets_at,
        )


class LimitIn(BaseModel):
    """What a user may use."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"tokens": 250000}]})

    tokens: Annotated[int, Field(ge=0, le=10**12, strict=True)] = Field(
        description="Tokens that the user may use in a window."
    )


class CallbackTaken(BaseModel):
    """The call-back was taken. A repeat is answered in the same way."""

    model_config = _example(tasks_service_request_id=_ID, task=_TASK)

    tasks_service_request_id: str = Field(description="The request that it is about.")
    task: Task | None = Field(description="The task, or null if the request failed.")
