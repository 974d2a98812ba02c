"""The one thread of a process that uses the database: calls that wait together are committed together.

A batch is one transaction. If anything in it fails, it is rolled back and its calls are run one by one, so that only
the call that fails gets the error. A call whose time is up is not begun. Answers and notices go out after the
commit: if the process dies before the commit, nothing has happened; if it dies after it, the callers died with it.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Protocol
from weakref import WeakSet

from inturn.errors import InTurnError
from inturn.store import clock
from inturn.store.protocol import Notice
from inturn.store.sqlite import lanes, locks, workers
from inturn.store.sqlite.calls import Job
from inturn.store.sqlite.connection import Address, SameFile, explain, is_busy, is_full, is_passing, open_connection
from inturn.store.sqlite.inbox import Inbox
from inturn.store.sqlite.transaction import Transaction, WallClock
from inturn.store.sqlite.watch import Relay, Watchers
from inturn.store.sqlite.write_ahead_log import WriteAheadLog

log = logging.getLogger("inturn.store")

MAX_BATCH = 256
"""Calls in one transaction."""
MIN_PAUSE_S = 0.0001
MAX_PAUSE_S = 0.005
"""How long we pause while another process has the write lock: the longer we have waited, the longer the pause."""
END_WITHIN_S = 1.0
"""How long the end of the interpreter waits for a writer."""

_GIVING = (locks.acquire, lanes.begin, workers.claim, workers.claim_lane)
_BEGINNING = frozenset({*_GIVING, lanes.submit})
"""What makes more work: refused first when the log becomes too long."""


def is_moot(job: Job) -> bool:
    """The job would give something to a caller that is gone, so nobody would ever give it back."""
    return job.verb in _GIVING and job.owner.is_gone


class Writer:
    """`put` and `stop` are for any thread; `hold_still` and `go_on` surround a fork."""

    def __init__(
        self,
        address: Address,
        process: str,
        *,
        timeout_s: float,
        wall: WallClock,
        tell: Callable[[Notice], None],
        watchers: Watchers,
    ) -> None:
        self._address = address
        self._process = process
        self._timeout_s = timeout_s
        self._wall = wall
        self._tell = tell
        self._watchers = watchers
        self._queue: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._backlog: deque[Job] = deque()
        self._is_stopping = False
        self._connection: sqlite3.Connection | None = None
        self._file = SameFile(address.path)
        self._log = WriteAheadLog(address.path, address.log_limit)
        self._using = threading.Lock()
        """Held while the connection is used."""
        self.obstacle: sqlite3.Error | None = None
        """Why the last attempt could not commit: another process has the file."""
        self._relay = Relay(str(address), process, timeout_s, watchers)
        self._inbox = Inbox(process, self._relay)
        self._thread = threading.Thread(target=self._main, name="inturn-sqlite", daemon=True)
        self._thread.start()
        _writers.add(self)

    def put(self, jobs: list[Job]) -> None:
        self._queue.put(jobs)

    def say(self, key: str, text: bytes) -> None:
        """Tells the watchers of the lane in other processes, if there are any."""
        jobs = self._relay.say(key, text)
        if jobs:
            self._queue.put(jobs)

    def stop(self, within_s: float | None = None) -> None:
        """Finishes what was put, then ends. A call that was not begun has a deadline; a disk that hangs has none."""
        self._queue.put(None)
        self._thread.join(2 * self._timeout_s if within_s is None else within_s)
        if self._thread.is_alive():
            log.warning("%s does not answer; its thread is abandoned", self._address)

    # -- the thread ------------------------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            while True:
                jobs = self._take()
                if self._is_stopping:
                    jobs = [job for job in jobs if not is_moot(job)]
                if jobs:
                    self._run_wanted(jobs)
                elif self._is_stopping:
                    return
                if not self._is_stopping:
                    self._look()
        finally:
            self._close()

    def _take(self) -> list[Job]:
        """The jobs that have gathered. Waits for one, but only until it is time to look at our inbox."""
        backlog = self._backlog
        timeout = 0.0
        if not backlog and not self._is_stopping:
            timeout = self._inbox.pause_s
        with contextlib.suppress(Empty):
            while len(backlog) < MAX_BATCH:
                jobs = self._queue.get(timeout=timeout) if timeout else self._queue.get_nowait()
                timeout = 0.0
                if jobs is None:
                    self._is_stopping = True
                else:
                    backlog.extend(jobs)
        return [backlog.popleft() for _ in range(min(len(backlog), MAX_BATCH))]

    def _run_wanted(self, jobs: list[Job]) -> None:
        """Runs the jobs, without those that would tell something to watchers that do not exist."""
        if self._relay.is_among(jobs):
            with self._using:
                try:
                    jobs = self._relay.sift(jobs, self._connection)
                except sqlite3.Error as error:  # the transaction will find out
                    log.debug("cannot read who watches lanes of %s: %s", self._address, error)
        if jobs:
            self._run(jobs)

    def _run(self, jobs: list[Job]) -> None:
        todo, failure = self._try(jobs)
        if failure is not None and len(todo) > 1:
            for job in todo:
                left, failure = self._try([job])
                self._fail(left, failure)
        else:
            self._fail(todo, failure)
        by_owner: dict[int, list[Job]] = {}
        for job in jobs:
            by_owner.setdefault(id(job.owner), []).append(job)
        for answered in by_owner.values():
            answered[0].owner.answered(answered)

    def _try(self, jobs: list[Job]) -> tuple[list[Job], Exception | None]:
        """All jobs in one transaction, or none: then this returns the jobs that were in it, and the failure."""
        started_at, is_second = clock.now(), False
        while True:
            jobs = self._still_wanted(jobs)
            if not jobs:
                return [], None
            try:
                with self._using:
                    tx = self._transact(jobs)
            except sqlite3.Error as error:
                if is_full(error) and not is_second and self._make_room():
                    is_second = True
                    continue
                if not is_busy(error):
                    return jobs, error
                self.obstacle = error
                waited_s = clock.now() - started_at
                time.sleep(min(max(MIN_PAUSE_S, waited_s / 100), MAX_PAUSE_S))
            except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
                return jobs, error
            else:
                self.obstacle = None
                self._inbox.committed(tx)
                for key, text in tx.heard:
                    self._watchers.hear(key, text)
                for notice in tx.notices:
                    self._pass_on(notice)
                return [], None

    def _still_wanted(self, jobs: list[Job]) -> list[Job]:
        at = clock.now()
        over = [job for job in jobs if job.is_over(at)]
        if not over:
            return jobs
        for job in over:
            if not job.is_given_up:
                job.fail_overdue(self._timeout_s, self.obstacle)
        return [job for job in jobs if job not in over]

    def _transact(self, jobs: list[Job]) -> Transaction:
        self._file.check()
        connection = self._connection
        if connection is None:
            connection = self._connection = open_connection(self._address)
            self._file.was_opened()
            self._log.was_opened(connection)
        self._log.check(connection, is_begin=any(job.verb in _BEGINNING for job in jobs))
        try:
            connection.execute("BEGIN IMMEDIATE")
            tx = Transaction(connection, self._process, self._wall)
            self._relay.meet(tx)
            for job in jobs:
                job.is_begun = True
                if not job.is_given_up:
                    job.answer = job.verb(tx, *job.args)
            tx.end()
        except BaseException as error:
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            finally:
                if not is_passing(error):
                    self._close()
            raise
        return tx

    def _make_room(self) -> bool:
        """The disk is full. It may be our own log that fills it, behind a reader that has gone since."""
        with self._using:
            return self._connection is not None and self._log.shorten(self._connection)

    def _fail(self, jobs: list[Job], failure: Exception | None) -> None:
        for job in jobs:
            if isinstance(failure, sqlite3.Error):
                job.fail(explain(failure), failure)
            elif isinstance(failure, InTurnError):
                job.error = type(failure)(*failure.args)
                job.error.__cause__ = failure
            else:
                job.error = failure

    # -- telling ---------------------------------------------------------------------------------------------

    def _look(self) -> None:
        at = clock.now()
        if not self._inbox.is_due(at):
            return
        notices: list[Notice] = []
        with self._using:
            if self._connection is not None:
                try:
                    notices = self._inbox.look(self._connection, at)
                except sqlite3.Error as error:
                    # the next look, call or beat will find out
                    log.debug("cannot read the inbox of %s: %s", self._process, error)
        for notice in notices:
            self._pass_on(notice)
        chores = self._relay.chores(at)
        if chores:
            self._queue.put(chores)

    def _pass_on(self, notice: Notice) -> None:
        try:
            self._tell(notice)
        except Exception:
            log.exception("a listener failed on %r", notice)

    # -- the connection --------------------------------------------------------------------------------------

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        self._inbox.reopened()
        self._relay.reopened()
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def hold_still(self) -> bool:
        """Before a fork: the child must not inherit what SQLite believes about the file's locks."""
        is_still = self._using.acquire(timeout=self._timeout_s)
        if is_still and self._address.path is not None:
            self._close()
        return is_still

    def go_on(self) -> None:
        self._using.release()


# -- a fork, and the end of the interpreter ------------------------------------------------------------------
#
# SQLite keeps a process's locks on a file in memory. A child that inherits that memory believes in locks that it does
# not have, and could destroy the file. So every writer closes its file for the moment of the fork, and the child starts
# with nothing. At the end of the interpreter the writers finish what was asked: a lock that was released is free.


class Store(Protocol):
    def forget(self) -> None: ...


_writers: WeakSet[Writer] = WeakSet()
_stores: WeakSet[Store] = WeakSet()
_still: list[Writer] = []
_left_to_the_parent: list[Writer] = []
"""In a child: kept, so that they are neither used nor finalised here."""


def forget_after_fork(store: Store) -> None:
    """`store.forget()` is called in every child that this process forks."""
    _stores.add(store)


def _before_fork() -> None:
    _still.extend(writer for writer in list(_writers) if writer.hold_still())


def _in_parent() -> None:
    while _still:
        _still.pop().go_on()


def _in_child() -> None:
    _still.clear()
    _left_to_the_parent.extend(_writers)
    _writers.clear()
    for store in list(_stores):
        store.forget()


def _at_exit() -> None:
    for writer in list(_writers):
        writer.stop(END_WITHIN_S)


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
atexit.register(_at_exit)
