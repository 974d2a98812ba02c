"""Who watches a lane, and what they are told. Best effort: nobody waits for a watcher, and nothing depends on one.

A process that watches a lane has a row in `watching`. What is said about the lane is put into its rows of `heard`,
which it reads when it reads its inbox; inside the process that says it, it needs no disk. A write to a lane that nobody
watches pays one dictionary lookup (`key in tx.audience`): no text is built and no statement is executed.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable

from inturn.store import clock
from inturn.store.sqlite.calls import Job
from inturn.store.sqlite.transaction import Audience, Transaction

log = logging.getLogger("inturn.store")

MISSED = b""
"""Told to a watcher instead of texts that were too many for it."""
MAX_UNCALLED = 1000
"""Texts that wait for a loop to call one watcher."""
MAX_UNHEARD = 1000
"""Texts that are kept for another process."""
MAX_UNDER_WAY = 1000
"""Published texts that wait to be written; what comes on top is dropped."""
MAX_READ = 200
"""Texts that we read before their rows are deleted, if that is sooner than `RENEW_S`."""
RENEW_S = 2.0
"""How often we say that we still watch, and delete the rows that we have read."""
WATCHER_LIVES_MS = 10_000
"""Several times `RENEW_S`: a process that does not renew for so long is forgotten."""
HEARD_LIVES_MS = 5_000
"""A text that its process has not read by then is deleted."""


# -- telling, as functions of a transaction -------------------------------------------------------------------


def announce(tx: Transaction, key: str, what: str, fence: int, rest: str) -> None:
    """Tells everyone who watches the lane '<what> <fence> <rest>'. Only for a `key in tx.audience`: see the callers.

    Follows lua/include/tell.lua.
    """
    text = f"{what} {fence} {rest}".encode()
    tx.heard += ((key, text),)
    say(tx, key, text)


def say(tx: Transaction, key: str, text: bytes) -> None:
    """Tells the other processes that watch the lane."""
    for process in tx.audience.get(key, ()):
        if process != tx.process:
            _write_heard(tx, process, key, text)


def _write_heard(tx: Transaction, process: str, key: str, text: bytes) -> None:
    """One row for this process. If it leaves too many unread, they are replaced by one row that says so. The newest
    text is always kept: it may be the commit that everybody waits for.
    """
    counts = tx.unheard = tx.unheard or {}
    unheard = counts.get(process)
    if unheard is None:
        (unheard,) = tx.one("SELECT count(*) FROM heard WHERE process = ?", (process,))
    if unheard >= MAX_UNHEARD:
        tx.execute("DELETE FROM heard WHERE process = ?", (process,))
        tx.execute("INSERT INTO heard VALUES (?, ?, ?, ?, ?)", (process, tx.tick(), "", MISSED, tx.now))
        unheard = 1
    counts[process] = unheard + 1
    tx.execute("INSERT INTO heard VALUES (?, ?, ?, ?, ?)", (process, tx.tick(), key, text, tx.now))


def read_audience(connection: sqlite3.Connection) -> Audience:
    found: dict[str, list[str]] = {}
    for key, process in connection.execute("SELECT key, process FROM watching"):
        found.setdefault(key, []).append(process)
    return found


# -- watching, as functions of a transaction ------------------------------------------------------------------


def watch(tx: Transaction, process: str, keys: Iterable[str], read_to: int = 0) -> list[str]:
    """The process watches these lanes, and has read its texts up to this number. Returns the lanes that are new."""
    tx.execute("DELETE FROM heard WHERE process = ? AND number <= ?", (process, read_to))
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
    """Forgets processes that have stopped renewing. A process that renews but did not read its texts in time loses
    them, and is told only that it has missed some.
    """
    if not tx.watching:
        return
    if tx.execute("DELETE FROM watching WHERE until <= ?", (tx.now,)).rowcount > 0:
        _changed(tx)
    tx.execute("DELETE FROM heard WHERE process NOT IN (SELECT process FROM watching)")
    rows = tx.execute("DELETE FROM heard WHERE said <= ? RETURNING process", (tx.now - HEARD_LIVES_MS,)).fetchall()
    for process in {process for (process,) in rows}:
        _write_heard(tx, process, "", MISSED)


def _changed(tx: Transaction) -> None:
    """Every process learns of it with its next transaction or look."""
    tx.watching = tx.tick() if tx.one("SELECT 1 FROM watching LIMIT 1", ()) else 0


# -- the watchers of this process -----------------------------------------------------------------------------


class Watcher:
    """One listener, called on the loop that it was made on. One that is too slow misses texts, and is told so."""

    def __init__(self, key: str, listener: Callable[[bytes], None]) -> None:
        self.key = key
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._texts: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._is_called = False
        self._is_over = False

    def hear(self, text: bytes) -> None:
        """From any thread."""
        with self._lock:
            if len(self._texts) >= MAX_UNCALLED:
                self._texts.clear()
                self._texts.append(MISSED)
            self._texts.append(text)
            if self._is_called:
                return
            self._is_called = True
        try:
            self._loop.call_soon_threadsafe(self._call)
        except RuntimeError:
            return  # the loop was closed, and nobody is left who could listen

    def _call(self) -> None:
        with self._lock:
            texts, self._texts = self._texts, deque()
            self._is_called = False
        for text in texts:
            if self._is_over:
                return
            try:
                self._listener(text)
            except Exception:
                log.exception("a listener of %r failed", self.key)

    @property
    def is_deaf(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        self._is_over = True


class Watchers:
    """All watchers of this process. For any thread."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[Watcher, ...]] = {}
        self._lock = threading.Lock()

    @property
    def keys(self) -> list[str]:
        """The lanes that are watched, without those whose watchers' loops were closed."""
        with self._lock:
            for key, watchers in list(self._by_key.items()):
                if all(watcher.is_deaf for watcher in watchers):
                    del self._by_key[key]
            return list(self._by_key)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def add(self, watcher: Watcher) -> None:
        with self._lock:
            self._by_key[watcher.key] = (*self._by_key.get(watcher.key, ()), watcher)

    def remove(self, watcher: Watcher) -> None:
        watcher.close()
        with self._lock:
            left = tuple(other for other in self._by_key.get(watcher.key, ()) if other is not watcher)
            if left:
                self._by_key[watcher.key] = left
            else:
                self._by_key.pop(watcher.key, None)

    def clear(self) -> None:
        with self._lock:
            self._by_key = {}

    def hear(self, key: str, text: bytes) -> None:
        """A key of '' means that some texts are missing: every watcher is told."""
        if key:
            for watcher in self._by_key.get(key, ()):
                watcher.hear(text)
        else:
            for every in self.keys:
                self.hear(every, MISSED)


