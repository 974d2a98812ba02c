"""A table played on a real app: its handlers, its arrivals, and what came of them.

The handlers themselves record their runs; how each run ended is what the lane's watchers were told. `play_live` plays
several tables in real time, side by side, each in a lane of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Protocol, TypeVar

from inturn.app import InTurn
from inturn.demo.tables import At, Cancel, Handles, How, Ran, Table
from inturn.errors import HandlerFailed, InTurnError, LaneBusy, LaneTimeout, MessageCancelled, Superseded
from inturn.lanes.receipt import Receipt
from inturn.lanes.turn import Turn
from inturn.lanes.watch import Event
from inturn.store import clock

TTL_S = 3600.0
"""A lease must not end because a player moves the clock by hand."""
PATIENCE_S = 30.0
HEAD_START_S = 0.05
"""In real time all tables begin at one moment, which is so far from now that the worker has started."""
LOSSES: dict[type[Exception], str] = {
    Superseded: "superseded", MessageCancelled: "cancelled", LaneTimeout: "LaneTimeout", HandlerFailed: "dead",
}  # fmt: skip
T = TypeVar("T")


class Time(Protocol):
    """How a player makes time pass. `unit_s`: seconds of the store's clock."""

    unit_s: float

    def now(self) -> float:
        """Units since the beginning."""
        ...

    async def work(self, units: float) -> None:
        """What a handler does for so long."""
        ...


class Poison(Exception):
    """A message that its handler cannot answer."""


@dataclass(slots=True)
class Run:
    """One run of a handler. `until` is `None` while it runs."""

    turn: Turn[Any]
    since: float
    until: float | None = None
    messages: str = ""
    """As it is when the run ends: a handler that steers gets more."""


class Play:
    """`async with Play(...)`: it listens to its lane for as long as the block lasts.

    `run` goes before the names of its lane and its handlers, so that several plays of a table do not meet.
    """

    def __init__(self, app: InTurn, table: Table, time: Time, run: str = "") -> None:
        self.table = table
        self.key = f"{run}{table.name}"
        self.runs: list[Run] = []
        self.receipts: dict[str, Receipt] = {}
        self.ends: dict[str, str] = {}
        self.said: list[tuple[At | Cancel, str]] = []
        """What an arrival was answered with at once."""
        self.arrived: list[tuple[At | Cancel, float]] = []
        self.state: list[str] = []
        """What the lane remembers in the end: the words of the turns that were committed."""
        self._app = app
        self._time = time
        self._endings: dict[int, How] = {}
        self._heard = asyncio.Event()
        self._watch = app.watch(self.key)
        self._listening: asyncio.Task[None] | None = None
        for handles in table.handlers:
            self._register(handles)

    def _register(self, handles: Handles) -> None:
        def scaled(units: float | None) -> float | None:
            return None if units is None else units * self._time.unit_s

        self._app.handler(
            self._full(handles.name), message_id="{name}", busy=handles.busy, wait=scaled(handles.wait), ttl=TTL_S,
            quiet=scaled(handles.quiet), max_quiet=scaled(handles.max_quiet), max_burst=handles.max_burst,
            cut=handles.cut, priority=handles.priority, interruptible=handles.interruptible,
            unless_newer=handles.unless_newer, attempts=handles.attempts, backoff=(0, 0), state=list,
        )(partial(self._handle, handles))  # fmt: skip

    def _full(self, handler: str) -> str:
        """Several tables may be played on one app."""
        return f"{self.key}.{handler}"

    async def _handle(self, handles: Handles, turn: Turn[Any]) -> str:
        run = Run(turn, self._time.now(), messages=_word(turn))
        self.runs.append(run)
        turn.state.append(run.messages)  # at the beginning: a turn that is cut short must leave nothing of it
        try:
            await self._time.work(handles.takes)
            while handles.steers and await turn.new_messages():
                run.messages = turn.state[-1] = _word(turn)
                await self._time.work(handles.takes)
        finally:
            run.until = self._time.now()
        if set(handles.fails) & set(run.messages):
            raise Poison(f"{handles.fails} cannot be answered")
        return run.messages

    async def arrive(self, arrival: At | Cancel) -> None:
        self.arrived.append((arrival, self._time.now()))
        if isinstance(arrival, Cancel):
            is_cancelled = await self.receipts[arrival.name].cancel()
            self.said.append((arrival, "cancelled" if is_cancelled else "too late"))
            return
        try:
            receipt = await self._app.submit(
                self._full(arrival.to), {"name": arrival.name, "text": arrival.text}, key=self.key,
                priority=arrival.priority, delay=arrival.delay * self._time.unit_s if arrival.delay else None,
            )  # fmt: skip
        except LaneBusy:
            self.ends[arrival.name] = "LaneBusy"
            self.said.append((arrival, "LaneBusy"))
            return
        self.said.append((arrival, receipt.status))
        if receipt.status == "dropped":
            self.ends[arrival.name] = "dropped"
        else:
            self.receipts.setdefault(arrival.name, receipt)

    async def end(self) -> None:
        """Every message has come to its end, and every run is known to have."""
        await asyncio.gather(*(self._end_of(name, receipt) for name, receipt in self.receipts.items()))
        async with asyncio.timeout(PATIENCE_S):
            while not all(run.turn.fence in self._endings for run in self.runs):
                self._heard.clear()
                await self._heard.wait()
        self.state = (await self._app.lanes.inspect(self.key)).state

    async def _end_of(self, name: str, receipt: Receipt) -> None:
        try:
            self.ends[name] = await receipt.result(timeout=PATIENCE_S)
        except tuple(LOSSES) as loss:
            self.ends[name] = LOSSES[type(loss)]

    def turns(self) -> list[Ran]:
        """What ran, in order; a run that is not over reaches until now."""
        last = {run.turn.fence: run for run in self.runs}
        told: list[Ran] = []
        for run in self.runs:
            how: How = "newer" if run is not last[run.turn.fence] else self._endings.get(run.turn.fence, "runs")
            until = self._time.now() if run.until is None else run.until
            told.append(Ran(run.since, until, run.messages, how))
        return told

    async def clean_up(self) -> None:
        """What a play leaves in its store, but for marks and notes, which expire."""
        await self._app.lanes.clear(self.key)
        for receipt in self.receipts.values():
            await self._app.dead_letters.drop(self.key, receipt.handler, receipt.id)

    async def __aenter__(self) -> Play:
        await self._watch.open()
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._watch.aclose()
        if self._listening is not None:
            await self._listening

    async def _listen(self) -> None:
        async for event in self._watch:
            ending = _ending(event)
            if ending is not None:
                self._endings[event.fence] = ending
                self._heard.set()


