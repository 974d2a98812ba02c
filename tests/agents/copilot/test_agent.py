"""The Copilot Studio agent: the official client against a service that speaks its wire format."""

from __future__ import annotations

import asyncio

import pytest
from microsoft_agents.copilotstudio.client import CopilotClient

from inturn.agents import Ask, CopilotStudioAgent
from inturn.agents.activity import CARD, signature_of
from inturn.errors import AgentRejected
from tests.agents.conftest import (
    KEY,
    MakeAgent,
    asking,
    cancel_in_the_middle,
    connection,
    heard,
    leave_in_the_middle,
    pieces,
    said,
)
from tests.agents.provider import SSE, Provider, Request, Script, Wire
from tests.agents.wire import END, activity, answers, in_turn, says
from tests.waiting import until

STARTED = says(END, x_ms_conversationid="c-1")
KNOWN = {"conversation_id": "c-1"}


def known(text: str = "hi") -> Ask:
    return asking(text, memory=dict(KNOWN))


async def test_a_conversation_is_started_and_its_id_remembered(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = in_turn([STARTED, says(activity(text="Hello"), END)])
    ask = asking("hi there")
    activities = await heard(make_copilot(), ask)
    assert said(activities) == ["Hello"]
    assert signature_of(activities[-1]) == "copilot_studio"
    assert ask.memory == KNOWN
    start, turn = provider.requests
    assert start.path.startswith("/copilot/conversations?")
    assert start.body == {"emitStartConversationEvent": False}
    assert turn.path.startswith("/copilot/conversations/c-1?")
    assert (turn.body["activity"]["type"], turn.body["activity"]["text"]) == ("message", "hi there")
    assert turn.headers["authorization"] == f"Bearer {KEY}"


async def test_a_known_conversation_goes_on(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = says(activity(text="again"), END)
    assert said(await heard(make_copilot(), known())) == ["again"]
    (turn,) = provider.requests
    assert turn.path.startswith("/copilot/conversations/c-1?")


async def test_the_greeting_is_given_when_nothing_was_asked(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = says(activity(text="Welcome", conversation={"id": "c-9"}), END)
    ask = asking("")
    assert said(await heard(make_copilot(), ask)) == ["Welcome"]
    assert ask.memory == {"conversation_id": "c-9"}
    (start,) = provider.requests
    assert start.body == {"emitStartConversationEvent": True}


async def test_a_greeting_that_nobody_asked_for_is_not_shown(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = in_turn([says(activity(text="Welcome"), END), says(activity(text="Answer"), END)])
    assert said(await heard(make_copilot())) == ["Answer"]


async def test_a_card_is_submitted_as_the_value_of_a_message(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = says(activity(text="thanks"), END)
    card = {"cardId": "trip", "city": "Zürich", "people": 2}
    ask = Ask("c1", "", "", card=card, memory=dict(KNOWN))
    assert said(await heard(make_copilot(), ask)) == ["thanks"]
    sent = provider.last.body["activity"]
    assert (sent["type"], sent["value"]) == ("message", card)
    assert "text" not in sent


async def test_everything_of_an_activity_arrives(provider: Provider, make_copilot: MakeAgent) -> None:
    card = {"type": "AdaptiveCard", "body": [{"type": "TextBlock", "text": "x" * 3_000_000}]}
    provider.script = says(
        activity(
            id="a-1",
            text="Choose",
            value={"data": {"a": 1}},
            attachments=[{"contentType": CARD, "content": card}],
            suggestedActions={"actions": [{"type": "imBack", "title": "Yes", "value": "yes"}]},
            entities=[{"type": "https://schema.org/Message", "citation": [{"position": 1}]}],
        ),
        END,
    )
    (message,) = await heard(make_copilot(), known())
    assert (message.id, message.text, message.value) == ("a-1", "Choose", {"data": {"a": 1}})
    assert message.attachments[0]["content"] == card
    assert message.suggested_actions is not None
    assert message.suggested_actions["actions"][0]["title"] == "Yes"
    assert message.entities[0]["type"] == "https://schema.org/Message"
    assert message.sender["role"] == "bot"


@pytest.mark.parametrize(
    "odd",
    [
        {"attachments": None, "entities": None, "suggestedActions": None},
        {"id": "", "locale": "", "conversation": "c-1", "from": None},
        {"conversation": {"id": 5}, "entities": [5, {"no": "type"}], "channelData": [1]},
        {"timestamp": "yesterday", "attachmentLayout": 7, "membersAdded": {"id": 1}},
    ],
)
async def test_one_odd_field_does_not_cost_the_answer(
    provider: Provider, make_copilot: MakeAgent, odd: dict[str, object]
) -> None:
    provider.script = says(activity(text="one", **odd), activity(text="two"), END)
    ask = known()
    assert said(await heard(make_copilot(), ask)) == ["one", "two"]
    assert ask.memory == KNOWN


@pytest.mark.parametrize(
    "stream",
    [
        (activity(type="typing") + activity(text="ok") + END).replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + activity(text="ok") + END,
        b": keep-alive\n\n" + activity(text="ok") + b"retry: 5\n\n",
        activity(text="ok").rstrip(b"\n"),
        activity(text="ok").replace(b', "', b',\ndata: "').replace(b"data: {", b"data:{"),
    ],
    ids=["CRLF", "BOM", "comments, no end", "no last line", "many lines of data"],
)
@pytest.mark.parametrize("size", [1, 10_000])
async def test_the_stream_may_be_written_in_any_way(
    provider: Provider, make_copilot: MakeAgent, stream: bytes, size: int
) -> None:
    provider.script = says(*(stream[at : at + size] for at in range(0, len(stream), size)))
    assert said(await heard(make_copilot(), known())) == ["ok"]


async def test_pieces_are_streamed_before_their_message(provider: Provider, make_copilot: MakeAgent) -> None:
    def chunk(number: int, text: str) -> bytes:
        stream = {"streamType": "streaming", "streamId": "s", "streamSequence": number, "chunkType": "delta"}
        return activity(type="typing", text=text, channelData=stream)

    stream = chunk(1, "Zü") + chunk(2, "rich ") + chunk(3, "😀") + activity(text="Zürich 😀") + END
    provider.script = says(*(stream[at : at + 3] for at in range(0, len(stream), 3)))
    activities = await heard(make_copilot(), known())
    assert pieces(activities) == ["Zü", "rich ", "😀"]
    assert said(activities) == ["Zürich 😀"]


async def test_a_slow_answer_is_given_as_it_comes(provider: Provider, make_copilot: MakeAgent) -> None:
    """The service goes on only when the reader has the piece before."""
    has_heard = asyncio.Event()

    async def slow(request: Request, wire: Wire) -> None:
        await wire.head(content_type=SSE)
        for text in ("one", "one two"):
            await wire.chunk(activity(type="typing", text=text))
            await has_heard.wait()
            has_heard.clear()
        await wire.chunk(activity(text="one two") + END)
        await wire.end()

    provider.script = slow
    got = []
    async for each in make_copilot().ask(known()):
        got.append((each.type, each.text))
        has_heard.set()
    assert got == [("typing", "one"), ("typing", " two"), ("message", "one two")]


@pytest.mark.parametrize("status", [404, 410])
async def test_a_conversation_that_the_service_forgot_is_begun_anew(
    provider: Provider, make_copilot: MakeAgent, status: int
) -> None:
    forgotten = answers(status, {"error": {"message": "no such conversation"}})
    started = says(END, x_ms_conversationid="c-2")
    provider.script = in_turn([forgotten, started, says(activity(text="Hello"), END)])
    ask = known("again")
    assert said(await heard(make_copilot(), ask)) == ["Hello"]
    assert ask.memory == {"conversation_id": "c-2"}
    assert [request.path.split("?")[0] for request in provider.requests] == [
        "/copilot/conversations/c-1",
        "/copilot/conversations",
        "/copilot/conversations/c-2",
    ]


async def test_a_conversation_that_has_expired_is_begun_anew_also_if_the_status_is_a_plain_400(
    provider: Provider, make_copilot: MakeAgent
) -> None:
    expired = answers(400, {"error": {"code": "ConversationNotFound", "message": "The conversation has expired."}})
    started = says(END, x_ms_conversationid="c-2")
    provider.script = in_turn([expired, started, says(activity(text="Hello"), END)])
    ask = known("again")
    assert said(await heard(make_copilot(), ask)) == ["Hello"]
    assert ask.memory == {"conversation_id": "c-2"}


async def test_it_is_begun_anew_only_once(provider: Provider, make_copilot: MakeAgent) -> None:
    forgotten = answers(404, {"error": {"message": "no such conversation"}})
    provider.script = in_turn([forgotten, says(END, x_ms_conversationid="c-2"), forgotten])
    with pytest.raises(AgentRejected, match="no such conversation"):
        await heard(make_copilot(), known())
    assert len(provider.requests) == 3


async def test_a_conversation_that_the_service_ended_is_not_gone_on_with(
    provider: Provider, make_copilot: MakeAgent
) -> None:
    provider.script = says(activity(text="Bye"), activity(type="endOfConversation"), END)
    ask = known()
    assert said(await heard(make_copilot(), ask)) == ["Bye"]
    assert ask.memory == {}


async def test_one_client_and_one_connection_serve_many_asks(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = says(activity(text="ok"), END, x_ms_conversationid="c-1")
    agent = make_copilot()
    for _ in range(4):
        assert said(await heard(agent)) == ["ok"]
    assert (len(provider.requests), provider.connections) == (8, 1)


async def test_many_conversations_at_once_keep_their_ids(provider: Provider, make_copilot: MakeAgent) -> None:
    """The client itself remembers only the conversation that came last."""
    everyone = asyncio.Event()
    begun = 0

    async def script(request: Request, wire: Wire) -> None:
        nonlocal begun
        parts = request.path.split("?")[0].split("/")
        if parts[-1] != "conversations":
            return await says(activity(text=f"{request.body['activity']['text']} in {parts[-1]}"), END)(request, wire)
        begun += 1
        mine = f"c-{begun}"
        if begun == 10:
            everyone.set()
        await everyone.wait()
        return await says(END, x_ms_conversationid=mine)(request, wire)

    provider.script = script
    agent = make_copilot()
    asks = [asking(f"word {number}") for number in range(10)]
    heard_all = await asyncio.gather(*(heard(agent, ask) for ask in asks))
    assert len({ask.memory["conversation_id"] for ask in asks}) == 10
    for ask, activities in zip(asks, heard_all, strict=True):
        assert said(activities) == [f"{ask.query} in {ask.memory['conversation_id']}"]


async def test_a_new_token_is_used_as_soon_as_there_is_one(provider: Provider, make_copilot: MakeAgent) -> None:
    tokens = iter(["one", "one", "two"])

    async def token() -> str:
        return next(tokens)

    provider.script = says(activity(text="ok"), END)
    agent = make_copilot(token=token)
    for _ in range(3):
        await heard(agent, known())
    assert [request.headers["authorization"] for request in provider.requests] == [
        "Bearer one",
        "Bearer one",
        "Bearer two",
    ]
    assert provider.connections == 1


async def test_a_given_client_is_used(provider: Provider) -> None:
    provider.script = in_turn([STARTED, says(activity(text="ok"), END), answers(403, {"message": "not you"})])
    agent = CopilotStudioAgent(CopilotClient(connection(provider), "their-token"), name="mine")
    ask = asking()
    assert said(await heard(agent, ask)) == ["ok"]
    assert ask.memory == KNOWN
    assert provider.last.headers["authorization"] == "Bearer their-token"
    with pytest.raises(AgentRejected, match="agent 'mine' answered with status 403: not you"):
        await heard(agent, ask)
    await agent.aclose()


async def test_a_client_brings_its_own_token_and_settings_need_one(provider: Provider) -> None:
    with pytest.raises(ValueError, match="token"):
        CopilotStudioAgent(CopilotClient(connection(provider), "t"), token="other")
    with pytest.raises(ValueError, match="token"):
        CopilotStudioAgent(connection(provider))


def begins(provider: Provider) -> Script:
    async def script(request: Request, wire: Wire) -> None:
        await wire.head(content_type=SSE)
        await wire.chunk(activity(type="typing", text="a"))
        await provider.waits(wire)

    return script


async def test_cancelling_closes_the_connection(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = begins(provider)
    await cancel_in_the_middle(make_copilot().ask(known()))
    await until(lambda: provider.left == 1)


async def test_leaving_in_the_middle_closes_the_connection(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = begins(provider)
    assert (await leave_in_the_middle(make_copilot().ask(known()))).text == "a"
    await until(lambda: provider.left == 1)
