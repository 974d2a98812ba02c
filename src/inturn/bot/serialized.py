"""Celery tasks that take turns: `@serialized` runs the function of a task as an inline turn of a lane.

Tasks of one key run one at a time, and each task id runs once: a redelivered copy returns the first result. A task
whose lane is busy, or whose store is away, is put back with a countdown: it is not lost, and occupies no worker.
"""

from __future__ import annotations

import inspect
import logging
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from string import Formatter
from typing import Any, Literal, TypeVar, cast, get_args

from inturn import arguments
from inturn.errors import (
    ArgumentError,
    ArgumentTypeError,
    CommitUnknown,
    DuplicateMessage,
    LaneBusy,
    LaneTimeout,
    MissingExtra,
    ResultExpired,
    StoreUnavailable,
)
from inturn.lanes import template
from inturn.lanes.handler import one_of
from inturn.store.lane import ident_of
from inturn.sync import InTurn, Receipt

try:
    from celery import Task, current_task
    from celery.exceptions import Ignore, OperationalError, Retry
    from celery.signals import worker_process_shutdown, worker_shutdown
    from celery.utils import uuid
    from celery.utils.quorum_queues import detect_quorum_queues
    from kombu.exceptions import EncodeError
except ImportError as error:
    raise MissingExtra("inturn.bot.celery", "celery") from error

log = logging.getLogger("inturn.celery")

Busy = Literal["retry", "wait", "drop", "reject"]
F = TypeVar("F", bound=Callable[..., Any])

REMEMBERED_S = 86_400.0
"""How long a task id is remembered: longer than a broker keeps a message from being delivered again (an hour)."""

REVOKED_S = arguments.MAX_TTL_S

FIRST_PAUSE_S, MAX_PAUSE_S = 0.5, 30.0
VISIBILITY_S = 3600.0
"""The visibility timeout of Celery's Redis transport, unless its options name another."""

WAITS = "inturn_waits"
"""The header that counts how many times a task was put back. Celery's own count belongs to the task's own retries."""


def serialized(
    *,
    key: str | Callable[..., str],
    message_id: str | Callable[..., object] = "{task_id}",
    busy: Busy = "retry",
    wait: arguments.Seconds | None = None,
    url: str | None = None,
    dedup_window: arguments.Seconds = REMEMBERED_S,
    ttl: arguments.Seconds | None = None,
    time_limit: arguments.Seconds | None = None,
) -> Callable[[F], F]:
    """Runs the function of a Celery task in the lane of its key. Write it below `@app.task`, with or without `bind`.

    What the function returns must be JSON. If it raises, nothing is remembered, so Celery's own retries work; they are
    counted apart from the times that the task was put back. If the lease was lost while it ran, its end is refused:
    the task fails with `LeaseLost` (after `time_limit`: `HandlerTimeout`), although its body has run. Name these in
    `autoretry_for` if it may run again.

    Args:
        key: the lane: template over the arguments of the call, `"user:{user_id}"`, or a function of them.
        message_id: the same, for the id that runs once, of all calls of this function with this key. `task_id` is known
            too. `None` from a function: it runs as often as it is called. Default: `"{task_id}"`.
        busy: what a task does whose lane is busy. "retry": it is put back with a growing countdown, and the order is
            not kept. "wait": it holds its worker, and waits in order. "drop": it does nothing, and returns `None`.
            "reject": it fails with `LaneBusy`. In eager mode, and in a call outside of a worker, "retry" waits in
            order. Default: "retry".
        wait: seconds to wait where it waits (`LaneTimeout`). Default: as long as it takes.
        url: the store. Default: as for `InTurn`.
        dedup_window: seconds for which an id and its result are remembered, up to 7 days. It must be longer than the
            broker's visibility timeout. Default: a day.
        ttl, time_limit: as for `InTurn.turn`.
    """
    one_of(busy, get_args(Busy), "busy")
    arguments.wait(wait)
    options = {"dedup_window": dedup_window, "ttl": ttl, "time_limit": time_limit}
    for field, value in options.items():
        if value is not None:
            arguments.ttl(value, field)

    def decorate(function: F) -> F:
        _must_be_plain(function)
        signature = inspect.signature(function)
        names = _Name(key, "key", signature), _Name(message_id, "message_id", signature)
        serial = _Serialized(function, signature, *names, busy, wait, url, options)

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with _own_task(run) as task:
                return serial.run(task, args, kwargs)

        run.__signature__ = signature  # type: ignore[attr-defined] # by which Celery checks the arguments of a call
        return cast(F, run)

    return decorate


def revoke(task_id: str, *, key: str, url: str | None = None) -> None:
    """A task of this id (or `message_id`) in the lane of this key does nothing if it has not begun. Its state: REVOKED.

    Unlike Celery's own, this is kept in the store, for 7 days, and outlives the workers. It does not wait for the lane.
    """
    known = template.message_id(task_id, "task_id")  # without one, nothing would be revoked
    try:
        with app_of(url).turn(_revocations(key), message_id=known, dedup_window=REVOKED_S):
            pass
    except DuplicateMessage as before:
        cast(Receipt, before.receipt).result()


