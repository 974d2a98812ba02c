"""Who calls. Two callers never see each other's responses, so what does not tell callers apart answers `None`.

`by_authorization` is the default: equal credentials are one caller by HTTP's own rules. An address is shared by all
who stand behind one router or proxy, and a cookie may only hold a colour scheme; whoever knows better says so.
"""

from __future__ import annotations

from collections.abc import Callable

from inturn.http.asgi import Scope, values_of

CallerOf = Callable[[Scope], str | None]


def by_authorization(scope: Scope) -> str | None:
    """The `Authorization` header; `None` if there is none."""
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
    """The client's address. Only where every address is one caller: behind a proxy all of them are the proxy's."""
    client = scope.get("client")
    return str(client[0]) or None if client else None


def _all_of(scope: Scope, name: bytes) -> str | None:
    # if it stands there twice, who knows which one counts: both together are the caller
    return b"\0".join(values_of(scope["headers"], name)).decode("latin-1") or None
