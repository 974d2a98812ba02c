"""Whether a graph can be walked: all that is wrong with it, one sentence each, with the node that it is about."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from inturn.agents import storable as clean
from inturn.conversations.graph.matching import MAX_PATTERN
from inturn.visitors.patch import is_same
from inturn.workflows.definition.patterns import BadPattern, compiled

if TYPE_CHECKING:
    from inturn.conversations.graph.model import Edge, Graph, Node

MAX_CASES = 10
MAX_ARGUMENTS = 64 * 1024
DEFAULT = "default"


def problems_of(graph: Graph) -> list[str]:
    known = {node.id for node in graph.nodes}
    leaving: dict[str, list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        leaving[edge.source].append(edge)
    problems = [
        *(f"node {name!r}: there are {count} nodes of this id" for name, count in _twice(n.id for n in graph.nodes)),
        *_starts(graph.nodes),
        *(problem for node in graph.nodes for problem in _inside(node)),
        *(problem for edge in graph.edges for problem in _ends(edge, known)),
        *(problem for node in graph.nodes for problem in _ways_out(node, leaving.get(node.id, []))),
    ]
    # where ways lead can only be said of a graph whose ways are right
    return problems or list(_reach(graph, leaving))


def _twice(names: Iterable[str]) -> list[tuple[str, int]]:
    return [(name, count) for name, count in Counter(names).items() if count > 1]


def _starts(nodes: tuple[Node, ...]) -> Iterator[str]:
    starts = [node.id for node in nodes if node.type == "start"]
    if not starts:
        yield "the graph has no start node; it needs one"
    for name in starts[1:]:
        yield f"node {name!r}: is a second start; the first is {starts[0]!r}"


def _inside(node: Node) -> Iterator[str]:
    if node.type in ("message", "tool", "ai") and node.save_as == "text":
        yield f"node {node.id!r}: save_as 'text': that is what the visitor wrote; choose another name"
    if node.type == "message" and node.save_as is not None and not node.wait:
        yield f"node {node.id!r}: save_as keeps the visitor's reply, and without wait there is none"
    if node.type == "tool":
        yield from (f"node {node.id!r}: arguments: {problem}" for problem in _odd(node.arguments))
    if node.type == "condition":
        odd = [f"value: {problem}" for problem in _odd(node.value)]
        yield from (f"node {node.id!r}: {problem}" for problem in odd or _comparison(node.op, node.value))
    if node.type == "switch":
        if not 1 <= len(node.cases) <= MAX_CASES:
            yield f"node {node.id!r}: has {len(node.cases)} cases; a switch has 1 to {MAX_CASES}"
        for case, _ in _twice(case.strip().casefold() for case in node.cases):
            yield f"node {node.id!r}: the case {case!r} stands there twice"
        if any(case.strip().casefold() in ("", DEFAULT) for case in node.cases):
            yield f"node {node.id!r}: a case must not be empty, and {DEFAULT!r} is the way of all others"


def _comparison(op: str, value: Any) -> Iterator[str]:
    if op in ("greater", "less") and (isinstance(value, bool) or not isinstance(value, int | float)):
        yield f"value {value!r}: {op} compares with a number"
    elif op in ("contains", "matches") and not isinstance(value, str):
        yield f"value {value!r}: {op} looks for a text"
    elif op == "matches":
        if len(value) > MAX_PATTERN:
            yield f"value: a regular expression of {len(value)} characters; at most {MAX_PATTERN} are allowed"
            return
        try:
            compiled(value)
        except BadPattern as error:
            yield f"value {value!r}: is no regular expression that can be used here: {error}"


def _odd(value: Any) -> Iterator[str]:
    """What cannot be stored and read back as it is."""
    try:
        if not is_same(clean.plain(value, MAX_ARGUMENTS), value):
            yield "holds what is no plain JSON, such as NaN, half a character or a number of more than 64 bits"
    except clean.NotPlain as error:
        yield f"is {error}"


def _ends(edge: Edge, known: set[str]) -> Iterator[str]:
    if edge.source not in known:
        yield f"node {edge.source!r}: an edge to {edge.target!r} begins there, and there is no such node"
    if edge.target not in known:
        yield f"node {edge.source!r}: its edge {edge.label!r} leads to {edge.target!r}, and there is no such node"


def _ways_out(node: Node, edges: list[Edge]) -> Iterator[str]:
    labels = [edge.label for edge in edges]
    if node.type == "condition":
        wanted = ["true", "false"]
    elif node.type == "switch":
        wanted = [*node.cases, DEFAULT]
    else:
        wanted = [] if node.type == "end" else [""]
    for label, count in _twice(labels):
        yield f"node {node.id!r}: has {count} edges {label!r}; where should it go?"
    for label in wanted:
        if label not in labels:
            what = f"no edge {label!r}" if label else "no edge, and only an end may lead nowhere"
            yield f"node {node.id!r}: has {what}"
    for label in dict.fromkeys(labels):
        if label not in wanted:
            told = ", ".join(map(repr, wanted)) or "none"
            yield f"node {node.id!r}: has an edge {label!r}; a node of type {node.type} has {told}"


def _reach(graph: Graph, leaving: Mapping[str, list[Edge]]) -> Iterator[str]:
    reached, todo = set(), [graph.start]
    while todo:
        here = todo.pop()
        if here not in reached:
            reached.add(here)
            todo += [edge.target for edge in leaving.get(here, ())]
    for node in graph.nodes:
        if node.id not in reached:
            yield f"node {node.id!r}: no way leads there from {graph.start!r}"
