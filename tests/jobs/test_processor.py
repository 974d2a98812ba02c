"""One attempt at a job: whatever happens becomes a result, and how it goes on follows from the result alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from inturn import metrics
from inturn.agents import OfflineAgent
from inturn.agents.activity import Activity
from inturn.agents.completion import Completed, Prompt, ProviderCall
from inturn.agents.protocol import Ask
from inturn.capabilities import Capabilities, Capability, default_capabilities
from inturn.errors import AgentRejected, AgentTimeout, AgentUnavailable
from inturn.jobs.processor import MAX_RESULT, process_job, retry_with_backoff
from tests.jobs.payloads import failed, payload

NOW = datetime(2024, 1, 15, 12, tzinfo=UTC)


class Text(BaseModel):
    text: str = "x"


class Raising:
    name = "raising"

    def __init__(self, error: Exception | None = None, value: str = "done") -> None:
        self.error, self.value = error, value

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        yield Activity.said("")

    async def complete(self, prompt: Prompt[Any]) -> Completed[Any]:
        if self.error is not None:
            raise self.error
        return Completed(prompt.answer(text=self.value), self.name, (ProviderCall("raising", "m1", 10, 5, 7),))

    async def aclose(self) -> None: ...


def echoing() -> Capabilities:
    made = Capabilities()

    def prompt(given: Text, now: datetime) -> Prompt[Text]:
        return Prompt("echo", "Say it.", given.text, Text)

    async def handler(given: Text, ask: Any) -> Text:
        if given.text == "bug":
            raise KeyError("hunter2")
        answer: Text = await ask.complete(prompt(given, ask.now))
        return answer

    made.register(Capability("echo", Text, Text, prompt, handler, 10))
    return made


async def run(agent: Any, **fields: Any) -> Any:
    job = payload(**{"capability": "echo", "input": {"text": "hi"}, **fields})
    return await process_job(job, echoing(), agent, now=lambda: NOW, prices={"m1": (0.001, 0.01)})


async def test_a_success_has_its_result_and_what_it_cost() -> None:
    cost, tokens = metrics.capability_cost.labels("echo", "m1"), metrics.capability_tokens.labels("echo", "m1", "in")
    before = cost._value.get(), tokens._value.get()
    outcome = await run(Raising())
    assert (outcome.status, outcome.result, outcome.agent) == ("success", {"text": "done"}, "raising")
    assert [(call.model, call.total_tokens) for call in outcome.openai_metadata] == [("m1", 15)]
    assert cost._value.get() - before[0] == pytest.approx(0.06)
    assert tokens._value.get() - before[1] == 10


@pytest.mark.parametrize(
    ("error", "kind", "is_worth_retry"),
    [
        (AgentTimeout("a", "did not answer"), "agent_timeout", True),
        (AgentUnavailable("a", "is away", status=503, retry_after_s=7), "agent_unavailable", True),
        (AgentRejected("a", "refused", status=400), "agent_rejected", False),
        (ZeroDivisionError("hunter2"), "internal_error", True),
    ],
)
async def test_what_a_provider_does_wrong_is_told_by_its_kind(
    error: Exception, kind: str, is_worth_retry: bool
) -> None:
    outcome = await run(Raising(error))
    assert (outcome.status, outcome.error.type, outcome.is_worth_retry) == ("failure", kind, is_worth_retry)
    assert outcome.retry_after_s == getattr(error, "retry_after_s", None)
    assert "hunter2" not in outcome.error.message


async def test_vague_input_is_an_answer_and_not_a_failure_of_the_job() -> None:
    job = payload(input={"natural_language": "Do stuff"})
    outcome = await process_job(job, default_capabilities(), OfflineAgent(), now=lambda: NOW)
    assert outcome.status == "failure"
    assert (outcome.error.type, outcome.is_an_answer, outcome.is_worth_retry) == ("vague_input", True, False)
    assert outcome.error.suggestions


async def test_an_unknown_capability_and_an_input_that_does_not_fit_are_not_tried_again() -> None:
    unknown = await run(Raising(), capability="gone")
    assert (unknown.error.type, unknown.is_worth_retry) == ("unknown_capability", False)
    unfit = await run(Raising(), input={"text": ["no"]})
    assert (unfit.error.type, unfit.is_worth_retry) == ("invalid_input", False)


async def test_a_bug_is_tried_again_and_its_words_are_for_operators_alone() -> None:
    outcome = await run(Raising(), input={"text": "bug"})
    assert (outcome.error.type, outcome.is_worth_retry) == ("internal_error", True)
    assert "hunter2" not in outcome.error.message
    assert "KeyError" in outcome.detail
    assert "hunter2" in outcome.traceback


async def test_a_result_that_cannot_be_called_back_fails_at_once() -> None:
    outcome = await run(Raising(value="x" * (MAX_RESULT + 1)))
    assert (outcome.error.type, outcome.is_worth_retry) == ("result_too_large", False)
    assert outcome.openai_metadata  # it was paid for


@pytest.mark.parametrize(
    ("attempt", "at_least", "at_most"), [(1, 1, 2), (2, 2, 3), (3, 4, 5)]
)  # fmt: skip
def test_the_pause_doubles_with_up_to_a_second_more(attempt: int, at_least: float, at_most: float) -> None:
    assert retry_with_backoff(failed(), attempt, draw=lambda: 0.0) == at_least
    assert retry_with_backoff(failed(), attempt, draw=lambda: 1.0) == at_most


def test_there_are_three_retries_and_none_for_what_is_not_worth_it() -> None:
    assert retry_with_backoff(failed(), 4) is None
    assert retry_with_backoff(failed(is_worth_retry=False), 1) is None
    assert retry_with_backoff(failed(), 9, retries=1000, draw=lambda: 0.0) == 30
    assert retry_with_backoff(failed(), 12, retries=1000, longest_s=600, draw=lambda: 0.0) == 600


@pytest.mark.parametrize(("said", "waits"), [(0.2, 1), (7.1, 8), (60, 60), (1e9, 3600), (None, 1)])
def test_a_retry_after_counts_if_it_is_longer(said: float | None, waits: float) -> None:
    assert retry_with_backoff(failed(retry_after_s=said), 1, draw=lambda: 0.0) == waits
