"""One caller that waits for a lock or a turn: until it is granted, times out, or is cancelled.

A notice may carry the complete grant. Any other only says that the lock may be ours: the waiter then repeats its
request, which confirms a provisional grant, finds its place still queued, or queues anew if the store dropped it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Any, Protocol

from inturn.errors import StoreUnavailable
from inturn.store import clock
from inturn.store.lane import Opening
from inturn.store.protocol import Acquired, Notice, Request


class Waiting(Protocol):
    """A wait as deadlock detection needs to know it: for a lock, or (with an ident) for a message of a lane."""

    loop: asyncio.AbstractEventLoop
    since: float
    task: asyncio.Task[Any] | None
    context: Context

    @property
    def token(self) -> str: ...

    @property
    def owner(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def ident(self) -> str: ...

    def give_up(self, error: Exception) -> None:
        """The wait will never end: raise this to whoever waits. Called on its loop."""
        ...


class Waiter:
    __slots__ = (
        "_again", "_ask", "_future", "_task", "_timeout_s", "context", "loop", "request", "since", "task",
    )  # fmt: skip

    def __init__(self, request: Request | Opening, ask: Callable[[Any], Awaitable[Any]], timeout_s: float) -> None:
        self.request = request
        self.loop = asyncio.get_running_loop()
        self.since = clock.now()
        self.task = asyncio.current_task()
        self.context = copy_context()
        self._ask = ask
        self._timeout_s = timeout_s
        self._future: asyncio.Future[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._again = False

    @property
    def token(self) -> str:
        return self.request.token

    @property
    def owner(self) -> str:
        return self.request.owner

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def ident(self) -> str:
        return self.request.ident if isinstance(self.request, Opening) else ""

    async def granted(self, wait_s: float | None, early: Notice | None) -> Any:
        """Wait. Returns the answer that ended it, or `None` after `wait_s`. Raises the errors of a repeated request."""
        future = self._future = self.loop.create_future()
        if early is not None:
            self.notice(early)
        timer = None if wait_s is None else self.loop.call_later(wait_s, self._end, None)
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()

    def notice(self, notice: Notice) -> None:
        if notice.grant is not None:
            _, fence, arrival, life_left_ms = notice.grant
            self._end(Acquired("granted", fence, arrival=arrival, life_left_ms=life_left_ms, sent_at=notice.sent_at))
        else:
            self.look_again()

    def look_again(self) -> None:
        if self._future is None or self._future.done():
            return
        if self._task is not None:
            self._again = True
            return
        self._task = self.loop.create_task(self._ask_again())

    async def _ask_again(self) -> None:
        try:
            while True:
                self._again = False
                answer = await self._ask(self.request)
                if answer.status != "waiting":
                    # granted; or the store had dropped the place, and the lock is another by now: the caller decides
                    self._end(answer)
                if not self._again:
                    return
        except StoreUnavailable as error:
            self.give_up(error)
        finally:
            self._task = None

    def give_up(self, error: Exception) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_exception(error)

    def _end(self, answer: Any) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(answer)

    def close(self) -> float:
        """Ask no more. Returns until when the last request can still take effect (0: it cannot)."""
        if self._future is not None and not self._future.done():
            self._future.cancel()
        if self._task is None:
            return 0.0
        self._task.cancel()
        return clock.now() + self._timeout_s
