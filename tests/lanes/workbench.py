"""What tests of lanes work with: a worker, a gate for handlers, messages and their ends, and what handlers saw."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from prometheus_client import REGISTRY

from inturn import Event, HandlerFailed, InTurn, StoreUnavailable, Turn, Watch
from inturn.lanes.receipt import Receipt
from inturn.lanes.turn import Message
from inturn.store import clock
from tests.waiting import until

T = TypeVar("T")
ENDS = ("commit", "fail", "lost", "back", "interrupt")
"""The events that end a turn."""
NOT_TODAY = (86_400.0, 86_400.0)
"""A backoff that no test waits for. The pause is drawn below these bounds: of a minute, it is a second now and then."""
OVER_S = 5.0
"""The timeout of a store that is waited for: longer than a busy machine lets a call wait."""
SLACK_S = 10.0
"""What a busy machine may add to a delay; far less than the minute between two looks (`nobody_looks`)."""


@contextlib.asynccontextmanager
async def working(app: InTurn, concurrency: int = 10, grace: float = 5) -> AsyncIterator[asyncio.Task[None]]:
    """A worker for as long as the block lasts. It must not end by itself, unless the block sees to that."""
    task = asyncio.create_task(app.run(concurrency, grace))
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until_open(app: InTurn) -> None:
    """For an app whose store has so little time that, on a busy machine, one try may not be enough."""

    async def is_open() -> bool:
        try:
            await app.open()
        except StoreUnavailable:
            return False
        return True

    await until(is_open)


async def put(app: InTurn, key: str, state: Any, **options: Any) -> None:
    """Give a lane its state, by an inline turn."""
    async with app.turn(key, state=type(state), **options) as turn:
        turn.state = state


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def apart(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task as another request would be: what is made inside a turn belongs to that turn."""
    return asyncio.get_running_loop().create_task(work, context=contextvars.Context())


class Gate:
    """A handler waits here until the test opens it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def pass_through(self) -> None:
        self.reached.set()
        await self.opened.wait()


def texts(messages: list[Message]) -> list[Any]:
    return [message.body for message in messages]


def bodies(turn: Turn[Any]) -> list[Any]:
    return texts(turn.messages)


async def submit(app: InTurn, text: str, handler: str = "h", **options: Any) -> Receipt:
    return await app.submit(handler, text, message_id=text, **options)


async def submitted(app: InTurn, *texts: str) -> list[Receipt]:
    return [await submit(app, text) for text in texts]


async def results(receipts: list[Receipt], within_s: float = 20.0) -> list[Any]:
    return list(await asyncio.gather(*(receipt.result(within_s) for receipt in receipts)))


async def fates(receipts: list[Receipt], within_s: float = 20.0) -> list[Any]:
    """What each came to: its result, or 'dead'."""
    ended = await asyncio.gather(*(receipt.result(within_s) for receipt in receipts), return_exceptions=True)
    return ["dead" if isinstance(fate, HandlerFailed) else fate for fate in ended]


class Seen:
    """What the turns of a handler were given, and in which attempt."""

    def __init__(self) -> None:
        self.turns: list[tuple[list[str], int]] = []

    def note(self, turn: Turn[Any]) -> list[str]:
        burst = bodies(turn)
        self.turns.append((burst, turn.attempt))
        return burst

    @property
    def bursts(self) -> list[list[str]]:
        return [burst for burst, _ in self.turns]


class Bodies:
    """What happens in the bodies of one handler. The first `held` of its turns last until they are cancelled."""

    def __init__(self, held: int = 1) -> None:
        self.held = held
        self.seen = Seen()
        self.begun: asyncio.Queue[Turn[Any]] = asyncio.Queue()
        self.cancelled = 0

    async def run(self, turn: Turn[Any]) -> list[Any]:
        burst = self.seen.note(turn)
        self.begun.put_nowait(turn)
        if len(self.seen.turns) <= self.held:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return burst


def never(turn: Turn[Any]) -> None:
    """For an app that only submits."""
    raise AssertionError("it runs elsewhere")


class Noted(Seen):
    """A handler that notes its messages, and when each began."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[str, float] = {}

    async def run(self, turn: Turn[Any]) -> str:
        self.note(turn)
        for message in turn.messages:
            self.at[message.id] = clock.now()
        return str(turn.body)


async def events_until(watch: Watch, *whats: str, within_s: float = 20.0) -> list[Event]:
    """All that comes, up to the first of these."""
    seen: list[Event] = []
    async with asyncio.timeout(within_s):
        async for event in watch:
            seen.append(event)
            if event.what in (whats or ENDS):
                return seen
    raise AssertionError(f"the watch ended after {seen}")


def told(events: list[Event]) -> list[Any]:
    return [event.data if event.what == "chunk" else event.what for event in events]


def add_talker(app: InTurn, chunks: int = 3, **options: Any) -> None:
    @app.handler("h", key="k", **options)
    async def h(turn: Turn[Any]) -> str:
        for number in range(1, chunks + 1):
            turn.stream({"text": f"{turn.body}{number}"})
        return "answer"
