"""A handler and its options, checked when it is registered."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inturn.lanes import policy, template, text
from inturn.lanes.policy import BUSY, Busy
from inturn.lanes.retry import ON_FAILURE, OnFailure, RetryRule
from inturn.lanes.codec import Shape, StateShape
from inturn.lanes.template import Template
from inturn.lanes.thread import in_a_thread
from inturn import arguments
from inturn.arguments import Seconds
from inturn.store.lane import Rule

MAX_WINDOW_S = 7 * 86400.0
MAX_STATE_TTL_S = 366 * 86400.0
MAX_WAITING = 10_000
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class HandlerError(Exception):
    """What a handler raised that must not go further as it is."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a lane's lease, a turn, its marks and its state live."""

    ttl_ms: int
    limit_ms: int
    window_ms: int
    keep_ms: int


@dataclass(frozen=True, slots=True)
class Handler:
    name: str
    run: Callable[[Any], Any]
    is_async: bool
    key: Template | None
    message_id: Template | None
    content: Template | None
    busy: Busy
    wait_s: float | None
    body: Shape | None
    state: StateShape | None
    timing: Timing
    retry: RetryRule
    max_waiting: int
    priority: int
    rule: Rule
    cut: Callable[[Any], bool] | None
    unless_newer: bool
    shares: Template | None

    def rule_of(self, body: Any) -> Rule:
        """For this message: one that cuts the quiet time short asks for none."""
        return self.rule._replace(quiet_ms=0) if self.cut is not None and self.cut(body) else self.rule

    def shares_of(self, body: Any) -> str:
        """The plain key that a turn over this message holds too."""
        return "" if self.shares is None else arguments.name(self.shares.fill(body), "shares")

    def names(self, version: int) -> list[str]:
        """What workers of this version of the app can run: its messages, and those of every older version of it."""
        return [self.name, *(f"{self.name}@{older}" for older in range(2, version + 1))]

    def key_of(self, body: Any, given: str | None) -> str:
        if given is not None:
            return template.key(given)
        if self.key is None:
            raise TypeError(f"handler {self.name!r} has no key template: give key=")
        return template.key(self.key.fill(body))

    def id_of(self, key: str, body: Any, given: object | None) -> str | None:
        """`None`: the application has no id for it."""
        if given is not None:
            return template.message_id(given)
        if self.message_id is not None:
            return template.message_id(self.message_id.fill(body))
        if self.content is not None:
            return template.content_id(key, self.content.fill(body))
        return None

    def write_body(self, body: Any) -> bytes:
        if self.body is not None:
            return self.body.write(body, "the body", text.MAX_BODY)
        return text.write(body, "the body", text.MAX_BODY)

    async def call(self, turn: Any) -> Any:
        """Run it; a plain function in a thread."""
        try:
            if self.is_async:
                return await self.run(turn)
            turn.lease.runs_on()
            return await in_a_thread(self.run, turn, turn.lease.has_ended)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > 0:
                raise
            # Nobody cancelled us: it is the handler's own error. It must not look as if the worker stopped, or the
            # message would go from worker to worker without its attempts being counted.
            raise HandlerError(f"the handler raised {type(error).__name__}: {error}") from error

    def read_body(self, written: bytes) -> Any:
        return self.body.read(written) if self.body is not None else text.read(written)


def timing(ttl: Seconds, time_limit: Seconds, window: Seconds, state_ttl: Seconds) -> Timing:
    return Timing(
        _ms(arguments.ttl(ttl)),
        _ms(arguments.ttl(time_limit, "time_limit")),
        _ms(arguments.seconds(window, "dedup_window", most=MAX_WINDOW_S)),
        _ms(arguments.seconds(state_ttl, "state_ttl", most=MAX_STATE_TTL_S)),
    )


