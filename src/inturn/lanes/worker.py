"""`app.run()`: a worker. It claims ready lanes, runs their turns, and stops in good order.

A push says when there is work, a timed look finds what a lost push left. A lane that is claimed is kept for a few
messages and then goes behind the others, so that none starves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from inturn.errors import StoreUnavailable
from inturn.lanes.lease import TurnLease
from inturn.lanes.runtime import Runtime
from inturn.lanes.executor import Passed, take_turn
from inturn import metrics
from inturn.process.registry import post
from inturn.store import clock
from inturn.store.lane import Given

log = logging.getLogger("inturn.worker")

LOOK_S = 1.0
"""A lost push costs at most this."""
COUNT_S = 5.0
"""How often what is ready, dead and unhandled is counted for the metrics."""
STUBBORN_S = 3.0
"""How long a handler may take to stop when it is cancelled."""
RUN = 16
"""Messages of one lane in a row, before others get their turn."""


class Worker:
    def __init__(self, runtime: Runtime, concurrency: int, grace_s: float) -> None:
        self._runtime = runtime
        self._concurrency = concurrency
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._tokens: dict[asyncio.Task[None], str] = {}
        """Of the turn that each task is in."""
        partitions = runtime.process.store.partitions
        self._all = range(partitions)
        self._to_ask = dict.fromkeys(self._all)
        """Partitions that may have work for us: they said so, or gave us as much as we asked for the last time."""
        self._due_at: dict[int, float] = {}
        """When one may have work without saying so."""
        self._looks_at = 0.0
        self._counted_at = 0.0
        self._counting: asyncio.Task[None] | None = None
        self._firsts = [0] * partitions

    def stop(self) -> None:
        """Take no new turns; called a second time: do not wait for the running ones either."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()
        self._woken.set()

    async def finish(self) -> None:
        """Stop it, and wait until it has. One that runs on another loop is only told to."""
        post(self._loop, self.stop)
        if self._loop is asyncio.get_running_loop():
            await self._ended.wait()

    def wake(self, partition: int) -> None:
        """From any thread: there is work."""
        post(self._loop, self._told, partition)

    def _told(self, partition: int) -> None:
        self._to_ask.setdefault(partition)
        self._woken.set()

    async def run(self) -> None:
        runtime = self._runtime
        await runtime.process.ready()
        runtime.workers.add(self)
        registry = runtime.process.registry
        registry.busy.add(self)
        registry.on_change()
        log.info("worker begins handlers=%s concurrency=%d", ",".join(runtime.handlers), self._concurrency)
        try:
            while not self._stopping.is_set():
                await self._round()
            await self._let_finish()
        finally:
            await self._end()

    async def _round(self) -> None:
        self._woken.clear()
        at = clock.now()
        if at >= self._looks_at:
            self._looks_at = at + LOOK_S
            for partition in self._all:
                self._to_ask.setdefault(partition)
            self._count_now_and_then()
        for partition in [partition for partition, due_at in self._due_at.items() if due_at <= at]:
            self._to_ask.setdefault(partition)
        for partition in list(self._to_ask):  # who was asked last has gone to the end
            if len(self._tasks) < self._concurrency:
                await self._ask(partition)
        # one that has no room waits for a turn to end
        has_room = len(self._tasks) < self._concurrency
        next_at = min((self._looks_at, *self._due_at.values())) if has_room else self._looks_at
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, next_at - clock.now())):
                await self._woken.wait()

    async def _ask(self, partition: int) -> None:
        free = self._concurrency - len(self._tasks)
        self._to_ask.pop(partition, None)
        self._due_at.pop(partition, None)
        try:
            claimed = await self._runtime.claim(self._handlers(partition), free, partition)
        except StoreUnavailable as error:
            log.warning("claim: %s", error)
            return
        for given in claimed.turns:
            self._start(given)
        if len(claimed.turns) == free:
            self._to_ask.setdefault(partition)
        if claimed.due_in_ms >= 0:
            self._due_at[partition] = clock.now() + claimed.due_in_ms / 1000 + 0.002

    def _handlers(self, partition: int) -> tuple[str, ...]:
        """Each comes first in its turn, or the first one's lanes would starve the others'."""
        handlers = self._runtime.can
        first = self._firsts[partition] % len(handlers)
        self._firsts[partition] += 1
        return handlers[first:] + handlers[:first]

    def _start(self, given: Given) -> None:
        task = self._loop.create_task(self._run_lane(given), name=f"inturn {given.key}")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._tokens.pop(task, None)
        self._woken.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a turn ended in an unforeseen way", exc_info=error)

    def _leave_behind(self, task: asyncio.Task[None]) -> None:
        """Its handler does not stop when it is cancelled. The lane goes on without it, and its commit is refused."""
        held = self._runtime.process.registry.holding.get(self._tokens.get(task, ""))
        if isinstance(held, TurnLease):
            log.error("the handler of %s does not stop when it is cancelled; its message is handed back", held.name)
            held.lose("the worker has stopped")
            held.abandon()

    async def _run_lane(self, given: Given) -> None:
        passed: Passed | None = Passed(given, given.state)
        left, task = RUN, asyncio.current_task()
        assert task is not None

        def goes_on() -> bool:  # asked when the handler is done: a worker that was told to stop takes no more
            return left > 0 and not self._stopping.is_set()

        while passed is not None:
            left -= 1
            self._tokens[task] = passed.given.token
            passed = await take_turn(self._runtime, passed.given, passed.stored, goes_on)

    def _count_now_and_then(self) -> None:
        """Beside the work: a part of the store that is away must not hold it up."""
        is_counting = self._counting is not None and not self._counting.done()
        if not is_counting and clock.now() - self._counted_at >= COUNT_S:
            self._counted_at = clock.now()
            self._counting = self._loop.create_task(self._count())

    async def _count(self) -> None:
        try:
            lanes = await self._runtime.process.store.lanes(0)
        except StoreUnavailable as error:
            log.warning("count: %s", error)
            return
        metrics.lanes_in_use.set(lanes.in_use)
        metrics.dead_letters.set(lanes.dead)
        for handler in lanes.handlers:
            metrics.lanes_ready.labels(handler.name).set(handler.ready)
            metrics.lanes_unhandled.labels(handler.name).set(0 if handler.workers else handler.ready)

    async def _let_finish(self) -> None:
        if not self._tasks:
            return
        log.info("worker stops: %d turns have %g s to finish", len(self._tasks), self._grace_s)
        hurry = asyncio.create_task(self._hurry.wait())
        finish = asyncio.create_task(asyncio.wait(set(self._tasks)))
        await asyncio.wait({hurry, finish}, timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        finish.cancel()
        await asyncio.gather(hurry, finish, return_exceptions=True)

    async def _end(self) -> None:
        """Hand back what did not finish, untouched, and be gone."""
        runtime = self._runtime
        self._stopping.set()
        if self._counting is not None:
            self._counting.cancel()
        left = set(self._tasks)
        for task in left:
            task.cancel()
        if left:
            _, stubborn = await asyncio.wait(left, timeout=STUBBORN_S)
            for task in stubborn:
                self._leave_behind(task)
        await runtime.process.registry.quiet()
        runtime.workers.discard(self)
        runtime.process.registry.busy.discard(self)
        if not runtime.workers:
            with contextlib.suppress(StoreUnavailable):  # then it is forgotten when it is not seen any more
                await runtime.process.store.unwork()
        log.info("worker ends: %d turns were handed back", len(left))
        self._ended.set()
