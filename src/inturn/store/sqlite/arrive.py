"""A message arrives, at once, later or as a send: what its rule does to the running turn and the waiting messages.

Follows lua/include/arrive.lua, arrive_due.lua and send.lua, function by function.
"""

from __future__ import annotations

from collections.abc import Sequence

from inturn.store.lane import Rule, Send
from inturn.store.limits import MAX_CUTS, MAX_DUE, MAX_JOINING, MAX_TOGETHER, YIELD_MS
from inturn.store.sqlite.accept import accept, forget_letter, must_not_share, new_message, stir
from inturn.store.sqlite.advance import end_lease, take_lane_away, tell_awaiting, wake
from inturn.store.sqlite.lane import (
    MESSAGE,
    Lane,
    Message,
    has_message,
    is_leased,
    join,
    joins,
    mailbox,
    message_of,
    others_of,
    put,
    read_lane,
    read_mark,
    read_message,
    renumber,
    save_message,
    take_out,
    write_mark,
)
from inturn.store.sqlite.transaction import Transaction
from inturn.store.sqlite.watch import announce


def write_off(tx: Transaction, lane: Lane, message: Message, why: str, window_ms: int) -> None:
    """The message will never run. A mark says why to those who submit it again or await it, for `window_ms` from when
    it was due.
    """
    window_ms = max(1, window_ms) + max(0, message.after - tx.now)
    write_mark(tx, lane.key, message.ident, b"\0" + why.encode(), window_ms)
    take_out(tx, lane, message)
    tell_awaiting(tx, message.watchers, lane.key, message.ident)


def supersede(tx: Transaction, lane: Lane, message: Message) -> bool:
    """The new message supersedes all others of its handler that wait or are delayed.

    Returns whether the mailbox has changed.
    """
    handler, window_ms, waiting = message.handler, message.rule.window_ms, lane.waiting
    running = read_message(tx, lane.key, lane.running) if lane.running else None
    runs = {running.ident, *running.together} if running else set()
    rows = tx.execute(
        f"SELECT {MESSAGE} FROM messages WHERE key = ? AND ident >= ? AND ident < ?",
        (lane.key, f"{handler}\0", f"{handler}\1"),
    ).fetchall()
    for other in map(message_of, rows):
        if other.ident != message.ident and other.ident not in runs:
            write_off(tx, lane, other, "superseded", window_ms)
            message.cuts = max(message.cuts, other.cuts)  # the caller saves it
    return lane.waiting != waiting


def company(tx: Transaction, message: Message) -> list[Message] | None:
    """What comes with this message when it interrupts: all that wait for its handler before it, and itself.

    So their order is kept. `None`: not all of them can come, because they are too many, or one of them was tried before
    and must have a turn of its own first. An inline caller brings the callers before it, each for a turn of its own.
    """
    found: list[Message] = []
    for other in mailbox(tx, message.key, MAX_JOINING):
        if other.handler == message.handler:
            if message.handler and not joins(tx, other, message.handler):
                return None
            found.append(other)
        if other.ident == message.ident:
            return found
    return None


def make_way(
    tx: Transaction, lane: Lane, running: Message, message: Message, joining: Sequence[Message], *, window_ms: int
) -> None:
    """Puts the messages of the interrupted turn where they belong."""
    running.attempts, running.cuts = running.attempts - 1, running.cuts + 1
    if running.handler != message.handler:  # directly behind those that interrupted it, ahead of all others
        number = running.number
        for other in reversed(joining):
            number = free_below(tx, number)
            renumber(tx, message if other.ident == message.ident else other, number)
        put(tx, lane, running)
    elif joining:
        for other in joining:
            join(tx, lane, running, other)
        running.is_open = True
        put(tx, lane, running)
    else:
        for other in others_of(tx, running):
            write_off(tx, lane, other, "superseded", window_ms)
        write_off(tx, lane, running, "superseded", window_ms)
        renumber(tx, message, running.number)
        message.cuts = running.cuts
        save_message(tx, message)


def free_below(tx: Transaction, number: int) -> int:
    """The next free number: they are unique over all lanes."""
    number -= 1
    while tx.one("SELECT 1 FROM messages WHERE number = ?", (number,)):
        number -= 1
    return number