def _ending(event: Event) -> How | None:
    if event.what == "commit":
        return "committed"
    if event.what == "interrupt":
        return "interrupted"
    if event.what == "fail":
        return "dead" if event.why.startswith("dead") else "failed"
    return None


def _word(turn: Turn[Any]) -> str:
    return "".join(message.body["name"] for message in turn.messages)


class Stopped(InTurnError):
    """The worker was told to stop (Ctrl-C) in the middle of a play."""


class RealTime:
    def __init__(self, unit_s: float) -> None:
        self.unit_s = unit_s
        self.starts_at = clock.now() + HEAD_START_S

    def now(self) -> float:
        return (clock.now() - self.starts_at) / self.unit_s

    async def work(self, units: float) -> None:
        await asyncio.sleep(units * self.unit_s)

    async def reach(self, at: float) -> None:
        await asyncio.sleep(max(0.0, (at - self.now()) * self.unit_s))


async def play_live(
    app: InTurn,
    tables: Sequence[Table],
    unit_s: float,
    *,
    run: str = "",
    on_start: Callable[[list[Play]], None] = lambda plays: None,
) -> list[Play]:
    time = RealTime(unit_s)
    async with contextlib.AsyncExitStack() as stack:
        plays = [await stack.enter_async_context(Play(app, table, time, run)) for table in tables]
        worker = await stack.enter_async_context(_task(app.run(len(tables), grace=0)))
        time.starts_at = clock.now() + HEAD_START_S
        on_start(plays)
        playing = await stack.enter_async_context(_task(_play_all(plays, time)))
        await asyncio.wait({worker, playing}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            await worker  # if it failed, it says why
            raise Stopped("stopped")
        await playing
        return plays


async def _play_all(plays: Sequence[Play], time: RealTime) -> None:
    await asyncio.gather(*(_play(play, time) for play in plays))


async def _play(play: Play, time: RealTime) -> None:
    for arrival in play.table.arrivals:
        await time.reach(arrival.at)
        await play.arrive(arrival)
    await play.end()


@contextlib.asynccontextmanager
async def _task(work: Coroutine[None, None, T]) -> AsyncIterator[asyncio.Task[T]]:
    """A task that ends with the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
