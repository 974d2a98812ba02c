"""The event stream of Copilot Studio, read before the official client reads it.

The client validates every activity strictly: one field that the service fills in a new way has put out all agents at
once. So each activity is kept here as it came, and the client is given one that is surely valid in its place.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from inturn.agents.copilot_errors import message_in

_BOM = b"\xef\xbb\xbf"
_STANDS_IN = (b"event: activity\n", b'data: {"type": "typing"}\n')


class StreamError(Exception):
    """The service told of an error inside its stream."""


class Lines:
    """Stands for the content of a response, and differs from it in its lines. `given`: what the service sent."""

    def __init__(self, content: AsyncIterable[bytes], given: deque[dict[str, Any]]) -> None:
        self._content = content
        self._given = given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        kind, data, is_first = "", b"", True
        async for line in self._content:
            line = line.removeprefix(_BOM) if is_first else line
            is_first = False
            name, _, value = line.rstrip(b"\r\n").partition(b":")
            if name == b"event":
                kind = value.decode("utf-8", "replace").strip()
            elif name == b"data":
                data += value.removeprefix(b" ") + b"\n"
            elif not line.strip():
                if self._take(kind, data):
                    for stand_in in _STANDS_IN:
                        yield stand_in
                data = b""
        if self._take(kind, data):  # the last event may lack the empty line behind it
            for stand_in in _STANDS_IN:
                yield stand_in

    def _take(self, kind: str, data: bytes) -> bool:
        """Whether there is an activity for the client now."""
        if not data:
            return False
        if kind == "error":
            raise StreamError(message_in(data.decode("utf-8", "replace")))
        if kind != "activity":
            return False
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("an activity must be an object")
        self._given.append(found)
        return True
