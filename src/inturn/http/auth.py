"""Who calls: `Authentication` finds it out before anything else runs, and `caller` tells it to the routes.

With API keys each request under /api and /metrics needs one. Without any, only this machine is served, as one local
user: not under a name that somebody else's page could have (DNS rebinding), nor for pages of other sites, of which
another port of this machine is one.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from inturn.http.caller import LOCAL, Caller
from inturn.problems.kinds import KINDS
from inturn.problems.problem import Problem
from inturn.http.asgi import ASGIApp, Receive, Scope, Send, values_of
from inturn.http.api_keys import ApiKeys

_PLACE = "inturn.caller"
_GUARDED = ("/api/", "/metrics/")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([0-9]*))?", re.IGNORECASE | re.ASCII)
_PORTS = {"http": "80", "https": "443"}
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
        given = values_of(scope["headers"], b"authorization")
        scheme, _, key = given[0].decode("latin-1").partition(" ") if len(given) == 1 else ("", "", "")
        caller = self._keys.caller(key.strip()) if scheme.lower() == "bearer" else None
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if caller is None and f"{path}/".startswith(_GUARDED):
            why = "This API key is not known." if given else KINDS["not-authenticated"].example
            raise KINDS["not-authenticated"].problem(why, headers=[("www-authenticate", "Bearer")])
        return caller


def caller(request: Request, key: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)] = None) -> Caller:
    """The dependency of routes that belong to someone. `key` is only there for the OpenAPI description."""
    found = request.scope.get(_PLACE)
    if not isinstance(found, Caller):  # the app is part of another, which did not let Authentication see the path
        raise KINDS["not-authenticated"].problem(KINDS["not-authenticated"].example)
    return found


def is_known(request: Request) -> bool:
    """For routes that everybody may call, but that do not tell everybody everything."""
    return isinstance(request.scope.get(_PLACE), Caller)


def caller_in_lanes(who: Annotated[Caller, Depends(caller)]) -> Caller:
    return who.in_lanes


def scope_of(scope: Scope) -> str | None:
    """For the idempotency of requests: equal for requests of one user."""
    found = scope.get(_PLACE)
    return f"{found.tenant_id}\0{found.user_id}" if isinstance(found, Caller) else None


def _local(scope: Scope) -> Caller:
    hosts = [host.decode("latin-1") for host in values_of(scope["headers"], b"host")]
    client = scope.get("client")
    if len(hosts) != 1 or not is_loopback_name(hosts[0]) or (client and not is_loopback(client[0])):
        raise KINDS["not-this-host"].problem(KINDS["not-this-host"].example)
    origins = [origin.decode("latin-1") for origin in values_of(scope["headers"], b"origin")]
    if not all(is_own(origin, scope["scheme"], hosts[0]) for origin in origins):
        raise KINDS["cross-origin"].problem(KINDS["cross-origin"].example)
    return LOCAL


def is_own(origin: str, scheme: str, host: str) -> bool:
    """Whether a page of this origin is one of ours. This machine has several names, but one port is one server."""
    theirs, _, place = origin.lower().partition("://")
    return theirs == scheme and is_loopback_name(place) and _port(place, scheme) == _port(host, scheme)


def is_loopback_name(host: str) -> bool:
    """Of a `Host` header, with or without a port. Nothing else may stand there, such as a user."""
    found = _HOST.fullmatch(host)
    name = found[1].strip("[]").lower() if found else ""
    return name == "localhost" or is_loopback(name)


def _port(host: str, scheme: str) -> str:
    found = _HOST.fullmatch(host)
    return (found and found[2]) or _PORTS.get(scheme, "")


def is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return found.is_loopback or (mapped is not None and mapped.is_loopback)
