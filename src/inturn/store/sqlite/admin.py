"""The verbs that only look at lanes; they cost no sync of the disk. Each follows lua/<verb>.lua."""

from __future__ import annotations

import json
from typing import Any, Literal

from inturn.store.lane import read_ident
from inturn.store.views import DeadView, HandlerRow, LaneList, LaneRow, LaneView, MessageView
from inturn.store.protocol import PLACE_LIVES_MS
from inturn.store.sqlite.lane import (
    LANE,
    MESSAGE,
    Lane,
    Message,
    has_message,
    is_leased,
    mailbox,
    message_of,
    others_of,
    read_lane,
    read_message,
)
from inturn.store.sqlite.transaction import Transaction

Place = Literal["running", "waiting", "delayed"]
DEAD = "key, ident, body, attempts, accepted, died, errors"


def lanes(tx: Transaction, limit: int) -> LaneList:
    """The lanes in use, `limit` of them at most, and what no living worker can run."""
    found = []
    for row in tx.execute(f"SELECT {LANE} FROM lanes ORDER BY key LIMIT ?", (limit,)).fetchall():
        lane = Lane(*row)
        held = is_leased(tx, lane)
        found.append(
            LaneRow(
                lane.key, lane.holder if held else "", tx.now - lane.began if held else 0,
                lane.running if held else "", lane.stopped, lane.why, lane.ready, _waiting_in(tx, lane),
            )
        )  # fmt: skip
    living: dict[str, int] = {}
    for process, can in tx.execute("SELECT process, can FROM workers").fetchall():
        if tx.now <= tx.seen_at(process) + PLACE_LIVES_MS:
            for handler in can.strip("\0").split("\0"):
                living[handler] = living.get(handler, 0) + 1
    handlers = [
        HandlerRow(name, ready, living.get(name, 0))
        for name, ready in tx.execute(
            "SELECT name, (SELECT count(*) FROM lanes WHERE ready = name AND place > 0) FROM handlers ORDER BY name"
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
        f"SELECT {MESSAGE} FROM messages INDEXED BY messages_by_ident WHERE key = ? AND delayed = 1 "
        "ORDER BY after LIMIT ?",
        (key, limit),
    )
    messages += [_message_view(tx, message_of(row), "delayed") for row in delayed.fetchall()]
    state, until = tx.one(
        "SELECT state, until FROM states WHERE key = ? AND (until IS NULL OR until > ?)", (key, tx.now)
    ) or (None, None)
    ttl_ms = -1 if until is None else until - tx.now
    return LaneView(
        key, lane.holder if held else "", lane.granted if held else 0, tx.now - lane.began if held else 0,
        lane.running if held else "", lane.stopped, lane.why, lane.ready, _waiting_in(tx, lane), state, ttl_ms,
        tuple(messages),
    )  # fmt: skip


def _waiting_in(tx: Transaction, lane: Lane) -> int:
    """One whose holder is gone waits too, although nobody has put it back yet."""
    is_left = not is_leased(tx, lane) and has_message(tx, lane.key, lane.running)
    return lane.waiting + is_left


def _burst_views(tx: Transaction, lead: Message, place: Place) -> list[MessageView]:
    lead_id = read_ident(lead.ident)[1]
    others = [_message_view(tx, other, place, lead_id) for other in others_of(tx, lead)]
    return [_message_view(tx, lead, place), *others]


def _message_view(tx: Transaction, message: Message, place: Place, lead_id: str = "") -> MessageView:
    handler, message_id = read_ident(message.ident)
    return MessageView(
        handler, message_id, -message.rank, message.attempts, tx.now - message.accepted,
        max(0, message.after - tx.now), bool(message.caller), message.body, tuple(message.errors), place, lead_id,
    )  # fmt: skip


def dead(tx: Transaction, limit: int) -> list[DeadView]:
    """Dead letters, the oldest first."""
    return [_dead_view(row) for row in tx.execute(f"SELECT {DEAD} FROM dead_letters ORDER BY dead LIMIT ?", (limit,))]


def dead_letter(tx: Transaction, key: str, ident: str) -> DeadView | None:
    row = tx.one(f"SELECT {DEAD} FROM dead_letters WHERE key = ? AND ident = ?", (key, ident))
    return _dead_view(row) if row else None


def _dead_view(row: tuple[Any, ...]) -> DeadView:
    key, ident, body, attempts, accepted, died, errors = row
    handler, message_id = read_ident(ident)
    return DeadView(key, handler, message_id, body, attempts, accepted, died, tuple(json.loads(errors)))
