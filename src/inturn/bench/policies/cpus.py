"""The CPUs of this machine in two halves, so that two parties of a figure do not take them away from each other.

A process that is started in a half stays in it. Where a system cannot do that, or has a single CPU, all share it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def in_first_half() -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    ordered = sorted(before)
    os.sched_setaffinity(0, ordered[: len(ordered) // 2] or ordered)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def move_to_second_half() -> None:
    """For a process that was started in the first one."""
    if sys.platform == "linux":
        first = os.sched_getaffinity(0)
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # only those that this process may use are taken
        os.sched_setaffinity(0, os.sched_getaffinity(0) - first or first)
