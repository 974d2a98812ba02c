"""One object from an OpenAI-compatible endpoint: by a strict schema, re-asked once, and billed to the last token."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from inturn.agents import OpenAIAgent, Prompt, complete
from inturn.errors import AgentError, AgentRejected, AgentTimeout, AgentUnavailable
from tests.agents.conftest import KEY, MakeAgent, count
from tests.agents.provider import Provider, Request, Script, Wire, hangs_up
from tests.agents.task import BAD_CHECK, BAD_SCORE, GOOD, MILK, bill, prompt
from tests.agents.wire import answers, in_turn, whole
from tests.waiting import until

SHORT_S = 0.5
"""A time limit that a test waits for."""
BILLED = ("openai", "m-2026", 7, 5)


def gives(*contents: object, **more: Any) -> Script:
    """Each request gets the next completion."""
    return in_turn([answers(200, whole(content, **more)) for content in contents])


async def failing(agent: OpenAIAgent) -> AgentError:
    with pytest.raises(AgentError) as caught:
        await complete(agent, prompt())
    return caught.value


async def test_one_prompt_is_one_request_and_one_valid_object(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = gives(GOOD)
    before = count("openai", "answered")
    done = await complete(make_openai(), prompt(max_output_tokens=300))
    assert (done.value, done.agent, bill(done.calls)) == (MILK, "openai", [BILLED])
    assert count("openai", "answered") == before + 1
    assert provider.last.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Read the task."},
            {"role": "user", "content": "<task>milk</task>"},
        ],
        "max_completion_tokens": 300,
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "parse-task",
                "strict": True,
                "schema": {
                    "type": "object",
                    "properties": {"title": {"type": "string"}, "score": {"type": "integer"}},
                    "required": ["title", "score"],
                    "additionalProperties": False,
                },
            },
        },
    }


async def test_the_limit_of_the_agent_holds_where_the_prompt_has_none(
    provider: Provider, make_openai: MakeAgent
) -> None:
    provider.script = gives(GOOD, GOOD)
    agent = make_openai(max_output_tokens=50)
    for asked in (prompt(), prompt(max_output_tokens=20)):
        await complete(agent, asked)
    assert [request.body["max_completion_tokens"] for request in provider.requests] == [50, 20]


@pytest.mark.parametrize(
    "content",
    [
        f"```json\n{GOOD}\n```",
        f"<think>\n{BAD_SCORE}</think>\n\n{GOOD}",
        [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": GOOD}],
    ],
)
async def test_an_object_in_a_fence_or_after_thoughts_is_read(
    provider: Provider, make_openai: MakeAgent, content: object
) -> None:
    provider.script = gives(content)
    assert (await complete(make_openai(), prompt())).value == MILK


@pytest.mark.parametrize(
    ("first", "why"),
    [(BAD_SCORE, "score: Input should be"), (BAD_CHECK, "an urgent task"), ("no idea", "no JSON object")],
)
async def test_an_invalid_answer_is_asked_for_once_more_and_both_calls_are_billed(
    provider: Provider, make_openai: MakeAgent, first: str, why: str
) -> None:
    provider.script = gives(first, GOOD)
    done = await complete(make_openai(), prompt())
    assert (done.value, bill(done.calls)) == (MILK, [BILLED, BILLED])
    system, user, wrong, again = provider.last.body["messages"]
    assert [system["role"], user["role"]] == ["system", "user"]
    assert wrong == {"role": "assistant", "content": first}
    assert (again["role"], why in again["content"]) == ("user", True)
    assert "response_format" in provider.last.body


async def test_a_second_invalid_answer_is_a_failure_with_both_calls(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = gives(BAD_SCORE, BAD_CHECK, GOOD)
    before = count("openai", "unavailable")
    error = await failing(make_openai())
    assert (type(error), error.is_worth_retry) == (AgentUnavailable, True)
    assert error.why == "gave an answer that is not valid, twice"
    assert (bill(error.calls), len(provider.requests)) == ([BILLED, BILLED], 2)
    assert count("openai", "unavailable") == before + 1


@pytest.mark.parametrize("status", [400, 422])
async def test_an_endpoint_that_knows_no_schema_is_told_it_in_words_from_then_on(
    provider: Provider, make_openai: MakeAgent, status: int
) -> None:
    async def script(request: Request, wire: Wire) -> None:
        if "response_format" in request.body:
            await answers(status, {"error": {"message": "no json_schema here"}})(request, wire)
        else:
            await answers(200, whole(GOOD))(request, wire)

    provider.script = script
    agent = make_openai()
    for _ in range(2):
        done = await complete(agent, prompt())
        assert (done.value, bill(done.calls)) == (MILK, [BILLED])
    assert ["response_format" in request.body for request in provider.requests] == [True, False, False]
    assert '"maxLength": 20' in provider.last.body["messages"][0]["content"]
    assert "Read the task." in provider.last.body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, (0, 0)),
        ("many", (0, 0)),
        ([1], (0, 0)),
        ({}, (0, 0)),
        ({"prompt_tokens": None, "completion_tokens": "5"}, (0, 0)),
        ({"prompt_tokens": -3, "completion_tokens": 2.5}, (0, 0)),
        ({"prompt_tokens": True, "completion_tokens": 4}, (0, 4)),
    ],
)
async def test_odd_usage_counts_as_nothing(
    provider: Provider, make_openai: MakeAgent, usage: object, tokens: tuple[int, int]
) -> None:
    provider.script = gives(GOOD, usage=usage)
    (call,) = (await complete(make_openai(), prompt())).calls
    assert (call.tokens_in, call.tokens_out) == tokens


@pytest.mark.parametrize("model", [None, "", 5])
async def test_a_response_without_a_model_used_ours(provider: Provider, make_openai: MakeAgent, model: object) -> None:
    provider.script = gives(GOOD, model=model)
    assert (await complete(make_openai(), prompt())).calls[0].model == "m"


def refusing(finish: str = "stop", refusal: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": None, "refusal": refusal}}
    return whole("", choices=[choice | {"finish_reason": finish}])


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (refusing(refusal=f"I cannot, {KEY}"), AgentRejected, "I cannot, ***"),
        (refusing("content_filter"), AgentRejected, "content_filter"),
        (whole(GOOD, finish="length"), AgentUnavailable, "its token limit is reached"),
        (whole(None), AgentUnavailable, "stop"),
        (whole("<think>hm"), AgentUnavailable, "stop"),
        (whole("", choices=[]), AgentUnavailable, ""),
        (whole("", choices=None), AgentUnavailable, ""),
        (whole("", choices=5), AgentUnavailable, None),
        (whole("", choices=[{"index": 0}]), AgentUnavailable, ""),
        (whole("", error={"message": "too many", "code": 429}), AgentUnavailable, "too many"),
        (whole("", error={"message": "too long", "code": 400}), AgentRejected, "too long"),
        (whole("", object="error", message="gone"), AgentUnavailable, "gone"),
    ],
)
async def test_what_is_no_answer_is_typed_and_billed(
    provider: Provider, make_openai: MakeAgent, body: object, kind: type[AgentError], words: str | None
) -> None:
    provider.script = answers(200, body)
    error = await failing(make_openai())
    assert type(error) is kind
    assert words is None or error.said == words
    assert (bill(error.calls), len(provider.requests)) == ([BILLED], 1)


async def test_what_is_no_completion_is_named(provider: Provider, make_openai: MakeAgent) -> None:
    async def page(request: Request, wire: Wire) -> None:
        await wire.head(content_type="text/html")
        await wire.chunk(b"<html>please sign in</html>")
        await wire.end()

    provider.script = page
    error = await failing(make_openai())
    assert type(error) is AgentUnavailable
    assert (error.why, error.said) == ("did not answer with a chat completion", "<html>please sign in</html>")


@pytest.mark.parametrize("script", [hangs_up, answers(200, b"{wrong json"), answers(200, b"\xff\xfe")])
async def test_what_cannot_be_read_is_unavailable(provider: Provider, make_openai: MakeAgent, script: Script) -> None:
    provider.script = script
    assert type(await failing(make_openai())) is AgentUnavailable


async def test_a_status_carries_itself_and_the_time_to_wait(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = answers(429, {"error": {"message": f"slow down, {KEY}"}}, retry_after="7")
    before = count("openai", "unavailable")
    error = await failing(make_openai())
    assert type(error) is AgentUnavailable
    assert (error.status, error.retry_after_s, error.said, error.calls) == (429, 7.0, "slow down, ***", ())
    assert (len(provider.requests), count("openai", "unavailable")) == (1, before + 1)


async def test_a_failure_of_the_second_call_carries_the_first(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = in_turn([answers(200, whole(BAD_SCORE)), answers(401, {"error": {"message": "no"}})])
    error = await failing(make_openai())
    assert (type(error), error.status, bill(error.calls)) == (AgentRejected, 401, [BILLED])


async def test_the_time_limit_is_for_both_calls_together(provider: Provider, make_openai: MakeAgent) -> None:
    """Each of the two would be in time by itself. The first has seconds to spare: only the second can be too late."""

    def after(seconds: float, content: str) -> Script:
        async def script(request: Request, wire: Wire) -> None:
            await asyncio.sleep(seconds)
            await wire.whole(200, whole(content))

        return script

    provider.script = in_turn([after(0.7, BAD_SCORE), after(5.6, GOOD)])
    before = count("openai", "timeout")
    error = await failing(make_openai(timeout=6.0))
    assert (type(error), bill(error.calls)) == (AgentTimeout, [BILLED])
    assert count("openai", "timeout") == before + 1
    await until(lambda: provider.open == 0)


async def test_a_response_that_drips_is_a_timeout(provider: Provider, make_openai: MakeAgent) -> None:
    async def drip(request: Request, wire: Wire) -> None:
        await wire.head(content_type="application/json")
        while True:
            await wire.chunk(b" ")
            await asyncio.sleep(0.01)

    provider.script = drip
    error = await failing(make_openai(timeout=SHORT_S))
    assert (type(error), error.calls) == (AgentTimeout, ())
    await until(lambda: provider.open == 0)


async def test_a_cancelled_completion_closes_its_connection(provider: Provider, make_openai: MakeAgent) -> None:
    async def silent(request: Request, wire: Wire) -> None:
        await provider.waits(wire)

    provider.script = silent
    before = count("openai", "cancelled")
    task = asyncio.create_task(complete(make_openai(), prompt()))
    await until(lambda: len(provider.requests) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: provider.left == 1)
    assert count("openai", "cancelled") == before + 1


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Priority(BaseModel):
    """How urgent it is."""

    level: Level
    reason: str = Field("none", max_length=9, pattern="[a-z]+")


class Found(BaseModel):
    kind: Literal["found"]
    title: str = Field(description="A short title.")
    priority: Priority = Field(description="Of the task.")
    plain: Priority
    subtasks: Annotated[list[str], Field(min_length=3, max_length=7)] | None = None


class Vague(BaseModel):
    kind: Literal["vague"]


class Reply(BaseModel):
    outcome: Annotated[Found | Vague, Field(discriminator="kind")]


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Open(BaseModel):
    names: dict[str, int]


class Anything(BaseModel):
    value: Any


class Pair(BaseModel):
    pair: tuple[int, str]


async def sent_schema(provider: Provider, agent: OpenAIAgent, answer: type[BaseModel]) -> dict[str, Any]:
    provider.script = answers(429, {})
    with pytest.raises(AgentUnavailable):
        await complete(agent, Prompt("p", "", "", answer))
    sent: dict[str, Any] = provider.last.body["response_format"]["json_schema"]
    return sent


def words_of(schema: object, is_names: bool = False) -> set[str]:
    """The words of a schema, without the names that a model gives."""
    if isinstance(schema, list):
        return set().union(*map(words_of, schema))
    if not isinstance(schema, dict):
        return set()
    inner = (words_of(each, word in ("properties", "$defs") and not is_names) for word, each in schema.items())
    return set().union(set() if is_names else set(schema), *inner)


def objects_in(schema: object) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [found for each in schema for found in objects_in(each)]
    if not isinstance(schema, dict):
        return []
    found = [each for inner in schema.values() for each in objects_in(inner)]
    return [schema, *found] if "properties" in schema and "required" in schema else found


@pytest.mark.parametrize("answer", [Reply, Tree, Priority, Found])
async def test_a_schema_is_strict_as_openai_means_it(
    provider: Provider, make_openai: MakeAgent, answer: type[BaseModel]
) -> None:
    sent = await sent_schema(provider, make_openai(), answer)
    schema = sent["schema"]
    assert (sent["strict"], schema["type"]) == (True, "object")
    known = {"type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "$ref", "$defs"}
    assert words_of(schema) <= known | {"description"}
    for each in objects_in(schema):
        assert each["required"] == list(each["properties"])
        assert each["additionalProperties"] is False


async def test_what_a_schema_says_is_kept(provider: Provider, make_openai: MakeAgent) -> None:
    schema = (await sent_schema(provider, make_openai(), Reply))["schema"]
    assert schema["properties"]["outcome"] == {"anyOf": [{"$ref": "#/$defs/Found"}, {"$ref": "#/$defs/Vague"}]}
    found = schema["$defs"]["Found"]["properties"]
    assert found["kind"] == {"type": "string", "enum": ["found"]}
    assert found["title"] == {"type": "string", "description": "A short title."}
    assert found["priority"] == {"anyOf": [{"$ref": "#/$defs/Priority"}], "description": "Of the task."}
    assert found["plain"] == {"$ref": "#/$defs/Priority"}
    assert found["subtasks"] == {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}
    assert schema["$defs"]["Level"] == {"type": "string", "enum": ["low", "high"]}


@pytest.mark.parametrize("answer", [Open, Anything, Pair])
async def test_a_schema_that_cannot_be_strict_is_sent_as_it_is(
    provider: Provider, make_openai: MakeAgent, answer: type[BaseModel]
) -> None:
    sent = await sent_schema(provider, make_openai(), answer)
    assert (sent["strict"], sent["schema"]) == (False, answer.model_json_schema())
