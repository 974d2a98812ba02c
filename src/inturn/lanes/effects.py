"""What a handler sees of its turn, and what the turn will make real: state, result and sends.

Nothing of it is written before the commit, so a turn that ends in any other way has nothing to undo.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, NamedTuple, TypeVar

from inturn.errors import StateMismatch
from inturn.lanes import template, text
from inturn.lanes.handler import Timing
from inturn.lanes.lease import TurnLease
from inturn.lanes.runtime import Runtime
from inturn.lanes.shape import StateShape, why_not
from inturn.locks import arguments
from inturn.store.lane import Commit, Send, read_ident

S = TypeVar("S")


class Message(NamedTuple):
    id: str
    body: Any
    waited_s: float = 0.0


class Turn(Generic[S]):
    """What a handler sees of its turn. Change `state`, `send` to other lanes; it all becomes real with the commit."""

    __slots__ = (
        "_ident", "_shape", "_stored", "_timing", "attempt", "handler", "is_over", "key", "lease", "messages", "result",
        "runtime", "sends", "state", "version",
    )  # fmt: skip

    def __init__(
        self,
        runtime: Runtime,
        key: str,
        ident: str,
        lease: TurnLease,
        timing: Timing,
        shape: StateShape | None,
        stored: bytes | None,
    ) -> None:
        self.key = key
        self.handler, _ = read_ident(ident)
        self.messages: list[Message] = []
        self.state: S = None  # type: ignore[assignment]
        self.version = 0
        self.result: Any = None
        self.attempt = 1
        self.is_over = False
        self.runtime = runtime
        self._ident = ident
        self.lease = lease
        self._timing = timing
        self._shape = shape
        self._stored = stored
        self.sends: list[Send] = []

    @property
    def body(self) -> Any:
        return self.messages[0].body

    @property
    def id(self) -> str:
        return self.messages[0].id

    @property
    def fence(self) -> int:
        """Grows with every turn of the lane: pass it on to whatever you write to."""
        return self.lease.fence

    @property
    def lost(self) -> bool:
        return bool(self.lease.why_lost)

    def remaining(self) -> float:
        """Seconds for which the lease is certain, if nothing renews it."""
        return self.lease.remaining()

    def send(self, handler: str, body: Any, *, key: str | None = None, message_id: object | None = None) -> None:
        """A message to another lane, inside the commit; without a `key` to the lane `<this key>><handler>`."""
        if self.is_over:
            raise RuntimeError(f"the turn of lane {self.key!r} is over: what it sends now would go nowhere")
        target = self.runtime.handler(handler)
        lane = arguments.name(f"{self.key}>{target.name}", "key") if key is None else template.key(key)
        chosen = target.id_of(lane, body, message_id)
        # fences are counted in each partition
        fresh_id = f"{self.lease.partition}.{self.fence}.{len(self.sends)}"
        self.sends.append(self.runtime.make_send(target, lane, body, chosen, fresh_id))

    def read_state(self) -> None:
        if self._shape is not None and self._stored is None:
            self.state, self.version = self._shape.load(None)
        elif self._shape is not None:
            try:
                self.state, self.version = self._shape.load(self._stored)
            except ValueError as error:
                raise StateMismatch(self.key, why_not(error)) from error

    def effects(self, is_submitted: bool, has_mark: bool, next_token: str = "") -> Commit:
        """What the commit will make real. Raises `BadMessage` for what cannot be written."""
        window_ms = self._timing.window_ms if has_mark else 0
        state_op: Literal["keep", "set", "del"]
        if self._shape is None:
            state_op, state = "keep", b""
        elif self.state is None:
            state_op, state = "del", b""
        else:
            state_op, state = "set", self._shape.save(self.state, self.version)
        result = text.write(self.result, "the result", text.MAX_RESULT) if window_ms else b""
        can = tuple(self.runtime.handlers) if next_token else ()
        return Commit(
            self.key, self.lease.token, self.lease.fence, self._ident, is_submitted, state_op, state,
            self._timing.keep_ms, window_ms, result, self.sends, next_token, can,
        )  # fmt: skip

    def state_after(self, effects: Commit) -> bytes | None:
        """The stored state once these effects are real: the next turn of the lane begins with it."""
        return {"keep": self._stored, "set": effects.state, "del": None}[effects.state_op]

    def state_before(self) -> bytes | None:
        return self._stored
