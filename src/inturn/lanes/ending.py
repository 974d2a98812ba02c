"""How a turn ends when the store does not say so: a lost lease, a lost reply, a store that went away."""

from __future__ import annotations

from functools import partial
from typing import Any

from inturn.errors import CommitUnknown
from inturn.lanes.turn import Turn
from inturn.store import clock
from inturn.store.lane import ANY_FENCE, Ended, Failure

CERTAIN_S = 50.0
"""The store keeps notes of losses for a minute."""


def give_up(turn: Turn[Any], next_token: str) -> None:
    """We do not know how the turn ended, or do not want it any more.

    If it was not committed, the message goes back to its place; if it was, giving it back finds nothing, but then the
    next message may have been given to us, and nobody here knows of that: it goes back too.
    """
    turn.lease.abandon()
    if next_token:
        process = turn.runtime.process
        back = Failure(turn.key, next_token, ANY_FENCE, "back")
        process.registry.abandon(turn.key, next_token, partial(process.store.fail, back))


def certainly(turn: Turn[Any], ended: Ended) -> None:
    """Whether it was us who ended the turn. A repeat that finds nothing was done by the first attempt, unless the lease
    was lost so long ago that the note of it is gone: but then the heartbeat has had no answer for as long.
    """
    if ended.status in ("committed", "newer", "failed"):
        return
    lease = turn.lease
    if ended.status == "gone" and ended.attempts > 1:
        process = turn.runtime.process
        if process.heartbeat.confirmed_at(lease) > clock.now() - CERTAIN_S:
            return
        raise CommitUnknown(turn.key, turn.fence)
    raise lease.loss("it was gone when the turn ended")
