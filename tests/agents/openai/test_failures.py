"""How the OpenAI agent fails: in three typed ways, with what the endpoint said, and never with the key."""

from __future__ import annotations

import asyncio
import traceback

import pytest

from inturn.agents import OpenAIAgent
from inturn.errors import AgentError, AgentRejected, AgentTimeout, AgentUnavailable
from tests.agents.conftest import KEY, MakeAgent, asking, heard, situation
from tests.agents.provider import SSE, Provider, Request, Script, Wire, hangs_up
from tests.agents.wire import DONE, answers, completion, delta, event, says
from tests.waiting import until

SHORT_S = 0.5
"""A time limit that a test waits for."""


async def failing(agent: OpenAIAgent, *, in_workflow: bool = False) -> AgentError:
    with pytest.raises(AgentError) as caught:
        await heard(agent, asking(situation=situation() if in_workflow else None))
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
        (408, AgentUnavailable),
        (429, AgentUnavailable),
        (500, AgentUnavailable),
        (503, AgentUnavailable),
    ],
)
async def test_a_status_is_typed_and_says_what_the_endpoint_said(
    provider: Provider, make_openai: MakeAgent, status: int, kind: type[AgentError]
) -> None:
    provider.script = answers(status, {"error": {"message": "the reason", "type": "t", "code": "c"}})
    error = await failing(make_openai())
    assert type(error) is kind
    assert (error.agent, error.said) == ("openai", "the reason")
    assert str(status) in error.why
    assert (error.status, error.retry_after_s) == (status, None)


async def test_the_time_that_it_asks_to_wait_is_told(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = answers(503, {}, Retry_After="12")
    error = await failing(make_openai())
    assert (type(error), error.status, error.retry_after_s) == (AgentUnavailable, 503, 12.0)


async def test_an_error_page_is_told_in_one_short_line(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = answers(502, b"<html>\n\n bad   gateway" + b" and so on" * 200)
    error = await failing(make_openai())
    assert error.said.startswith("<html> bad gateway and so on")
    assert len(error.said) == 500


async def test_a_key_that_the_endpoint_repeats_is_not_shown(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = answers(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}})
    error = await failing(make_openai())
    assert error.said == "Incorrect API key provided: ***"
    assert KEY not in "".join(traceback.format_exception(error))
    assert KEY not in repr(vars(error))


async def test_what_was_said_can_be_written_anywhere(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = answers(500, {"error": {"message": "half \ud83d a pair"}})
    assert (await failing(make_openai())).said == "half ? a pair"


async def test_nobody_listens(provider: Provider) -> None:
    # a port that was free a moment ago may be another test's by now; this one is nobody's
    agent = OpenAIAgent("m", base_url="http://127.0.0.1:1", api_key=KEY)
    error = await failing(agent)
    assert type(error) is AgentUnavailable
    assert "cannot be reached" in error.why
    await agent.aclose()


async def breaks_in_the_middle(request: Request, wire: Wire) -> None:
    await wire.head(content_type=SSE)
    await wire.chunk(delta("half an ans"))
    wire.cut()


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(hangs_up, id="no answer"),
        pytest.param(breaks_in_the_middle, id="cut"),
        pytest.param(says(delta("half an ans")), id="ended without a finish"),
        pytest.param(says(delta("half an ans"), DONE), id="done without a finish"),
        pytest.param(says(), id="nothing"),
        pytest.param(answers(200, {"choices": []}), id="no stream at all"),
        pytest.param(says(delta("a"), b"data: {wrong json\n\n"), id="wrong JSON"),
        pytest.param(says(delta("a"), b'data: "a text"\n\n'), id="no object"),
        pytest.param(says(delta("a"), b'data: {"choices": 5}\n\n'), id="wrong shape"),
        pytest.param(says(delta("a"), b"data: \xff\xfe\n\n"), id="wrong UTF-8"),
        pytest.param(says(delta("a"), event({"error": {"message": "overloaded"}})), id="an error in the stream"),
    ],
)
async def test_a_stream_that_breaks_off_is_unavailable(
    provider: Provider, make_openai: MakeAgent, script: Script
) -> None:
    provider.script = script
    error = await failing(make_openai())
    assert type(error) is AgentUnavailable
    assert len(provider.requests) == 1


async def test_an_answer_that_is_cut_is_told_from_an_endpoint_that_is_away(
    provider: Provider, make_openai: MakeAgent
) -> None:
    async def closes_in_the_middle(request: Request, wire: Wire) -> None:
        await wire.head(content_type=SSE)
        await wire.chunk(delta("half an ans"))
        wire.is_cut = True  # closed, not reset: a reset may overtake what was written

    provider.script = closes_in_the_middle
    assert (await failing(make_openai())).why == "broke off in the middle of its answer"


async def test_an_error_inside_the_stream_says_its_reason(provider: Provider, make_openai: MakeAgent) -> None:
    provider.script = says(delta("a"), event({"error": {"message": "overloaded"}}))
    assert (await failing(make_openai())).said == "overloaded"


@pytest.mark.parametrize("finish", ["stop", "length"])
async def test_an_answer_by_schema_that_is_cut_off_is_unavailable(
    provider: Provider, make_openai: MakeAgent, finish: str
) -> None:
    provider.script = says(completion('{"reply": "Zü', finish=finish))
    assert type(await failing(make_openai(), in_workflow=True)) is AgentUnavailable


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        (delta(refusal="I cannot ") + delta(refusal="do that") + delta(finish="stop"), "I cannot do that"),
        (delta("well") + delta(finish="content_filter"), "content_filter"),
    ],
)
async def test_a_refusal_is_rejected(provider: Provider, make_openai: MakeAgent, chunks: bytes, words: str) -> None:
    provider.script = says(chunks + DONE)
    error = await failing(make_openai())
    assert type(error) is AgentRejected
    assert error.said == words


def silent_after(provider: Provider, *chunks: bytes) -> Script:
    async def script(request: Request, wire: Wire) -> None:
        if chunks:
            await wire.head(content_type=SSE)
        for chunk in chunks:
            await wire.chunk(chunk)
        await provider.waits(wire)

    return script


@pytest.mark.parametrize(
    "chunks", [(), (b": hello\n\n",), (delta("half"),)], ids=["no first byte", "no first event", "a stall"]
)
async def test_silence_is_a_timeout_and_closes_the_connection(
    provider: Provider, make_openai: MakeAgent, chunks: tuple[bytes, ...]
) -> None:
    provider.script = silent_after(provider, *chunks)
    assert type(await failing(make_openai(timeout=SHORT_S))) is AgentTimeout
    await until(lambda: provider.open == 0)


async def test_a_stream_that_never_ends_is_a_timeout(provider: Provider, make_openai: MakeAgent) -> None:
    """Something comes all the time, so no silence is ever too long: the whole is."""

    async def drip(request: Request, wire: Wire) -> None:
        await wire.head(content_type=SSE)
        while True:
            await wire.chunk(delta("."))
            await asyncio.sleep(0.01)

    provider.script = drip
    assert type(await failing(make_openai(timeout=SHORT_S))) is AgentTimeout
    await until(lambda: provider.open == 0)
