"""One id for one request, wherever it goes: it comes and goes as `x-request-id`, and stands in every line of the log.

`RequestId` takes the id that the client sent, or makes one, for all that runs in the request. What works on a request
later, elsewhere, takes it up with `with_request_id`. An id is short and has neither spaces nor line breaks: no client
can forge a line of the log or a header with it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import uuid4

from inturn.http.asgi import ASGIApp, Event, Receive, Scope, Send, values_of

HEADER = "x-request-id"
NONE = "-"
"""In lines of the log that belong to no request."""
FORMAT = "%(asctime)s %(levelname)s %(name)s %(request_id)s %(message)s"

_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_current: ContextVar[str | None] = ContextVar("inturn_request_id", default=None)


def get() -> str | None:
    """The id of the request that runs here, if one does."""
    return _current.get()


def new() -> str:
    return uuid4().hex


def is_request_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


@contextmanager
def with_request_id(request_id: str | None) -> Iterator[str]:
    """What runs inside belongs to this request. One that is not an id, or missing, is replaced by a new one."""
    chosen = request_id if request_id is not None and is_request_id(request_id) else new()
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)


class RequestId:
    """Middleware. It stands outside of all others: what they log and refuse has the id too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = HEADER.encode("ascii")
        given = [value.decode("latin-1") for value in values_of(scope["headers"], name)]
        chosen = given[0] if len(given) == 1 and is_request_id(given[0]) else new()

        async def marked(event: Event) -> None:
            if event["type"] == "http.response.start":
                others = [(key, value) for key, value in event.get("headers", ()) if key.lower() != name]
                event = {**event, "headers": [*others, (name, chosen.encode("ascii"))]}
            await send(event)

        token = _current.set(chosen)
        await self._app(scope, receive, marked)
        # not after an error: the server logs that in this same task, and the line is to have the id
        _current.reset(token)


class RequestIds(logging.Filter):
    """Lets every record pass, with a `request_id` for its format. It belongs to a handler: those see the records of all
    libraries. (A factory of records would make `extra={"request_id": …}` of other libraries an error.)
    """

    def filter(self, record: logging.LogRecord) -> bool:
        told = getattr(record, "request_id", None)  # a library may know better, but may not break the line
        if not (isinstance(told, str) and is_request_id(told)):
            record.request_id = get() or NONE
        return True


def log_to_stderr(level: str) -> None:
    """For the commands that run until a signal: one line for each record, with the id of its request. Where logging is
    set up already, its handlers stay as they are; their formats can name `%(request_id)s`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(FORMAT, defaults={"request_id": NONE}))
    logging.basicConfig(level=level, handlers=[handler])
    if level != "DEBUG":  # they log every request that they make, and every step
        for name in ("httpx", "httpx2", "aiormq", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
    for each in logging.getLogger().handlers:
        if not any(isinstance(found, RequestIds) for found in each.filters):
            each.addFilter(RequestIds())
