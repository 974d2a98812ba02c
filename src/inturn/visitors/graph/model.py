"""What a graph is made of: nodes of seven types, and edges. Every `Graph` that exists can be walked.

`load_graph` reads a graph. It reports the first `MAX_PROBLEMS` problems at once, each with the node that it is about.
Sizes are checked first, so that what is wrong with a huge graph is known soon.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from inturn.agents import storable
from inturn.errors import DefinitionError
from inturn.visitors.patch import is_same
from inturn.workflows.definition.patterns import MAX_SIZE, BadPattern, compiled, expanded_size

MAX_NODES = 500
MAX_EDGES = 10 * MAX_NODES
MAX_CASES = 10
MAX_ARGUMENTS = 64 * 1024
MAX_PATTERN = 500
MAX_PATTERNS = 5000
"""What all regular expressions of a graph may unfold to together: they are compiled when the graph is loaded."""
MAX_PROBLEMS = 50
MAX_ENTRIES = 16
"""Fields that a node or an edge may have: more than any has, so that what is unknown can still be named."""
MAX_SHOWN = 80
DEFAULT = "default"

NodeId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
FieldName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]
Label = Annotated[str, StringConstraints(max_length=200)]
OwnId = Annotated[NodeId, Field(description="The id of this node, which no other node of the graph has.")]
Operator = Literal["equals", "not_equals", "contains", "exists", "greater", "less", "matches"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StartNode(_Part):
    """Where the graph begins. There is exactly one."""

    type: Literal["start"]
    id: OwnId


class MessageNode(_Part):
    """Says its text. With `wait` the graph rests here, and the visitor's reply is kept in the field `save_as`."""

    type: Literal["message"]
    id: OwnId
    text: str = Field(
        min_length=1, max_length=8000, description="What it says. `{field}` becomes the value of that field."
    )
    wait: bool = Field(False, description="Whether the graph rests here until the visitor replies.")
    save_as: FieldName | None = Field(None, description="The field that keeps the visitor's reply; needs `wait`.")


class ConditionNode(_Part):
    """Follows the edge `true` or `false`. The field `text` is what the visitor wrote."""

    type: Literal["condition"]
    id: OwnId
    field: FieldName = Field(description="The field to look at.")
    op: Operator = Field(
        description="How to compare. `exists` needs no `value`; `matches` takes a regular expression without "
        "look-around."
    )
    value: Any = Field(None, description="What to compare with.")


class SwitchNode(_Part):
    """Follows the edge whose label is the case that equals the field, or `default`."""

    type: Literal["switch"]
    id: OwnId
    field: FieldName = Field(description="The field to look at.")
    cases: tuple[Label, ...] = Field(description="The values that have an edge of their own.")


class ToolNode(_Part):
    """Calls a tool. An argument that is exactly `"{field}"` becomes the value of that field."""

    type: Literal["tool"]
    id: OwnId
    tool: str = Field(
        min_length=1, max_length=128, description="The name of the tool, as it was given to the responder."
    )
    arguments: dict[str, Any] = Field({}, description="What the tool gets. `{field}` becomes the value of that field.")
    save_as: FieldName | None = Field(None, description="The field that keeps what the tool returns.")


class AiNode(_Part):
    """The agent answers, and `save_as` keeps its words. With `wait` the graph rests until the visitor replies."""

    type: Literal["ai"]
    id: OwnId
    instructions: str = Field(
        "", max_length=20_000, description="What the agent is told here, after the instructions of the project."
    )
    save_as: FieldName | None = Field(None, description="The field that keeps the agent's answer.")
    wait: bool = Field(True, description="Whether the graph rests here until the visitor replies.")


class EndNode(_Part):
    """Where the graph ends. The next message starts it again."""

    type: Literal["end"]
    id: OwnId


Node = Annotated[
    StartNode | MessageNode | ConditionNode | SwitchNode | ToolNode | AiNode | EndNode, Field(discriminator="type")
]


class Edge(_Part):
    """Leads from one node to the next."""

    source: NodeId = Field(description="The id of the node that it leaves.")
    target: NodeId = Field(description="The id of the node that it leads to.")
    label: Label = Field(
        "",
        description="Which way out it is: `true` or `false` of a condition, a case or `default` of a switch; empty "
        "for other nodes.",
    )


class Graph(_Part):
    """Nodes, and the edges between them."""

    nodes: tuple[Node, ...] = Field(min_length=1, max_length=MAX_NODES, description="The nodes, in any order.")
    edges: tuple[Edge, ...] = Field((), max_length=MAX_EDGES, description="The edges, in any order.")

    @model_validator(mode="after")
    def _can_be_walked(self) -> Graph:
        problems = problems_of(self)
        if problems:
            raise DefinitionError(problems)
        return self

    @cached_property
    def by_id(self) -> dict[str, Node]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def start(self) -> str:
        return next(node.id for node in self.nodes if isinstance(node, StartNode))

    @cached_property
    def _targets(self) -> dict[tuple[str, str], str]:
        return {(edge.source, edge.label): edge.target for edge in self.edges}

    def next(self, node_id: str, label: str = "") -> str:
        return self._targets[node_id, label]


