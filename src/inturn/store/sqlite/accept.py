"""Messages come into lanes. Follows lua/include/accept.lua."""

from __future__ import annotations

from inturn.errors import SettingsError
from inturn.store.lane import PLAIN, Opening, Rule, Send, Submission
from inturn.store.sqlite.advance import advance
from inturn.store.sqlite.kept import persist_state
from inturn.store.sqlite.lane import Lane, Message, is_leased, lane_ends, put, renumber, save_lane
from inturn.store.sqlite.transaction import Transaction

MAX_MS = 2**62
"""Later than any time."""


def accept(tx: Transaction, lane: Lane, message: Message, keep_ms: int) -> None:
    """A message comes into a lane, behind all of its rank. Whoever calls this saves the lane."""
    renumber(tx, message, tx.tick())
    put(tx, lane, message)
    # while messages wait the state does not expire; then it has at least the time that it had before
    lane.keep = max(lane.keep, keep_ms, persist_state(tx, lane.key))
    forget_letter(tx, message)


def forget_letter(tx: Transaction, message: Message) -> None:
    """It comes once more, so what became of it before is not asked for any more."""
    tx.execute("DELETE FROM dead_letters WHERE key = ? AND ident = ?", (message.key, message.ident))


def stir(tx: Transaction, lane: Lane) -> None:
    """Now the lane has something to do. A living lease is left alone: whoever ends it finds the message."""
    if is_leased(tx, lane):
        lane.alarm = min(lane.alarm or MAX_MS, lane_ends(tx, lane))
        save_lane(tx, lane)
    else:
        advance(tx, lane)


def new_message(
    tx: Transaction,
    key: str,
    ident: str,
    body: bytes,
    ttl: int,
    limit: int,
    *,
    priority: int = 0,
    caller: str = "",
    rule: Rule = PLAIN,
) -> Message:
    """A higher priority has a lower rank."""
    needs = f"@{rule.version}" if rule.version > 1 else ""
    return Message(
        0, key, ident, -priority, body, 0, ttl, limit, tx.now, caller=caller, rule_text=rule.text(), needs=needs
    )


def must_not_share(asked: Submission | Opening | Send) -> None:
    if asked.shares:
        raise SettingsError("shares= needs Redis: nobody else can lock a plain key in a SQLite file")
