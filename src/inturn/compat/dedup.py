"""`MessageDeduplicationManager`: which messages were processed, for code that wants only that.

If the store is away nothing is raised: that is logged, and the call returns what loses no message: not a duplicate,
claimed. `last_refusal` says so. The marks are the plain keys `processed_msg:{message_id}` on Redis, and locks with a
fixed life on SQLite. They count as locks do: claimed or marked is `granted`, and what was there before is `busy`.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from inturn import arguments, metrics
from inturn.compat.expiring import Expiring
from inturn.compat.face import Answer, Face, SyncFace
from inturn.compat.plain import (
    App,
    AppCommands,
    Client,
    Commands,
    LeaseLocks,
    PlainLocks,
    SeenThrough,
    StringLocks,
    SyncApp,
    fixed_life,
    is_app,
    is_client,
    kind_of,
)
from inturn.errors import ArgumentTypeError, StoreUnavailable
from inturn.process.process import Process

log = logging.getLogger("inturn.lanes")

PREFIX = "processed_msg:"
T = TypeVar("T")


Claims = Expiring[str]
"""What a manager has claimed and has not yet marked or given back, until it expires: key -> token."""


class Marks(PlainLocks, Protocol):
    """A claim is a plain lock; a mark is a claim that nobody gives back."""

    claims: Claims

    async def put(self, key: str, life_ms: int) -> None: ...


class StringMarks(StringLocks):
    """On Redis, by the keys that other services read too. They look only at whether a key exists."""

    def __init__(self, commands: Commands) -> None:
        super().__init__(commands)
        self.claims: Claims = Expiring()

    async def take(self, key: str, life_ms: int) -> str | None:
        self.claims.expired()
        token = secrets.token_hex(16)
        try:
            is_ours = bool(await self._command("SET", key, token, "NX", "PX", life_ms))
            # a SET whose reply was lost is sent again, and then finds its own token there
            is_ours = is_ours or await self._command("GET", key) in (token, token.encode())
        except StoreUnavailable:
            # it may have been set all the same: remember it, so that it is given back if the work fails
            self.claims.keep_if_none(key, token, life_ms)
            raise
        if is_ours:
            self.claims.keep(key, token, life_ms)
        return token if is_ours else None

    async def put(self, key: str, life_ms: int) -> None:
        await self._command("SET", key, "1", "PX", life_ms)
        self.claims.pop(key)


class LeaseMarks(LeaseLocks):
    """On any store, as locks that nobody waits for. Other apps on the same store see them, and so does `locks ls`."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.claims: Claims = Expiring()
        self._marked: Claims = Expiring()

    async def take(self, key: str, life_ms: int) -> str | None:
        await self._process.ready()
        store, token = self._process.store, self._process.registry.new_token()
        # what has expired blocks nobody, but it stays in the file until someone asks for that name again
        for name, old in self.claims.expired() + self._marked.expired():
            await store.release(name, old)
        try:
            answer = await store.acquire(fixed_life(key, token, life_ms))
        except StoreUnavailable:
            self.claims.keep_if_none(key, token, life_ms)
            raise
        if answer.status != "granted":
            return None
        self.claims.keep(key, token, life_ms)
        return token

    async def put(self, key: str, life_ms: int) -> None:
        """A claim on it is taken away: giving that back later would remove the mark."""
        while (token := await self.take(key, life_ms)) is None:
            await self._process.store.force_release(key)
        self.claims.pop(key)
        self._marked.keep(key, token, life_ms)


def marks_of_client(client: Client) -> Marks:
    # imported here: a caller that passes a client has redis-py installed
    from inturn.store.redis.client import ClientCommands

    return StringMarks(ClientCommands(client))


def marks_of_app(app: App) -> Marks:
    is_redis = callable(getattr(app.process.store, "command", None))
    return StringMarks(AppCommands(app.process)) if is_redis else LeaseMarks(app.process)


