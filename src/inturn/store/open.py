"""Opens the store behind a URL. The module of Redis is imported only for its URLs, so that others need no extra."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from inturn.errors import MissingExtra, SettingsError
from inturn.settings import STORE_SCHEMES, Namespace, Partitions, Replicas, Seconds
from inturn.store.limits import LETTER_LIVES_MS
from inturn.store.protocol import Store
from inturn.store.sqlite.store import SqliteStore
from inturn.store.sqlite.transaction import WallClock, wall_us

MAX_LETTER_S = 100 * 366 * 86_400.0
"""Whoever asks for more wants to keep dead letters for ever; no number may grow larger than the stores can count."""

_RULES: dict[str, TypeAdapter[Any]] = {
    "namespace": TypeAdapter(Namespace),
    "partitions": TypeAdapter(Partitions | None),
    "replicas": TypeAdapter(Replicas),
    "dead_letter_ttl": TypeAdapter(Seconds),
}
"""The rules of the settings: an argument has to follow them too."""


def open_store(
    url: str,
    process: str,
    *,
    namespace: str = "inturn",
    partitions: int | None = None,
    timeout_s: float = 5.0,
    allow_eviction: bool = False,
    replicas: int = 0,
    dead_letter_ttl: float = LETTER_LIVES_MS / 1000,
    wall: WallClock | None = None,
) -> Store:
    """Returns the store behind `url`; nothing is connected yet. No message shows what could be a password.

    `partitions`: `None` is the store's default, 1 on a single server and 16 on a cluster.
    `dead_letter_ttl`: seconds for which a message that this process buries is kept.
    """
    _check(namespace=namespace, partitions=partitions, replicas=replicas, dead_letter_ttl=dead_letter_ttl)
    letter_ms = max(1, round(min(dead_letter_ttl, MAX_LETTER_S) * 1000))
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme == "sqlite":
        if replicas:
            raise SettingsError(f"replicas {replicas}: sqlite:// has none to wait for; leave it out, or use Redis")
        return SqliteStore(
            url,
            process,
            namespace=namespace,
            partitions=partitions or 1,
            timeout_s=timeout_s,
            letter_ms=letter_ms,
            wall=wall or wall_us,
        )
    if wall is not None:
        raise SettingsError("only sqlite:// takes another clock: the time of Redis is the server's")
    if scheme in STORE_SCHEMES:
        try:
            from inturn.store.redis.store import RedisStore
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.partition(".")[0] in ("redis", "hiredis"):
                raise MissingExtra(f"{scheme}://", "redis") from error
            raise
        return RedisStore(
            url,
            process,
            namespace=namespace,
            partitions=partitions,
            timeout_s=timeout_s,
            allow_eviction=allow_eviction,
            replicas=replicas,
            letter_ms=letter_ms,
        )
    known = ", ".join(f"{name}://" for name in STORE_SCHEMES)
    if not scheme:
        raise SettingsError(f"the store's URL has no scheme; it starts with one of {known}")
    raise SettingsError(f"unknown scheme {scheme!r} in the store's URL; it starts with one of {known}")


def _check(**given: object) -> None:
    for name, value in given.items():
        try:
            _RULES[name].validate_python(value, strict=True)
        except ValidationError as error:
            raise SettingsError(f"{name} {value!r}: {error.errors()[0]['msg']}") from None
