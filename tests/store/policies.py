"""Rules of handlers, and the verbs that only policies need, for tests that drive a store by hand."""

from __future__ import annotations

from typing import Any, Literal

from inturn.store.lane import Given, GivenMessage, Policy, Rule, Steered, read_ident
from tests.store.world import WINDOW_MS, WORK, Peer, work

MERGE = Rule("merge", cap=20, window_ms=WINDOW_MS)
INTERRUPT = Rule("interrupt", cap=20, window_ms=WINDOW_MS)
ROLLBACK = Rule("rollback", window_ms=WINDOW_MS)
LATEST = Rule("latest", window_ms=WINDOW_MS)
ALLOWS = Rule(allows=True, window_ms=WINDOW_MS)
"""A handler that queues, and whose turns others may interrupt."""
OTHER = "other"
"""Another handler than `WORK`."""
MAX_CUTS = 3
"""Interrupts in a row."""


def quiet(
    quiet_ms: int, *, max_quiet_ms: int = 3_600_000, cap: int = 20, cut_at: int = 0, policy: Policy = "merge"
) -> Rule:
    return Rule(policy, quiet_ms, cap, max_quiet_ms, window_ms=WINDOW_MS, cut_at=cut_at)


def ids(messages: Given | tuple[GivenMessage, ...] | None) -> list[str]:
    """Of the messages of a turn, or of those that came into one, in their order."""
    if messages is None:
        return []
    found = messages.messages if isinstance(messages, Given) else messages
    return [read_ident(message.ident)[1] for message in found]


async def run(peer: Peer, key: str, *message_ids: str, **how: Any) -> Given:
    """These messages come, and a turn begins."""
    await peer.put(key, *message_ids, **how)
    return await peer.claim_one(how.get("handler", WORK))


async def turns(peer: Peer, *can: str, limit: int = 20) -> list[list[str]]:
    """Every turn that there is to be had, one after another, each committed: the ids of its messages."""
    found: list[list[str]] = []
    while given := await peer.claim(*can, count=1):
        found.append(ids(given[0]))
        await peer.done(given[0])
        assert len(found) < limit, found
    return found


async def steer(peer: Peer, turn: Given, have: int = 0, version: int = 1) -> Steered:
    return await peer.store.steer(turn.key, turn.token, turn.fence, have or len(turn.messages), version)


async def cancel(
    peer: Peer, key: str, message_id: str, *, handler: str = WORK, window_ms: int = WINDOW_MS
) -> Literal["cancelled", "begun", "ended"]:
    return await peer.store.cancel(key, work(message_id, handler), window_ms)


async def outcome(peer: Peer, key: str, message_id: str, *, handler: str = WORK) -> str:
    return (await peer.attend(key, work(message_id, handler))).status


async def status(peer: Peer, key: str, message_id: str, **how: Any) -> str:
    """What who brings it (again) is told."""
    return (await peer.submit(key, message_id, **how)).status


async def due_in(peer: Peer, *can: str) -> int:
    """Nothing can be had now: in how many ms it may be different."""
    claimed = await peer.store.claim(peer.new_token(), can or (WORK, OTHER), 10)
    assert claimed.turns == []
    return claimed.due_in_ms