def make(
    run: Callable[[Any], Any],
    name: str,
    *,
    key: str | Callable[[Any], str] | None,
    message_id: str | Callable[[Any], str] | None,
    content_id: str | Callable[[Any], str] | None,
    busy: Busy,
    wait: Seconds | None,
    body: Any,
    state: Any,
    initial: Callable[[], Any] | None,
    timing: Timing,
    on_failure: OnFailure,
    attempts: int,
    backoff: tuple[Seconds, Seconds],
    max_waiting: int,
    priority: int,
    quiet: Seconds | None,
    max_quiet: Seconds | None,
    max_burst: int | None,
    cut: Callable[[Any], bool] | None,
    interruptible: bool,
    unless_newer: bool,
    version: int,
    shares: str | Callable[[Any], str] | None,
) -> Handler:
    if not _NAME.fullmatch(str(name)):
        raise ValueError(f"handler name {name!r}: must be 1 to 64 letters, digits or any of _ . : -")
    if not callable(run):
        raise TypeError(f"handler {name!r}: {run!r} cannot be called")
    one_of(busy, BUSY, "busy")
    one_of(on_failure, ON_FAILURE, "on_failure")
    if message_id is not None and content_id is not None:
        raise ValueError("message_id and content_id: a message has one id; give one of them")
    wait_s = arguments.wait(wait)
    if wait_s is not None and busy != "wait":
        raise ValueError(f"wait={wait!r} with busy={busy!r}: only busy='wait' waits up to a time")
    if busy == "wait" and not wait_s:
        raise ValueError("busy='wait' needs wait=, the seconds within which the turn must begin")
    for option, value in (("interruptible", interruptible), ("unless_newer", unless_newer)):
        if not isinstance(value, bool):
            raise TypeError(f"{option}={value!r}: must be True or False")
    if unless_newer and busy in ("reject", "drop"):
        raise ValueError(f"unless_newer with busy={busy!r}: nothing newer ever waits")
    if initial is not None and state is None:
        raise ValueError("initial= without state=: say what the state is")
    if isinstance(key, str) and ">" in key:
        raise ValueError(f"key={key!r}: must not contain '>', which joins a key and the handler of its sends")
    shape = None if body is None else Shape(body, "body")
    first_s, most_s = _pauses(backoff)
    return Handler(
        name=name,
        run=run,
        is_async=inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(getattr(run, "__call__", None)),  # noqa: B004
        key=None if key is None else Template(key, "key", shape),
        message_id=None if message_id is None else Template(message_id, "message_id", shape),
        content=None if content_id is None else Template(content_id, "content_id", shape),
        busy=busy,
        wait_s=wait_s,
        body=shape,
        state=None if state is None else StateShape(state, initial),
        timing=timing,
        retry=RetryRule(on_failure, arguments.whole(attempts, "attempts", 1, 1000), first_s, max(first_s, most_s)),
        max_waiting=arguments.whole(max_waiting, "max_waiting", 1, 10_000_000),
        priority=policy.priority(priority),
        rule=policy.make_rule(
            busy, quiet=quiet, max_quiet=max_quiet, max_burst=max_burst, cut=cut, interruptible=interruptible,
            version=version, window_ms=timing.window_ms,
        ),
        cut=cut,
        unless_newer=bool(unless_newer),
        shares=None if shares is None else Template(shares, "shares", shape),
    )  # fmt: skip


def _pauses(backoff: object) -> tuple[float, float]:
    if not isinstance(backoff, tuple | list):
        raise TypeError(f"backoff={backoff!r}: must be two numbers of seconds, the first bound and the last")
    if len(backoff) != 2:
        raise ValueError(f"backoff={backoff!r}: must be two numbers of seconds, the first bound and the last")
    first_s, most_s = (arguments.seconds(pause, "backoff", allow_zero=True) for pause in backoff)
    return first_s, most_s


def one_of(value: object, known: tuple[str, ...], field: str) -> None:
    if value not in known:
        raise ValueError(f"{field}={value!r}: must be one of {', '.join(map(repr, known))}")


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
