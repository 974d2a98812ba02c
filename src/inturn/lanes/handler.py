"""A handler and its options, checked when it is registered.

A plain function runs in a thread of its own, so that one which hangs holds up nobody. A pool would wait for its threads
when the process ends; these are not waited for. What such a thread still does then is lost, as if the process had been
killed: its turn is not committed, and runs again elsewhere.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inturn import arguments
from inturn.arguments import Seconds
from inturn.errors import ArgumentError, ArgumentTypeError
from inturn.lanes import codec, policy, template
from inturn.lanes.codec import Shape, StateShape
from inturn.lanes.policy import BUSY, Busy
from inturn.lanes.retry import ON_FAILURE, OnFailure, RetryRule
from inturn.lanes.template import Template
from inturn.store.lane import Rule

MAX_WINDOW_S = 7 * 86400.0
MAX_STATE_TTL_S = 366 * 86400.0
DEFAULT_WAITING = 10_000
MAX_WAITING = 10_000_000
OnDead = Callable[[Any, Exception], None]
"""Takes the turn whose message becomes a dead letter, and the error that it is buried with."""
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class HandlerError(Exception):
    """Stands for what a handler raised that must not be passed on as it is."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a lane's lease, a turn, its duplicate marks and its state live."""

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
    group: Template | None
    on_dead: OnDead | None
    """Called when its message becomes a dead letter. What it leaves in the state, and sends, becomes real with that."""

    def rule_of(self, body: Any) -> Rule:
        """The rule of this message. A message that `cut` matches has no quiet time."""
        return self.rule._replace(quiet_ms=0) if self.cut is not None and self.cut(body) else self.rule

    def shares_of(self, body: Any) -> str:
        """The plain key that a turn over this message also holds; '' for none."""
        return "" if self.shares is None else arguments.name(self.shares.fill(body), "shares")

    def group_of(self, body: Any) -> str:
        """The group with which its lane takes turns; '' for none."""
        group = "" if self.group is None else self.group.fill(body)
        return arguments.name(group, "group") if group else ""

    def names(self, version: int) -> list[str]:
        """What workers of this version of the app can run: messages of this version, and of every older one."""
        return [self.name, *(f"{self.name}@{older}" for older in range(2, version + 1))]

    def key_of(self, body: Any, given: str | None) -> str:
        if given is not None:
            return template.key(given)
        if self.key is None:
            raise ArgumentTypeError("key", f"handler {self.name!r} has no key template: give key=")
        return template.key(self.key.fill(body))

    def id_of(self, key: str, body: Any, given: object | None) -> str | None:
        """`None` if the application has no id for it."""
        if given is not None:
            return template.message_id(given)
        if self.message_id is not None:
            return template.message_id(self.message_id.fill(body))
        if self.content is not None:
            return template.content_id(key, self.content.fill(body))
        return None

    def write_body(self, body: Any) -> bytes:
        if self.body is not None:
            return self.body.write(body, "the body", codec.MAX_BODY)
        return codec.write_json(body, "the body", codec.MAX_BODY)

    async def call(self, turn: Any) -> Any:
        """Run it; a plain function runs in a thread."""
        try:
            if self.is_async:
                return await self.run(turn)
            turn._lease.runs_on()
            return await in_a_thread(self.run, turn, turn._lease.has_ended)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > 0:
                raise
            # Nobody cancelled us, so it is the handler's own error. It must not look as if the worker stopped: then the
            # message would go from worker to worker, and no attempt would count.
            raise HandlerError(f"the handler raised {type(error).__name__}: {error}") from error

    def read_body(self, written: bytes) -> Any:
        return self.body.read(written) if self.body is not None else codec.read_json(written)


def window_s(value: Seconds, store_timeout: float, field: str = "dedup_window") -> float:
    """Seconds for which an id is remembered: for longer than a call that brings it again can be under way."""
    window = arguments.seconds(value, field, maximum=MAX_WINDOW_S)
    if window < 2 * store_timeout:
        problem = (
            f"must be at least {2 * store_timeout:g} seconds, twice the timeout of the store (INTURN_STORE_TIMEOUT)"
        )
        raise ArgumentError(field, f"{problem}, or a call that is repeated could run its message twice", value)
    return window


