"""Brings a lane up to date. After `advance` a lane is leased, or in a ready list, or waits for its alarm, or is
stopped, or is idle and has no row. There is no other state for a lane to be in, so none can be stuck.

Follows lua/include/advance.lua, function by function.
"""

from __future__ import annotations

import json

from inturn.store.limits import CONFIRM_MS, MAX_BURIED, PLACE_LIVES_MS
from inturn.store.protocol import Notice
from inturn.store.sqlite.lane import (
    Lane,
    Message,
    expire_state,
    head_of,
    joins,
    lane_ends,
    mailbox,
    put,
    read_message,
    save_lane,
    take_out,
)
from inturn.store.sqlite.transaction import Transaction, process_of
from inturn.store.sqlite.watch import announce


def tell_awaiting(tx: Transaction, processes: str, key: str, ident: str) -> None:
    """Tells the processes that await the result to ask for it."""
    for process in processes.split():
        tx.tell(process, "settled", f"{process}#0", f"{key}\0{ident}")


def bury(tx: Transaction, lane: Lane, message: Message, letter_ms: int | None = None) -> None:
    """Out of the mailbox and into the dead letters, for `letter_ms`.

    `None`: the next beat says for how long (`letters.py`); only a call that fails a message knows, and beats do.
    """
    take_out(tx, lane, message)
    tx.execute(
        "INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            tx.tick(), tx.now, lane.keep, message.number, message.key, message.ident, message.rank, message.body,
            message.attempts, message.ttl, message.limit, message.accepted, json.dumps(message.errors),
            message.rule_text, message.needs, message.group, None if letter_ms is None else tx.now + letter_ms,
        ),
    )  # fmt: skip
    tell_awaiting(tx, message.watchers, message.key, message.ident)


def add_error(tx: Transaction, message: Message, kind: str, why: str) -> None:
    """Adds an error that only the store has seen."""
    error = {"type": kind, "message": why, "attempt": message.attempts, "at": tx.now, "accepted": message.accepted}
    message.errors.append(json.dumps(error, separators=(",", ":")))


def end_lease(lane: Lane) -> None:
    lane.holder, lane.granted, lane.lapse, lane.running, lane.awaited = "", 0, 0, "", ""


def take_lane_away(tx: Transaction, lane: Lane, why: str) -> None:
    """Ends a lease against its holder's will.

    A submitted message goes back to its place; the attempt counts. An inline one belongs to its caller, and is gone.
    """
    if lane.lapse > 0:
        tx.untell("turn", lane.holder, lane.key)
    tx.tell_loss(lane.key, lane.holder, lane.granted, why)
    if lane.key in tx.audience:
        announce(tx, lane.key, "lost", lane.granted, why)
    message = read_message(tx, lane.key, lane.running)
    if message:
        add_error(tx, message, "LeaseLost", why)
        message.is_open = False
        put(tx, lane, message)
    else:
        tell_awaiting(tx, lane.awaited, lane.key, lane.running)
    end_lease(lane)


def lives(tx: Transaction, process: str) -> bool:
    """Whether a process can still be told something."""
    was_seen = tx.now <= tx.seen_at(process) + PLACE_LIVES_MS
    return was_seen and (process == tx.process or not tx.is_dead(process))


def wake(tx: Transaction, handler: str) -> None:
    """Tells one idle process that can run this handler that there is work. If that is lost, a timed look finds it.

    The process is told once: it is idle again only after it has asked for work, which also clears its inbox of this.
    """
    while row := tx.one(
        "DELETE FROM idle WHERE handler = ?1 AND since = (SELECT min(since) FROM idle WHERE handler = ?1) "
        "RETURNING process",
        (handler,),
    ):
        (process,) = row
        if process == tx.process:
            tx.notices.append(Notice("ready", f"0 {handler}", f"{process}#0"))
            return
        if lives(tx, process):
            tx.tell(process, "ready", f"{process}#0", f"0 {handler}")
            return


def stand_ready(tx: Transaction, lane: Lane, ready: str) -> None:
    """Puts a free lane into this ready list, or ('') into none.

    Its group gets a place, if it has none: it may still have that of its last turn (see `claim`).
    """
    if lane.ready == ready:
        return
    lane.ready, lane.place = ready, None
    if ready:
        handler, _, group = ready.partition("\0")
        lane.place = tx.tick()
        if group:
            tx.execute("INSERT OR IGNORE INTO groups VALUES (?, ?, ?)", (handler, group, tx.tick()))
        tx.execute("INSERT OR IGNORE INTO handlers VALUES (?)", (handler,))
        wake(tx, handler)


