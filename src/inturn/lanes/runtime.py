"""What the parts of the lanes share: the process, the handlers, who awaits results, and which turns we are in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from inturn.errors import ArgumentError, OwnLane, StoreUnavailable, UnknownHandler
from inturn.lanes.handler import Handler, Timing
from inturn.lanes.receipt import Results
from inturn.process.process import Process
from inturn.process.waiter import Waiting
from inturn.store.lane import Claimed, Given, NotAsked, Send, ident_of
from inturn.store.protocol import Notice

if TYPE_CHECKING:
    from inturn.lanes.turn import Turn
    from inturn.lanes.worker import Worker

log = logging.getLogger("inturn.lanes")


STUBBORN_S = 3.0
"""How long a handler may take to stop when it is cancelled."""


class Frame(NamedTuple):
    turn: Turn[Any]
    outer: Frame | None
    is_thread: bool = False
    """Its body is a thread, which blocks whenever it waits."""


_within: ContextVar[Frame | None] = ContextVar("inturn_turn", default=None)


_held_up: ContextVar[Sequence[Frame]] = ContextVar("inturn_held_up", default=())


class Runtime:
    def __init__(self, process: Process, timing: Timing, now_s: Callable[[], float] = time.time) -> None:
        self.process = process
        self.now_s = now_s
        """Unix time, for `not_before`."""
        self.timing = timing
        """For inline turns, which have no handler."""
        self.results = Results(process)
        self.handlers: dict[str, Handler] = {}
        self.version = 1
        self.can: tuple[str, ...] = ()
        """What workers of this process can run: handlers, and older versions of them."""
        self.workers: set[Worker] = set()
        self.own_work: set[asyncio.Task[None]] = set()
        """Tasks that work one lane each (`own_work.py`). They end with the app."""
        self._is_closing = False
        self._bringing: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._once_more: set[tuple[int, int]] = set()
        process.hear("ready", self._ready)
        process.on_fork(self.workers.clear)
        process.on_fork(self.own_work.clear)
        process.on_fork(self._bringing.clear)

    def _ready(self, notice: Notice) -> None:
        for worker in list(self.workers):
            worker.wake(int(notice.name.partition(" ")[0]))

    def handler(self, name: str) -> Handler:
        try:
            return self.handlers[name]
        except KeyError:
            raise UnknownHandler(name, sorted(self.handlers)) from None

    def add(self, handler: Handler) -> None:
        if handler.name in self.handlers:
            raise ArgumentError("name", "a handler of this name is already registered; choose another", handler.name)
        if handler.shares is not None:
            self.process.store.must_share()
        self.handlers[handler.name] = handler
        # handlers share lanes and their states, so the newest of them says what this app can read
        self.version = max(self.version, handler.rule.version)
        self.can = tuple(name for handler in self.handlers.values() for name in handler.names(self.version))

    def make_send(self, handler: Handler, key: str, body: Any, message_id: str | None, fresh_id: str) -> Send:
        timing = handler.timing
        ident = ident_of(handler.name, fresh_id if message_id is None else message_id)
        return Send(
            key=key,
            ident=ident,
            body=handler.write_body(body),
            ttl_ms=timing.ttl_ms,
            limit_ms=timing.limit_ms,
            keep_ms=timing.keep_ms,
            is_fresh=message_id is None,
            priority=handler.priority,
            rule=handler.rule_of(body),
            shares=handler.shares_of(body),
            group=handler.group_of(body),
        )

    async def claim(self, can: Sequence[str], count: int, partition: int) -> Claimed:
        """Turns for a worker. The caller starts them before it awaits anything."""
        process = self.process
        call = process.registry.new_token()
        try:
            return await process.store.claim(call, can, count, partition)
        except NotAsked:
            raise
        except BaseException:
            # we do not know what was given, if anything: have it given back
            process.registry.abandon(call, call, partial(process.store.unclaim, partition, call))
            raise

    async def claim_lane(self, key: str, can: Sequence[str] = ()) -> Given | None:
        """The next turn of this lane, if it is ready. The caller starts it before it awaits anything.

        `can`: only if it is for one of these handlers; by default for any of this app.
        """
        process = self.process
        await process.ready()
        if self._is_closing:
            raise StoreUnavailable("the app is being closed")
        call = process.registry.new_token()
        try:
            return await process.store.claim_lane(call, can or self.can, key)
        except NotAsked:
            raise
        except BaseException:
            undo = partial(process.store.unclaim, process.store.partition_of(key), call)
            process.registry.abandon(call, call, undo)
            raise

    async def end_own_work(self) -> None:
        """The app is being closed: what this process works on by itself is handed back, and it takes no more."""
        self._is_closing = True
        loop = asyncio.get_running_loop()
        tasks = [task for task in list(self.own_work) if task.get_loop() is loop]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STUBBORN_S)

    def bring(self, key: str, sends: Iterable[Send]) -> None:
        """Bring committed sends to their partitions now, rather than with the next beat."""
        store = self.process.store
        if store.partitions == 1:
            return
        source = store.partition_of(key)
        for target in {store.partition_of(send.key) for send in sends} - {source}:
            way = source, target
            bringing = self._bringing.get(way)
            if bringing is not None and not bringing.done() and not bringing.get_loop().is_closed():
                self._once_more.add(way)  # one task per way: it also brings what others have left
            else:
                self._bringing[way] = asyncio.get_running_loop().create_task(self._bring(way))

    async def _bring(self, way: tuple[int, int]) -> None:
        self._once_more.add(way)
        try:
            while way in self._once_more:
                self._once_more.discard(way)
                while await self.process.store.forward(*way):
                    pass
        except StoreUnavailable as error:
            log.warning("forward from=%d to=%d: left to the next beat: %s", *way, error)

    def turns_behind(self, wait: Waiting) -> list[str]:
        """Returns the tokens of the turns that cannot go on before this wait ends."""
        found: dict[str, None] = {}
        frame: Frame | None
        for frame in (wait.context.get(_within), *wait.context.get(_held_up, ())):
            while frame is not None:
                turn = frame.turn
                if not turn._is_over and (frame.is_thread or turn._lease.is_held_up_by(wait.task)):
                    found[turn._lease.token] = None
                frame = frame.outer
        return list(found)

    def must_not_wait_for(self, key: str) -> None:
        """Raises `OwnLane` inside a turn of that lane: it would wait for itself."""
        frame = _within.get()
        while frame is not None:
            turn = frame.turn
            if turn.key == key and not turn._is_over and turn._runtime is self:
                raise OwnLane(key)
            frame = frame.outer


def enter_turn(turn: Turn[Any], *, is_thread: bool = False) -> None:
    """What runs in this context from here on is part of that turn."""
    _within.set(Frame(turn, _within.get(), is_thread))


def leave_turn(turn: Turn[Any]) -> None:
    frame = _within.get()
    if frame is not None and frame.turn is turn:
        _within.set(frame.outer)


def this_turn() -> Frame | None:
    """Returns the turn that what runs here is part of, if any."""
    return _within.get()


def hold_up(turns: Sequence[Frame]) -> None:
    """What waits in this context from here on may hold up these turns too, whoever started it."""
    _held_up.set(turns)


def outside_turns() -> None:
    """What runs in this context from here on is part of no turn, whoever started it."""
    _within.set(None)
