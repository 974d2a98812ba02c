"""What the ready-made faces share: an absent store is logged, answered with a no, and told afterwards."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from inturn.errors import StoreUnavailable
from inturn.compat.plain import PlainLocks, Status

log = logging.getLogger("inturn.locks")

Refusal = Literal["held", "away"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    value: T
    refusal: Refusal | None = None
    error: StoreUnavailable | None = None


class Face:
    """Answers are made on whatever loop there is, and told (`_tell`) in the thread of the caller."""

    def __init__(self, locks: PlainLocks) -> None:
        self._locks = locks
        self._last: Answer[Any] = Answer(None)
        self._threads = threading.local()

    @property
    def last_refusal(self) -> Refusal | None:
        """Why the last call was answered with a no: it is `held` by someone else, or the store is `away`.

        `None`: it was not, or there was nothing left to release or extend. A thread hears of its own calls;
        one that made none, of the manager's last.
        """
        return self._last_answer.refusal

    @property
    def last_error(self) -> StoreUnavailable | None:
        """What was wrong with the store, if it was `away`."""
        return self._last_answer.error

    @property
    def _last_answer(self) -> Answer[Any]:
        answer: Answer[Any] = getattr(self._threads, "last", self._last)
        return answer

    def _tell(self, answer: Answer[T]) -> T:
        self._last = self._threads.last = answer
        return answer.value

    async def _take(self, key: str, life_ms: int) -> Answer[str | None]:
        try:
            lock_id = await self._locks.take(key, life_ms)
        except StoreUnavailable as error:
            return _away(None, key, error)
        return Answer(lock_id, None if lock_id else "held")

    async def _drop(self, key: str, lock_id: str) -> Answer[bool]:
        return await self._change(key, self._locks.drop(key, lock_id))

    async def _extend(self, key: str, lock_id: str, life_ms: int) -> Answer[bool]:
        return await self._change(key, self._locks.extend(key, lock_id, life_ms))

    async def _is_held(self, key: str) -> Answer[bool]:
        try:
            return Answer(await self._locks.is_held(key))
        except StoreUnavailable as error:
            return _away(False, key, error)

    async def _change(self, key: str, change: Awaitable[Status]) -> Answer[bool]:
        try:
            status = await change
        except StoreUnavailable as error:
            return _away(False, key, error)
        return Answer(status == "done", "held" if status == "held" else None)


def _away(value: T, key: str, error: StoreUnavailable) -> Answer[T]:
    log.warning("away name=%s: %s", key, error)
    return Answer(value, "away", error)
