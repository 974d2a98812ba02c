"""A table played on a real app: its handlers, its arrivals, and what came of them.

The runs are written down by the handlers themselves; how each ended is what the lane's watchers were told.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Protocol

from inturn.app import InTurn
from inturn.demo.tables import At, Cancel, Handles, How, Ran, Table
from inturn.errors import HandlerFailed, LaneBusy, LaneTimeout, MessageCancelled, Superseded
from inturn.lanes.turn import Turn
from inturn.lanes.receipt import Receipt
from inturn.lanes.watch import Event

TTL_S = 3600.0
"""Leases must not end because a player moves the clock by hand."""
PATIENCE_S = 30.0
LOSSES: dict[type[Exception], str] = {
    Superseded: "superseded", MessageCancelled: "cancelled", LaneTimeout: "LaneTimeout", HandlerFailed: "dead",
}  # fmt: skip


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
    """One run of a handler, while it is not over `until` is None."""

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
