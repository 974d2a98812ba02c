"""`app.run()`: a worker. It claims ready lanes, runs their turns, and stops in good order.

A push says when there is work; a look once a second finds what a lost push left. A worker keeps a lane for a few
messages, and then the lane goes behind the others, so that none starves. Partitions are asked side by side: one that
does not answer holds up no other. Signals are left alone, unless a worker is asked to stop on them: then SIGTERM and
SIGINT stop all such workers of an event loop, and what caught those signals before catches them again afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from inturn import metrics
from inturn.errors import StoreUnavailable
from inturn.lanes.executor import Passed, take_turn
from inturn.lanes.lease import TurnLease
from inturn.lanes.lent_place import take_place
from inturn.lanes.runtime import STUBBORN_S, Runtime
from inturn.process.registry import post
from inturn.store import clock
from inturn.store.lane import Failure, Given, NotNow, read_ident

log = logging.getLogger("inturn.worker")

SIGNALS = (signal.SIGTERM, signal.SIGINT)

LOOK_S = 1.0
"""How often a worker looks without being told: a lost push costs at most this."""
SOON_S = 0.05
"""How soon a partition is asked again that cannot be asked now, because its slot is being moved."""
COUNT_S = 5.0
"""How often what is ready, dead and unhandled is counted for the metrics."""
MAX_IN_A_ROW = 16
"""How many messages of one lane a worker runs before other lanes get their turn."""


class Worker:
    """`only`: it runs the messages of these handlers; by default of all."""

    def __init__(
        self, runtime: Runtime, concurrency: int, grace_s: float, only: AbstractSet[str] | None = None
    ) -> None:
        self._runtime = runtime
        self._only = only
        self.handed_back = 0
        """How many turns had no time to finish."""
        self._concurrency = concurrency
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._tokens: dict[asyncio.Task[None], str] = {}
        """The token of the turn that each task runs."""
        partitions = runtime.process.store.partitions
        self._all = range(partitions)
        self._to_ask = dict.fromkeys(self._all)
        """Partitions that may have work for us: they said so, or gave us all that we asked for last time."""
        self._due_at: dict[int, float] = {}
        """When a partition may have work without saying so."""
        self._asking: dict[int, asyncio.Task[None]] = {}
        """By partition: it gets no second claim before the first was answered."""
        self._kept = 0
        """How much room is kept for what these may bring."""
        self._looks_at = 0.0
        self._counted_at = 0.0
        self._counting: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._firsts = [0] * partitions

    def stop(self) -> None:
        """Take no new turns. Called a second time, do not wait for the running ones either."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()
        self._woken.set()
        for asking in self._asking.values():
            asking.cancel()  # whatever it is given goes back untouched

    async def finish(self) -> None:
        """Stop, and wait until that is done. A worker on another loop is only told to stop."""
        post(self._loop, self.stop)
        if self._loop is asyncio.get_running_loop():
            await self._ended.wait()

    def wake(self, partition: int) -> None:
        """There is work. May be called from any thread."""
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
        names = ",".join(name for name in runtime.handlers if self._only is None or name in self._only)
        log.info("worker begins handlers=%s concurrency=%d", names, self._concurrency)
        try:
            while not self._stopping.is_set():
                await self._round()
            await self._let_finish()
        finally:
            # a second cancellation does not wait for it, but it goes on: whoever closes the app waits for `_ended`
            self._ending = self._loop.create_task(self._end())
            await asyncio.shield(self._ending)

    async def _round(self) -> None:
        self._woken.clear()
        if self._runtime.process.refused is not None:
            raise self._runtime.process.refused
        for partition in [partition for partition, asking in self._asking.items() if asking.done()]:
            self._asking.pop(partition).result()
        at = clock.now()
        if at >= self._looks_at:
            self._looks_at = at + LOOK_S
            for partition in self._all:
                self._to_ask.setdefault(partition)
            self._count_now_and_then()
        for partition in [partition for partition, due_at in self._due_at.items() if due_at <= at]:
            self._to_ask.setdefault(partition)
        self._ask_side_by_side()
        # a worker that has no room waits for a turn to end
        next_at = min((self._looks_at, *self._due_at.values())) if self._room > 0 else self._looks_at
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, next_at - clock.now())):
                await self._woken.wait()

    @property
    def _room(self) -> int:
        return self._concurrency - len(self._tasks) - self._kept

    def _ask_side_by_side(self) -> None:
        partitions = [partition for partition in self._to_ask if partition not in self._asking]
        for left, partition in zip(range(len(partitions), 0, -1), partitions, strict=True):
            if self._room <= 0:
                return  # those that were not asked come first next time
            count = max(1, self._room // left)
            self._to_ask.pop(partition)
            self._due_at.pop(partition, None)
            self._kept += count
            self._asking[partition] = self._loop.create_task(self._ask(partition, count))

    async def _ask(self, partition: int, count: int) -> None:
        try:
            claimed = await self._runtime.claim(self._handlers(partition), count, partition)
        except NotNow:
            self._due_at[partition] = clock.now() + SOON_S
        except StoreUnavailable as error:
            log.debug("claim failed, trying again: %s", error)  # the store has logged it, now and then
        else:
            for given in claimed.turns:
                self.start(given)
            if len(claimed.turns) == count:
                self._to_ask.setdefault(partition)
            if claimed.due_in_ms >= 0:
                self._due_at[partition] = clock.now() + claimed.due_in_ms / 1000 + 0.002
        finally:
            self._kept -= count
            self._woken.set()

    def _handlers(self, partition: int) -> tuple[str, ...]:
        """Each handler comes first in its turn, or the lanes of the first would starve those of the others."""
        handlers = self._runtime.can
        if self._only is not None:  # an older version of a handler is `<name>@<version>`
            handlers = tuple(name for name in handlers if name.partition("@")[0] in self._only)
        first = self._firsts[partition] % len(handlers)
        self._firsts[partition] += 1
        return handlers[first:] + handlers[:first]

    @property
    def is_full(self) -> bool:
        """Whether it takes no other lanes for want of places. A worker that stops takes none in any case."""
        return self._room <= 0 and not self._stopping.is_set()

    def is_held_up(self, place: asyncio.Task[None], task: asyncio.Task[Any] | None) -> bool:
        """Whether the turn that runs in this place cannot go on before that task does."""
        held = self._runtime.process.registry.holding.get(self._tokens.get(place, ""))
        return isinstance(held, TurnLease) and held.is_held_up_by(task)

    def start(self, given: Given) -> asyncio.Task[None]:
        task = self._loop.create_task(self._run_lane(given), name=f"inturn {given.key}")
        self._tasks.add(task)
        task.add_done_callback(partial(self._done, given))
        return task

    def _done(self, given: Given, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._tokens.pop(task, None) is None:  # cancelled before its first step: nobody has the lease
            back = Failure(given.key, given.token, given.fence, "back")
            process = self._runtime.process
            process.registry.abandon(given.key, given.token, partial(process.store.fail, back))
        self._woken.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a turn ended with an unexpected error", exc_info=error)

    def _leave_behind(self, task: asyncio.Task[None]) -> None:
        """Its handler does not stop when cancelled. The lane goes on without it, and its commit is refused."""
        held = self._runtime.process.registry.holding.get(self._tokens.get(task, ""))
        if isinstance(held, TurnLease):
            log.error("the handler of key=%s does not stop when cancelled; its message is handed back", held.name)
            held.lose("the worker has stopped")
            held.abandon()

    async def _run_lane(self, given: Given) -> None:
        take_place(self, self._runtime)
        passed: Passed | None = Passed(given, given.state)
        left, task = MAX_IN_A_ROW, asyncio.current_task()
        assert task is not None
        has_groups = self._runtime.handlers[read_ident(given.ident)[0]].group is not None

        def goes_on() -> bool:  # asked when the handler is done: a worker that was told to stop takes no more
            is_wanted = has_groups and len(self._tasks) >= self._concurrency  # another group may wait for this place
            return left > 0 and not self._stopping.is_set() and not is_wanted

        while passed is not None:
            left -= 1
            self._tokens[task] = passed.given.token
            passed = await take_turn(self._runtime, passed.given, passed.stored, goes_on)

    def _count_now_and_then(self) -> None:
        """In a task of its own: a part of the store that is away must not hold up the work."""
        is_counting = self._counting is not None and not self._counting.done()
        if not is_counting and clock.now() - self._counted_at >= COUNT_S:
            self._counted_at = clock.now()
            self._counting = self._loop.create_task(self._count())

    async def _count(self) -> None:
        try:
            lanes = await self._runtime.process.store.lanes(0)
        except StoreUnavailable as error:
            log.debug("counting lanes for the metrics failed: %s", error)
            return
        metrics.lanes_in_use.set(lanes.in_use)
        metrics.dead_letters.set(lanes.dead)
        for handler in lanes.handlers:
            metrics.lanes_ready.labels(handler.name).set(handler.ready)
            metrics.lanes_unhandled.labels(handler.name).set(0 if handler.workers else handler.ready)

    async def _let_finish(self) -> None:
        if not self._tasks:
            return
        log.info("worker stops: %d running turns have %g s to finish", len(self._tasks), self._grace_s)
        hurry = asyncio.create_task(self._hurry.wait())
        finish = asyncio.create_task(asyncio.wait(set(self._tasks)))
        await asyncio.wait({hurry, finish}, timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        finish.cancel()
        await asyncio.gather(hurry, finish, return_exceptions=True)

    async def _end(self) -> None:
        """Hand back untouched what did not finish, and sign off."""
        runtime = self._runtime
        self._stopping.set()
        if self._counting is not None:
            self._counting.cancel()
        for asking in self._asking.values():
            asking.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        left = set(self._tasks)
        self.handed_back = len(left)
        for task in left:
            task.cancel()
        if left:
            _, stubborn = await asyncio.wait(left, timeout=STUBBORN_S)
            for task in stubborn:
                self._leave_behind(task)
        runtime.workers.discard(self)
        process = runtime.process
        try:
            async with asyncio.timeout(process.store.timeout_s / 2):  # the other half is left to who closes the app
                await process.registry.quiet()
                await self._sign_off()
        except (StoreUnavailable, TimeoutError):
            process.gave_up_at = clock.now()
            process.registry.once_more("", "", 0.0, self._sign_off)
        process.registry.busy.discard(self)
        log.info("worker ends: %d turns were handed back", len(left))
        self._ended.set()

    async def _sign_off(self) -> None:
        """Nobody wakes this process any more, unless another worker runs in it."""
        if not self._runtime.workers:
            await self._runtime.process.store.unwork()


class WorkerPool:
    """Keeps a worker going while the store comes and goes, until it is told to stop."""

    def __init__(
        self, runtime: Runtime, concurrency: int, grace_s: float, only: AbstractSet[str] | None = None
    ) -> None:
        self._make = partial(Worker, runtime, concurrency, grace_s, only)
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while not self._is_stopping:
            self._worker = self._make()
            try:
                await self._worker.run()
            except StoreUnavailable:
                await asyncio.sleep(LOOK_S)
            except Exception:
                log.exception("the worker failed unexpectedly and is restarting")
                await asyncio.sleep(LOOK_S)

    def begin_to_stop(self) -> None:
        """It takes no more turns. Called a second time, it does not wait for the running ones either."""
        self._is_stopping = True
        if self._worker is not None:
            self._worker.stop()

    async def stop(self, within_s: float) -> bool:
        """Returns whether all turns had the time to finish."""
        if not self._is_stopping:
            self.begin_to_stop()
        if self._task is None:
            return True
        done, _ = await asyncio.wait({self._task}, timeout=within_s)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return bool(done) and (self._worker is None or not self._worker.handed_back)


class _Signals:
    """Catches the signals of one loop, while it has workers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.workers: list[Worker] = []
        self._loop = loop
        self._before: dict[int, Any] = {}
        for number in SIGNALS:
            before = signal.getsignal(number)
            # only the loop of the main thread can catch signals
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self._stop)
                self._before[number] = before

    def _stop(self) -> None:
        for worker in list(self.workers):
            worker.stop()

    def end(self) -> None:
        for number, before in self._before.items():
            self._loop.remove_signal_handler(number)
            if before is not None:
                signal.signal(number, before)


_caught: dict[asyncio.AbstractEventLoop, _Signals] = {}


@contextlib.contextmanager
def stops_on_signals(worker: Worker) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = _caught.get(loop)
    if signals is None:
        signals = _caught[loop] = _Signals(loop)
    signals.workers.append(worker)
    try:
        yield
    finally:
        signals.workers.remove(worker)
        if not signals.workers:
            del _caught[loop]
            signals.end()
