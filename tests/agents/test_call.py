"""Every call is signed, bounded in time and counted once. A cancelled one leaves no task and no connection behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from prometheus_client import REGISTRY

from inturn.agents import Activity, Agent, failover
from inturn.agents.activity import signature_of
from inturn.agents.call import watched
from inturn.errors import AgentRejected, AgentTimeout, AgentUnavailable
from tests.agents.conftest import MakeAgent, asking, count, heard, said
from tests.agents.provider import SSE, Provider, Request, Wire
from tests.agents.wire import DONE, END, activity, delta
from tests.waiting import until


def seconds() -> float:
    return REGISTRY.get_sample_value("inturn_agent_seconds_sum") or 0.0


async def speaking(*parts: Activity | Exception | float) -> AsyncGenerator[Activity, None]:
    for part in parts:
        if isinstance(part, Exception):
            raise part
        if isinstance(part, float):
            await asyncio.sleep(part)
        else:
            yield part


async def test_messages_are_signed_and_pieces_are_not() -> None:
    activities = [each async for each in watched("w1", speaking(Activity.piece("a"), Activity.said("ab")))]
    assert [signature_of(activity) for activity in activities] == [None, "w1"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (AgentTimeout("w", "late"), "timeout"),
        (AgentUnavailable("w", "away"), "unavailable"),
        (AgentRejected("w", "no"), "rejected"),
        (RuntimeError("a bug"), "unavailable"),
    ],
)
async def test_a_failure_is_counted_by_its_kind(error: Exception, outcome: str) -> None:
    before = count("w2", outcome)
    with pytest.raises(type(error)):
        async for _ in watched("w2", speaking(Activity.piece("a"), error)):
            pass
    assert count("w2", outcome) == before + 1


async def test_an_answer_is_counted_when_it_is_whole() -> None:
    activities = watched("w3", speaking(Activity.said("a")))
    await anext(activities)
    assert count("w3", "answered") == 0
    assert [activity async for activity in activities] == []
    assert count("w3", "answered") == 1


async def test_whoever_leaves_early_has_cancelled() -> None:
    activities = watched("w4", speaking(Activity.said("a"), Activity.said("b")))
    await anext(activities)
    await activities.aclose()
    assert (count("w4", "cancelled"), count("w4", "answered")) == (1, 0)


async def test_a_cancelled_task_passes_through_and_is_counted() -> None:
    async def listen() -> None:
        async for _ in watched("w5", speaking(60.0), 60.0):
            pass

    task = asyncio.create_task(listen())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert count("w5", "cancelled") == 1


async def test_the_whole_may_not_take_longer_than_its_limit() -> None:
    parts = [part for _ in range(100) for part in (0.02, Activity.piece("."))]
    with pytest.raises(AgentTimeout, match=r"agent 'w6' did not finish within 0\.3 s"):
        async for _ in watched("w6", speaking(*parts), 0.3):
            pass
    assert count("w6", "timeout") == 1


async def test_the_readers_own_time_does_not_count() -> None:
    before = seconds()
    got = []
    async for each in watched("w7", speaking(Activity.piece("a"), Activity.piece("b")), 1.0):
        got.append(each.text)
        await asyncio.sleep(1.1)
    assert got == ["a", "b"]
    assert seconds() - before < 1.1


async def test_a_timeout_of_the_agents_own_making_is_not_ours() -> None:
    with pytest.raises(TimeoutError, match="theirs"):
        async for _ in watched("w8", speaking(TimeoutError("theirs")), 60.0):
            pass


MAX_STEPS = 60
"""Of the event loop. A call takes a few dozen; on a busy machine the last ones find it waiting."""


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
    for steps in range(MAX_STEPS):
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
