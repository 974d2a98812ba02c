"""What carries a job to its worker: one face, whether RabbitMQ does it, the store, or a test's memory.

`publish_job` returns when the job is safe. A delivery is acknowledged when its handler has returned; if the handler
raises, the job is given back, and comes again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from inturn.app import InTurn
from inturn.capabilities.outcome import ErrorInfo
from inturn.errors import BrokerFull
from inturn.jobs.types import CapabilityJobPayload, JobMessage
from inturn.lanes.turn import Turn
from inturn.store import clock

RABBITMQ_QUEUE_NAME = "ai-capability-jobs"
RABBITMQ_DLQ_NAME = "ai-capability-jobs-dlq"

JOB = "job"
"""The handler whose messages are jobs: those that the store carries, those that die, and those that are replayed."""
WEBHOOK = "webhook"
"""The handler whose messages are call-backs."""

DELIVERY_LIMIT = 5
"""How often a job may be given to a worker that does not come to an end with it."""
COUNT_S = 1.0


@dataclass(slots=True)
class Delivery:
    """One message, as it came. `message` is `None` if it cannot be read: then `body` has its bytes.

    `error`: why it is in the dead-letter queue. `deliveries`: how often it was given to a worker before, if known.
    """

    message: JobMessage | None
    body: bytes = b""
    is_again: bool = False
    deliveries: int | None = None
    error: ErrorInfo | None = None
    why_unreadable: str = ""
    fingerprint: str = ""
    """Of what cannot be read: the same if it comes again."""


Take = Callable[[Delivery], Awaitable[None]]


class Consumer(Protocol):
    """Hands deliveries to its handler, so many at once as it was made for."""

    @property
    def running(self) -> int:
        """How many handlers are at work."""
        ...

    async def stop(self, grace_s: float) -> bool:
        """Takes no more, lets the handlers finish, and gives back what is left. Returns whether all had time."""
        ...

    def hurry(self) -> None:
        """Ends the grace of a stop now."""
        ...


class Transport(Protocol):
    name: str

    async def open(self) -> None:
        """Raises `BrokerUnavailable` if the broker cannot be reached, `QueueMismatch` if a queue does not fit."""
        ...

    async def close(self) -> None: ...

    async def publish_job(
        self,
        payload: CapabilityJobPayload,
        *,
        run: int = 1,
        attempt: int = 1,
        delay_s: float = 0.0,
        turn: Turn[Any] | None = None,
    ) -> float:
        """Returns after how many seconds it comes: a broker may only know some delays. Raises `BrokerUnavailable`.

        `turn`: the turn of the job's lane that publishes it.
        """
        ...

    async def publish_to_dlq(self, payload: CapabilityJobPayload, error: ErrorInfo) -> None:
        """To the dead letters, without another attempt. Its caller is told."""
        ...

    async def create_consumer(self, handler: Take, *, concurrency: int = 1, dead: bool = False) -> Consumer | None:
        """`dead`: of the dead-letter queue. `None`: the store hands its jobs to the workers of its lanes."""
        ...


class StoreTransport:
    """The store carries jobs as messages of the handler `job`, each in its own lane. Its workers are those of lanes."""

    name = "store"

    def __init__(self, app: InTurn, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._counted_at = -COUNT_S
        self._waiting = 0

    async def open(self) -> None:
        """The store is opened by the app."""

    async def close(self) -> None:
        """The store is closed by the app."""

    async def publish_job(
        self,
        payload: CapabilityJobPayload,
        *,
        run: int = 1,
        attempt: int = 1,
        delay_s: float = 0.0,
        turn: Turn[Any] | None = None,
    ) -> float:
        message = JobMessage(payload=payload, run=run, attempt=attempt)
        if (run, attempt) == (1, 1):
            await self._must_have_room()
        place: dict[str, Any] = {"key": message.lane, "message_id": message_id(message), "delay": delay_s or None}
        if turn is not None:  # with its commit, or not at all
            turn.send(JOB, message, **place)
        else:
            await self._app.submit(JOB, message, **place)
        return delay_s

    async def publish_to_dlq(self, payload: CapabilityJobPayload, error: ErrorInfo) -> None:
        raise TypeError(
            "without a broker there is no dead-letter queue: a job that fails becomes a dead letter by itself"
        )

    async def create_consumer(self, handler: Take, *, concurrency: int = 1, dead: bool = False) -> Consumer | None:
        return None

    async def _must_have_room(self) -> None:
        """Counted now and then: the limit is there to keep a store from filling up, not to be exact."""
        if clock.now() - self._counted_at >= COUNT_S:
            self._counted_at = clock.now()
            await self._app.open()
            found = await self._app.process.store.lanes(0)
            self._waiting = sum(handler.ready for handler in found.handlers if handler.name == JOB)
        self._waiting += 1
        if self._waiting > self._limit:
            raise BrokerFull(f"{self._limit} jobs are waiting already (INTURN_JOB_QUEUE_LIMIT)")


def message_id(message: JobMessage) -> str:
    """Of a job's message in its lane."""
    return f"{message.id}.{message.run}.{message.attempt}"
