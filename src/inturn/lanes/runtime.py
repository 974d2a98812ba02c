"""What the parts of the lanes share: the process, the handlers, who awaits results, and in which turns we are."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from inturn.errors import OwnLane, StoreUnavailable, UnknownHandler
from inturn.lanes.handler import Handler, Timing
from inturn.lanes.results import Results
from inturn.process.process import Process
from inturn.store.lane import Claimed, NotAsked, Send, ident_of
from inturn.store.protocol import Notice

if TYPE_CHECKING:
    from inturn.lanes.turn import Turn
    from inturn.lanes.worker import Worker

log = logging.getLogger("inturn.lanes")


class Frame(NamedTuple):
    turn: Turn[Any]
    outer: Frame | None


_within: ContextVar[Frame | None] = ContextVar("inturn_turn", default=None)


class Runtime:
    def __init__(self, process: Process, timing: Timing, now_s: Callable[[], float] = time.time) -> None:
        self.process = process
        self.now_s = now_s
        """Unix time, for what is not before a time."""
        self.timing = timing
        """For whatever has no handler: inline turns."""
        self.results = Results(process)
        self.handlers: dict[str, Handler] = {}
        self.version = 1
        self.can: tuple[str, ...] = ()
        """What workers of this process can run: handlers, and older versions of them."""
        self.workers: set[Worker] = set()
        self._bringing: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._once_more: set[tuple[int, int]] = set()
        process.hear("ready", self._ready)
        process.on_fork(self.workers.clear)
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
            raise ValueError(f"handler {handler.name!r} is registered already; choose another name")
        if handler.shares is not None:
            self.process.store.must_share()
        self.handlers[handler.name] = handler
        # lanes and their states are shared by handlers, so the newest one tells what this app can read
        self.version = max(self.version, handler.rule.version)
        self.can = tuple(name for handler in self.handlers.values() for name in handler.names(self.version))

    def make_send(self, handler: Handler, key: str, body: Any, message_id: str | None, fresh_id: str) -> Send:
        timing = handler.timing
        ident = ident_of(handler.name, fresh_id if message_id is None else message_id)
        return Send(
            key, ident, handler.write_body(body), timing.ttl_ms, timing.limit_ms, timing.keep_ms, message_id is None,
            handler.priority, handler.rule_of(body), 0, handler.shares_of(body),
        )  # fmt: skip

    async def claim(self, can: Sequence[str], count: int, partition: int) -> Claimed:
        """Turns for a worker. Whoever starts them does so before it awaits anything."""
        process = self.process
        call = process.registry.new_token()
        try:
            return await process.store.claim(call, can, count, partition)
        except NotAsked:
            raise
        except BaseException:
            # what was given, if anything, is not known: have it given back
            process.registry.abandon(call, call, partial(process.store.unclaim, partition, call))
            raise

    def bring(self, key: str, sends: Iterable[Send]) -> None:
        """Sends to other partitions are on their way since the commit: bring them there now, rather than by a beat."""
        store = self.process.store
        if store.partitions == 1:
            return
        source = store.partition_of(key)
        for target in {store.partition_of(send.key) for send in sends} - {source}:
            way = source, target
            bringing = self._bringing.get(way)
            if bringing is not None and not bringing.done() and not bringing.get_loop().is_closed():
                self._once_more.add(way)  # one at a time on each way: it brings what others left too
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
            log.warning("forward from=%d to=%d: a beat will do it: %s", *way, error)

    def must_not_wait_for(self, key: str) -> None:
        """A turn that waits for its own lane would wait for itself."""
        frame = _within.get()
        while frame is not None:
            turn = frame.turn
            if turn.key == key and not turn.is_over and turn.runtime is self:
                raise OwnLane(key)
            frame = frame.outer


def enter(turn: Turn[Any]) -> None:
    """What runs in this context from here on runs in that turn."""
    _within.set(Frame(turn, _within.get()))


def leave(turn: Turn[Any]) -> None:
    frame = _within.get()
    if frame is not None and frame.turn is turn:
        _within.set(frame.outer)
