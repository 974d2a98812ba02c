"""Walking a project's graph under the visitor's turn: fields, ways, tools, depth, and what a visitor writes."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn import InTurn
from inturn.errors import AgentUnavailable, GraphTooDeep, TooLarge
from inturn.http.problems import CATALOGUE
from inturn.testing import drain
from inturn.visitors.graph.model import load_graph
from inturn.visitors.graph.walk import MAX_ANSWER, MAX_STEPS, OPERATORS, ToolContext, Walk, fill_text, fill_value
from inturn.visitors.projects import ProjectSettings
from inturn.visitors.responder import VisitorResponder
from tests.conftest import MakeApp
from tests.visitors.graph.graphs import START, edges, graph, node, state, talk
from tests.visitors.world import Recorder, answers, chat_of, outcomes, said, set_up

INTAKE = graph(
    [
        node("name", "message", text="Your name?", wait=True, save_as="name"),
        node("what", "message", text="Hello {name}. Order or return?", wait=True, save_as="what"),
        node("w", "switch", field="what", cases=["order", "return"]),
        node("order", "message", text="We look for your order."),
        node("return", "ai", instructions="Explain returns to {name}.", save_as="explained", wait=False),
        node("again", "message", text="Please say order or return."),
    ],
    "s > name", "name > what", "what > w", "w > order : order", "w > return : return", "w > again : default",
    "order > e", "return > e", "again > what",
)  # fmt: skip


async def test_it_rests_resumes_branches_and_ends(make_app: MakeApp, agent: Recorder) -> None:
    first, second = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(first, graph=INTAKE)
    assert await talk(first, "hi") == ["Your name?"]
    assert await state(first) == {"node": "name", "fields": {}, "done": False}
    assert await talk(second, "Ada") == ["Hello Ada. Order or return?"]
    assert await talk(first, "banana") == ["Please say order or return.\n\nHello Ada. Order or return?"]
    assert await talk(second, " ORDER ") == ["We look for your order."]
    assert await state(first) == {"node": None, "fields": {"name": "Ada", "what": " ORDER "}, "done": True}
    assert await talk(first, "again") == ["Your name?"], "after the end it starts again"
    assert (await state(first))["fields"] == {}
    assert agent.asked == []
    assert {message.agent for message in (await chat_of(first)).messages} == {"", "graph"}


async def test_an_ai_node_asks_the_agent(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder, graph=INTAKE, instructions="Be kind.")
    assert (await talk(responder, "hi", "Ada", "return"))[-1] == "re: return"
    (ask,) = agent.asked
    assert ask.instructions == "Be kind.\n\nExplain returns to Ada."
    assert ask.text == "return"
    assert (await state(responder))["fields"]["explained"] == "re: return"
    assert (await chat_of(responder)).messages[-1].agent == "recorder"


async def test_an_ai_node_that_leads_to_itself_is_a_chat(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    chat = load_graph({"nodes": [START, node("ai", "ai")], "edges": edges("s > ai", "ai > ai")})
    await set_up(responder, graph=chat)
    assert await talk(responder, "one", "two", "three") == ["re: one", "re: two", "re: three"]


async def test_a_burst_is_walked_once(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder, graph=INTAKE)
    for number, text in enumerate(("hi", "are you there")):
        await responder.submit_visitor_message(said(number, text))
    await drain(app, raise_errors=True)
    assert await answers(responder) == [("Your name?", ["m0", "m1"])]


@pytest.mark.parametrize("busy", ["queue", "merge"])
async def test_no_field_of_a_burst_is_lost(make_app: MakeApp, agent: Recorder, busy: str) -> None:
    def note(arguments: dict[str, Any], context: ToolContext) -> str:
        for message_id, text in zip(context.message_ids, context.texts, strict=True):
            context.fields[message_id] = text
        return "noted"

    nodes = [START, node("t", "tool", tool="note"), node("m", "message", text="noted", wait=True)]
    keep = load_graph({"nodes": nodes, "edges": edges("s > t", "t > m", "m > t")})
    responders = [VisitorResponder(make_app(), agent, tools={"note": note}) for _ in range(3)]
    await set_up(responders[0], graph=keep, busy=busy)
    await asyncio.gather(*(responders[n % 3].handle_visitor_message(said(n)) for n in range(15)))
    assert (await state(responders[0]))["fields"] == {f"m{n}": f"text {n}" for n in range(15)}


async def test_what_someone_else_edits_in_the_fields_survives(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    ways = graph([node("ai", "ai", save_as="said"), node("m", "message", text="x")], "s > ai", "ai > m", "m > e")
    await set_up(responder, graph=ways)
    await responder.conversations.merge_metadata("c1", {"workflow_state": {"fields": {"a": 1}, "by": 9}})
    agent.hold()
    talking = asyncio.create_task(talk(responder, "hi"))
    await agent.reached.wait()
    await responder.conversations.merge_metadata("c1", {"workflow_state": {"fields": {"vip": True}}, "crm": "anna"})
    agent.opened.set()
    await talking
    metadata = (await chat_of(responder)).metadata
    assert (metadata["crm"], metadata["workflow_state"]["by"]) == ("anna", 9)
    assert metadata["workflow_state"]["fields"] == {"a": 1, "vip": True, "said": "re: hi"}


async def test_a_way_without_rest_is_too_deep(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    nodes = [START, node("a", "message", text="x"), node("b", "message", text="y")]
    await set_up(responder, graph=load_graph({"nodes": nodes, "edges": edges("s > a", "a > b", "b > a")}))
    with pytest.raises(GraphTooDeep) as deep:
        await responder.handle_visitor_message(said(1))
    assert deep.value.path[:3] == ["s", "a", "b"]
    assert len(deep.value.path) == 21
    assert await outcomes(responder) == {"m1": "failed"}
    assert (await chat_of(responder)).metadata == {}


def test_the_documented_problem_names_the_real_limit() -> None:
    assert f"more than {MAX_STEPS} nodes" in CATALOGUE["graph-too-deep"].detail


async def test_twenty_nodes_are_not_too_deep(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    names = [f"n{number}" for number in range(18)]
    ways = [f"{a} > {b}" for a, b in zip(["s", *names], [*names, "e"], strict=True)]
    await set_up(responder, graph=graph([node(name, "message", text=name) for name in names], *ways))
    (told,) = await talk(responder, "go")
    assert told == "\n\n".join(names)


async def test_an_agents_error_in_a_walk_leaves_the_position(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder, graph=INTAKE)
    await talk(responder, "hi", "Ada")
    before = await state(responder)

    def fail(ask: object) -> str:
        raise AgentUnavailable("recorder", "is away")

    agent.reply = fail
    with pytest.raises(AgentUnavailable):
        await talk(responder, "return")
    assert await state(responder) == before


async def test_a_graph_that_changed_underneath_starts_again(
    app: InTurn, agent: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder, graph=INTAKE)
    await talk(responder, "hi")
    other = graph([node("new", "message", text="All new", wait=True)], "s > new", "new > e")
    await responder.projects.put("p1", ProjectSettings(graph=other))
    assert await talk(responder, "Ada") == ["All new"]
    assert "starting again" in caplog.text


async def test_a_walk_that_says_nothing_moves_all_the_same(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent, tools={"log": lambda arguments, context: "kept"})
    await set_up(responder, graph=graph([node("t", "tool", tool="log", save_as="x")], "s > t", "t > e"))
    assert await talk(responder, "hi") == [None]
    assert await state(responder) == {"node": None, "fields": {"x": "kept"}, "done": True}
    assert list((await outcomes(responder)).values()) == ["unanswered"]


async def test_what_a_visitor_writes_is_no_template(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder, graph=INTAKE)
    assert (await talk(responder, "hi", "{what} {name} %s {0.__class__}"))[-1] == (
        "Hello {what} {name} %s {0.__class__}. Order or return?"
    )


@given(st.text(), st.text())
def test_whatever_a_field_holds_comes_out_as_it_is(one: str, other: str) -> None:
    fields = {"one": one, "other": other}
    assert fill_text("<{one}|{other}|{none}>", fields, 10_000) == f"<{one}|{other}|{{none}}>"
    assert fill_value({"a": ["{one}"]}, fields, 10_000) == {"a": [one]}


@pytest.mark.parametrize(
    ("op", "value", "wanted", "is_so"),
    [
        ("equals", " Yes", "yes", True), ("equals", 5, "5", True), ("equals", None, "", False),
        ("equals", True, True, True), ("not_equals", None, "x", True), ("contains", "Hello", "ELL", True),
        ("contains", ["a", "b"], "B", True), ("contains", None, "x", False), ("exists", None, None, False),
        ("exists", "", None, False), ("exists", 0, None, True), ("greater", "12.5", 12, True),
        ("greater", "many", 1, False), ("less", "-3", 0, True), ("less", True, 5, False), ("less", None, 5, False),
        ("matches", "order 42", r"\d+", True), ("matches", None, ".*", False), ("greater", [1], 0, False),
    ],
)  # fmt: skip
def test_comparisons_never_raise(op: str, value: Any, wanted: Any, is_so: bool) -> None:
    assert OPERATORS[op](value, wanted) is is_so


@pytest.mark.timeout(60)
def test_no_pattern_takes_for_ever() -> None:
    """Each of these would keep an engine that backtracks busy for years."""
    text = "where is the order that I have made yesterday?!" * 20
    for pattern in (r"^(\w+\s?)*$", r"(a*)*b", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(x+x+)+y"):
        assert OPERATORS["matches"](text, pattern) is False
        OPERATORS["matches"]("a" * 5000, pattern)
    assert OPERATORS["matches"]("half \ud83d", "half") is False, "what is no text matches nothing"


async def test_others_have_their_turn_between_two_matches() -> None:
    steps = [node(f"c{n}", "condition", field="text", op="matches", value="a") for n in range(3)]
    ways = [f"c{n} > {then} : {way}" for n, then in enumerate(("c1", "c2", "e")) for way in ("true", "false")]

    async def ask(_: str) -> str:
        raise AssertionError("the graph has no ai node")

    walk = Walk(load_graph(graph(steps, "s > c0", *ways)), {}, "a", ask, {}, lambda _: None)  # type: ignore[arg-type, return-value]
    walking = asyncio.create_task(walk.go())
    seen: list[str] = []
    while not walking.done():
        await asyncio.sleep(0)
        seen.append(walk.path[-1])
    assert {"c0", "c1", "c2"} <= set(seen)


@given(st.text(max_size=40), st.text(max_size=40), st.integers(0, 200))
def test_filling_stops_at_the_limit_and_changes_nothing_before_it(text: str, value: str, most: int) -> None:
    template = f"{text}{{field}}{text}{{field}}"
    assert fill_text(template, {"field": value}, most) == fill_text(template, {"field": value}, 10_000)[:most]


async def test_a_message_that_is_named_a_thousand_times_is_not_multiplied(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder, graph=graph([node("m", "message", text="{text}" * 1300)], "s > m", "m > e"))
    tracemalloc.start()
    try:
        (answer,) = await talk(responder, "x" * 8000)
        assert answer == "x" * MAX_ANSWER
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


async def test_arguments_that_become_too_long_are_refused_and_name_their_node(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent, tools={"keep": lambda arguments, context: None})
    nodes = [node("t", "tool", tool="keep", arguments={"all": ["<{text}>"] * 1000})]
    await set_up(responder, graph=graph(nodes, "s > t", "t > e"))
    with pytest.raises(TooLarge, match="node 't': the arguments"):
        await talk(responder, "x" * 8000)
