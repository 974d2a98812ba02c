"""A response as it is kept: status, headers and body, without what belongs to one connection or one moment."""

from __future__ import annotations

import base64
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from inturn.errors import TooLarge
from inturn.http.asgi import Headers, Send
from inturn.lanes import codec

MAX_RESPONSE = (codec.MAX_RESULT - 16 * 1024) * 3 // 4
"""A body of this size, in base64, leaves 16 KiB of a result for the headers."""

# What belongs to one connection (RFC 9110, 7.6.1), or to one moment: the server that replays sets its own date.
_NOT_KEPT = {
    b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    b"date", b"age", b"server", b"content-length", b"idempotency-replayed", b"idempotency-kept",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Headers
    body: bytes

    async def replay(self, send: Send) -> None:
        headers = list(self.headers)
        if self.status >= 200 and self.status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(self.body)))
        headers.append((b"idempotency-replayed", b"true"))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def written(response: Response, omitted: Collection[bytes]) -> dict[str, Any] | None:
    """What the commit keeps of it; `None` if that is more than a result may hold."""
    left_out = _NOT_KEPT.union(omitted)
    for name, value in response.headers:
        if name.lower() == b"connection":  # it may name further headers of this one connection
            left_out = left_out.union(token.strip().lower() for token in value.split(b","))
    kept = {
        "status": response.status,
        "headers": [
            [name.decode("latin-1"), value.decode("latin-1")]
            for name, value in response.headers
            if name.lower() not in left_out
        ],
        "body": base64.b64encode(response.body).decode(),
    }
    try:
        codec.write_json(kept, "the response", codec.MAX_RESULT)
    except TooLarge:
        return None
    return kept


def spent(why: str) -> dict[str, Any]:
    """Returns the note that a response was sent but could not be kept, and why."""
    return {"not_kept": why}


def read(kept: dict[str, Any]) -> Response | str:
    """The response, or why there is none."""
    if "not_kept" in kept:
        return str(kept["not_kept"])
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept["headers"]]
    return Response(kept["status"], headers, base64.b64decode(kept["body"]))
