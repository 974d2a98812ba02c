"""What the submitter of a message holds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from inturn.errors import HandlerFailed, LaneBusy, LaneTimeout, ResultExpired
from inturn.lanes import text
from inturn.lanes.runtime import Runtime
from inturn.locks import arguments
from inturn.store.lane import ident_of

Status = Literal["accepted", "queued", "duplicate", "dropped"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """`accepted`: its turn is next; `queued`: others come before it; `duplicate`: it is there already, or was committed
    before; `dropped`: the lane was busy, and the message is gone.
    """

    status: Status
    key: str
    handler: str
    id: str
    ahead: int = 0
    """How many come before it."""
    _runtime: Runtime | None = field(default=None, repr=False, compare=False)
    _result: bytes | None = field(default=None, repr=False, compare=False)

    @property
    def is_duplicate(self) -> bool:
        return self.status == "duplicate"

    async def result(self, timeout: arguments.Seconds | None = None) -> Any:
        """What the handler answered. Waits for it: `TimeoutError` after `timeout` seconds.

        `HandlerFailed` for a dead letter, `ResultExpired` when the duplicate window is over.
        """
        if self.status == "dropped":
            raise LaneBusy(self.key, None, 0.0, self.ahead)
        if self._result is not None:
            return text.read(self._result)
        assert self._runtime is not None, "only the store makes receipts"
        self._runtime.must_not_wait_for(self.key)
        timeout_s = arguments.wait(timeout, "timeout")
        outcome = await self._runtime.results.outcome(self.key, ident_of(self.handler, self.id), timeout_s)
        if outcome.status == "done":
            return text.read(outcome.result)
        if outcome.status == "dead":
            errors = [json.loads(error) for error in outcome.errors]
            if errors and "accepted" in errors[-1] and errors[-1]["type"] == "LaneTimeout":
                raise LaneTimeout(self.key, (errors[-1]["at"] - errors[-1]["accepted"]) / 1000)
            raise HandlerFailed(self.key, self.id, outcome.attempts, errors)
        if outcome.status == "pending":
            raise TimeoutError(f"message {self.id!r} of lane {self.key!r} has no result after {timeout_s:g} s")
        raise ResultExpired(self.key, self.id)
