"""The verbs of a lock, as functions of a transaction: each follows lua/<verb>.lua step by step.

A verb that fails half-way is undone by the writer, which rolls the transaction back.
"""

from __future__ import annotations

import math

from inturn.store.protocol import Acquired, Extended, HowToExtend, Released, Request
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
    remove_place,
    reschedule,
    settle,
    take_away,
)
from inturn.store.sqlite.transaction import Transaction, process_of


def acquire(tx: Transaction, request: Request) -> Acquired:
    """Ask for a lock, ask again after a lost reply, or confirm a provisional grant: always the same call."""
    name, token, owner = request.name, request.token, request.owner
    capacity, weight = request.capacity, request.weight
    ttl, life, rank = request.ttl_ms, request.life_ms, -request.priority
    process = process_of(token)
    tx.touch(process)

    def grant_now() -> Acquired:
        number = tx.tick()
        ends = tx.now + life if life > 0 else 0
        grant = GrantRow(token, owner, weight, number, number, ttl, ends, 0, tx.now)
        insert_grant(tx, name, grant, capacity)
        return Acquired("granted", number, number, life, "", tx.sent_at)

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
        return Acquired("granted", fence, arrival, life_left(tx, ends), "", tx.sent_at)

    row = tx.one("SELECT arrival FROM places WHERE token = ? AND name = ?", (token, name))
    if row:
        return Acquired("waiting", 0, row[0], 0, "", tx.sent_at)

    def fits(lock: Lock) -> bool:
        return lock.used == 0 or (
            lock.capacity == capacity and lock.used + weight <= capacity and not has_ahead(tx, name, rank)
        )

    if not fits(lock):
        soonest = settle(tx, lock, process)
        if not fits(lock):
            if lock.capacity != capacity:
                return Acquired("mismatch", 0, 0, 0, str(lock.capacity), tx.sent_at)
            own, own_weight, holder = "", 0, ""
            for grant in grants_of(tx, name):
                holder = grant.token
                if grant.owner == owner:
                    own, own_weight = grant.token, own_weight + grant.weight
            # waiting could never end: what the owner holds itself is in its own way
            if own and own_weight + weight > capacity:
                return Acquired("own", 0, 0, 0, own, tx.sent_at)
            if not request.wait:
                return Acquired("busy", 0, 0, 0, holder, tx.sent_at)
            tx.forget_loss(token)  # a grant that lapsed left a note, and the token begins anew
            place = PlaceRow(token, owner, weight, rank, tx.tick(), ttl, life, tx.now)
            tx.execute(f"INSERT INTO places (name, {PLACE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (name, *place))
            reschedule(tx, lock, soonest)
            tx.has_places = tx.has_places or process == tx.process
            return Acquired("waiting", 0, place.arrival, 0, "", tx.sent_at)
    answer = grant_now()
    if has_queue(tx, name):
        # it came in ahead of lower priorities, and may end sooner than they believe
        lock.used += weight
        settle(tx, lock, process)
    return answer


def release(tx: Transaction, name: str, token: str, fence: int) -> Released:
    """Give back a grant, or leave the queue. Who comes next is granted in the same step."""
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
    # A lease that was taken away left a note; one that is older than this file went with another.
    return Released("lost" if tx.is_lost(token) or 0 < fence < (tx.era or math.inf) else "gone")


def extend(tx: Transaction, name: str, token: str, how: HowToExtend, ms: int) -> Extended:
    """Change the fixed end of a lease. A lease without one is only confirmed.

    There is no call id here: the writer runs a call once, or rolls it back.
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
        # if someone waits for it, it may end sooner now than was believed (NULL stays NULL)
        tx.execute(
            "UPDATE grants SET ends = ?1, due = min(due, ?1) WHERE name = ?2 AND token = ?3",
            (ends, name, token),
        )
    tx.touch(process_of(token))
    return Extended("extended", life_left(tx, ends), tx.sent_at)


def force_release(tx: Transaction, name: str) -> int:
    """Take a lock away from everyone who holds it; who comes next is granted."""
    lock = lock_named(tx, name)
    if lock is None:
        return 0
    grants = grants_of(tx, name)
    for grant in grants:
        take_away(tx, lock, grant, "released by force")
    settle(tx, lock, None)
    return len(grants)
