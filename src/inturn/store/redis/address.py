"""Where a Redis server is and how to get in: redis://, rediss:// (TLS) and unix:// URLs, as redis-py reads them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redis.connection import parse_url

from inturn.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Address:
    """One server. Its text never shows the password."""

    host: str = "localhost"
    port: int = 6379
    path: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = None
    tls: ssl.SSLContext | None = None

    @classmethod
    def from_url(cls, url: str) -> Address:
        try:
            parts: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
        except ValueError as error:
            raise SettingsError(f"cannot read the Redis URL: {error}") from error
        return cls(
            host=parts.get("host") or "localhost",
            port=parts.get("port") or 6379,
            path=parts.get("path"),
            db=parts.get("db") or 0,
            username=parts.get("username"),
            password=parts.get("password"),
            tls=_tls(parts) if url.startswith("rediss:") else None,
        )

    def __str__(self) -> str:
        scheme = "rediss" if self.tls else "redis"
        return f"unix://{self.path}" if self.path else f"{scheme}://{self.host}:{self.port}/{self.db}"

    async def connect(
        self, loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol]
    ) -> asyncio.Transport:
        if self.path:
            transport, _ = await loop.create_unix_connection(protocol, self.path)
        else:
            name = self.host if self.tls else None
            transport, _ = await loop.create_connection(
                protocol, self.host, self.port, ssl=self.tls, server_hostname=name
            )
        return transport


def _tls(parts: dict[str, Any]) -> ssl.SSLContext:
    """redis-py's own parameter names: ssl_ca_certs, ssl_certfile, ssl_keyfile, ssl_cert_reqs, ssl_check_hostname."""
    context = ssl.create_default_context(cafile=parts.get("ssl_ca_certs"))
    needed = str(parts.get("ssl_cert_reqs", "required"))
    if needed not in ("required", "optional", "none"):
        raise SettingsError(f"ssl_cert_reqs={needed!r}: use required, optional or none")
    checks_name = str(parts.get("ssl_check_hostname", needed == "required")).lower() in ("true", "1", "yes")
    context.check_hostname = checks_name and needed == "required"
    context.verify_mode = {
        "required": ssl.CERT_REQUIRED,
        "optional": ssl.CERT_OPTIONAL,
        "none": ssl.CERT_NONE,
    }[needed]
    if parts.get("ssl_certfile"):
        context.load_cert_chain(parts["ssl_certfile"], parts.get("ssl_keyfile"))
    return context
