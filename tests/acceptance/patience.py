"""A companion that is patient with a machine that stands still, where a test is not about leases and lost answers."""

from __future__ import annotations

from dataclasses import replace

import aiohttp

from inturn.bot import CompanionBot
from inturn.bot import telegram as of_telegram

LONG_LEASE_S = 600.0
"""A process that stands still for less keeps its turns. If it is killed, nobody goes on with them in time."""
LEASE_S = 10.0
"""The lease that lanes have, where a process is killed or stopped: another goes on after this time."""
CALLS, CALL_TIME = ("SEND_S", "TYPING_S"), aiohttp.ClientTimeout(total=100.0)
"""A call of Telegram that is answered late is in doubt: in the tests Telegram is a process that may stand still."""


def give_leases(companion: CompanionBot, lease_s: float = LONG_LEASE_S) -> None:
    """Messages carry the lease that their turns will have: all who put some in have to agree on it."""
    handlers = companion.app.runtime.handlers
    for name, handler in handlers.items():
        handlers[name] = replace(handler, timing=replace(handler.timing, ttl_ms=round(lease_s * 1000)))


def give_calls_time() -> None:
    """In all of this process."""
    for name in CALLS:
        setattr(of_telegram, name, CALL_TIME)
