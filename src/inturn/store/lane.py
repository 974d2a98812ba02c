"""The verbs of a lane. Each is one atomic transition, and each may be repeated: a repeat changes nothing more.

An *ident* names a message in its lane: `<handler>` NUL `<id>`. An inline turn has no handler, and without an id of the
application its id is its token. Bodies, states and results are JSON texts that the store does not read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple, Protocol

from inturn.errors import StoreUnavailable
from inturn.store.views import DeadView, LaneList, LaneView

ANY_FENCE = 0
"""In a failure with `back`: give back the turn of this token, whatever its fence, if there is one."""


def ident_of(handler: str, message_id: str) -> str:
    return f"{handler}\0{message_id}"


def read_ident(ident: str) -> tuple[str, str]:
    handler, _, message_id = ident.partition("\0")
    return handler, message_id


Policy = Literal["queue", "merge", "interrupt", "rollback", "latest"]


class Rule(NamedTuple):
    """What a handler asks for its messages. They carry it, so that stores need not know handlers.

    `quiet_ms`: a burst begins when nothing came for this long, and at the latest `max_quiet_ms` after its first
    message; `cap` is how many messages it may have. `allows`: other handlers may interrupt its turns. `version`:
    workers with an older one do not get its messages. `window_ms`: how long superseded ids are remembered. `cut_at`:
    when so many messages wait for quiet, the burst begins (0: there is no such number).
    """

    policy: Policy = "queue"
    quiet_ms: int = 0
    cap: int = 1
    max_quiet_ms: int = 0
    allows: bool = False
    version: int = 1
    window_ms: int = 0
    cut_at: int = 0

    def text(self) -> str:
        """As the scripts read it; '' for a rule that asks for nothing.

        `cut_at` is left out if it is 0: older versions of inturn can read the rule then.
        """
        if self.policy == "queue" and not self.allows and self.version == 1:
            return ""
        numbers = (self.quiet_ms, self.cap, self.max_quiet_ms, int(self.allows), self.version, self.window_ms)
        return " ".join(map(str, (self.policy, *numbers, *([self.cut_at] if self.cut_at else []))))


PLAIN = Rule()


class NotAsked(StoreUnavailable):
    """The store was not asked at all, so there is nothing to give back."""


class NotNow(NotAsked):
    """It would have to be waited for: its slot is being moved, say. Ask again in a moment."""


class Submission(NamedTuple):
    """A message for a lane. `late_ms` 0: it may begin at any time; `cap` 0: any number of messages may wait.

    `keep_ms` is how long the state lives on once the lane is idle. `shares`: a plain key that its turn holds too.
    `group`: ready lanes of one handler and different groups take turns.
    """

    key: str
    ident: str
    body: bytes
    ttl_ms: int
    limit_ms: int
    keep_ms: int
    busy: Literal["queue", "reject"] = "queue"
    late_ms: int = 0
    cap: int = 0
    priority: int = 0
    rule: Rule = PLAIN
    delay_ms: int = 0
    shares: str = ""
    group: str = ""


class Submitted(NamedTuple):
    """`pending`: this message waits or runs already. `ahead`: how many come before it (`full`, `busy`: how many wait).

    `superseded` and `cancelled`: this message came before, and will never run.
    """

    status: Literal["accepted", "delayed", "duplicate", "superseded", "cancelled", "pending", "busy", "full"]
    ahead: int = 0
    result: bytes = b""
    holder: str = ""
    since_ms: int = 0
    stopped: str = ""


class Opening(NamedTuple):
    """What an inline turn asks for. `name` is the lane's key: a place in its mailbox is waited for as for a lock.

    If the policy of its rule is `interrupt`, a caller that has to wait interrupts the turn that runs, once, like a
    message. Other policies have no effect here: a caller supersedes nobody.
    """

    name: str
    token: str
    owner: str
    ident: str
    has_id: bool
    ttl_ms: int
    limit_ms: int
    keep_ms: int
    busy: Literal["wait", "reject"]
    cap: int = 0
    rule: Rule = PLAIN
    shares: str = ""


class Begun(NamedTuple):
    """What a begin returns. `state` is the text that was committed last, `None` if there is none."""

    status: Literal["granted", "waiting", "duplicate", "pending", "busy", "full"]
    fence: int = 0
    state: bytes | None = None
    ahead: int = 0
    result: bytes = b""
    holder: str = ""
    since_ms: int = 0
    stopped: str = ""
    sent_at: float = 0.0
    doubt_until: float = 0.0


class Left(NamedTuple):
    """`left`: it only waited; `gone`: nothing was there (a repeat); `lost`: it was taken away before."""

    status: Literal["released", "left", "gone", "lost"]


class GivenMessage(NamedTuple):
    """`accepted_ms`: when it was accepted, by the store's clock. Another message with the same id has another time."""

    ident: str
    body: bytes
    waited_ms: int
    accepted_ms: int