def _revocations(key: str) -> str:
    """A lane of its own, so that whoever is in a turn of the key can revoke its other tasks."""
    return _named("revoked", template.key(key))


def _named(scope: str, name: str) -> str:
    """Both may be as long as any name, and so may what they make together."""
    both = f"{scope}:{name}"
    return both if len(both.encode()) <= arguments.MAX_NAME_BYTES else template.content_id(scope, name)


_apps: dict[str | None, InTurn] = {}

closers: list[Callable[[], None]] = []
"""Called before the apps of this process are closed: what stands on them."""


def app_of(url: str | None) -> InTurn:
    """Made when it is first needed: in each child of a worker, after the fork."""
    return _apps.get(url) or _apps.setdefault(url, InTurn(url))


_of_parent: list[object] = []


def _after_fork() -> None:
    """In the child: what stands on a loop of the parent is of no use, and not ours to close."""
    _of_parent.append((dict(_apps), list(closers)))  # kept, because its end would be the end of open connections
    _apps.clear()
    closers.clear()


os.register_at_fork(after_in_child=_after_fork)


def _close_apps(**_: Any) -> None:
    while closers:
        closers.pop()()
    while _apps:
        _apps.popitem()[1].close()


worker_process_shutdown.connect(_close_apps, weak=False)  # a child of a prefork worker
worker_shutdown.connect(_close_apps, weak=False)  # a worker that runs tasks itself, by threads or one by one


