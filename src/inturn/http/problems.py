"""The catalogue of problems: every refusal that a client can get, once, with its code, status, title and retry time.

A problem is an RFC 9457 document. It can be raised, sent as a response, or told inside an event stream. Plain
ASGI: every route, middleware and event stream raises the same ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inturn.http.asgi import Send

MEDIA_TYPE = "application/problem+json"

BUSY_S = 1
AWAY_S = 5


@dataclass(frozen=True, slots=True)
class Kind:
    code: str
    """Stable: programs branch on it."""
    status: int
    title: str
    detail: str
    """The text used when there is nothing more specific to say; also the example in the API description."""
    retry_after_s: int | None = None


_ALL = (
    Kind("bad-request", 400, "The request cannot be read", "There was an error parsing the body."),
    Kind("key-missing", 400, "Idempotency-Key is missing",
         "This operation requires the header Idempotency-Key: send a new unique value, such as a UUID in quotes, with "
         "each new operation, and the same value when you repeat it."),
    Kind("key-malformed", 400, "Idempotency-Key is malformed",
         "The value is empty. Send one header with one quoted string of 1 to 255 printable ASCII characters, such as "
         "a UUID."),
    Kind("caller-unknown", 400, "Idempotency-Key without a known caller",
         "Keys belong to callers, and nothing in this request says who is calling. Send it with your credentials, or "
         "without an Idempotency-Key if the operation does not need one."),
    Kind("input-refused", 400, "Invalid input", "Invalid input provided."),
    Kind("vague-input", 400, "The input does not say enough",
         "It is not clear what is to be done. Say what, and by when."),
    Kind("callback-missing", 400, "The call-back is not described",
         "With pattern=async the body must also have: callback_url, user_id."),
    Kind("callback-not-allowed", 400, "This URL is not called back",
         "The callback_url is not below a configured base URL."),
    Kind("http-error", 400, "The request was refused", "Bad Request"),  # with whatever status it was refused
    Kind("not-authenticated", 401, "The request is not authenticated",
         "Send your API key: Authorization: Bearer <key>."),
    Kind("bad-signature", 401, "The signature does not prove the request",
         "No signature of webhook-signature fits what was sent."),
    Kind("not-allowed", 403, "This key does not open this", "Only a key with the role admin may call this."),
    Kind("card-not-allowed", 403, "The workflow has no such card or action",
         "Card 'other': workflow 'support_intake' has no such card."),
    Kind("cross-origin", 403, "The request comes from another site",
         "Without API keys, only this server's own pages may call it."),
    Kind("not-found", 404, "There is nothing at this path", "GET /api/v1/workflow: there is no such path."),
    Kind("unknown-capability", 404, "There is no such capability",
         "There is no capability 'parse-mail'; there are: parse-task."),
    Kind("unknown-job", 404, "There is no such job", "There is no job '9f3c'."),
    Kind("unknown-task", 404, "There is no such task", "There is no task '9f3c'."),
    Kind("unknown-request", 404, "There is no such request", "There is no request '9f3c'."),
    Kind("unknown-conversation", 404, "There is no such conversation",
         "There is no conversation '9f3c'; begin a new one."),
    Kind("method-not-allowed", 405, "This path does not allow this method", "PUT is not allowed, only: GET, DELETE."),
    Kind("body-timeout", 408, "The body did not arrive in time",
         "The body was not complete within 60 s. Nothing was done: send it again."),
    Kind("conversation-busy", 409, "The conversation is busy",
         "Another of its messages is being answered. Nothing was done: repeat the request in a moment.", BUSY_S),
    Kind("session-completed", 409, "The workflow is completed",
         "The workflow of conversation '9f3c' is completed; begin a new one."),
    Kind("superseded", 409, "A newer message replaced this one",
         "Message 'm1' of lane 'conversation:9f3c' was superseded by a newer one, and will not run."),
    Kind("message-cancelled", 409, "The message was cancelled", "It was cancelled before it began, and will not run."),
    Kind("duplicate-message", 409, "This message has been received before",
         "It is running or has already run, and was not run again."),
    Kind("still-running", 409, "The first request with this Idempotency-Key is still running",
         "It was not run again. Repeat the same request later, with the same key, to get its response.", BUSY_S),
    Kind("response-expired", 410, "The response is no longer kept",
         "This message was answered earlier, but its response is no longer kept: read the conversation instead."),
    Kind("too-large", 413, "The body is too large",
         "A body may be up to 1048576 bytes long. Nothing was done: send a shorter one."),
    Kind("not-this-host", 421, "This server does not answer to that host name",
         "Without API keys it serves this machine only, as localhost or 127.0.0.1."),
    Kind("invalid-request", 422, "The request is not valid", "text: Field required"),
    Kind("other-payload", 422, "This Idempotency-Key belongs to another request",
         "It was used with another method, path, query, content type or body. Nothing was done: use a new key for a "
         "new operation, or repeat the first request exactly."),
    Kind("not-replayable", 422, "The response to this Idempotency-Key was not kept",
         "The operation ran, and its response was sent once, but it was a stream. It was not run again: look up its "
         "outcome some other way, and use a new key only if it should run again."),
    Kind("budget-exhausted", 429, "The token budget is used up",
         "The tokens of this window are used or reserved: wait until the next one begins."),
    Kind("mailbox-full", 429, "Too many messages are waiting",
         "Too many messages are waiting here. Nothing was done: repeat the request later.", AWAY_S),
    Kind("too-many-streams", 429, "Too many event streams are open",
         "Your tenant has as many event streams open as it may have here. Close one, or try again later.", AWAY_S),
    Kind("headers-too-large", 431, "The headers are too large",
         "The address and headers together may be up to 65536 bytes long. Nothing was done: shorten them."),
    Kind("internal-error", 500, "Something went wrong on the server",
         "The error was logged. The request may or may not have taken effect: repeat it with the same message_id, or "
         "check first."),
    Kind("agent-unavailable", 502, "The agent cannot be reached",
         "Agent 'openai' cannot be reached: connection refused."),
    Kind("agent-rejected", 502, "The agent's provider refused the request",
         "Agent 'openai' was refused: invalid model."),
    Kind("agent-timeout", 504, "The agent did not answer in time", "Agent 'openai' did not finish within 120 s."),
    Kind("store-unavailable", 503, "The store is unavailable",
         "The store did not confirm the request, and it is kept nowhere else. Repeat it later: with the same "
         "message_id nothing happens twice.", AWAY_S),
    Kind("database-unavailable", 503, "The database is unavailable",
         "The database did not confirm the request. Repeat it later, with the same Idempotency-Key.", AWAY_S),
    Kind("ai-unavailable", 503, "The AI service is unavailable",
         "The AI service did not accept the request, and nothing was charged. Repeat it later.", AWAY_S),
    Kind("broker-unavailable", 503, "Jobs are not accepted now",
         "The job was not accepted, and will not run. Repeat the request later.", AWAY_S),
    Kind("outcome-unknown", 503, "It is not known whether anything was saved",
         "The store went away during the commit: either all was saved or nothing. Repeat it with the same message_id.",
         AWAY_S),
    Kind("turn-lost", 503, "The request lost its turn while it ran", "Nothing was saved: repeat the request.",
         AWAY_S),
    Kind("no-webhook-secret", 503, "This server cannot check signatures",
         "It has no secret to check the signature with, so nothing was done: set INTURN_WEBHOOK_SECRETS."),
    Kind("took-too-long", 503, "The request exceeded its time limit",
         "It was stopped after 600 s, and no response was kept. A repeat with the same key runs it again.", AWAY_S),
    Kind("stopped", 503, "An operator has stopped this Idempotency-Key",
         "Nothing was done: repeat the request later, with the same key.", AWAY_S),
    Kind("conversation-stopped", 503, "An operator has stopped this conversation",
         "Nothing was done: repeat the request later.", AWAY_S),
    Kind("state-mismatch", 503, "The stored state was written by another version",
         "It was left untouched, and the conversation is parked until an operator has looked at it.", AWAY_S),
    Kind("message-failed", 503, "The message failed for good",
         "It is kept as a dead letter until an operator has looked at it."),
    Kind("graph-too-deep", 503, "The graph never stops to wait",
         "The graph went through more than 20 nodes in one turn: a -> b -> a; make it wait for the visitor somewhere "
         "on this path."),
    Kind("answer-failed", 503, "Answering the visitor failed",
         "No answer was saved. The server may try again."),
    Kind("stream-ended", 503, "The event stream ended", "The stream ended. Connect again."),
    Kind("definition-missing", 503, "The workflow of this conversation is not loaded",
         "Conversation '9f3c' is in workflow 'intake', which is not loaded."),
)  # fmt: skip

CATALOGUE: Mapping[str, Kind] = {kind.code: kind for kind in _ALL}


class Problem(Exception):
    """Raised where a request cannot go on, and sent as its response.

    `detail`: what to say instead of the catalogue's. `more`: extension members of the document. `status`: for the one
    kind that has no status of its own. `retry_after_s`: instead of the catalogue's.
    """

    def __init__(
        self,
        code: str,
        detail: str = "",
        *,
        status: int | None = None,
        more: Mapping[str, Any] | None = None,
        headers: Sequence[tuple[str, str]] = (),
        retry_after_s: int | None = None,
    ) -> None:
        kind = CATALOGUE[code]
        self.code = code
        self.status = status or kind.status
        self.title = kind.title
        self.detail = detail or kind.detail
        self.retry_after_s = kind.retry_after_s if retry_after_s is None else retry_after_s
        self.more = dict(more or {})
        self._headers = tuple(headers)
        super().__init__(f"{self.status} {self.title}: {self.detail}")

    def document(self, instance: str | None = None) -> dict[str, Any]:
        """`instance`: the path of the request that it is about."""
        told: dict[str, Any] = {
            "type": f"urn:inturn:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        if instance is not None:
            told["instance"] = instance
        return told | self.more

    def written(self, instance: str | None = None) -> bytes:
        """ASCII only, so that anything a client sent can be quoted back to it."""
        return json.dumps(self.document(instance)).encode("ascii")

    def headers(self) -> dict[str, str]:
        told = {"content-type": MEDIA_TYPE, "cache-control": "no-store", **dict(self._headers)}
        if self.retry_after_s is not None:
            told["retry-after"] = str(self.retry_after_s)
        return told

    async def send(self, send: Send, instance: str | None = None) -> None:
        body = self.written(instance)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers().items()]
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})


SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "A problem document (RFC 9457). Branch on its `code`.",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "format": "uri", "description": "`urn:inturn:problem:` and the code."},
        "title": {"type": "string", "description": "What the code stands for, in a few words."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "detail": {"type": "string", "description": "What happened, and what to do next."},
        "code": {"type": "string", "description": "Stable: programs can branch on it."},
        "instance": {"type": "string", "description": "The path of the request."},
        "errors": {
            "type": "array",
            "description": "For `invalid-request`: each field that is wrong.",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {
                    "field": {"type": "string", "description": "The name of the field."},
                    "message": {"type": "string", "description": "What is wrong with it."},
                },
            },
        },
    },
}
_EVERYWHERE = (
    "not-authenticated", "not-allowed", "cross-origin", "not-this-host", "body-timeout", "too-large",
    "headers-too-large", "invalid-request", "internal-error", "bad-request",
)  # fmt: skip


def documented(*codes: str) -> dict[int | str, dict[str, Any]]:
    """For `responses=` of a route: these problems and those of every route, by status, each code with an example."""
    by_status: dict[int, list[Kind]] = {}
    for code in (*codes, *_EVERYWHERE):
        kind = CATALOGUE[code]
        by_status.setdefault(kind.status, []).append(kind)
    return {status: _response(by_status[status]) for status in sorted(by_status)}


def _response(kinds: list[Kind]) -> dict[str, Any]:
    examples = {kind.code: {"summary": kind.code, "value": _example(kind)} for kind in kinds}
    response: dict[str, Any] = {
        "description": "; ".join(f"`{kind.code}`: {kind.title}" for kind in kinds),
        "content": {MEDIA_TYPE: {"schema": SCHEMA, "examples": examples}},
    }
    if any(kind.retry_after_s for kind in kinds):
        told = "Seconds to wait before repeating the request"
        response["headers"] = {"Retry-After": {"description": told, "schema": {"type": "integer"}}}
    return response


def _example(kind: Kind) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if kind.code == "invalid-request":
        field, _, message = kind.detail.partition(": ")
        more = {"errors": [{"field": field, "message": message}]}
    elif kind.code.startswith("agent-"):
        more = {"agent": "openai"}
    return Problem(kind.code, more=more).document("/the/path/of/the/request")
