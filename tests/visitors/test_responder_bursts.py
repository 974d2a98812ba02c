"""Many messages at once from several sides, under every policy: nothing is lost, and nothing is answered twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn.errors import LaneBusy
from inturn.testing import drain
from inturn.visitors.responder import VisitorResponder
from tests.conftest import MakeApp
from tests.visitors.world import SKIPPED, Recorder, answers, chat_of, outcomes, said, set_up

COUNT = 24


async def told_to(responder: VisitorResponder) -> list[str]:
    return [message_id for _, ids in await answers(responder) for message_id in ids]


@pytest.mark.parametrize("busy", ["merge", "queue", "interrupt", "rollback", "latest"])
@pytest.mark.parametrize("how", ["awaited", "submitted", "both"])
async def test_every_message_comes_to_one_end(make_app: MakeApp, agent: Recorder, busy: str, how: str) -> None:
    responders = [VisitorResponder(make_app(), agent) for _ in range(3)]
    await set_up(responders[0], busy=busy)

    async def send(number: int) -> Any:
        responder = responders[number % 3]
        if how == "awaited" or (how == "both" and number % 2):
            return await responder.handle_visitor_message(said(number))
        return await responder.submit_visitor_message(said(number))

    workers = [asyncio.create_task(responder.app.run(2, 5)) for responder in responders if how != "awaited"]
    try:
        async with asyncio.timeout(45):
            await asyncio.gather(*map(send, range(COUNT)))
            while None in (await outcomes(responders[0])).values():  # noqa: ASYNC110 - workers answer them
                await asyncio.sleep(0.01)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    ends = await outcomes(responders[0])
    answered = await told_to(responders[0])
    assert len(ends) == COUNT
    assert len(answered) == len(set(answered)), "nothing was answered twice"
    assert set(answered) == {message_id for message_id, end in ends.items() if end == "answered"}
    replaces = busy in ("latest", "rollback")
    assert set(ends.values()) <= ({"answered", "superseded"} if replaces else {"answered"})
    last = max((m for m in (await chat_of(responders[0])).messages if m.role == "visitor"), key=lambda m: m.seq)
    assert last.outcome == "answered"


async def test_under_drop_one_runs_and_every_other_logs_the_line(
    make_app: MakeApp, agent: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    responders = [VisitorResponder(make_app(), agent) for _ in range(3)]
    await set_up(responders[0], busy="drop")
    agent.hold()
    first = asyncio.create_task(responders[0].handle_visitor_message(said(0)))
    await agent.reached.wait()
    others = [responders[n % 3].handle_visitor_message(said(n)) for n in range(1, COUNT)]
    assert await asyncio.gather(*others) == [None] * (COUNT - 1)
    agent.opened.set()
    assert await first is not None
    assert [record.getMessage() for record in caplog.records].count(SKIPPED) == COUNT - 1
    ends = list((await outcomes(responders[0])).values())
    assert ends.count("dropped") == COUNT - 1, "and the chat says so at once"
    assert agent.texts == ["text 0"]


async def test_under_reject_each_is_answered_or_refused(make_app: MakeApp, agent: Recorder) -> None:
    responders = [VisitorResponder(make_app(), agent) for _ in range(3)]
    await set_up(responders[0], busy="reject")
    asked = [responders[n % 3].handle_visitor_message(said(n)) for n in range(COUNT)]
    told = await asyncio.gather(*asked, return_exceptions=True)
    refused = [each for each in told if isinstance(each, LaneBusy)]
    ends = await outcomes(responders[0])
    assert len(ends) + len(refused) == COUNT
    assert set(ends.values()) == {"answered"}
    assert await drain(responders[0].app) == []
