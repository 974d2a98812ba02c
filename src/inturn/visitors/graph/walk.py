"""Walking a graph for what a visitor wrote: from where it rested to where it rests next, in one turn.

Nothing is written here: the position and the fields are changed in the metadata that the caller saves, or does not.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from inturn.agents import storable as clean
from inturn.conversations.graph.compare import OPERATORS, equals
from inturn.conversations.graph.fill import fill_text, fill_value
from inturn.conversations.graph.model import AiNode, ConditionNode, Graph, MessageNode, Node, SwitchNode, ToolNode
from inturn.errors import BadMessage, DefinitionError, WorkflowTooDeep

log = logging.getLogger("inturn.conversations")

MOST_NODES = 20
STATE = "workflow_state"
MAX_VALUE = 1024 * 1024
"""Bytes of what a tool gives. What of it is kept has a limit of its own, with the rest of the metadata."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where a tool is called from. It may change `fields`, which are saved with the answer.

    A tool may be called again for the same messages if the turn fails after it: `message_ids` tell the repeat.
    """

    conversation_id: str
    project_id: str
    visitor_uid: str
    tenant_id: str
    fence: int
    texts: tuple[str, ...]
    message_ids: tuple[str, ...]
    fields: dict[str, Any]

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


Tool = Callable[[dict[str, Any], ToolContext], Any]
AskAgent = Callable[[str], Awaitable[str]]
"""Takes the instructions of the node, answers the agent's words."""


@dataclass(slots=True)
class Walk:
    """One walk. `metadata` is the caller's copy: `workflow_state` in it is where the walk rests, and its fields."""

    graph: Graph
    metadata: dict[str, Any]
    text: str
    ask: AskAgent
    tools: Mapping[str, Tool]
    context: Callable[[dict[str, Any]], ToolContext]
    fields: dict[str, Any] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    has_asked: bool = False

    async def go(self) -> str:
        """Walks until it rests or ends, and answers all that was said on the way."""
        here: str | None = self._resume()
        rests_at = ""
        while here is not None:
            self.path.append(here)
            if len(self.path) > MOST_NODES:
                raise WorkflowTooDeep(self.path, MOST_NODES)
            node = self.graph.by_id[here]
            label = await self._visit(node)
            if isinstance(node, MessageNode | AiNode) and node.wait:
                rests_at, here = node.id, None
            else:
                here = None if node.type == "end" else self.graph.next(node.id, label)
        state = self.metadata.get(STATE)
        others = state if isinstance(state, dict) else {}  # what is not ours is not touched
        self.metadata[STATE] = {**others, "node": rests_at or None, "fields": self.fields, "done": not rests_at}
        return "\n\n".join(text for text in self.said if text.strip())

    def _resume(self) -> str:
        """The node to go on with. After an end, or where the graph has changed underneath, it starts again."""
        state = self.metadata.get(STATE)
        if not isinstance(state, dict) or state.get("done"):
            return self.graph.start
        kept = state.get("fields")
        self.fields = dict(kept) if isinstance(kept, dict) else {}
        if not state.get("node"):  # it has not begun: someone has filled in fields beforehand
            return self.graph.start
        node = self.graph.by_id.get(str(state["node"]))
        if not isinstance(node, MessageNode | AiNode) or not node.wait:
            log.warning("the workflow rested at %r, which is no such node any more: it starts again", state["node"])
            return self.graph.start
        if isinstance(node, MessageNode) and node.save_as is not None:
            self.fields[node.save_as] = self.text
        return self.graph.next(node.id)

    async def _visit(self, node: Node) -> str:
        """Does what the node says; answers the label of the edge to go by."""
        if isinstance(node, MessageNode):
            self.said.append(fill_text(node.text, self._told()))
        elif isinstance(node, ConditionNode):
            return "true" if OPERATORS[node.op](self._look(node.field), node.value) else "false"
        elif isinstance(node, SwitchNode):
            return next((case for case in node.cases if equals(self._look(node.field), case)), "default")
        elif isinstance(node, AiNode):
            self.has_asked = True
            answer = await self.ask(fill_text(node.instructions, self._told()))
            self.said.append(answer)
            if node.save_as is not None:
                self.fields[node.save_as] = answer
        elif isinstance(node, ToolNode):
            await self._call(node)
        return ""

    def _look(self, name: str) -> Any:
        return self._told().get(name)

    def _told(self) -> dict[str, Any]:
        """The fields, and what the visitor wrote."""
        return {**self.fields, "text": self.text}

    async def _call(self, node: ToolNode) -> None:
        tool = self.tools.get(node.tool)
        if tool is None:
            there_are = f"there are {', '.join(sorted(self.tools))}" if self.tools else "there is none"
            raise DefinitionError([f"node {node.id!r}: no tool {node.tool!r} is registered here; {there_are}"])
        # copies: a tool that is given up runs on in its thread, and must not change what is saved by then
        arguments = deepcopy(fill_value(node.arguments, self._told()))
        context = self.context(deepcopy(self.fields))
        if inspect.iscoroutinefunction(tool) or inspect.iscoroutinefunction(getattr(tool, "__call__", None)):  # noqa: B004
            answer = await tool(arguments, context)
        else:
            answer = await asyncio.to_thread(tool, arguments, context)
            answer = await answer if inspect.isawaitable(answer) else answer
        self.fields = _plain(node, context.fields, "put into its fields")
        if node.save_as is not None:
            self.fields[node.save_as] = _plain(node, answer, "answered")


def _plain(node: ToolNode, value: Any, how: str) -> Any:
    try:
        return clean.plain(to_jsonable_python(value), MAX_VALUE)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise BadMessage(f"node {node.id!r}: the tool {node.tool!r} {how} what is no JSON: {error}") from error
