"""The OpenAI agent: the official package against an endpoint that speaks its wire format."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest

from inturn.agents import Ask, OpenAIAgent, Said
from inturn.agents.activity import signature_of
from tests.agents.conftest import (
    KEY,
    MakeAgent,
    asking,
    cancel_in_the_middle,
    heard,
    leave_in_the_middle,
    pieces,
    said,
    situation,
)
from tests.agents.provider import SSE, Provider, Request, Script, Wire
from tests.agents.wire import answers, completion, delta, says
from tests.waiting import until

ANSWER = {
    "reply": 'Zürich 😀, "first" class\nis noted.',
    "data": {"city": "Zürich", "class": "first", "day": None, "people": 2},
    "next_action": "ask",
    "citations": [{"title": "T", "url": "https://t"}],
}


async def test_free_chat_streams_pieces_and_ends_with_the_whole(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = says(completion("Hel", "lo ", "you"))
    history = (Said("user", "before"), Said("assistant", "yes?"))
    activities = await heard(make_openai(), asking("hi", history=history, instructions="Be short."))
    assert pieces(activities) == ["Hel", "lo ", "you"]
    assert [activity.type for activity in activities] == ["typing"] * 3 + ["message"]
    last = activities[-1]
    assert (last.text, last.value, last.sender) == ("Hello you", None, {"role": "bot"})
    assert signature_of(last) == "openai"
    sent = provider.last.body
    assert (sent["model"], sent["stream"], "response_format" in sent) == ("m", True, False)
    system, *rest = sent["messages"]
    assert system["role"] == "system"
    assert system["content"].startswith("Be short.")
    assert rest == [
        {"role": "user", "content": "before"},
        {"role": "assistant", "content": "yes?"},
        {"role": "user", "content": "hi"},
    ]
    assert provider.last.headers["authorization"] == f"Bearer {KEY}"


async def test_an_answer_by_schema_streams_its_reply_and_gives_its_data(
    provider: Provider, make_openai: MakeAgent
) -> None:
    text = json.dumps(ANSWER)
    provider.script = says(completion(*text))
    activities = await heard(make_openai(), asking("to Zürich", situation=situation()))
    assert "".join(pieces(activities)) == ANSWER["reply"]
    assert len(pieces(activities)) > 5
    (message,) = (activity for activity in activities if activity.type == "message")
    assert message.text == ANSWER["reply"]
    assert message.value == {
        "data": {"city": "Zürich", "class": "first", "people": 2},
        "nextAction": "ask",
        "citations": ANSWER["citations"],
    }
    sent = provider.last.body
    assert sent["response_format"]["type"] == "json_schema"
    assert sent["response_format"]["json_schema"]["strict"] is True
    assert sent["messages"][-1] == {"role": "user", "content": "to Zürich"}


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_chunks_may_end_anywhere(provider: Provider, make_openai: MakeAgent, size: int, ascii_only: bool) -> None:
    """Inside an escape of the answer, inside a character of UTF-8, inside a line of the stream."""
    text = json.dumps(ANSWER, ensure_ascii=ascii_only)
    contents = [text[at : at + size] for at in range(0, len(text), size)]
    stream = completion(*contents)
    provider.script = says(*(stream[at : at + 5] for at in range(0, len(stream), 5)))
    activities = await heard(make_openai(), asking(situation=situation()))
    assert "".join(pieces(activities)) == ANSWER["reply"] == said(activities)[0]


async def test_bytes_of_one_character_may_come_apart(provider: Provider, make_openai: MakeAgent) -> None:
    raw = delta("X", role="assistant").replace(b"X", "ü😀".encode()) + delta(finish="stop")
    provider.script = says(*(raw[at : at + 1] for at in range(len(raw))))
    activities = await heard(make_openai())
    assert said(activities) == ["ü😀"]


async def test_a_pair_that_was_cut_between_two_deltas_is_joined(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = says(completion("a\ud83d", "\ude00b", "\ud83d"))
    activities = await heard(make_openai())
    assert pieces(activities) == ["a", "😀b", "\ufffd"]
    assert said(activities) == ["a😀b\ufffd"]


@pytest.mark.parametrize(
    "text", ["Just words, no JSON.", '  ```json\n{"city": "Bern"}\n```', '{"city": "Bern"}', "{no"]
)
async def test_an_endpoint_that_ignores_the_schema_is_said_as_it_is(
    provider: Provider, make_openai: MakeAgent, text: str
) -> None:
    provider.script = says(completion(*text))
    activities = await heard(make_openai(), asking(situation=situation()))
    (message,) = (activity for activity in activities if activity.type == "message")
    assert (message.text, message.value) == (text, None)
    assert "".join(pieces(activities)) == ("" if "{" in text else text)


async def test_a_card_is_told_as_a_form(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = says(completion("ok"))
    card = {"cardId": "trip", "city": "Zürich", "people": 2}
    await heard(make_openai(), Ask("c1", "", "", card=card, situation=situation()))
    message = provider.last.body["messages"][-1]
    assert message["role"] == "user"
    label, _, form = message["content"].partition("\n")
    assert "submitted a form" in label
    assert json.loads(form) == card


async def test_one_client_and_one_connection_serve_many_asks(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = says(completion("ok"))
    agent = make_openai()
    for _ in range(5):
        assert said(await heard(agent)) == ["ok"]
    assert (len(provider.requests), provider.connections) == (5, 1)


async def test_many_conversations_at_once_do_not_mix(provider: Provider, make_openai: MakeAgent) -> None:
    async def echo(request: Request, wire: Wire) -> None:
        await wire.head(content_type=SSE)
        for letter in request.body["messages"][-1]["content"]:
            await wire.chunk(delta(letter))
        await wire.chunk(delta(finish="stop"))
        await wire.end()

    provider.script = echo
    agent = make_openai()
    words = [f"word {number}" for number in range(20)]
    answers_ = await asyncio.gather(*(heard(agent, asking(word)) for word in words))
    assert [said(activities) for activities in answers_] == [[word] for word in words]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_the_package_does_not_retry(provider: Provider, make_openai: MakeAgent, status: int) -> None:
    provider.script = answers(status, {"error": {"message": "no"}})
    with pytest.raises(Exception, match="no"):
        await heard(make_openai())
    assert len(provider.requests) == 1


async def test_a_given_client_is_used_without_retries_and_stays_open(provider: Provider) -> None:
    provider.script = answers(500, {"error": {"message": "no"}})
    async with openai.AsyncOpenAI(base_url=f"{provider.url}/mine", api_key="k", max_retries=5) as client:
        agent = OpenAIAgent("m", client=client, name="mine")
        with pytest.raises(Exception, match="agent 'mine' answered with status 500"):
            await heard(agent)
        await agent.aclose()
        assert not client.is_closed()
    assert [request.path for request in provider.requests] == ["/mine/chat/completions"]


async def test_the_most_tokens_are_told(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = says(completion("ok"))
    await heard(make_openai(max_output_tokens=77))
    assert provider.last.body["max_completion_tokens"] == 77


async def test_a_slow_answer_is_given_as_it_comes(provider: Provider, make_openai: MakeAgent) -> None:
    """The endpoint goes on only when the reader has the piece before."""
    has_heard = asyncio.Event()

    async def slow(request: Request, wire: Wire) -> None:
        await wire.head(content_type=SSE)
        for word in ("one ", "two ", "three"):
            await wire.chunk(delta(word))
            await has_heard.wait()
            has_heard.clear()
        await wire.chunk(delta(finish="stop"))
        await wire.end()

    provider.script = slow
    got = []
    async for activity in make_openai().ask(asking()):
        got.append((activity.type, activity.text))
        has_heard.set()
    assert got == [("typing", "one "), ("typing", "two "), ("typing", "three"), ("message", "one two three")]


async def test_an_endpoint_that_does_not_end_its_stream_has_answered_all_the_same(
    provider: Provider, make_openai: MakeAgent
) -> None:
    async def finish_and_stay(request: Request, wire: Wire) -> None:
        await wire.head(content_type=SSE)
        await wire.chunk(delta("ok") + delta(finish="stop"))
        await provider.waits(wire)

    provider.script = finish_and_stay
    assert said(await heard(make_openai())) == ["ok"]
    await until(lambda: provider.left)


def begins(provider: Provider) -> Script:
    async def script(request: Request, wire: Wire) -> None:
        await wire.head(content_type=SSE)
        await wire.chunk(delta("a"))
        await provider.waits(wire)

    return script


async def test_cancelling_closes_the_connection(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = begins(provider)
    await cancel_in_the_middle(make_openai().ask(asking()))
    await until(lambda: provider.left == 1)


async def test_leaving_in_the_middle_closes_the_connection(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = begins(provider)
    assert (await leave_in_the_middle(make_openai().ask(asking()))).text == "a"
    await until(lambda: provider.left == 1)
