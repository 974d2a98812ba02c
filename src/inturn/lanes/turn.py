"""What a handler sees of its turn, and what the turn will make real: state, result and sends.

Nothing of it is written before the commit, so a turn that ends in any other way has nothing to undo.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from inturn.errors import BadMessage, StateMismatch
from inturn.lanes import policy, template, text, watch
from inturn.lanes.handler import Handler, Timing
from inturn.lanes.lease import TurnLease
from inturn.lanes.runtime import Runtime
from inturn.lanes.codec import NewerState, StateShape, why_not
from inturn import arguments
from inturn.process.registry import post
from inturn.store.lane import Commit, Ended, GivenMessage, Send, read_ident

S = TypeVar("S")

MOST_REFUSALS = 3
"""A commit that is made only unless newer messages wait gives way so often; then it is made in any case."""


class Message(NamedTuple):
    id: str
    body: Any
    waited_s: float = 0.0


class Turn(Generic[S]):
    """What a handler sees of its turn. Change `state`, `send` to other lanes; it all becomes real with the commit."""

    __slots__ = (
        "_chunks", "_code", "_ident", "_shape", "_stored", "_timing", "attempt", "committer", "handler", "is_over",
        "key", "lease", "messages", "refusals", "result", "runtime", "sends", "served", "size", "state", "version",
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
        served: Handler | None = None,
        code: int = 1,
    ) -> None:
        self.key = key
        self.served = served
        self._code = code
        self.committer: Callable[[Commit], Awaitable[Ended]] | None = None
        """Commits before the handler ends; an inline turn has none."""
        self.refusals = 0
        self.size = 1
        """How many messages the store gave it, whether they could be read or not."""
        self._chunks = 0
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
        """Of the first message; a burst has more (`messages`)."""
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

    async def new_messages(self) -> list[Message]:
        """Steer: take what arrived for this handler meanwhile into the turn, which answers and commits it too.

        They are added to `messages`, and answered here. If the turn fails, they are tried again together.
        """
        self._must_have_handler("new_messages()")
        have = len(self.messages)
        steered = await self.runtime.process.store.steer(self.key, self.lease.token, self.fence, have, self._code)
        if steered.status != "steered":
            raise self.lease.loss("it was gone when the turn asked for new messages")
        return self.take_in(steered.messages[len(self.messages) - have :])

    async def commit(self, result: Any = None, *, unless_newer: bool = False) -> list[Message]:
        """Commit now, rather than when the handler ends; then the turn is over. Answers no messages.

        `unless_newer`: if newer messages wait for this handler, nothing is committed. They are in the turn now, and are
        answered here; state and sends are as they were when it began. Take all messages into account, and commit
        again. After three refusals it is committed in any case.
        """
        self._must_have_handler("commit()")
        assert self.committer is not None, "a handler's turn has one"
        self.result = result
        gives_way = unless_newer and self.gives_way
        ended = await self.committer(self.effects(is_submitted=True, has_mark=True, unless_newer=gives_way))
        if ended.status == "newer":
            return self.begin_again(ended.newer)
        self.is_over = True
        return []

    @property
    def gives_way(self) -> bool:
        """Whether a commit may be refused for newer messages: not for ever, and not in the last attempt of a turn that
        has failed, which has to come to an end.
        """
        assert self.served is not None, "an inline turn has nothing to give way to"
        is_last = self.attempt > 1 and self.attempt >= self.served.retry.attempts
        return self.refusals < MOST_REFUSALS and not is_last

    def stream(self, chunk: Any) -> None:
        """Whoever watches this lane gets it, if all goes well (`app.watch`). It is not kept, and waits for nobody."""
        if self.is_over:
            raise RuntimeError(f"the turn of lane {self.key!r} is over: nobody would get what it streams now")
        self._chunks += 1
        said = watch.chunk_text(self.fence, self._chunks, text.write(chunk, "the chunk", text.MAX_CHUNK))
        post(self.lease.loop, self.runtime.process.store.publish, self.key, said)

    def take_in(self, messages: Sequence[GivenMessage]) -> list[Message]:
        """Of its messages the turn has seen these from here on."""
        assert self.served is not None, "only a handler's turn has messages from the store"
        self.size = max(self.size, len(self.messages) + len(messages))
        taken = []
        for ident, written, waited_ms in messages:
            try:
                body = self.served.read_body(written)
            except ValueError as error:
                raise BadMessage(f"the body does not fit the handler: {why_not(error)}") from error
            taken.append(Message(read_ident(ident)[1], body, waited_ms / 1000))
        self.messages += taken
        return taken

    def begin_again(self, newer: Sequence[GivenMessage]) -> list[Message]:
        """As if the handler had not run: newer messages came before its commit."""
        taken = self.take_in(newer)
        self.sends, self.result, self._chunks = [], None, 0
        self.read_state()
        said = watch.begin_text(self.fence, self.attempt, self._ident)
        self.runtime.process.store.publish(self.key, said)
        return taken

    def _must_have_handler(self, what: str) -> None:
        if self.served is None:
            raise TypeError(f"turn.{what} is for the turns of handlers: an inline turn has no messages but its own")
        if self.is_over:
            raise RuntimeError(f"the turn of lane {self.key!r} is over")

    def send(
        self,
        handler: str,
        body: Any,
        *,
        key: str | None = None,
        message_id: object | None = None,
        priority: int | None = None,
        delay: arguments.Seconds | None = None,
        not_before: datetime | float | None = None,
    ) -> None:
        """A message to another lane, inside the commit; without a `key` to the lane `<this key>><handler>`."""
        if self.is_over:
            raise RuntimeError(f"the turn of lane {self.key!r} is over: what it sends now would go nowhere")
        target = self.runtime.handler(handler)
        wait_ms = policy.delay_ms(delay, not_before, self.runtime.now_s())
        lane = arguments.name(f"{self.key}>{target.name}", "key") if key is None else template.key(key)
        chosen = target.id_of(lane, body, message_id)
        # fences are counted in each partition
        fresh_id = f"{self.lease.partition}.{self.fence}.{len(self.sends)}"
        send = self.runtime.make_send(target, lane, body, chosen, fresh_id)
        if wait_ms or priority is not None:
            rank = send.priority if priority is None else policy.priority(priority)
            send = send._replace(delay_ms=wait_ms, priority=rank)
        self.sends.append(send)

    def read_state(self) -> None:
        if self._shape is not None and self._stored is None:
            self.state, self.version = self._shape.load(None)
        elif self._shape is not None:
            try:
                self.state, self.version = self._shape.load(self._stored, self._code)
            except ValueError as error:
                needs = error.needs if isinstance(error, NewerState) else 0
                raise StateMismatch(self.key, why_not(error), needs) from error

    def effects(self, is_submitted: bool, has_mark: bool, next_token: str = "", unless_newer: bool = False) -> Commit:
        """What the commit will make real. Raises `BadMessage` for what cannot be written."""
        window_ms = self._timing.window_ms if has_mark else 0
        state_op: Literal["keep", "set", "del"]
        if self._shape is None:
            state_op, state = "keep", b""
        elif self.state is None:
            state_op, state = "del", b""
        else:
            state_op, state = "set", self._shape.save(self.state, self.version, self._code)
        result = text.write(self.result, "the result", text.MAX_RESULT) if window_ms else b""
        can = self.runtime.can if next_token else ()
        return Commit(
            self.key, self.lease.token, self.lease.fence, self._ident, is_submitted, state_op, state,
            self._timing.keep_ms, window_ms, result, self.sends, next_token, can, len(self.messages), unless_newer,
            self._code,
        )  # fmt: skip

    def state_after(self, effects: Commit) -> bytes | None:
        """The stored state once these effects are real: the next turn of the lane begins with it."""
        return {"keep": self._stored, "set": effects.state, "del": None}[effects.state_op]

    def state_before(self) -> bytes | None:
        return self._stored
