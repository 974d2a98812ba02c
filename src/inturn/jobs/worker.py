"""The worker: takes jobs from the broker or the store, works on so many at once, and stops in good order."""

from __future__ import annotations

import asyncio
import logging
import signal

from inturn.errors import BrokerUnavailable
from inturn.jobs.service import RECEIVER, UNREADABLE, JobService
from inturn.jobs.transport import JOB, WEBHOOK, Consumer, StoreTransport
from inturn.lanes.worker import WorkerPool
from inturn.store import clock

log = logging.getLogger("inturn.jobs")

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
"""Each asks for a stop in good order. Process managers that restart on a change of files send the last one."""
GRACE_S = 30.0
CALLBACKS_AT_ONCE = 20
"""Call-backs have places of their own: a receiver that hangs must not keep jobs from being worked on."""
FILED_AT_ONCE = 5


class CapabilityWorker:
    """`start()` raises `BrokerUnavailable` if the broker is away or a queue does not fit. Afterwards it reconnects."""

    def __init__(self, service: JobService, concurrency: int, grace_s: float = GRACE_S) -> None:
        self._service = service
        self._concurrency = concurrency
        self._grace_s = grace_s
        self._consumers: list[Consumer] = []
        self._pools: list[WorkerPool] = []
        self._stops_at: float | None = None
        self._stopping: list[asyncio.Task[bool]] = []

    async def start(self) -> None:
        service, transport = self._service, self._service.transport
        log.info("Starting capability worker transport=%s concurrency=%d", transport.name, self._concurrency)
        try:
            await transport.open()
            jobs = await transport.create_consumer(service.take, concurrency=self._concurrency)
            dead = await transport.create_consumer(service.file_dead, concurrency=FILED_AT_ONCE, dead=True)
        except BrokerUnavailable:
            log.error("Worker failed to start, AI service startup aborted")
            await transport.close()
            raise
        self._consumers = [consumer for consumer in (jobs, dead) if consumer is not None]
        runtime = service.app.runtime
        of_jobs = self._concurrency if isinstance(transport, StoreTransport) else FILED_AT_ONCE
        self._pools = [
            WorkerPool(runtime, of_jobs, self._grace_s, only={JOB, UNREADABLE}),
            WorkerPool(runtime, CALLBACKS_AT_ONCE, self._grace_s, only={WEBHOOK, RECEIVER}),
        ]
        for pool in self._pools:
            pool.start()

    def begin_to_stop(self) -> None:
        """Takes no more jobs. Those that run have the grace."""
        if self._stops_at is not None:
            return
        self._stops_at = clock.now() + self._grace_s
        log.info("Shutting down worker gracefully")
        for pool in self._pools:
            pool.begin_to_stop()
        self._stopping = [asyncio.create_task(consumer.stop(self._grace_s)) for consumer in self._consumers]

    def hurry(self) -> None:
        """The running jobs have no more time."""
        self.begin_to_stop()
        for pool in self._pools:
            pool.begin_to_stop()
        for consumer in self._consumers:
            consumer.hurry()

    async def stop(self) -> bool:
        """Returns whether every job had the time to finish. The rest were given back."""
        self.begin_to_stop()
        assert self._stops_at is not None
        finished = await asyncio.gather(*self._stopping)
        for pool in self._pools:
            finished.append(await pool.stop(max(0.0, self._stops_at - clock.now())))
        log.info("Worker shutdown complete")
        return all(finished)


async def initialize_worker(service: JobService, *, concurrency: int, grace: float = GRACE_S) -> CapabilityWorker:
    """Returns a worker that has begun to work. Whoever has it stops it."""
    worker = CapabilityWorker(service, concurrency, grace)
    await worker.start()
    return worker


async def start_worker(
    service: JobService,
    stopping: asyncio.Event,
    *,
    concurrency: int,
    grace: float = GRACE_S,
    hurry: asyncio.Event | None = None,
) -> bool:
    """Works until `stopping` is set. Running jobs have the grace then, or until `hurry` is set.

    Returns whether every job had the time to finish.
    """
    worker = await initialize_worker(service, concurrency=concurrency, grace=grace)
    await stopping.wait()
    hurrying = asyncio.create_task(_hurry(worker, hurry or asyncio.Event()))
    try:
        return await worker.stop()
    finally:
        hurrying.cancel()


async def _hurry(worker: CapabilityWorker, hurry: asyncio.Event) -> None:
    await hurry.wait()
    worker.hurry()
