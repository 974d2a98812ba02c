"""What a graph is made of: nodes of seven types, and edges. A graph that was made is one that can be walked.

`load_graph` reads one and says all that is wrong with it, each time with the node that it is about.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from inturn.conversations.graph.check import problems_of
from inturn.errors import DefinitionError

MAX_NODES = 500

NodeId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
FieldName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]
Label = Annotated[str, StringConstraints(max_length=200)]
Operator = Literal["equals", "not_equals", "contains", "exists", "greater", "less", "matches"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StartNode(_Part):
    type: Literal["start"]
    id: NodeId


class MessageNode(_Part):
    """Says its text. With `wait` it waits for the visitor's reply, and keeps that in the field `save_as`."""

    type: Literal["message"]
    id: NodeId
    text: str = Field(min_length=1, max_length=8000)
    wait: bool = False
    save_as: FieldName | None = None


class ConditionNode(_Part):
    """Goes by the edge `true` or `false`. The field `text` is what the visitor wrote."""

    type: Literal["condition"]
    id: NodeId
    field: FieldName
    op: Operator
    value: Any = None


class SwitchNode(_Part):
    """Goes by the edge whose label is the case that the field equals, or by `default`."""

    type: Literal["switch"]
    id: NodeId
    field: FieldName
    cases: tuple[Label, ...]


class ToolNode(_Part):
    """Calls a tool. A value of its arguments that is `"{field}"` is that field's value."""

    type: Literal["tool"]
    id: NodeId
    tool: str = Field(min_length=1, max_length=128)
    arguments: dict[str, Any] = {}
    save_as: FieldName | None = None


class AiNode(_Part):
    """The agent answers, and `save_as` keeps its words. With `wait` what follows waits for the visitor's reply."""

    type: Literal["ai"]
    id: NodeId
    instructions: str = Field("", max_length=20_000)
    save_as: FieldName | None = None
    wait: bool = True


class EndNode(_Part):
    type: Literal["end"]
    id: NodeId


Node = Annotated[
    StartNode | MessageNode | ConditionNode | SwitchNode | ToolNode | AiNode | EndNode, Field(discriminator="type")
]


class Edge(_Part):
    source: NodeId
    target: NodeId
    label: Label = ""


class Graph(_Part):
    nodes: tuple[Node, ...] = Field(min_length=1, max_length=MAX_NODES)
    edges: tuple[Edge, ...] = Field((), max_length=10 * MAX_NODES)

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


def load_graph(given: Mapping[str, Any] | str | bytes) -> Graph:
    """A graph out of JSON, or what was read from it. `DefinitionError` names every node that is wrong."""
    try:
        data = json.loads(given) if isinstance(given, str | bytes) else given
        return Graph.model_validate(data)
    except ValidationError as error:
        raise DefinitionError(list(_told(error, data))) from error
    except ValueError as error:
        raise DefinitionError([f"the graph is no JSON: {error}"]) from error


def _told(error: ValidationError, data: Any) -> Iterator[str]:
    for each in error.errors(include_url=False):
        cause = each.get("ctx", {}).get("error")
        if isinstance(cause, DefinitionError):
            yield from cause.problems
        else:
            yield f"{_where(each['loc'], data)}: {each['msg']}"


def _where(place: tuple[int | str, ...], data: Any) -> str:
    """The node by its name, where it has one that can be read."""
    if len(place) < 2 or place[0] != "nodes" or not isinstance(place[1], int):
        return ".".join(map(str, place)) or "graph"
    node = data["nodes"][place[1]]
    name = node.get("id") if isinstance(node, Mapping) else None
    inner = ".".join(map(str, place[3:]))  # the type of the node stands before it
    return (f"node {name!r}" if name else f"node number {place[1] + 1}") + (f": {inner}" if inner else "")
