"""Where `MessageDeduplicationManager` keeps its marks: plain keys on Redis, locks with a fixed life on SQLite."""

from __future__ import annotations

import secrets
from typing import Protocol

from inturn.errors import StoreUnavailable
from inturn.locks import source
from inturn.compat.plain import Commands, LeaseLocks, PlainLocks, StringLocks
from inturn.process.process import Process
from inturn.store import clock
from inturn.store.protocol import Request


class Claims:
    """What this manager has claimed and not yet marked or given back, until it expires: key -> token."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, float]] = {}
        self._sweep_at = 64

    def keep(self, key: str, token: str, life_ms: int) -> None:
        self._kept[key] = token, clock.now() + life_ms / 1000

    def keep_if_none(self, key: str, token: str, life_ms: int) -> None:
        self._kept.setdefault(key, (token, clock.now() + life_ms / 1000))

    def pop(self, key: str) -> str | None:
        return self._kept.pop(key, ("", 0.0))[0] or None

    def expired(self) -> list[tuple[str, str]]:
        """Forget those that are over, each time that as many came as there were: so it costs next to nothing."""
        if len(self._kept) < self._sweep_at:
            return []
        at = clock.now()
        over = [(key, token) for key, (token, until) in list(self._kept.items()) if until <= at]
        for key, _ in over:
            self._kept.pop(key, None)
        self._sweep_at = max(64, 2 * len(self._kept))
        return over


class Marks(PlainLocks, Protocol):
    """Claims are plain locks; a mark is a claim that nobody gives back."""

    claims: Claims

    async def put(self, key: str, life_ms: int) -> None: ...


class StringMarks(StringLocks):
    """On Redis, by the keys that others read too. What is in them does not matter to a reader."""

    def __init__(self, commands: Commands) -> None:
        super().__init__(commands)
        self.claims = Claims()

    async def take(self, key: str, life_ms: int) -> str | None:
        self.claims.expired()
        token = secrets.token_hex(16)
        try:
            is_ours = bool(await self._command("SET", key, token, "NX", "PX", life_ms))
            # a SET whose reply was lost is sent again, and then finds what it has set itself
            is_ours = is_ours or await self._command("GET", key) in (token, token.encode())
        except StoreUnavailable:
            # it may have been set all the same, and must not be there if the work fails
            self.claims.keep_if_none(key, token, life_ms)
            raise
        if is_ours:
            self.claims.keep(key, token, life_ms)
        return token if is_ours else None

    async def put(self, key: str, life_ms: int) -> None:
        await self._command("SET", key, "1", "PX", life_ms)
        self.claims.pop(key)


class LeaseMarks(LeaseLocks):
    """On any store, as locks that nobody waits for: other apps on the same store see them, and `locks ls` does."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.claims = Claims()
        self._marked = Claims()

    async def take(self, key: str, life_ms: int) -> str | None:
        await self._process.ready()
        store, token = self._process.store, self._process.registry.new_token()
        # what has expired is in nobody's way; but it stays in the file until someone looks at that name again
        for name, old in self.claims.expired() + self._marked.expired():
            await store.release(name, old)
        try:
            answer = await store.acquire(Request(key, token, token, 1, 1, 0, life_ms, 0, False))
        except StoreUnavailable:
            self.claims.keep_if_none(key, token, life_ms)
            raise
        if answer.status != "granted":
            return None
        self.claims.keep(key, token, life_ms)
        return token

    async def put(self, key: str, life_ms: int) -> None:
        """If someone has claimed it, the claim is taken away: or giving it back would take the mark along."""
        while (token := await self.take(key, life_ms)) is None:
            await self._process.store.force_release(key)
        self.claims.pop(key)
        self._marked.keep(key, token, life_ms)


def of_client(client: source.Client) -> Marks:
    # here, because only those who have a client have redis-py
    from inturn.store.redis.client import ClientCommands

    return StringMarks(ClientCommands(client))


def of_app(app: source.App) -> Marks:
    is_redis = callable(getattr(app.process.store, "command", None))
    return StringMarks(source.AppCommands(app.process)) if is_redis else LeaseMarks(app.process)
