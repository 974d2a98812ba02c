"""Bursts of 50 messages of one visitor at once, from several processes: what becomes of `metadata.workflow_state`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import InTurn
from inturn.visitors.chat import Chat
from inturn.visitors.projects import LaneProjects, ProjectSettings
from inturn.visitors.responder import VisitorResponder
from tests.acceptance.looks import PATIENT
from tests.acceptance.processes import Child, Processes
from tests.acceptance.talker import PROCESSES, TURNS, WORDS, NotingAgent, talkers
from tests.waiting import until

VISITOR, PROJECT = "v1", "shop"
SKIPPED = f"Message processing skipped, lock held for visitor {VISITOR}"
GRAPH = {
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "note", "type": "tool", "tool": "note"},
        {"id": "noted", "type": "message", "text": "Noted.", "wait": True},
    ],
    "edges": [
        {"source": "start", "target": "note"},
        {"source": "note", "target": "noted"},
        {"source": "noted", "target": "note"},
    ],
}


async def opened(app: InTurn, busy: str) -> VisitorResponder:
    settings = ProjectSettings.model_validate({"enabled": True, "busy": busy, "graph": GRAPH})
    await LaneProjects(app).put(PROJECT, settings)
    responder = VisitorResponder(app, NotingAgent())
    await responder.conversations.open(f"chat-of-{VISITOR}", PROJECT, VISITOR)
    return responder


def visit(children: list[Child], *, held: bool) -> None:
    for number, child in enumerate(children):
        child.tell("visits", project=PROJECT, visitor=VISITOR, words=WORDS[number::PROCESSES], held=held)


def visited(child: Child) -> dict[str, Any]:
    return child.hears("visited", within=60)


async def chat_of(responder: VisitorResponder) -> Chat:
    chat = await responder.conversations.get(f"chat-of-{VISITOR}")
    assert chat is not None
    return chat


@pytest.mark.parametrize("busy", ["merge", "queue"])
async def test_no_field_of_a_burst_is_lost(busy: str, processes: Processes, store_url: str, namespace: str) -> None:
    async with InTurn(store_url, namespace=namespace, settings=PATIENT) as app:
        responder = await opened(app, busy)
        children = talkers(processes, store_url, namespace)
        visit(children, held=False)
        ended = [visited(child) for child in children for _ in range(TURNS // PROCESSES)]
        chat = await chat_of(responder)
        assert all(end["is_answered"] for end in ended)
        assert set(chat.metadata["workflow_state"]["fields"]) == set(WORDS)
        answers = [message for message in chat.messages if message.role == "assistant"]
        assert sorted(word for answer in answers for word in answer.answers) == sorted(WORDS)
        assert len(answers) == TURNS if busy == "queue" else len(answers) < TURNS


async def test_under_drop_exactly_one_runs_and_each_other_logs_that_it_was_skipped(
    processes: Processes, store_url: str, namespace: str
) -> None:
    async with InTurn(store_url, namespace=namespace, settings=PATIENT) as app:
        responder = await opened(app, "drop")
        children = talkers(processes, store_url, namespace)
        visit(children, held=True)
        await until_all_but_one_were_dropped(responder)
        for child in children:
            child.tell("go_on")
        lines = [line for child in children for line in child.hears("gone", within=60)["skips"]]
        assert lines == [SKIPPED] * (TURNS - 1)
        ended = [visited(child) for child in children for _ in range(TURNS // PROCESSES)]
        assert sum(end["is_answered"] for end in ended) == 1

        async def is_noted() -> bool:
            """Whoever has answered goes on with what was dropped."""
            return not (await chat_of(responder)).waiting

        await until(is_noted)
        chat = await chat_of(responder)
        assert len(chat.metadata["workflow_state"]["fields"]) == 1
        outcomes = sorted(str(message.outcome) for message in chat.messages if message.role == "visitor")
        assert outcomes == ["answered"] + ["dropped"] * (TURNS - 1)


async def until_all_but_one_were_dropped(responder: VisitorResponder) -> None:
    """The one that runs is held meanwhile."""
    async with asyncio.timeout(60):
        while sum(m.outcome == "dropped" for m in (await chat_of(responder)).waiting) < TURNS - 1:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