def timing(ttl: Seconds, time_limit: Seconds, window: Seconds, state_ttl: Seconds, store_timeout: float) -> Timing:
    return Timing(
        _ms(arguments.ttl(ttl)),
        _ms(arguments.ttl(time_limit, "time_limit")),
        _ms(window_s(window, store_timeout)),
        _ms(arguments.seconds(state_ttl, "state_ttl", maximum=MAX_STATE_TTL_S)),
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
    on_dead: OnDead | None,
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
    group: str | Callable[[Any], str] | None,
) -> Handler:
    """Checks every option, and that they go together. `InTurn.handler` explains them."""
    if not _NAME.fullmatch(str(name)):
        raise ArgumentError("name", "must be 1 to 64 letters, digits or any of _ . : -", name)
    if not callable(run):
        raise ArgumentTypeError("handler", f"must be a function that takes a turn (registering {name!r})", run)
    one_of(busy, BUSY, "busy")
    one_of(on_failure, ON_FAILURE, "on_failure")
    if message_id is not None and content_id is not None:
        raise ArgumentError("content_id", "give message_id= or content_id=, not both: a message has one id")
    wait_s = arguments.wait(wait)
    if wait_s is not None and busy != "wait":
        raise ArgumentError("wait", f"busy={busy!r} takes no wait=; only busy='wait' does", wait)
    if busy == "wait" and not wait_s:
        raise ArgumentError("wait", "must be given with busy='wait': the seconds within which the turn must begin")
    for option, value in (("interruptible", interruptible), ("unless_newer", unless_newer)):
        if not isinstance(value, bool):
            raise ArgumentTypeError(option, "must be True or False", value)
    if unless_newer and busy in ("reject", "drop"):
        raise ArgumentError("unless_newer", f"cannot be combined with busy={busy!r}: no message ever waits")
    if initial is not None and state is None:
        raise ArgumentError("initial", "needs state=, the type of the state")
    if isinstance(key, str) and ">" in key:
        raise ArgumentError("key", "must not contain '>', which joins a key and the handler of its sends", key)
    if on_dead is not None and not callable(on_dead):
        raise ArgumentTypeError("on_dead", "must be a function that takes a turn and an error", on_dead)
    if on_dead is not None and _is_async(on_dead):
        problem = (
            "must be a plain function: it is part of burying the message, which waits for nothing. Let it send instead"
        )
        raise ArgumentTypeError("on_dead", problem, on_dead)
    shape = None if body is None else Shape(body, "body")
    first_s, longest_s = _pauses(backoff)
    return Handler(
        name=name,
        run=run,
        is_async=_is_async(run),
        key=None if key is None else Template(key, "key", shape),
        message_id=None if message_id is None else Template(message_id, "message_id", shape),
        content=None if content_id is None else Template(content_id, "content_id", shape),
        busy=busy,
        wait_s=wait_s,
        body=shape,
        state=None if state is None else StateShape(state, initial),
        timing=timing,
        retry=RetryRule(on_failure, arguments.whole(attempts, "attempts", 1, 1000), first_s, max(first_s, longest_s)),
        max_waiting=arguments.whole(max_waiting, "max_waiting", 1, MAX_WAITING),
        priority=policy.priority(priority),
        rule=policy.make_rule(
            busy, quiet=quiet, max_quiet=max_quiet, max_burst=max_burst, cut=cut, interruptible=interruptible,
            version=version, window_ms=timing.window_ms,
        ),
        cut=cut,
        unless_newer=bool(unless_newer),
        shares=None if shares is None else Template(shares, "shares", shape),
        group=None if group is None else Template(group, "group", shape),
        on_dead=on_dead,
    )  # fmt: skip


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _pauses(backoff: object) -> tuple[float, float]:
    problem = "must be two numbers of seconds, the first bound and the last"
    if not isinstance(backoff, tuple | list):
        raise ArgumentTypeError("backoff", problem, backoff)
    if len(backoff) != 2:
        raise ArgumentError("backoff", problem, backoff)
    first_s, longest_s = (arguments.seconds(pause, "backoff", allow_zero=True) for pause in backoff)
    return first_s, longest_s


def one_of(value: object, known: tuple[str, ...], field: str) -> None:
    if value not in known:
        raise ArgumentError(field, f"must be one of {', '.join(map(repr, known))}", value)


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


async def in_a_thread(run: Callable[[Any], Any], argument: Any, ended: Callable[[], None]) -> Any:
    """Returns what `run` returns. If the caller is cancelled, the thread runs on, and its result is dropped. When the
    thread has ended, `ended` is called on the caller's loop.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: Any, error: BaseException | None) -> None:
        ended()
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):  # a future cannot carry it
            future.set_exception(RuntimeError(f"the handler raised StopIteration: {error}"))
        else:
            future.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(run, argument)
        except BaseException as raised:  # noqa: BLE001 - the caller judges it
            error = raised
        try:
            loop.call_soon_threadsafe(deliver, result, error)
        except RuntimeError:
            if not loop.is_closed():
                raise

    threading.Thread(target=work, name="inturn-handler", daemon=True).start()
    return await future
