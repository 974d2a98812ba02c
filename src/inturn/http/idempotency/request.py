"""A request that carries an `Idempotency-Key`: the key, who is calling, and what is asked for.

Its lane is a hash of caller and key, and its message id a hash of what was asked for, salted with the key: neither
credentials nor keys nor request bodies stand in the store.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from inturn.http.asgi import Receive, Scope, values_of
from inturn.http.body_limit import is_longer
from inturn.http.problems import Problem

CallerOf = Callable[[Scope], str | None]
"""Tells callers apart. Two of them never see each other's responses, so it returns `None` where it cannot tell."""


def by_authorization(scope: Scope) -> str | None:
    """The `Authorization` header: by HTTP's own rules, equal credentials are one caller. `None` if there is none."""
    return _all_of(scope, b"authorization")


def by_header(name: str) -> CallerOf:
    """The value of this header, such as `X-API-Key`, or one that your gateway sets and clients cannot."""
    wanted = name.lower().encode("ascii")
    return lambda scope: _all_of(scope, wanted)


def by_cookie(name: str) -> CallerOf:
    """The value of the cookie that holds the session."""

    def caller(scope: Scope) -> str | None:
        pairs = (
            pair for value in values_of(scope["headers"], b"cookie") for pair in value.decode("latin-1").split(";")
        )
        found = [
            value.strip() for key, is_pair, value in (pair.partition("=") for pair in pairs) if key.strip() == name
        ]
        return "\0".join(found) or None

    return caller


def by_address(scope: Scope) -> str | None:
    """The client's address. Only where each address is one caller: behind a proxy, every request has the proxy's."""
    client = scope.get("client")
    return str(client[0]) or None if client else None


def _all_of(scope: Scope, name: bytes) -> str | None:
    # a header that is sent twice is ambiguous: both values together are the caller
    return b"\0".join(values_of(scope["headers"], name)).decode("latin-1") or None


MAX_KEY = 255
MAX_VALUE = 2 * MAX_KEY + 256
"""Every character of a key escaped, and some room for parameters."""

# A structured-field string (RFC 9651), as the IETF draft has it. Many clients send the value without quotes, so
# `8e03978e` and `"8e03978e"` are the same key.
_STRING = rb'"((?:[ !#-\[\]-~]|\\["\\])*)"'
_BARE = rb"[!#-+\--:<-\[\]-~]+"  # printable, but none of: space " , ; \
_PARAMETERS = rb'(?: *; *[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[ !#-\[\]-~]|\\["\\])*"|[!#-+\--:<-\[\]-~]+))?)*'
_QUOTED_VALUE = re.compile(_STRING + _PARAMETERS)
_BARE_VALUE = re.compile(_BARE)
_ESCAPED = re.compile(rb'\\(["\\])')


def key_of(scope: Scope) -> str | None:
    """The key of a request, `None` if it has none. Raises a `Problem` for one that cannot be read."""
    values = values_of(scope["headers"], b"idempotency-key")
    if not values:
        return None
    if len(values) > 1:
        raise _malformed("The header is sent more than once")
    return read_key(values[0])


def read_key(value: bytes) -> str:
    value = value.strip(b" \t")
    if len(value) > MAX_VALUE:
        raise _malformed(f"The value has {len(value)} characters")
    quoted = _QUOTED_VALUE.fullmatch(value)
    if quoted:
        key = _ESCAPED.sub(rb"\1", quoted[1])  # parameters have no meaning here, and are ignored as the RFC asks
    elif _BARE_VALUE.fullmatch(value):
        key = value
    else:
        raise _malformed("The value is not a string of printable ASCII characters" if value else "The value is empty")
    if not key:
        raise _malformed("The value is empty")
    if len(key) > MAX_KEY:
        raise _malformed(f"The value has {len(key)} characters")
    return key.decode("ascii")


def _malformed(why: str) -> Problem:
    told = f"Send one header with one quoted string of 1 to {MAX_KEY} printable ASCII characters, such as a UUID."
    return Problem("key-malformed", f"{why}. {told}")


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes | None:
    """The whole body; `None` if the client went away before it had sent it."""
    if is_longer(scope, limit):
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        chunk = event.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if not event.get("more_body", False):
            return b"".join(chunks)


def _too_large(limit: int) -> Problem:
    return Problem("too-large", f"With an Idempotency-Key, a body may be up to {limit} bytes long. Nothing was done.")


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