def interrupt(tx: Transaction, lane: Lane, message: Message, rule: Rule) -> None:
    """Cuts the running turn short, if the rule of the new message says so and the turn allows it.

    From here on its commit is refused. The lane waits until the turn has ended, but not for long. A turn of a higher
    priority is left alone, and so is one in a stopped lane: the new message could not run in its place.
    """
    if lane.stopped or not is_leased(tx, lane):
        return
    running = read_message(tx, lane.key, lane.running)
    is_own = running is not None and running.handler == message.handler
    cuts, rank = (running.cuts, running.rank) if running else (lane.cuts, 0)
    if cuts >= MAX_CUTS or not (is_own or lane.allows) or rank < message.rank:
        return
    joining: list[Message] | None = []
    if running is not None and is_own and len(running.together) >= MAX_TOGETHER and rule.policy == "interrupt":
        return
    if running is not None and not (is_own and rule.policy == "rollback"):
        joining = company(tx, message)
    if joining is None:
        return
    token = lane.holder
    tx.tell_loss(lane.key, token, lane.granted, "interrupted")
    if lane.key in tx.audience:
        announce(tx, lane.key, "interrupt", lane.granted, message.ident)
    if lane.lapse > 0:  # the turn was only offered: nobody runs it
        tx.untell("turn", token, lane.key)
    else:
        lane.yields, lane.yield_by = token, tx.now + YIELD_MS
    if running is None:
        tell_awaiting(tx, lane.awaited, lane.key, lane.running)
    end_lease(lane)
    if running is not None:
        make_way(tx, lane, running, message, joining, window_ms=rule.window_ms)
    else:
        lane.cuts += 1


def arrive(tx: Transaction, lane: Lane, message: Message, keep_ms: int, may_interrupt: bool = True) -> None:
    """Puts a message into its lane and applies its rule. The caller must stir the lane.

    `may_interrupt` is false for what a turn sends to its own lane.
    """
    if may_interrupt and lane.holder and not is_leased(tx, lane):
        take_lane_away(tx, lane, "expired")
    accept(tx, lane, message, keep_ms)
    if not message.rule_text:
        return
    rule = message.rule
    if rule.policy in ("latest", "rollback"):
        supersede(tx, lane, message)
        if message.cuts:
            save_message(tx, message)
    if may_interrupt and rule.policy in ("interrupt", "rollback"):
        interrupt(tx, lane, message, rule)


def postpone(tx: Transaction, lane: Lane, message: Message, keep_ms: int, delay_ms: int) -> bool:
    """The message arrives later. Until then it is in no mailbox, holds up nobody, and does not keep the state alive.

    Returns whether the lane must be stirred, because waiting messages were superseded.
    """
    has_superseded = message.rule.policy == "latest" and supersede(tx, lane, message)
    renumber(tx, message, tx.tick())
    message.after, message.keep, message.delayed = tx.now + delay_ms, keep_ms, True
    save_message(tx, message)
    forget_letter(tx, message)
    (first,) = tx.one("SELECT number FROM messages WHERE delayed = 1 ORDER BY after LIMIT 1", ())
    if first == message.number:
        wake(tx, message.handler + message.needs)
    return has_superseded


def deliver(tx: Transaction, lane: Lane, sends: Sequence[Send]) -> None:
    """Delivers the sends of a commit, or of a dead letter, in their order. `lane` is the sender's own."""
    for send in sends:
        must_not_share(send)
        is_new = send.is_fresh or (
            read_mark(tx, send.key, send.ident) is None and not has_message(tx, send.key, send.ident)
        )
        if is_new:
            target = lane if send.key == lane.key else read_lane(tx, send.key) or Lane(send.key)
            message = new_message(
                tx,
                send.key,
                send.ident,
                send.body,
                ttl=send.ttl_ms,
                limit=send.limit_ms,
                priority=send.priority,
                rule=send.rule,
                group=send.group,
            )
            if send.delay_ms > 0:
                must_stir = postpone(tx, target, message, send.keep_ms, send.delay_ms)
            else:
                arrive(tx, target, message, send.keep_ms, may_interrupt=target is not lane)
                must_stir = True
            if must_stir and target is not lane:
                stir(tx, target)


def arrive_due(tx: Transaction) -> None:
    """Delayed messages whose time has come arrive."""
    rows = tx.execute(
        "SELECT key, ident FROM messages WHERE delayed = 1 AND after <= ? ORDER BY after LIMIT ?", (tx.now, MAX_DUE)
    ).fetchall()
    for key, ident in rows:
        message = read_message(tx, key, ident)
        if message:  # one that arrived before it in this loop may have superseded it
            lane, keep_ms = read_lane(tx, key) or Lane(key), message.keep
            message.accepted, message.after, message.keep, message.delayed = message.after, 0, 0, False
            arrive(tx, lane, message, keep_ms)
            stir(tx, lane)
