"""`InTurn`: opens a store, takes locks in it, registers handlers, submits to lanes, takes turns, and works."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakSet

from inturn import arguments
from inturn.errors import SettingsError
from inturn.lanes import handler as handlers
from inturn.lanes.admin import DeadLetters, Lanes
from inturn.lanes.handler import DEFAULT_WAITING, MAX_WAITING, OnDead
from inturn.lanes.inline import InlineBusy, InlineTurn
from inturn.lanes.policy import Busy
from inturn.lanes.receipt import Receipt
from inturn.lanes.retry import OnFailure
from inturn.lanes.runtime import Runtime
from inturn.lanes.submit import submit
from inturn.lanes.watch import Watch
from inturn.lanes.worker import Worker, stops_on_signals
from inturn.locks.admin import Locks
from inturn.locks.deadlock import DeadlockWatch
from inturn.locks.lock import Lock
from inturn.locks.many import LockSet
from inturn.locks.readwrite import ReadWriteLock
from inturn.process.process import Process, new_process
from inturn.settings import Settings, load_settings
from inturn.store.open import open_store
from inturn.store.sqlite.transaction import WallClock

F = TypeVar("F", bound=Callable[..., Any])

LANE_TTL = 10.0
TIME_LIMIT = 600.0
BACKOFF = (1.0, 60.0)


class InTurn:
    """The entry point. Create it anywhere, even at import time: it connects when it is first used.

    Args:
        url: `sqlite:///file.db`, `redis://…`, `rediss://…`, `unix://…`, `redis+sentinel://…` or `redis+cluster://…`.
            Default: `INTURN_URL` or `REDIS_URL`, else `sqlite:///inturn.db`.
        namespace: apps with different namespaces on one store do not see each other. 1 to 64 letters, digits or any of
            _ . -  Default: `INTURN_NAMESPACE`, else "inturn".
        replicas: submits and commits are acknowledged only when this many replicas of the Redis server have them.
            Default: `INTURN_REPLICAS`, else 0.
        settings: used instead of the environment.
        wall: the clock of an SQLite store in tests, in microseconds since the epoch.
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
            dead_letter_ttl=self.settings.dead_letter_ttl,
            wall=wall,
        )
        self.process = Process(store)
        default = self.settings
        timing = handlers.timing(LANE_TTL, TIME_LIMIT, default.dedup_window, default.state_ttl, default.store_timeout)
        now_s = time.time if wall is None else lambda: wall() / 1e6
        self.runtime = Runtime(self.process, timing, now_s)
        self.lanes = Lanes(self.process)
        """Look into the lanes of this store: `list`, `inspect`, `state`; `pause`, `resume`, `clear`."""
        self.dead_letters = DeadLetters(self.process)
        """Messages that failed for good: `list`, `show`, `replay`, `drop`."""
        self.locks = Locks(self.process)
        """Look into the locks of this store: `list`, `inspect`, `force_release`."""
        self._watches: WeakSet[Watch] = WeakSet()
        DeadlockWatch.attach(self.process, self.runtime.turns_behind)

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
        """One holder at a time, in order of arrival within a priority.

        Args:
            name: text, 1 to 512 bytes.
            ttl: seconds. The lease is renewed while this process lives, and ends within `ttl` after a crash.
                Default: `INTURN_LOCK_TTL`, else 30.
            wait: seconds to wait; `None` for as long as it takes, 0 not at all. Default: `None`.
            priority: -1000 to 1000; higher goes first. Default: 0.
            renew: `False`: the lease ends `ttl` seconds after its grant in any case. Default: `True`.
            max_life: the most seconds that a renewed lease may live. Default: no limit.
            owner: who holds it, through any object, in any process: the same owner may release it there, and
                `AlreadyHeld` is raised if it would wait for itself. Default: whoever has the lock object.
            reentrant: the same task, thread or owner may take it again; the outermost block releases it.
                Default: `False`.
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
        """At most `permits` holders at a time. The other arguments are those of `lock`."""
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
        """Many readers or one writer. A reader that comes after a waiting writer waits behind it.

        `ttl`, `wait`, `priority` and `owner` are as for `lock`.
        """
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
        """All of these names or none. Everybody takes them in the same order, so two sets cannot block each other.

        `ttl`, `priority` and `owner` are as for `lock`, and so is `wait`, which counts for all of them together.
        """
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
        on_dead: OnDead | None = None,
        attempts: int = 5,
        backoff: tuple[arguments.Seconds, arguments.Seconds] = BACKOFF,
        max_waiting: int = DEFAULT_WAITING,
        priority: int = 0,
        quiet: arguments.Seconds | None = None,
        max_quiet: arguments.Seconds | None = None,
        max_burst: int | None = None,
        cut: Callable[[Any], bool] | None = None,
        interruptible: bool = False,
        unless_newer: bool = False,
        version: int = 1,
        shares: str | Callable[[Any], str] | None = None,
        group: str | Callable[[Any], str] | None = None,
    ) -> Callable[[F], F]:
        """Register the function that runs the messages of this handler. Durations are seconds, or a `timedelta`.

        Handlers whose keys are equal share the lane: its order, its state, and one turn at a time for all of them.

        Args:
            name: 1 to 64 letters, digits or any of _ . : -
            key: template over the body, `"visitor:{visitor_uid}"`, or a function of it: the lane of a message.
                Default: `key=` of each submit.
            message_id: template or function: the id of a message. A repeat of an id gets the first result.
                Default: every message is new.
            content_id: template or function: the id is the SHA-256 of the key and this text. Default: none.
            busy: what happens to a message whose lane is busy. "queue": it waits. "wait": it waits, but becomes a dead
                letter if it does not begin within `wait`. "reject": `LaneBusy`. "drop": gone; the receipt says so.
                "merge": one turn for a burst. "interrupt": the running turn is cancelled, and the next one gets its
                messages too. "rollback": the running turn is cancelled, and older messages are superseded. "latest":
                the running turn finishes; of those that wait only the newest stays. Default: "queue".
            wait: seconds within which the turn must begin; only with busy="wait".
            body: pydantic model or dataclass of the bodies. Default: plain JSON.
            state: pydantic model, dataclass, `dict` or `list`: the state of the lane. Default: no state.
            initial: function that makes the first state. Default: `state` itself, called without arguments.
            state_ttl: seconds that a state lives after the last commit; it does not expire while messages wait.
                Default: `INTURN_STATE_TTL`, else 24 hours.
            dedup_window: seconds for which an id and its result are remembered, up to 7 days.
                Default: `INTURN_DEDUP_WINDOW`, else 300.
            ttl: seconds of the lease: a killed worker's turn runs elsewhere after this time. Default: 10.
            time_limit: seconds that a turn may take; then it is cancelled, and the attempt has failed. Default: 600.
            on_failure: "block": a failed message is tried again before those behind it, then becomes a dead letter.
                "skip": a dead letter at once. "park": tried again; after the last attempt the lane stops until someone
                resumes it. Default: "block".
            on_dead: plain function of the turn and the error, called when a message becomes a dead letter. What it
                changes in `turn.state` and what it sends becomes real together with the dead letter. Default: none.
            attempts: attempts in all. Default: 5.
            backoff: seconds; the random pause before another attempt is below the first number, which doubles each time
                up to the second. Default: (1, 60).
            max_waiting: more messages than this in one lane are refused with `MailboxFull`. Default: 10,000.
            priority: -1000 to 1000; higher goes first. Default: 0.
            quiet: seconds of silence before a burst begins; with "merge" and "interrupt". Default: none.
            max_quiet: seconds after the first message at which a burst begins at the latest; after an interrupt, they
                count from the message that interrupted. Default: 10 times `quiet`.
            max_burst: the most messages in one turn, 2 to 200; with "merge" and "interrupt". Default: 20.
            cut: what ends the quiet time at once: a `Cut`, or a function of the body. Default: none.
            interruptible: messages of other handlers, and inline turns, may interrupt its turns. Default: `False`.
            unless_newer: a turn that would commit while newer messages wait runs again with them instead, at most
                three times. Default: `False`.
            version: of this code, 1 to 100: workers with an older version leave its messages and states alone.
                Default: 1.
            shares: template or function: a plain Redis key that its turns also hold, for services that lock by it.
                Default: none.
            group: template or function, such as `"{tenant_id}"`: lanes of different groups take turns, so that many
                lanes of one group do not hold up those of another. Default, and where it is '': the lanes that became
                ready first go first.
        """

        def register(run: F) -> F:
            default = self.settings
            self.runtime.add(
                handlers.make(
                    run, name, key=key, message_id=message_id, content_id=content_id, busy=busy, wait=wait, body=body,
                    state=state, initial=initial, on_failure=on_failure, on_dead=on_dead, attempts=attempts,
                    backoff=backoff, max_waiting=max_waiting, priority=priority, quiet=quiet, max_quiet=max_quiet,
                    max_burst=max_burst, cut=cut, interruptible=interruptible, unless_newer=unless_newer,
                    version=version, shares=shares, group=group,
                    timing=handlers.timing(
                        ttl,
                        time_limit,
                        default.dedup_window if dedup_window is None else dedup_window,
                        default.state_ttl if state_ttl is None else state_ttl,
                        default.store_timeout,
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

        Args:
            handler: the name of a registered handler.
            body: what its `body` option says; by default anything that is JSON.
            key: the lane. Default: the handler's `key` template.
            message_id: text or a number. Default: the handler's `message_id` or `content_id`.
            priority: -1000 to 1000; higher goes first. Default: the handler's.
            delay: seconds until the message takes its place in the lane; until then it holds up nothing. Default: 0.
            not_before: the same as a time: a datetime with its zone, or Unix time in seconds.
        """
        to = self.runtime.handler(handler)
        return await submit(
            self.runtime,
            to,
            body,
            key=key,
            message_id=message_id,
            priority=priority,
            delay=delay,
            not_before=not_before,
        )

    def watch(self, key: str) -> Watch:
        """What happens in a lane, while it happens: `async with app.watch(key) as events:`, then `async for`."""
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
        max_waiting: int = DEFAULT_WAITING,
        interruptible: bool = False,
        version: int = 1,
        shares: str | None = None,
    ) -> InlineTurn[Any]:
        """An inline turn: `async with app.turn(key) as turn:`. It commits at the end of the block, if nothing raised.

        Inline turns and submitted messages share one order.

        Args:
            key: the lane.
            message_id: text or a number. If that message is running, or was committed before, `DuplicateMessage`
                carries its receipt. Default: every turn is new.
            busy: "wait" or "queue": wait in order. "reject": `LaneBusy` at once. "interrupt": wait, but end the running
                turn, if that one allows it. Default: "wait".
            wait: seconds to wait (`LaneTimeout`); `None` for as long as it takes. Default: `None`.
            interruptible: messages and turns that interrupt may end it; its block then raises `Interrupted`.
                Default: `False`.
            shares: a plain Redis key that it also holds. Default: none.

        `state`, `initial`, `state_ttl`, `dedup_window`, `ttl`, `time_limit`, `max_waiting` and `version` are as for
        `handler`.
        """
        timing = self.runtime.timing
        if not (state_ttl is dedup_window is ttl is time_limit is None):
            default = self.settings
            timing = handlers.timing(
                LANE_TTL if ttl is None else ttl,
                TIME_LIMIT if time_limit is None else time_limit,
                default.dedup_window if dedup_window is None else dedup_window,
                default.state_ttl if state_ttl is None else state_ttl,
                default.store_timeout,
            )
        if max_waiting != DEFAULT_WAITING:
            arguments.whole(max_waiting, "max_waiting", 1, MAX_WAITING)
        return InlineTurn(
            self.runtime,
            key,
            message_id=message_id,
            busy=busy,
            wait=wait,
            state=state,
            initial=initial,
            timing=timing,
            max_waiting=max_waiting,
            interruptible=interruptible,
            shares=shares,
            version=version,
        )

    async def run(self, concurrency: int = 10, grace: arguments.Seconds = 30, *, signals: bool = False) -> None:
        """Work until the app is closed, or until cancelled. Any number of processes may do so.

        When the app is closed no new turns are taken. The running ones get `grace` seconds, and what is left then is
        handed back untouched; when it is cancelled all are handed back at once.

        Args:
            concurrency: how many turns run at once. Default: 10.
            grace: seconds that running turns have to finish. Default: 30.
            signals: SIGTERM and SIGINT stop it as closing the app does, and then it returns; a second one ends the
                grace. For a program that does nothing else: beside a server the signals are the server's.
                Default: `False`.
        """
        if not self.runtime.handlers:
            raise SettingsError("there is nothing to run: register a handler first, with @app.handler(…)")
        turns_at_once = arguments.whole(concurrency, "concurrency", 1, 10_000)
        worker = Worker(self.runtime, turns_at_once, arguments.seconds(grace, "grace", allow_zero=True))
        with stops_on_signals(worker) if signals else contextlib.nullcontext():
            await worker.run()

    def _ttl(self, ttl: arguments.Seconds | None) -> arguments.Seconds:
        return self.settings.lock_ttl if ttl is None else ttl

    async def open(self) -> None:
        """Connect and check the store now, rather than at the first use."""
        await self.process.ready()

    async def close(self) -> None:
        """Stop the workers of this app, give back what is held, and end the connections and the heartbeat's thread."""
        await asyncio.gather(*(worker.finish() for worker in list(self.runtime.workers)))
        await self.runtime.end_own_work()
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
