"""One prompt in, one valid object out, whichever agent is asked; and nothing that was billed is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, RootModel

from inturn.agents import Activity, Agent, Ask, Completed, OfflineAgent, Prompt, Said, complete
from inturn.errors import AgentError, AgentRejected, AgentUnavailable, ArgumentError
from tests.agents.conftest import MakeAgent, count
from tests.agents.provider import Provider
from tests.agents.task import BAD_CHECK, BAD_SCORE, GOOD, MILK, Task, bill, prompt
from tests.agents.wire import END, activity, says
from tests.waiting import until


class Talks:
    """An agent that can only `ask`: each call gets the next answer."""

    name = "talks"

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asks: list[Ask] = []

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        self.asks.append(ask)
        given = self.answers.pop(0)
        if isinstance(given, Exception):
            raise given
        yield Activity.piece('{"title": "half')
        yield Activity.said(given)

    async def aclose(self) -> None: ...


async def failing(agent: Agent, asked: Prompt[Any]) -> AgentError:
    with pytest.raises(AgentError) as caught:
        await complete(agent, asked)
    return caught.value


@pytest.mark.parametrize("answer", [GOOD, f"```json\n{GOOD}\n```", f"Here you are: {GOOD} Bye!"])
async def test_an_agent_that_can_only_ask_is_told_in_words(answer: str) -> None:
    agent = Talks(answer)
    done = await complete(agent, prompt())
    assert (done.value, done.agent, bill(done.calls)) == (MILK, "talks", [("talks", "talks", 0, 0)])
    (ask,) = agent.asks
    assert (ask.situation, ask.history, ask.text) == (None, (), "<task>milk</task>")
    told = ["Read the task.", '"maxLength": 20', "<task>milk</task>"]
    assert sorted(told, key=ask.query.index) == told


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (BAD_SCORE, "score: Input should be less than or equal to 10"),
        (BAD_CHECK, "an urgent task has a score of 5 or more"),
        ("I do not know", "it holds no JSON object that can be read"),
        ('{"title": "milk"', "it holds no JSON object that can be read"),
        ("{}", "title: Field required; score: Field required"),
    ],
)
async def test_an_invalid_answer_is_asked_for_once_more_with_what_is_wrong(first: str, why: str) -> None:
    agent = Talks(first, GOOD)
    done = await complete(agent, prompt())
    assert (done.value, len(done.calls)) == (MILK, 2)
    before, again = agent.asks
    assert again.query.startswith(f"That answer is not valid: {why}\n")
    assert again.history == (Said("user", before.query), Said("assistant", first))
    assert again.conversation_id == before.conversation_id
    assert again.memory is before.memory


@pytest.mark.parametrize("number", ["1e999", '"NaN"', '"Infinity"', "9" * 400])
async def test_a_number_that_json_cannot_say_is_not_valid(number: str) -> None:
    class Share(BaseModel):
        share: float

    asked = Prompt("share", "Divide.", "1/2", Share)
    done = await complete(Talks(f'{{"share": {number}}}', '{"share": 0.5}'), asked)
    assert (done.value.share, len(done.calls)) == (0.5, 2)


async def test_a_second_invalid_answer_is_a_failure_that_is_worth_a_retry() -> None:
    agent = Talks(BAD_SCORE, BAD_CHECK, GOOD)
    error = await failing(agent, prompt())
    assert type(error) is AgentUnavailable
    assert error.said == "an urgent task has a score of 5 or more"
    assert (len(error.calls), len(agent.answers), error.is_worth_retry) == (2, 1, True)


async def test_a_failure_of_the_second_call_carries_the_first() -> None:
    refused = AgentRejected("talks", "refuses")
    assert await failing(Talks(BAD_SCORE, refused), prompt()) is refused
    assert bill(refused.calls) == [("talks", "talks", 0, 0)]


async def test_two_prompts_are_two_conversations() -> None:
    agent = Talks(GOOD, GOOD)
    for _ in range(2):
        await complete(agent, prompt())
    assert len({ask.conversation_id for ask in agent.asks}) == 2


async def test_what_is_told_is_short_however_wrong_the_answer_is() -> None:
    class Many(BaseModel):
        numbers: list[int]

    first = '{"numbers": [' + ",".join(['"secret words"'] * 5000) + "]}"
    agent = Talks(first, '{"numbers": []}')
    await complete(agent, Prompt("many", "", "", Many))
    again = agent.asks[1]
    assert "numbers.0: Input should be a valid integer" in again.query
    assert "and 4995 more" in again.query
    assert "secret" not in again.query
    assert len(again.query) < 700
    assert len(again.history[1].text) == 8000


async def test_a_strict_model_reads_dates_from_json() -> None:
    class Day(BaseModel):
        model_config = ConfigDict(strict=True)

        day: date

    done = await complete(Talks('{"day": "2024-01-16"}'), Prompt("day", "", "", Day))
    assert done.value.day == date(2024, 1, 16)


async def test_an_agent_with_the_door_is_used_by_it() -> None:
    class Own(Talks):
        async def complete(self, asked: Prompt[Any]) -> Completed[Any]:
            return Completed(asked.answer(title="own", score=1), self.name, ())

    agent = Own()
    assert (await complete(agent, prompt())).value == Task(title="own", score=1)
    assert agent.asks == []


async def test_copilot_studio_goes_on_in_the_conversation_that_it_began(
    provider: Provider, make_copilot: MakeAgent
) -> None:
    answers = iter([says(END, x_ms_conversationid="c-9"), says(activity(text=BAD_SCORE), END)])
    last = says(activity(text=f"```json\n{GOOD}\n```"), END)

    async def script(request: Any, wire: Any) -> None:
        await next(answers, last)(request, wire)

    provider.script = script
    done = await complete(make_copilot(), prompt())
    assert (done.value, bill(done.calls)) == (MILK, [("copilot_studio", "copilot_studio", 0, 0)] * 2)
    _, first, again = provider.requests
    assert "<task>milk</task>" in first.body["activity"]["text"]
    assert "less than or equal to 10" in again.body["activity"]["text"]
    assert "c-9" in again.path


async def test_the_offline_agent_answers_by_the_rules_of_the_prompt() -> None:
    before = count("offline", "answered")
    done = await complete(OfflineAgent(), prompt(rules=lambda: MILK))
    assert (done.value, done.agent, bill(done.calls)) == (MILK, "offline", [("offline", "offline", 0, 0)])
    assert count("offline", "answered") == before + 1


async def test_the_offline_agent_says_that_it_has_no_rules() -> None:
    before = count("offline", "rejected")
    error = await failing(OfflineAgent(), prompt())
    assert type(error) is AgentRejected
    assert "no rules for the capability 'parse-task'" in error.why
    assert (error.calls, count("offline", "rejected")) == ((), before + 1)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: Task(title="urgent", score=3), "an urgent task has a score of 5 or more"),
        (lambda: Task(title="milk", score=11), "score: Input should be less than or equal to 10"),
    ],
)
async def test_rules_whose_answer_is_not_valid_are_not_tried_again(made: Any, why: str) -> None:
    error = await failing(OfflineAgent(), prompt(rules=made))
    assert type(error) is AgentRejected
    assert error.said == why


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "ä"])
def test_a_name_that_no_endpoint_takes_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="name"):
        Prompt(name, "", "", Task)


def test_an_answer_has_fields() -> None:
    with pytest.raises(ArgumentError, match="answer"):
        Prompt("list", "", "", RootModel[list[int]])


async def test_a_cancelled_completion_leaves_the_agent() -> None:
    class Slow(Talks):
        left = False

        async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
            self.asks.append(ask)
            try:
                await asyncio.Event().wait()
                yield Activity.said(GOOD)
            finally:
                self.left = True

    agent = Slow()
    task = asyncio.create_task(complete(agent, prompt()))
    await until(lambda: len(agent.asks) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert agent.left