_node: TypeAdapter[Node] = TypeAdapter(Node)
_edge: TypeAdapter[Edge] = TypeAdapter(Edge)


def load_graph(given: Mapping[str, Any] | str | bytes) -> Graph:
    """Makes a graph from JSON text or from parsed JSON. Raises `DefinitionError`, which names the wrong nodes."""
    try:
        data = json.loads(given) if isinstance(given, str | bytes) else given
    except ValueError as error:
        raise DefinitionError([f"the graph is not JSON: {error}"]) from error
    problems = list(islice(_size_problems(data), MAX_PROBLEMS)) or list(islice(_part_problems(data), MAX_PROBLEMS))
    if problems:
        raise DefinitionError(problems)
    try:
        return Graph.model_validate(data)
    except ValidationError as error:
        raise DefinitionError(list(islice(_sentences(error, ""), MAX_PROBLEMS))) from error


def _size_problems(data: Any) -> Iterator[str]:
    """Reports what is too large to be looked at more closely."""
    if not isinstance(data, Mapping):
        return
    for name, most in (("nodes", MAX_NODES), ("edges", MAX_EDGES)):
        parts = data.get(name, ())
        if not isinstance(parts, list | tuple):
            continue
        if len(parts) > most:
            yield f"{name}: there are {len(parts)}; at most {most} are allowed"
            continue
        for number, part in enumerate(parts, 1):
            if not isinstance(part, Mapping):
                continue
            if len(part) > MAX_ENTRIES:
                yield f"{_name(name, number, part)}: has {len(part)} fields; no part of a graph has so many"
            cases = part.get("cases")
            if isinstance(cases, list | tuple) and len(cases) > MAX_CASES:
                yield f"{_name(name, number, part)}: has {len(cases)} cases; a switch has 1 to {MAX_CASES}"
    if len(data) > MAX_ENTRIES:
        yield f"the graph has {len(data)} fields; it should have nodes and edges"


def _part_problems(data: Any) -> Iterator[str]:
    """Reads nodes and edges one by one, so that reading can stop when enough of them are wrong."""
    if not isinstance(data, Mapping):
        return
    kinds: tuple[tuple[str, TypeAdapter[Any]], ...] = (("nodes", _node), ("edges", _edge))
    for name, kind in kinds:
        parts = data.get(name, ())
        for number, part in enumerate(parts if isinstance(parts, list | tuple) else (), 1):
            try:
                kind.validate_python(part)
            except ValidationError as error:
                yield from _sentences(error, _name(name, number, part))


def _sentences(error: ValidationError, part: str) -> Iterator[str]:
    for each in error.errors(include_url=False):
        cause = each.get("ctx", {}).get("error")
        if isinstance(cause, DefinitionError):
            yield from cause.problems
            continue
        place = each["loc"][1:] if part.startswith("node") else each["loc"]  # the node's type comes first
        yield ": ".join(filter(None, (part, ".".join(map(str, place)) or ("" if part else "graph"), each["msg"])))


def _name(kind: str, number: int, part: Any) -> str:
    """Names a node by its id if that can be read, else by its number."""
    name = part.get("id") if kind == "nodes" and isinstance(part, Mapping) else None
    if name:
        return f"node {_shown(name)}"
    return f"node number {number}" if kind == "nodes" else f"edges.{number - 1}"


def _shown(value: Any) -> str:
    """A value in a sentence: the beginning is enough to find it."""
    if isinstance(value, str):
        return repr(value) if len(value) <= MAX_SHOWN else repr(value[:MAX_SHOWN]) + "…"
    if isinstance(value, list | tuple | Mapping):
        return f"of type {type(value).__name__}"
    return repr(value)


