"""The store on Redis."""

from __future__ import annotations

from inturn.store.redis.lanes import LaneVerbs
from inturn.store.redis.locks import LockVerbs


class RedisStore(LockVerbs, LaneVerbs):
    """One Redis server (or a replicated one), one process."""
