"""Where a Redis server is and how to get in: redis://, rediss:// (TLS) and unix:// URLs, as redis-py reads them.

They are read here: a process that loads redis-py for that takes a third longer to start.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from inturn.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Address:
    """One server. Its text never shows the password."""

    host: str = "localhost"
    port: int = 6379
    path: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None

    @classmethod
    def from_url(cls, url: str) -> Address:
        """User and password stand before the host, or are parameters: there they are easier to write for a socket."""
        if not url.startswith(("redis://", "rediss://", "unix://")):
            raise _unreadable("it must start with redis://, rediss:// or unix://")
        try:
            parts = urlsplit(url)
            host, port = (None, None) if parts.scheme == "unix" else (parts.hostname, parts.port)
        except ValueError:
            # its reason may quote what stands where a port should be: perhaps half of a password
            raise _unreadable("its host or port cannot be read") from None
        is_socket, path = parts.scheme == "unix", unquote(parts.path)
        if is_socket and not path:
            raise _unreadable("it names no socket; it is unix:///path/to/redis.sock")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return cls(
            host=unquote(host or "") or "localhost",
            port=port or 6379,
            path=path if is_socket else None,
            db=_database("" if is_socket else path, query),
            username=unquote(parts.username or "") or query.get("username"),
            password=unquote(parts.password or "") or query.get("password"),
            tls=_tls(query) if parts.scheme == "rediss" else None,
        )

    def __str__(self) -> str:
        scheme = "rediss" if self.tls else "redis"
        return f"unix://{self.path}" if self.path else f"{scheme}://{self.host}:{self.port}/{self.db}"

    async def verify(self, ask: Callable[..., Awaitable[Any]]) -> None:
        """Whether the server that was reached is the right one: see `sentinel.py`."""

    async def connect(self, loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol]) -> None:
        """The protocol is told of its transport."""
        if self.path:
            await loop.create_unix_connection(protocol, self.path)
            return
        name = self.host if self.tls else None
        transport, _ = await loop.create_connection(protocol, self.host, self.port, ssl=self.tls, server_hostname=name)
        if not transport.is_closing():
            _keep_alive(transport.get_extra_info("socket"))


class UrlParts(NamedTuple):
    """A URL that names several servers. `scheme` is that of each of them: redis or rediss."""

    scheme: str
    hosts: list[str]
    userinfo: str = ""
    path: str = ""
    query: str = ""

    def one(self, default_port: int = 6379) -> str:
        """The URL of the first."""
        user = f"{self.userinfo}@" if self.userinfo else ""
        host = self.hosts[0]
        port = "" if ":" in host.rpartition("]")[2] else f":{default_port}"
        return f"{self.scheme}://{user}{host}{port}{self.path}" + (f"?{self.query}" if self.query else "")


def split_url(url: str) -> UrlParts:
    """`redis+cluster://user:password@host:port,host:port/path?query`. Odd hosts are found when they are read."""
    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    userinfo, _, hosts = authority.rpartition("@")
    if "@" in path:
        raise SettingsError("cannot read the Redis URL: in a user name or password, write / as %2F, @ as %40, : as %3A")
    named = hosts.split(",")
    if not all(named):
        raise SettingsError(f"the URL names no server, or an empty one; it is {scheme}://host:port,host:port/…")
    return UrlParts(scheme.partition("+")[0], named, userinfo=userinfo, path=slash + path, query=query)


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _unreadable(why: str) -> SettingsError:
    hint = "in a user name or password, write / as %2F, @ as %40, : as %3A"
    return SettingsError(f"cannot read the Redis URL: {why} ({hint})")


def _database(path: str, query: dict[str, str]) -> int:
    """The parameter counts before the path. A path that is no number is passed over, as by redis-py."""
    try:
        return int(query.get("db") or path.replace("/", ""))
    except ValueError:
        if "db" in query:
            raise _unreadable("db= must be a number") from None
        return 0


def _tls(query: dict[str, str]) -> ssl.SSLContext:
    """redis-py's own parameter names: ssl_ca_certs, ssl_certfile, ssl_keyfile, ssl_cert_reqs, ssl_check_hostname."""
    needed = query.get("ssl_cert_reqs", "required")
    if needed not in ("required", "optional", "none"):
        raise SettingsError(f"ssl_cert_reqs={needed!r}: use required, optional or none")
    ca, certificate, key = (query.get(f"ssl_{what}") for what in ("ca_certs", "certfile", "keyfile"))
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        raise SettingsError(f"ssl_ca_certs={ca!r} cannot be read: {error}") from error
    try:
        if certificate:
            context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        raise SettingsError(f"ssl_certfile={certificate!r} with ssl_keyfile={key!r} cannot be read: {error}") from error
    checks_name = query.get("ssl_check_hostname", "true").lower() not in ("0", "f", "false", "n", "no")
    context.check_hostname = checks_name and needed == "required"
    context.verify_mode = {
        "required": ssl.CERT_REQUIRED,
        "optional": ssl.CERT_OPTIONAL,
        "none": ssl.CERT_NONE,
    }[needed]
    return context
