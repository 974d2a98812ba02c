"""The clock of an event loop, moved by a test: what waits for a time need not be waited for, and nobody is too late."""

from __future__ import annotations

import asyncio


def skip(seconds: float) -> None:
    """So much time passes for the timers of the running loop, all at once. The clocks of stores and leases go on."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]
