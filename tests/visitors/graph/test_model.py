"""A graph is checked when it is loaded, and whatever is wrong names its node."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from inturn.errors import DefinitionError
from inturn.visitors.graph.model import MAX_PROBLEMS, Graph, load_graph
from inturn.visitors.projects import ProjectSettings
from tests.visitors.graph.graphs import END, RIGHT, START, edges, node

DEEP: list[Any] = []
for _ in range(50):
    DEEP = [DEEP]


def test_a_right_one_is_loaded_from_json_or_a_mapping() -> None:
    graph = load_graph(RIGHT)
    assert graph == load_graph(json.dumps(RIGHT)) == Graph.model_validate(graph.model_dump(mode="json"))
    assert (graph.start, graph.next("w", "Ben")) == ("s", "ai")


@pytest.mark.parametrize(
    ("nodes", "ways", "problem"),
    [
        ([END], [], "no start node"),
        ([START, node("s2", "start"), END], ["s > e", "s2 > e"], "node 's2': is a second start"),
        ([START, END, END], ["s > e"], "node 'e': there are 2 nodes with this id"),
        ([START, END], ["s > nowhere"], "node 's': its edge '' leads to 'nowhere'"),
        ([START, END], ["s > e", "ghost > e"], "node 'ghost': an edge to 'e' starts there"),
        ([START, END], [], "node 's': has no edge, and only an end may lead nowhere"),
        ([START, END], ["s > e", "s > e"], "node 's': has 2 edges ''"),
        ([START, END], ["s > e", "e > s"], "node 'e': has an edge ''; a node of type end has none"),
        ([START, END, node("m", "message", text="hi")], ["s > e", "m > e"], "node 'm': cannot be reached from 's'"),
        ([START, END, node("m", "message", text="hi", save_as="x")], ["s > m", "m > e"], "node 'm': save_as keeps"),
        ([START, END, node("t", "tool", tool="x", save_as="text")], ["s > t", "t > e"], "node 't': save_as 'text'"),
        ([START, END, node("c", "condition", field="x", op="exists")], ["s > c", "c > e : true"],
         "node 'c': has no edge 'false'"),
        ([START, END, node("c", "condition", field="x", op="exists")],
         ["s > c", "c > e : true", "c > e : false", "c > e : perhaps"], "node 'c': has an edge 'perhaps'"),
        ([START, END, node("c", "condition", field="x", op="matches", value="(")],
         ["s > c", "c > e : true", "c > e : false"], "node 'c': value '(': is not a regular expression"),
        ([START, END, node("c", "condition", field="x", op="less", value="ten")],
         ["s > c", "c > e : true", "c > e : false"], "node 'c': value 'ten': less compares with a number"),
        ([START, END, node("c", "condition", field="x", op="matches", value="a(?=b)")],
         ["s > c", "c > e : true", "c > e : false"], "look-around, including look-ahead and look-behind, is not"),
        ([START, END, node("c", "condition", field="x", op="matches", value="a{1000}{1000}{1000}")],
         ["s > c", "c > e : true", "c > e : false"], "node 'c': value 'a{1000}{1000}{1000}': is not a regular"),
        ([START, END, node("c", "condition", field="x", op="equals", value=float("nan"))],
         ["s > c", "c > e : true", "c > e : false"], "node 'c': value: holds what is not plain JSON"),
        ([START, END, node("t", "tool", tool="x", arguments={"a": ["\ud83d"]})], ["s > t", "t > e"],
         "node 't': arguments: holds what is not plain JSON"),
        ([START, END, node("t", "tool", tool="x", arguments={"a": DEEP})], ["s > t", "t > e"],
         "node 't': arguments: is nested deeper than 24"),
        ([START, END, node("w", "switch", field="x", cases=["a"])], ["s > w", "w > e : a"],
         "node 'w': has no edge 'default'"),
        ([START, END, node("w", "switch", field="x", cases=[])], ["s > w", "w > e : default"],
         "node 'w': has 0 cases"),
        ([START, END, node("w", "switch", field="x", cases=[str(n) for n in range(11)])],
         ["s > w", "w > e : default", *(f"w > e : {n}" for n in range(11))], "node 'w': has 11 cases"),
        ([START, END, node("w", "switch", field="x", cases=["a", "A "])],
         ["s > w", "w > e : a", "w > e : A ", "w > e : default"], "node 'w': the case 'a' is listed twice"),
        ([START, END, node("w", "switch", field="x", cases=["default"])],
         ["s > w", "w > e : default"], "node 'w': a case must not be empty, and 'default'"),
        ([START, END, node("m", "message")], ["s > m", "m > e"], "node 'm': text: Field required"),
        ([START, END, node("m", "dance")], ["s > m", "m > e"], "node 'm': Input tag 'dance'"),
        ([START, {"type": "end"}], [], "node number 2: id: Field required"),
        ([START, END, node("m", "message", text="x", colour="red")], ["s > m", "m > e"], "node 'm': colour"),
    ],
)  # fmt: skip
def test_what_is_wrong_names_its_node(nodes: list[dict[str, Any]], ways: list[str], problem: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        load_graph({"nodes": nodes, "edges": edges(*ways)})
    assert any(told.startswith(problem) or problem in told for told in refused.value.problems), refused.value.problems


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(DefinitionError) as refused:
        load_graph({"nodes": [START, END, node("w", "switch", field="x", cases=[])], "edges": edges("s > gone")})
    assert len(refused.value.problems) == 3


@pytest.mark.parametrize("text", ["", "[", "[]", "{}", '{"nodes": 5}', '{"nodes": [5]}'])
def test_what_is_no_graph_at_all_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        load_graph(text)


def test_settings_with_a_wrong_graph_name_the_node_too() -> None:
    with pytest.raises(ValidationError, match="node 's': has no edge"):
        ProjectSettings.model_validate({"graph": {"nodes": [START, END]}})


def test_a_circle_without_rest_is_allowed_to_be_loaded() -> None:
    nodes = [START, node("m", "message", text="round")]
    assert load_graph({"nodes": nodes, "edges": edges("s > m", "m > m")}).next("m") == "m"


def matching(*patterns: str) -> dict[str, Any]:
    """A graph that asks one condition after the other."""
    nodes = [node(f"c{n}", "condition", field="text", op="matches", value=each) for n, each in enumerate(patterns)]
    names = [each["id"] for each in nodes]
    ways = [f"{name} > {follower} : {way}" for name, follower in pairwise([*names, "e"]) for way in ("true", "false")]
    return {"nodes": [START, *nodes, END], "edges": edges(f"s > {names[0]}", *ways)}


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w{200}", r"(\w{14}){14}x", "((a{20}){20}){20}", r"(?:\pL|[\w-]){0,30}", r"\pL{200}", "(?x) a # {3}",
        # what matches no character by itself, repeated
        "(" * 235 + "a" + ")" * 235 + "{250}b", "(?:a" + "*" * 90 + "){999}b", "(?:a" + "{0,}" * 90 + "){999}b",
        "(?:a" + "?" * 90 + "){999}b", "(?:a" + "{0,1}" * 90 + "){999}b", "(?:" + "|" * 90 + "){999}b",
        "(?:a" + "^*" * 90 + "){999}b", "(?:a" + "$" * 90 + "){999}b", "(?:){999}b",
    ],
)  # fmt: skip
def test_a_pattern_that_unfolds_into_a_large_one_is_refused_before_it_is_compiled(pattern: str) -> None:
    with pytest.raises(DefinitionError, match="node 'c0': value"):
        load_graph(matching(pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        r"[\w.-]+@[\w-]+\.\w{2,10}", r"^\+?[\d ()-]{7,20}$", r"\d{1,3}(\.\d{1,3}){3}", "a{900}", r"\w{40}",
        r"(?i)\b(refund|money back|cancel(lation)?)\b", r"^(?:[A-Z]{3}-\d{4}(?:, )?){1,20}$",
    ],
)  # fmt: skip
def test_patterns_that_people_write_are_taken(pattern: str) -> None:
    assert load_graph(matching(pattern)).by_id["c0"].type == "condition"


def test_the_patterns_of_a_graph_are_bounded_together() -> None:
    assert len(load_graph(matching(*[r"\w{30}"] * 100)).nodes) == 102, "one pattern counts once"
    with pytest.raises(
        DefinitionError, match=r"^[^\n]*node 'c6': the regular expressions of the graph unfold"
    ) as refused:
        load_graph(matching(*(rf"\w{{30}}{n}" for n in range(400))))
    assert len(refused.value.problems) == 1


BROKEN: dict[str, Any] = {
    "nodes": {"nodes": [{}] * 300_000},
    "edges": {"nodes": [START, END], "edges": [{"source": "s"}] * 50_000},
    "wrong edges": {"nodes": [START, END], "edges": edges(*["s > nowhere"] * 5000)},
    "wrong nodes": {"nodes": [node("m", "dance")] * 500},
    "fields": {"nodes": [START, END | {f"f{n}": n for n in range(100_000)}]},
    "cases": {"nodes": [START, END, node("w", "switch", field="x", cases=[5] * 300_000)]},
    "names": {f"f{n}": n for n in range(100_000)},
    "a long value": {"nodes": [START, END, node("c", "condition", field="x", op="less", value="x" * 10**6)]},
    "long ids": {"nodes": [node("x" * 2000, "dance") for _ in range(500)]},
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_wrong_with_a_huge_graph_is_told_in_few_and_short_sentences(kind: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        load_graph(BROKEN[kind])
    assert 1 <= len(refused.value.problems) <= MAX_PROBLEMS
    assert max(map(len, refused.value.problems)) < 1000


@pytest.mark.timed
@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_wrong_with_a_huge_graph_is_told_soon(kind: str) -> None:
    taken_s = []
    for _ in range(3):
        began = time.process_time()
        with pytest.raises(DefinitionError):
            load_graph(BROKEN[kind])
        taken_s.append(time.process_time() - began)
    assert min(taken_s) < 0.25, "a broken graph of a megabyte must not hold up a server"