class _NotNow(Exception):
    """The turn did not begin, or nobody knows whether it was committed."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


class _Name:
    """A key or a message id: a template over the arguments of a call, or a function of them."""

    def __init__(self, source: Any, field: str, signature: inspect.Signature) -> None:
        self._function = source if callable(source) else None
        self._template = template.Template(source, field, None)
        if self._function is not None:
            return
        takes_any = any(given.kind is given.VAR_KEYWORD for given in signature.parameters.values())
        for literal, name, _, _ in Formatter().parse(source):
            first = (name or "").partition(".")[0]
            if first and not takes_any and first not in (*signature.parameters, "task_id"):
                has = ", ".join((*signature.parameters, "task_id"))
                raise ArgumentError(field, f"the function has no argument {first!r}; there are: {has}", source)
            if field == "key" and ">" in literal:
                problem = "must not contain '>', which joins a key and the handler of its sends"
                raise ArgumentError(field, problem, source)

    def of(self, bound: inspect.BoundArguments, task_id: str) -> object:
        if self._function is not None:
            is_bound = len(bound.args) > 0 and isinstance(bound.args[0], Task)
            return self._function(*bound.args[is_bound:], **bound.kwargs)
        return self._template.fill({"task_id": task_id, **bound.kwargs, **bound.arguments})


@dataclass(frozen=True)
class _Call:
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    key: Any
    id: Any
    task: Task | None
    """The task that Celery runs by this call; `None` for a plain call."""
    may_go_back: bool


class _Serialized:
    """A function with what `@serialized` was told."""

    def __init__(
        self,
        function: Callable[..., Any],
        signature: inspect.Signature,
        key: _Name,
        message_id: _Name,
        busy: Busy,
        wait: arguments.Seconds | None,
        url: str | None,
        options: dict[str, Any],
    ) -> None:
        self._function = function
        self._scope = _scope_of(function)
        self._signature = signature
        self._key = key
        self._message_id = message_id
        self._busy = busy
        self._wait = wait
        self._url = url
        self._options = options

    def run(self, task: Task | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = self._call(task, args, kwargs)
        waits = 0 if task is None else task.request.get(WAITS, 0)
        while True:
            try:
                return self._turn(call)
            except _NotNow as not_now:
                why = not_now.why
            if isinstance(why, ResultExpired):
                continue  # the first one with this id was rolled back while we asked: now we may run
            if isinstance(why, LaneBusy) and self._busy == "drop":
                log.info("drop key=%s id=%s: %s", call.key, call.id, why)
                return None
            if not call.may_go_back or (isinstance(why, LaneBusy) and self._busy == "reject"):
                raise why
            waits += 1
            put_back(call.task, waits, why)

    def _call(self, task: Task | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        request = None if task is None else task.request
        task_id = (request.id if request is not None else None) or uuid()
        key, identity = self._key.of(bound, task_id), self._message_id.of(bound, task_id)
        is_plain = request is None or request.called_directly or request.is_eager
        return _Call(args, kwargs, key, identity, task, may_go_back=not is_plain)

    def _turn(self, call: _Call) -> Any:
        app, is_in_body = app_of(self._url), False
        stays = self._busy == "wait" or not call.may_go_back
        waits_in_order = stays and self._busy in ("retry", "wait")
        opening = {"busy": "wait", "wait": self._wait} if waits_in_order else {"busy": "reject"}
        try:
            with app.turn(call.key, message_id=self._once(call.id), **opening, **self._options) as turn:
                _must_not_be_revoked(app, call)
                is_in_body = True
                turn.result = self._function(*call.args, **call.kwargs)
                is_in_body = False
            return turn.result
        except DuplicateMessage as repeat:
            if is_in_body:
                raise
            first = cast(Receipt, repeat.receipt)
        except (LaneBusy, StoreUnavailable, CommitUnknown) as error:
            if is_in_body:
                raise  # the body's own affair
            raise _NotNow(error) from error
        waits_s = arguments.wait(self._wait if stays else 0)
        try:
            # A copy that came while the first one runs must not give up: if that one is killed, it is the only one left
            return first.result(waits_s)
        except TimeoutError as error:
            raise _NotNow(error if call.may_go_back else LaneTimeout(call.key, waits_s or 0.0)) from error
        except (ResultExpired, StoreUnavailable) as error:
            raise _NotNow(error) from error

    def _once(self, message_id: Any) -> str | None:
        """Two tasks may be given the same id of an order, and both have to run."""
        if message_id is None:
            return None
        return _named(self._scope, template.message_id(message_id))


def _scope_of(function: Callable[..., Any]) -> str:
    """The same name in a worker, which imports the module, and in a program that is the module."""
    named: Any = function.func if isinstance(function, partial) else function
    if not hasattr(named, "__qualname__"):
        named = type(named)  # of an object that can be called
    module = named.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec, path = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec is not None else Path(path or module).stem
    return f"{module}.{named.__qualname__}"


def _must_be_plain(function: Any) -> None:
    if isinstance(function, Task):
        raise ArgumentTypeError("function", "is a Celery task already: write @serialized below @app.task", function)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        problem = "is async, which Celery cannot run: use asyncio.run inside of it, or submit to a handler of an InTurn"
        raise ArgumentTypeError("function", problem, function)
    if inspect.isgeneratorfunction(function):
        problem = "is a generator: it would run after its turn has ended. Return a list"
        raise ArgumentTypeError("function", problem, function)


_begun: ContextVar[object] = ContextVar("inturn_task", default=None)
"""The request that is served here: a call that its function makes is a call of its own, even of the same function."""


@contextmanager
def _own_task(run: Callable[..., Any]) -> Iterator[Task | None]:
    """The task that Celery runs now, if `run` is its function, and not one that its function calls."""

    def is_ours(function: Any) -> bool:
        return getattr(function, "__func__", function) is run

    task = current_task._get_current_object() if current_task else None
    if task is None or not is_ours(inspect.unwrap(task.run, stop=is_ours)) or _begun.get() is task.request:
        yield None
        return
    before = _begun.set(task.request)
    try:
        yield task
    finally:
        _begun.reset(before)


def _must_not_be_revoked(app: InTurn, call: _Call) -> None:
    """Asked inside of the turn: whoever revoked it before it began has been heard."""
    task = call.task if call.may_go_back else None
    must_not_be_revoked(app, call.key, str(call.id), task)


def must_not_be_revoked(app: InTurn, key: str, task_id: str, task: Task | None) -> None:
    """Raises `Ignore` if it was: then its state is REVOKED."""
    asked = app.inner.process.store.attend(_revocations(key), ident_of("", task_id))
    if app.runner.run(asked).status != "done":
        return
    log.info("revoked key=%s id=%s", key, task_id)
    if task is not None:
        request = task.request
        task.backend.mark_as_revoked(request.id, "revoked", request, store_result=not request.ignore_result)
    raise Ignore(f"{task_id} was revoked")


def put_back(task: Any, waits: int, why: Exception) -> None:
    """Publishes the task again, and raises what tells Celery so. Returns after the pause if that cannot be done."""
    request = task.request
    # beyond the visibility timeout a task would be delivered again while it waits, and each copy be put back by itself
    visibility_s = (task.app.conf.broker_transport_options or {}).get("visibility_timeout", VISIBILITY_S)
    bound_s = min(FIRST_PAUSE_S * 2 ** min(waits - 1, 10), MAX_PAUSE_S, visibility_s / 4)
    pause_s = random.uniform(bound_s / 2, bound_s)
    if detect_quorum_queues(task.app, task.app.connection_for_write().transport.driver_type)[0]:
        pause_s = max(pause_s, 1.0)  # RabbitMQ holds it back then, for whole seconds, and Celery refuses none
    # not by `task.retry`: it counts, and what the function itself may retry would soon be used up
    headers = {**(request.as_execution_options()["headers"] or {}), WAITS: waits}  # Celery before 5.7 may have none
    again = task.signature_from_request(headers=headers, countdown=pause_s)
    try:
        again.apply_async()
    except (OperationalError, EncodeError) as error:
        # the caller may have chosen a serializer, and Celery does not tell the task which one
        problem = "its arguments need another serializer=" if isinstance(error, EncodeError) else "the broker is away"
        log.warning("task %s waits in its worker, because %s: %s", request.id, problem, error)
        time.sleep(pause_s)
        return
    raise Retry(exc=why, when=pause_s)
