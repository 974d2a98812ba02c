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

    There is a file for each kind of test that has company. A test holds the file of its kind, shared, and comes in
    when nobody holds the other one. It shuts the door until then, so that the many of one kind cannot keep another
    kind waiting for ever.
    """

    def __init__(self, folder: Path) -> None:
        self._door = (folder / "door").open("w")
        self._files = {way: (folder / way.name.lower()).open("w") for way in (Way.TIMED, Way.SHARED)}
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
                for file in self._files.values():
                    _unlock(file)  # by name: a child that a test has forked holds a copy of the file, and would keep it

    def _come_in(self, way: Way) -> None:
        fcntl.flock(self._door, fcntl.LOCK_EX)
        for kind, file in self._files.items():
            fcntl.flock(file, fcntl.LOCK_SH if kind is way else fcntl.LOCK_EX)
        if way is not Way.ALONE:
            for kind, file in self._files.items():
                if kind is not way:
                    _unlock(file)
        _unlock(self._door)

    def close(self) -> None:
        for file in (self._door, *self._files.values()):
            file.close()


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
