"""A companion that is patient with a machine that stands still, where a test is not about leases and lost answers."""

from __future__ import annotations

import aiohttp

from inturn.bot import telegram as of_telegram

LEASE_S = 10.0
"""The lease that lanes have, where a process is killed or stopped: another goes on after this time."""
CALLS, CALL_TIME = ("SEND_S", "TYPING_S"), aiohttp.ClientTimeout(total=100.0)
"""A call of Telegram that is answered late is in doubt: in the tests Telegram is a process that may stand still."""
CONNECT_S = 60.0
"""Celery itself gives a broker four seconds to answer a new connection."""


def give_calls_time() -> None:
    """In all of this process."""
    for name in CALLS:
        setattr(of_telegram, name, CALL_TIME)
