"""Plain locks that are counted and logged as every other lock is: acquired, refused, released, extended, not owned.

Whoever uses them logs that the store is away, because only the caller knows what follows from it.
"""

from __future__ import annotations

import logging

from inturn import metrics
from inturn.compat.expiring import Expiring
from inturn.compat.plain import PlainLocks, Status
from inturn.errors import StoreUnavailable
from inturn.store import clock

GONE = "it was gone when it was released"
AGAIN_MS = 1000
"""Who asks again before that is waiting, which is told once."""


class CountedLocks:
    def __init__(self, locks: PlainLocks, log: logging.Logger) -> None:
        self._locks = locks
        self._log = log
        self._since: Expiring[float] = Expiring()
        """By id, when each lock was granted here. Another process may release it: then nobody knows how long it was
        held."""
        self._refused: Expiring[None] = Expiring()
        self.is_held = locks.is_held

    async def take(self, key: str, life_ms: int) -> str | None:
        began = clock.now()
        outcome = "cancelled"
        try:
            lock_id = await self._locks.take(key, life_ms)
            outcome = "busy" if lock_id is None else "granted"
        except StoreUnavailable:
            outcome = "unavailable"
            raise
        finally:
            metrics.acquisitions.labels(outcome).inc()
        if lock_id is None:
            self._log.log(logging.DEBUG if key in self._refused else logging.INFO, "refused name=%s why=held", key)
            self._refused.expired()
            self._refused.keep(key, None, AGAIN_MS)
            return None
        self._refused.pop(key)
        granted_at = clock.now()
        metrics.wait_seconds.observe(granted_at - began)
        self._since.expired()
        self._since.keep(lock_id, granted_at, life_ms)
        self._log.debug("acquire name=%s id=%s life=%gs", key, short(lock_id), life_ms / 1000)
        return lock_id

    async def drop(self, key: str, lock_id: str) -> Status:
        status = await self._locks.drop(key, lock_id)
        since = self._since.pop(lock_id)
        if since is None:
            held = ""
        else:
            held_s = clock.now() - since
            held = f" held={held_s:.3f}s"
            metrics.hold_seconds.observe(held_s)
        if status == "done":
            self._log.debug("release name=%s id=%s%s", key, short(lock_id), held)
            return status
        if held:  # it was ours: someone else may have worked since it expired
            metrics.lost.labels(GONE).inc()
        self._log.warning("not owner name=%s id=%s verb=release now=%s%s", key, short(lock_id), status, held)
        return status

    async def extend(self, key: str, lock_id: str, life_ms: int) -> Status:
        status = await self._locks.extend(key, lock_id, life_ms)
        if status != "done":
            self._log.warning("not owner name=%s id=%s verb=extend now=%s", key, short(lock_id), status)
            return status
        since = self._since.pop(lock_id)
        if since is not None:
            self._since.keep(lock_id, since, life_ms)
        self._log.debug("extend name=%s id=%s life=%gs", key, short(lock_id), life_ms / 1000)
        return status


def short(lock_id: str) -> str:
    """Whoever has the whole id can release the lock, so a log has only its end."""
    return lock_id if len(lock_id) <= 8 else f"…{lock_id[-8:]}"
