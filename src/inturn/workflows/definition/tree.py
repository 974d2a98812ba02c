"""What was written in a file, with the line of every value: the common ground of YAML and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
MAX_DEPTH = 32
MAX_NODES = 20_000


@dataclass(slots=True)
class Node:
    """`value` is a scalar, a list of nodes, or a list of members. `line` counts from 1."""

    line: int
    value: Any


@dataclass(slots=True)
class Member:
    """One `key: value` of a mapping."""

    key: str
    line: int
    node: Node


class Members(list[Member]):
    """A mapping: told apart from a list also when it is empty."""


class Unreadable(Exception):
    """The text is no document at all. `line` is 0 where no line is to blame."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line
        self.why = why


@dataclass(slots=True)
class Document:
    """Plain data, and where each part of it stands; `problems` are (line, path, what is wrong)."""

    data: Any
    lines: dict[Path, int]
    problems: list[tuple[int, Path, str]]

    def line_of(self, path: Path) -> int:
        """The line of a value, or of the nearest thing around it that is written down."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def unfold(root: Node) -> Document:
    """The data of a tree. A node that an alias repeats is counted each time, so that a bomb is refused early."""
    document = Document(None, {}, [])
    left = MAX_NODES

    def data_of(node: Node, path: Path) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or len(path) > MAX_DEPTH:
            raise Unreadable(node.line, "it holds too much, or is nested too deeply: is there an alias of an alias?")
        if not isinstance(node.value, list):
            return node.value
        if isinstance(node.value, Members):
            return mapping_of(node.value, path)
        for number, entry in enumerate(node.value):
            document.lines[(*path, number)] = entry.line
        return [data_of(entry, (*path, number)) for number, entry in enumerate(node.value)]

    def mapping_of(members: list[Member], path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for member in members:
            here = (*path, member.key)
            if member.key in data:
                first = document.lines[here]
                document.problems.append((member.line, here, f"is written twice, first on line {first}"))
                continue
            document.lines[here] = member.line
            data[member.key] = data_of(member.node, here)
        return data

    document.lines[()] = root.line
    document.data = data_of(root, ())
    return document
