"""What you need to test your handlers: a store in memory, a clock that you move by hand, and `drain`.

`drain` runs in the current task what is ready, by the same turns that a worker takes, until nothing is ready.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import permutations
from typing import Any, Literal
from weakref import WeakSet

from inturn import arguments
from inturn.app import InTurn
from inturn.errors import ArgumentError, HandlerFailed, HandlerSignal, LeaseLost
from inturn.jobs.memory import MemoryTransport
from inturn.lanes import codec
from inturn.lanes.executor import take_turn
from inturn.lanes.lease import INTERRUPTED
from inturn.lanes.runtime import Runtime
from inturn.lanes.turn import Turn
from inturn.settings import Settings
from inturn.store.lane import Given, read_ident

MEMORY_URL = "sqlite:///:memory:"
"""A store that only the app which opens it can see. It is gone when the app closes."""

MAX_ADVANCE_S = 100 * 366 * 86400.0

_draining: WeakSet[Runtime] = WeakSet()


class ManualClock:
    """A store's time, which stands still until it is moved: `InTurn(MEMORY_URL, wall=clock.read_us)`."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        if start.tzinfo is None:
            raise ArgumentError("start", "must have a time zone, such as tzinfo=UTC", start)
        self._now_us = round(start.timestamp() * 1_000_000)

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self._now_us / 1_000_000, UTC)

    def read_us(self) -> int:
        """Microseconds since the epoch."""
        return self._now_us

    def advance(self, by: arguments.Seconds) -> None:
        """Seconds, or a `timedelta`; time does not run backwards."""
        self._now_us += round(arguments.seconds(by, "by", allow_zero=True, maximum=MAX_ADVANCE_S) * 1_000_000)


def app_for_tests(clock: ManualClock | None = None, *, like: InTurn | None = None, **options: Any) -> InTurn:
    """Returns an app on a store in memory, with the default settings, whatever the environment says.

    `like`: take the settings and the handlers of that app. A handler that uses that app itself, rather than its turn,
    goes on using it.
    """
    options.setdefault("settings", Settings() if like is None else like.settings)
    app = InTurn(MEMORY_URL, wall=None if clock is None else clock.read_us, **options)
    for handler in like.runtime.handlers.values() if like is not None else ():
        app.runtime.add(handler)
    return app


@dataclass(frozen=True, slots=True)
class Ran:
    """One turn that `drain` took.

    `committed`: it is real. All others wrote nothing. `retry`: it failed, and waits for its next attempt. `split`: each
    message of its burst waits for its own. `dead`: it is a dead letter. `park`: its lane stopped.
    `interrupted`: a newer message ended it. `lost`: its lease ended while it ran.
    """

    key: str
    handler: str
    id: str
    attempt: int
    outcome: Literal["committed", "retry", "split", "dead", "park", "interrupted", "lost"]
    result: Any = None
    error: Exception | None = None
    """What the handler raised; `HandlerFailed` if the turn failed outside of it, `LeaseLost` if it was lost."""
    retry_in: timedelta | None = None
    ids: tuple[str, ...] = ()
    """The ids of all messages that the turn began with; `id` is the first of them."""


async def drain(app: InTurn, *, limit: int = 1000, raise_errors: bool = False) -> list[Ran]:
    """Run every message that is ready now, and what those turns send, one after the other. Returns what happened.

    A message that waits for a later attempt stays: advance the clock, and drain again. `raise_errors`: raise the first
    error, after its turn has ended as it would for a worker (`Retry` and `Stop` do not count as errors). A handler must
    not wait for the result of another message here: nobody else runs it. Synchronous code drains with
    `app.runner.run(drain(app.inner))`.
    """
    runtime = app.runtime
    max_turns = arguments.whole(limit, "limit", 1, 1_000_000)
    if runtime in _draining:
        raise RuntimeError("this app is already being drained; await one drain after another, outside of handlers")
    _draining.add(runtime)
    try:
        await runtime.process.ready()
        return await _drain(runtime, max_turns, raise_errors)
    finally:
        _draining.discard(runtime)
        if runtime.process.is_ready and not runtime.workers:
            await runtime.process.store.unwork()


