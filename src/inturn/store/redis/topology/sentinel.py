"""A master that sentinels watch over. They are asked where it is whenever a link to it has to be made.

`redis+sentinel://[user:password@]host:port[,host:port…]/<service name>[/db]`, where user and password are the master's;
`sentinel_username` and `sentinel_password` are parameters. `rediss+sentinel://` speaks TLS with both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlencode

import hiredis

from inturn.errors import SettingsError
from inturn.store.redis.address import Address, UrlParts, split_url
from inturn.store.redis.link import LinkLost, LinkRefused, all_together, ask_once

SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")
SENTINEL_PORT = 26379
ANSWERS_WITHIN_S = 0.5
"""How long one sentinel may take; then the next is asked."""

_FORM = "redis+sentinel://host:port,host:port/<service name>, for example redis+sentinel://s1:26379,s2:26379/mymaster"


def is_sentinel(url: str) -> bool:
    return url.partition("://")[0] in SENTINEL_SCHEMES


@dataclass(frozen=True, slots=True)
class SentinelAddress(Address):
    """Wherever the master of a service is now. Of the inherited fields, its database, credentials and TLS are used."""

    service: str = ""
    sentinels: list[Address] = field(default_factory=list, hash=False, compare=False)
    """In the order in which to ask: the one that answered last comes first."""

    @classmethod
    def from_url(cls, url: str) -> SentinelAddress:
        parts = split_url(url)
        service, _, db = parts.path.strip("/").partition("/")
        if not service:
            raise SettingsError(f"the URL names no service; it is {_FORM}")
        if db and not db.isdecimal():
            raise SettingsError(f"what follows the service name must be the number of a database; the URL is {_FORM}")
        query = parse_qs(parts.query)
        username, password = (query.pop(f"sentinel_{what}", [None])[0] for what in ("username", "password"))
        rest = urlencode(query, doseq=True)
        master = Address.from_url(parts._replace(hosts=parts.hosts[:1], path="/" + db, query=rest).one())
        sentinels = []
        for host in parts.hosts:
            at = Address.from_url(UrlParts(parts.scheme, [host], query=rest).one(SENTINEL_PORT))
            sentinels.append(replace(at, db=0, username=username, password=password))
        return cls(
            host=master.host,
            port=master.port,
            db=master.db,
            username=master.username,
            password=master.password,
            tls=master.tls,
            service=service,
            sentinels=sentinels,
        )

    def __str__(self) -> str:
        scheme = "rediss" if self.tls else "redis"
        hosts = ",".join(f"{at.host}:{at.port}" for at in self.sentinels)
        return f"{scheme}+sentinel://{hosts}/{self.service}"

    async def connect(self, loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol]) -> None:
        host, port = await self._find_master()
        master = Address(host, port, db=self.db, username=self.username, password=self.password, tls=self.tls)
        await master.connect(loop, protocol)

    async def _find_master(self) -> tuple[str, int]:
        troubles: list[LinkLost] = []
        for sentinel in list(self.sentinels):
            # it goes behind the others before it is asked: our time may be up while it keeps us waiting
            self.sentinels[:] = [*(other for other in self.sentinels if other is not sentinel), sentinel]
            try:
                found = await ask_once(sentinel, ANSWERS_WITHIN_S, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service)
            except LinkLost as error:
                troubles.append(error)
                continue
            if found is None:
                troubles.append(LinkRefused(f"{sentinel} knows no service {self.service!r}"))
                continue
            self.sentinels[:] = [sentinel, *(other for other in self.sentinels if other is not sentinel)]
            return found[0].decode(), int(found[1])
        raise all_together(f"no sentinel of {self} says where the master is", troubles)

    async def verify(self, ask: Callable[..., Awaitable[Any]]) -> None:
        """A sentinel may not have heard yet that its master was replaced."""
        role = await ask("ROLE")
        if isinstance(role, hiredis.ReplyError):
            kind = LinkRefused if str(role).startswith("NOPERM") else LinkLost
            raise kind(f"{self}: the server does not tell its role: {role}")
        if role[0] != b"master":
            raise LinkLost(f"{self}: the server that the sentinels named is a {role[0].decode()}, not yet a master")
