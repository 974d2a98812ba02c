"""The record of a job, which is the state of its lane: how far it is, and which try counts.

A delivery that is older than the record does nothing. So copies of a message, which crashes and brokers make, are
harmless: only one of them counts.
"""

from __future__ import annotations

import time
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from inturn.capabilities.outcome import ErrorInfo
from inturn.jobs.types import JobFailed, JobMessage, JobProcessingResult

Status = Literal["queued", "attempt", "done", "failing", "dead", "withdrawn"]

_OVER: frozenset[Status] = frozenset({"done", "failing", "dead", "withdrawn"})

MAX_ERRORS = 10


class JobError(BaseModel):
    """What one attempt ended in."""

    run: int
    attempt: int
    at: float
    type: str
    message: str
    traceback: str = ""


class JobRecord(BaseModel):
    """`queued`: it waits for a worker. `attempt`: it has failed, and waits for its next attempt. `done`: the outcome is
    there, and its call-back is on its way. `failing`: it is about to become a dead letter. `withdrawn`: its caller was
    told that it was not accepted.
    """

    model_config = ConfigDict(validate_assignment=False)

    id: str
    capability: str
    user_id: str
    tenant_id: str = ""
    request_id: str = ""
    status: Status = "queued"
    run: int = 1
    attempt: int = 1
    """The attempt that runs, or that comes next."""
    crashes: int = 0
    """How often a delivery came again, where the broker does not count that."""
    accepted_at: float = 0.0
    changed_at: float = 0.0
    due_at: float | None = None
    """When the next attempt begins."""
    errors: list[JobError] = Field(default_factory=list)
    outcome: JobProcessingResult | None = None
    letter: str = ""
    """The id of the message that is its dead letter."""

    @classmethod
    def of(cls, message: JobMessage) -> JobRecord:
        payload = message.payload
        return cls(
            id=message.id,
            capability=payload.capability,
            user_id=payload.user_id,
            tenant_id=payload.tenant_id,
            request_id=payload.request_id,
            run=message.run,
            attempt=message.attempt,
            accepted_at=payload.accepted_at,
            changed_at=time.time(),
        )

    @property
    def is_over(self) -> bool:
        return self.status in _OVER

    def wants(self, message: JobMessage) -> bool:
        """Whether this delivery may run. A newer one may: the turn that published it was killed before its commit.

        Once the job is over only a replay runs, which is another run: of an attempt there may be copies.
        """
        if self.is_over:
            return message.run > self.run and self.status != "withdrawn"
        return (message.run, message.attempt) >= (self.run, self.attempt)

    def move(self, status: Status) -> None:
        self.status, self.changed_at, self.due_at = status, time.time(), None

    def note_failure(self, failed: JobFailed) -> None:
        kept = JobError(
            run=self.run,
            attempt=self.attempt,
            at=time.time(),
            type=failed.error.type or "error",
            message=failed.detail or failed.error.message,
            traceback=failed.traceback,
        )
        self.errors = [*self.errors[: MAX_ERRORS // 2], *self.errors[MAX_ERRORS // 2 :][1 - MAX_ERRORS // 2 :], kept]


def worker_died(deliveries: int) -> JobFailed:
    why = f"the job was given to a worker {deliveries} times, and no worker came to an end with it"
    return JobFailed(error=ErrorInfo(message="The job could not be processed.", type="worker_died"), detail=why)
