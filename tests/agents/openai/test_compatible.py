"""The OpenAI agent against what vLLM, Ollama, Azure, LiteLLM and others make of the wire format."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from inturn.errors import AgentError, AgentRejected, AgentUnavailable
from tests.agents.conftest import KEY, MakeAgent, asking, heard, pieces, said, situation
from tests.agents.provider import Provider, Request, Wire
from tests.agents.wire import DONE, answers, completion, delta, event, says

ANSWER = {"reply": "Noted.", "data": {"city": "Bern"}, "next_action": "ask", "citations": []}
JSON = json.dumps(ANSWER)
VALUE = {"data": {"city": "Bern"}, "nextAction": "ask", "citations": []}


def chunk(*choices: dict[str, Any], **more: Any) -> bytes:
    return event({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices} | more)


FILTER = chunk({"index": 0, "finish_reason": None, "content_filter_offsets": {"check_offset": 5}})
"""Of Azure's asynchronous filter: a choice without a delta."""


def parts(*given: dict[str, Any]) -> bytes:
    return chunk({"index": 0, "delta": {"content": list(given)}})


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(chunk(prompt_filter_results=[]) + completion("Hi") + FILTER, id="prompt filter first"),
        pytest.param(delta("H") + FILTER + delta("i") + delta(finish="stop") + FILTER, id="asynchronous filter"),
        pytest.param(
            chunk({"delta": {"content": "Hi"}}) + chunk({"delta": {}, "finish_reason": "stop"}), id="no index"
        ),
        pytest.param(event({"id": "c1"}) + chunk(choices=None) + completion("Hi"), id="no choices"),
        pytest.param(
            parts({"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]})
            + parts({"type": "text", "text": "H"}, {"type": "text", "text": "i"})
            + delta(finish="stop"),
            id="content in parts",
        ),
        pytest.param(delta(reasoning_content="hm") + delta(reasoning="hm") + completion("Hi"), id="reasoning"),
        pytest.param(completion("<th", "ink>hm</thi", "nk>\n\n", "Hi"), id="thoughts in the text"),
        pytest.param(completion("Hi").replace(b"\n", b"\r\n"), id="CRLF"),
        pytest.param(b": PROCESSING\n\n" + completion("Hi").replace(b"data: ", b"data:"), id="comments"),
        pytest.param(delta("Hi", finish="") + delta(finish="eos"), id="a finish of its own"),
    ],
)
async def test_an_answer_is_read_as_it_is_written_there(
    provider: Provider, make_openai: MakeAgent, stream: bytes
) -> None:
    provider.script = says(stream)
    activities = await heard(make_openai())
    assert said(activities) == ["Hi"] == ["".join(pieces(activities))]


