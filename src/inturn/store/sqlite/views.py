"""The verbs that only look; they cost no sync of the disk. Each follows lua/<verb>.lua."""

from __future__ import annotations

from collections.abc import Sequence

from inturn.store.protocol import Edge, Holder, LockView, Waiter
from inturn.store.sqlite.settle import (
    PLACE,
    PlaceRow,
    grant_ends,
    grants_of,
    life_left,
    lock_named,
    queue_of,
)
from inturn.store.sqlite.transaction import Transaction


def edges(tx: Transaction, owners: Sequence[str]) -> list[Edge]:
    """What each of these owners waits for, and on whom."""
    found = []
    for owner in owners:
        places = tx.execute(
            f"SELECT name, {PLACE} FROM places WHERE owner = ? ORDER BY token, name", (owner,)
        ).fetchall()
        for name, *values in places:
            place = PlaceRow(*values)
            lock = lock_named(tx, name)
            needs_all = lock is not None and place.weight == lock.capacity
            blockers = [grant.owner for grant in grants_of(tx, name)]
            for ahead in queue_of(tx, name, 64):
                if ahead.token == place.token:
                    break
                blockers.append(ahead.owner)
            age_ms = tx.now - place.since
            found.append(Edge(owner, name, place.token, place.arrival, age_ms, needs_all, tuple(blockers)))
    return found


def names(tx: Transaction, limit: int) -> list[str]:
    """Which locks are in use."""
    return [row[0] for row in tx.execute("SELECT DISTINCT name FROM grants ORDER BY name LIMIT ?", (limit,))]


def inspect(tx: Transaction, name: str) -> LockView | None:
    """What one lock looks like now."""
    lock = lock_named(tx, name)
    if lock is None:
        return None
    holders = [
        Holder(
            grant.token, grant.owner, grant.weight, grant.fence, grant.arrival,
            tx.now - grant.since, life_left(tx, grant.ends),
        )
        for grant in sorted(grants_of(tx, name), key=lambda grant: grant.fence)
        if tx.now < grant_ends(tx, grant)
    ]  # fmt: skip
    waiters = [
        Waiter(place.token, place.owner, place.weight, -place.rank, place.arrival, tx.now - place.since)
        for place in queue_of(tx, name, 1000)
    ]
    return LockView(name, lock.capacity, tuple(holders), tuple(waiters))
