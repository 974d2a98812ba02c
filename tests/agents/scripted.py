"""An agent that does what a test tells it, and a clock that goes when it is told to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from inturn.agents import Activity, Ask
from inturn.agents.activity import signed
from inturn.errors import AgentError

Part = Activity | AgentError | Callable[[Ask], Awaitable[None] | None]


class Scripted:
    """Yields activities, raises errors and calls functions, in order. `parts` may be changed between calls."""

    def __init__(self, name: str, *parts: Part) -> None:
        self.name = name
        self.parts: Sequence[Part] = parts
        self.asked = 0
        self.closed = 0
        self.left = 0

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        self.asked += 1
        try:
            for part in self.parts:
                if isinstance(part, AgentError):
                    raise part
                if isinstance(part, Activity):
                    yield signed(part, self.name)
                else:
                    waiting = part(ask)
                    if waiting is not None:
                        await waiting
        finally:
            self.left += 1

    async def aclose(self) -> None:
        self.closed += 1


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
