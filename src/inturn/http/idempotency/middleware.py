"""`IdempotencyMiddleware`: a request with an `Idempotency-Key` runs once, and a repeat gets the first response.

It is one inline turn: the lane is caller and key, the message is what was asked for, the result is the response. The
response goes out after the commit that keeps it. If the process dies before that, the next request runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from inturn import arguments
from inturn.app import LANE_TTL, TIME_LIMIT, InTurn
from inturn.errors import (
    ArgumentTypeError,
    CommitUnknown,
    DuplicateMessage,
    HandlerTimeout,
    LaneBusy,
    LeaseLost,
    NotReplicated,
    OwnLane,
    ResultExpired,
    StoreUnavailable,
)
from inturn.http.asgi import ASGIApp, Receive, Scope, Send
from inturn.http.body_limit import MAX_BODY
from inturn.http.idempotency import kept_response
from inturn.http.idempotency import request as requests
from inturn.http.idempotency.exchange import Exchange, Held
from inturn.http.idempotency.kept_response import MAX_RESPONSE, Response
from inturn.http.idempotency.request import CallerOf, by_authorization
from inturn.http.problems import Problem
from inturn.lanes import handler as handlers

log = logging.getLogger("inturn.http")

DAY_S = 86400.0
STREAMS = ("text/event-stream", "multipart/x-mixed-replace")
_RETRIED = {401, 408, 425, 429}

F = TypeVar("F", bound=Callable[..., Any])
Required = bool | Iterable[str] | Callable[[Scope], bool]


def is_final(status: int) -> bool:
    """Whether a repeat would get the same answer: not after a server error, nor when the client is told to retry."""
    return status < 500 and status not in _RETRIED


class _NotKept(Exception):
    """Rolls the turn back. The response goes out all the same, and a repeat runs again."""


class IdempotencyMiddleware:
    """Runs a request with an `Idempotency-Key` once; a repeat gets the first response.

    `IdempotencyMiddleware(app, turns)`, or `app.add_middleware(IdempotencyMiddleware, turns=turns)`.

    Args:
        methods: the methods for which the header counts; others pass untouched.
        required: `True`, path prefixes, or a function of the ASGI scope: where a request without a key gets 400.
            Elsewhere it passes untouched.
        scope: who is calling, a function of the ASGI scope; it returns `None` if it cannot tell.
        keep: seconds for which a response is kept, up to 7 days.
        keeps: a function of the status: whether the response is kept. If not, a repeat runs again. A refusal with
            `Retry-After` is never kept.
        omit_headers: response headers that are sent once and not kept.
        streams: content types that are passed through as they come, and not kept.
        max_request: the longest body of a request with a key, in bytes; a longer one gets 413.
        max_response: the longest body that is kept, in bytes.
        ttl: the lease, in seconds: how long a key stays busy after the process that held it was killed.
        time_limit: seconds that a request with a key may take.
    """

    def __init__(
        self,
        app: ASGIApp,
        turns: InTurn,
        *,
        methods: Iterable[str] = ("POST", "PATCH"),
        required: Required = False,
        scope: CallerOf = by_authorization,
        keep: arguments.Seconds = DAY_S,
        keeps: Callable[[int], bool] = is_final,
        omit_headers: Iterable[str] = ("set-cookie",),
        streams: Iterable[str] = STREAMS,
        max_request: int = MAX_BODY,
        max_response: int = MAX_RESPONSE,
        ttl: arguments.Seconds = LANE_TTL,
        time_limit: arguments.Seconds = TIME_LIMIT,
    ) -> None:
        self._app = app
        self._turns = turns
        self._methods = frozenset(method.upper() for method in _several(methods, "methods"))
        self._is_required = _required(required)
        self._caller_of = _function(scope, "scope")
        self._keeps = _function(keeps, "keeps")
        self._keep_s = handlers.window_s(keep, turns.settings.store_timeout, "keep")
        self._omit = frozenset(name.lower().encode("ascii") for name in _several(omit_headers, "omit_headers"))
        self._streams = frozenset(name.lower().encode("ascii") for name in _several(streams, "streams"))
        self._max_request = arguments.whole(max_request, "max_request", 0, 2**31)
        self._max_response = arguments.whole(max_response, "max_response", 0, MAX_RESPONSE)
        self._ttl = arguments.ttl(ttl)
        self._time_limit = arguments.ttl(time_limit, "time_limit")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"].upper() not in self._methods:
            await self._app(scope, receive, send)
            return
        try:
            key = requests.key_of(scope)
            if key is None and self._is_required(scope):
                raise Problem("key-missing")
            caller = None if key is None else self._caller(scope)
            body = None if key is None else await requests.read_body(scope, receive, self._max_request)
        except Problem as problem:
            await problem.send(send, scope["path"])
            return
        if key is None or caller is None:
            await self._app(scope, receive, send)
        elif body is not None:
            exchange = Exchange(
                self._app, scope, body, receive=receive, send=send, limit=self._max_response, streams=self._streams
            )
            lane, asked = requests.lane_of(caller, key), requests.fingerprint(scope, key, body)
            await self._answer(exchange, lane, asked, send)

    def _caller(self, scope: Scope) -> str:
        caller = self._caller_of(scope)
        if not caller:
            raise Problem("caller-unknown")
        return caller

    async def _answer(self, exchange: Exchange, lane: str, asked: str, send: Send) -> None:
        async with exchange:
            try:
                first = await self._once(exchange, lane, asked)
            except Problem as problem:
                await problem.send(send, exchange.scope["path"])
                return
            if first is None:
                await exchange.let_go()
            else:
                await first.replay(send)

    async def _once(self, exchange: Exchange, lane: str, asked: str) -> Response | None:
        """The first response, if there was one. `None`: there was none, and ours may go out, kept or not."""
        turn_of_key = self._turns.turn(
            lane, message_id=asked, busy="reject", state=dict, state_ttl=self._keep_s, dedup_window=self._keep_s,
            ttl=self._ttl, time_limit=self._time_limit,
        )  # fmt: skip
        try:
            async with turn_of_key as turn:
                # A kept response is found by what was asked for. The state belongs to the key, and says what that was.
                if turn.state.get("asked", asked) != asked:
                    raise Problem("other-payload")
                exchange.scope["inturn.turn"] = turn
                turn.result = self._judge(exchange, await exchange.response())
                turn.state = {"asked": asked}
        except _NotKept:
            return None
        except DuplicateMessage as duplicate:
            return await self._first(duplicate)
        except (LaneBusy, OwnLane) as busy:
            raise _held_by(busy) from busy
        except NotReplicated as error:
            log.warning("unfinished key=%s: %s", lane, error)
            raise _outcome_unknown() from error
        except StoreUnavailable as error:
            log.warning("refused key=%s: %s", lane, error)
            raise _store_away() from error
        except (LeaseLost, HandlerTimeout, CommitUnknown) as error:
            log.warning("unfinished key=%s: %s", lane, error)
            raise _unfinished(error) from error
        return None

    def _judge(self, exchange: Exchange, held: Held) -> object:
        """What is kept of this response."""
        if not held.status:
            raise _NotKept("the application ended without a response")
        if not self._keeps(held.status):
            raise _NotKept(f"a response with status {held.status} is not kept")
        if held.asks_for_repeat:  # if it were kept, a client that does as it says would get nothing else
            raise _NotKept("it asks for a repeat, which has to run")
        kept = held.response and kept_response.written(held.response, self._omit)
        if kept is None:
            exchange.note.append((b"idempotency-kept", b"false"))
            return kept_response.spent(held.why or "its headers were too long")
        return kept

    @staticmethod
    async def _first(duplicate: DuplicateMessage) -> Response:
        try:
            first = kept_response.read(await duplicate.receipt.result(timeout=0))
        except (TimeoutError, ResultExpired):  # it is running; or it has just ended and kept nothing
            raise Problem("still-running") from None
        except StoreUnavailable as error:
            raise _store_away() from error
        if isinstance(first, str):
            raise _not_replayable(first)
        return first


def _held_by(busy: LaneBusy | OwnLane) -> Problem:
    if isinstance(busy, OwnLane):  # the application calls itself with the key of the request that it is answering
        return Problem("still-running")
    # a repeat of the running request would be a duplicate, so this one asks for something else
    return Problem("stopped") if busy.stopped else Problem("other-payload")


def _unfinished(error: LeaseLost | HandlerTimeout | CommitUnknown) -> Problem:
    if isinstance(error, CommitUnknown):
        return _outcome_unknown()
    if isinstance(error, HandlerTimeout):
        told = f"It was stopped after {error.limit_s:g} s, and no response was kept."
        return Problem("took-too-long", f"{told} A repeat with the same key runs it again.")
    return Problem(
        "turn-lost",
        "It was stopped, or its response came too late to be kept, and a repeat may already be running instead. "
        "Repeat the request with the same key: it gets the response that was kept, or runs again.",
    )


def _outcome_unknown() -> Problem:
    return Problem(
        "outcome-unknown",
        "The request ran, and the store went away while its response was being kept. Repeat it with the same key: it "
        "gets that response if it was kept, and runs again if not.",
    )


def _store_away() -> Problem:
    return Problem(
        "store-unavailable",
        "The store that remembers requests with an Idempotency-Key does not answer. Nothing was done: repeat the "
        "request later, with the same key.",
    )


def _not_replayable(why: str) -> Problem:
    return Problem(
        "not-replayable",
        f"The operation ran, and its response was sent once, but {why}. It was not run again: look up its outcome some "
        "other way, and use a new key only if it should run again.",
    )


def _required(required: Required) -> Callable[[Scope], bool]:
    if callable(required):
        return required
    if isinstance(required, bool):
        return lambda scope: required
    prefixes = [prefix.rstrip("/") for prefix in _several(required, "required")]
    return lambda scope: any(f"{scope['path']}/".startswith(f"{prefix}/") for prefix in prefixes)


def _several(values: Iterable[str], field: str) -> list[str]:
    several: list[Any] = [values] if isinstance(values, str) else [*values]
    if not all(isinstance(value, str) and value.isascii() for value in several):
        raise ArgumentTypeError(field, "must be ASCII text, or a list of it", values)
    return several


def _function(value: F, field: str) -> F:
    if not callable(value):
        raise ArgumentTypeError(field, "must be a function", value)
    return value
