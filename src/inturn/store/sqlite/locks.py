"""The verbs of a lock, as functions of a transaction: each follows lua/locks/<verb>.lua step by step.

A verb that fails half-way leaves nothing behind: the writer rolls the transaction back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile
from typing import Literal

from inturn.store.limits import MAX_AHEAD, MAX_HOLDERS, MAX_WAITERS, PLACE_LIVES_MS
from inturn.store.protocol import Acquired, Edge, Extended, HowToExtend, Released, Request
from inturn.store.sqlite.lane import has_message, is_leased, read_lane
from inturn.store.sqlite.settle import (
    GRANT,
    PLACE,
    GrantRow,
    Lock,
    PlaceRow,
    grant_ends,
    grants_of,
    has_ahead,
    has_queue,
    insert_grant,
    life_left,
    lock_named,
    queue_of,
    remove_place,
    reschedule,
    settle,
    take_away,
)
from inturn.store.sqlite.transaction import Transaction, process_of
from inturn.store.views import Holder, LockView, Waiter


def acquire(tx: Transaction, request: Request) -> Acquired:
    """Asks for a lock, asks again after a lost reply, or confirms a provisional grant: always the same call."""
    name, token, owner = request.name, request.token, request.owner
    capacity, weight = request.capacity, request.weight
    ttl, life, rank = request.ttl_ms, request.life_ms, -request.priority
    process = process_of(token)
    tx.seen_now(process)

    def grant_now() -> Acquired:
        number = tx.tick()
        ends = tx.now + life if life > 0 else 0
        grant = GrantRow(
            token=token, owner=owner, weight=weight, fence=number, arrival=number, ttl=ttl, ends=ends, lapses=0,
            since=tx.now,
        )  # fmt: skip
        insert_grant(tx, name, grant, capacity)
        return Acquired("granted", fence=number, arrival=number, life_left_ms=life, other="", sent_at=tx.sent_at)

    lock = lock_named(tx, name)
    if lock is None:
        return grant_now()

    row = tx.one("SELECT fence, arrival, ends, lapses FROM grants WHERE name = ? AND token = ?", (name, token))
    if row:
        fence, arrival, ends, lapses = row
        if lapses > 0:
            ends = tx.now + life if life > 0 else ends
            tx.execute("UPDATE grants SET lapses = 0, ends = ? WHERE name = ? AND token = ?", (ends, name, token))
            tx.untell("granted", token, name)
        left = life_left(tx, ends)
        return Acquired("granted", fence=fence, arrival=arrival, life_left_ms=left, other="", sent_at=tx.sent_at)

    row = tx.one("SELECT arrival FROM places WHERE token = ? AND name = ?", (token, name))
    if row:
        return _not_granted(tx, "waiting", arrival=row[0])

    def fits(lock: Lock) -> bool:
        return lock.used == 0 or (
            lock.capacity == capacity and lock.used + weight <= capacity and not has_ahead(tx, name, rank)
        )

    if not fits(lock):
        soonest = settle(tx, lock, process)
        if not fits(lock):
            if lock.capacity != capacity:
                return _not_granted(tx, "mismatch", other=str(lock.capacity))
            own, own_weight, holder = "", 0, ""
            for grant in grants_of(tx, name):
                holder = grant.token
                if grant.owner == owner:
                    own, own_weight = grant.token, own_weight + grant.weight
            # waiting could never end: the owner itself holds what it would wait for
            if own and own_weight + weight > capacity:
                return _not_granted(tx, "own", other=own)
            if not request.wait:
                return _not_granted(tx, "busy", other=holder)
            tx.forget_loss(token)  # a grant that lapsed left a note; the token starts again
            place = PlaceRow(
                token=token, owner=owner, weight=weight, rank=rank, arrival=tx.tick(), ttl=ttl, life=life,
                since=tx.now,
            )  # fmt: skip
            tx.execute(f"INSERT INTO places (name, {PLACE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (name, *place))
            reschedule(tx, lock, soonest)
            tx.has_places = tx.has_places or process == tx.process
            return _not_granted(tx, "waiting", arrival=place.arrival)
    answer = grant_now()
    if has_queue(tx, name):
        # it was granted ahead of lower priorities, so the lock may have to be looked at sooner for them
        lock.used += weight
        settle(tx, lock, process)
    return answer


def _not_granted(
    tx: Transaction, status: Literal["waiting", "busy", "own", "mismatch"], arrival: int = 0, other: str = ""
) -> Acquired:
    return Acquired(status, fence=0, arrival=arrival, life_left_ms=0, other=other, sent_at=tx.sent_at)


def release(tx: Transaction, name: str, token: str, fence: int) -> Released:
    """Gives back a grant, or leaves the queue. The next in the queue is granted in the same step."""
    process = process_of(token)
    row = tx.one(
        f"DELETE FROM grants WHERE name = ?1 AND token = ?2 "
        f"RETURNING {GRANT}, capacity, EXISTS (SELECT 1 FROM places WHERE name = ?1)",
        (name, token),
    )
    if row:
        *values, capacity, is_waited_for = row
        grant = GrantRow(*values)
        answer = Released("released" if tx.now < grant_ends(tx, grant) else "lost")
        if grant.lapses > 0:
            tx.untell("granted", token, name)
        if is_waited_for:
            settle(tx, lock_named(tx, name) or Lock(name, capacity, 0), process)
        return answer

    row = tx.one(f"SELECT {PLACE} FROM places WHERE token = ? AND name = ?", (token, name))
    if row:
        remove_place(tx, name, PlaceRow(*row))
        waited_for = lock_named(tx, name)
        assert waited_for is not None, "nobody waits for a lock that is not in use"
        settle(tx, waited_for, process)
        return Released("left")
    # A lease that was taken away left a note; one that is older than this file was lost with another file.
    return Released("lost" if tx.is_lost(token) or 0 < fence < (tx.era or math.inf) else "gone")


def extend(tx: Transaction, name: str, token: str, how: HowToExtend, ms: int) -> Extended:
    """Changes the fixed end of a lease. A lease without one is only confirmed.

    Unlike on Redis, no call id guards against a repeat: the writer runs a call once, or rolls it back.
    """
    row = tx.one(f"SELECT {GRANT} FROM grants WHERE name = ? AND token = ?", (name, token))
    if row is None:
        return Extended("lost", 0, tx.sent_at)
    grant = GrantRow(*row)
    if tx.now >= grant_ends(tx, grant):
        return Extended("lost", 0, tx.sent_at)
    ends = grant.ends
    if ends > 0:
        if how == "add":
            ends += ms
        elif how == "set":
            ends = tx.now + ms
        else:
            ends = max(ends, tx.now + ms)
        # if someone waits for it, it may have to be looked at sooner now (NULL stays NULL: nobody waits)
        tx.execute(
            "UPDATE grants SET ends = ?1, due = min(due, ?1) WHERE name = ?2 AND token = ?3",
            (ends, name, token),
        )
    tx.seen_now(process_of(token))
    return Extended("extended", life_left(tx, ends), tx.sent_at)


def force_release(tx: Transaction, name: str, owner: str) -> int:
    """Takes a lock away from all its holders, or gives back the oldest hold of an owner, and grants to the queue."""
    lock = lock_named(tx, name)
    if lock is None:
        return 0
    held = grants_of(tx, name)
    if owner:
        its = [grant for grant in held if grant.owner == owner and tx.now < grant_ends(tx, grant)]
        held = sorted(its, key=lambda grant: grant.fence)[:1]
    for grant in held:
        take_away(tx, lock, grant, "released by its owner elsewhere" if owner else "released by force")
    if held:
        settle(tx, lock, None)
    return len(held)


def edges(tx: Transaction, owners: Sequence[str]) -> list[Edge]:
    """What each of these nodes (owners of locks, tokens of turns) waits for, and who is in the way."""
    found: list[Edge] = []
    locks: dict[str, tuple[Lock | None, list[GrantRow], list[PlaceRow]]] = {}

    def wait_for_lock(owner: str, name: str, token: str, reported: int) -> None:
        if name not in locks:  # read once: thousands may wait for the same name
            locks[name] = lock_named(tx, name), grants_of(tx, name), queue_of(tx, name, MAX_AHEAD)
        lock, grants, queue = locks[name]
        row = tx.one(f"SELECT {PLACE} FROM places WHERE token = ? AND name = ?", (token, name))
        # of more holders than this we do not know which ones matter, so nobody is said to be stuck behind them
        if row is None or lock is None or len(grants) > MAX_HOLDERS:
            return
        place = PlaceRow(*row)
        holders = ("" if grant.ends else grant.owner for grant in grants)  # what ends by itself is nobody's
        ahead = takewhile(lambda other: other.token != token, queue)
        found.append(
            Edge(
                owner=owner,
                name=name,
                token=token,
                arrival=place.arrival,
                age_ms=tx.now - place.since,
                needs_all=place.weight == lock.capacity,
                blockers=(*holders, *(other.owner for other in ahead if other.owner != owner)),
                reported=reported,
            )
        )

    def wait_for_lane(owner: str, key: str, token: str, ident: str, arrival: int, reported: int) -> None:
        lane = read_lane(tx, key)
        if (
            lane
            and is_leased(tx, lane)
            and lane.holder != token
            and (lane.running == ident or has_message(tx, key, ident))
        ):
            # those ahead in the mailbox wait for the holder too
            age_ms, blockers = tx.now - arrival // 1000, (lane.holder,)
            found.append(Edge(owner, key, token, arrival, age_ms, needs_all=True, blockers=blockers, reported=reported))

    for owner in owners:
        places = tx.execute("SELECT name, token FROM places WHERE owner = ? ORDER BY token, name", (owner,))
        for name, token in places.fetchall():
            wait_for_lock(owner, name, token, 0)
        waits = tx.execute(
            "SELECT token, name, ident, arrival, reported FROM awaits WHERE node = ? AND reported > ?",
            (owner, tx.now - PLACE_LIVES_MS),
        )
        for token, name, ident, arrival, reported in waits.fetchall():
            if ident:
                wait_for_lane(owner, name, token, ident, arrival, reported)
            else:
                wait_for_lock(owner, name, token, reported)
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
            token=grant.token,
            owner=grant.owner,
            weight=grant.weight,
            fence=grant.fence,
            arrival=grant.arrival,
            held_ms=tx.now - grant.since,
            ends_in_ms=life_left(tx, grant.ends),
        )
        for grant in sorted(grants_of(tx, name), key=lambda grant: grant.fence)
        if tx.now < grant_ends(tx, grant)
    ]
    waiters = [
        Waiter(
            token=place.token,
            owner=place.owner,
            weight=place.weight,
            priority=-place.rank,
            arrival=place.arrival,
            waited_ms=tx.now - place.since,
        )
        for place in queue_of(tx, name, MAX_WAITERS)
    ]
    return LockView(name, lock.capacity, tuple(holders), tuple(waiters))
