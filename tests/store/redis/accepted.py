"""The end of a server that a test has made: nobody who came at the very last moment is forgotten."""

from __future__ import annotations

import asyncio


async def accept_no_more(server: asyncio.Server) -> None:
    """Closes it. Its callback was called for everyone who came in, so that its maker can hang up on all of them.

    A connection takes some ticks of the loop from the kernel to the callback. One that is under way when the server is
    closed would stay open (asyncio drops it without closing it), and the next test would be blamed for it.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    coming = {task for task in asyncio.all_tasks() if "_accept_connection2" in repr(task.get_coro())}
    if coming:
        await asyncio.wait(coming)
    server.close()
