"""What a handler holds: `Turn` and `Message`.

State, result and sends are only gathered here. Nothing is written before the commit, so a turn that ends in any other
way has nothing to undo. What starts with an underscore is for the runtime alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from inturn import arguments
from inturn.errors import BadMessage, StateMismatch
from inturn.lanes import codec, policy, template, watch
from inturn.lanes.codec import NewerState, StateShape, why_not
from inturn.lanes.handler import Handler, Timing
from inturn.lanes.lease import TurnLease
from inturn.lanes.runtime import Runtime
from inturn.process.registry import post
from inturn.store.lane import Commit, Ended, Failure, GivenMessage, Send, read_ident

S = TypeVar("S")

MAX_REFUSALS = 3
"""How often newer messages may refuse the commit of one turn. After that it is made in any case."""


class Message(NamedTuple):
    """One message of a turn. `waited_s`: how long it waited for its turn."""

    id: str
    body: Any
    waited_s: float = 0.0


class Turn(Generic[S]):
    """One exclusive run of a handler over one message of a lane, or over a burst of them.

    Change `state`, `send` to other lanes: it all becomes real with the commit, or not at all.
    """

    __slots__ = (
        "_after_commit", "_chunks", "_code", "_committer", "_ident", "_is_over", "_is_unmarked", "_lease", "_origins",
        "_refusals", "_runtime", "_sends", "_served", "_shape", "_size", "_stored", "_timing", "_unwritable", "attempt",
        "handler", "key", "messages", "result", "state", "version",
    )  # fmt: skip

    def __init__(
        self,
        runtime: Runtime,
        *,
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
        self.handler, _ = read_ident(ident)
        """The name of the handler; '' for an inline turn."""
        self.messages: list[Message] = []
        """One message, or a burst, in order."""
        self.state: S = None  # type: ignore[assignment]
        """The lane's state, to be changed or replaced. `None` removes it."""
        self.version = 0
        """How many commits have written the state."""
        self.result: Any = None
        self.attempt = 1
        self._served = served
        """The handler whose turn it is; `None` for an inline turn."""
        self._committer: Callable[[Commit], Awaitable[Ended]] | None = None
        """Commits before the handler ends; an inline turn has none."""
        self._is_over = False
        self._refusals = 0
        self._after_commit: list[Callable[[], None]] = []
        """Called when the commit is real."""
        self._is_unmarked = False
        """Whether its messages may come again under their ids, as if they had not come yet."""
        self._size = 1
        """How many messages the store gave it, whether they could be read or not."""
        self._sends: list[Send] = []
        self._origins: list[str] = []
        """What names each of its messages, whenever it runs."""
        self._chunks = 0
        self._runtime = runtime
        self._ident = ident
        self._lease = lease
        self._timing = timing
        self._shape = shape
        self._stored = stored
        self._code = code
        self._unwritable: BadMessage | None = None
        """Why its state or result could not be written: another attempt would end in the same way."""

    @property
    def body(self) -> Any:
        """The body of the first message; a burst has more (`messages`)."""
        return self.messages[0].body

    @property
    def id(self) -> str:
        """The id of the first message."""
        return self.messages[0].id

    @property
    def fence(self) -> int:
        """Grows with every turn of the lane: pass it on to whatever you write to."""
        return self._lease.fence

    @property
    def lost(self) -> bool:
        """Whether the lease is lost. Then nothing of this turn can be committed."""
        return bool(self._lease.why_lost)

    def remaining(self) -> float:
        """Seconds for which the lease is certain, if nothing renews it."""
        return self._lease.remaining()

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
        """Send a message to another lane, as part of the commit. Without a `key` its lane is `<this key>><handler>`."""
        if self._is_over:
            raise RuntimeError(f"the turn of lane {self.key!r} is over: it can no longer send")
        target = self._runtime.handler(handler)
        wait_ms = policy.delay_ms(delay, not_before, self._runtime.now_s())
        lane = template.lane_of_send(self.key, target.name) if key is None else template.key(key)
        chosen = target.id_of(lane, body, message_id)
        fresh_id = f".{len(self._sends)}"
        if self._served is None:  # nobody runs it again; with the partition, because each counts its own fences
            fresh_id = f"{self._lease.partition}.{self.fence}{fresh_id}"
        send = self._runtime.make_send(target, lane, body, chosen, fresh_id)
        if wait_ms or priority is not None:
            rank = send.priority if priority is None else policy.priority(priority)
            send = send._replace(delay_ms=wait_ms, priority=rank)
        self._sends.append(send)

    def stream(self, chunk: Any) -> None:
        """Show a chunk to everyone who watches this lane now (`app.watch`). It is not kept, and waits for nobody."""
        if self._is_over:
            raise RuntimeError(f"the turn of lane {self.key!r} is over: it can no longer stream")
        self._chunks += 1
        said = watch.chunk_text(self.fence, self._chunks, codec.write_json(chunk, "the chunk", codec.MAX_CHUNK))
        post(self._lease.loop, self._runtime.process.store.publish, self.key, said)

    async def new_messages(self) -> list[Message]:
        """Steer: take the messages that arrived for this handler meanwhile into the turn, which commits them too.

        Returns them, and adds them to `messages`. If the turn fails, all of them are tried again together.
        """
        self._must_have_handler("new_messages()")
        have = len(self.messages)
        steered = await self._runtime.process.store.steer(self.key, self._lease.token, self.fence, have, self._code)
        if steered.status != "steered":
            raise self._lease.loss(steered.why or "it was gone when the turn asked for new messages")
        return self._take_in(steered.messages[len(self.messages) - have :])

    async def commit(self, result: Any = None, *, unless_newer: bool = False) -> list[Message]:
        """Commit now, rather than when the handler ends. Returns `[]`: the turn is over then.

        `unless_newer`: if newer messages wait for this handler, nothing is committed, and they are returned. They are
        part of the turn from then on; state and sends are as they were when it began. Take all messages into account,
        and commit again. After three refusals it is committed in any case.
        """
        self._must_have_handler("commit()")
        assert self._committer is not None, "a handler's turn has one"
        self.result = result
        may_be_refused = unless_newer and self._may_be_refused
        ended = await self._committer(self._effects(is_submitted=True, has_mark=True, unless_newer=may_be_refused))
        if ended.status == "newer":
            return self._begin_again(ended.newer)
        self._is_over = True
        return []

    def _must_have_handler(self, what: str) -> None:
        if self._served is None:
            raise TypeError(f"turn.{what} works only in a handler's turn: an inline turn has only its own message")
        if self._is_over:
            raise RuntimeError(f"the turn of lane {self.key!r} is over")

    @property
    def _may_be_refused(self) -> bool:
        """Whether newer messages may refuse its commit: not for ever, and not in the last attempt of a turn that has
        failed, which has to come to an end.
        """
        assert self._served is not None, "nothing newer can refuse an inline turn"
        is_last = self.attempt > 1 and self.attempt >= self._served.retry.attempts
        return self._refusals < MAX_REFUSALS and not is_last

    def _read_state(self) -> None:
        if self._shape is not None and self._stored is None:
            self.state, self.version = self._shape.load(None)
        elif self._shape is not None:
            try:
                self.state, self.version = self._shape.load(self._stored, self._code)
            except ValueError as error:
                needs = error.needs if isinstance(error, NewerState) else 0
                raise StateMismatch(self.key, why_not(error), needs) from error

    def _take_in(self, messages: Sequence[GivenMessage]) -> list[Message]:
        """These messages are part of the turn from here on."""
        assert self._served is not None, "only a handler's turn has messages from the store"
        self._size = max(self._size, len(self.messages) + len(messages))
        taken = []
        for ident, written, waited_ms, accepted_ms in messages:
            try:
                body = self._served.read_body(written)
            except ValueError as error:
                raise BadMessage(f"the body does not fit the handler: {why_not(error)}") from error
            taken.append(Message(read_ident(ident)[1], body, waited_ms / 1000))
            self._origins.append(f"{ident}\0{accepted_ms}")
        self.messages += taken
        return taken

    def _undo(self) -> None:
        """State, sends, result and marks are as they were when the turn began, and nobody is told of its commit."""
        self._sends, self._after_commit = [], []
        self.result, self._is_unmarked = None, False
        self._read_state()

    def _begin_again(self, newer: Sequence[GivenMessage]) -> list[Message]:
        """As if the handler had not run: newer messages came before its commit."""
        taken = self._take_in(newer)
        self._chunks = 0
        self._undo()
        said = watch.begin_text(self.fence, self.attempt, self._ident)
        self._runtime.process.store.publish(self.key, said)
        return taken

    def _effects(
        self, *, is_submitted: bool, has_mark: bool, next_token: str = "", unless_newer: bool = False
    ) -> Commit:
        """What the commit will make real. Raises `BadMessage` for what cannot be written."""
        window_ms = self._timing.window_ms if has_mark and not self._is_unmarked else 0
        state_op: Literal["keep", "set", "del"] = "keep"
        state = result = b""
        try:
            if self._shape is not None and self.state is None:
                state_op = "del"
            elif self._shape is not None:
                state_op, state = "set", self._shape.save(self.state, self.version, self._code)
            if window_ms:
                result = codec.write_json(self.result, "the result", codec.MAX_RESULT)
        except BadMessage as error:
            self._unwritable = error
            raise
        return Commit(
            key=self.key,
            token=self._lease.token,
            fence=self._lease.fence,
            ident=self._ident,
            is_submitted=is_submitted,
            state_op=state_op,
            state=state,
            keep_ms=self._timing.keep_ms,
            window_ms=window_ms,
            result=result,
            sends=self._sends if self._served is None else self._named_sends(),
            next_token=next_token,
            can=self._runtime.can if next_token else (),
            have=len(self.messages),
            unless_newer=unless_newer,
            version=self._code,
        )

    def _named_sends(self, *why: str) -> list[Send]:
        """A fresh send gets an id that it gets again if the same messages run again: see decision 013.

        `why`: other than for a commit. A message may still be committed whose death was lost with a server.
        """
        if not self._sends:
            return []
        told = "\0".join((self.key, *self._origins, *why)).encode()
        origin = hashlib.blake2b(told, digest_size=12).hexdigest()
        return [
            send._replace(ident=send.ident.replace("\0", f"\0{origin}", 1)) if send.is_fresh else send
            for send in self._sends
        ]

    def _last_words(self) -> dict[str, Any]:
        """What its dead letter leaves, as the fields of a `Failure`. Raises `BadMessage` for what cannot be written."""
        words: dict[str, Any] = {"keep_ms": self._timing.keep_ms, "sends": self._named_sends("dead")}
        if self._shape is not None and self.state is None:
            words["state_op"] = "del"
        elif self._shape is not None:
            words |= {"state_op": "set", "state": self._shape.save(self.state, self.version, self._code)}
        return words

    def _state_after(self, effects: Commit | Failure) -> bytes | None:
        """The stored state once these effects are real: the next turn of the lane begins with it."""
        return {"keep": self._stored, "set": effects.state, "del": None}[effects.state_op]