def problems_of(graph: Graph) -> list[str]:
    """Returns what keeps the graph from being walked, one sentence for each of the first problems."""
    too_large = list(_too_large_patterns(graph.nodes))
    if too_large:
        return too_large
    known = {node.id for node in graph.nodes}
    leaving: dict[str, list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        leaving[edge.source].append(edge)
    problems = chain(
        (
            f"node {name!r}: there are {count} nodes with this id"
            for name, count in _repeated(n.id for n in graph.nodes)
        ),
        _start_problems(graph.nodes),
        (problem for node in graph.nodes for problem in _node_problems(node)),
        (problem for edge in graph.edges for problem in _edge_problems(edge, known)),
        (problem for node in graph.nodes for problem in _exit_problems(node, leaving.get(node.id, []))),
    )
    # only a graph whose edges are right can be searched for unreachable nodes
    found = list(islice(problems, MAX_PROBLEMS))
    return found or list(islice(_unreachable(graph, leaving), MAX_PROBLEMS))


def _repeated(names: Iterable[str]) -> list[tuple[str, int]]:
    return [(name, count) for name, count in Counter(names).items() if count > 1]


def _start_problems(nodes: tuple[Node, ...]) -> Iterator[str]:
    starts = [node.id for node in nodes if node.type == "start"]
    if not starts:
        yield "the graph has no start node; it needs one"
    for name in starts[1:]:
        yield f"node {name!r}: is a second start; the first is {starts[0]!r}"


def _too_large_patterns(nodes: tuple[Node, ...]) -> Iterator[str]:
    """Reports patterns that are too large together. Then none of them is compiled."""
    patterns = {
        node.value: node.id
        for node in nodes
        if node.type == "condition" and node.op == "matches" and isinstance(node.value, str)
    }
    size = 0
    for pattern, name in patterns.items():
        alone = expanded_size(pattern[: MAX_PATTERN + 1])
        size += alone if alone <= MAX_SIZE else 0  # else it is refused by itself
        if size > MAX_PATTERNS:
            yield (
                f"node {name!r}: the regular expressions of the graph unfold to a size of more than {MAX_PATTERNS} "
                "together (a \\w counts 25)"
            )
            return


def _node_problems(node: Node) -> Iterator[str]:
    if node.type in ("message", "tool", "ai") and node.save_as == "text":
        yield f"node {node.id!r}: save_as 'text': this field is what the visitor wrote; choose another name"
    if node.type == "message" and node.save_as is not None and not node.wait:
        yield f"node {node.id!r}: save_as keeps the visitor's reply, and without wait there is no reply"
    if node.type == "tool":
        yield from (f"node {node.id!r}: arguments: {problem}" for problem in _value_problems(node.arguments))
    if node.type == "condition":
        wrong = [f"value: {problem}" for problem in _value_problems(node.value)]
        yield from (f"node {node.id!r}: {problem}" for problem in wrong or _comparison(node.op, node.value))
    if node.type == "switch":
        if not 1 <= len(node.cases) <= MAX_CASES:
            yield f"node {node.id!r}: has {len(node.cases)} cases; a switch has 1 to {MAX_CASES}"
        for case, _ in _repeated(case.strip().casefold() for case in node.cases):
            yield f"node {node.id!r}: the case {case!r} is listed twice"
        if any(case.strip().casefold() in ("", DEFAULT) for case in node.cases):
            yield f"node {node.id!r}: a case must not be empty, and {DEFAULT!r} stands for every other value"


def _comparison(op: str, value: Any) -> Iterator[str]:
    if op in ("greater", "less") and (isinstance(value, bool) or not isinstance(value, int | float)):
        yield f"value {_shown(value)}: {op} compares with a number"
    elif op in ("contains", "matches") and not isinstance(value, str):
        yield f"value {_shown(value)}: {op} looks for text"
    elif op == "matches":
        if len(value) > MAX_PATTERN:
            yield f"value: a regular expression of {len(value)} characters; at most {MAX_PATTERN} are allowed"
            return
        try:
            compiled(value)
        except BadPattern as error:
            yield f"value {value!r}: is not a regular expression that can be used here: {error}"


def _value_problems(value: Any) -> Iterator[str]:
    """Reports a value that would not be the same after it was stored and read back."""
    try:
        if not is_same(storable.value(value, MAX_ARGUMENTS), value):
            yield "holds what is not plain JSON, such as NaN, half a character or a number of more than 64 bits"
    except storable.NotStorable as error:
        yield f"is {error}"


def _edge_problems(edge: Edge, known: set[str]) -> Iterator[str]:
    if edge.source not in known:
        yield f"node {edge.source!r}: an edge to {edge.target!r} starts there, but there is no such node"
    if edge.target not in known:
        yield f"node {edge.source!r}: its edge {edge.label!r} leads to {edge.target!r}, but there is no such node"


def _exit_problems(node: Node, edges: list[Edge]) -> Iterator[str]:
    labels = [edge.label for edge in edges]
    if node.type == "condition":
        wanted = ["true", "false"]
    elif node.type == "switch":
        wanted = [*node.cases, DEFAULT]
    else:
        wanted = [] if node.type == "end" else [""]
    for label, count in _repeated(labels):
        yield f"node {node.id!r}: has {count} edges {label!r}; where should it go?"
    for label in wanted:
        if label not in labels:
            what = f"no edge {label!r}" if label else "no edge, and only an end may lead nowhere"
            yield f"node {node.id!r}: has {what}"
    for label in dict.fromkeys(labels):
        if label not in wanted:
            told = ", ".join(map(repr, wanted)) or "none"
            yield f"node {node.id!r}: has an edge {label!r}; a node of type {node.type} has {told}"


def _unreachable(graph: Graph, leaving: Mapping[str, list[Edge]]) -> Iterator[str]:
    reached, todo = set(), [graph.start]
    while todo:
        here = todo.pop()
        if here not in reached:
            reached.add(here)
            todo += [edge.target for edge in leaving.get(here, ())]
    for node in graph.nodes:
        if node.id not in reached:
            yield f"node {node.id!r}: cannot be reached from {graph.start!r}"
