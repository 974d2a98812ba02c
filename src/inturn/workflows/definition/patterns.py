"""Regular expressions that match in linear time, whatever the pattern: one that backtracks could stop a server.

The engine is pydantic's. It has no look-around and no back references; patterns with these are refused. It writes out
counted repetitions before it matches, so a short pattern can be a large machine: the size that a pattern unfolds to is
bounded before the engine sees it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

MAX_SIZE = 1000
"""What a pattern may unfold to. A plain character is 1.

This much takes 50 ms and 5 MB at most to compile, and 100 ms to match 1,000 characters (mostly 5).
"""

_CLASS_SIZE = {"w": 25, "W": 25, "p": 25, "P": 25, "d": 4, "D": 4, "s": 4, "S": 4}
"""Of an escaped class: `\\w` and `\\p{…}` are hundreds of ranges of characters."""
_ANY_SIZE = 4
_GROUP_SIZE = 2
"""A group is a step into it and one out of it, also if there is nothing inside."""

_ESCAPE = re.compile(r"\\(?:[pPxuU]\{[^}]*\}|[pP].|.)", re.DOTALL)
_COUNT = re.compile(r"\{\s*(\d+)\s*(?:,\s*(\d*)\s*)?\}")
_OPENING = re.compile(r"\((?:\?(?:P?<[^>]*>|[a-zA-Z-]*:?))?")
_SPACED = re.compile(r"\(\?[a-zA-Z]*x")


class BadPattern(ValueError):
    """Not a regular expression that this engine takes."""


@lru_cache(64)
def compiled(pattern: str) -> SchemaValidator:
    """Returns a validator whose `isinstance_python(text)` says whether the pattern is found anywhere in the text.

    Raises `BadPattern`.
    """
    if _SPACED.search(pattern):
        raise BadPattern("the flag x, which allows spaces and comments in a pattern, is not supported")
    size = expanded_size(pattern)
    if size > MAX_SIZE:
        counted = "a \\w counts 25, a group 2"
        raise BadPattern(f"its repetitions unfold to a size of {size}; at most {MAX_SIZE} is allowed ({counted})")
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))
    except (SchemaError, ValueError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = next((line for line in lines if line.startswith("error:")), lines[-1] if lines else "")
        raise BadPattern(told.removeprefix("error: ").removeprefix("SchemaError: ")) from None


def of_whole(pattern: str) -> SchemaValidator:
    """Does the same for the whole text. The pattern must be valid alone: `a)(b` would become valid in here."""
    return compiled(rf"\A(?:{pattern})\z")


def expanded_size(pattern: str) -> int:
    """Returns the size of the pattern with its counted repetitions written out: `(?:ab{3})+` is 8.

    Every sign counts, also one that matches no character by itself: each is a part of the machine, and one count can
    repeat many of them. The pattern need not be valid: the engine says so afterwards.
    """
    sizes = [0]  # of the groups that are open, the innermost last
    last = 0  # of what a count would repeat
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        size, end = 1, at + 1
        if sign == "(":
            opening = _OPENING.match(pattern, at)
            assert opening is not None, "a parenthesis alone matches"
            sizes.append(_GROUP_SIZE)
            last, at = 0, opening.end()
            continue
        if sign == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
            at = end
            continue
        if sign in "*+?":
            sizes[-1] += 1
            last, at = last + 1, end
            continue
        if count := _COUNT.match(pattern, at):
            times = max(1, int(count[1]), int(count[2] or 0))
            repeated = last * times + (count[2] is not None)  # `{0,}` is a `*`
            sizes[-1] += repeated - last
            last, at = repeated, count.end()
            continue
        if sign == "[":
            size, end = _bracket(pattern, at)
        elif escape := _ESCAPE.match(pattern, at):
            size, end = _CLASS_SIZE.get(escape[0][1], 1), escape.end()
        elif sign == ".":
            size = _ANY_SIZE
        sizes[-1] += size
        last, at = size, end
    return sum(sizes)


def _bracket(pattern: str, start: int) -> tuple[int, int]:
    """Returns the size of the set of characters that begins here, and where it ends."""
    size, depth, at = 0, 0, start
    while at < len(pattern):
        escape = _ESCAPE.match(pattern, at)
        if escape is not None:
            size, at = size + _CLASS_SIZE.get(escape[0][1], 1), escape.end()
            continue
        sign, at = pattern[at], at + 1
        if sign == "[":
            depth += 1
            if pattern.startswith("^", at):
                size, at = size + _ANY_SIZE, at + 1
            if pattern.startswith("]", at):  # directly after the opening it is a character
                size, at = size + 1, at + 1
        elif sign == "]":
            depth -= 1
            if not depth:
                break
        else:
            size += 1
    return max(1, size), at
