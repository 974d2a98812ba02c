"""One call of an agent. An agent signs, times and counts its own calls with `watched`.

Its caller reads the answer leniently and within bounds with `activities_of`, and stores what the agent wants to
remember with `kept_memory`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import perf_counter
from typing import Any

from inturn import metrics
from inturn.agents import storable
from inturn.agents.activity import Activity, signed
from inturn.agents.protocol import Agent, Ask
from inturn.errors import AgentRejected, AgentTimeout

MAX_MEMORY = 16 * 1024
"""Bytes of JSON that an agent may remember of a conversation."""
MAX_TEXT = 4_000_000
"""Characters of one answer."""
_MAX_MESSAGES = 500
_MIN_TEXT = 40
"""Each activity counts as at least so many characters: one without a text takes time too."""


async def watched(
    name: str, activities: AsyncGenerator[Activity, None], timeout: float | None = None
) -> AsyncGenerator[Activity, None]:
    """Yields the activities as they come, signed, and counts the call once. `timeout` limits what the agent takes.

    The time that the reader takes between two activities does not count. The limit is never armed while the reader
    runs: it would cancel the reader's task in the reader's own code.
    """
    outcome, spent = "cancelled", 0.0
    try:
        async with aclosing(activities):
            while True:
                began = perf_counter()
                try:
                    async with asyncio.timeout(None if timeout is None else timeout - spent) as limit:
                        activity = await anext(activities)
                except StopAsyncIteration:
                    break
                except TimeoutError as error:
                    if not limit.expired():
                        raise
                    raise AgentTimeout(name, f"did not finish within {timeout:g} s") from error
                finally:
                    spent += perf_counter() - began
                yield signed(activity, name)
        outcome = "answered"
    except AgentTimeout:
        outcome = "timeout"
        raise
    except AgentRejected:
        outcome = "rejected"
        raise
    except Exception:
        outcome = "unavailable"
        raise
    finally:
        metrics.agent_calls.labels(name, outcome).inc()
        metrics.agent_seconds.observe(spent)


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
