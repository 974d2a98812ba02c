"""`InTurn`: open a store; take locks in it, register handlers, submit to lanes, take turns, work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakSet

from inturn.errors import SettingsError
from inturn.lanes import handler as handlers
from inturn.lanes.admin import Lanes
from inturn.lanes.dead import DeadLetters
from inturn.lanes.handler import MAX_WAITING
from inturn.lanes.inline import InlineBusy, InlineTurn
from inturn.lanes.policy import Busy
from inturn.lanes.receipt import Receipt
from inturn.lanes.retry import OnFailure
from inturn.lanes.runtime import Runtime
from inturn.lanes.signals import stops_on_signals
from inturn.lanes.submit import submit
from inturn.lanes.watch import Watch
from inturn.lanes.worker import Worker
from inturn import arguments
from inturn.locks.admin import Locks
from inturn.locks.deadlock import DeadlockWatch
from inturn.locks.lock import Lock
from inturn.locks.many import LockSet
from inturn.locks.readwrite import ReadWriteLock
from inturn.process.identity import new_process
from inturn.process.process import Process
from inturn.settings import Settings, load_settings
from inturn.store.open import open_store
from inturn.store.sqlite.transaction import WallClock

F = TypeVar("F", bound=Callable[..., Any])

LANE_TTL = 10.0
TIME_LIMIT = 600.0
BACKOFF = (1.0, 60.0)


class InTurn:
    """The door to everything. Made anywhere, at import time too; it connects when it is first used.

    `url` is `sqlite:///file.db`, `redis://…`, `rediss://…`, `unix://…`, `redis+sentinel://…` or `redis+cluster://…`;
    without it the environment decides (`INTURN_URL`, `REDIS_URL`), else it is `sqlite:///inturn.db`. `replicas`: what
    is submitted or committed is only acknowledged when so many replicas of the Redis server have it.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        replicas: int | None = None,
        settings: Settings | None = None,
        wall: WallClock | None = None,
    ) -> None:
        self.settings = settings or load_settings()
        store = open_store(
            url or self.settings.url,
            new_process(),
            namespace=namespace or self.settings.namespace,
            partitions=self.settings.partitions,
            timeout_s=self.settings.store_timeout,
            allow_eviction=self.settings.allow_eviction,
            replicas=self.settings.replicas if replicas is None else replicas,
            wall=wall,
        )
        self.process = Process(store)
        timing = handlers.timing(LANE_TTL, TIME_LIMIT, self.settings.dedup_window, self.settings.state_ttl)
        now_s = time.time if wall is None else lambda: wall() / 1e6
        self.runtime = Runtime(self.process, timing, now_s)
        self.lanes = Lanes(self.process)
        """Look at the lanes of this store, and stop, resume or clear them."""
        self.dead_letters = DeadLetters(self.process)
        """Messages that failed for good: `list`, `show`, `replay`, `drop`."""
        self.locks = Locks(self.process)
        """Look at the locks of this store: `list`, `inspect`, `force_release`."""
        self._watches: WeakSet[Watch] = WeakSet()
        DeadlockWatch.attach(self.process)

    def lock(
        self,
        name: str,
        ttl: arguments.Seconds | None = None,
        wait: arguments.Seconds | None = None,
        priority: int = 0,
        *,
        renew: bool = True,
        max_life: arguments.Seconds | None = None,
        owner: str | None = None,
        reentrant: bool = False,
    ) -> Lock:
        """One holder at a time, in order of arrival within a priority (higher first).

        `wait`: seconds to wait, `None` as long as it takes, `0` not at all. The lease is renewed while this process
        lives; after a crash it ends within `ttl`. `renew=False` makes it end after `ttl` in any case, `max_life` after
        that time at the latest.
        """
        return Lock(
            self.process, name, self._ttl(ttl), wait, priority=priority, renew=renew, max_life=max_life, owner=owner,
            reentrant=reentrant,
        )  # fmt: skip

    def semaphore(
        self,
        name: str,
        permits: int,
        ttl: arguments.Seconds | None = None,
        wait: arguments.Seconds | None = None,
        priority: int = 0,
        *,
        renew: bool = True,
        max_life: arguments.Seconds | None = None,
        owner: str | None = None,
    ) -> Lock:
        """At most `permits` holders at a time; otherwise a lock."""
        capacity = arguments.whole(permits, "permits", 1, arguments.MAX_PERMITS)
        return Lock(
            self.process, name, self._ttl(ttl), wait, priority=priority, renew=renew, max_life=max_life, owner=owner,
            capacity=capacity,
        )  # fmt: skip

    def rwlock(
        self,
        name: str,
        ttl: arguments.Seconds | None = None,
        wait: arguments.Seconds | None = None,
        priority: int = 0,
        *,
        owner: str | None = None,
    ) -> ReadWriteLock:
        """Many readers or one writer. Readers that come after a waiting writer wait behind it."""
        return ReadWriteLock(self.process, name, self._ttl(ttl), wait, priority=priority, owner=owner)

    def lock_all(
        self,
        names: Iterable[str],
        ttl: arguments.Seconds | None = None,
        wait: arguments.Seconds | None = None,
        priority: int = 0,
        *,
        owner: str | None = None,
    ) -> LockSet:
        """All of these names or none. They are taken in one order everywhere, so two sets cannot block each other."""
        return LockSet(self.process, names, self._ttl(ttl), wait, priority=priority, owner=owner)

    def handler(
        self,
        name: str,
        *,
        key: str | Callable[[Any], str] | None = None,
        message_id: str | Callable[[Any], str] | None = None,
        content_id: str | Callable[[Any], str] | None = None,
        busy: Busy = "queue",
        wait: arguments.Seconds | None = None,
        body: Any = None,
        state: Any = None,
        initial: Callable[[], Any] | None = None,
        state_ttl: arguments.Seconds | None = None,
        dedup_window: arguments.Seconds | None = None,
        ttl: arguments.Seconds = LANE_TTL,
        time_limit: arguments.Seconds = TIME_LIMIT,
        on_failure: OnFailure = "block",
        attempts: int = 5,
        backoff: tuple[arguments.Seconds, arguments.Seconds] = BACKOFF,
        max_waiting: int = MAX_WAITING,
        priority: int = 0,
        quiet: arguments.Seconds | None = None,
        max_quiet: arguments.Seconds | None = None,
        max_burst: int | None = None,
        cut: Callable[[Any], bool] | None = None,
        interruptible: bool = False,
        unless_newer: bool = False,
        version: int = 1,
        shares: str | Callable[[Any], str] | None = None,
    ) -> Callable[[F], F]:
        """Register what runs the messages of a name; handlers whose keys are equal share the lane and its state.

        `key` and `message_id` are templates over the body, `"visitor:{visitor_uid}"`, or functions of it; `content_id`
        makes the id out of a text. `state` and `body` are pydantic models, dataclasses, `dict` or `list`. What `busy`
        and the options from `priority` on do is told in docs/policies.md.
        """

        def register(run: F) -> F:
            default = self.settings
            self.runtime.add(
                handlers.make(
                    run, name, key=key, message_id=message_id, content_id=content_id, busy=busy, wait=wait, body=body,
                    state=state, initial=initial, on_failure=on_failure, attempts=attempts, backoff=backoff,
                    max_waiting=max_waiting, priority=priority, quiet=quiet, max_quiet=max_quiet, max_burst=max_burst,
                    cut=cut, interruptible=interruptible, unless_newer=unless_newer, version=version, shares=shares,
                    timing=handlers.timing(
                        ttl,
                        time_limit,
                        default.dedup_window if dedup_window is None else dedup_window,
                        default.state_ttl if state_ttl is None else state_ttl,
                    ),
                )
            )  # fmt: skip
            return run

        return register

    async def submit(
        self,
        handler: str,
        body: Any,
        *,
        key: str | None = None,
        message_id: object | None = None,
        priority: int | None = None,
        delay: arguments.Seconds | None = None,
        not_before: datetime | float | None = None,
    ) -> Receipt:
        """Put a message into its lane. When this returns, the store has it.

        `priority`: instead of the handler's; higher ones come first. `delay` (seconds) or `not_before` (a datetime, or
        Unix time): it takes its place in the lane then, and holds up nobody before; `receipt.cancel()` takes it back.
        """
        to = self.runtime.handler(handler)
        return await submit(self.runtime, to, body, key, message_id, priority, delay, not_before)

    def watch(self, key: str) -> Watch:
        """What happens in a lane while it happens: `async with app.watch(key) as events`, then `async for event`."""
        return Watch(self.process, key, self._watches)

    def turn(
        self,
        key: str,
        *,
        message_id: object | None = None,
        busy: InlineBusy = "wait",
        wait: arguments.Seconds | None = None,
        state: Any = None,
        initial: Callable[[], Any] | None = None,
        state_ttl: arguments.Seconds | None = None,
        dedup_window: arguments.Seconds | None = None,
        ttl: arguments.Seconds | None = None,
        time_limit: arguments.Seconds | None = None,
        max_waiting: int = MAX_WAITING,
        interruptible: bool = False,
        version: int = 1,
        shares: str | None = None,
    ) -> InlineTurn[Any]:
        """An inline turn: `async with app.turn(key) as turn:`; it commits at the end of the block, if nothing raised.

        It stands in one order with the submitted messages. `wait`: seconds to wait for it, `None` as long as it takes.
        `busy`: "wait" (or "queue"), "reject" (`LaneBusy` at once), or "interrupt": wait, but end the turn that runs, if
        it allows that. `interruptible`: messages and turns that interrupt may end it: its block raises `Interrupted`.
        `DuplicateMessage` carries the receipt of a message that runs already or was committed before.
        """
        timing = self.runtime.timing
        if not (state_ttl is dedup_window is ttl is time_limit is None):
            default = self.settings
            timing = handlers.timing(
                LANE_TTL if ttl is None else ttl,
                TIME_LIMIT if time_limit is None else time_limit,
                default.dedup_window if dedup_window is None else dedup_window,
                default.state_ttl if state_ttl is None else state_ttl,
            )
        if max_waiting != MAX_WAITING:
            arguments.whole(max_waiting, "max_waiting", 1, 10_000_000)
        return InlineTurn(
            self.runtime,
            key,
            message_id,
            busy,
            wait,
            state,
            initial,
            timing,
            max_waiting,
            interruptible,
            shares,
            version,
        )

    async def run(self, concurrency: int = 10, grace: arguments.Seconds = 30) -> None:
        """Work until SIGTERM or SIGINT (or until cancelled): any number of processes may do so.

        On a signal no new turns are taken; running ones have `grace` seconds, and what is left then is handed back
        untouched.
        """
        if not self.runtime.handlers:
            raise SettingsError("there is nothing to run: register a handler first, with @app.handler(…)")
        most = arguments.whole(concurrency, "concurrency", 1, 10_000)
        worker = Worker(self.runtime, most, arguments.seconds(grace, "grace", allow_zero=True))
        with stops_on_signals(worker):
            await worker.run()

    def _ttl(self, ttl: arguments.Seconds | None) -> arguments.Seconds:
        return self.settings.lock_ttl if ttl is None else ttl

    async def open(self) -> None:
        """Connect and check the store now, rather than at the first use."""
        await self.process.ready()

    async def close(self) -> None:
        """Stop the workers of this app, give back what is held, and end the connections and the heartbeat's thread."""
        await asyncio.gather(*(worker.finish() for worker in list(self.runtime.workers)))
        for watch in list(self._watches):
            watch.end()
        await self.process.close()

    async def __aenter__(self) -> InTurn:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
