"""What the providers write: server-sent events of OpenAI's chat completions and of Copilot Studio."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.agents.provider import SSE, Request, Script, Wire

DONE = b"data: [DONE]\n\n"


def event(data: object, kind: str = "") -> bytes:
    """Characters are written as they are, but for halves of pairs: these have no UTF-8."""
    name = f"event: {kind}\n".encode() if kind else b""
    try:
        written = json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        written = json.dumps(data).encode()
    return name + b"data: " + written + b"\n\n"


def delta(content: str | None = None, *, finish: str | None = None, **more: Any) -> bytes:
    """One chunk of a chat completion."""
    given = {**({} if content is None else {"content": content}), **more}
    return event({
        "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": given, "finish_reason": finish}],
    })  # fmt: skip


def completion(*contents: str, finish: str = "stop") -> bytes:
    """A whole stream, as the endpoint writes it: role first, usage last."""
    usage = event({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [],
                   "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})  # fmt: skip
    body = b"".join(delta(content) for content in contents)
    return delta("", role="assistant") + body + delta(finish=finish) + usage + DONE


def whole(content: object, *, finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    """A completion that is not streamed. `more` replaces what it says beside its message."""
    message = {"role": "assistant", "content": content}
    return {
        "id": "c1", "object": "chat.completion", "created": 1, "model": "m-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    } | more  # fmt: skip


def activity(**fields: Any) -> bytes:
    """One activity of Copilot Studio."""
    return event({"type": "message", "from": {"id": "b", "role": "bot"}, "conversation": {"id": "c-1"}, **fields},
                 "activity")  # fmt: skip


END = b"event: end\ndata: end\n\n"


def says(*chunks: bytes, **headers: str) -> Script:
    """An endpoint that always streams these bytes, in these chunks."""

    async def script(request: Request, wire: Wire) -> None:
        await wire.head(200, content_type=SSE, **headers)
        for chunk in chunks:
            await wire.chunk(chunk)
        await wire.end()

    return script


def answers(status: int, body: object, **headers: str) -> Script:
    async def script(request: Request, wire: Wire) -> None:
        await wire.whole(status, body, **headers)

    return script


def in_turn(scripts: Iterable[Script]) -> Script:
    """Each request gets the next script."""
    rest = iter(scripts)

    async def script(request: Request, wire: Wire) -> None:
        await next(rest)(request, wire)

    return script
