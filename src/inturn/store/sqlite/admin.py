"""What people do to lanes by hand, and how lanes look: each verb follows lua/admin/<verb>.lua step by step.

The verbs that only look cost no sync of the disk.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from inturn.store.lane import read_ident
from inturn.store.limits import PLACE_LIVES_MS
from inturn.store.sqlite.accept import stir
from inturn.store.sqlite.advance import (
    advance,
    go_idle,
    stand_ready,
    stop_yielding,
    take_lane_away,
    tell_awaiting,
)
from inturn.store.sqlite.lane import (
    LANE,
    MESSAGE,
    Lane,
    Message,
    delete_state,
    has_message,
    head_of,
    is_leased,
    mailbox,
    message_of,
    others_of,
    persist_state,
    put,
    read_lane,
    read_message,
)
from inturn.store.sqlite.letters import UNTIL, read_letter
from inturn.store.sqlite.transaction import Transaction
from inturn.store.views import DeadView, HandlerRow, LaneList, LaneRow, LaneView, MessageView

Place = Literal["running", "waiting", "delayed"]
DEAD = "key, ident, body, attempts, accepted, died, errors, until"
LETTER = 'keep, number, key, ident, rank, body, attempts, ttl, time_limit, accepted, errors, rule, needs, "group"'


def stop(tx: Transaction, key: str, how: Literal["paused", "parked"], why: str) -> None:
    """Stops a lane: the running turn may commit, and nothing else begins until the lane is resumed."""
    lane = read_lane(tx, key) or Lane(key)
    lane.stopped, lane.why = how, why
    advance(tx, lane)


def resume(tx: Transaction, key: str) -> bool:
    """A stopped lane goes on. If it was parked, the message that caused it has all its attempts again."""
    lane = read_lane(tx, key)
    if lane is None or not lane.stopped:
        return False
    head = head_of(tx, lane) if lane.stopped == "parked" else None
    if head:
        head.attempts, head.after = 0, 0
        put(tx, lane, head)
    lane.stopped, lane.why = "", ""
    advance(tx, lane)
    return True


def clear(tx: Transaction, key: str) -> int:
    """Empties a lane: its messages, its state and its stop are gone, and the running turn loses its lease."""
    lane = read_lane(tx, key)
    rows = tx.execute("DELETE FROM messages WHERE key = ? RETURNING ident, watchers, caller", (key,)).fetchall()
    for ident, watchers, caller in rows:
        tell_awaiting(tx, watchers, key, ident)
        if caller:  # an inline caller that waits will ask again
            tx.tell_loss(key, caller, 0, "the lane was cleared")
    delete_state(tx, key)
    if lane:
        lane.waiting = 0
        if lane.yields:
            stop_yielding(lane)
        if lane.holder:
            take_lane_away(tx, lane, "the lane was cleared")
        stand_ready(tx, lane, "")
        go_idle(tx, lane)
    return len(rows)


def replay(tx: Transaction, letter_ms: int, key: str, ident: str) -> bool:
    """A dead letter goes back to its old place in its lane, past the duplicate check, with all its attempts."""
    row = read_letter(tx, LETTER, key, ident, letter_ms)
    if row is None:
        return False
    tx.execute("DELETE FROM dead_letters WHERE key = ? AND ident = ?", (key, ident))
    keep, *values, errors, rule, needs, group = row
    lane = read_lane(tx, key) or Lane(key)
    left = persist_state(tx, key)
    lane.keep = max(lane.keep, left) or keep  # a state that was written since has its own time to live
    message = Message(*values)
    message.attempts, message.errors, message.is_open = 0, json.loads(errors), False
    message.rule_text, message.needs, message.group = rule, needs, group
    # it waits anew; and never from the same time, so that what it sends has other ids than what its death has sent
    message.accepted = max(tx.now, message.accepted + 1)
    tx.execute("DELETE FROM marks WHERE key = ? AND ident = ?", (key, ident))
    put(tx, lane, message)
    stir(tx, lane)
    return True


def drop(tx: Transaction, letter_ms: int, key: str, ident: str) -> bool:
    """Deletes a dead letter for good."""
    is_there = read_letter(tx, "1", key, ident, letter_ms) is not None
    tx.execute("DELETE FROM dead_letters WHERE key = ? AND ident = ?", (key, ident))
    return is_there


def lanes(tx: Transaction, limit: int) -> LaneList:
    """The lanes in use, `limit` of them at most; and each handler, with its ready lanes and living workers."""
    found = []
    for row in tx.execute(f"SELECT {LANE} FROM lanes ORDER BY key LIMIT ?", (limit,)).fetchall():
        lane = Lane(*row)
        held = is_leased(tx, lane)
        found.append(
            LaneRow(
                key=lane.key,
                token=lane.holder if held else "",
                since_ms=tx.now - lane.began if held else 0,
                ident=lane.running if held else "",
                stopped=lane.stopped,
                why=lane.why,
                ready=lane.ready.partition("\0")[0],
                waiting=_waiting_in(tx, lane),
            )
        )
    living: dict[str, int] = {}
    for process, can in tx.execute("SELECT process, can FROM workers").fetchall():
        if tx.now <= tx.seen_at(process) + PLACE_LIVES_MS:
            for handler in can.strip("\0").split("\0"):
                living[handler] = living.get(handler, 0) + 1
    handlers = [
        HandlerRow(name, ready, living.get(name, 0))
        for name, ready in tx.execute(
            "SELECT name, (SELECT count(*) FROM lanes WHERE ready = name AND place > 0) + (SELECT count(*) FROM lanes "
            "WHERE ready > name || char(0) AND ready < name || char(1) AND place > 0) FROM handlers ORDER BY name"
        )
    ]
    (in_use,) = tx.one("SELECT count(*) FROM lanes", ())
    (dead,) = tx.one("SELECT count(*) FROM dead_letters", ())
    return LaneList(in_use, dead, found, handlers)


def lane(tx: Transaction, key: str, limit: int) -> LaneView:
    """What one lane looks like now: what runs, the first `limit` that wait, and as many that are delayed."""
    lane = read_lane(tx, key) or Lane(key)
    held = is_leased(tx, lane)
    first = read_message(tx, key, lane.running)
    messages = _burst_views(tx, first, "running" if held else "waiting") if first else []
    for lead in mailbox(tx, key, limit):
        messages += _burst_views(tx, lead, "waiting")
    delayed = tx.execute(
        f"SELECT {MESSAGE} FROM messages INDEXED BY delayed_of_lane WHERE key = ? AND delayed = 1 "
        "ORDER BY after, number LIMIT ?",
        (key, limit),
    )
    messages += [_message_view(tx, message_of(row), "delayed") for row in delayed.fetchall()]
    state, until = tx.one(
        "SELECT state, until FROM states WHERE key = ? AND (until IS NULL OR until > ?)", (key, tx.now)
    ) or (None, None)
    ttl_ms = -1 if until is None else until - tx.now
    return LaneView(
        key=key,
        token=lane.holder if held else "",
        fence=lane.granted if held else 0,
        since_ms=tx.now - lane.began if held else 0,
        ident=lane.running if held else "",
        stopped=lane.stopped,
        why=lane.why,
        ready=lane.ready.partition("\0")[0],
        waiting=_waiting_in(tx, lane),
        state=state,
        state_ttl_ms=ttl_ms,
        messages=tuple(messages),
    )


def _waiting_in(tx: Transaction, lane: Lane) -> int:
    """A message whose holder is gone counts as waiting, although nobody has put it back yet.

    Follows lua/include/waiting.lua.
    """
    is_left = not is_leased(tx, lane) and has_message(tx, lane.key, lane.running)
    return lane.waiting + is_left


def _burst_views(tx: Transaction, lead: Message, place: Place) -> list[MessageView]:
    lead_id = read_ident(lead.ident)[1]
    others = [_message_view(tx, other, place, lead_id) for other in others_of(tx, lead)]
    return [_message_view(tx, lead, place), *others]


def _message_view(tx: Transaction, message: Message, place: Place, lead_id: str = "") -> MessageView:
    handler, message_id = read_ident(message.ident)
    return MessageView(
        handler=handler,
        id=message_id,
        priority=-message.rank,
        attempts=message.attempts,
        age_ms=tx.now - message.accepted,
        due_in_ms=max(0, message.after - tx.now),
        is_inline=bool(message.caller),
        body=message.body,
        errors=tuple(message.errors),
        place=place,
        lead=lead_id,
    )


def dead(tx: Transaction, letter_ms: int, limit: int) -> list[DeadView]:
    """Dead letters: of all, the `limit` that expire first; of those, the oldest first."""
    rows = tx.execute(
        f"SELECT {DEAD} FROM (SELECT * FROM dead_letters WHERE {UNTIL} > ? ORDER BY until, dead LIMIT ?) ORDER BY dead",
        (letter_ms, tx.now, limit),
    )
    return [_dead_view(row, letter_ms) for row in rows]


def dead_letter(tx: Transaction, letter_ms: int, key: str, ident: str) -> DeadView | None:
    row = read_letter(tx, DEAD, key, ident, letter_ms)
    return _dead_view(row, letter_ms) if row else None


def _dead_view(row: tuple[Any, ...], letter_ms: int) -> DeadView:
    key, ident, body, attempts, accepted, died, errors, until = row
    handler, message_id = read_ident(ident)
    return DeadView(
        key=key,
        handler=handler,
        id=message_id,
        body=body,
        attempts=attempts,
        accepted_ms=accepted,
        died_ms=died,
        until_ms=died + letter_ms if until is None else until,
        errors=tuple(json.loads(errors)),
    )
