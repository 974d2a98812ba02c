"""One lane: its row and its messages. Follows lua/include/lane.lua, function by function."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from inturn.store.lane import PLAIN, Given, GivenMessage, Policy, Rule, read_ident
from inturn.store.sqlite.transaction import Row, Transaction, process_of


@dataclass(slots=True)
class Lane:
    """`holder` '': not leased; `granted` is its fence. `waiting` is how many messages are in the mailbox.

    `allows`: others may interrupt it; `cuts`: interrupts in a row; `yields`: a token that was interrupted and has not
    yielded; `yield_by`: until when it may take.
    """

    key: str
    holder: str = ""
    granted: int = 0
    lease: int = 0
    until: int = 0
    lapse: int = 0
    began: int = 0
    running: str = ""
    stopped: str = ""
    why: str = ""
    ready: str = ""
    place: int | None = None
    keep: int = 0
    awaited: str = ""
    waiting: int = 0
    alarm: int | None = None
    allows: int = 0
    cuts: int = 0
    yields: str = ""
    yield_by: int = 0


@dataclass(slots=True)
class Message:
    """`waits`: it is in the mailbox; `delayed`: it will be. Else it runs, is one of a burst, or is not in the store.

    `together`: the idents of its burst, itself left out; `is_open`: more may join it; `needs`: '' or '@' and the
    version of its handler; `cuts`: interrupts in a row; `keep`: the ttl of the state, while it is delayed.
    """

    number: int
    key: str
    ident: str
    rank: int
    body: bytes
    attempts: int
    ttl: int
    limit: int
    accepted: int
    after: int = 0
    late: int = 0
    caller: str = ""
    errors: list[str] = field(default_factory=list)
    watchers: str = ""
    waits: bool = False
    rule_text: str = ""
    together: list[str] = field(default_factory=list)
    is_open: bool = True
    needs: str = ""
    cuts: int = 0
    keep: int = 0
    delayed: bool = False

    @property
    def handler(self) -> str:
        return read_ident(self.ident)[0]

    @property
    def rule(self) -> Rule:
        return rule_of(self.rule_text)


LANE = (
    "key, holder, granted, lease, until, lapse, began, running, stopped, why, ready, place, keep, awaited, waiting, "
    "alarm, allows, cuts, yields, yield_by"
)
MESSAGE = (
    "number, key, ident, rank, body, attempts, ttl, time_limit, accepted, after, late, coalesce(caller, ''), errors, "
    "watchers, waits, rule, together, open, needs, cuts, keep, delayed"
)
ERRORS, TOGETHER = 12, 16


def read_lane(tx: Transaction, key: str) -> Lane | None:
    row = tx.one(f"SELECT {LANE} FROM lanes WHERE key = ?", (key,))
    return Lane(*row) if row else None


def save_lane(tx: Transaction, lane: Lane) -> None:
    tx.execute(
        "INSERT OR REPLACE INTO lanes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            lane.key, lane.holder, lane.granted, lane.lease, lane.until, lane.lapse, lane.began, lane.running,
            lane.stopped, lane.why, lane.ready, lane.place, lane.keep, lane.awaited, lane.waiting, lane.alarm,
            lane.allows, lane.cuts, lane.yields, lane.yield_by,
        ),
    )  # fmt: skip


def lane_ends(tx: Transaction, lane: Lane) -> int:
    """When the lease ends if nothing renews it."""
    ends = min(tx.seen_at(process_of(lane.holder)) + lane.lease, lane.until)
    return min(ends, lane.lapse) if lane.lapse > 0 else ends


def is_leased(tx: Transaction, lane: Lane) -> bool:
    return lane.holder != "" and tx.now < lane_ends(tx, lane)


def read_message(tx: Transaction, key: str, ident: str) -> Message | None:
    row = tx.one(f"SELECT {MESSAGE} FROM messages WHERE key = ? AND ident = ?", (key, ident))
    return message_of(row) if row else None


def has_message(tx: Transaction, key: str, ident: str) -> bool:
    return tx.one("SELECT 1 FROM messages WHERE key = ? AND ident = ?", (key, ident)) is not None


def running_message(tx: Transaction, lane: Lane) -> Message:
    message = read_message(tx, lane.key, lane.running)
    assert message is not None, "a worker's lease has its message"
    return message


def others_of(tx: Transaction, lead: Message) -> list[Message]:
    """The others of a burst."""
    found = [read_message(tx, lead.key, ident) for ident in lead.together]
    return [other for other in found if other is not None]


def mailbox(tx: Transaction, key: str, limit: int) -> list[Message]:
    """The first messages that wait, in their order."""
    rows = tx.execute(
        f"SELECT {MESSAGE} FROM messages WHERE key = ? AND waits = 1 ORDER BY rank, number LIMIT ?", (key, limit)
    )
    return [message_of(row) for row in rows.fetchall()]


def head_of(tx: Transaction, lane: Lane) -> Message | None:
    """The next message of the mailbox."""
    return mailbox(tx, lane.key, 1)[0] if lane.waiting else None


def message_of(row: Row) -> Message:
    message = Message(*row)
    message.errors = json.loads(row[ERRORS])
    message.together = json.loads(row[TOGETHER]) if row[TOGETHER] else []
    return message


def save_message(tx: Transaction, message: Message) -> None:
    tx.execute(
        "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (number) DO UPDATE SET rank = excluded.rank, attempts = excluded.attempts, "
        "accepted = excluded.accepted, after = excluded.after, late = excluded.late, errors = excluded.errors, "
        "watchers = excluded.watchers, waits = excluded.waits, together = excluded.together, open = excluded.open, "
        "needs = excluded.needs, cuts = excluded.cuts, keep = excluded.keep, delayed = excluded.delayed",
        (
            message.number, message.key, message.ident, message.rank, message.body, message.attempts, message.ttl,
            message.limit, message.accepted, message.after, message.late, message.caller or None,
            json.dumps(message.errors), message.watchers, message.waits, message.rule_text,
            json.dumps(message.together) if message.together else "", message.is_open, message.needs, message.cuts,
            message.keep, message.delayed,
        ),
    )  # fmt: skip


def renumber(tx: Transaction, message: Message, number: int) -> None:
    """Another place. A message that is not in the store yet (its number is 0) only gets one."""
    if message.number:
        tx.execute("UPDATE messages SET number = ? WHERE number = ?", (number, message.number))
    message.number = number


def put(tx: Transaction, lane: Lane, message: Message) -> None:
    """Into the mailbox: anew, or back to its old place. The lead of a burst takes the others along."""
    if not message.waits:
        lane.waiting += 1
        message.waits = True
    save_message(tx, message)


def pull(tx: Transaction, lane: Lane, message: Message) -> None:
    """Out of the mailbox: it runs, or is a part of a burst."""
    if message.waits:
        lane.waiting -= 1
        message.waits = False
    save_message(tx, message)


def take_out(tx: Transaction, lane: Lane, message: Message) -> None:
    if message.waits:
        lane.waiting -= 1
        message.waits = False
    tx.execute("DELETE FROM messages WHERE number = ?", (message.number,))


@lru_cache(maxsize=1024)
def rule_of(text: str) -> Rule:
    if not text:
        return PLAIN
    policy, quiet, cap, most, allows, version, window = text.split(" ")
    return Rule(cast(Policy, policy), int(quiet), int(cap), int(most), allows == "1", int(version), int(window))


def seen(tx: Transaction, message: Message) -> GivenMessage:
    """One message as its handler gets it."""
    return GivenMessage(message.ident, message.body, tx.now - message.accepted)


def given(tx: Transaction, lane: Lane, lead: Message, state: bytes | None = None) -> Given:
    """What a worker is given of a turn."""
    messages = (seen(tx, lead), *(seen(tx, other) for other in others_of(tx, lead)))
    return Given(
        lane.key, lane.holder, lane.granted, lead.attempts, lead.ttl, lead.limit, messages, tx.sent_at, state,
        bool(lead.is_open),
    )  # fmt: skip


def was_lost(tx: Transaction, token: str, fence: int) -> bool:
    """Of a lease that is not there: one that was taken away left a note, one that is older than this file went with
    another, and any other was ended by its holder. A fence of 0 is not known.
    """
    return tx.is_lost(token) or 0 < fence < (tx.era or math.inf)
