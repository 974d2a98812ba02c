"""A companion and a Celery that are patient with a machine that stands still, where a test is not about that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import aiohttp

from inturn.bot import CompanionBot
from inturn.bot import telegram as of_telegram

LONG_LEASE_S = 600.0
"""A process that stands still for less keeps its turns. If it is killed, nobody goes on with them in time."""
LEASE_S = 10.0
"""The lease that lanes have, where a process is killed or stopped: another goes on after this time."""
CALL_S = 100.0
"""A call of Telegram that is answered later is in doubt. In the tests Telegram is a process that may stand still."""
CONNECT_S = 60.0
"""Celery itself gives a broker four seconds to answer a new connection."""
SOON_AGAIN = {"visibility_timeout": 2, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}
"""What a worker has had for two seconds is delivered again. By default that is an hour, looked at every 100 s. With
these options a slow machine gets copies of any task: only a test of such copies has them."""


def give_leases(companion: CompanionBot, lease_s: float = LONG_LEASE_S) -> None:
    """Messages carry the lease that their turns will have: all who put some in have to agree on it."""
    handlers = companion.app.runtime.handlers
    for name, handler in handlers.items():
        handlers[name] = replace(handler, timing=replace(handler.timing, ttl_ms=round(lease_s * 1000)))


def give_calls_time(set_to: Callable[[object, str, object], None] = setattr) -> None:
    """In all of this process; or for as long as a monkeypatch lasts that sets them."""
    for name in ("SEND_S", "TYPING_S"):
        set_to(of_telegram, name, aiohttp.ClientTimeout(total=CALL_S))
