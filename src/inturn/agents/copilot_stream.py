"""What Copilot Studio streams, as pieces: typing activities that carry the text so far, or only what is new.

The service has sent both. A chunk may say which it is (`chunkType`: `delta`); where it does not, the second chunk of a
stream shows it: the text so far begins with the first one. The message at the end has the whole text in any case.
"""

from __future__ import annotations

from typing import Any, Literal

from inturn.agents.activity import Activity


class Pieces:
    """The streams of one answer."""

    def __init__(self) -> None:
        self.is_open = False
        """Whether something was streamed whose message has not come."""
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
        stream = str(info.get("streamId") or activity.id)  # the first chunk of a stream gives it its id
        before, text = self._texts.get(stream, ""), activity.text
        if info.get("chunkType") == "delta":
            self._kinds[stream] = "delta"
        elif before and stream not in self._kinds:
            self._kinds[stream] = "so far" if text.startswith(before) else "delta"
        piece = text
        if self._kinds.get(stream) != "delta":
            # A stream may also take back what it said; what was shown stays until the message replaces it.
            piece = text[len(before) :] if text.startswith(before) else ""
        self._texts[stream] = before + piece
        self.is_open = True
        return piece


def _stream_info(activity: Activity, channel_data: object) -> dict[str, Any]:
    """How an activity is streamed: in its channel data, in an entity, or in both."""
    info: dict[str, Any] = {}
    for entity in activity.entities:
        if entity.get("type") == "streaminfo":
            info |= entity
    return {**info, **channel_data} if isinstance(channel_data, dict) else info
