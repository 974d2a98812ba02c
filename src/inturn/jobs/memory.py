"""A transport in this process's memory, for tests: the same face as RabbitMQ's, and the same behaviour.

Confirmed, redelivered when a handler raises, dead after too many deliveries. Nothing outlives the process. Delays end
when the test says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any

from inturn.capabilities.outcome import ErrorInfo
from inturn.errors import BrokerFull, BrokerUnavailable
from inturn.jobs.transport import DELIVERY_LIMIT, Consumer, Delivery, Take
from inturn.jobs.types import CapabilityJobPayload, JobMessage
from inturn.lanes.turn import Turn


class MemoryTransport:
    """`is_away`: it refuses, as a broker that cannot be reached. `limit`: how many jobs may wait."""

    name = "memory"

    def __init__(self, limit: int = 100_000) -> None:
        self.limit = limit
        self.is_away = False
        self.waiting: deque[Delivery] = deque()
        self.dead: deque[Delivery] = deque()
        self.delayed: list[tuple[float, Delivery]] = []
        """Seconds, and what waits for so long."""
        self._changed = asyncio.Event()
        self._consumers: list[_MemoryConsumer] = []

    async def open(self) -> None:
        if self.is_away:
            raise BrokerUnavailable("the broker is away", is_certain=True)

    async def close(self) -> None:
        for consumer in self._consumers:
            await consumer.stop(0.0)

    async def publish_job(
        self,
        payload: CapabilityJobPayload,
        *,
        run: int = 1,
        attempt: int = 1,
        delay_s: float = 0.0,
        turn: Turn[Any] | None = None,
    ) -> float:
        await self.open()
        if len(self.waiting) >= self.limit:
            raise BrokerFull(f"{self.limit} jobs are waiting already")
        delivery = Delivery(JobMessage(payload=payload, run=run, attempt=attempt), deliveries=0)
        if delay_s > 0:
            self.delayed.append((delay_s, delivery))
        else:
            self.put(delivery)
        return delay_s

    async def publish_to_dlq(self, payload: CapabilityJobPayload, error: ErrorInfo) -> None:
        await self.open()
        self.dead.append(Delivery(JobMessage(payload=payload), error=error))
        self._changed.set()

    async def create_consumer(self, handler: Take, *, concurrency: int = 1, dead: bool = False) -> Consumer:
        await self.open()
        consumer = _MemoryConsumer(self, handler, concurrency, dead)
        self._consumers.append(consumer)
        return consumer

    def end_delays(self) -> int:
        """What waits for a later attempt comes now. Returns how many."""
        ended, self.delayed = self.delayed, []
        for _, delivery in ended:
            self.put(delivery)
        return len(ended)

    def put(self, delivery: Delivery) -> None:
        """Also for what a test wants delivered: a copy, or something that is no job."""
        self.waiting.append(delivery)
        self._changed.set()

    def give_back(self, delivery: Delivery) -> None:
        delivery.is_again, delivery.deliveries = True, (delivery.deliveries or 0) + 1
        if delivery.deliveries > DELIVERY_LIMIT:
            self.dead.append(delivery)
            self._changed.set()
        else:
            self.put(delivery)

    async def changed(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class _MemoryConsumer:
    def __init__(self, transport: MemoryTransport, handler: Take, concurrency: int, dead: bool) -> None:
        self._transport = transport
        self._handler = handler
        self._source = "dead" if dead else "waiting"
        self._tasks = [asyncio.create_task(self._work()) for _ in range(concurrency)]
        self._is_stopping = False
        self._hurry = asyncio.Event()
        self._idle = asyncio.Event()
        self.running = 0

    async def _work(self) -> None:
        while not self._is_stopping:
            source: deque[Delivery] = getattr(self._transport, self._source)
            if not source:
                await self._transport.changed()
                continue
            delivery = source.popleft()
            self.running += 1
            self._idle.clear()
            try:
                await self._handler(delivery)
            except asyncio.CancelledError:
                self._transport.give_back(delivery)
                raise
            except Exception:  # noqa: BLE001 - as a broker: it comes again
                self._transport.give_back(delivery)
            finally:
                self.running -= 1
                if not self.running:
                    self._idle.set()

    def hurry(self) -> None:
        self._hurry.set()

    async def stop(self, grace_s: float) -> bool:
        self._is_stopping = True
        if self.running:
            ends = [asyncio.ensure_future(self._idle.wait()), asyncio.ensure_future(self._hurry.wait())]
            await asyncio.wait(ends, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        all_finished = self.running == 0
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        return all_finished
