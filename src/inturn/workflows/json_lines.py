"""Reads JSON into a tree with lines. What is JSON is decided by the standard library; this only finds the lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NoReturn

from inturn.workflows.definition.tree import MAX_DEPTH, Member, Members, Node, Unreadable

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def read_json(text: str) -> Node:
    if not text.strip():
        raise Unreadable(1, "is empty: write down a workflow, with id, title and steps")
    try:
        json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Unreadable(error.lineno, f"is no JSON: {error.msg[:1].lower()}{error.msg[1:]}") from error
    except RecursionError as error:
        raise Unreadable(0, f"is nested more than {MAX_DEPTH} levels deep") from error
    except ValueError as error:
        raise Unreadable(0, f"is no JSON: {error}") from error
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
    """The text is known to be JSON, so that a token says what follows."""
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
