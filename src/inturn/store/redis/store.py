"""The store on Redis."""

from __future__ import annotations

from inturn.store.redis.lanes import LaneVerbs
from inturn.store.redis.locks import LockVerbs
from inturn.store.redis.watch import WatchVerbs


class RedisStore(LockVerbs, LaneVerbs, WatchVerbs):
    """One process at a Redis server, at the master of a replicated one, or at the nodes of a cluster."""
