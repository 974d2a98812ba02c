"""How long the turns of a companion are leased in a test."""

from __future__ import annotations

from dataclasses import replace

from inturn.bot import CompanionBot

LONG_LEASE_S = 600.0
"""A process that stands still for less keeps its turns. If it is killed, nobody goes on with them in time."""


def give_leases(companion: CompanionBot, lease_s: float = LONG_LEASE_S) -> None:
    """Messages carry the lease that their turns will have: all who put some in have to agree on it."""
    handlers = companion.app.runtime.handlers
    for name, handler in handlers.items():
        handlers[name] = replace(handler, timing=replace(handler.timing, ttl_ms=round(lease_s * 1000)))
