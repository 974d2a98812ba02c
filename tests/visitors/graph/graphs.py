"""Graphs for tests, in few words, and a talk along one."""

from __future__ import annotations

from typing import Any

from inturn.visitors.graph.model import load_graph
from inturn.visitors.responder import VisitorResponder
from tests.visitors.world import chat_of, said


def node(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": kind, **more}


def edges(*pairs: str) -> list[dict[str, str]]:
    """`"a > b"`, or `"a > b : label"`."""
    made = []
    for pair in pairs:
        ends, _, label = pair.partition(" : ")
        source, _, target = ends.partition(" > ")
        made.append({"source": source, "target": target, "label": label})
    return made


START, END = node("s", "start"), node("e", "end")
RIGHT = {
    "nodes": [
        START,
        node("ask", "message", text="Your name?", wait=True, save_as="name"),
        node("c", "condition", field="text", op="matches", value="^[A-Z]"),
        node("w", "switch", field="name", cases=["Ada", "Ben"]),
        node("t", "tool", tool="look_up", arguments={"name": "{name}"}, save_as="found"),
        node("ai", "ai", instructions="Help {name}."),
        END,
    ],
    "edges": edges(
        "s > ask", "ask > c", "c > w : true", "c > ask : false", "w > t : Ada", "w > ai : Ben", "w > e : default",
        "t > ai", "ai > e",
    ),
}  # fmt: skip


def graph(nodes: list[dict[str, Any]], *ways: str) -> Any:
    return load_graph({"nodes": [START, *nodes, END], "edges": edges(*ways)})


async def talk(responder: VisitorResponder, *texts: str) -> list[str | None]:
    told = []
    for text in texts:
        number = len((await chat_of(responder)).messages)
        answer = await responder.handle_visitor_message(said(number, text))
        told.append(None if answer is None else answer.text)
    return told


async def state(responder: VisitorResponder) -> Any:
    return (await chat_of(responder)).metadata["workflow_state"]