async def _drain(runtime: Runtime, limit: int, raise_errors: bool) -> list[Ran]:
    happened: list[Ran] = []
    while given := await _next(runtime):
        if len(happened) == limit:
            await _hand_back(runtime, given)
            raise RuntimeError(
                f"{limit} turns were taken, and more is ready: do handlers send to each other in a circle? "
                "If not, raise limit="
            )
        ran = await _take(runtime, given)
        happened.append(ran)
        if raise_errors and ran.error is not None and not isinstance(ran.error, HandlerSignal):
            raise ran.error
    return happened


async def _next(runtime: Runtime) -> Given | None:
    given = await _claim(runtime)
    if given is None and runtime.process.store.partitions > 1:
        await _bring_sends(runtime)
        given = await _claim(runtime)
    return given


async def _claim(runtime: Runtime) -> Given | None:
    for partition in range(runtime.process.store.partitions):
        if turns := (await runtime.claim(runtime.can, 1, partition)).turns:
            return turns[0]
    return None


async def _bring_sends(runtime: Runtime) -> None:
    """Sends to other partitions may still be on their way."""
    store = runtime.process.store
    for source, target in permutations(range(store.partitions), 2):
        while await store.forward(source, target):
            pass


async def _hand_back(runtime: Runtime, given: Given) -> None:
    store = runtime.process.store
    await store.unclaim(store.partition_of(given.key), given.token.rpartition(".")[0])


async def _take(runtime: Runtime, given: Given) -> Ran:
    name, message_id = read_ident(given.ident)
    store, attempt = runtime.process.store, given.attempts
    with _overheard(runtime, name) as heard:
        await take_turn(runtime, given, given.state, goes_on=lambda: False)
    ran = partial(Ran, given.key, name, message_id, attempt, ids=tuple(read_ident(m.ident)[1] for m in given.messages))
    if heard.turn is not None and heard.turn._lease.why_lost == INTERRUPTED:
        return ran("interrupted")
    became = await store.attend(given.key, given.ident)
    if became.status == "done":
        return ran("committed", codec.read_json(became.result))
    if became.status == "unknown" and heard.turn is not None and heard.error is None and not heard.turn.lost:
        return ran("committed", heard.result)  # its duplicate window is already over
    if became.status == "dead":
        return ran("dead", error=heard.error or _kept(given, attempt, became.errors))
    lane = await store.lane(given.key, 1000)
    message = next((m for m in lane.messages if (m.handler, m.id) == (name, message_id)), None)
    if lane.stopped == "parked":
        errors = message.errors if message is not None else ()
        return ran("park", error=heard.error or _kept(given, attempt, errors, lane.why))
    if message is None or not message.errors:
        return ran("lost", error=LeaseLost(given.key, given.fence, "it was taken away while the turn ran"))
    error = heard.error or _kept(given, attempt, message.errors)
    is_split = len(given.messages) > 1 and not any(m.lead == message_id for m in lane.messages)
    return ran("split" if is_split else "retry", error=error, retry_in=timedelta(milliseconds=message.due_in_ms))


def _kept(given: Given, attempt: int, errors: tuple[str, ...], why: str = "") -> HandlerFailed:
    """The error of a turn that failed outside of its handler: a state or body that does not fit, or a bad result."""
    kept = [json.loads(error) for error in errors] or [{"type": "StateMismatch", "message": why}]
    return HandlerFailed(given.key, read_ident(given.ident)[1], attempt, kept)


@dataclass(slots=True)
class _Heard:
    turn: Turn[Any] | None = None
    result: Any = None
    error: Exception | None = None


@contextmanager
def _overheard(runtime: Runtime, name: str) -> Iterator[_Heard]:
    """Catches what a handler returns or raises, before it becomes text."""
    heard, handler = _Heard(), runtime.handlers[name]

    async def run(turn: Turn[Any]) -> Any:
        heard.turn = turn
        try:
            heard.result = await handler.run(turn)
        except Exception as error:
            heard.error = error
            raise
        return heard.result

    def run_plain(turn: Turn[Any]) -> Any:
        heard.turn = turn
        try:
            heard.result = handler.run(turn)
        except Exception as error:
            heard.error = error
            raise
        return heard.result

    runtime.handlers[name] = replace(handler, run=run if handler.is_async else run_plain)
    try:
        yield heard
    finally:
        runtime.handlers[name] = handler


__all__ = ["MEMORY_URL", "ManualClock", "MemoryTransport", "Ran", "app_for_tests", "drain"]
