"""Plain functions as handlers: each runs in a thread of its own, so that one which hangs holds up nobody.

Threads of a pool are waited for when the process ends; these are not. What such a thread still does then is lost, as if
the process had been killed: its turn is not committed, and runs again elsewhere.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any


async def in_a_thread(run: Callable[[Any], Any], argument: Any, ended: Callable[[], None]) -> Any:
    """What `run` answers. If the caller is cancelled, the thread runs on, and its answer is dropped; `ended` is called
    on the caller's loop when it is over.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def answer(result: Any, error: BaseException | None) -> None:
        ended()
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):  # a future cannot carry it
            future.set_exception(RuntimeError(f"the handler raised StopIteration: {error}"))
        else:
            future.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(run, argument)
        except BaseException as raised:  # noqa: BLE001 - it is the caller's to judge
            error = raised
        try:
            loop.call_soon_threadsafe(answer, result, error)
        except RuntimeError:
            if not loop.is_closed():
                raise

    threading.Thread(target=work, name="inturn-handler", daemon=True).start()
    return await future
