"""One call of an agent. An agent signs, times and counts its own calls with `watched`, or with `Watch` itself.

Its caller reads the answer leniently and within bounds with `activities_of`, and stores what the agent wants to
remember with `kept_memory`. `words_of` does both for a caller that wants the words alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from time import perf_counter
from typing import Any, Protocol, TypeVar

from inturn import metrics
from inturn.agents import storable
from inturn.agents.activity import Activity, signed
from inturn.agents.protocol import Agent, Ask
from inturn.errors import AgentRejected, AgentTimeout

log = logging.getLogger("inturn.agents")

T = TypeVar("T")

MAX_MEMORY = 16 * 1024
"""Bytes of JSON that an agent may remember of a conversation."""
MAX_TEXT = 4_000_000
"""Characters of one answer."""
_MAX_MESSAGES = 500
_MIN_TEXT = 40
"""Each activity counts as at least so many characters: one without a text takes time too."""


class Watch:
    """One call of an agent: counted once, by how its block ends. `timeout` limits what the agent takes in it."""

    def __init__(self, name: str, timeout: float | None = None) -> None:
        self._name = name
        self._timeout = timeout
        self.spent_s = 0.0

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        metrics.agent_calls.labels(self._name, _outcome(error)).inc()
        metrics.agent_seconds.observe(self.spent_s)

    async def limited(self, part: Awaitable[T]) -> T:
        """Waits for a part of the call. All parts together may take as long as the limit says."""
        began = perf_counter()
        try:
            async with asyncio.timeout(None if self._timeout is None else self._timeout - self.spent_s) as limit:
                return await part
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise AgentTimeout(self._name, f"did not finish within {self._timeout:g} s") from error
        finally:
            self.spent_s += perf_counter() - began


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "answered"
    if isinstance(error, AgentTimeout):
        return "timeout"
    if isinstance(error, AgentRejected):
        return "rejected"
    return "unavailable" if isinstance(error, Exception) else "cancelled"


async def watched(
    name: str, activities: AsyncGenerator[Activity, None], timeout: float | None = None
) -> AsyncGenerator[Activity, None]:
    """Yields the activities as they come, signed, and counts the call once. `timeout` limits what the agent takes.

    The time that the reader takes between two activities does not count. The limit is never armed while the reader
    runs: it would cancel the reader's task in the reader's own code.
    """
    with Watch(name, timeout) as watch:
        async with aclosing(activities):
            while True:
                try:
                    activity = await watch.limited(anext(activities))
                except StopAsyncIteration:
                    break
                yield signed(activity, name)


async def activities_of(agent: Agent, ask: Ask) -> AsyncGenerator[Activity, None]:
    """Yields what the agent answers, read leniently. Raises `AgentRejected` if the answer has no end.

    Closing it early closes the agent's own iterator, and with it the agent's connection.
    """
    given = agent.ask(ask)
    messages = length = 0
    try:
        async for found in given:
            activity = Activity.read(found)
            if activity is None:
                continue
            messages += activity.type == "message"
            length += max(_MIN_TEXT, len(activity.text))
            if messages > _MAX_MESSAGES or length > MAX_TEXT:
                raise AgentRejected(agent.name, "answers without end")
            yield activity
    finally:
        close = getattr(given, "aclose", None)
        if close is not None:
            await close()


def kept_memory(agent: Agent, ask: Ask) -> dict[str, Any]:
    """Returns what the agent put into `ask.memory`, in a form that can be stored."""
    try:
        kept: dict[str, Any] = storable.value(ask.memory, MAX_MEMORY)
    except storable.NotStorable as error:
        raise AgentRejected(agent.name, f"wants to remember something that cannot be stored: it is {error}") from error
    return kept


class Hearer(Protocol):
    """Who hears the words of an answer while they come."""

    def piece(self, text: str) -> None: ...

    def restart(self) -> None:
        """The pieces so far are not part of the answer."""
        ...


async def words_of(agent: Agent, ask: Ask, limit: int, hearer: Hearer | None = None) -> str:
    """Returns the agent's words, cut to `limit` characters ('' if there are none). Reduces `ask.memory` to what can be
    stored.
    """
    said: list[str] = []
    async with aclosing(activities_of(agent, ask)) as activities:
        async for activity in activities:
            if activity.is_restart:
                said.clear()
                if hearer is not None:
                    hearer.restart()
            elif activity.type == "typing" and activity.text and hearer is not None:
                hearer.piece(activity.text)
            elif activity.type == "message" and activity.text.strip() and activity.sender.get("role") != "user":
                said.append(activity.text.strip())
    kept = kept_memory(agent, ask)
    ask.memory.clear()
    ask.memory.update(kept)
    answer = storable.text("\n\n".join(said), 2 * MAX_TEXT)
    if len(answer) > limit:
        log.warning("the answer of agent %s has %d characters and was cut", agent.name, len(answer))
    return answer[:limit]
