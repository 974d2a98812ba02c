"""Reads an answer while it streams: chunk → text without thoughts → the words for the user → the whole message.

In a workflow the answer is JSON by a schema. The user reads its `reply` while the rest is still being written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from inturn.agents.activity import Activity
from inturn.agents.failure import by_status
from inturn.agents.json_object import lead_of, leading_object, mended
from inturn.errors import AgentError, AgentRejected, AgentUnavailable

_SHORT_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HALF_FENCE = re.compile(r"\s*(?:`{1,2}|```j?s?o?)?", re.IGNORECASE)
_OPENS, _ENDS = "<think>", "</think>"


class Chunk(NamedTuple):
    """What one chunk adds to the answer and to a refusal. `finish`: why the answer ends with it, if it does.

    An answer that is not streamed is one chunk.
    """

    text: str = ""
    refusal: str = ""
    finish: str = ""


def read_chunk(agent: str, chunk: Any, said: Callable[[str], str]) -> Chunk:
    """Reads a chunk, or a whole completion. Any part of it may be missing. `said` makes what an endpoint says safe to
    show.
    """
    if getattr(chunk, "object", None) == "error":  # vLLM before 0.10 sends an error in place of a chunk
        raise stream_error(agent, getattr(chunk, "code", None), said(str(getattr(chunk, "message", ""))))
    for choice in chunk.choices or ():
        if choice.index:  # only one was asked for
            continue
        if choice.finish_reason == "content_filter":
            raise AgentRejected(agent, "refused to answer", "content_filter")
        # Azure's asynchronous filter sends choices without a delta; a completion has a message in its place
        delta = getattr(choice, "delta", None) or getattr(choice, "message", None)
        content, refusal = (delta.content, delta.refusal) if delta is not None else (None, None)
        return Chunk(_text(content), refusal or "", choice.finish_reason or "")
    return Chunk()  # the chunk with the usage has no choice


def _text(content: Any) -> str:
    """Returns the text. Mistral's reasoning models send a list of parts, with thoughts among them."""
    if not isinstance(content, list):
        return content or ""
    parts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "".join(part for part in parts if isinstance(part, str))


def stream_error(agent: str, code: object, said: str) -> AgentError:
    """Translates an error that came after the HTTP status. vLLM and LiteLLM give the status as its code."""
    if isinstance(code, int | str) and str(code).isdecimal() and 400 <= int(code) <= 599:
        return by_status(agent, int(code), said)
    return AgentUnavailable(agent, "broke off with an error", said)


class Joiner:
    """Joins the deltas of a text. If one ends inside a surrogate pair, the first half waits for the second."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, delta: str) -> str:
        text, self._half = self._half + delta, ""
        if text and _is_high(text[-1]):
            text, self._half = text[:-1], text[-1]
        return mended(text)

    def rest(self) -> str:
        return mended(self._half)


class Thoughts:
    """Removes what a reasoning model thinks aloud before its answer, and the blanks behind that.

    Only a `<think>` that opens the answer is a thought. Later on it may be what the answer is about.
    """

    def __init__(self) -> None:
        self._held: str | None = ""
        """What is not decided yet. `None` once the answer itself has begun."""
        self._is_thinking = False
        self._has_thought = False

    def feed(self, delta: str) -> str:
        if self._held is None:
            return delta
        self._held += delta
        if self._is_thinking:
            _, end, rest = self._held.partition(_ENDS)
            if not end:
                self._held = self._held[-len(_ENDS) :]  # the end may have begun in it
                return ""
            self._is_thinking, self._has_thought, self._held = False, True, rest
        begun = self._held.lstrip()
        if not self._has_thought and begun.startswith(_OPENS):
            self._is_thinking, self._held = True, begun[len(_OPENS) :]
            return self.feed("")
        if not begun or (not self._has_thought and _OPENS.startswith(begun)):
            return ""
        return self._begin()

    def rest(self) -> str:
        """Returns what was held back, once nothing more comes. Thoughts without an end are not an answer."""
        return "" if self._held is None or self._is_thinking else self._begin()

    def _begin(self) -> str:
        text, self._held = self._held or "", None
        return text.lstrip() if self._has_thought else text


class ReplyScanner:
    """Reads a JSON object while it is written: returns the decoded pieces of its `reply`. Anything else is all reply.

    Never half an escape, never half a surrogate pair: what was shown is always the beginning of the whole reply.
    """

    def __init__(self) -> None:
        self.is_plain: bool | None = None
        """Whether it is not an object. `None` until that is known."""
        self.has_reply = False
        self._lead = ""  # blanks and a fence, until it is known what follows them
        self._depth = 0
        self._key = ""
        self._is_key = False  # the next string at depth 1 is a key
        self._in_string = False
        self._escape = ""
        self._high = ""

    def feed(self, text: str) -> str:
        if self.is_plain is None:
            text, self._lead = self._lead + text, ""
            lead = lead_of(text)
            if lead == len(text) or _HALF_FENCE.fullmatch(text):
                self._lead = text
                return ""
            self.is_plain = text[lead] != "{"
            text = text if self.is_plain else text[lead:]
        return text if self.is_plain else "".join(map(self._next, text))

    def _next(self, char: str) -> str:
        if self._in_string:
            return self._inside(char)
        if char == '"':
            self._in_string = True
            if self._is_key:
                self._key = ""
        elif char in "{[":
            self._depth += 1
            self._is_key = self._depth == 1
        elif char in "}]":
            self._depth -= 1
        elif char == "," and self._depth == 1:
            self._is_key = True
        elif char == ":" and self._depth == 1:
            self._is_key = False
        return ""

    def _inside(self, char: str) -> str:
        if char == '"' and not self._escape:
            self._in_string = False
            decoded = self._paired("")
        else:
            read = self._unescaped(char)
            decoded = self._paired(read) if read else ""
        if self._depth == 1 and self._is_key:
            self._key += decoded
            return ""
        if self._depth != 1 or self._key != "reply":
            return ""
        self.has_reply = True
        return decoded

    def _unescaped(self, char: str) -> str:
        """Returns the character that is complete; '' inside an escape."""
        if not self._escape:
            if char != "\\":
                return char
            self._escape = char
            return ""
        self._escape += char
        if self._escape[1] != "u":
            self._escape = ""
            return _SHORT_ESCAPES.get(char, char)
        if len(self._escape) < 6:
            return ""
        code, self._escape = self._escape[2:], ""
        try:
            return chr(int(code, 16))
        except ValueError:
            return "\ufffd"

    def _paired(self, char: str) -> str:
        """Returns the character joined with the half that waits; '' for a first half, which has to wait."""
        before, self._high = self._high, ""
        if char and _is_high(char):
            self._high = char
            return mended(before)
        return mended(before + char)


def answer_of(text: str) -> Activity | None:
    """Returns a whole JSON answer as a message: the words for the user, and a value for the parser of turns.

    `None` if it is not an object with a `reply`.
    """
    found = leading_object(text)
    if found is None or not isinstance(found.get("reply"), str):
        return None
    data, citations, action = found.get("data"), found.get("citations"), found.get("next_action")
    value: dict[str, Any] = {
        "data": {name: given for name, given in data.items() if given is not None} if isinstance(data, dict) else {},
        "nextAction": action if isinstance(action, str) else None,
        "citations": citations if isinstance(citations, list) else [],
    }
    return Activity.said(found["reply"], value=value)


def _is_high(char: str) -> bool:
    return "\ud800" <= char <= "\udbff"
