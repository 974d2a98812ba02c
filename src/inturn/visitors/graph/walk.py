"""Walks a graph for what a visitor wrote: in one turn, from the node where it rested to the node where it rests next.

Nothing is written here. The walk changes the position and the fields in a copy of the metadata; the caller saves that
copy, or drops it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from inturn.agents import storable
from inturn.errors import BadMessage, DefinitionError, GraphTooDeep, TooLarge
from inturn.visitors.graph.model import AiNode, ConditionNode, Graph, MessageNode, Node, SwitchNode, ToolNode
from inturn.workflows.definition.patterns import compiled

log = logging.getLogger("inturn.visitors")

MAX_STEPS = 20
"""Nodes that one turn may go through."""
STATE = "workflow_state"
"""Where the metadata of a chat holds the place in the graph. Services that read the metadata look for this name."""
MAX_VALUE = 1024 * 1024
"""Bytes that a tool may return. What is kept of them is also bounded with the rest of the metadata."""
MAX_MATCHED = 1000
"""Characters of a text that a pattern is matched against: nested counted repetitions cost time per character."""
MAX_ANSWER = 32_000
"""Characters. A longer answer is cut: its result and its delivery have to fit into the store."""
MAX_INSTRUCTIONS = 256_000
"""Characters of instructions after their fields were filled in. The rest is cut."""

_REFERENCE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]{0,63})\}")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where a tool is called from. The tool may change `fields`; they are saved with the answer.

    If the turn fails later, the tool is called again for the same messages: `message_ids` identify the repeat.
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
"""Takes the instructions of the node and returns the agent's words."""


@dataclass(slots=True)
class Walk:
    """One walk. `metadata` is the caller's copy: its `workflow_state` holds where the walk rests, and the fields."""

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
        """Walks until it rests or ends. Returns what was said on the way, cut at `MAX_ANSWER`."""
        here: str | None = self._resume()
        rests_at = ""
        while here is not None:
            self.path.append(here)
            if len(self.path) > MAX_STEPS:
                raise GraphTooDeep(self.path, MAX_STEPS)
            node = self.graph.by_id[here]
            label = await self._visit(node)
            if isinstance(node, MessageNode | AiNode) and node.wait:
                rests_at, here = node.id, None
            else:
                here = None if node.type == "end" else self.graph.next(node.id, label)
        state = self.metadata.get(STATE)
        others = state if isinstance(state, dict) else {}  # keep what others put there
        self.metadata[STATE] = {**others, "node": rests_at or None, "fields": self.fields, "done": not rests_at}
        return "\n\n".join(text for text in self.said if text.strip())[:MAX_ANSWER]

    def _resume(self) -> str:
        """Returns the node to go on with. After an end, or if the graph has lost the node, the walk starts again."""
        state = self.metadata.get(STATE)
        if not isinstance(state, dict) or state.get("done"):
            return self.graph.start
        kept = state.get("fields")
        self.fields = dict(kept) if isinstance(kept, dict) else {}
        if not state.get("node"):  # it has not begun: someone filled in fields beforehand
            return self.graph.start
        node = self.graph.by_id.get(str(state["node"]))
        if not isinstance(node, MessageNode | AiNode) or not node.wait:
            log.warning("the graph rested at %r, which is no longer a waiting node; starting again", state["node"])
            return self.graph.start
        if isinstance(node, MessageNode) and node.save_as is not None:
            self.fields[node.save_as] = self.text
        return self.graph.next(node.id)

    async def _visit(self, node: Node) -> str:
        """Does what the node says. Returns the label of the edge to follow."""
        if isinstance(node, MessageNode):
            self.said.append(fill_text(node.text, self._readable(), MAX_ANSWER))
        elif isinstance(node, ConditionNode):
            await asyncio.sleep(0)  # a match may take 100 ms; between two of them others have their turn
            return "true" if OPERATORS[node.op](self._look(node.field), node.value) else "false"
        elif isinstance(node, SwitchNode):
            return next((case for case in node.cases if equals(self._look(node.field), case)), "default")
        elif isinstance(node, AiNode):
            self.has_asked = True
            answer = await self.ask(fill_text(node.instructions, self._readable(), MAX_INSTRUCTIONS))
            self.said.append(answer)
            if node.save_as is not None:
                self.fields[node.save_as] = answer
        elif isinstance(node, ToolNode):
            await self._call(node)
        return ""

    def _look(self, name: str) -> Any:
        return self._readable().get(name)

    def _readable(self) -> dict[str, Any]:
        """Returns the fields, with what the visitor wrote as `text`."""
        return {**self.fields, "text": self.text}

    async def _call(self, node: ToolNode) -> None:
        tool = self.tools.get(node.tool)
        if tool is None:
            known = f"there are {', '.join(sorted(self.tools))}" if self.tools else "there are none"
            raise DefinitionError([f"node {node.id!r}: no tool {node.tool!r} is registered here; {known}"])
        # copies: a tool that timed out runs on in its thread, and must not change what is being saved
        what = f"node {node.id!r}: the arguments, with what was filled in,"
        arguments = deepcopy(fill_value(node.arguments, self._readable(), MAX_VALUE, what))
        context = self.context(deepcopy(self.fields))
        if inspect.iscoroutinefunction(tool) or inspect.iscoroutinefunction(getattr(tool, "__call__", None)):  # noqa: B004
            answer = await tool(arguments, context)
        else:
            answer = await asyncio.to_thread(tool, arguments, context)
            answer = await answer if inspect.isawaitable(answer) else answer
        self.fields = _plain(node, context.fields, "put into its fields")
        if node.save_as is not None:
            self.fields[node.save_as] = _plain(node, answer, "returned")


