"""Tools of a graph: what they get, what they give, and what they may not do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import InTurn
from inturn.errors import BadMessage, DefinitionError, TooLarge
from inturn.visitors.graph.model import load_graph
from inturn.visitors.graph.walk import ToolContext
from inturn.visitors.projects import ProjectSettings
from inturn.visitors.responder import VisitorResponder
from tests.visitors.graph.graphs import START, edges, graph, node, state, talk
from tests.visitors.world import Recorder, chat_of, outcomes, said, set_up


@pytest.mark.parametrize("is_async", [True, False])
async def test_tools_get_fields_and_give_them(app: InTurn, agent: Recorder, is_async: bool) -> None:
    seen: list[Any] = []

    def look_up(arguments: dict[str, Any], context: ToolContext) -> Any:
        seen.append((arguments, context.text, context.conversation_id, context.visitor_uid, context.fence > 0))
        return {"total": 12.5, "items": ["tea"]}

    async def look_up_async(arguments: dict[str, Any], context: ToolContext) -> Any:
        return look_up(arguments, context)

    find = node("t", "tool", tool="orders", arguments={"who": "{name}", "deep": ["Mr {name}", 5]}, save_as="found")
    check = node("again", "tool", tool="orders", arguments={"found": "{found}"})
    tell = node("tell", "message", text="{found} {missing} {}")
    name = node("name", "message", text="Name?", wait=True, save_as="name")
    ways = graph([name, find, check, tell], "s > name", "name > t", "t > again", "again > tell", "tell > e")
    responder = VisitorResponder(app, agent, tools={"orders": look_up_async if is_async else look_up})
    await set_up(responder, graph=ways)
    told = await talk(responder, "hi", "Ada")
    assert [each[0] for each in seen] == [
        {"who": "Ada", "deep": ["Mr Ada", 5]},
        {"found": {"total": 12.5, "items": ["tea"]}},
    ]
    assert seen[0][1:] == ("Ada", "c1", "v1", True)
    assert told[-1] == '{"total":12.5,"items":["tea"]} {missing} {}'


async def test_a_tools_error_is_raised_and_nothing_is_saved(app: InTurn, agent: Recorder) -> None:
    async def fail(arguments: dict[str, Any], context: ToolContext) -> None:
        context.fields["half"] = True
        raise ZeroDivisionError("of the tool")

    responder = VisitorResponder(app, agent, tools={"fail": fail, "odd": lambda arguments, context: object()})
    await set_up(responder, graph=graph([node("t", "tool", tool="fail")], "s > t", "t > e"))
    with pytest.raises(ZeroDivisionError, match="of the tool"):
        await responder.handle_visitor_message(said(1))
    assert (await chat_of(responder)).metadata == {}
    unknown = graph([node("t9", "tool", tool="gone")], "s > t9", "t9 > e")
    await responder.projects.put("p1", ProjectSettings(graph=unknown))
    with pytest.raises(DefinitionError, match=r"node 't9': no tool 'gone'.*fail, odd"):
        await responder.handle_visitor_message(said(1))
    odd = graph([node("t9", "tool", tool="odd", save_as="x")], "s > t9", "t9 > e")
    await responder.projects.put("p1", ProjectSettings(graph=odd))
    with pytest.raises(BadMessage, match="node 't9': the tool 'odd'"):
        await responder.handle_visitor_message(said(1))


async def test_a_message_that_a_tool_cannot_take_does_not_hold_up_the_next(app: InTurn, agent: Recorder) -> None:
    def count(arguments: dict[str, Any], context: ToolContext) -> int:
        return int(context.text)

    ways = graph([node("t", "tool", tool="count", save_as="n"), node("m", "message", text="{n}")],
                 "s > t", "t > m", "m > e")  # fmt: skip
    responder = VisitorResponder(app, agent, tools={"count": count})
    await set_up(responder, graph=ways)
    with pytest.raises(ValueError, match="many"):
        await responder.handle_visitor_message(said(1, "many"))
    answer = await responder.handle_visitor_message(said(2, "5"))
    assert answer is not None
    assert (answer.text, answer.answers) == ("5", ("m2",))
    assert await outcomes(responder) == {"m1": "failed", "m2": "answered"}


async def test_what_the_visitor_wrote_stands_in_texts_and_arguments(app: InTurn, agent: Recorder) -> None:
    def echo(arguments: dict[str, Any], context: ToolContext) -> Any:
        context.fields["text"] = "not what the visitor wrote"
        return arguments

    ways = graph(
        [
            node("t", "tool", tool="echo", arguments={"q": "{text}", "deep": ["<{text}>"]}, save_as="got"),
            node("m", "message", text="You wrote {text}. {got}"),
            node("ai", "ai", instructions="About {text}.", wait=False),
        ],
        "s > t", "t > m", "m > ai", "ai > e",
    )  # fmt: skip
    responder = VisitorResponder(app, agent, tools={"echo": echo})
    await set_up(responder, graph=ways)
    (told,) = await talk(responder, "{got} {text}")
    assert told is not None
    assert told.startswith('You wrote {got} {text}. {"q":"{got} {text}","deep":["<{got} {text}>"]}')
    assert agent.asked[0].instructions == "About {got} {text}."


async def test_tools_get_copies(app: InTurn, agent: Recorder) -> None:
    kept: list[Any] = []

    def change_all(arguments: dict[str, Any], context: ToolContext) -> None:
        arguments["list"].append("by its arguments")
        arguments["more"].append("by its arguments")
        kept.append(context.fields)

    change = node("t", "tool", tool="change", arguments={"list": "{list}", "more": ["x"]})
    responder = VisitorResponder(app, agent, tools={"change": change_all})
    nodes = [START, change, node("ai", "ai")]
    await set_up(responder, graph=load_graph({"nodes": nodes, "edges": edges("s > t", "t > ai", "ai > t")}))
    await responder.conversations.merge_metadata("c1", {"workflow_state": {"fields": {"list": ["a"]}}})
    agent.hold()
    talking = asyncio.create_task(talk(responder, "hi"))
    await agent.reached.wait()
    kept[0]["late"] = "of a tool that goes on"
    agent.opened.set()
    await talking
    await talk(responder, "again")
    assert (await state(responder))["fields"] == {"list": ["a"]}
    project = await responder.projects.get("p1")
    assert project is not None
    assert project.graph is not None
    assert project.graph.model_dump()["nodes"][1]["arguments"]["more"] == ["x"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("half \ud83d", "half ?"), (float("nan"), None), ({1: 2}, {"1": 2}), ({3}, [3]), (10**30, str(10**30)),
        (object(), BadMessage), (10**200, BadMessage), ([[[]]] * 3000, BadMessage),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["returned", "put into its fields"])
async def test_odd_values_of_tools_are_kept_as_json_or_refused_with_the_node(
    app: InTurn, agent: Recorder, given: Any, kept: Any, how: str
) -> None:
    def odd(arguments: dict[str, Any], context: ToolContext) -> Any:
        if how != "returned":
            context.fields["odd"] = given
        return given if how == "returned" else None

    named = {"save_as": "odd"} if how == "returned" else {}
    responder = VisitorResponder(app, agent, tools={"odd": odd})
    await set_up(responder, graph=graph([node("t", "tool", tool="odd", **named)], "s > t", "t > e"))
    if kept is BadMessage:
        with pytest.raises(BadMessage, match=f"node 't': the tool 'odd' {how}"):
            await talk(responder, "hi")
    else:
        await talk(responder, "hi")
        assert (await state(responder))["fields"] == {"odd": kept}


async def test_a_tool_that_gives_too_much_names_the_field(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent, tools={"big": lambda arguments, context: "x" * 600_000})
    big = graph([node("t", "tool", tool="big", save_as="got")], "s > t", "t > e")
    await set_up(responder, graph=big)
    with pytest.raises(TooLarge, match=r"workflow_state\.fields\.got"):
        await talk(responder, "hi")
    await responder.conversations.set_ai_enabled("c1", False)
    await responder.submit_visitor_message(said(9))


async def test_a_tool_may_hand_the_conversation_over_and_the_graph_says_so(app: InTurn, agent: Recorder) -> None:
    async def hand_over(arguments: dict[str, Any], context: ToolContext) -> None:
        await responder.conversations.set_ai_enabled(context.conversation_id, False)

    ways = graph([node("t", "tool", tool="hand_over"), node("m", "message", text="A colleague will answer.")],
                 "s > t", "t > m", "m > e")  # fmt: skip
    responder = VisitorResponder(app, agent, tools={"hand_over": hand_over})
    await set_up(responder, graph=ways)
    answer = await responder.handle_visitor_message(said(1))
    assert answer is not None
    assert answer.text == "A colleague will answer."
    assert await responder.handle_visitor_message(said(2)) is None, "from now on a human does"
