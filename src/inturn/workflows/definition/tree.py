"""What is written in a definition file, with the line of every value: a tree that YAML and JSON have in common.

JSON is read here: the standard library decides what is JSON, and this file finds the lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

Path = tuple[str | int, ...]
MAX_DEPTH = 32
MAX_NODES = 20_000

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


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
    """A mapping, so that it differs from a list even when it is empty."""


class Unreadable(Exception):
    """The text is not a document at all. `line` is 0 if no line is to blame."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line
        self.why = why


@dataclass(slots=True)
class Document:
    """Plain data, and the line of each part of it; `problems` are (line, path, what is wrong)."""

    data: Any
    lines: dict[Path, int]
    problems: list[tuple[int, Path, str]]

    def line_of(self, path: Path) -> int:
        """Returns the line of a value, or of the nearest part around it that is in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def unfold(root: Node) -> Document:
    """Returns the data of a tree. A node that aliases repeat is counted each time, so that a bomb is refused early."""
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


def read_json(text: str) -> Node:
    if not text.strip():
        raise Unreadable(1, "is empty: write down a workflow, with id, title and steps")
    try:
        json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Unreadable(error.lineno, f"is not JSON: {error.msg[:1].lower()}{error.msg[1:]}") from error
    except RecursionError as error:
        raise Unreadable(0, f"is nested more than {MAX_DEPTH} levels deep") from error
    except ValueError as error:
        raise Unreadable(0, f"is not JSON: {error}") from error
    return _node(_tokens(text), 0)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed")


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, at = 1, 0
    for found in _TOKEN.finditer(text):
        line += text.count("\n", at, found.start())
        at = found.start()
        yield found.group(), line


def _node(tokens: Iterator[tuple[str, int]], depth: int, token: str = "", line: int = 0) -> Node:
    """The text is known to be JSON, so a token says what follows."""
    if not token:
        token, line = next(tokens)
    if depth > MAX_DEPTH:
        raise Unreadable(line, f"is nested more than {MAX_DEPTH} levels deep")
    if token == "{":
        return Node(line, Members(_members(tokens, depth)))
    if token == "[":
        return Node(line, list(_entries(tokens, depth)))
    return Node(line, json.loads(token))


def _entries(tokens: Iterator[tuple[str, int]], depth: int) -> Iterator[Node]:
    for token, line in tokens:
        if token == "]":
            return
        if token != ",":
            yield _node(tokens, depth + 1, token, line)


def _members(tokens: Iterator[tuple[str, int]], depth: int) -> Iterator[Member]:
    for token, line in tokens:
        if token == "}":
            return
        if token != ",":
            next(tokens)
            yield Member(json.loads(token), line, _node(tokens, depth + 1))
