"""The words for the user, out of a JSON answer that is still being written.

Never half an escape, never half a surrogate pair: what was shown is always a beginning of the whole reply.
"""

from __future__ import annotations

import re

_SHORT_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LONE = re.compile("[\ud800-\udfff]")
_FENCE = re.compile(r"\s*(?:```(?:json)?\s*)?", re.IGNORECASE)
_HALF_FENCE = re.compile(r"\s*(?:`{1,2}|```j?s?o?)?", re.IGNORECASE)


def lead_of(text: str) -> int:
    """How many characters stand before the object: blanks, and the fence that models put around JSON."""
    found = _FENCE.match(text)
    return found.end() if found else 0


def is_high(char: str) -> bool:
    return "\ud800" <= char <= "\udbff"


def mended(text: str) -> str:
    """The text with its surrogate pairs joined, and a replacement character for what has no partner."""
    if not _LONE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Joiner:
    """Deltas of a text. Where one is cut inside a surrogate pair, the first half waits for the second."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, delta: str) -> str:
        text, self._half = self._half + delta, ""
        if text and is_high(text[-1]):
            text, self._half = text[:-1], text[-1]
        return mended(text)

    def rest(self) -> str:
        return mended(self._half)


class ReplyScanner:
    """Fed with an object as it comes, gives the decoded pieces of its `reply`. What is no object is all reply."""

    def __init__(self) -> None:
        self.is_plain: bool | None = None
        """`None` until something was said."""
        self.has_reply = False
        self._lead = ""  # white space and a fence, until it is known what they lead to
        self._depth = 0
        self._key = ""
        self._is_key = False  # the string that comes next at depth 1 is a key
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
        """The character that is complete now; '' inside an escape."""
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
        """Joined with the half that waits; '' for a half that begins to wait."""
        before, self._high = self._high, ""
        if char and is_high(char):
            self._high = char
            return mended(before)
        return mended(before + char)