class Given(NamedTuple):
    """One turn for a worker, over one message or a burst of them; the first one leads it.

    `attempts` includes this one. Only `claim` tells the `state`; afterwards the worker knows it. `is_open`: it has not
    failed, or new messages have joined it since.
    """

    key: str
    token: str
    fence: int
    attempts: int
    ttl_ms: int
    limit_ms: int
    messages: tuple[GivenMessage, ...]
    sent_at: float
    state: bytes | None = None
    is_open: bool = True

    @property
    def ident(self) -> str:
        return self.messages[0].ident


class Claimed(NamedTuple):
    """`due_in_ms`: when a lane may become ready by itself (-1: none will)."""

    turns: list[Given]
    due_in_ms: int


class Send(NamedTuple):
    """A message to another lane, or to the same one.

    `is_fresh`: we made its id, from the messages of its turn. It is new in the partition of the turn: if the commit is
    lost there, so is the send. Another partition may have it already.
    """

    key: str
    ident: str
    body: bytes
    ttl_ms: int
    limit_ms: int
    keep_ms: int
    is_fresh: bool
    priority: int = 0
    rule: Rule = PLAIN
    delay_ms: int = 0
    shares: str = ""
    group: str = ""


class Commit(NamedTuple):
    """What a turn has done. `state` is only looked at for `set`; `window_ms` 0: no mark, and so no result.

    `next_token` (with `can`, what the worker runs): go on with the next message, if there is one. `have`: how many
    messages the turn has seen. `unless_newer`: if more wait for its handler, and `version` can read them, take them
    into the turn instead.
    """

    key: str
    token: str
    fence: int
    ident: str
    is_submitted: bool
    state_op: Literal["keep", "set", "del"]
    state: bytes
    keep_ms: int
    window_ms: int
    result: bytes
    sends: Sequence[Send] = ()
    next_token: str = ""
    can: Sequence[str] = ()
    have: int = 1
    unless_newer: bool = False
    version: int = 1


class Failure(NamedTuple):
    """Why and how a turn of a submitted message ended with nothing done.

    `retry`: again after `delay_ms`, ahead of what came later. `dead`: to the dead letters. `park`: back to its place,
    and the lane stops. `back`: as if it had not been given. Of the last two, the attempt counts if there is an `error`.
    `split`: the messages of a burst, each by itself, as if each had had `attempts`; else `attempts` is how many the
    handler has had, if it is not 0: one that was only counted is none. `version`: it is for workers that have this one.
    `have`: how many messages the turn has seen (0: all); the others go back untouched. `state` and `sends`: what a dead
    letter leaves, as a commit does.
    """

    key: str
    token: str
    fence: int
    how: Literal["retry", "dead", "park", "back", "split"]
    delay_ms: int = 0
    error: str = ""
    why: str = ""
    next_token: str = ""
    can: Sequence[str] = ()
    attempts: int = 0
    version: int = 0
    have: int = 0
    state_op: Literal["keep", "set", "del"] = "keep"
    state: bytes = b""
    keep_ms: int = 0
    sends: Sequence[Send] = ()