class Relay:
    """Carries texts between the watchers of this process and the other processes, by way of the writer.

    Nobody awaits any of it: what fails, or is too much, is dropped. `say` is for any thread, all else for the writer's.
    """

    def __init__(self, where: str, process: str, timeout_s: float, watchers: Watchers) -> None:
        self.where = where
        self.is_gone = False
        self.audience: Audience = {}
        """Who watches, as far as we know."""
        self._process = process
        self._timeout_s = timeout_s
        self._watchers = watchers
        self._number = 0
        """The state of `watching` that `audience` was read from."""
        self._version = -1
        self._under_way = 0
        self._missing: set[str] = set()
        self._lock = threading.Lock()
        self._renewed_at = clock.now()  # a subscription that starts this writer registers itself
        self._read_to = 0
        """The number of the last text that we read."""
        self._unconfirmed = 0
        """How many of the texts that we read still have their rows."""

    # -- what we say ----------------------------------------------------------------------------------------------

    def say(self, key: str, text: bytes) -> list[Job]:
        """The jobs that write the text for other processes. The writer finds out whether any of them watches."""
        with self._lock:
            if self._under_way >= MAX_UNDER_WAY:
                self._missing.add(key)
                return []
            texts = [MISSED, text] if key in self._missing else [text]
            self._missing.discard(key)
            self._under_way += len(texts)
        deadline = clock.now() + self._timeout_s
        return [Job(self, say, (key, each), deadline) for each in texts]

    def answered(self, jobs: list[Job]) -> None:
        with self._lock:
            self._under_way -= sum(job.verb is say for job in jobs)
        for job in jobs:
            if job.verb is watch and job.error is None:  # lanes that are new to the store: it had forgotten us
                for key in job.answer:
                    self._watchers.hear(key, MISSED)

    def meet(self, tx: Transaction) -> None:
        """A transaction begins: it needs to know who watches."""
        self._learn(tx.connection, tx.watching)
        tx.audience = self.audience

    def is_among(self, jobs: list[Job]) -> bool:
        """Whether one of these jobs says something."""
        return self._under_way > 0 and any(job.verb is say for job in jobs)

    def sift(self, jobs: list[Job], connection: sqlite3.Connection | None) -> list[Job]:
        """Leaves out what nobody would hear, so that it needs no transaction."""
        if connection is None:
            return jobs
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            (number,) = connection.execute("SELECT watching FROM store").fetchone()
            self._learn(connection, number)
            self._version = version
        moot = [job for job in jobs if job.verb is say and not self._is_watched_elsewhere(job.args[0])]
        self.answered(moot)
        return [job for job in jobs if job not in moot] if moot else jobs

    def reopened(self) -> None:
        """There is a new connection: its data versions cannot be compared with those of the old one."""
        self._version = -1

    def _learn(self, connection: sqlite3.Connection, number: int) -> None:
        if number != self._number:
            self.audience = read_audience(connection) if number else {}
            self._number = number

    def _is_watched_elsewhere(self, key: str) -> bool:
        return any(process != self._process for process in self.audience.get(key, ()))

    # -- what we hear ---------------------------------------------------------------------------------------------

    @property
    def is_watching(self) -> bool:
        return bool(self._watchers)

    def read(self, connection: sqlite3.Connection) -> None:
        """Passes our new rows of `heard` on to our watchers."""
        rows = connection.execute(
            "SELECT number, key, text FROM heard WHERE process = ? AND number > ? ORDER BY number",
            (self._process, self._read_to),
        ).fetchall()
        for self._read_to, key, text in rows:
            self._watchers.hear(key, text)
        self._unconfirmed += len(rows)

    def chores(self, at: float) -> list[Job]:
        """The job that renews our rows of `watching` and deletes the texts that we have read, when one is due."""
        if not self._watchers:
            self._renewed_at = at
        if at - self._renewed_at < RENEW_S and self._unconfirmed < MAX_READ:
            return []
        self._renewed_at, self._unconfirmed = at, 0
        return [Job(self, watch, (self._process, self._watchers.keys, self._read_to), at + self._timeout_s)]
