"""What an endpoint is told for a completion, and what it tells: the messages, a strict schema, the tokens it counted.

Strict as OpenAI means it: every property is required, nothing else is allowed, and only the words that every endpoint
knows are used. Lengths, ranges, patterns and formats are left out; the model checks them when the answer is there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from inturn.agents import storable
from inturn.agents.completion import Invalid, M, Prompt, ProviderCall, schema_in_words

_KEPT = ("type", "enum", "description")


class _NotStrict(Exception):
    """Something in a schema cannot be said strictly."""


def completion_request(prompt: Prompt[M], invalid: Invalid | None, *, in_words: bool) -> dict[str, Any]:
    """Returns the messages, and the schema unless it is told in words. An invalid answer stands before its re-ask."""
    system = [prompt.instructions, schema_in_words(prompt.answer) if in_words else ""]
    messages = [
        {"role": "system", "content": "\n\n".join(part for part in system if part)},
        {"role": "user", "content": prompt.text},
    ]
    if invalid is not None:
        messages += [
            {"role": "assistant", "content": invalid.text},
            {"role": "user", "content": invalid.in_words()},
        ]
    request: dict[str, Any] = {"messages": [message for message in messages if message["content"]]}
    if not in_words:
        written = {"name": prompt.name, **_schema(prompt.answer)}
        request["response_format"] = {"type": "json_schema", "json_schema": written}
    return request


MAX_TOKENS = 10**9
"""Of one call. Who counts more counts wrong."""


def provider_call(agent: str, model: str, response: Any, ms: int) -> ProviderCall:
    """Reads what the call cost. Whatever is missing or odd counts as 0; a response without a model used ours."""
    usage, named = getattr(response, "usage", None), getattr(response, "model", None)
    used = storable.text(named, 200) if isinstance(named, str) and named else model
    return ProviderCall(agent, used, _tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens"), ms)


def _tokens(usage: Any, name: str) -> int:
    given = getattr(usage, name, None)
    return given if isinstance(given, int) and not isinstance(given, bool) and 0 < given <= MAX_TOKENS else 0


@lru_cache(maxsize=128)
def _schema(answer: type[BaseModel]) -> dict[str, Any]:
    """Returns the schema, and whether it is strict. Kept, because it takes milliseconds to make."""
    schema = answer.model_json_schema()
    try:
        return {"strict": True, "schema": _strict_root(schema)}
    except _NotStrict:  # a map with names of any kind, or a value of any type
        return {"strict": False, "schema": schema}


def _strict_root(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.get("$defs", {})
    if "$ref" in schema:  # a model that contains itself; the root must be an object
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    made = _strict(schema)
    if definitions:
        made["$defs"] = {name: _strict(inner) for name, inner in definitions.items()}
    return made


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {word: schema[word] for word in _KEPT if word in schema}
    choices = schema.get("anyOf") or schema.get("oneOf")
    if "$ref" in schema:
        # nothing may stand beside a reference
        reference = {"$ref": schema["$ref"]}
        return {"anyOf": [reference], **made} if made else reference
    if choices:
        made["anyOf"] = [_strict(inner) for inner in choices]
    elif "const" in schema:
        made["enum"] = [schema["const"]]
    elif schema.get("type") == "object":
        if "properties" not in schema or schema.get("additionalProperties"):
            raise _NotStrict
        properties = {name: _strict(inner) for name, inner in schema["properties"].items()}
        made |= {"properties": properties, "required": list(properties), "additionalProperties": False}
    elif schema.get("type") == "array":
        if "items" not in schema or "prefixItems" in schema:
            raise _NotStrict
        made["items"] = _strict(schema["items"])
    elif "type" not in schema and "enum" not in schema:
        raise _NotStrict
    return made
