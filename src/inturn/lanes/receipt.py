"""What the submitter of a message holds."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any, Literal

from inturn.errors import HandlerFailed, LaneBusy, LaneTimeout, MessageCancelled, ResultExpired, Superseded
from inturn.lanes import text
from inturn.lanes.runtime import Runtime
from inturn import arguments
from inturn.store.lane import ident_of

log = logging.getLogger("inturn.lanes")

Status = Literal["accepted", "queued", "delayed", "duplicate", "superseded", "cancelled", "dropped"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """`accepted`: its turn is next; `queued`: others come before it; `delayed`: its time has not come; `duplicate`: it
    is there already, or was committed before; `superseded`, `cancelled`: it was there before, and will never run;
    `dropped`: the lane was busy, and the message is gone.
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

        `HandlerFailed` for a dead letter, `Superseded` or `MessageCancelled` for what will never run, `ResultExpired`
        when the duplicate window is over.
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
        if outcome.status == "superseded":
            raise Superseded(self.key, self.id)
        if outcome.status == "cancelled":
            raise MessageCancelled(self.key, self.id)
        if outcome.status == "dead":
            errors = [json.loads(error) for error in outcome.errors]
            if errors and "accepted" in errors[-1] and errors[-1]["type"] == "LaneTimeout":
                raise LaneTimeout(self.key, (errors[-1]["at"] - errors[-1]["accepted"]) / 1000)
            raise HandlerFailed(self.key, self.id, outcome.attempts, errors)
        if outcome.status == "pending":
            raise TimeoutError(f"message {self.id!r} of lane {self.key!r} has no result after {timeout_s:g} s")
        raise ResultExpired(self.key, self.id)

    async def cancel(self) -> bool:
        """See to it that the message does not begin. False: it runs, or has run (in a burst, perhaps), or is gone.

        Its id stays known for the duplicate window: who brings it again does not bring it back to life.
        """
        runtime = self._runtime
        assert runtime is not None, "only the store makes receipts"
        if not self.handler or self.status == "dropped":
            return False
        handler = runtime.handlers.get(self.handler)
        window_ms = (handler.timing if handler is not None else runtime.timing).window_ms
        status = await runtime.process.store.cancel(self.key, ident_of(self.handler, self.id), window_ms)
        log.info("cancel key=%s handler=%s id=%s: %s", self.key, self.handler, self.id, status)
        return status == "cancelled"
