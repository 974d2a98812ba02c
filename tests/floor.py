"""A test that is marked `alone` runs while no other worker of the same run has a test: it measures time, or is a load.

Every test takes the floor, shared or alone. Whoever wants it alone shuts the door meanwhile, so that the many who
share it cannot keep it waiting for ever. A worker that dies gives back what it has: the locks are the kernel's.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Floor:
    """One per worker; those of a run meet in a folder that is the run's own."""

    def __init__(self, folder: Path) -> None:
        self._door = (folder / "door").open("w")
        self._floor = (folder / "floor").open("w")
        self._is_kept = False

    @contextmanager
    def taken(self, *, alone: bool, keep: bool = False) -> Iterator[None]:
        """With `keep` the floor stays taken for the next test, which wants it in the same way."""
        if not self._is_kept:
            fcntl.flock(self._door, fcntl.LOCK_EX)
            fcntl.flock(self._floor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(self._door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            self._is_kept = keep
            if not keep:
                fcntl.flock(self._floor, fcntl.LOCK_UN)  # also if a test has forked: the child's copy keeps no lock

    def close(self) -> None:
        self._door.close()
        self._floor.close()
