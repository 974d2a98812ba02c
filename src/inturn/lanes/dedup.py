"""`MessageDeduplicationManager`: which messages were processed, for code that wants only that.

Nothing is raised for an absent store: it is logged, the answer is the one with which no message is lost, and
`last_refusal` says so. On Redis the marks are the plain keys `processed_msg:{message_id}`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable
from typing import TypeVar

from inturn.errors import StoreUnavailable
from inturn.lanes import marks
from inturn.lanes.marks import Marks
from inturn.locks import arguments, source
from inturn.locks.driven import DrivenFace
from inturn.compat.face import Answer, Face
from inturn.compat.plain import PlainLocks, SeenThrough

log = logging.getLogger("inturn.lanes")

PREFIX = "processed_msg:"
T = TypeVar("T")


class _Manager(Face):
    def __init__(self, kept: Marks, locks: PlainLocks, default_expiration: arguments.Seconds) -> None:
        super().__init__(locks)
        self._marks = kept
        self.default_expiration = arguments.ttl(default_expiration, "default_expiration")

    def generate_message_id(self, user_id: str | int, message_content: str) -> str:
        """`{user_id}:{sha256 of the content}`: the same text of the same user is the same message."""
        if not isinstance(message_content, str):
            raise TypeError(f"message_content={message_content!r}: must be text, not {type(message_content).__name__}")
        user = str(user_id) if isinstance(user_id, int) and not isinstance(user_id, bool) else user_id
        digest = hashlib.sha256(message_content.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{arguments.name(user, 'user_id')}:{digest}"

    def _life_ms(self, expiration_time: arguments.Seconds | None) -> int:
        given = expiration_time
        life_s = self.default_expiration if given is None else arguments.ttl(given, "expiration_time")
        return round(life_s * 1000)

    async def _has(self, key: str) -> Answer[bool]:
        return await _unless_away(self._marks.is_held(key), key, False, "taken for new")

    async def _put(self, key: str, life_ms: int) -> Answer[None]:
        return await _unless_away(self._marks.put(key, life_ms), key, None, "not marked")

    async def _claim(self, key: str, life_ms: int) -> Answer[bool]:
        async def claim() -> bool:
            return await self._locks.take(key, life_ms) is not None

        answer = await _unless_away(claim(), key, True, "taken for the first")
        return answer if answer.value else Answer(False, "held")

    async def _give_back(self, key: str) -> Answer[bool]:
        token = self._marks.claims.pop(key)
        if token is None:
            return Answer(False)

        async def give_back() -> bool:
            return await self._locks.drop(key, token) == "done"

        answer = await _unless_away(give_back(), key, False, "the claim ends with its life")
        if answer.refusal == "away":
            self._marks.claims.keep_if_none(key, token, self._life_ms(None))
        return answer


class AsyncMessageDeduplicationManager(_Manager):
    """Over a `redis.asyncio.Redis` or an `inturn.InTurn`."""

    def __init__(self, redis_client: source.Client | source.App, default_expiration: arguments.Seconds = 300) -> None:
        if source.is_app(redis_client):
            kept = marks.of_app(redis_client)
        elif source.is_client(redis_client, is_async=True):
            kept = marks.of_client(redis_client)
        else:
            raise TypeError(
                f"redis_client={redis_client!r}: must be a redis.asyncio.Redis or an inturn.InTurn, "
                f"not {type(redis_client).__name__}"
            )
        super().__init__(kept, SeenThrough(kept), default_expiration)

    async def is_duplicate(self, message_id: str) -> bool:
        """Whether it was marked or claimed. `False` also when the store is away: rather twice than not at all."""
        return self._tell(await self._has(_key(message_id)))

    async def mark_as_processed(self, message_id: str, expiration_time: arguments.Seconds | None = None) -> None:
        self._tell(await self._put(_key(message_id), self._life_ms(expiration_time)))

    async def claim(self, message_id: str, expiration_time: arguments.Seconds | None = None) -> bool:
        """See `MessageDeduplicationManager.claim`."""
        return self._tell(await self._claim(_key(message_id), self._life_ms(expiration_time)))

    async def release_claim(self, message_id: str) -> bool:
        """See `MessageDeduplicationManager.release_claim`."""
        return self._tell(await self._give_back(_key(message_id)))


class MessageDeduplicationManager(_Manager, DrivenFace):
    """The same for synchronous code: over a `redis.Redis`, an `inturn.sync.InTurn`, or an `inturn.InTurn`.

    An `inturn.InTurn` is driven by a thread of the manager's own: `close()` ends that.
    """

    def __init__(
        self,
        redis_client: source.Client | source.App | source.SyncApp,
        default_expiration: arguments.Seconds = 300,
    ) -> None:
        kept = self._drive(redis_client, marks.of_client, marks.of_app)
        super().__init__(kept, kept, default_expiration)

    def is_duplicate(self, message_id: str) -> bool:
        """Whether it was marked or claimed. `False` also when the store is away: rather twice than not at all."""
        return self._ask(self._has(_key(message_id)))

    def mark_as_processed(self, message_id: str, expiration_time: arguments.Seconds | None = None) -> None:
        self._ask(self._put(_key(message_id), self._life_ms(expiration_time)))

    def claim(self, message_id: str, expiration_time: arguments.Seconds | None = None) -> bool:
        """`True` for the first who asks, and for nobody else until it expires: check and mark in one step.

        When the store is away the answer is `True`, as with `is_duplicate`: a message that is refused is lost, and
        nobody would know; one that is processed twice is seen. Who would rather refuse looks at `last_refusal`.
        """
        return self._ask(self._claim(_key(message_id), self._life_ms(expiration_time)))

    def release_claim(self, message_id: str) -> bool:
        """The work failed: let the message be claimed again. `False`: this manager's claim is not there any more,
        or the message was marked as processed; then nothing is touched.
        """
        return self._ask(self._give_back(_key(message_id)))


async def _unless_away(work: Awaitable[T], key: str, otherwise: T, told: str) -> Answer[T]:
    try:
        return Answer(await work)
    except StoreUnavailable as error:
        log.error("away name=%s: %s: %s", key, told, error)
        return Answer(otherwise, "away", error)


def _key(message_id: str) -> str:
    return PREFIX + arguments.name(message_id, "message_id")