async def test_a_compressed_stream_is_read(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = says(gzip.compress(completion("Hi")), content_encoding="gzip")
    assert said(await heard(make_openai())) == ["Hi"]


@pytest.mark.parametrize("text", [f"```json\n{JSON}\n```", f" ```\n{JSON}", f"<think>\n{{hm}}</think>\n\n{JSON}"])
@pytest.mark.parametrize("size", [1, 4, 1000])
async def test_an_object_in_a_fence_or_after_thoughts_is_an_answer_by_schema(
    provider: Provider, make_openai: MakeAgent, text: str, size: int
) -> None:
    provider.script = says(completion(*(text[at : at + size] for at in range(0, len(text), size))))
    activities = await heard(make_openai(), asking(situation=situation()))
    assert "".join(pieces(activities)) == "Noted."
    assert (activities[-1].text, activities[-1].value) == ("Noted.", VALUE)


@pytest.mark.parametrize(
    "refusal",
    [
        {
            "error": {
                "message": "'response_format' of type 'json_schema' is not supported with this model.",
                "code": None,
            }
        },
        {"error": {"message": "This response_format type is unavailable now", "type": "invalid_request_error"}},
        {"error": {"message": "This model does not support response format `json_schema`."}},
        {"object": "error", "message": "[{'loc': ('body', 'response_format', 'type')}]", "code": 400},
    ],
)
@pytest.mark.parametrize("status", [400, 422])
async def test_an_endpoint_that_knows_no_schema_is_told_it_in_words_from_then_on(
    provider: Provider, make_openai: MakeAgent, status: int, refusal: object
) -> None:
    async def script(request: Request, wire: Wire) -> None:
        if "response_format" in request.body:
            await answers(status, refusal)(request, wire)
        else:
            await says(completion(JSON))(request, wire)

    provider.script = script
    agent = make_openai()
    for _ in range(2):
        activities = await heard(agent, asking(situation=situation()))
        assert (activities[-1].text, activities[-1].value) == ("Noted.", VALUE)
    assert ["response_format" in request.body for request in provider.requests] == [True, False, False]
    assert '"next_action"' in provider.last.body["messages"][0]["content"]


async def test_calls_that_meet_the_refusal_at_once_are_all_answered(provider: Provider, make_openai: MakeAgent) -> None:
    all_there = asyncio.Event()

    async def script(request: Request, wire: Wire) -> None:
        if "response_format" not in request.body:
            return await says(completion(JSON))(request, wire)
        if len(provider.requests) == 5:
            all_there.set()
        await all_there.wait()
        return await answers(400, {"error": {"message": "no json_schema here"}})(request, wire)

    provider.script = script
    agent = make_openai()
    heard_all = await asyncio.gather(*(heard(agent, asking(situation=situation())) for _ in range(5)))
    assert [said(activities) for activities in heard_all] == [["Noted."]] * 5


@pytest.mark.parametrize("in_workflow", [True, False])
async def test_any_other_bad_request_is_asked_once(
    provider: Provider, make_openai: MakeAgent, in_workflow: bool
) -> None:
    provider.script = answers(400, {"error": {"message": "This model's maximum context length is 10 tokens"}})
    with pytest.raises(AgentRejected, match="maximum context length"):
        await heard(make_openai(), asking(situation=situation() if in_workflow else None))
    assert len(provider.requests) == 1


async def test_a_refusal_of_words_is_not_asked_a_third_time(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = answers(400, {"error": {"message": "no response_format, and no words either"}})
    with pytest.raises(AgentRejected):
        await heard(make_openai(), asking(situation=situation()))
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("last", "kind", "words"),
    [
        (event({"error": {"message": "too long", "code": 400}}), AgentRejected, "too long"),
        (event({"error": {"message": "too many", "code": "429"}}), AgentUnavailable, "too many"),
        (event({"error": {"message": "odd", "code": "rate_limit"}}), AgentUnavailable, "odd"),
        (event({"error": "a text"}), AgentUnavailable, "a text"),
        (event({"object": "error", "message": f"of {KEY}", "code": 400}), AgentRejected, "of ***"),
        (event({"object": "error", "message": "gone"}), AgentUnavailable, "gone"),
    ],
)
async def test_an_error_inside_the_stream_has_its_type(
    provider: Provider, make_openai: MakeAgent, last: bytes, kind: type[AgentError], words: str
) -> None:
    provider.script = says(delta("half"), last)
    with pytest.raises(AgentError) as caught:
        await heard(make_openai())
    assert type(caught.value) is kind
    assert caught.value.said == words


@pytest.mark.parametrize(
    ("stream", "in_workflow", "finish"),
    [
        (completion(""), True, "stop"),
        (completion("", finish="length"), False, "length"),
        (completion("<think>hm", finish="length"), False, "length"),
        (delta(tool_calls=[{"index": 0, "id": "t"}]) + delta(finish="tool_calls") + DONE, False, "tool_calls"),
    ],
)
async def test_an_empty_answer_is_no_answer(
    provider: Provider, make_openai: MakeAgent, stream: bytes, in_workflow: bool, finish: str
) -> None:
    provider.script = says(stream)
    with pytest.raises(AgentUnavailable, match=f"empty answer: {finish}"):
        await heard(make_openai(), asking(situation=situation() if in_workflow else None))


async def test_who_has_nothing_to_say_in_free_chat_says_nothing(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = says(completion(""))
    assert said(await heard(make_openai())) == [""]


async def test_what_is_no_stream_is_named(provider: Provider, make_openai: MakeAgent) -> None:
    async def page(request: Request, wire: Wire) -> None:
        await wire.head(content_type="text/html")
        await wire.chunk(b"<html>please sign in</html>")
        await wire.end()

    provider.script = page
    with pytest.raises(AgentUnavailable, match="stream of events: text/html"):
        await heard(make_openai())
