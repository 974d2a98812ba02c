"""What a review with fresh eyes has found in agents, so that it stays found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from inturn.agents import Activity, Ask, failover
from inturn.errors import AgentUnavailable
from tests.agents.conftest import heard, said
from tests.agents.scripted import Clock, Scripted


class Buggy:
    name = "buggy"

    def __init__(self) -> None:
        self.asked = 0
        self.error = KeyError("hunter2")

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        self.asked += 1
        yield Activity.piece("half")
        raise self.error

    async def aclose(self) -> None: ...


class Plain:
    name = "plain"

    async def ask(self, ask: Ask) -> AsyncIterator[Any]:
        yield {"type": "message", "from": {"role": "bot"}, "text": "words"}
        yield None

    async def aclose(self) -> None: ...


async def test_a_bug_of_an_agent_is_failed_over_and_opens_its_breaker() -> None:
    buggy = Buggy()
    agent = failover([buggy, Scripted("b", Activity.said("b says"))], failures=2, clock=Clock())
    for _ in range(3):
        assert said(await heard(agent)) == ["b says"]
    assert buggy.asked == 2


async def test_the_last_bug_is_told_without_its_words() -> None:
    buggy = Buggy()
    with pytest.raises(AgentUnavailable) as raised:
        await heard(failover([buggy]))
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is buggy.error


async def test_an_agent_may_yield_plain_objects_also_under_failover() -> None:
    assert said(await heard(failover([Plain()]))) == ["words"]
