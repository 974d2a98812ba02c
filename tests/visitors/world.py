"""Agents that tell what they were asked, and what tests of visitors say again and again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from inturn import InTurn
from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.testing import ManualClock, drain
from inturn.visitors.chat import Chat, NewAnswer, Outcome, VisitorState
from inturn.visitors.conversations import CHAT_TTL_S
from inturn.visitors.message import VisitorMessage
from inturn.visitors.projects import ProjectSettings
from inturn.visitors.responder import VisitorResponder

AT = "2030-01-01T00:00:00+00:00"
SKIPPED = "Message processing skipped, lock held for visitor v1"


class Recorder:
    """Answers with what `reply` makes of the question, once its gate is open."""

    name = "recorder"

    def __init__(self, reply: Callable[[Ask], str] = lambda ask: f"re: {ask.text}") -> None:
        self.reply = reply
        self.asked: list[Ask] = []
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.opened.set()
        self.cancelled = 0
        self.activities: Sequence[Activity] = ()
        """Yielded before the reply."""

    def hold(self) -> None:
        self.reached.clear()
        self.opened.clear()

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        self.asked.append(ask)
        self.reached.set()
        for activity in self.activities:
            yield activity
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        yield Activity.said(self.reply(ask))

    async def aclose(self) -> None: ...

    @property
    def texts(self) -> list[str]:
        return [ask.text for ask in self.asked]


def said(number: int | str, text: str = "", **more: Any) -> VisitorMessage:
    fields = {"conversation_id": "c1", "project_id": "p1", "visitor_uid": "v1"} | more
    return VisitorMessage(message_id=f"m{number}", text=text or f"text {number}", **fields)


async def set_up(responder: VisitorResponder, *conversations: str, **settings: Any) -> None:
    """Project p1 with these settings, and visitor v1's conversations (c1)."""
    await responder.projects.put("p1", ProjectSettings(**settings))
    for conversation in conversations or ("c1",):
        await responder.conversations.open(conversation, "p1", "v1")


async def chat_of(responder: VisitorResponder, conversation: str = "c1") -> Chat:
    chat = await responder.conversations.get(conversation)
    assert chat is not None
    return chat


async def outcomes(responder: VisitorResponder, conversation: str = "c1") -> dict[str, str | None]:
    chat = await chat_of(responder, conversation)
    settled: dict[str, str | None] = {m.id: m.outcome for m in chat.messages if m.role == "visitor"}
    return settled | {message.id: message.outcome for message in chat.waiting}


async def answers(responder: VisitorResponder, conversation: str = "c1") -> list[tuple[str, list[str]]]:
    chat = await chat_of(responder, conversation)
    return [(message.text, message.answers) for message in chat.messages if message.role == "assistant"]


async def every_attempt(app: InTurn, hands: ManualClock, times: int = 5) -> list[str]:
    """Run what is there and what is tried again, so many times. Answers how each attempt ended."""
    ended: list[str] = []
    for _ in range(times):
        ended += [ran.outcome for ran in await drain(app)]
        hands.advance(120)
    return ended


@contextlib.asynccontextmanager
async def working(app: InTurn) -> AsyncIterator[None]:
    """A worker for as long as the block lasts. It finishes what it has begun: what a turn that is cut off has done to
    a list of the test, the next would do again.
    """
    task = asyncio.create_task(app.run(10, 5))
    try:
        yield
    finally:
        for worker in list(app.runtime.workers):
            await worker.finish()
        task.cancel()  # if it has not come to work yet
        with contextlib.suppress(asyncio.CancelledError):
            await task


def filled_chat(count: int, text: str = "x") -> Chat:
    """A chat of messages that nobody answered."""
    chat = Chat(conversation_id="c1", project_id="p1", visitor_uid="v1")
    for number in range(count):
        chat.take_in(said(number, text), AT)
        chat.settle({f"m{number}": "unanswered"}, AT)
    return chat


async def written(
    responder: VisitorResponder, *messages: tuple[VisitorMessage, Outcome], by_graph: bool = False
) -> None:
    """These messages are in chat c1, with these outcomes. `by_graph`: an answered one was answered by a graph."""
    async with responder.app.turn("visitor:v1", state=VisitorState, state_ttl=CHAT_TTL_S) as turn:
        chat = turn.state.find("c1", "") or Chat(conversation_id="c1", project_id="p1", visitor_uid="v1")
        for message, outcome in messages:
            chat.take_in(message, AT)
            answer = NewAnswer(f"a-{message.message_id}", "Hello", AT, (message.message_id,), "graph")
            chat.settle({message.message_id: outcome}, AT, answer if by_graph and outcome == "answered" else None)
        turn.state.keep(chat)
