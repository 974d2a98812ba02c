"""A message is made, comes into its lane's mailbox, and the lane reacts. Follows lua/include/accept.lua."""

from __future__ import annotations

from inturn.errors import SettingsError
from inturn.store.lane import PLAIN, Opening, Rule, Send, Submission
from inturn.store.sqlite.advance import advance
from inturn.store.sqlite.lane import Lane, Message, is_leased, lane_ends, persist_state, put, renumber, save_lane
from inturn.store.sqlite.transaction import Transaction

NEVER_MS = 2**62
"""Later than any time."""
SHARES_NEEDS_REDIS = "shares= needs Redis: nobody else can lock a plain key in a SQLite file"


def accept(tx: Transaction, lane: Lane, message: Message, keep_ms: int) -> None:
    """Puts a message into a lane, behind all of its rank. The caller must save the lane."""
    renumber(tx, message, tx.tick())
    put(tx, lane, message)
    # while messages wait the state does not expire; afterwards it has at least the time that it had left
    lane.keep = max(lane.keep, keep_ms, persist_state(tx, lane.key))
    forget_letter(tx, message)


def forget_letter(tx: Transaction, message: Message) -> None:
    """The message comes once more, so its dead letter is no longer what became of it."""
    tx.execute("DELETE FROM dead_letters WHERE key = ? AND ident = ?", (message.key, message.ident))


def stir(tx: Transaction, lane: Lane) -> None:
    """The lane has something to do. A living lease is left alone: the call that ends it finds the message."""
    if is_leased(tx, lane):
        lane.alarm = min(lane.alarm or NEVER_MS, lane_ends(tx, lane))
        save_lane(tx, lane)
    else:
        advance(tx, lane)


def new_message(
    tx: Transaction,
    key: str,
    ident: str,
    body: bytes,
    *,
    ttl: int,
    limit: int,
    priority: int = 0,
    caller: str = "",
    rule: Rule = PLAIN,
    group: str = "",
) -> Message:
    """A message that is not in the store yet. A higher priority has a lower rank."""
    return Message(
        number=0,
        key=key,
        ident=ident,
        rank=-priority,
        body=body,
        attempts=0,
        ttl=ttl,
        limit=limit,
        accepted=tx.now,
        caller=caller,
        rule_text=rule.text(),
        needs=f"@{rule.version}" if rule.version > 1 else "",
        group=group,
    )


def must_not_share(asked: Submission | Opening | Send) -> None:
    if asked.shares:
        raise SettingsError(SHARES_NEEDS_REDIS)