class _Manager(Face):
    def __init__(self, kept: Marks, locks: PlainLocks, default_expiration: arguments.Seconds) -> None:
        super().__init__(locks, log)
        self._marks = kept
        self.default_expiration = arguments.ttl(default_expiration, "default_expiration")

    def generate_message_id(self, user_id: str | int, message_content: str) -> str:
        """`{user_id}:{sha256 of the content}`: the same text from the same user is the same message."""
        if not isinstance(message_content, str):
            raise ArgumentTypeError(
                "message_content", f"must be text, not {type(message_content).__name__}", message_content
            )
        user = str(user_id) if isinstance(user_id, int) and not isinstance(user_id, bool) else user_id
        digest = hashlib.sha256(message_content.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{arguments.name(user, 'user_id')}:{digest}"

    def _life_ms(self, expiration_time: arguments.Seconds | None) -> int:
        given = expiration_time
        life_s = self.default_expiration if given is None else arguments.ttl(given, "expiration_time")
        return round(life_s * 1000)

    async def _has(self, key: str) -> Answer[bool]:
        answer = await _unless_away(self._marks.is_held(key), key, False, "treated as new")
        if answer.value:
            metrics.acquisitions.labels("busy").inc()
            log.info("refused name=%s why=duplicate", key)
        return answer

    async def _put(self, key: str, life_ms: int) -> Answer[None]:
        async def put() -> None:
            is_claimed = key in self._marks.claims
            await self._marks.put(key, life_ms)
            if not is_claimed:  # a claim was counted when it was granted
                metrics.acquired.inc()
            log.debug("mark name=%s life=%gs", key, life_ms / 1000)

        return await _unless_away(put(), key, None, "not marked")

    async def _claim(self, key: str, life_ms: int) -> Answer[bool]:
        async def claim() -> bool:
            return await self._locks.take(key, life_ms) is not None

        answer = await _unless_away(claim(), key, True, "treated as the first")
        return answer if answer.value else Answer(False, "held")

    async def _give_back(self, key: str) -> Answer[bool]:
        token = self._marks.claims.pop(key)
        if token is None:
            return Answer(False)

        async def give_back() -> bool:
            return await self._locks.drop(key, token) == "done"

        answer = await _unless_away(give_back(), key, False, "the claim expires by itself")
        if answer.refusal == "away":
            self._marks.claims.keep_if_none(key, token, self._life_ms(None))
        return answer


class AsyncMessageDeduplicationManager(_Manager):
    """Remembers which messages were processed, for async code. Over a `redis.asyncio.Redis` or an `inturn.InTurn`."""

    def __init__(self, redis_client: Client | App, default_expiration: arguments.Seconds = 300) -> None:
        if is_app(redis_client):
            kept = marks_of_app(redis_client)
        elif is_client(redis_client, is_async=True):
            kept = marks_of_client(redis_client)
        else:
            kinds = "a redis.asyncio.Redis or an inturn.InTurn"
            raise ArgumentTypeError("redis_client", f"must be {kinds}, not {kind_of(redis_client)}", redis_client)
        super().__init__(kept, SeenThrough(kept), default_expiration)

    async def is_duplicate(self, message_id: str) -> bool:
        """Whether it was marked or claimed. `False` also if the store is away: better twice than not at all."""
        return self._tell(await self._has(_key(message_id)))

    async def mark_as_processed(self, message_id: str, expiration_time: arguments.Seconds | None = None) -> None:
        self._tell(await self._put(_key(message_id), self._life_ms(expiration_time)))

    async def claim(self, message_id: str, expiration_time: arguments.Seconds | None = None) -> bool:
        """See `MessageDeduplicationManager.claim`."""
        return self._tell(await self._claim(_key(message_id), self._life_ms(expiration_time)))

    async def release_claim(self, message_id: str) -> bool:
        """See `MessageDeduplicationManager.release_claim`."""
        return self._tell(await self._give_back(_key(message_id)))


class MessageDeduplicationManager(_Manager, SyncFace):
    """Remembers which messages were processed, for synchronous code.

    Over a `redis.Redis`, an `inturn.sync.InTurn`, or an `inturn.InTurn`, which runs in a thread of the manager's own;
    `close()` ends that thread.
    """

    def __init__(
        self,
        redis_client: Client | App | SyncApp,
        default_expiration: arguments.Seconds = 300,
    ) -> None:
        kept = self._drive(redis_client, marks_of_client, marks_of_app)
        super().__init__(kept, kept, default_expiration)

    def is_duplicate(self, message_id: str) -> bool:
        """Whether it was marked or claimed. `False` also if the store is away: better twice than not at all."""
        return self._ask(self._has(_key(message_id)))

    def mark_as_processed(self, message_id: str, expiration_time: arguments.Seconds | None = None) -> None:
        self._ask(self._put(_key(message_id), self._life_ms(expiration_time)))

    def claim(self, message_id: str, expiration_time: arguments.Seconds | None = None) -> bool:
        """Check and mark in one step: `True` for the first caller, `False` for all others until it expires.

        `True` also if the store is away, as with `is_duplicate`: a message that is refused is lost and nobody knows,
        but one that is processed twice is seen. Code that would rather refuse looks at `last_refusal`.
        """
        return self._ask(self._claim(_key(message_id), self._life_ms(expiration_time)))

    def release_claim(self, message_id: str) -> bool:
        """The work failed: let the message be claimed again.

        `False`: this manager's claim is gone, or the message was marked as processed. Nothing is changed then.
        """
        return self._ask(self._give_back(_key(message_id)))


async def _unless_away(work: Awaitable[T], key: str, otherwise: T, consequence: str) -> Answer[T]:
    try:
        return Answer(await work)
    except StoreUnavailable as error:
        log.error("away name=%s: %s: %s", key, consequence, error)
        return Answer(otherwise, "away", error)


def _key(message_id: str) -> str:
    return PREFIX + arguments.name(message_id, "message_id")
