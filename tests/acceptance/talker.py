"""A process that talks in conversations, as it is told by JSON lines: `talker.py URL NAMESPACE`.

Its agent takes a moment, and collects one field for each message: so the state tells which messages are in it. It ends
when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
from collections.abc import AsyncIterator
from typing import Any

from inturn import InTurn
from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.visitors.graph.walk import ToolContext
from inturn.visitors.responder import VisitorResponder
from inturn.workflows.definition.load import default_definition
from inturn.workflows.loop import Loop, Utterance, build_contextual_query, ignore
from inturn.workflows.orchestrator import WorkflowOrchestrator
from inturn.workflows.parse import parse_turn
from inturn.workflows.plain_state import RedisWorkflowStateStore
from tests.acceptance.actor import say
from tests.acceptance.looks import PATIENT
from tests.acceptance.processes import Child, Processes

PROCESSES = 5
TURNS = 50
WORDS = [f"w{number}" for number in range(TURNS)]


def talkers(processes: Processes, url: str, namespace: str) -> list[Child]:
    children = [processes.run("talker", url, namespace) for _ in range(PROCESSES)]
    for child in children:
        child.hears("ready")
    return children


class NotingAgent:
    """Collects a field for each line of what it is told."""

    name = "noting"

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        await asyncio.sleep(random.uniform(0.001, 0.01))
        yield Activity.piece("Noted")
        data = {line: os.getpid() for line in ask.text.splitlines()}
        yield Activity.said("Noted.", value={"data": data, "nextAction": "ask"})

    async def aclose(self) -> None:
        """It holds nothing."""


class Talker:
    def __init__(self, app: InTurn, url: str) -> None:
        self._url = url
        self._orchestrator = WorkflowOrchestrator(app, NotingAgent())
        self._loop = Loop(NotingAgent(), parse_turn, build_contextual_query, 10.0)
        self._responder = VisitorResponder(app, NotingAgent(), tools={"note": self._note})
        self._goes_on = asyncio.Event()
        self._visits: list[asyncio.Task[None]] = []
        self._skips = Lines()
        logging.getLogger("inturn.visitors").addHandler(self._skips)

    async def do_turns(self, conversation: str, words: list[str]) -> None:
        """All of them at once; says which were answered, and how the others were refused."""

        async def one(word: str) -> tuple[str, str]:
            try:
                response = await self._orchestrator.process_turn(conversation, word, word)
            except Exception as error:  # noqa: BLE001 - whatever it is, the test judges it
                return word, type(error).__name__
            assert word in response.workflow_state.collected_data, response
            return word, "answered"

        say("turns", ended=dict(await asyncio.gather(*map(one, words))))

    async def do_unguarded(self, conversation: str, words: list[str]) -> None:
        """The same loop over the plain layout, as people write it: get, ask, merge, set.

        All of them have read the state before one of them sets it, however the machine runs them.
        """
        from redis.asyncio import Redis  # slow to import, and few talkers need it

        meet = asyncio.Barrier(len(words))
        async with Redis.from_url(self._url) as client:
            store = RedisWorkflowStateStore(client)

            async def one(word: str) -> tuple[str, str]:
                state = await store.get(conversation)
                assert state is not None
                await meet.wait()
                await self._loop.run(state, default_definition(), Utterance(word), ignore)
                await store.set(conversation, state)
                return word, "answered"

            say("unguarded", ended=dict(await asyncio.gather(*map(one, words))))

    async def do_visits(self, project: str, visitor: str, words: list[str], held: bool) -> None:
        """All of them at once, in the background. `held`: whoever answers waits until it is told to go on."""
        self._goes_on = asyncio.Event()
        if not held:
            self._goes_on.set()

        async def one(word: str) -> None:
            event = {"conversation_id": f"chat-of-{visitor}", "project_id": project, "visitor_uid": visitor}
            answer = await self._responder.handle_visitor_message({**event, "message_id": word, "text": word})
            say("visited", word=word, is_answered=answer is not None)

        self._visits = [asyncio.create_task(one(word)) for word in words]

    async def do_go_on(self) -> None:
        self._goes_on.set()
        await asyncio.gather(*self._visits)
        say("gone", skips=self._skips.lines)

    async def _note(self, arguments: dict[str, Any], context: ToolContext) -> None:
        """A tool that takes a moment, between reading the workflow's state and its being saved."""
        await asyncio.sleep(random.uniform(0.001, 0.01))
        await self._goes_on.wait()
        context.fields.update(dict.fromkeys(context.texts, os.getpid()))


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "skipped" in record.getMessage():
            self.lines.append(record.getMessage())


async def main() -> None:
    url, namespace = sys.argv[1:]
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with InTurn(url, namespace=namespace, settings=PATIENT) as app:
        talker = Talker(app, url)
        say("ready")
        while line := await reader.readline():
            told: dict[str, Any] = json.loads(line)
            await getattr(talker, f"do_{told.pop('do')}")(**told)


if __name__ == "__main__":
    asyncio.run(main())
