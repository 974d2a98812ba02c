"""Who is calling: `Authentication` finds out before anything else runs, and dependencies tell the routes.

With keys, each request under /api and /metrics needs one, and those under /api/v1/admin one with the role admin. A
route says who may use it: `caller` (users), `service_or_user`, `service`, `admin`. Without keys, only this machine is
served, as one local user: the Host header must name this machine (against DNS rebinding), and the page must be ours. A
page from another port of this machine counts as another site.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated
from urllib.parse import unquote

from inturn.errors import MissingExtra
from inturn.http.api_keys import CurrentKeys
from inturn.http.asgi import ASGIApp, Receive, Scope, Send, values_of
from inturn.http.caller import LOCAL, SERVICE, Caller
from inturn.http.problems import Problem
from inturn.http.signatures import Secrets, verify

try:
    from fastapi import Depends, Request
    from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
except ModuleNotFoundError as error:
    raise MissingExtra("inturn.http.auth", "server") from error

_PLACE = "inturn.caller"
_WITHDRAWN = "inturn.withdrawn"
"""Where to find what waits until the caller's key no longer counts."""
_GUARDED = ("/api/", "/metrics/")
_ADMIN = ("/api/v1/admin/",)
MAX_ESCAPES = 3
"""How often a path may be escaped over again, and is still read. Without a bound, a long one would take very long."""
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([0-9]*))?", re.IGNORECASE | re.ASCII)
_PORTS = {"http": "80", "https": "443"}
_bearer = HTTPBearer(
    auto_error=False, description="An API key. A server without configured keys needs none, and serves loopback only."
)


class Authentication:
    """`signed`: exact paths that need no key, because their routes verify a signature (`signed_body`). With keys, they
    are closed while there are no `secrets` to verify it with. `proved`: exact paths that anyone may POST to, from
    wherever they are, because their routes know their caller by a secret of their own.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: CurrentKeys,
        signed: Iterable[str] = (),
        secrets: Secrets | None = None,
        proved: Iterable[str] = (),
    ) -> None:
        self._app = app
        self._keys = keys
        self._signed = frozenset(signed)
        self._proved = frozenset(proved)
        self._has_secrets = bool(secrets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                if scope["method"] == "POST" and _path_of(scope) in self._proved:
                    scope[_PLACE] = None
                else:
                    scope[_PLACE] = self._known(scope) if self._keys.are_needed else _local(scope)
            except Problem as problem:
                await problem.send(send, scope["path"])
                return
        await self._app(scope, receive, send)

    def _known(self, scope: Scope) -> Caller | None:
        path = _path_of(scope)
        if path in self._signed:
            if not self._has_secrets:  # a sender tries again after a 503, and gives up after a 401
                raise Problem("no-webhook-secret")
            return None
        given = values_of(scope["headers"], b"authorization")
        scheme, _, key = given[0].decode("latin-1").partition(" ") if len(given) == 1 else ("", "", "")
        caller = self._keys.caller(key.strip()) if scheme.lower() == "bearer" else None
        if caller is None and _is_under(path, _GUARDED):
            detail = "This API key is not known." if given else ""
            raise Problem("not-authenticated", detail, headers=[("www-authenticate", "Bearer")])
        if not (caller is not None and caller.is_admin) and _is_under(path, _ADMIN):  # also if a route forgets to ask
            raise Problem("not-allowed")
        if caller is not None:
            scope[_WITHDRAWN] = lambda: self._keys.withdrawn(key.strip(), caller)
        return caller


def service_or_user(
    request: Request, key: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)] = None
) -> Caller:
    """A dependency for routes that every known caller may use. `key` is there for the OpenAPI description alone."""
    found = request.scope.get(_PLACE)
    if not isinstance(found, Caller):  # the app is mounted in another, and Authentication did not see the path
        raise Problem("not-authenticated")
    return found


_Known = Annotated[Caller, Depends(service_or_user)]


def caller(who: _Known) -> Caller:
    """A dependency for routes of users: the default, so that a service reaches only what was opened to it."""
    if not who.is_user:
        raise Problem("not-allowed", "This is for users: a service key does not open it.")
    return who


def service(who: _Known) -> Caller:
    """A dependency for routes by which services call each other."""
    if not who.is_service:
        raise Problem("not-allowed", "This is for other services: only a service key opens it.")
    return who


def admin(who: _Known) -> Caller:
    """A dependency for routes of the operator."""
    if not who.is_admin:
        raise Problem("not-allowed")
    return who


def signed_body(
    secrets: Callable[[], Awaitable[Secrets]], now: Callable[[], float] = time.time
) -> Callable[[Request], Awaitable[bytes]]:
    """Makes a dependency for the routes of `signed` paths: the body, once its signature is verified."""

    async def body(request: Request) -> bytes:
        sent, known = await request.body(), await secrets()
        if not known:
            raise Problem("no-webhook-secret")
        verify(known, request.scope["headers"], sent, now())
        return sent

    return body


def as_service(app: ASGIApp) -> ASGIApp:
    """For calls from inside this process, which need no key: the caller is a service."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, _PLACE: SERVICE}, receive, send)

    return call


