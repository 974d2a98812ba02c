"""What this process says of lanes to those who watch them elsewhere, and what it must do to watch itself.

Nobody awaits any of it: what fails, or is too much, is dropped.
"""

from __future__ import annotations

import sqlite3
import threading

from inturn.store import clock
from inturn.store.sqlite.calls import Job
from inturn.store.sqlite.ears import MISSED, Ears
from inturn.store.sqlite.inbox import Inbox
from inturn.store.sqlite.transaction import Audience, Transaction
from inturn.store.sqlite.watching import read_audience, say, watch

MOST_UNDER_WAY = 1000
"""Texts that wait to be written together; what comes on top is dropped."""
RENEW_S = 2.0
"""How often we say that we watch. What we have heard is forgotten with it,"""
MOST_HEARD = 200
"""or sooner, after so many."""


class Asides:
    """`say` is for any thread, all else for the writer's. `audience` is who watches, as far as we know."""

    def __init__(self, where: str, process: str, timeout_s: float, ears: Ears) -> None:
        self.where = where
        self.is_gone = False
        self.audience: Audience = {}
        self._process = process
        self._timeout_s = timeout_s
        self._ears = ears
        self._number = 0
        self._version = -1
        self._under_way = 0
        self._missing: set[str] = set()
        self._lock = threading.Lock()
        self._renewed_at = clock.now()  # what is being subscribed to now has said so itself
        self._heard = 0

    def say(self, key: str, text: bytes) -> list[Job]:
        """What the writer is to do. Whether anyone else watches, it finds out."""
        with self._lock:
            if self._under_way >= MOST_UNDER_WAY:
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
            if job.verb is watch and job.error is None:  # we were forgotten meanwhile
                for key in job.answer:
                    self._ears.hear(key, MISSED)

    def meet(self, tx: Transaction) -> None:
        """A transaction begins."""
        self._learn(tx.connection, tx.watching)
        tx.audience = self.audience

    def are_among(self, jobs: list[Job]) -> bool:
        """Whether something is to be said."""
        return self._under_way > 0 and any(job.verb is say for job in jobs)

    def sift(self, jobs: list[Job], connection: sqlite3.Connection | None) -> list[Job]:
        """Without what nobody would hear, so that it needs no transaction."""
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
        self._version = -1

    def _learn(self, connection: sqlite3.Connection, number: int) -> None:
        if number != self._number:
            self.audience = read_audience(connection) if number else {}
            self._number = number

    def _is_watched_elsewhere(self, key: str) -> bool:
        return any(process != self._process for process in self.audience.get(key, ()))

    def chores(self, inbox: Inbox, at: float) -> list[Job]:
        """What it takes to go on watching."""
        if not self._ears:
            self._renewed_at = at
        if at - self._renewed_at < RENEW_S and inbox.heard - self._heard < MOST_HEARD:
            return []
        self._renewed_at, self._heard = at, inbox.heard
        return [Job(self, watch, (self._process, self._ears.keys, inbox.heard_to), at + self._timeout_s)]
