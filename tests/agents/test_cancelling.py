"""An agent that is cancelled at any of its awaits: no task and no connection of it stays, and the next call works."""

from __future__ import annotations

import asyncio

import pytest

from inturn.agents import Agent, failover
from tests.agents.conftest import MakeAgent, asking, heard, said
from tests.agents.provider import SSE, Provider, Request, Wire
from tests.agents.wire import DONE, END, activity, delta
from tests.store.world import until

MOST_STEPS = 60
"""Of the event loop. A call takes some dozens; where the machine is busy, the last ones find it waiting."""


async def either(request: Request, wire: Wire) -> None:
    """Both providers at one address."""
    is_openai = "completions" in request.path
    await wire.head(content_type=SSE, x_ms_conversationid="c-1")
    for text in ("a", "b", "c"):
        await wire.chunk(delta(text) if is_openai else activity(type="typing", text=text))
    await wire.chunk(delta(finish="stop") + DONE if is_openai else activity(text="abc") + END)
    await wire.end()


def others() -> list[str]:
    return [str(task.get_coro()) for task in asyncio.all_tasks() if task is not asyncio.current_task()]


@pytest.mark.parametrize("kind", ["openai", "copilot_studio", "failover"])
async def test_nothing_stays_wherever_a_call_is_cancelled(
    provider: Provider, make_openai: MakeAgent, make_copilot: MakeAgent, kind: str
) -> None:
    provider.script = either
    agents = {"openai": make_openai(), "copilot_studio": make_copilot()}
    agent: Agent = agents[kind] if kind in agents else failover([*agents.values()], failures=1)
    for steps in range(MOST_STEPS):
        call = asyncio.create_task(heard(agent, asking()))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled() or said(call.result()) == ["abc"]
    assert said(await heard(agent, asking())) == ["abc"]
    for each in agents.values():
        await each.aclose()
    await until(lambda: not others())
