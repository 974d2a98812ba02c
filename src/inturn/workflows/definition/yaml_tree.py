"""Reads YAML into a tree with lines; only this file needs pyyaml. Nothing is ever executed: custom tags are refused.

Words mean what they do in YAML 1.2: `yes`, `no` and `12:30` are texts, and so are dates.
"""

from __future__ import annotations

import re

from inturn.errors import MissingExtra
from inturn.workflows.definition.tree import MAX_DEPTH, MAX_NODES, Member, Members, Node, Unreadable

try:
    import yaml
except ImportError as error:
    raise MissingExtra("a workflow definition in YAML (unlike one in JSON)", "workflows") from error

MAX_ALIASES = 100
_TAG = "tag:yaml.org,2002:"
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[-+]?[0-9]{1,18}\.[0-9]{0,18}([eE][-+]?[0-9]{1,3})?")
_CONSTANTS = {"true": True, "false": False, "null": None, "~": None, "": None}


def read_yaml(text: str) -> Node:
    try:
        _check_shape(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = ", ".join(part for part in (error.context, error.problem) if part)
        raise Unreadable(mark.line + 1 if mark else 0, f"is not YAML: {why}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        character = text[error.position : error.position + 1]
        raise Unreadable(line, f"is not YAML: the character {character!r} is not allowed") from error
    except (yaml.YAMLError, ValueError, IndexError) as error:
        raise Unreadable(0, f"is not YAML: {error}") from error
    if root is None:
        raise Unreadable(1, "is empty: write down a workflow, with id, title and steps")
    return _Reader().node(root)


def _check_shape(text: str) -> None:
    """Checks from the events alone, before anything is built: one document, not too deep or too full, few aliases."""
    documents = aliases = depth = nodes = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1
        nodes += isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if documents > 1:
            raise Unreadable(line, "a second document begins here: keep one workflow per file")
        if aliases > MAX_ALIASES:
            raise Unreadable(line, f"has more than {MAX_ALIASES} aliases: write things out")
        if nodes > 2 * MAX_NODES:  # names count here too; values are counted again when aliases are unfolded
            raise Unreadable(line, "it holds too much")
        if depth > MAX_DEPTH:
            raise Unreadable(line, f"is nested more than {MAX_DEPTH} levels deep")


class _Reader:
    """Reads a node that aliases share once, and refuses a node that contains itself."""

    def __init__(self) -> None:
        self._read: dict[int, Node] = {}
        self._open: set[int] = set()

    def node(self, given: yaml.Node) -> Node:
        line = given.start_mark.line + 1
        if id(given) in self._open:
            raise Unreadable(line, "an alias is inside of what it repeats")
        if id(given) not in self._read:
            self._open.add(id(given))
            self._read[id(given)] = self._new(given, line)
            self._open.discard(id(given))
        return self._read[id(given)]

    def _new(self, given: yaml.Node, line: int) -> Node:
        kind = given.tag.removeprefix(_TAG) if given.tag.startswith(_TAG) else ""
        if isinstance(given, yaml.ScalarNode) and kind in _SCALARS:
            return Node(line, _scalar(kind, given.value))
        if isinstance(given, yaml.SequenceNode) and kind == "seq":
            return Node(line, [self.node(entry) for entry in given.value])
        if isinstance(given, yaml.MappingNode) and kind == "map":
            return Node(line, Members(self._member(key, value) for key, value in given.value))
        raise Unreadable(line, f"the tag {given.tag!r} is not allowed")

    def _member(self, key: yaml.Node, value: yaml.Node) -> Member:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode) or key.tag == f"{_TAG}merge":
            raise Unreadable(line, "a name must be text")
        return Member(key.value, line, self.node(value))


_SCALARS = {"str", "bool", "int", "float", "null", "timestamp", "value", "merge"}


def _scalar(kind: str, written: str) -> str | bool | int | float | None:
    if kind in ("bool", "null") and written.lower() in _CONSTANTS:
        return _CONSTANTS[written.lower()]
    if kind == "int" and _WHOLE.fullmatch(written):
        return int(written)
    if kind == "float" and _DECIMAL.fullmatch(written):
        return float(written)
    return written
