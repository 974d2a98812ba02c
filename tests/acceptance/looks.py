"""Looking at a lock from outside, until it is as expected."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing

from inturn.locks.admin import LockInfo
from inturn.store.sqlite.address import Address
from inturn.sync import InTurn
from tests.acceptance.processes import Child


def until(is_so: Callable[[], bool], within: float, what: str) -> None:
    deadline = time.monotonic() + within
    while not is_so():
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(0.005)


def look(url: str, namespace: str, name: str = "x") -> LockInfo | None:
    with InTurn(url, namespace=namespace) as app:
        return app.locks.inspect(name)


def until_waiting(url: str, namespace: str, number: int, name: str = "x", within: float = 5.0) -> None:
    """So many wait for the lock."""
    with InTurn(url, namespace=namespace) as app:

        def is_so() -> bool:
            view = app.locks.inspect(name)
            return view is not None and len(view.waiters) == number

        until(is_so, within, f"{number} waiters for {name!r}")


def until_free(url: str, namespace: str, name: str = "x", within: float = 5.0) -> None:
    """Nobody holds the lock, and nobody waits for it."""
    with InTurn(url, namespace=namespace) as app:
        until(lambda: app.locks.inspect(name) is None, within, f"{name!r} is free: {app.locks.inspect(name)}")


def stop(child: Child, url: str, namespace: str) -> None:
    """SIGSTOP; on SQLite not inside of a transaction, where it would stop the store for everyone."""
    while True:
        child.signal(signal.SIGSTOP)
        if not url.startswith("sqlite:") or _is_writable(str(Address.from_url(url, namespace))):
            return
        child.signal(signal.SIGCONT)
        time.sleep(0.02)


def _is_writable(file: str) -> bool:
    with closing(sqlite3.connect(file, timeout=0.1, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        db.execute("ROLLBACK")
        return True
