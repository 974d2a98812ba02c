"""Every part of an orchestrator can be replaced, and what the agent writes is seen while it is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from inturn import workflows
from inturn.agents.activity import Activity, signed
from inturn.agents.protocol import Ask
from inturn.workflows import NormalizedMessage, ParsedTurn, WorkflowState
from tests.workflows.conftest import MakeOrchestrator, begin, collected
from tests.workflows.scripted import DEFINITION, Scripted, saying


async def test_a_parser_can_be_replaced(make: MakeOrchestrator) -> None:
    given: list[list[str]] = []

    def parser(messages: Sequence[NormalizedMessage]) -> ParsedTurn:
        given.append([message.text for message in messages])
        return ParsedTurn(kind="structured", data={"name": "by the parser"}, next_action="complete", prompt="Bye.")

    flow = make(Scripted(saying(Activity.said("one"), Activity.said("two"))), parts={"parser": parser})
    response = await flow.process_turn(await begin(flow), "x")
    assert given == [["one", "two"]]
    assert response.workflow_state.collected_data == {"name": "by the parser"}
    assert (response.workflow_state.status, response.workflow_state.last_recommendation) == ("completed", "Bye.")
    assert response.messages == []


async def test_data_of_a_parser_that_cannot_be_kept_is_told_and_left_out(
    make: MakeOrchestrator, agent: Scripted
) -> None:
    def parser(messages: Sequence[NormalizedMessage]) -> ParsedTurn:
        return ParsedTurn(kind="structured", data={"large": "x" * 60_000})

    flow = make(parts={"parser": parser})
    conversation = await begin(flow)
    response = await flow.process_turn(conversation, "x")
    assert response.turn_meta.collected_this_turn == {}
    assert any("collected data" in error for error in response.parsed_turn.errors)
    assert await collected(flow, conversation) == {}


async def test_a_context_builder_can_be_replaced(make: MakeOrchestrator, agent: Scripted) -> None:
    def builder(state: WorkflowState, text: str) -> str:
        return f"{state.turn_count}|{text}"

    flow = make(parts={"context_builder": builder})
    conversation = await begin(flow)
    await flow.process_turn(conversation, "a")
    await flow.process_turn(conversation, "b")
    assert [ask.query for ask in agent.asked] == ["0|a", "1|b"]
    assert agent.texts == ["a", "b"]


async def test_an_agent_can_be_any_object_that_yields_activities(make: MakeOrchestrator) -> None:
    class Plain:
        """No generator, but an iterator of its own."""

        name = "plain"

        def ask(self, ask: Ask) -> AsyncIterator[Activity]:
            return self

        def __init__(self) -> None:
            self._left = [Activity.said("hello")]

        def __aiter__(self) -> Plain:
            return self

        async def __anext__(self) -> Activity:
            if not self._left:
                raise StopAsyncIteration
            return self._left.pop()

        async def aclose(self) -> None: ...

    flow = make(Plain())
    response = await flow.process_turn(await begin(flow), "x")
    assert (response.agent, [message.text for message in response.messages]) == ("plain", ["hello"])


async def test_the_agent_that_signed_is_named_and_not_the_one_that_was_asked(make: MakeOrchestrator) -> None:
    flow = make(Scripted(saying(signed(Activity.said("x"), "the second"))))
    assert (await flow.process_turn(await begin(flow), "x")).agent == "the second"


async def test_an_agent_that_says_nothing_is_answered_with_nothing(make: MakeOrchestrator) -> None:
    flow = make(Scripted(saying({"type": "endOfConversation"})))
    response = await flow.process_turn(await begin(flow), "x")
    assert (response.messages, response.parsed_turn.kind, response.workflow_state.turn_count) == ([], "passthrough", 1)


PIECES = [Activity.piece("Hel"), Activity.piece("lo"), Activity.said("Hello")]


async def test_the_caller_hears_every_activity_as_it_comes(make: MakeOrchestrator) -> None:
    heard: list[tuple[str, str]] = []
    flow = make(Scripted(saying(*PIECES)))
    response = await flow.process_turn(
        await begin(flow), "x", on_activity=lambda activity: heard.append((activity.type, activity.text))
    )
    assert heard == [("typing", "Hel"), ("typing", "lo"), ("message", "Hello")]
    assert [message.text for message in response.messages] == ["Hello"]


async def test_a_repeat_hears_nothing(make: MakeOrchestrator) -> None:
    heard: list[Activity] = []
    flow = make(Scripted(saying(*PIECES)))
    conversation = await begin(flow)
    await flow.process_turn(conversation, "x", "m1")
    await flow.process_turn(conversation, "x", "m1", on_activity=heard.append)
    assert heard == []


async def test_whoever_watches_the_conversation_sees_the_pieces_in_any_process(make: MakeOrchestrator) -> None:
    restart = Activity(type="event", value={"restart": True})
    one, two = make(Scripted(saying(PIECES[0], restart, *PIECES))), make()
    conversation = await begin(one)
    seen: list[Any] = []
    async with two.app.watch(f"conversation:{conversation}") as events, asyncio.timeout(20):
        await one.process_turn(conversation, "x")
        async for event in events:
            seen.append(event.data if event.what == "chunk" else event.what)
            if event.what == "commit":
                break
    hel, lo = {"event": "token", "text": "Hel"}, {"event": "token", "text": "lo"}
    assert seen == ["begin", hel, {"event": "restart"}, hel, lo, "commit"]


async def test_several_processes_walk_one_conversation(make: MakeOrchestrator) -> None:
    one, two = make(), make()
    conversation = await begin(one)
    for number, flow in enumerate((one, two, one, two)):
        response = await flow.process_turn(conversation, f"n{number}=1")
    assert response.turn_meta.turn_number == 4
    assert list(response.workflow_state.collected_data) == ["n0", "n1", "n2", "n3"]
    assert response.progress.total_steps == len(DEFINITION.steps)


def test_the_names_that_people_look_for_are_there() -> None:
    names = [
        "WorkflowOrchestrator", "OrchestratorConfig", "WorkflowDefinition", "WorkflowState", "WorkflowResponse",
        "ParsedTurn", "NormalizedMessage", "build_contextual_query", "normalize_activities", "parse_turn",
        "WorkflowStateStore", "RedisWorkflowStateStore",
    ]  # fmt: skip
    assert [name for name in names if name not in workflows.__all__] == []
    assert all(hasattr(workflows, name) for name in names)
