"""What Copilot Studio streams: events as lines, activities inside them, and the pieces of an answer inside those.

Everything is read leniently, and without the official client.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Literal

from inturn.agents.activity import Activity

_BOM = b"\xef\xbb\xbf"
_STANDS_IN = (b"event: activity\n", b'data: {"type": "typing"}\n')


class StreamError(Exception):
    """The service reported an error inside its stream."""


class Lines:
    """Replaces the content of a response, and reads the event stream before the official client does.

    The client validates every activity strictly: a single field that the service filled in a new way once took down
    every agent. So `given` keeps each activity as it came, and the client gets a surely valid one in its place.
    """

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
        if self._take(kind, data):  # the last event may lack the empty line after it
            for stand_in in _STANDS_IN:
                yield stand_in

    def _take(self, kind: str, data: bytes) -> bool:
        """Returns whether there is an activity for the client."""
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


def message_in(body: str) -> str:
    """Returns the service's own sentence from the body of an error, if there is one."""
    try:
        found = json.loads(body)
    except ValueError:
        return body
    for inner in (found.get("error"), found) if isinstance(found, dict) else ():
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            return str(inner["message"])
    return body


class Pieces:
    """The streams of one answer, as pieces. A typing activity carries the whole text so far, or only what is new.

    The service has sent both. A chunk may say which it is (`chunkType`: `delta`). If it does not, the second chunk of a
    stream shows it: a whole text begins with the first chunk. The message at the end has the whole text in any case.
    """

    def __init__(self) -> None:
        self.is_open = False
        """Whether something was streamed whose message has not come yet."""
        self._texts: dict[str, str] = {}
        self._kinds: dict[str, Literal["delta", "so far"]] = {}

    def read(self, given: dict[str, Any]) -> Activity | None:
        activity = Activity.read(given)
        if activity is None:
            return None
        info = _stream_info(activity, given.get("channelData"))
        if activity.type == "message" or info.get("streamType") == "final":
            self.is_open = False
            return activity
        if activity.type != "typing":
            return activity
        is_answer = bool(activity.text) and info.get("streamType") != "informative"
        return Activity.piece(self._new(activity, info) if is_answer else "")

    def _new(self, activity: Activity, info: dict[str, Any]) -> str:
        stream = str(info.get("streamId") or activity.id)  # the first chunk's id is the id of its stream
        before, text = self._texts.get(stream, ""), activity.text
        if info.get("chunkType") == "delta":
            self._kinds[stream] = "delta"
        elif before and stream not in self._kinds:
            self._kinds[stream] = "so far" if text.startswith(before) else "delta"
        piece = text
        if self._kinds.get(stream) != "delta":
            # A stream may also take back what it said. What was shown stays until the message replaces it.
            piece = text[len(before) :] if text.startswith(before) else ""
        self._texts[stream] = before + piece
        self.is_open = True
        return piece


def _stream_info(activity: Activity, channel_data: object) -> dict[str, Any]:
    """Returns how an activity is streamed. Its channel data, an entity, or both say so."""
    info: dict[str, Any] = {}
    for entity in activity.entities:
        if entity.get("type") == "streaminfo":
            info |= entity
    return {**info, **channel_data} if isinstance(channel_data, dict) else info
