"""One lane: its row, its messages and their bursts, its state, and the marks of messages that ended.

Follows lua/include/lane.lua, burst.lua and turns.lua, function by function. What has expired is never read, whether it
was deleted yet or not.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, cast

from inturn.store.lane import PLAIN, Given, GivenMessage, Policy, Rule, read_ident
from inturn.store.sqlite.transaction import Row, Transaction, process_of


@dataclass(slots=True)
class Lane:
    """`holder` is '' if the lane is not leased; `granted` is the fence; `waiting` counts the messages in the mailbox.

    `allows`: other handlers may interrupt the turn; `cuts`: interrupts in a row; `yields`: a token that was interrupted
    and has not ended yet; `yield_by`: how long it may take.
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
    """`waits`: it is in the mailbox; `delayed`: it will be. Else it runs, is part of a burst, or is not stored yet.

    `together`: the other idents of the burst that it leads; `is_open`: more may join it; `needs`: '' or '@' and the
    version of its handler; `cuts`: interrupts in a row; `keep`: the ttl of the state, while it is delayed; `watchers`:
    the processes that await its result; `group`: '' or with whom its lane takes turns.
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
    group: str = ""

    @property
    def list_of(self) -> str:
        """The ready list of a lane whose next message this is."""
        return f"{self.handler}{self.needs}\0{self.group}" if self.group else self.handler + self.needs

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
    "watchers, waits, rule, together, open, needs, cuts, keep, delayed, "
    '"group"'
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
    """When the lease ends, unless it is renewed."""
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
    """The messages of the burst that it leads, without itself."""
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
        "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (number) DO UPDATE SET rank = excluded.rank, attempts = excluded.attempts, "
        "accepted = excluded.accepted, after = excluded.after, late = excluded.late, errors = excluded.errors, "
        "watchers = excluded.watchers, waits = excluded.waits, together = excluded.together, open = excluded.open, "
        "needs = excluded.needs, cuts = excluded.cuts, keep = excluded.keep, delayed = excluded.delayed",
        (
            message.number, message.key, message.ident, message.rank, message.body, message.attempts, message.ttl,
            message.limit, message.accepted, message.after, message.late, message.caller or None,
            json.dumps(message.errors), message.watchers, message.waits, message.rule_text,
            json.dumps(message.together) if message.together else "", message.is_open, message.needs, message.cuts,
            message.keep, message.delayed, message.group,
        ),
    )  # fmt: skip


def renumber(tx: Transaction, message: Message, number: int) -> None:
    """Gives it another place. A message that is not in the store yet (its number is 0) gets its first."""
    if message.number:
        tx.execute("UPDATE messages SET number = ? WHERE number = ?", (number, message.number))
    message.number = number


def put(tx: Transaction, lane: Lane, message: Message) -> None:
    """Into the mailbox: for the first time, or back to its old place. The lead of a burst takes the others along."""
    if not message.waits:
        lane.waiting += 1
        message.waits = True
    save_message(tx, message)


def pull(tx: Transaction, lane: Lane, message: Message) -> None:
    """Out of the mailbox: it runs, or becomes part of a burst."""
    if message.waits:
        lane.waiting -= 1
        message.waits = False
    save_message(tx, message)


def take_out(tx: Transaction, lane: Lane, message: Message) -> None:
    """Out of the store."""
    if message.waits:
        lane.waiting -= 1
        message.waits = False
    tx.execute("DELETE FROM messages WHERE number = ?", (message.number,))


@lru_cache(maxsize=1024)
def rule_of(text: str) -> Rule:
    if not text:
        return PLAIN
    policy, quiet, cap, max_quiet, allows, version, window, *cut_at = text.split(" ")
    return Rule(
        policy=cast(Policy, policy),
        quiet_ms=int(quiet),
        cap=int(cap),
        max_quiet_ms=int(max_quiet),
        allows=allows == "1",
        version=int(version),
        window_ms=int(window),
        cut_at=int(cut_at[0]) if cut_at else 0,
    )


def why_lost(tx: Transaction, token: str, fence: int) -> str | None:
    """Why a lease that is not there was lost. One that was taken away left a note; one that is older than this file was
    lost with another (`''`). `None`: its holder ended it. A fence of 0 is not known.
    """
    row = tx.one("SELECT why FROM lost WHERE token = ? AND until > ?", (token, tx.now))
    if row is not None:
        return str(row[0])
    return "" if 0 < fence < (tx.era or math.inf) else None


# -- bursts: several messages make one turn (lua/include/burst.lua) --------------------------------------------


def joins(tx: Transaction, message: Message, handler: str) -> bool:
    """Whether a waiting message can become part of a burst of this handler."""
    return message.is_open and not message.caller and message.after <= tx.now and message.handler == handler


def version_of(message: Message) -> int:
    return int(message.needs[1:] or 1)


def join(tx: Transaction, lane: Lane, lead: Message, other: Message) -> None:
    """Out of the mailbox and into the burst of this lead. The caller must save the lead.

    A message that led a burst itself brings the others along. From now on it cannot be late any more.
    """
    lead.together += (other.ident, *other.together)
    lead.rank = min(lead.rank, other.rank)  # if it goes back to the mailbox, nobody of this priority may come before it
    if version_of(other) > version_of(lead):
        lead.needs = other.needs  # the worker that runs the burst must be able to read all of it
    other.late, other.together = 0, []
    pull(tx, lane, other)


def release_unseen(tx: Transaction, lane: Lane, lead: Message, have: int) -> None:
    """Messages that joined a turn unseen by its handler go back to their places: all after the first `have`."""
    for other in others_of(tx, lead)[have - 1 :]:
        put(tx, lane, other)
    lead.together = lead.together[: have - 1]


# -- turns: what a worker is given (lua/include/turns.lua) -----------------------------------------------------


def seen(tx: Transaction, message: Message) -> GivenMessage:
    """One message, as its handler gets it."""
    return GivenMessage(message.ident, message.body, tx.now - message.accepted, message.accepted)


def given(tx: Transaction, lane: Lane, lead: Message, state: bytes | None = None) -> Given:
    """One turn, as a worker gets it."""
    messages = (seen(tx, lead), *(seen(tx, other) for other in others_of(tx, lead)))
    return Given(
        key=lane.key,
        token=lane.holder,
        fence=lane.granted,
        attempts=lead.attempts,
        ttl_ms=lead.ttl,
        limit_ms=lead.limit,
        messages=messages,
        sent_at=tx.sent_at,
        state=state,
        is_open=bool(lead.is_open),
    )


# -- the state -------------------------------------------------------------------------------------------------


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
    """Stops its time to live. Returns how long it had left (ms; 0: there is no state, or its time had been stopped)."""
    row = tx.one("SELECT until FROM states WHERE key = ? AND until > ?", (key, tx.now))
    if row is None:
        return 0
    tx.execute("UPDATE states SET until = NULL WHERE key = ?", (key,))
    return int(row[0] - tx.now)


def expire_state(tx: Transaction, key: str, keep_ms: int) -> None:
    """Starts its time to live, if waiting messages had stopped it or a turn has just written the state."""
    tx.execute("UPDATE states SET until = ? WHERE key = ? AND until IS NULL", (tx.now + keep_ms, key))


def renew_state(tx: Transaction, key: str, keep_ms: int) -> None:
    """A commit that does not touch the state renews it. A state that has expired does not come back."""
    tx.execute("UPDATE states SET until = max(until, ?1 + ?2) WHERE key = ?3 AND until > ?1", (tx.now, keep_ms, key))


def prolong_state(tx: Transaction, lane: Lane, keep_ms: int) -> None:
    """The same for a lane that is now idle: messages that came and went during the turn may have stopped its time to
    live.
    """
    renew_state(tx, lane.key, keep_ms)
    expire_state(tx, lane.key, max(lane.keep, keep_ms))


# -- marks: what became of messages that ended -----------------------------------------------------------------
#
# A mark is the result of a message that was committed; or byte 1 and an ident: see that message's mark; or byte 0 and a
# word: the message will never run.


def read_mark(tx: Transaction, key: str, ident: str) -> bytes | None:
    """All messages of a burst have one result: their marks point to that of the lead."""
    mark = _read_one_mark(tx, key, ident)
    return _read_one_mark(tx, key, mark[1:].decode()) if mark is not None and mark[:1] == b"\1" else mark


def _read_one_mark(tx: Transaction, key: str, ident: str) -> bytes | None:
    row = tx.one("SELECT result FROM marks WHERE key = ? AND ident = ? AND until > ?", (key, ident, tx.now))
    return row[0] if row else None


def word_of(mark: bytes) -> Literal["superseded", "cancelled"] | None:
    """Why the message will never run; `None` if it has run."""
    if mark[:1] != b"\0":
        return None
    return "superseded" if mark == b"\0superseded" else "cancelled"


def write_mark(tx: Transaction, key: str, ident: str, mark: bytes, window_ms: int) -> None:
    tx.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?)", (key, ident, mark, tx.now + window_ms))


def point_mark(tx: Transaction, key: str, ident: str, lead: str, window_ms: int) -> None:
    write_mark(tx, key, ident, b"\1" + lead.encode(), window_ms)
