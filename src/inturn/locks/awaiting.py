"""Which task waits for which, as asyncio has it.

There is no public way to ask before Python 3.14. Where the attributes that are read here should be missing, or mean
something else, no task is said to wait: then a deadlock is not found, and none is found that is not there.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

MAX_DEPTH = 16

_SHIELD = "shield.<locals>._inner_done_callback"


def awaits(task: asyncio.Task[Any], other: asyncio.Task[Any], depth: int = MAX_DEPTH) -> bool:
    """Whether `task` is `other`, or cannot go on before `other` has ended.

    It awaits it itself, by `gather`, in a `TaskGroup`, by `shield`, or by `wait_for` (which makes a task before 3.12).
    """
    if task is other:
        return True
    future = getattr(task, "_fut_waiter", None)
    if future is None or depth == 0:
        return False
    if isinstance(future, asyncio.Task):
        return awaits(future, other, depth - 1)
    children = getattr(future, "_children", None)  # of a `gather`
    if children:
        return any(isinstance(child, asyncio.Task) and awaits(child, other, depth - 1) for child in children)
    return any(_wakes(callback, future) for callback, _ in getattr(other, "_callbacks", None) or ())


def _wakes(callback: Any, future: asyncio.Future[Any]) -> bool:
    """Whether this callback of a task that ends is what `wait_for`, a `TaskGroup` or a `shield` waits for."""
    if isinstance(callback, partial):
        return bool(callback.args) and callback.args[0] is future
    if getattr(callback, "__qualname__", "") == _SHIELD:
        return any(cell.cell_contents is future for cell in callback.__closure__ or ())
    return getattr(getattr(callback, "__self__", None), "_on_completed_fut", None) is future
