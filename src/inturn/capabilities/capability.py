"""What the AI service can be asked for. A capability is registered in code, under a name that jobs carry.

What leaves `execute_capability` fits the capability's output model: anything else is the provider's error.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from inturn import arguments
from inturn.agents import completion, storable
from inturn.agents.completion import M, Prompt, ProviderCall
from inturn.agents.protocol import Agent
from inturn.capabilities.guard import check_input
from inturn.errors import AgentError, AgentUnavailable, ArgumentError, UnknownCapability

I = TypeVar("I", bound=BaseModel)  # noqa: E741
O = TypeVar("O", bound=BaseModel)  # noqa: E741

BESIDE_THE_INPUT = frozenset({"callback_url", "user_id", "token_reservation"})
"""What a request carries beside the fields of the input, in the same body."""
MAX_GUARDED = 10_000
"""Characters of a guarded field. The guard looks at them on the event loop, and takes up to 15 µs for each."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MAX_SHOWN = 3


class AgentCalls:
    """What a handler asks the agent through. `made`: every call that was billed so far."""

    def __init__(self, agent: Agent, now: datetime) -> None:
        self.now = now
        self.made: list[ProviderCall] = []
        self.answered_by = agent.name
        self._agent = agent

    async def complete(self, prompt: Prompt[M]) -> M:
        try:
            completed = await completion.complete(self._agent, prompt)
        except AgentError as error:
            self.made += error.calls  # a handler may go on without the answer, but it was paid for
            raise
        self.made += completed.calls
        self.answered_by = completed.agent
        return completed.value


@dataclass(frozen=True, slots=True)
class Capability(Generic[I, O]):
    """`prompt` gets the input and the time (aware, UTC); `handler` the input and what to ask the agent through."""

    name: str
    input: type[I]
    output: type[O]
    prompt: Callable[[I, datetime], Prompt[Any]]
    handler: Callable[[I, AgentCalls], Awaitable[O]]
    estimate: int | Callable[[I], int]
    """How many tokens a call will use, for reservations."""
    guarded: tuple[str, ...] = ()
    """The fields of the input that hold what a user wrote. The input guard looks at them."""

    def guard(self, given: I) -> None:
        """Raises `InputRefused` if a guarded field holds what looks like an attack on the prompt."""
        for field in self.guarded:
            value = getattr(given, field)
            if isinstance(value, str):
                check_input(value)

    def tokens(self, given: I) -> int:
        return self.estimate(given) if callable(self.estimate) else self.estimate


@dataclass(frozen=True, slots=True)
class Executed(Generic[O]):
    """`agent`: who answered. `calls`: all that was paid for, in order."""

    result: O
    agent: str
    calls: tuple[ProviderCall, ...]


class Capabilities:
    """The capabilities of this process, by name."""

    def __init__(self) -> None:
        self._known: dict[str, Capability[Any, Any]] = {}

    def register(self, capability: Capability[Any, Any]) -> None:
        name = capability.name
        if not _NAME.fullmatch(name):
            raise ArgumentError(
                "name", "must be 1 to 64 letters, digits, _ or -, and begin with a letter or digit", name
            )
        if name in self._known:
            raise ArgumentError("name", "is registered already", name)
        fields = set(capability.input.model_fields)
        fields |= {str(each.alias) for each in capability.input.model_fields.values() if each.alias}
        if taken := sorted(fields & BESIDE_THE_INPUT):
            raise ArgumentError("input", f"has a field {taken[0]!r}, which a request carries beside the input")
        if unknown := sorted(set(capability.guarded) - set(capability.input.model_fields)):
            raise ArgumentError("guarded", f"names {unknown[0]!r}, which is no field of the input")
        for field in capability.guarded:
            if not _is_bounded(capability.input, field):
                raise ArgumentError(
                    "guarded", f"names {field!r}, which needs a max_length of {MAX_GUARDED} or less: a long text would "
                    "keep everybody else waiting while the guard reads it",
                )  # fmt: skip
        if not callable(capability.estimate):
            arguments.whole(capability.estimate, "estimate", 0, 10**9)
        self._known[name] = capability

    def get(self, name: str) -> Capability[Any, Any]:
        try:
            return self._known[name]
        except KeyError:
            raise UnknownCapability(name, self.names) from None

    @property
    def names(self) -> list[str]:
        return sorted(self._known)


def _is_bounded(model: type[BaseModel], field: str) -> bool:
    described = model.model_json_schema(by_alias=False)["properties"][field]
    kinds = [kind for kind in described.get("anyOf", [described]) if kind.get("type") == "string"]
    return all(kind.get("maxLength", MAX_GUARDED + 1) <= MAX_GUARDED for kind in kinds)


async def execute_capability(capability: Capability[I, O], given: I, *, agent: Agent, now: datetime) -> Executed[O]:
    """Runs the handler. Whatever it raises carries in `calls` what was paid for until then."""
    if now.utcoffset() is None:
        raise ArgumentError("now", "must have a time zone", now)
    asked = AgentCalls(agent, now)
    try:
        result = await capability.handler(given, asked)
        return Executed(_checked(capability, result, asked.answered_by), asked.answered_by, tuple(asked.made))
    except Exception as error:
        error.calls = tuple(asked.made)  # type: ignore[attr-defined]
        raise


def _checked(capability: Capability[I, O], result: object, agent: str) -> O:
    # an instance may have been made without validation, so its content is what is checked
    content = result.model_dump() if isinstance(result, BaseModel) else result
    try:
        checked = capability.output.model_validate(content)
        storable.must_be_finite(checked)
        return checked
    except storable.NotStorable as error:
        raise AgentUnavailable(agent, f"gave a result that does not fit {capability.name!r}", str(error)) from error
    except ValidationError as error:
        wrong = [".".join(map(str, each["loc"])) or "the result" for each in error.errors()[:_MAX_SHOWN]]
        why = f"gave a result that does not fit {capability.name!r} ({', '.join(wrong)})"
        raise AgentUnavailable(agent, why) from error
