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
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from inturn.errors import StoreUnavailable
from inturn.process.heartbeat import Chore, Heartbeat
from inturn.process.registry import Registry
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
        self.registry.on_change = self.heartbeat.ensure
        self.registry.listeners = self._listeners
        self.store.listen(self.registry.notice, self._reopened)
        self.is_ready = False
        self._owners: WeakKeyDictionary[asyncio.Task[object], str] = WeakKeyDictionary()
        self._threads = threading.local()
        self._owner_numbers = itertools.count(1)

    def _reopened(self) -> None:
        self.registry.look_again()
        self.heartbeat.confirm_soon()

    async def ready(self) -> None:
        """Called before the first use. Raises if the store cannot keep the promises."""
        if self.is_closed:
            raise StoreUnavailable("the app was closed; make a new one")
        if self.is_ready:
            return
        warnings = await self.store.check()
        if not self.is_ready:  # if several asked at once, one of them logs it
            self.is_ready = True
            for warning in warnings:
                log.warning("store: %s", warning)

    def owner(self) -> str:
        """The owner of a request: the current task or, outside of one, the current thread."""
        task = asyncio.current_task()
        if task is None:
            return self.thread_owner()
        try:
            return self._owners[task]
        except KeyError:
            owner = self._owners[task] = f"{self.store.process}/task-{next(self._owner_numbers)}"
            return owner

    def thread_owner(self) -> str:
        owner: str | None = getattr(self._threads, "owner", None)
        if owner is None:
            owner = self._threads.owner = f"{self.store.process}/thread-{next(self._owner_numbers)}"
        return owner

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
        """Give back what is still held, sign off, and end the thread."""
        if self.is_closed:
            return
        self.is_closed = True
        if self.is_ready:
            self.is_ready = False  # a caller that comes now asks `ready`, and is refused
            await self.registry.close(StoreUnavailable("the app was closed"))
            await asyncio.to_thread(self.heartbeat.stop)
            await asyncio.gather(self.store.depart(), return_exceptions=True)
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
