"""One chunk of a streamed chat completion, as the endpoints really write it: any part of it may be missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from inturn.agents.failure import by_status
from inturn.errors import AgentError, AgentRejected, AgentUnavailable


class Chunk(NamedTuple):
    """What a chunk adds to the answer and to a refusal, and why the answer ends with it, if it does."""

    text: str = ""
    refusal: str = ""
    finish: str = ""


def read_chunk(agent: str, chunk: Any, said: Callable[[str], str]) -> Chunk:
    """`said` makes what an endpoint says fit to be told."""
    if getattr(chunk, "object", None) == "error":  # vLLM before 0.10: an error that is a chunk, not inside of one
        raise stream_error(agent, getattr(chunk, "code", None), said(str(getattr(chunk, "message", ""))))
    for choice in chunk.choices or ():
        if choice.index:  # only the first was asked for
            continue
        if choice.finish_reason == "content_filter":
            raise AgentRejected(agent, "refused to answer", "content_filter")
        delta = choice.delta  # Azure's asynchronous filter sends choices without one
        content, refusal = (delta.content, delta.refusal) if delta is not None else (None, None)
        return Chunk(_text(content), refusal or "", choice.finish_reason or "")
    return Chunk()  # the chunk that carries the usage has no choice


def _text(content: Any) -> str:
    """Mistral's reasoning models send a list of parts, thoughts among them."""
    if not isinstance(content, list):
        return content or ""
    parts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "".join(part for part in parts if isinstance(part, str))


def stream_error(agent: str, code: object, said: str) -> AgentError:
    """An error that came when the status had been told already: vLLM and LiteLLM give the status as its code."""
    if isinstance(code, int | str) and str(code).isdecimal() and 400 <= int(code) <= 599:
        return by_status(agent, int(code), said)
    return AgentUnavailable(agent, "broke off with an error", said)
