"""One lock, and how it is brought up to date: grants that have ended are taken away, and the queue is granted.

Follows lua/include/lock.lua and lua/include/settle.lua, function by function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from inturn.store.limits import CONFIRM_MS, PLACE_LIVES_MS
from inturn.store.protocol import Grant
from inturn.store.sqlite.transaction import Transaction, process_of


@dataclass(slots=True)
class Lock:
    """The sum of its grants. `used` is 0 when the lock is no longer in use."""

    name: str
    capacity: int
    used: int


class GrantRow(NamedTuple):
    token: str
    owner: str
    weight: int
    fence: int
    arrival: int
    ttl: int
    ends: int
    lapses: int
    since: int


class PlaceRow(NamedTuple):
    token: str
    owner: str
    weight: int
    rank: int
    arrival: int
    ttl: int
    life: int
    since: int


GRANT = "token, owner, weight, fence, arrival, ttl, ends, lapses, since"
PLACE = "token, owner, weight, rank, arrival, ttl, life, since"


def lock_named(tx: Transaction, name: str) -> Lock | None:
    capacity, used = tx.one("SELECT max(capacity), sum(weight) FROM grants WHERE name = ?", (name,))
    return None if capacity is None else Lock(name, capacity, used)


def grants_of(tx: Transaction, name: str) -> list[GrantRow]:
    return [GrantRow(*row) for row in tx.execute(f"SELECT {GRANT} FROM grants WHERE name = ?", (name,))]


def queue_of(tx: Transaction, name: str, limit: int) -> list[PlaceRow]:
    rows = tx.execute(f"SELECT {PLACE} FROM places WHERE name = ? ORDER BY rank, arrival LIMIT ?", (name, limit))
    return [PlaceRow(*row) for row in rows]


def has_queue(tx: Transaction, name: str) -> bool:
    return tx.one("SELECT 1 FROM places WHERE name = ? LIMIT 1", (name,)) is not None


def has_ahead(tx: Transaction, name: str, rank: int) -> bool:
    """Whether a newcomer of this rank would have to wait behind anyone."""
    return tx.one("SELECT 1 FROM places WHERE name = ? AND rank <= ? LIMIT 1", (name, rank)) is not None


def grant_ends(tx: Transaction, grant: GrantRow) -> float:
    """When the grant ends, unless it is renewed."""
    ends = math.inf
    if grant.ttl > 0:
        ends = tx.seen_at(process_of(grant.token)) + grant.ttl
    if grant.ends > 0:
        ends = min(ends, grant.ends)
    if grant.lapses > 0:
        ends = min(ends, grant.lapses)
    return ends


def life_left(tx: Transaction, ends: int) -> int:
    """Milliseconds until a fixed end; 0 if there is none."""
    return max(1, ends - tx.now) if ends > 0 else 0


def insert_grant(tx: Transaction, name: str, grant: GrantRow, capacity: int) -> None:
    tx.execute("INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)", (name, *grant, capacity))


def take_away(tx: Transaction, lock: Lock, grant: GrantRow, why: str) -> None:
    """Ends a grant against its holder's will."""
    tx.execute("DELETE FROM grants WHERE name = ? AND token = ?", (lock.name, grant.token))
    lock.used -= grant.weight
    if grant.lapses > 0:
        tx.untell("granted", grant.token, lock.name)
    tx.tell_loss(lock.name, grant.token, grant.fence, why)


def remove_place(tx: Transaction, name: str, place: PlaceRow) -> None:
    tx.execute("DELETE FROM places WHERE name = ? AND rank = ? AND arrival = ?", (name, place.rank, place.arrival))


def reap(tx: Transaction, lock: Lock) -> float:
    """Takes away every grant that has ended. Returns when the next one could end."""
    soonest = math.inf
    for grant in grants_of(tx, lock.name):
        ends = grant_ends(tx, grant)
        if tx.now >= ends:
            take_away(tx, lock, grant, "not confirmed in time" if grant.lapses > 0 else "expired")
        else:
            soonest = min(soonest, ends)
    return soonest


def grant_heads(tx: Transaction, lock: Lock, calling_process: str | None) -> float:
    """Grants to the head of the queue while it fits. Returns when the first of these grants could end.

    A head that does not fit stops the queue, so that nobody overtakes it. A grant to the calling process is complete,
    and is handed over. A grant to another process is provisional until that process confirms it by repeating its
    acquire; it is also put into that process's inbox.
    """
    mine: list[Grant] = []
    soonest = math.inf
    while head := queue_of(tx, lock.name, 1):
        place = head[0]
        process = process_of(place.token)
        is_mine = process == calling_process
        if not is_mine and (tx.now > tx.seen_at(process) + PLACE_LIVES_MS or tx.is_dead(process)):
            remove_place(tx, lock.name, place)
        elif lock.used + place.weight <= lock.capacity:
            remove_place(tx, lock.name, place)
            ends = tx.now + place.life if place.life > 0 else 0
            lapses = 0 if is_mine else tx.now + CONFIRM_MS
            grant = GrantRow(
                token=place.token,
                owner=place.owner,
                weight=place.weight,
                fence=tx.tick(),
                arrival=place.arrival,
                ttl=place.ttl,
                ends=ends,
                lapses=lapses,
                since=tx.now,
            )
            if is_mine:
                mine.append(Grant(grant.token, grant.fence, grant.arrival, life_left(tx, ends)))
            else:
                tx.tell(process, "granted", grant.token, lock.name)
            lock.used += place.weight
            insert_grant(tx, lock.name, grant, lock.capacity)
            soonest = min(soonest, grant_ends(tx, grant))
        else:
            break
    # the calling process is alive, because it calls: its new leases live from this moment on
    if mine and calling_process is not None:
        tx.seen_now(calling_process)
        tx.hand_over(lock.name, mine)
    return soonest


def reschedule(tx: Transaction, lock: Lock, soonest: float) -> None:
    """Notes when the lock must be looked at again: never, if nobody waits for it or no grant can end."""
    if lock.used == 0:
        return
    due = soonest if soonest < math.inf and has_queue(tx, lock.name) else None
    tx.execute("UPDATE grants SET due = ?1 WHERE name = ?2 AND due IS NOT ?1", (due, lock.name))


def settle(tx: Transaction, lock: Lock, calling_process: str | None) -> float:
    """Brings a lock up to date. Returns when the first of its grants could end."""
    held_until = reap(tx, lock)
    granted_until = grant_heads(tx, lock, calling_process)
    soonest = min(held_until, granted_until)
    reschedule(tx, lock, soonest)
    return soonest
