"""Everything that belongs to this process in one store: its name, what it holds, its heartbeat; all new after a fork.

Its name is `host:pid:random`. The random part tells it from a process that reused its pid.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary, WeakSet

from inturn.errors import SettingsError, StoreUnavailable
from inturn.process import threads
from inturn.process.heartbeat import Chore, Heartbeat
from inturn.process.registry import Registry
from inturn.process.waiter import Waiting
from inturn.store import clock
from inturn.store.protocol import Kind, Notice, Store


class ProcessName(NamedTuple):
    host: str
    pid: int


def new_process() -> str:
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:48] or "localhost"
    return f"{host}:{os.getpid()}:{secrets.token_hex(4)}"


def read_token(token: str) -> ProcessName:
    """Returns who made this token. One of another form is returned as it is."""
    process = token.rpartition("#")[0]
    parts = process.rsplit(":", 2)
    if len(parts) != 3 or not parts[1].isdigit():
        return ProcessName(process or token, 0)
    return ProcessName(parts[0], int(parts[1]))


log = logging.getLogger("inturn.process")

_alive: WeakSet[Process] = WeakSet()


class Hold(Protocol):
    @property
    def owner(self) -> str: ...

    @property
    def is_over(self) -> bool: ...


class Thread:
    """What a thread is called as an owner, and why it still is."""

    def __init__(self) -> None:
        self.owner = ""
        self.kept_by: list[Hold] = []
        """Blocks that only this thread can leave, and what it may take again: they go by its name."""
        self.is_renamed = False
        """It has taken something else, too: it gets another name as soon as nothing keeps this one."""

    def is_kept(self) -> bool:
        return any(not hold.is_over for hold in self.kept_by)


class ThisThread(threading.local):
    def __init__(self) -> None:
        self.state = Thread()


_behind: ContextVar[Thread | None] = ContextVar("inturn_thread", default=None)
"""The thread that a call is made for. The context of the thread goes with the call to the loop that runs it."""


class Process:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_closed = False
        self._chores: list[Callable[[], Chore]] = []
        self._fork_hooks: list[Callable[[], None]] = []
        self._listeners: dict[str, Callable[[Notice], None]] = {}
        self._reset()
        _alive.add(self)

    def _reset(self) -> None:
        self.registry = Registry(self.store)
        self.heartbeat = Heartbeat(self.registry)
        self.heartbeat.chores = [make() for make in self._chores]
        self.heartbeat.on_refused = self._refuse
        self.refused: SettingsError | None = None
        """Why the store must not be used any more, found out after it was opened."""
        self._checking: Counter[asyncio.AbstractEventLoop] = Counter()
        self.registry.on_change = self.heartbeat.ensure
        self.registry.on_due = self.heartbeat.beat_by
        self.registry.listeners = self._listeners
        self.store.listen(self.registry.notice, self._reopened)
        self.is_ready = False
        self.gave_up_at = float("-inf")
        """When a worker last gave up signing off, because the store did not answer."""
        self._owners: WeakKeyDictionary[asyncio.Task[object], str] = WeakKeyDictionary()
        self._this = ThisThread()
        self._owner_numbers = itertools.count(1)

    def _reopened(self) -> None:
        self.registry.look_again()
        self.heartbeat.confirm_soon()

    async def ready(self) -> None:
        """Called before the first use. Raises if the store cannot keep the promises."""
        if self.is_closed:
            raise StoreUnavailable("the app was closed; make a new one")
        if self.refused is not None:
            raise self.refused
        if self.is_ready:
            return
        threads.must_be_real()
        warnings = await self._check()
        if not self.is_ready:  # if several asked at once, one of them logs it
            self.is_ready = True
            for warning in warnings:
                log.warning("store: %s", warning)

    async def _check(self) -> list[str]:
        """A store that is refused, or away, keeps no connection and no task of this loop."""
        loop = asyncio.get_running_loop()
        self._checking[loop] += 1
        is_good = False
        try:
            warnings = await self.store.check()
            is_good = True
            return warnings
        finally:
            self._checking[loop] -= 1
            if not self._checking[loop]:  # else another caller still asks
                del self._checking[loop]
                if not (is_good or self.is_ready):
                    await self.store.close()

    def _refuse(self, error: SettingsError) -> None:
        log.error("the store cannot be used any more: %s", error)
        self.refused, self.is_ready = error, False  # whoever comes asks `ready`, and is told

    def owner(self, task: asyncio.Task[object]) -> str:
        """The owner of what a task asks for."""
        try:
            return self._owners[task]
        except KeyError:
            owner = self._owners[task] = self.new_owner("task")
            return owner

    def owner_behind(self, wait: Waiting) -> str:
        """The owner as which whoever waits has taken locks; '' if it has not."""
        thread = wait.context.get(_behind)
        if thread is not None and thread.is_kept():
            return thread.owner
        return self._owners.get(wait.task, "") if wait.task is not None else ""

    def thread_owner(self) -> str:
        """The owner of what this thread asks for."""
        thread = self._this.state
        if not thread.owner or (thread.is_renamed and not thread.is_kept()):
            thread.owner, thread.is_renamed = self.new_owner("thread"), False
        return thread.owner

    def thread_took(self, hold: Hold, *, is_kept: bool) -> None:
        """`is_kept`: it goes by the name of this thread until it is over. What others may release does not: a later
        wait of this thread says nothing about it.
        """
        thread = self._this.state
        if hold.owner != thread.owner:
            return  # it has a name of its own
        if not is_kept:
            thread.is_renamed = True
        elif hold not in thread.kept_by:  # else it was entered once more
            thread.kept_by = [*(kept for kept in thread.kept_by if not kept.is_over), hold]
            _behind.set(thread)

    def new_owner(self, kind: str) -> str:
        return f"{self.store.process}/{kind}-{next(self._owner_numbers)}"

    def add_chore(self, make: Callable[[], Chore]) -> None:
        """Have the heartbeat do this about once a second while someone waits. It is made anew after a fork."""
        self._chores.append(make)
        self.heartbeat.chores.append(make())

    def hear(self, kind: Kind, listener: Callable[[Notice], None]) -> None:
        """Call `listener` with every notice of a kind that concerns no token. It may be called in any thread."""
        self._listeners[kind] = listener

    def on_fork(self, hook: Callable[[], None]) -> None:
        self._fork_hooks.append(hook)

    async def close(self) -> None:
        """Give back what is still held, sign off, and end the thread: all within the store's timeout.

        What could not be given back by then ends with its ttl.
        """
        if self.is_closed:
            return
        self.is_closed = True
        if self.is_ready or self.refused is not None:
            self.is_ready = False  # a caller that comes now asks `ready`, and is refused
            timeout_s = self.store.timeout_s
            has_waited = clock.now() - self.gave_up_at < timeout_s  # then a worker has had half of the time
            gives_up_at = clock.now() + (timeout_s / 2 if has_waited else timeout_s)
            held = list(self.registry.holding.values())
            self.registry.begin_closing(StoreUnavailable("the app was closed"))
            await asyncio.to_thread(self.heartbeat.stop)
            if await self.registry.close(held, gives_up_at):
                with suppress(StoreUnavailable, TimeoutError):
                    async with asyncio.timeout(gives_up_at - clock.now()):
                        await self.store.depart()
        await self.store.close()

    def after_fork(self) -> None:
        """In the child: the connections, thread, leases and name are the parent's, not ours."""
        registry = self.registry
        for held in list(registry.holding.values()):
            held.disown("it belongs to the process that was forked")
        self.store.forget()
        self.store.process = new_process()
        self._reset()
        for hook in self._fork_hooks:
            hook()


def _after_fork() -> None:
    for process in list(_alive):
        process.after_fork()


os.register_at_fork(after_in_child=_after_fork)
