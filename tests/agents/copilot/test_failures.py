"""How the Copilot Studio agent fails: in three typed ways, with what the service said, and never with the token."""

from __future__ import annotations

import asyncio
import traceback

import pytest

from inturn.agents import CopilotStudioAgent
from inturn.errors import AgentError, AgentRejected, AgentTimeout, AgentUnavailable
from tests.agents.conftest import KEY, MakeAgent, asking, heard, said
from tests.agents.provider import SSE, Provider, Request, Script, Wire, hangs_up
from tests.agents.wire import END, activity, answers, event, says
from tests.waiting import until

SHORT_S = 0.5


async def failing(agent: CopilotStudioAgent) -> AgentError:
    with pytest.raises(AgentError) as caught:
        await heard(agent, asking(memory={"conversation_id": "c-1"}))
    return caught.value


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, AgentRejected),
        (401, AgentRejected),
        (403, AgentRejected),
        (404, AgentRejected),
        (422, AgentRejected),
        (409, AgentUnavailable),
        (429, AgentUnavailable),
        (500, AgentUnavailable),
        (503, AgentUnavailable),
    ],
)
async def test_a_status_is_typed_and_says_what_the_service_said(
    provider: Provider, make_copilot: MakeAgent, status: int, kind: type[AgentError]
) -> None:
    provider.script = answers(status, {"error": {"code": "c", "message": "the reason"}})
    error = await failing(make_copilot())
    assert type(error) is kind
    assert (error.agent, error.said) == ("copilot_studio", "the reason")
    assert str(status) in error.why
    assert (error.status, error.retry_after_s) == (status, None)


async def test_the_time_that_it_asks_to_wait_is_told(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = answers(503, {}, Retry_After="12")
    error = await failing(make_copilot())
    assert (type(error), error.status, error.retry_after_s) == (AgentUnavailable, 503, 12.0)


@pytest.mark.parametrize("body", [b"[1]", b"not \xff JSON", b"", b'{"error": "text"}', b"x" * 9000])
async def test_an_odd_body_of_an_error_does_no_harm(provider: Provider, make_copilot: MakeAgent, body: bytes) -> None:
    async def script(request: Request, wire: Wire) -> None:
        await wire.head(500)
        if body:
            await wire.chunk(body)
        await wire.end()

    provider.script = script
    error = await failing(make_copilot())
    assert type(error) is AgentUnavailable
    assert len(error.said) <= 500


async def test_a_token_that_the_service_repeats_is_not_shown(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = answers(401, {"message": f"bad token {KEY}"})
    error = await failing(make_copilot())
    assert error.said == "bad token ***"
    assert KEY not in "".join(traceback.format_exception(error))


async def test_nobody_gives_a_token(provider: Provider, make_copilot: MakeAgent) -> None:
    async def token() -> str:
        raise OSError("the identity service is away")

    error = await failing(make_copilot(token=token))
    assert type(error) is AgentUnavailable
    assert (error.why, error.said) == ("got no token", "OSError: the identity service is away")


async def test_nobody_listens(make_copilot: MakeAgent, provider: Provider) -> None:
    provider.port = 1  # one that was free a moment ago may be another test's by now; this one is nobody's
    error = await failing(make_copilot())
    assert type(error) is AgentUnavailable
    assert "cannot be reached" in error.why


async def breaks_in_the_middle(request: Request, wire: Wire) -> None:
    await wire.head(content_type=SSE)
    await wire.chunk(activity(text="half an answer"))
    wire.cut()


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(hangs_up, id="no answer"),
        pytest.param(breaks_in_the_middle, id="cut"),
        pytest.param(says(activity(type="typing", text="half an ans"), END), id="streamed without its message"),
        pytest.param(says(b"event: activity\ndata: {wrong json\n\n"), id="wrong JSON"),
        pytest.param(says(b"event: activity\ndata: 5\n\n"), id="no activity"),
        pytest.param(says(b"event: activity\ndata: \xff\xfe\n\n"), id="wrong UTF-8"),
        pytest.param(says(b"event: error\ndata: {}\n\n", END), id="an error in the stream"),
    ],
)
async def test_a_stream_that_breaks_off_is_unavailable(
    provider: Provider, make_copilot: MakeAgent, script: Script
) -> None:
    provider.script = script
    assert type(await failing(make_copilot())) is AgentUnavailable
    assert len(provider.requests) == 1


