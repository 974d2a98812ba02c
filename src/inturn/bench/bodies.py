"""Bodies that ran one after the other, and the time between them: how long a body took does not matter."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple


class Ran(NamedTuple):
    """One body. Only the process tells hand-overs within a process from those between two."""

    began_at: float
    ended_at: float
    process: int = 0


def gaps(bodies: list[Ran], *, between_processes: bool = False) -> list[float]:
    """Seconds from each body's end to the next one's start."""
    return [
        new.began_at - old.ended_at
        for old, new in pairwise(sorted(bodies))
        if not between_processes or old.process != new.process
    ]
