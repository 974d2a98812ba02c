"""Who calls: `Authentication` finds it out before anything else runs, and `caller` tells it to the routes.

With API keys each request under /api and /metrics needs one. Without any, only this machine is served, as one local
user: not under a name that somebody else's page could have (DNS rebinding), nor for pages of other sites.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from inturn.conversations.http.caller import LOCAL, Caller
from inturn.problems.kinds import KINDS
from inturn.problems.problem import Problem
from inturn.web.asgi import ASGIApp, Receive, Scope, Send, values_of
from inturn.web.keys import ApiKeys

_PLACE = "inturn.caller"
_GUARDED = ("/api/", "/metrics/")
_bearer = HTTPBearer(auto_error=False, description="An API key. Without any configured, none is needed on loopback.")


class Authentication:
    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                scope[_PLACE] = self._known(scope) if len(self._keys) else _local(scope)
            except Problem as problem:
                await problem.send(send, scope["path"])
                return
        await self._app(scope, receive, send)

    def _known(self, scope: Scope) -> Caller | None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if not f"{path}/".startswith(_GUARDED):
            return None
        given = values_of(scope["headers"], b"authorization")
        scheme, _, key = given[0].decode("latin-1").partition(" ") if len(given) == 1 else ("", "", "")
        caller = self._keys.caller(key.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            why = "This API key is not known." if given else KINDS["not-authenticated"].example
            raise KINDS["not-authenticated"].problem(why, headers=[("www-authenticate", "Bearer")])
        return caller


def caller(request: Request, key: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)] = None) -> Caller:
    """The dependency of routes that belong to someone. `key` is only there for the OpenAPI description."""
    found = request.scope.get(_PLACE)
    if not isinstance(found, Caller):  # the app is part of another, which did not let Authentication see the path
        raise KINDS["not-authenticated"].problem(KINDS["not-authenticated"].example)
    return found


def caller_in_lanes(who: Annotated[Caller, Depends(caller)]) -> Caller:
    return who.in_lanes


def scope_of(scope: Scope) -> str | None:
    """For the idempotency of requests: equal for requests of one user."""
    found = scope.get(_PLACE)
    return f"{found.tenant_id}\0{found.user_id}" if isinstance(found, Caller) else None


def _local(scope: Scope) -> Caller:
    hosts = [host.decode("latin-1") for host in values_of(scope["headers"], b"host")]
    client = scope.get("client")
    if not hosts or not all(is_loopback_name(host) for host in hosts) or (client and not is_loopback(client[0])):
        raise KINDS["not-this-host"].problem(KINDS["not-this-host"].example)
    if not all(is_loopback_name(origin) for origin in _origins(scope)):
        raise KINDS["cross-origin"].problem(KINDS["cross-origin"].example)
    return LOCAL


def _origins(scope: Scope) -> Iterator[str]:
    for origin in values_of(scope["headers"], b"origin"):
        yield origin.decode("latin-1").partition("://")[2]


def is_loopback_name(host: str) -> bool:
    """Of a `Host` header, with or without a port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or is_loopback(name)


def is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return found.is_loopback or (mapped is not None and mapped.is_loopback)
