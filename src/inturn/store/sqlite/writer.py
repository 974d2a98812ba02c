"""The one thread of a process that uses the database: calls that wait together are committed together.

A batch is one transaction. If anything in it fails, it is rolled back and its calls are run one by one, so
that a failure is its own caller's only. A call whose deadline has passed is not begun. Answers and notices go
out after the commit: if the process dies before it, nothing has happened; after it, the callers are gone too.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from inturn.errors import InTurnError
from inturn.store import clock
from inturn.store.protocol import Notice
from inturn.store.sqlite import lifecycle
from inturn.store.sqlite.address import Address
from inturn.store.sqlite.asides import Asides
from inturn.store.sqlite.calls import Job
from inturn.store.sqlite.connection import explain, is_busy, is_passing, open_connection
from inturn.store.sqlite.ears import Ears
from inturn.store.sqlite.inbox import Inbox
from inturn.store.sqlite.same_file import SameFile
from inturn.store.sqlite.transaction import Transaction, WallClock

log = logging.getLogger("inturn.store")

BATCH = 256
SHORTEST_PAUSE_S = 0.0001
LONGEST_PAUSE_S = 0.005
"""How soon we look again whether another process has left the write lock: the longer it lasts, the later."""


class Writer:
    """`put` and `stop` are for any thread; `hold_still` and `go_on` surround a fork."""

    def __init__(
        self,
        address: Address,
        process: str,
        timeout_s: float,
        wall: WallClock,
        tell: Callable[[Notice], None],
        ears: Ears,
    ) -> None:
        self._address = address
        self._process = process
        self._timeout_s = timeout_s
        self._wall = wall
        self._tell = tell
        self._ears = ears
        self._queue: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._backlog: deque[Job] = deque()
        self._is_stopping = False
        self._connection: sqlite3.Connection | None = None
        self._file = SameFile(address.path)
        self._using = threading.Lock()
        """Held while the connection is used."""
        self._obstacle: sqlite3.Error | None = None
        """Why nothing could be committed of late."""
        self._inbox = Inbox(process, ears)
        self._asides = Asides(str(address), process, timeout_s, ears)
        self._thread = threading.Thread(target=self._main, name="inturn-sqlite", daemon=True)
        self._thread.start()
        lifecycle.watch_writer(self)

    def put(self, jobs: list[Job]) -> None:
        self._queue.put(jobs)

    def say(self, key: str, text: bytes) -> None:
        """To those who watch the lane in other processes, if there are any."""
        jobs = self._asides.say(key, text)
        if jobs:
            self._queue.put(jobs)

    def stop(self, within_s: float | None = None) -> None:
        """Finish what was put, then end. A call that was not begun has a deadline; a disk that hangs has none."""
        self._queue.put(None)
        self._thread.join(2 * self._timeout_s if within_s is None else within_s)
        if self._thread.is_alive():
            log.warning("%s does not answer: its thread is left behind", self._address)

    # -- the thread ------------------------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            while True:
                jobs = self._take()
                if self._is_stopping:
                    jobs = [job for job in jobs if not job.is_moot()]
                if jobs:
                    self._run_wanted(jobs)
                elif self._is_stopping:
                    return
                if not self._is_stopping:
                    self._look()
        finally:
            self._close()

    def _take(self) -> list[Job]:
        """What has gathered; waits for it no longer than until we must look at our inbox."""
        backlog = self._backlog
        timeout = 0.0
        if not backlog and not self._is_stopping:
            timeout = self._inbox.pause_s
        with contextlib.suppress(Empty):
            while len(backlog) < BATCH:
                jobs = self._queue.get(timeout=timeout) if timeout else self._queue.get_nowait()
                timeout = 0.0
                if jobs is None:
                    self._is_stopping = True
                else:
                    backlog.extend(jobs)
        return [backlog.popleft() for _ in range(min(len(backlog), BATCH))]

    def _run_wanted(self, jobs: list[Job]) -> None:
        """All but what would be said to nobody."""
        if self._asides.are_among(jobs):
            with self._using:
                try:
                    jobs = self._asides.sift(jobs, self._connection)
                except sqlite3.Error as error:  # the transaction finds out
                    log.debug("not known who watches %s: %s", self._address, error)
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
        by_loop: dict[int, list[Job]] = {}
        for job in jobs:
            by_loop.setdefault(id(job.calls), []).append(job)
        for answered in by_loop.values():
            answered[0].calls.answered(answered)

    def _try(self, jobs: list[Job]) -> tuple[list[Job], Exception | None]:
        """One transaction, or nothing of it: then this answers the jobs that were in it, and the failure."""
        started_at = clock.now()
        while True:
            jobs = self._still_wanted(jobs)
            if not jobs:
                return [], None
            try:
                with self._using:
                    tx = self._transact(jobs)
            except sqlite3.Error as error:
                if not is_busy(error):
                    return jobs, error
                self._obstacle = error
                waited_s = clock.now() - started_at
                time.sleep(min(max(SHORTEST_PAUSE_S, waited_s / 100), LONGEST_PAUSE_S))
            except Exception as error:  # noqa: BLE001 - whatever it was, it is the caller's to hear
                return jobs, error
            else:
                self._obstacle = None
                self._inbox.committed(tx)
                for key, text in tx.heard:
                    self._ears.hear(key, text)
                for notice in tx.notices:
                    self._pass_on(notice)
                return [], None

    def _still_wanted(self, jobs: list[Job]) -> list[Job]:
        at, obstacle = clock.now(), self._obstacle
        if min(job.deadline for job in jobs) > at:
            return jobs
        for job in jobs:
            if job.deadline <= at:
                why = explain(obstacle) if obstacle else "other calls took the time"
                job.fail(f"stale, not begun within {self._timeout_s:g} s: {why}", obstacle)
        return [job for job in jobs if job.deadline > at]

    def _transact(self, jobs: list[Job]) -> Transaction:
        self._file.check()
        connection = self._connection
        if connection is None:
            connection = self._connection = open_connection(self._address)
            self._file.was_opened()
        try:
            connection.execute("BEGIN IMMEDIATE")
            tx = Transaction(connection, self._process, self._wall)
            self._asides.meet(tx)
            for job in jobs:
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
                    # the next look, the next call or the next beat finds out
                    log.debug("inbox of %s not read: %s", self._process, error)
        for notice in notices:
            self._pass_on(notice)
        chores = self._asides.chores(self._inbox, at)
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
        self._asides.reopened()
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def hold_still(self) -> bool:
        """Before a fork: a child must not have SQLite's idea of the file's locks in its memory."""
        is_still = self._using.acquire(timeout=self._timeout_s)
        if is_still and self._address.path is not None:
            self._close()
        return is_still

    def go_on(self) -> None:
        self._using.release()