class Ended(NamedTuple):
    """`lost`: the lease was not ours any more, and nothing was written (`why`: if that is known). `newer`: nothing was
    written, and the turn has these messages too.

    `gone`: neither the lease nor a note of its loss is there. An earlier try ended it, unless the note has expired.
    """

    status: Literal["committed", "newer", "failed", "lost", "gone"]
    next: Given | None
    attempts: int
    newer: tuple[GivenMessage, ...] = ()
    why: str = ""


class Steered(NamedTuple):
    status: Literal["steered", "lost", "gone"]
    messages: tuple[GivenMessage, ...] = ()
    why: str = ""
    """Of a loss."""


class Outcome(NamedTuple):
    """What became of a message."""

    status: Literal["done", "superseded", "cancelled", "dead", "pending", "unknown"]
    result: bytes = b""
    attempts: int = 0
    errors: tuple[str, ...] = ()


class LaneStore(Protocol):
    """The part of a store that lanes use."""

    async def submit(self, message: Submission) -> Submitted: ...

    async def begin(self, opening: Opening) -> Begun:
        """Begins an inline turn, asks again after a lost reply, or confirms a turn that was offered."""
        ...

    async def leave(self, key: str, token: str, ident: str, fence: int = 0) -> Left:
        """An inline caller gives its turn back with nothing done, or stops waiting for it."""
        ...

    async def claim(self, call: str, can: Sequence[str], count: int, partition: int = 0) -> Claimed:
        """Returns up to `count` turns for a worker. If there are fewer, it is told `ready` when there is more to do."""
        ...

    async def claim_lane(self, call: str, can: Sequence[str], key: str) -> Given | None:
        """Returns the next turn of this lane, if it is ready and `can` has its handler."""
        ...

    async def unclaim(self, partition: int, call: str) -> int:
        """Gives back the turns of that claim that nobody took."""
        ...

    async def unwork(self) -> None:
        """This process works no more."""
        ...

    async def commit(self, commit: Commit) -> Ended: ...

    async def fail(self, failure: Failure) -> Ended: ...

    async def steer(self, key: str, token: str, fence: int, have: int, version: int = 1) -> Steered:
        """Takes into the turn what waits for its handler, as far as this version of the handler can read it.

        Returns the messages behind the first `have`.
        """
        ...

    async def cancel(self, key: str, ident: str, window_ms: int) -> Literal["cancelled", "begun", "ended"]:
        """Cancels a message that has not begun."""
        ...

    def publish(self, key: str, text: bytes) -> None:
        """Tells the watchers of the lane, if all goes well. Returns at once."""
        ...

    async def subscribe(self, key: str, listener: Callable[[bytes], None]) -> Callable[[], Awaitable[None]]:
        """Calls `listener` with what turns and transitions publish for a lane; b"": something may have been missed.

        A transition says `<what> <fence> <rest>`: begin (attempt and ident), commit (ident), fail (how and why),
        back, lost (why), interrupt (the ident that did it). Returns what ends the subscription.
        """
        ...

    async def confirm(self, key: str, token: str) -> bool:
        """Returns whether the lease of a turn is still known."""
        ...

    async def attend(self, key: str, ident: str) -> Outcome:
        """Returns what became of a message. If that is still open, this process is told `settled` once it is not."""
        ...

    async def forward(self, source: int, target: int) -> int:
        """Brings the sends of one partition to another. Returns how many are left. Any process may do it."""
        ...

    async def lanes(self, limit: int) -> LaneList: ...

    async def lane(self, key: str, limit: int) -> LaneView: ...

    async def stop(self, key: str, how: Literal["paused", "parked"], why: str) -> None: ...

    async def resume(self, key: str) -> bool: ...

    async def clear(self, key: str) -> int: ...

    async def dead(self, limit: int) -> list[DeadView]: ...

    async def dead_letter(self, key: str, ident: str) -> DeadView | None: ...

    async def replay(self, key: str, ident: str) -> bool: ...

    async def drop(self, key: str, ident: str) -> bool: ...
