"""The two ways to execute a capability, apart from their routes: what is counted, and what an executor gives."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY
from pydantic import BaseModel

from inturn.agents.completion import Prompt
from inturn.capabilities.capability import AgentCalls, Capability
from inturn.jobs import JobService, SyncConfig, execute_async_pattern, execute_sync_pattern, get_pattern_executor
from inturn.jobs.patterns import Pattern
from tests.capabilities.agents import ScriptedAgent


class Word(BaseModel):
    word: str


def prompt(given: Word, now: datetime) -> Prompt[Word]:
    return Prompt("word", "Repeat it.", given.word, Word)


def pattern(handler: Any, *answers: dict[str, Any]) -> Pattern:
    service = SimpleNamespace(
        agent=ScriptedAgent(*answers), now=lambda: datetime(2024, 1, 15, 12, tzinfo=UTC), prices={}
    )
    capability: Capability[Word, Word] = Capability("word", Word, Word, prompt, handler, estimate=1)
    return Pattern(cast(JobService, service), capability)


def tokens_in() -> float:
    labels = {"capability": "word", "model": "tiny-1", "direction": "in"}
    return REGISTRY.get_sample_value("inturn_capability_tokens_total", labels) or 0.0


async def test_sync_gives_the_result_and_its_duration() -> None:
    async def handle(given: Word, calls: AgentCalls) -> Word:
        return await calls.complete(prompt(given, calls.now))

    timed = await execute_sync_pattern(pattern(handle, {"word": "a"}), SyncConfig(), Word(word="a"), "r1")
    assert timed.result.status == "success"
    assert (timed.result.result, timed.result.ai_service_request_id) == ({"word": "a"}, "r1")
    assert timed.duration_ms >= 0


async def test_tokens_count_although_the_handler_fails_after_they_were_paid() -> None:
    async def fails(given: Word, calls: AgentCalls) -> Word:
        await calls.complete(prompt(given, calls.now))
        raise KeyError("a fault of ours")

    before = tokens_in()
    with pytest.raises(KeyError):
        await execute_sync_pattern(pattern(fails, {"word": "a"}), SyncConfig(), Word(word="a"), "r1")
    assert tokens_in() == before + 100


def test_an_executor_is_chosen_by_its_pattern() -> None:
    assert get_pattern_executor("sync") is execute_sync_pattern
    assert get_pattern_executor("async") is execute_async_pattern
