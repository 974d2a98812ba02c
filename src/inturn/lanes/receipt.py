"""What the submitter of a message holds, and how it waits for the result.

A process is told when a message is settled, and then asks the store what became of it. The push is only a hint, and so
is the inbox: every few seconds the store is asked in any case.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from inturn import arguments
from inturn.errors import (
    DeadlockDetected,
    HandlerFailed,
    LaneBusy,
    LaneTimeout,
    MessageCancelled,
    ResultExpired,
    Superseded,
)
from inturn.lanes import codec
from inturn.lanes.lent_place import lending
from inturn.process.process import Process
from inturn.process.registry import post
from inturn.store import clock
from inturn.store.lane import Outcome, ident_of
from inturn.store.protocol import Notice

if TYPE_CHECKING:
    from inturn.lanes.runtime import Runtime

log = logging.getLogger("inturn.lanes")

LOOK_AGAIN_S = 5.0

Status = Literal["accepted", "queued", "delayed", "duplicate", "superseded", "cancelled", "dropped"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a submit.

    `accepted`: its turn is next. `queued`: others come before it. `delayed`: its time has not come. `duplicate`: it is
    already there, or was committed before. `superseded`, `cancelled`: it came before, and will never run.
    `dropped`: the lane was busy, and the message is gone.
    """

    status: Status
    key: str
    handler: str
    id: str
    ahead: int = 0
    """How many messages come before it."""
    _runtime: Runtime | None = field(default=None, repr=False, compare=False)
    _result: bytes | None = field(default=None, repr=False, compare=False)

    @property
    def is_duplicate(self) -> bool:
        return self.status == "duplicate"

    async def result(self, timeout: arguments.Seconds | None = None) -> Any:
        """Returns what the handler returned. Waits for it: `TimeoutError` after `timeout` seconds.

        `HandlerFailed` for a dead letter, `Superseded` or `MessageCancelled` for what will never run, `ResultExpired`
        when the duplicate window is over.
        """
        if self.status == "dropped":
            raise LaneBusy(self.key, None, 0.0, self.ahead)
        if self._result is not None:
            return codec.read_json(self._result)
        assert self._runtime is not None, "only the store makes receipts"
        self._runtime.must_not_wait_for(self.key)
        timeout_s = arguments.wait(timeout, "timeout")
        with lending(self._runtime, self.key):
            outcome = await self._runtime.results.outcome(self.key, ident_of(self.handler, self.id), timeout_s)
        if outcome.status == "done":
            return codec.read_json(outcome.result)
        if outcome.status == "superseded":
            raise Superseded(self.key, self.id)
        if outcome.status == "cancelled":
            raise MessageCancelled(self.key, self.id)
        if outcome.status == "dead":
            errors = [json.loads(error) for error in outcome.errors]
            if errors and "accepted" in errors[-1] and errors[-1]["type"] == "LaneTimeout":
                raise LaneTimeout(self.key, (errors[-1]["at"] - errors[-1]["accepted"]) / 1000)
            raise HandlerFailed(self.key, self.id, outcome.attempts, errors)
        if outcome.status == "pending":
            raise TimeoutError(f"message {self.id!r} of lane {self.key!r} has no result after {timeout_s:g} s")
        raise ResultExpired(self.key, self.id)

    async def cancel(self) -> bool:
        """Take the message back before it begins. `False`: it is running, has run (perhaps in a burst), or is gone.

        Its id stays known for the duplicate window: submitting it again does not bring it back.
        """
        runtime = self._runtime
        assert runtime is not None, "only the store makes receipts"
        if not self.handler or self.status == "dropped":
            return False
        handler = runtime.handlers.get(self.handler)
        window_ms = (handler.timing if handler is not None else runtime.timing).window_ms
        status = await runtime.process.store.cancel(self.key, ident_of(self.handler, self.id), window_ms)
        log.info("cancel key=%s handler=%s id=%s: %s", self.key, self.handler, self.id, status)
        return status == "cancelled"


class _Wait:
    __slots__ = ("_fail", "context", "ident", "loop", "name", "owner", "since", "task", "token")

    def __init__(self, token: str, key: str, ident: str, fail: Callable[[Exception], None]) -> None:
        self.token = self.owner = token
        self.name = key
        self.ident = ident
        self.since = clock.now()
        self.loop = asyncio.get_running_loop()
        self.task = asyncio.current_task()
        self.context = copy_context()
        self._fail = fail

    def give_up(self, error: Exception) -> None:
        if isinstance(error, DeadlockDetected):
            error.is_for_result = True
        self._fail(error)


class Results:
    """Who awaits which result in this process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._woken: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        """By message: who asks again when it is settled."""
        process.hear("settled", self._settled)
        process.on_fork(self._woken.clear)

    @contextmanager
    def waiting(self, key: str, ident: str, fail: Callable[[Exception], None]) -> Iterator[None]:
        """The block waits for this message. If it will never end, `fail` is called with the reason, on this loop."""
        registry = self._process.registry
        wait = _Wait(registry.new_token(), key, ident, fail)
        registry.busy.add(wait)
        registry.awaiting[wait.token] = wait
        registry.on_change()
        try:
            yield
        finally:
            registry.busy.discard(wait)
            registry.awaiting.pop(wait.token, None)

    async def outcome(self, key: str, ident: str, timeout_s: float | None) -> Outcome:
        """Returns what became of the message; `pending` if that is not known after `timeout_s`."""
        await self._process.ready()  # the app may have been closed
        name, woken, errors = f"{key}\0{ident}", asyncio.Event(), list[Exception]()
        gives_up_at = None if timeout_s is None else clock.now() + timeout_s

        def fail(error: Exception) -> None:
            errors.append(error)
            woken.set()

        us = asyncio.get_running_loop(), woken
        self._woken.setdefault(name, set()).add(us)
        try:
            with self.waiting(key, ident, fail):
                while True:
                    woken.clear()
                    if errors:
                        raise errors[0]
                    outcome = await self._process.store.attend(key, ident)
                    left_s = LOOK_AGAIN_S if gives_up_at is None else gives_up_at - clock.now()
                    if outcome.status != "pending" or left_s <= 0:
                        return outcome
                    with suppress(TimeoutError):  # then the store is asked in any case
                        async with asyncio.timeout(min(left_s, LOOK_AGAIN_S)):
                            await woken.wait()
        finally:
            waiting = self._woken.get(name, set())
            waiting.discard(us)
            if not waiting:
                self._woken.pop(name, None)

    def _settled(self, notice: Notice) -> None:
        for loop, woken in list(self._woken.get(notice.name, ())):
            post(loop, woken.set)
