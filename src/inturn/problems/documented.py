"""Problems as an OpenAPI description shows them: by status, each code with an example."""

from __future__ import annotations

from typing import Any

from inturn.problems.kinds import KINDS
from inturn.problems.problem import MEDIA_TYPE

SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "A problem document (RFC 9457). Decide by its `code`.",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "instance": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}
_EVERYWHERE = (
    "not-authenticated", "cross-origin", "not-this-host", "body-timeout", "too-large", "headers-too-large",
    "invalid-request", "internal-error", "bad-request",
)  # fmt: skip


def documented(*codes: str) -> dict[int | str, dict[str, Any]]:
    """For `responses=` of a route: these, and what every route can answer."""
    by_status: dict[int, list[str]] = {}
    for code in (*codes, *_EVERYWHERE):
        by_status.setdefault(KINDS[code].status, []).append(code)
    return {status: _response(by_status[status]) for status in sorted(by_status)}


def _response(codes: list[str]) -> dict[str, Any]:
    content = {"schema": SCHEMA, "examples": {code: {"summary": code, "value": _example(code)} for code in codes}}
    response: dict[str, Any] = {
        "description": "; ".join(f"`{code}`: {KINDS[code].title}" for code in codes),
        "content": {MEDIA_TYPE: content},
    }
    if any(KINDS[code].retry_after_s for code in codes):
        told = "Seconds after which a repeat may be taken"
        response["headers"] = {"Retry-After": {"description": told, "schema": {"type": "integer"}}}
    return response


def _example(code: str) -> dict[str, Any]:
    kind = KINDS[code]
    more: dict[str, Any] = {}
    if code == "invalid-request":
        field, _, message = kind.example.partition(": ")
        more = {"errors": [{"field": field, "message": message}]}
    elif code.startswith("agent-"):
        more = {"agent": "openai"}
    return kind.problem(kind.example, more=more).document("/api/v1/workflows/9f3c/turns")