def is_known(request: Request) -> bool:
    """For routes that anyone may call, but that tell known callers more."""
    return isinstance(request.scope.get(_PLACE), Caller)


def caller_in_lanes(who: Annotated[Caller, Depends(caller)]) -> Caller:
    return who.in_lanes


async def withdrawn(scope: Scope) -> None:
    """Returns when the caller's key no longer counts; never, if it has none."""
    await (scope[_WITHDRAWN]() if _WITHDRAWN in scope else asyncio.Event().wait())


def tenant_of(scope: Scope) -> str:
    """Whose request it is; the empty name if nobody is known."""
    found = scope.get(_PLACE)
    return found.tenant_id if isinstance(found, Caller) else ""


def scope_of(scope: Scope) -> str | None:
    """Who owns an `Idempotency-Key`: the same for all requests of one user, whatever the roles of its keys, and for
    all of services. Users have a tenant and services have none, so theirs never meet.
    """
    found = scope.get(_PLACE)
    return f"{found.tenant_id}\0{found.user_id}" if isinstance(found, Caller) else None


def _path_of(scope: Scope) -> str:
    """As the router reads it: without the prefix under which this app is mounted."""
    path, prefix = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(prefix) :] if f"{path}/".startswith(f"{prefix}/") else path


def _is_under(path: str, places: tuple[str, ...]) -> bool:
    """Also in another spelling. The router knows no other one, but what stands before it or is added to it may."""
    return any(f"{each}/".startswith(places) for each in (path, _plain(path)))


def _plain(path: str) -> str:
    """The one spelling of a path: unescaped, in lower case, with single slashes, without `.`, `..` and parameters."""
    for _ in range(MAX_ESCAPES):
        path = unquote(path)
    parts: list[str] = []
    for part in path.lower().replace("\\", "/").split("/"):
        name = part.partition(";")[0].strip()
        if name == "..":
            del parts[-1:]
        elif name not in ("", "."):
            parts.append(name)
    return "/" + "/".join(parts)


def _local(scope: Scope) -> Caller:
    hosts = [host.decode("latin-1") for host in values_of(scope["headers"], b"host")]
    client = scope.get("client")
    if len(hosts) != 1 or not is_loopback_name(hosts[0]) or (client and not is_loopback(client[0])):
        raise Problem("not-this-host")
    origins = [origin.decode("latin-1") for origin in values_of(scope["headers"], b"origin")]
    if not all(is_own(origin, scope["scheme"], hosts[0]) for origin in origins):
        raise Problem("cross-origin")
    return LOCAL


def is_own(origin: str, scheme: str, host: str) -> bool:
    """Whether a page of this origin is one of ours. This machine has several names, but one port means one server."""
    theirs, _, place = origin.lower().partition("://")
    return theirs == scheme and is_loopback_name(place) and _port(place, scheme) == _port(host, scheme)


def is_loopback_name(host: str) -> bool:
    """Takes the value of a `Host` header: a name with or without a port, and nothing else, such as a user."""
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
