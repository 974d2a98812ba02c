"""Waiting for results: a process is told when a message is settled, and asks for what became of it.

A push is only a hint, and so is the inbox: every few seconds the store is asked in any case.
"""

from __future__ import annotations

import asyncio

from inturn.process.process import Process
from inturn.process.registry import post
from inturn.store import clock
from inturn.store.lane import Outcome
from inturn.store.protocol import Notice

LOOK_AGAIN_S = 5.0


class _Wait:
    __slots__ = ("loop", "woken")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.woken = asyncio.Event()


class Results:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._waits: dict[str, set[_Wait]] = {}
        process.hear("settled", self._settled)
        process.on_fork(self._waits.clear)

    async def outcome(self, key: str, ident: str, timeout_s: float | None) -> Outcome:
        """What became of the message; `pending` if that is still open after the time."""
        name, wait = f"{key}\0{ident}", _Wait()
        gives_up_at = None if timeout_s is None else clock.now() + timeout_s
        registry = self._process.registry
        self._waits.setdefault(name, set()).add(wait)
        registry.busy.add(wait)
        registry.on_change()
        try:
            while True:
                wait.woken.clear()
                outcome = await self._process.store.attend(key, ident)
                left_s = LOOK_AGAIN_S if gives_up_at is None else gives_up_at - clock.now()
                if outcome.status != "pending" or left_s <= 0:
                    return outcome
                try:
                    async with asyncio.timeout(min(left_s, LOOK_AGAIN_S)):
                        await wait.woken.wait()
                except TimeoutError:
                    continue  # once more, to be sure
        finally:
            registry.busy.discard(wait)
            waits = self._waits.get(name, set())
            waits.discard(wait)
            if not waits:
                self._waits.pop(name, None)

    def _settled(self, notice: Notice) -> None:
        for wait in list(self._waits.get(notice.name, ())):
            post(wait.loop, wait.woken.set)
