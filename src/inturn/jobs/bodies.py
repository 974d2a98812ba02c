"""What the routes of capabilities and jobs answer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from inturn.capabilities.metadata import OpenaiMetadata
from inturn.capabilities.outcome import ErrorInfo, TokenReservation, UserId
from inturn.jobs.dead import DeadJob
from inturn.jobs.record import JobRecord
from inturn.lanes.admin import LaneInfo

JobStatus = Literal["queued", "running", "attempt", "done", "dead"]


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


_ID = "9f3c2a7b5d1e4f60a1b2c3d4e5f60718"
_RESULT: dict[str, Any] = {
    "title": "Pay the rent",
    "due_date": "2024-01-19",
    "category": "finance",
    "priority": {"level": "high", "score": 7, "reason": "It is due on Friday."},
    "subtasks": None,
}


class CapabilityIn(BaseModel):
    """The input of the capability, and beside it where its outcome is to go."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"examples": [{"natural_language": "Pay the rent by Friday"}]}
    )

    callback_url: str | None = Field(
        None, max_length=2000, description="With `pattern=async`: where the outcome is POSTed to, signed."
    )
    user_id: UserId | None = Field(None, description="With `pattern=async`: whose request it is.")
    token_reservation: TokenReservation | None = Field(
        None, description="With `pattern=async`: what was reserved for it. It comes back with the outcome."
    )


class SyncOut(BaseModel):
    """The result of a capability."""

    model_config = _example(
        ai_service_request_id=_ID, result=_RESULT, agent="offline", openai_metadata=[], duration_ms=3
    )

    ai_service_request_id: str = Field(description="The id of this request.")
    result: dict[str, Any] = Field(description="What the capability answers with.")
    agent: str = Field(description="Which agent answered.")
    openai_metadata: list[OpenaiMetadata] = Field(description="Each call of a provider, re-asks included.")
    duration_ms: int = Field(description="How long it took.")


class QueuedOut(BaseModel):
    """The job is safe. Its outcome will be called back."""

    model_config = _example(message="The request was queued.", ai_service_request_id=_ID)

    message: str = Field(description="What happens next, for people.")
    ai_service_request_id: str = Field(description="The id of the job. The call-back carries it too.")


class JobOut(BaseModel):
    """How far a job is, and what became of it."""

    model_config = _example(
        ai_service_request_id=_ID, capability="parse-task", status="done", attempt=1, run=1,
        accepted_at=1705320000.0, changed_at=1705320001.5, result=_RESULT, openai_metadata=[],
    )  # fmt: skip

    ai_service_request_id: str = Field(description="The id of the job.")
    capability: str = Field(description="What is executed.")
    status: JobStatus = Field(
        description="`queued`: it waits for a worker. `running`. `attempt`: it failed, and waits for its next attempt. "
        "`done`: the outcome is there. `dead`: it failed for good, and its caller is told."
    )
    attempt: int = Field(description="The attempt that runs, or that comes next.")
    run: int = Field(description="1, and one more for each replay.")
    accepted_at: float = Field(description="Seconds since the epoch.")
    changed_at: float = Field(description="Seconds since the epoch.")
    due_at: float | None = Field(None, description="When the next attempt begins.")
    result: dict[str, Any] | None = Field(None, description="What the capability answered with.")
    error: ErrorInfo | None = Field(None, description="Why there is no result.")
    openai_metadata: list[OpenaiMetadata] | None = Field(
        None, description="Each call of a provider in the last attempt."
    )

    @classmethod
    def of(cls, record: JobRecord, lane: LaneInfo) -> JobOut:
        outcome = record.outcome if record.status in ("done", "dead") else None
        status = status_of(record, lane)
        is_replayed = record.status == "dead" and status != "dead"  # the record says so when its turn has ended
        return cls(
            ai_service_request_id=record.id,
            capability=record.capability,
            status=status,
            attempt=1 if is_replayed else record.attempt,
            run=record.run + is_replayed,
            accepted_at=record.accepted_at,
            changed_at=record.changed_at,
            due_at=record.due_at,
            result=outcome.result if outcome is not None and outcome.status == "success" else None,
            error=outcome.error if outcome is not None and outcome.status == "failure" else None,
            openai_metadata=outcome.openai_metadata if outcome is not None else None,
        )


def status_of(record: JobRecord, lane: LaneInfo) -> JobStatus:
    if record.status == "done":
        return "done"
    # an old copy from the broker, or a repeat of the request, takes the lane of a dead job too: inline, for a moment
    is_inline = lane.running is not None and lane.running.is_inline
    if record.status == "dead" and (is_inline or not lane.holder) and not lane.waiting:  # else it is being replayed
        return "dead"
    if lane.holder or record.status == "failing":  # it becomes a dead letter in a moment
        return "running"
    return "attempt" if record.status == "attempt" else "queued"


class DeadJobOut(BaseModel):
    """What died of a job."""

    model_config = _example(
        id=_ID, kind="job", attempts=4, accepted_at=1705320000.0, died_at=1705320009.5,
        error="AgentUnavailable: agent 'openai' answered with status 500",
    )  # fmt: skip

    id: str = Field(description="The id of the job.")
    kind: str = Field(
        description="`job`: it failed for good. `webhook`: its call-back was not taken. `unreadable`: what came "
        "from the broker is no job at all."
    )
    attempts: int = Field(description="How many were made.")
    accepted_at: float = Field(description="Seconds since the epoch.")
    died_at: float = Field(description="Seconds since the epoch.")
    error: str = Field(description="The last error.")
    payload: Any = Field(None, description="The job, or the call-back, as it travels. Only if one is asked for.")
    errors: list[dict[str, Any]] | None = Field(
        None, description="The error of each attempt, with its traceback. Only if one is asked for."
    )

    @classmethod
    def of(cls, dead: DeadJob, *, whole: bool = False) -> DeadJobOut:
        return cls(
            id=dead.id,
            kind=dead.kind,
            attempts=dead.attempts,
            accepted_at=dead.accepted_at,
            died_at=dead.died_at,
            error=dead.error,
            payload=dead.payload if whole else None,
            errors=dead.errors if whole else None,
        )


class DeadJobsOut(BaseModel):
    """The oldest first."""

    model_config = _example(dead=[])

    dead: list[DeadJobOut] = Field(description="What died.")


class Replayed(BaseModel):
    """How many were put back."""

    model_config = _example(replayed=1)

    replayed: int = Field(description="The number of dead jobs that run again.")


class Dropped(BaseModel):
    """How many are gone for good."""

    model_config = _example(dropped=1)

    dropped: int = Field(description="The number of dead jobs that were removed.")