async def test_an_error_inside_the_stream_says_its_reason(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = says(activity(text="ok"), event({"code": "c", "message": f"the quota of {KEY}"}, "error"), END)
    assert (await failing(make_copilot())).said == "the quota of ***"


async def test_what_is_no_stream_is_no_empty_answer(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = answers(200, {"message": "please sign in"})
    error = await failing(make_copilot())
    assert type(error) is AgentUnavailable
    assert "application/json" in error.said


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("SystemError", AgentUnavailable),
        ("OpenAIRateLimitReached", AgentUnavailable),
        ("OpenAIJailBreak", AgentRejected),
        ("ContentFiltered", AgentRejected),
    ],
)
async def test_the_message_of_the_error_topic_is_no_answer(
    provider: Provider, make_copilot: MakeAgent, code: str, kind: type[AgentError]
) -> None:
    words = f"An error has occurred.\nError code: {code}\nConversation Id: c-1\nTime (UTC): 2026-11-16T08:00:00Z."
    provider.script = says(activity(text=words), END)
    error = await failing(make_copilot())
    assert type(error) is kind
    assert error.said == " ".join(words.split())


async def test_words_about_an_error_code_are_an_answer(provider: Provider, make_copilot: MakeAgent) -> None:
    words = "Error code: 500 means that the server failed. Give us the conversation id."
    provider.script = says(activity(text=words), END)
    assert said(await heard(make_copilot(), asking(memory={"conversation_id": "c-1"}))) == [words]


@pytest.mark.parametrize("given", [None, "", " "])
async def test_a_token_that_is_none_is_not_sent(provider: Provider, make_copilot: MakeAgent, given: str | None) -> None:
    async def token() -> str | None:
        return given

    assert (await failing(make_copilot(token=token))).why == "got no token"
    assert provider.requests == []


async def test_a_start_without_an_id_is_unavailable(provider: Provider, make_copilot: MakeAgent) -> None:
    provider.script = says(END)
    ask = asking()
    with pytest.raises(AgentUnavailable, match="without giving its id"):
        await heard(make_copilot(), ask)
    assert ask.memory == {}


@pytest.mark.parametrize(
    "chunks", [None, (), (activity(type="typing", text="a"),)], ids=["no head", "no event", "stall"]
)
async def test_silence_is_a_timeout_and_closes_the_connection(
    provider: Provider, make_copilot: MakeAgent, chunks: tuple[bytes, ...] | None
) -> None:
    async def script(request: Request, wire: Wire) -> None:
        if chunks is not None:
            await wire.head(content_type=SSE)
        for chunk in chunks or ():
            await wire.chunk(chunk)
        await provider.waits(wire)

    provider.script = script
    assert type(await failing(make_copilot(timeout=SHORT_S))) is AgentTimeout
    await until(lambda: provider.open == 0)


async def test_a_stream_that_never_ends_is_a_timeout(provider: Provider, make_copilot: MakeAgent) -> None:
    async def drip(request: Request, wire: Wire) -> None:
        await wire.head(content_type=SSE)
        while True:
            await wire.chunk(activity(type="typing"))
            await asyncio.sleep(0.01)

    provider.script = drip
    assert type(await failing(make_copilot(timeout=SHORT_S))) is AgentTimeout
    await until(lambda: provider.open == 0)


async def test_a_cause_whose_traceback_would_show_a_secret_is_left_out(make_copilot: MakeAgent) -> None:
    async def token() -> str:
        raise RuntimeError("POST https://login.example/?client_secret=s3cr3t-s3cr3t was refused")

    error = await failing(make_copilot(token=token))
    assert type(error) is AgentUnavailable
    assert "s3cr3t" not in "".join(traceback.format_exception(error))
