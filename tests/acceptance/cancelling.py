"""Cancelling a coroutine at its k-th await, for every k, in the two ways that differ.

`before`: while what it awaits is still under way. `with`: in the very tick in which that completes, so that its result
is there and is never seen: the window in which a grant can be lost.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Literal, TypeVar

import pytest

T = TypeVar("T")
When = Literal["before", "with"]
in_both_ways = pytest.mark.parametrize("when", ["before", "with"])
MAX_AWAITS = 200
"""More awaits than any of these can have."""


class Cancelled(Exception):
    """The coroutine was cancelled, and said so."""


async def cancelled_at(number: int, when: When, work: Coroutine[Any, Any, T]) -> T:
    """Run it as a task of its own and cancel that at its await of this number. Raises `Cancelled`, or answers."""
    task = asyncio.create_task(_run(number, when, work))
    try:
        return await task
    except asyncio.CancelledError:
        raise Cancelled from None


async def _run(number: int, when: When, work: Coroutine[Any, Any, T]) -> T:
    return await _counted(number, when, work)


@types.coroutine
def _counted(number: int, when: When, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    task = asyncio.current_task()
    assert task is not None
    count, value, error = 0, None, None
    while True:
        try:
            awaited = work.send(value) if error is None else work.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        count += 1
        if count == number:
            if when == "with" and isinstance(awaited, asyncio.Future):
                # ahead of the task's own wake-up, which is added when this yields
                awaited.add_done_callback(lambda _: task.cancel())
            else:
                task.get_loop().call_soon(task.cancel)
        value = error = None
        try:
            value = yield awaited
        except BaseException as thrown:  # noqa: BLE001 - it is passed on
            error = thrown


async def at_every_await(attempt: Callable[[int], Awaitable[None]]) -> int:
    """Returns how many awaits there were."""
    for number in range(1, MAX_AWAITS):
        try:
            await attempt(number)
        except Cancelled:
            continue
        return number - 1
    raise AssertionError("it never completed")