def lease_to(tx: Transaction, lane: Lane, token: str, message: Message) -> None:
    ttl = message.ttl
    lane.holder, lane.granted, lane.lease, lane.until = token, tx.tick(), ttl, tx.now + message.limit + ttl
    lane.lapse, lane.began, lane.running, lane.awaited = 0, tx.now, message.ident, ""
    lane.allows = int(message.rule.allows)
    if lane.key in tx.audience:
        announce(tx, lane.key, "begin", lane.granted, f"{message.attempts} {message.ident}")


def offer(tx: Transaction, lane: Lane, message: Message) -> None:
    """It is an inline caller's turn: its process is told, and confirms by asking once more."""
    token = message.caller
    message.attempts = 1
    lease_to(tx, lane, token, message)
    lane.awaited = message.watchers
    tx.tell(process_of(token), "turn", token, lane.key)
    lane.lapse = tx.now + CONFIRM_MS
    lane.alarm = lane_ends(tx, lane)


def wait_until(tx: Transaction, lane: Lane, at: int, before: int | None, handler: str) -> None:
    """The lane waits for something other than a lease. If no worker can know of that time yet, one is told to look.

    `before` was its alarm.
    """
    lane.alarm = at
    if before is not None and before <= at:
        return
    if not tx.one("SELECT 1 FROM lanes WHERE alarm < ? AND key <> ? LIMIT 1", (at, lane.key)):
        wake(tx, handler)


def quiet_until(tx: Transaction, lead: Message) -> int:
    """When the burst at the head of the mailbox, led by this message, may begin. Every message restarts its quiet.

    If its turn was interrupted, all waits begin anew with the message that interrupted it, the last one of the burst.
    """
    rule, first = lead.rule, lead
    if lead.cuts and lead.together:
        first = read_message(tx, lead.key, lead.together[-1]) or lead
    if first.rule.quiet_ms == 0 or not lead.is_open:
        return 0
    last, count, handler = first.accepted + first.rule.quiet_ms, 1 + len(lead.together), lead.handler
    enough = min(rule.cut_at, rule.cap) if rule.cut_at else rule.cap
    for other in mailbox(tx, lead.key, enough)[1:]:
        if not joins(tx, other, handler) or other.late > 0:
            break
        its_quiet = other.rule.quiet_ms
        if its_quiet == 0:
            return 0
        last, count = max(last, other.accepted + its_quiet), count + 1
    if count >= enough:
        return 0
    return min(last, first.accepted + first.rule.max_quiet_ms)


def stop_yielding(lane: Lane) -> None:
    """The interrupted turn has ended, or has used up its time."""
    lane.yields, lane.yield_by = "", 0


def go_idle(tx: Transaction, lane: Lane) -> None:
    """Nothing runs and nothing waits. Only the state is left, for its own time to live."""
    tx.execute("DELETE FROM lanes WHERE key = ?", (lane.key,))
    if lane.keep > 0:
        expire_state(tx, lane.key, lane.keep)


def advance(tx: Transaction, lane: Lane) -> None:
    if lane.holder:
        ends = lane_ends(tx, lane)
        if tx.now < ends:
            lane.alarm = ends
            save_lane(tx, lane)
            return
        take_lane_away(tx, lane, "not confirmed in time" if lane.lapse > 0 else "expired")
    if lane.yields:
        if tx.now < lane.yield_by:
            head = head_of(tx, lane)
            stand_ready(tx, lane, "")
            wait_until(tx, lane, lane.yield_by, lane.alarm, head.handler + head.needs if head else "")
            save_lane(tx, lane)
            return
        stop_yielding(lane)
    ready, buried = "", 0
    before, lane.alarm = lane.alarm, None
    while not lane.stopped:
        message = head_of(tx, lane)
        if message is None:
            stand_ready(tx, lane, "")
            go_idle(tx, lane)
            return
        if message.caller:
            take_out(tx, lane, message)
            if lives(tx, process_of(message.caller)):
                offer(tx, lane, message)
                break
            tell_awaiting(tx, message.watchers, lane.key, message.ident)
            # if the caller lives after all, it asks again
            tx.tell_loss(lane.key, message.caller, 0, "its process was not seen")
        elif 0 < message.late < tx.now:
            if buried == MAX_BURIED:
                lane.alarm = tx.now
                break
            buried += 1
            add_error(tx, message, "LaneTimeout", "not begun in time")
            bury(tx, lane, message)
        else:
            needs = message.handler + message.needs
            waits_until = max(message.after, quiet_until(tx, message))
            if waits_until > tx.now:
                wait_until(tx, lane, waits_until, before, needs)
            else:
                ready = message.list_of
            break
    stand_ready(tx, lane, ready)
    save_lane(tx, lane)
