"""A request that carries a key: read whole, within a limit, and told apart from any other.

Its lane is a hash of caller and key, and its message id a hash of what was asked for, salted with the key: neither
credentials nor keys nor request bodies stand in the store.
"""

from __future__ import annotations

import hashlib

from inturn.http.asgi import Receive, Scope, values_of
from inturn.web.problem import request_too_large


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes | None:
    """The whole body; `None` if the client went away before it had sent it."""
    for told in values_of(scope["headers"], b"content-length"):
        if told.isdigit() and int(told[:20]) > limit:
            raise request_too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        chunk = event.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise request_too_large(limit)
        chunks.append(chunk)
        if not event.get("more_body", False):
            return b"".join(chunks)


def lane_of(caller: str, key: str) -> str:
    return f"idempotency:{_hash(caller.encode('utf-8', 'surrogatepass'), key.encode())}"


def fingerprint(scope: Scope, key: str, body: bytes) -> str:
    """Equal for a repeat, different for anything else that the same key could be used for."""
    return _hash(
        key.encode(),
        scope["method"].encode(),
        scope.get("raw_path") or scope["path"].encode(),
        scope.get("query_string", b""),
        b"\0".join(values_of(scope["headers"], b"content-type")),
        body,
    )


def _hash(*parts: bytes) -> str:
    total = hashlib.sha256()
    for part in parts:  # each is hashed by itself, so that no two lists of parts read the same when joined
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()