def _plain(node: ToolNode, value: Any, how: str) -> Any:
    try:
        return storable.value(to_jsonable_python(value), MAX_VALUE)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise BadMessage(f"node {node.id!r}: the tool {node.tool!r} {how} what is not JSON: {error}") from error


def fill_text(text: str, fields: Mapping[str, Any], most: int) -> str:
    """Replaces `{name}` by the field's value, in one pass: a value is never read as a template.

    Names that are not fields stay as they are. Stops at `most` characters: a short text can name a long value often.
    """
    pieces, left, at = [], most, 0
    values: dict[str, str] = {}
    for found in _REFERENCE.finditer(text):
        name = found[1]
        if name not in fields:
            continue
        if name not in values:
            values[name] = as_text(fields[name])
        for piece in (text[at : found.start()], values[name]):
            pieces.append(piece[:left])
            left -= len(pieces[-1])
        at = found.end()
        if not left:
            return "".join(pieces)
    pieces.append(text[at:][:left])
    return "".join(pieces)


def fill_value(value: Any, fields: Mapping[str, Any], most: int, what: str = "the value") -> Any:
    """Does the same inside arguments. Text that is exactly `{name}` becomes the value itself, whatever its type.

    Raises `TooLarge` if more than `most` characters of text were filled in: cut arguments would be wrong ones.
    """
    left = most

    def fill(inner: Any) -> Any:
        nonlocal left
        if isinstance(inner, Mapping):
            return {name: fill(each) for name, each in inner.items()}
        if isinstance(inner, list | tuple):
            return [fill(each) for each in inner]
        if not isinstance(inner, str):
            return inner
        whole = _REFERENCE.fullmatch(inner)
        if whole is not None and whole[1] in fields:
            return fields[whole[1]]
        filled = fill_text(inner, fields, left + 1)
        left -= len(filled)
        if left < 0:
            raise TooLarge(what, most - left, most)
        return filled

    return fill(value)


def as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else to_json(value).decode()


def equals(value: Any, wanted: Any) -> bool:
    """Compares texts without regard to case and surrounding space. Like all operators here, it never raises."""
    if value is None or wanted is None:
        return value is wanted
    return as_text(value).strip().casefold() == as_text(wanted).strip().casefold()


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, list):
        return any(equals(each, wanted) for each in value)
    return value is not None and as_text(wanted).casefold() in as_text(value).casefold()


def _exists(value: Any, wanted: Any) -> bool:
    return value is not None and value != ""


def _matches(value: Any, wanted: Any) -> bool:
    return value is not None and compiled(wanted).isinstance_python(as_text(value)[:MAX_MATCHED])


def _number(value: Any) -> float:
    """Returns NaN for what is not a number: nothing is greater or less than that."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "equals": equals,
    "not_equals": lambda value, wanted: not equals(value, wanted),
    "contains": _contains,
    "exists": _exists,
    "greater": lambda value, wanted: _number(value) > _number(wanted),
    "less": lambda value, wanted: _number(value) < _number(wanted),
    "matches": _matches,
}
