"""Who watches a lane, and what is said to them: functions of a transaction. Best effort, beside everything else.

A process that watches says so in `watching`. What is said of the lane is put into its rows of `heard`, which it reads
as it reads its inbox; to the process that says it, it goes without the disk. Where nobody watches nothing is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from inturn.store.sqlite.transaction import Audience, Transaction

WATCHER_LIVES_MS = 10_000
"""Several times as long as it takes a process to say again that it watches."""
HEARD_LIVES_MS = 5_000
MOST_UNHEARD = 1000
"""Texts that are kept for a process."""


def announce(tx: Transaction, key: str, what: str, fence: int, rest: str) -> None:
    """Whoever watches the lane hears it: '<what> <fence> <rest>'. Nobody is told again, and nobody has to be there."""
    if key in tx.audience:
        text = f"{what} {fence} {rest}".encode()
        tx.heard.append((key, text))
        say(tx, key, text)


def say(tx: Transaction, key: str, text: bytes) -> None:
    """To the other processes that watch the lane."""
    for process in tx.audience.get(key, ()):
        if process != tx.process:
            _leave_word(tx, process, key, text)


def _leave_word(tx: Transaction, process: str, key: str, text: bytes) -> None:
    unheard = tx.unheard.get(process)
    if unheard is None:
        (unheard,) = tx.one("SELECT count(*) FROM heard WHERE process = ?", (process,))
    if unheard >= MOST_UNHEARD:  # it does not listen
        tx.execute("DELETE FROM heard WHERE process = ?", (process,))
        unheard, key, text = 0, "", b""
    tx.unheard[process] = unheard + 1
    tx.execute("INSERT INTO heard VALUES (?, ?, ?, ?, ?)", (process, tx.tick(), key, text, tx.now))


def read_audience(connection: sqlite3.Connection) -> Audience:
    found: dict[str, list[str]] = {}
    for key, process in connection.execute("SELECT key, process FROM watching"):
        found.setdefault(key, []).append(process)
    return found


def watch(tx: Transaction, process: str, keys: Iterable[str], heard_to: int = 0) -> list[str]:
    """The process watches these lanes, and has heard what was said up to a number. Answers the lanes that are new."""
    tx.execute("DELETE FROM heard WHERE process = ? AND number <= ?", (process, heard_to))
    until, new = tx.now + WATCHER_LIVES_MS, []
    for key in keys:
        known = tx.execute("UPDATE watching SET until = ? WHERE key = ? AND process = ?", (until, key, process))
        if known.rowcount == 0:
            tx.execute("INSERT INTO watching VALUES (?, ?, ?)", (key, process, until))
            new.append(key)
    if new:
        _changed(tx)
    return new


def unwatch(tx: Transaction, process: str, key: str) -> None:
    tx.execute("DELETE FROM watching WHERE key = ? AND process = ?", (key, process))
    if not tx.one("SELECT 1 FROM watching WHERE process = ? LIMIT 1", (process,)):
        tx.execute("DELETE FROM heard WHERE process = ?", (process,))
    _changed(tx)


def forget_process(tx: Transaction, process: str) -> None:
    if tx.execute("DELETE FROM watching WHERE process = ?", (process,)).rowcount > 0:
        _changed(tx)
    tx.execute("DELETE FROM heard WHERE process = ?", (process,))


def forget_silent(tx: Transaction) -> None:
    """Processes that have not said for long that they watch. Of what another one has not heard in time it is told only
    that it has missed some.
    """
    if not tx.watching:
        return
    if tx.execute("DELETE FROM watching WHERE until <= ?", (tx.now,)).rowcount > 0:
        _changed(tx)
    tx.execute("DELETE FROM heard WHERE process NOT IN (SELECT process FROM watching)")
    rows = tx.execute("DELETE FROM heard WHERE said <= ? RETURNING process", (tx.now - HEARD_LIVES_MS,)).fetchall()
    for process in {process for (process,) in rows}:
        _leave_word(tx, process, "", b"")


def _changed(tx: Transaction) -> None:
    """Every process learns of it with its next transaction or look."""
    tx.watching = tx.tick() if tx.one("SELECT 1 FROM watching LIMIT 1", ()) else 0
