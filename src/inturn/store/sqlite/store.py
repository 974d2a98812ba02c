"""The store on SQLite: each verb is one function of a transaction, run by the writer thread of this process.

A call whose time is up before it is begun changes nothing. What was answered is on the disk, unless the URL says
otherwise (`synchronous=`). Each verb is in the module that is named as the folder of its Lua script.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar, cast
from weakref import WeakKeyDictionary

from inturn.errors import SettingsError, StoreUnavailable
from inturn.store.lane import (
    Begun,
    Claimed,
    Commit,
    Ended,
    Failure,
    Given,
    Left,
    Opening,
    Outcome,
    Steered,
    Submission,
    Submitted,
)
from inturn.store.limits import LETTER_LIVES_MS
from inturn.store.protocol import Acquired, Beat, Edge, Extended, HowToExtend, Listener, Notice, Released, Request, Wait
from inturn.store.sqlite import admin, connection, lanes, locks, processes, watch, workers
from inturn.store.sqlite.accept import SHARES_NEEDS_REDIS
from inturn.store.sqlite.calls import Calls, Job
from inturn.store.sqlite.connection import DEFAULT_NAMESPACE, Address
from inturn.store.sqlite.transaction import Transaction, WallClock, wall_us
from inturn.store.sqlite.watch import Watcher, Watchers
from inturn.store.sqlite.writer import Writer, forget_after_fork
from inturn.store.views import DeadView, LaneList, LaneView, LockView

Answer = TypeVar("Answer")


class SqliteStore:
    """One database file, as one process uses it. It has one partition, whatever number is asked for."""

    def __init__(
        self,
        url: str,
        process: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        partitions: int = 1,
        timeout_s: float = 5.0,
        letter_ms: int = LETTER_LIVES_MS,
        wall: WallClock = wall_us,
    ) -> None:
        self.url = url
        self.process = process
        self.partitions = 1
        self.timeout_s = timeout_s
        self.writer: Writer | None = None
        self.watchers = Watchers()
        self._address = Address.from_url(url, namespace)
        self._wall = wall
        self._letter_ms = letter_ms
        self._calls: WeakKeyDictionary[asyncio.AbstractEventLoop, Calls] = WeakKeyDictionary()
        self._starting = threading.Lock()
        self._listener: Listener = lambda notice: None
        forget_after_fork(self)

    def listen(self, listener: Listener, reopened: Callable[[], None]) -> None:
        """`reopened` is never called: the inbox is read by number, so nothing in it can be missed."""
        self._listener = listener

    def partition_of(self, name: str) -> int:
        return 0

    async def check(self) -> list[str]:
        return await self._call(self._warnings)

    async def check_partitions(self, pushes: bool = True) -> None:
        """There is one, whatever others ask for."""

    def _warnings(self, tx: Transaction) -> list[str]:
        return connection.warnings(tx.connection, self._address)

    def must_share(self) -> None:
        raise SettingsError(SHARES_NEEDS_REDIS)

    # -- locks -------------------------------------------------------------------------------------------------

    async def acquire(self, request: Request) -> Acquired:
        return await self._call(locks.acquire, request)

    async def release(self, name: str, token: str, fence: int = 0) -> Released:
        return await self._call(locks.release, name, token, fence)

    async def extend(self, name: str, token: str, how: HowToExtend, ms: int) -> Extended:
        return await self._call(locks.extend, name, token, how, ms)

    async def force_release(self, name: str, owner: str = "") -> int:
        return await self._call(locks.force_release, name, owner)

    async def edges(self, owners: Sequence[str]) -> list[Edge]:
        return await self._call(locks.edges, owners)

    async def names(self, limit: int) -> list[str]:
        return await self._call(locks.names, limit)

    async def inspect(self, name: str) -> LockView | None:
        return await self._call(locks.inspect, name)

    # -- lanes -------------------------------------------------------------------------------------------------

    async def submit(self, message: Submission) -> Submitted:
        return await self._call(lanes.submit, message)

    async def begin(self, opening: Opening) -> Begun:
        return await self._call(lanes.begin, opening)

    async def leave(self, key: str, token: str, ident: str, fence: int = 0) -> Left:
        return await self._call(lanes.leave, key, token, ident, fence)

    async def commit(self, commit: Commit) -> Ended:
        return await self._call(lanes.commit, commit)

    async def fail(self, failure: Failure) -> Ended:
        return await self._call(lanes.fail, self._letter_ms, failure)

    async def steer(self, key: str, token: str, fence: int, have: int, version: int = 1) -> Steered:
        return await self._call(lanes.steer, key, token, fence, have, version)

    async def cancel(self, key: str, ident: str, window_ms: int) -> Literal["cancelled", "begun", "ended"]:
        return await self._call(lanes.cancel, key, ident, window_ms)

    async def confirm(self, key: str, token: str) -> bool:
        return await self._call(lanes.confirm, key, token)

    async def attend(self, key: str, ident: str) -> Outcome:
        return await self._call(lanes.attend, self.process, self._letter_ms, key, ident)

    async def forward(self, source: int, target: int) -> int:
        """There is one partition: the commit itself puts sends into their lanes."""
        return 0

    # -- workers -----------------------------------------------------------------------------------------------

    async def claim(self, call: str, can: Sequence[str], count: int, partition: int = 0) -> Claimed:
        return await self._call(workers.claim, self.process, call, can, count)

    async def claim_lane(self, call: str, can: Sequence[str], key: str) -> Given | None:
        return await self._call(workers.claim_lane, self.process, call, can, key)

    async def unclaim(self, partition: int, call: str) -> int:
        return await self._call(workers.unclaim, call)

    async def unwork(self) -> None:
        await self._call(workers.unwork, self.process)

    # -- processes ---------------------------------------------------------------------------------------------

    async def beat(self, partition: int, noted: Sequence[Notice]) -> Beat:
        return await self._call(processes.beat, self.process, self._letter_ms, noted)

    async def report(self, partition: int, waits: Sequence[Wait]) -> int:
        return await self._call(processes.report, waits)

    async def depart(self) -> None:
        self.watchers.clear()  # otherwise we would register them again
        await self._call(processes.depart, self.process)

    # -- admin -------------------------------------------------------------------------------------------------

    async def stop(self, key: str, how: Literal["paused", "parked"], why: str) -> None:
        await self._call(admin.stop, key, how, why)

    async def resume(self, key: str) -> bool:
        return await self._call(admin.resume, key)

    async def clear(self, key: str) -> int:
        return await self._call(admin.clear, key)

    async def replay(self, key: str, ident: str) -> bool:
        return await self._call(admin.replay, self._letter_ms, key, ident)

    async def drop(self, key: str, ident: str) -> bool:
        return await self._call(admin.drop, self._letter_ms, key, ident)

    async def lanes(self, limit: int) -> LaneList:
        return await self._call(admin.lanes, limit)

    async def lane(self, key: str, limit: int) -> LaneView:
        return await self._call(admin.lane, key, limit)

    async def dead(self, limit: int) -> list[DeadView]:
        return await self._call(admin.dead, self._letter_ms, limit)

    async def dead_letter(self, key: str, ident: str) -> DeadView | None:
        return await self._call(admin.dead_letter, self._letter_ms, key, ident)

    # -- watchers ----------------------------------------------------------------------------------------------

    def publish(self, key: str, text: bytes) -> None:
        """Tells watchers in this process without the disk, and others through the writer, if there are any."""
        self.watchers.hear(key, text)
        with self._starting:
            if self.writer is not None:
                self.writer.say(key, text)

    async def subscribe(self, key: str, listener: Callable[[bytes], None]) -> Callable[[], Awaitable[None]]:
        watcher = Watcher(key, listener)
        self.watchers.add(watcher)
        try:
            await self._call(watch.watch, self.process, (key,))
        except BaseException:
            self.watchers.remove(watcher)
            raise

        async def unsubscribe() -> None:
            self.watchers.remove(watcher)
            if key not in self.watchers:
                with suppress(StoreUnavailable):  # the store forgets us in time
                    await self._call(self._unwatch, key)

        return unsubscribe

    def _unwatch(self, tx: Transaction, key: str) -> None:
        if key not in self.watchers:  # nobody has begun to watch it again
            watch.unwatch(tx, self.process, key)

    # -- calls -------------------------------------------------------------------------------------------------

    async def _call(self, verb: Callable[..., Answer], *args: Any) -> Answer:
        loop = asyncio.get_running_loop()
        calls = self._calls.get(loop)
        if calls is None:
            calls = self._calls[loop] = Calls(str(self._address), self._put, self.timeout_s)
        return cast(Answer, await calls.send(verb, args))

    def _put(self, jobs: list[Job]) -> Writer:
        # under the lock, so that nothing is put into a writer that was told to stop
        with self._starting:
            if self.writer is None:
                self.writer = Writer(
                    self._address,
                    self.process,
                    timeout_s=self.timeout_s,
                    wall=self._wall,
                    tell=self._tell,
                    watchers=self.watchers,
                )
            self.writer.put(jobs)
            return self.writer

    def _tell(self, notice: Notice) -> None:
        """Finds the listener anew for each notice: another may be set while the writer runs."""
        self._listener(notice)

    def forget(self) -> None:
        self.writer = None
        self.watchers = Watchers()
        self._calls = WeakKeyDictionary()
        self._starting = threading.Lock()

    async def close(self) -> None:
        """Closes it for this loop. The last loop that uses the store ends the writer."""
        calls = self._calls.pop(asyncio.get_running_loop(), None)
        if calls is not None:
            calls.close()
        with self._starting:
            if any(not loop.is_closed() for loop in self._calls):
                return
            writer, self.writer = self.writer, None
        if writer is not None:
            await asyncio.to_thread(writer.stop)
