"""The second door of an agent: one prompt and one schema in, one validated object out, with what it cost.

`complete` is what callers use. An answer that is not valid is asked for once more, and the agent is told what was wrong
with it. What was billed is never lost: the answer or the error carries every call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Generic, Protocol, TypeVar, runtime_checkable
from uuid import uuid4

from pydantic import BaseModel, RootModel, ValidationError

from inturn.agents import storable
from inturn.agents.call import Watch, activities_of
from inturn.agents.failure import short
from inturn.agents.json_object import object_in
from inturn.agents.protocol import Agent, Ask, Said
from inturn.errors import AgentError, AgentUnavailable, ArgumentError

M = TypeVar("M", bound=BaseModel)

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_REPEATED = 8000
"""Characters of an invalid answer that the agent is shown again."""
_MAX_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """One call of a provider, as it was billed. Tokens are 0 where the provider does not tell them."""

    agent: str
    model: str
    tokens_in: int
    tokens_out: int
    ms: int


@dataclass(frozen=True, slots=True)
class Prompt(Generic[M]):
    """What an agent is asked for: an object of the model `answer`."""

    name: str
    """Of the capability; letters, digits, _ and -."""
    instructions: str
    """The system message. It holds nothing that a user wrote."""
    text: str
    """The user message: the user's words, set apart as data."""
    answer: type[M]
    check: Callable[[M], None] = lambda value: None
    """Raises `ValueError` for an answer that fits the schema and is wrong all the same. The agent is told why."""
    rules: Callable[[], M] | None = None
    """What the offline agent answers by."""
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ArgumentError("name", "must be 1 to 64 letters, digits, _ and -", self.name)
        if issubclass(self.answer, RootModel):
            raise ArgumentError("answer", "must be a model with fields: an answer is an object", self.answer)


@dataclass(frozen=True, slots=True)
class Completed(Generic[M]):
    """`agent`: who answered. `calls`: all that was paid for, re-asks included."""

    value: M
    agent: str
    calls: tuple[ProviderCall, ...]


@dataclass(frozen=True, slots=True)
class Invalid:
    """The first answer, shortened, and what is wrong with it."""

    text: str
    why: str

    def in_words(self) -> str:
        return f"That answer is not valid: {self.why}\nAnswer again with the whole JSON object, and nothing else."


Turn = Callable[[Invalid | None, list[ProviderCall]], Awaitable[str]]
"""Asks a provider once, for the first time or again, and returns its words. As soon as it is known what the call cost,
it is put into the list: also if the answer turns out to be none.
"""


@runtime_checkable
class Completes(Protocol):
    """An agent that has the second door itself."""

    async def complete(self, prompt: Prompt[M]) -> Completed[M]: ...


async def complete(agent: Agent, prompt: Prompt[M]) -> Completed[M]:
    """Returns the agent's answer to the prompt. An agent that can only `ask` is told in words what to write.

    Raises `AgentTimeout`, `AgentUnavailable` or `AgentRejected`, whose `calls` are what was billed.
    """
    if isinstance(agent, Completes):
        return await agent.complete(prompt)
    return await answered(agent.name, prompt, _by_words(agent, prompt))


async def answered(agent: str, prompt: Prompt[M], turn: Turn, watch: Watch | None = None) -> Completed[M]:
    """Asks, and asks once more if the answer is not valid. `watch` limits both together."""
    calls: list[ProviderCall] = []
    asked = _valid(agent, prompt, turn, calls)
    try:
        value = await (asked if watch is None else watch.limited(asked))
    except AgentError as error:
        error.calls = tuple(calls)
        raise
    return Completed(value, agent, tuple(calls))


@lru_cache(maxsize=128)
def schema_in_words(answer: type[BaseModel]) -> str:
    """Kept, because a schema takes milliseconds to make."""
    schema = json.dumps(answer.model_json_schema(), ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. It must fit this JSON schema:\n{schema}"


def validated(prompt: Prompt[M], found: object) -> M:
    """Raises `ValueError` if the model or the prompt's own check does not accept it."""
    # as JSON: a strict model reads a date from a text only there
    value = prompt.answer.model_validate_json(json.dumps(found))
    storable.must_be_finite(value)
    prompt.check(value)
    return value


def problem_of(error: ValueError) -> str:
    """Says in one short line what is wrong with an answer, without repeating the answer."""
    if not isinstance(error, ValidationError):
        return short(str(error))
    found = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{'.'.join(map(str, each['loc'])) or 'the object'}: {each['msg']}" for each in found[:_MAX_PROBLEMS]]
    more = len(found) - len(lines)
    return short("; ".join(lines) + (f"; and {more} more" if more else ""))


async def _valid(agent: str, prompt: Prompt[M], turn: Turn, calls: list[ProviderCall]) -> M:
    invalid = None
    for _ in range(2):
        text = await turn(invalid, calls)
        found = object_in(text)
        if found is None:
            why = "it holds no JSON object that can be read"
        else:
            try:
                return validated(prompt, found)
            except ValueError as error:
                why = problem_of(error)
        invalid = Invalid(storable.text(text, _MAX_REPEATED), why)
    raise AgentUnavailable(agent, "gave an answer that is not valid, twice", why)


def _by_words(agent: Agent, prompt: Prompt[M]) -> Turn:
    """Asks in free chat, in a conversation of its own. Everything is in the query: some providers take nothing else."""
    query = "\n\n".join(part for part in (prompt.instructions, schema_in_words(prompt.answer), prompt.text) if part)
    first = Ask(f"completion-{uuid4()}", query, prompt.text)

    async def turn(invalid: Invalid | None, calls: list[ProviderCall]) -> str:
        ask = first
        if invalid is not None:
            again = invalid.in_words()
            history = (Said("user", query), Said("assistant", invalid.text))
            # the memory is that of the first: a provider that keeps conversations goes on with this one
            ask = Ask(first.conversation_id, again, again, history=history, memory=first.memory)
        began = perf_counter()
        texts = [activity.text async for activity in activities_of(agent, ask) if activity.type == "message"]
        calls.append(ProviderCall(agent.name, agent.name, 0, 0, ms_since(began)))
        return "\n".join(texts)

    return turn


def ms_since(began: float) -> int:
    return round((perf_counter() - began) * 1000)
