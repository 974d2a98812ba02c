"""Looking at locks and lanes from outside, until they are as expected."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from inturn import InTurn, sync
from inturn.lanes.admin import LaneInfo
from inturn.locks.admin import LockInfo
from inturn.settings import Settings
from inturn.store import clock
from inturn.store.sqlite.connection import Address
from tests.acceptance.processes import Child
from tests.waiting import PAUSE_S, WITHIN_S, until_status, wait_until

PATIENT = Settings(store_timeout=30)
"""Waits for an answer longer than a busy machine may take to give one: here it is not the store that is away."""


def look(url: str, namespace: str, name: str = "x") -> LockInfo | None:
    with sync.InTurn(url, namespace=namespace, settings=PATIENT) as app:
        return app.locks.inspect(name)


def until_waiting(url: str, namespace: str, number: int, name: str = "x", within: float = WITHIN_S) -> None:
    """So many wait for the lock."""
    with sync.InTurn(url, namespace=namespace, settings=PATIENT) as app:

        def is_so() -> bool:
            view = app.locks.inspect(name)
            return view is not None and len(view.waiters) == number

        wait_until(is_so, within, f"{number} waiters for {name!r}")


def until_free(url: str, namespace: str, name: str = "x", within: float = WITHIN_S) -> None:
    """Nobody holds the lock, and nobody waits for it."""
    with sync.InTurn(url, namespace=namespace, settings=PATIENT) as app:
        wait_until(lambda: app.locks.inspect(name) is None, within, f"{name!r} is free: {app.locks.inspect(name)}")


async def until_idle(app: InTurn, key: str, within: float = WITHIN_S) -> LaneInfo:
    return await until_status(app, key, "idle", within_s=within)


async def until_all_idle(app: InTurn, within: float = WITHIN_S) -> None:
    """No lane is stuck."""
    ends_at = clock.now() + within
    while lanes := await app.lanes.list():
        assert clock.now() < ends_at, f"still in use: {lanes}"
        await asyncio.sleep(PAUSE_S)


def stop(child: Child, url: str, namespace: str) -> None:
    """SIGSTOP; on SQLite not inside of a transaction, where it would stop the store for everyone."""
    while True:
        child.signal(signal.SIGSTOP)
        # one of its threads may still be locking the file
        wait_until(lambda: _stands(child.pid), WITHIN_S, f"all threads of {child.pid} stand")
        if not url.startswith("sqlite:") or _is_writable(str(Address.from_url(url, namespace))):
            return
        child.signal(signal.SIGCONT)
        time.sleep(0.02)


def _stands(pid: int) -> bool:
    """Whether all its threads are stopped."""
    try:
        stats = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):  # of a thread that has just ended
        return False
    return bool(stats) and all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def _is_writable(file: str) -> bool:
    with closing(sqlite3.connect(file, timeout=0.1, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        db.execute("ROLLBACK")
        return True
