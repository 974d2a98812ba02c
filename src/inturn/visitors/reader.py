"""Reads visitors' lanes for many readers at once. Those who ask in one moment share one read, and a state is parsed
once for each change of it. What is returned is shared: nobody may change it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from inturn.app import InTurn
from inturn.errors import StateMismatch
from inturn.lanes.codec import Shape, why_not
from inturn.store.views import MessageView
from inturn.visitors.chat import VisitorState

MAX_PARSED, MAX_PARSED_BYTES = 256, 8 * 1024 * 1024
"""Parsed states that a process keeps, and how long they are together as they are stored."""

_SHAPE = Shape(VisitorState, "state")

_Place = tuple[asyncio.AbstractEventLoop, str, int]


class VisitorLane(NamedTuple):
    """`messages`: what runs, and the first of what waits."""

    state: VisitorState
    messages: list[MessageView]


class LaneReader:
    def __init__(self, app: InTurn) -> None:
        self._app = app
        self._next: dict[_Place, asyncio.Task[VisitorLane]] = {}
        """Reads that have not begun, so that whoever asks may join them."""
        self._last: dict[_Place, asyncio.Task[VisitorLane]] = {}
        self._parsed: OrderedDict[str, tuple[bytes, VisitorState]] = OrderedDict()
        """With the stored bytes, which are read each time: so an old state is never used."""
        app.process.on_fork(self._next.clear)
        app.process.on_fork(self._last.clear)

    async def read(self, key: str, limit: int) -> VisitorLane:
        """Returns the lane with the first `limit` messages that wait, as it is now or a moment later."""
        place = asyncio.get_running_loop(), key, limit
        reading = self._next.get(place)
        if reading is None:
            reading = asyncio.create_task(self._read(place, self._last.get(place)), name=f"inturn read {key}")
            reading.add_done_callback(lambda done: self._ended(place, done))
            self._next[place] = self._last[place] = reading
        return await asyncio.shield(reading)  # if one reader is cancelled, the others still wait

    async def _read(self, place: _Place, before: asyncio.Task[VisitorLane] | None) -> VisitorLane:
        if before is not None:
            await asyncio.wait({before})
        del self._next[place]  # who asks from here on may know of a change that this read does not see
        _, key, limit = place
        await self._app.process.ready()
        view = await self._app.process.store.lane(key, limit)
        messages = [message for message in view.messages if message.body and message.place != "delayed"]
        return VisitorLane(self._parse(key, view.state), messages)

    def _ended(self, place: _Place, reading: asyncio.Task[VisitorLane]) -> None:
        for tasks in (self._next, self._last):
            if tasks.get(place) is reading:
                del tasks[place]
        if not reading.cancelled():
            reading.exception()  # perhaps nobody waits for it any more

    def _parse(self, key: str, stored: bytes | None) -> VisitorState:
        if stored is None:
            self._parsed.pop(key, None)
            return VisitorState()
        before, state = self._parsed.pop(key, (b"", None))
        if state is None or before != stored:
            try:
                state = _SHAPE.read(stored.partition(b" ")[2])
            except ValueError as error:
                raise StateMismatch(key, why_not(error)) from error
        self._parsed[key] = stored, state
        sizes = [len(each) for each, _ in list(self._parsed.values())]
        while len(sizes) > MAX_PARSED or (len(sizes) > 1 and sum(sizes) > MAX_PARSED_BYTES):
            self._parsed.popitem(last=False)
            sizes.pop(0)
        return state
