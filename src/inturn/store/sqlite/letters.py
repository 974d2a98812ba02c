"""How long dead letters are kept. Each has its time from whoever buried it; see decision 018.

Follows lua/include/letters.lua.
"""

from __future__ import annotations

from inturn.store.limits import MAX_LETTERS
from inturn.store.sqlite.transaction import Row, Transaction

UNTIL = "coalesce(until, died + ?)"
"""Until when a letter is kept, with `letter_ms` for one that has no time yet. From then on nobody sees it, whether a
beat has removed it yet or not.
"""


def read_letter(tx: Transaction, columns: str, key: str, ident: str, letter_ms: int) -> Row | None:
    row: Row | None = tx.one(
        f"SELECT {columns} FROM dead_letters WHERE key = ? AND ident = ? AND {UNTIL} > ?",
        (key, ident, letter_ms, tx.now),
    )
    return row


def expire_letters(tx: Transaction, letter_ms: int) -> None:
    """Removes the dead letters whose time is over.

    One that nobody has given a time yet, because the store itself has buried it, or an older version has, gets
    `letter_ms`, counted from when it died.
    """
    tx.execute(
        "UPDATE dead_letters SET until = died + ? WHERE dead IN "
        "(SELECT dead FROM dead_letters WHERE until IS NULL LIMIT ?)",
        (letter_ms, MAX_LETTERS),
    )
    tx.execute(
        "DELETE FROM dead_letters WHERE dead IN "
        "(SELECT dead FROM dead_letters WHERE until <= ? ORDER BY until LIMIT ?)",
        (tx.now, MAX_LETTERS),
    )
