"""`app.watch(key)`: what happens in a lane while it happens. Best effort: nothing is kept, and a watcher slows nobody.

Chunks carry the fence of their turn, and their number in it. Events of a turn older than the newest one seen are
dropped; a newer turn starts with a `begin`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Any, Literal, cast
from weakref import WeakMethod, WeakSet, finalize

from inturn.lanes import codec, template
from inturn.process.process import Process
from inturn.process.registry import post
from inturn.store.lane import read_ident

What = Literal["begin", "chunk", "commit", "fail", "back", "lost", "interrupt", "missed"]

_ENDS = frozenset({"commit", "fail", "back", "lost", "interrupt"})

MAX_BEHIND = 1000
"""How many events wait for a slow watcher. If there are more, it misses the oldest."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened in a lane.

    `begin`: a turn starts, or starts again. `chunk`: its handler streamed `data`. `commit`: the turn is real. All
    other ends void it: `fail`, `back` (it was handed back), `lost` (its lease ended), `interrupt` (a newer message,
    `id`, ended it). `missed`: this watcher has not seen everything. All watchers of a process share one `data` object:
    do not change it.
    """

    what: What
    key: str
    fence: int = 0
    number: int = 0
    data: Any = None
    handler: str = ""
    id: str = ""
    attempt: int = 0
    why: str = ""


def chunk_text(fence: int, number: int, written: bytes) -> bytes:
    return b"chunk %d %d " % (fence, number) + written


def begin_text(fence: int, attempt: int, ident: str) -> bytes:
    return f"begin {fence} {attempt} {ident}".encode()


@lru_cache(16)
def read_event(key: str, said: bytes) -> Event:
    """Read once for all watchers of a lane in this process."""
    if not said:
        return Event("missed", key)
    what, fence, rest = said.split(b" ", 2)
    name = cast(What, what.decode())
    if name == "chunk":
        number, _, data = rest.partition(b" ")
        return Event(name, key, int(fence), int(number), codec.read_json(data))
    words = rest.decode()
    if name == "begin":
        attempt, _, words = words.partition(" ")
        return Event(name, key, int(fence), 0, None, *read_ident(words), attempt=int(attempt))
    if name in ("commit", "interrupt"):
        return Event(name, key, int(fence), 0, None, *read_ident(words))
    return Event(name, key, int(fence), why=words)


def _pass_on(hear: WeakMethod[Callable[[bytes], None]], said: bytes) -> None:
    listener = hear()
    if listener is not None:
        listener(said)


def _start(stop: Callable[[], Awaitable[None]]) -> None:
    """On its loop, as a task of its own: nobody is left to wait for it."""
    stopping = asyncio.ensure_future(stop())
    _stopping.add(stopping)
    stopping.add_done_callback(_stopping.discard)


_stopping: set[asyncio.Future[None]] = set()


class Watch:
    """`async with app.watch(key) as events:`, then `async for event in events`.

    Without the `with` block it begins to listen when the first event is asked for.
    """

    def __init__(self, process: Process, key: str, watches: WeakSet[Watch]) -> None:
        self._process = process
        self._watches = watches
        """All watches of the app, which ends them when it closes."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self.key = template.lane(key)
        self.fence = 0
        """The fence of the newest turn seen."""
        self._events: deque[Event] = deque()
        self._woken = asyncio.Event()
        self._missed = False
        self._opening = asyncio.Lock()
        self._unsubscribes: finalize[Any, Any] | None = None
        self._stop: Callable[[], Awaitable[None]] | None = None
        self._ended = 0
        """The fence of the newest turn that has ended. What its body still streams is dropped."""
        self._is_over = False

    async def open(self) -> None:
        """Listen from here on."""
        if not self._must_open():
            return
        async with self._opening:
            if not self._must_open():  # another task has done it
                return
            loop = self._loop = asyncio.get_running_loop()
            self._watches.add(self)
            await self._process.ready()
            # the subscription must not keep a watch alive that everybody has dropped
            hear: WeakMethod[Callable[[bytes], None]] = WeakMethod(self._hear)
            self._stop = stop = await self._process.store.subscribe(self.key, lambda said: _pass_on(hear, said))
            self._unsubscribes = finalize(self, post, loop, _start, stop)
            self._unsubscribes.atexit = False
        if not self._goes_on():  # closed meanwhile
            await self.aclose()

    def _must_open(self) -> bool:
        return self._stop is None and self._goes_on()

    def _goes_on(self) -> bool:
        return not self._is_over

    def _hear(self, said: bytes) -> None:
        event = read_event(self.key, said)
        if event.what == "missed":
            self._missed = True
        elif event.fence < self.fence or (event.what == "chunk" and event.fence <= self._ended):
            return
        elif event.fence > self.fence:
            self.fence = event.fence
            if event.what != "begin":  # we began to listen in the middle of it
                self._keep(Event("begin", self.key, event.fence))
        if event.what in _ENDS:
            self._ended = event.fence
        if event.what != "missed":
            self._keep(event)
        self._woken.set()

    def _keep(self, event: Event) -> None:
        if len(self._events) >= MAX_BEHIND:
            self._events.popleft()
            self._missed = True
        self._events.append(event)

    async def __anext__(self) -> Event:
        await self.open()
        while True:
            if self._missed:
                self._missed = False
                return Event("missed", self.key)
            if self._events:
                return self._events.popleft()
            if self._is_over:
                raise StopAsyncIteration
            self._woken.clear()
            await self._woken.wait()

    def __aiter__(self) -> Watch:
        return self

    def end(self) -> None:
        """The app closes: what was heard is still delivered, and then the watch ends."""
        if self._loop is not None:
            post(self._loop, self._end)

    def _end(self) -> None:
        self._is_over = True
        self._woken.set()

    async def aclose(self) -> None:
        self._end()
        stop, self._stop = self._stop, None
        if self._unsubscribes is not None:
            self._unsubscribes.detach()
        if stop is not None:
            await stop()

    async def __aenter__(self) -> Watch:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
