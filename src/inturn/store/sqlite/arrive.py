"""A message arrives: what its rule does to the turn that runs and to the messages that wait.

Follows lua/include/arrive.lua and lua/include/send.lua, function by function.
"""

from __future__ import annotations

from collections.abc import Sequence

from inturn.store.lane import Rule, Send
from inturn.store.sqlite.accept import accept, forget_letter, must_not_share, new_message, stir
from inturn.store.sqlite.advance import end_lease, take_lane_away, tell_awaiting, wake
from inturn.store.sqlite.burst import MOST_TOGETHER, join, joins
from inturn.store.sqlite.kept import read_mark, write_mark
from inturn.store.sqlite.lane import (
    MESSAGE,
    Lane,
    Message,
    has_message,
    is_leased,
    mailbox,
    message_of,
    others_of,
    put,
    read_lane,
    read_message,
    renumber,
    save_message,
    take_out,
)
from inturn.store.sqlite.transaction import Transaction
from inturn.store.sqlite.watching import announce

MOST_CUTS = 3
"""Interrupts in a row; then the turn is left alone, so that a fast typist gets an answer in the end."""
MOST_JOINING = 100
YIELD_MS = 1000
"""An interrupted turn has this long to end, before the next one begins without it."""


def write_off(tx: Transaction, lane: Lane, message: Message, why: str, window_ms: int) -> None:
    """It will never run. Whoever brings it again, or awaits it, is told why: for its window, from when it was due."""
    window_ms = max(1, window_ms) + max(0, message.after - tx.now)
    write_mark(tx, lane.key, message.ident, b"\0" + why.encode(), window_ms)
    take_out(tx, lane, message)
    tell_awaiting(tx, message.watchers, lane.key, message.ident)


def supersede(tx: Transaction, lane: Lane, message: Message) -> bool:
    """Every message of this handler that waits or is delayed, but for the new one, is superseded by it.

    Answers whether the mailbox is another one now.
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

    So their order stays. `None`: not all of them can, or one was tried before and has a turn of its own to come first.
    With an inline caller come the callers before it: each has a turn of its own in any case.
    """
    found: list[Message] = []
    for other in mailbox(tx, message.key, MOST_JOINING):
        if other.handler == message.handler:
            if message.handler and not joins(tx, other, message.handler):
                return None
            found.append(other)
        if other.ident == message.ident:
            return found
    return None


def make_way(
    tx: Transaction, lane: Lane, running: Message, message: Message, window_ms: int, joining: Sequence[Message]
) -> None:
    """Where the messages of a turn go that this message has interrupted."""
    running.attempts, running.cuts = running.attempts - 1, running.cuts + 1
    if running.handler != message.handler:  # directly behind those that interrupted it, and ahead of the others
        number = running.number
        for other in reversed(joining):
            number = free_below(tx, number)
            renumber(tx, message if other.ident == message.ident else other, number)
        put(tx, lane, running)
    elif joining:
        for other in joining:
            join(tx, lane, running, other)
        running.is_open, running.rank = True, message.rank
        put(tx, lane, running)
    else:
        for other in others_of(tx, running):
            write_off(tx, lane, other, "superseded", window_ms)
        write_off(tx, lane, running, "superseded", window_ms)
        renumber(tx, message, running.number)
        message.cuts = running.cuts
        save_message(tx, message)


def free_below(tx: Transaction, number: int) -> int:
    """Numbers are unique in all lanes."""
    number -= 1
    while tx.one("SELECT 1 FROM messages WHERE number = ?", (number,)):
        number -= 1
    return number


def interrupt(tx: Transaction, lane: Lane, message: Message, rule: Rule) -> None:
    """The turn that runs is cut short, if the rule of the new message says so and the turn allows it.

    From here on its commit is refused; the lane waits until it has ended, but not for long. A turn of a higher priority
    is left alone, and so is one of a lane that is stopped: the new message could not run in its place.
    """
    if lane.stopped or not is_leased(tx, lane):
        return
    running = read_message(tx, lane.key, lane.running)
    is_own = running is not None and running.handler == message.handler
    cuts, rank = (running.cuts, running.rank) if running else (lane.cuts, 0)
    if cuts >= MOST_CUTS or not (is_own or lane.allows) or rank < message.rank:
        return
    joining: list[Message] | None = []
    if running is not None and is_own and len(running.together) >= MOST_TOGETHER and rule.policy == "interrupt":
        return
    if running is not None and not (is_own and rule.policy == "rollback"):
        joining = company(tx, message)
    if joining is None:
        return
    token = lane.holder
    tx.tell_loss(lane.key, token, lane.granted, "interrupted")
    announce(tx, lane.key, "interrupt", lane.granted, message.ident)
    if lane.lapse > 0:  # it was only offered: nobody runs
        tx.untell("turn", token, lane.key)
    else:
        lane.yields, lane.yield_by = token, tx.now + YIELD_MS
    if running is None:
        tell_awaiting(tx, lane.awaited, lane.key, lane.running)
    end_lease(lane)
    if running is not None:
        make_way(tx, lane, running, message, rule.window_ms, joining)
    else:
        lane.cuts += 1


def arrive(tx: Transaction, lane: Lane, message: Message, keep_ms: int, may_interrupt: bool = True) -> None:
    """`may_interrupt`: not what a turn sends to its own lane. Whoever calls this stirs the lane."""
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
    """It arrives later. Until then it is in no mailbox, so that it holds up nobody, and does not keep the state alive.

    Answers whether the lane must be stirred, because messages that waited were superseded.
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
    """The sends of a commit, in their order. `lane` is the sender's own."""
    for send in sends:
        must_not_share(send)
        is_new = send.is_fresh or (
            read_mark(tx, send.key, send.ident) is None and not has_message(tx, send.key, send.ident)
        )
        if is_new:
            target = lane if send.key == lane.key else read_lane(tx, send.key) or Lane(send.key)
            message = new_message(
                tx, send.key, send.ident, send.body, send.ttl_ms, send.limit_ms, priority=send.priority, rule=send.rule
            )
            if send.delay_ms > 0:
                must_stir = postpone(tx, target, message, send.keep_ms, send.delay_ms)
            else:
                arrive(tx, target, message, send.keep_ms, may_interrupt=target is not lane)
                must_stir = True
            if must_stir and target is not lane:
                stir(tx, target)
