"""Which tests of a run may run at the same time.

Most run beside each other (`SHARED`). A test that measures time and itself hardly needs the processor runs beside
others of its kind only (`TIMED`). One that also loads the machine runs while no other worker has a test (`ALONE`). A
worker that dies gives back what it has: the locks are the kernel's.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import IO, TypeVar

T = TypeVar("T")


class Way(Enum):
    """How a test has the floor; in the order in which a worker runs them."""

    ALONE = 0
    TIMED = 1
    SHARED = 2


class Floor:
    """One per worker; those of a run meet in a folder that is the run's own.

    There is a file for each kind of test that has company, and a test holds that of its kind, shared. It comes in when
    nobody holds the other file. Timed tests go first: while one of them runs or waits, more of them may come in, and no
    shared one does. There are few, so the others do not wait for long.
    """

    def __init__(self, folder: Path) -> None:
        self._timed, self._shared = ((folder / name).open("w") for name in ("timed", "shared"))
        self._kept: Way | None = None

    @contextmanager
    def taken(self, way: Way, *, keep: bool = False) -> Iterator[None]:
        """With `keep` the floor stays taken for the next test, which wants it in the same way."""
        if self._kept is None:
            self._come_in(way)
        try:
            yield
        finally:
            self._kept = way if keep else None
            if not keep:
                for file in (self._timed, self._shared):
                    _unlock(file)  # by name: a child that a test has forked holds a copy of the file, and would keep it

    def _come_in(self, way: Way) -> None:
        # always in this order, so that no two of them wait for each other
        fcntl.flock(self._timed, fcntl.LOCK_SH if way is Way.TIMED else fcntl.LOCK_EX)
        fcntl.flock(self._shared, fcntl.LOCK_SH if way is Way.SHARED else fcntl.LOCK_EX)
        if way is Way.SHARED:
            _unlock(self._timed)
        if way is Way.TIMED:
            _unlock(self._shared)

    def close(self) -> None:
        self._timed.close()
        self._shared.close()


def _unlock(file: IO[str]) -> None:
    fcntl.flock(file, fcntl.LOCK_UN)


def in_parts(items: Sequence[tuple[Way, T]], workers: int) -> list[T]:
    """In such an order that the first worker begins with what runs alone, and each other one with its share of the
    timed ones. If the first had timed ones too, the others could be done with theirs before it is, and wait.

    `--dist worksteal` gives each worker one part of the list, all equally long.
    """
    kinds = {way: [item for its_way, item in items if its_way is way] for way in Way}
    beginnings = [kinds[Way.ALONE], *(kinds[Way.TIMED][other :: workers - 1] for other in range(workers - 1))]
    if workers == 1:
        beginnings[0] = kinds[Way.ALONE] + kinds[Way.TIMED]
    parts: list[list[T]] = []
    left, shared = len(items), kinds[Way.SHARED]
    for worker, part in enumerate(beginnings):
        size = left // (workers - worker)
        room = max(0, size - len(part))
        part, shared = part + shared[:room], shared[room:]
        left -= len(part)
        parts.append(part)
    return [item for part in parts for item in part] + shared
