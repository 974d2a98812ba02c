"""A problem document (RFC 9457), which can be raised, sent as a response, or told inside an event stream."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """Raised where a request cannot go on, and sent as its response.

    `code` is stable: programs decide by it. `more`: extension members.
    """

    def __init__(
        self,
        status: int,
        code: str,
        title: str,
        detail: str,
        retry_after_s: int | None = None,
        *,
        more: Mapping[str, Any] | None = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(f"{status} {title}: {detail}")
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.more = dict(more or {})
        self._headers = tuple(headers)

    def document(self, instance: str | None = None) -> dict[str, Any]:
        """`instance`: the path of the request that it is about."""
        told: dict[str, Any] = {
            "type": f"urn:inturn:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        if instance is not None:
            told["instance"] = instance
        return told | self.more

    def written(self, instance: str | None = None) -> bytes:
        """In ASCII: whatever a client has sent can be told to it."""
        return json.dumps(self.document(instance)).encode("ascii")

    def headers(self) -> dict[str, str]:
        told = {"content-type": MEDIA_TYPE, "cache-control": "no-store", **dict(self._headers)}
        if self.retry_after_s is not None:
            told["retry-after"] = str(self.retry_after_s)
        return told

    async def send(self, send: Send, instance: str | None = None) -> None:
        body = self.written(instance)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers().items()]
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})
