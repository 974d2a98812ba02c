"""Who took a hold, and in which block: to tell which of several holds of one object is meant.

A hold belongs to its lock object, and whoever has that may release it. A *flow* is the task that took it or, in
synchronous code, the thread. It only decides which hold comes first, and it names the owner in the store.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple, TypeVar
from weakref import ref

from inturn.process.process import Process

T = TypeVar("T")

_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR

Flow = ref[asyncio.Task[Any]] | int | None
"""A task or the number of a thread. `None`: neither."""

Block = tuple[int, Flow, T]
"""The id of the frame that it stands in, who entered it, and what is given back when it is left.

The frame lives for as long as the block, so nothing else has this id.
"""


class Here(NamedTuple):
    """Who asks."""

    flow: Flow
    owner: str
    """Its name in the store."""

    def task(self) -> asyncio.Task[Any] | None:
        return self.flow() if isinstance(self.flow, ref) else None


def here(process: Process) -> Here:
    task = asyncio.current_task()
    return Here(None, process.thread_owner()) if task is None else Here(ref(task), process.owner(task))


def this_task() -> Flow:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return None
    return None if task is None else ref(task)


def has_ended(flow: Flow) -> bool:
    if not isinstance(flow, ref):
        return False
    task = flow()
    return task is None or task.done()


def meant(holds: Sequence[T], flow: Flow, flow_of: Callable[[T], Flow]) -> T | None:
    """Returns the newest of this flow; else the newest whose flow has ended, as nobody else will come for it; else the
    newest.
    """
    if len(holds) < 2:
        return holds[0] if holds else None
    ours = (hold for hold in reversed(holds) if flow_of(hold) == flow)
    orphans = (hold for hold in reversed(holds) if has_ended(flow_of(hold)))
    return next(ours, None) or next(orphans, holds[-1])


def is_plain(frame: FrameType) -> bool:
    """Whether only the flow that enters a block in this frame can leave it. A generator may be resumed by another."""
    return not frame.f_code.co_flags & _GENERATOR


def leave(blocks: list[Block[T]], frame: int, flow: Callable[[], Flow]) -> T | None:
    """Returns what belongs to the block that stands in this frame, which is not open any more; `None` if none is.

    `blocks` are those of one object, which tasks and threads may share. Through an `ExitStack`, a block is left in
    another frame than it was entered in: then its flow tells.
    """
    block: Block[T] | None
    if len(blocks) == 1:
        block = blocks[0]  # not `pop`: another thread may be entering
    else:
        standing = [block for block in blocks if block[0] == frame]
        block = meant(standing or blocks, flow(), lambda block: block[1])
    if block is None:
        return None
    blocks.remove(block)
    return block[2]
