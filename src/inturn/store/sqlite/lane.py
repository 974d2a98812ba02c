"""One lane: its row, its messages, its state, its marks. Follows lua/include/lane.lua, function by function.

What has expired is not read, whether it has been deleted yet or not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from inturn.store.lane import Given, read_ident
from inturn.store.sqlite.transaction import Row, Transaction, process_of


@dataclass(slots=True)
class Lane:
    """`holder` '': not leased; `granted` is its fence. `waiting` is how many messages are in the mailbox."""

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


@dataclass(slots=True)
class Message:
    """`waits`: it is in the mailbox; else it runs, or is not in the store."""

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

    @property
    def handler(self) -> str:
        return read_ident(self.ident)[0]


LANE = (
    "key, holder, granted, lease, until, lapse, began, running, stopped, why, ready, place, keep, awaited, waiting, "
    "alarm"
)
MESSAGE = (
    "number, key, ident, rank, body, attempts, ttl, time_limit, accepted, after, late, coalesce(caller, ''), errors, "
    "watchers, waits"
)
ERRORS = 12


def read_lane(tx: Transaction, key: str) -> Lane | None:
    row = tx.one(f"SELECT {LANE} FROM lanes WHERE key = ?", (key,))
    return Lane(*row) if row else None


def save_lane(tx: Transaction, lane: Lane) -> None:
    tx.execute(
        "INSERT OR REPLACE INTO lanes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            lane.key, lane.holder, lane.granted, lane.lease, lane.until, lane.lapse, lane.began, lane.running,
            lane.stopped, lane.why, lane.ready, lane.place, lane.keep, lane.awaited, lane.waiting, lane.alarm,
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


def head_of(tx: Transaction, lane: Lane) -> Message | None:
    """The next message of the mailbox."""
    if lane.waiting == 0:
        return None
    row = tx.one(
        f"SELECT {MESSAGE} FROM messages WHERE key = ? AND waits = 1 ORDER BY rank, number LIMIT 1", (lane.key,)
    )
    return message_of(row)


def message_of(row: Row) -> Message:
    message = Message(*row)
    message.errors = json.loads(row[ERRORS])
    return message


def save_message(tx: Transaction, message: Message) -> None:
    tx.execute(
        "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (number) DO UPDATE SET attempts = excluded.attempts, after = excluded.after, "
        "late = excluded.late, errors = excluded.errors, watchers = excluded.watchers, waits = excluded.waits",
        (
            message.number, message.key, message.ident, message.rank, message.body, message.attempts, message.ttl,
            message.limit, message.accepted, message.after, message.late, message.caller or None,
            json.dumps(message.errors), message.watchers, message.waits,
        ),
    )  # fmt: skip


def put(tx: Transaction, lane: Lane, message: Message) -> None:
    """Into the mailbox: anew, or back to its old place."""
    if not message.waits:
        lane.waiting += 1
        message.waits = True
    save_message(tx, message)


def take_out(tx: Transaction, lane: Lane, message: Message) -> None:
    if message.waits:
        lane.waiting -= 1
        message.waits = False
    tx.execute("DELETE FROM messages WHERE number = ?", (message.number,))


def given(tx: Transaction, lane: Lane, message: Message, state: bytes | None = None) -> Given:
    """What a worker is given of a message."""
    return Given(
        lane.key, lane.holder, lane.granted, message.ident, message.body, message.attempts, tx.now - message.accepted,
        message.ttl, message.limit, tx.sent_at, state,
    )  # fmt: skip


def read_state(tx: Transaction, key: str) -> bytes | None:
    row = tx.one("SELECT state FROM states WHERE key = ? AND (until IS NULL OR until > ?)", (key, tx.now))
    return row[0] if row else None


def write_state(tx: Transaction, key: str, state: bytes, until: int | None) -> None:
    tx.execute(
        "INSERT INTO states VALUES (?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET state = excluded.state, until = excluded.until",
        (key, state, until),
    )


def delete_state(tx: Transaction, key: str) -> None:
    tx.execute("DELETE FROM states WHERE key = ?", (key,))


def persist_state(tx: Transaction, key: str) -> int:
    """It does not expire any more. Answers how long it had left (ms; 0: it is not there, or had no end)."""
    row = tx.one("SELECT until FROM states WHERE key = ? AND until > ?", (key, tx.now))
    if row is None:
        return 0
    tx.execute("UPDATE states SET until = NULL WHERE key = ?", (key,))
    return int(row[0] - tx.now)


def expire_state(tx: Transaction, key: str, keep_ms: int) -> None:
    """Its time begins now, if it was held by messages, or written by a turn just now. Else it has its time already."""
    tx.execute("UPDATE states SET until = ? WHERE key = ? AND until IS NULL", (tx.now + keep_ms, key))


def renew_state(tx: Transaction, key: str, keep_ms: int) -> None:
    """A commit that does not touch the state renews it. What has expired does not come back."""
    tx.execute("UPDATE states SET until = max(until, ?1 + ?2) WHERE key = ?3 AND until > ?1", (tx.now, keep_ms, key))


def prolong_state(tx: Transaction, lane: Lane, keep_ms: int) -> None:
    """The same when the lane is idle now: messages that came and went during the turn have taken its time away."""
    renew_state(tx, lane.key, keep_ms)
    expire_state(tx, lane.key, max(lane.keep, keep_ms))


def read_mark(tx: Transaction, key: str, ident: str) -> bytes | None:
    row = tx.one("SELECT result FROM marks WHERE key = ? AND ident = ? AND until > ?", (key, ident, tx.now))
    return row[0] if row else None


def write_mark(tx: Transaction, key: str, ident: str, result: bytes, window_ms: int) -> None:
    tx.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?)", (key, ident, result, tx.now + window_ms))
