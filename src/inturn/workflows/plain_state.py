"""The plain layout of workflow states that other services share: `wf:{conversation_id}` holds JSON, and expires.

`read_state` takes what any of them wrote: camelCase or snake_case, with or without a conversation id, a definition and
an owner. Whoever adopts the state fills in what is not there. `RedisWorkflowStateStore` only gets and sets: no guard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, get_args

from pydantic import ValidationError
from pydantic_core import from_json

from inturn import arguments
from inturn.compat import plain
from inturn.errors import SettingsError, StateMismatch, StoreUnavailable
from inturn.lanes.codec import why_not
from inturn.workflows.state import UNKNOWN, BusyTurn, Status, WorkflowState

PLAIN_PREFIX = "wf:"

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SIGNS = ("collected_data", "status", "current_step", "phase", "turn_count", "history")
"""Whatever has none of these is no state of a workflow."""
_OTHER_NAMES = {
    "collected_data": ("collected", "data"),
    "phase": ("current_phase",),
    "history": ("messages", "turns"),
    "definition": ("definition_id", "workflow_definition", "workflow_id", "workflow"),
    "suggested_input_type": ("input_type",),
}
_STATUSES: dict[str, Status] = {
    "completed": "completed", "complete": "completed", "done": "completed", "finished": "completed",
    "error": "error", "failed": "error",
}  # fmt: skip
_WRONG_TYPE = "WRONGTYPE"
"""How Redis begins its error for a key that holds a hash, a list or a set."""
_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "bot": "assistant", "agent": "assistant"}


class WorkflowStateStore(Protocol):
    async def get(self, conversation_id: str) -> WorkflowState | None: ...

    async def set(self, conversation_id: str, state: WorkflowState) -> None: ...

    async def delete(self, conversation_id: str) -> None: ...


class RedisWorkflowStateStore:
    """Works over an `inturn.InTurn` on Redis, a `redis.asyncio.Redis`, or anything with the same methods.

    Every `set` renews the time to live.
    """

    def __init__(self, redis: Any, ttl_seconds: float = 86_400) -> None:
        self._keys: _Keys = _AppKeys(redis) if plain.is_app(redis) else _ClientKeys(redis)
        self._ttl_ms = round(arguments.seconds(ttl_seconds, "ttl_seconds") * 1000)

    async def get(self, conversation_id: str) -> WorkflowState | None:
        """Raises `StateMismatch` for what is not a state of this conversation."""
        try:
            written = await self._keys.get(_key(conversation_id))
        except StoreUnavailable as error:
            if _WRONG_TYPE not in str(error):
                raise
            # the store is there: asking again would never help
            raise StateMismatch(PLAIN_PREFIX + conversation_id, "is no string", is_lane=False) from error
        return None if written is None else read_state(conversation_id, written)

    async def set(self, conversation_id: str, state: WorkflowState) -> None:
        await self._keys.set(_key(conversation_id), state.model_dump_json(), self._ttl_ms)

    async def delete(self, conversation_id: str) -> None:
        await self._keys.delete(_key(conversation_id))


def read_state(conversation_id: str, written: str | bytes) -> WorkflowState:
    """Raises `StateMismatch` for what is not a state of this conversation."""
    try:
        found = from_json(written)
        if not isinstance(found, dict):
            raise ValueError("is no object")
        state = WorkflowState.model_validate(_in_our_words(conversation_id, found))
    except (ValidationError, ValueError) as error:
        raise StateMismatch(PLAIN_PREFIX + conversation_id, why_not(error), is_lane=False) from error
    if state.conversation_id != conversation_id:
        problem = f"conversation_id: is {state.conversation_id!r}"
        raise StateMismatch(PLAIN_PREFIX + conversation_id, problem, is_lane=False)
    return state


def _in_our_words(conversation_id: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """What was collected and counted must be right. What only helps is left out where it cannot be read: where the
    workflow stands, for one, is computed from its data.
    """
    given = _snake(found)
    for name, others in _OTHER_NAMES.items():
        other = next((other for other in others if other in given), None)
        if name not in given and other is not None:
            given[name] = given[other]
    if isinstance(given.get("turns"), int):  # a list of turns is a history
        given.setdefault("turn_count", given["turns"])
    if not any(sign in given for sign in _SIGNS):
        raise ValueError(f"has none of {', '.join(_SIGNS)}")
    must_fit = ("collected_data", "turn_count")
    told = {name: value for name, value in given.items() if name in must_fit or _HELPS.get(name, _never)(value)}
    return told | {
        "conversation_id": _string(given.get("conversation_id")) or conversation_id,
        "definition": _definition(given.get("definition")),
        "owner": _owner(given),
        "status": _STATUSES.get(str(given.get("status")).casefold(), "active"),
        "history": [line for line in map(_line, _list(given.get("history"))) if line is not None],
    }


def _never(value: Any) -> bool:
    return False


_HELPS: dict[str, Callable[[Any], bool]] = {
    "current_step": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    "phase": lambda value: isinstance(value, str),
    "last_recommendation": lambda value: isinstance(value, str),
    "suggested_input_type": lambda value: isinstance(value, str),
    "choices": lambda value: isinstance(value, list) and all(isinstance(choice, str) for choice in value),
    "busy": lambda value: value in get_args(BusyTurn),
    "memory": lambda value: isinstance(value, dict),
    "answered": lambda value: isinstance(value, dict) and all(isinstance(turn, str) for turn in value.values()),
}


def _snake(found: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves out what is null. Of two spellings, the one in snake_case counts."""
    given = {name: value for name, value in found.items() if value is not None}
    return {_HUMP.sub("_", name).lower(): value for name, value in given.items()} | given


def _definition(given: Any) -> str:
    return _string(_snake(given).get("id") if isinstance(given, dict) else given)


def _string(value: Any) -> str:
    return value if isinstance(value, str) else UNKNOWN


def _owner(given: Mapping[str, Any]) -> dict[str, str]:
    """An owner by itself, or the user and the tenant beside everything else.

    Raises `ValueError` if there is one that cannot be read: a state without an owner goes to whoever asks first.
    """
    owner = given.get("owner", UNKNOWN)
    parts = _snake(owner) if isinstance(owner, dict) else {"user_id": owner}
    tenant = _tenant(given, parts)
    if not any(value != UNKNOWN for value in parts.values()):
        return {"user_id": _first_id(given, *_USERS), "tenant_id": tenant}
    user = _first_id(parts, *_USERS, "id")
    if user == UNKNOWN:
        raise ValueError("owner: its user cannot be read")
    return {"user_id": user, "tenant_id": tenant}


_USERS = ("user_id", "user", "owner_id")
_TENANTS = ("tenant_id", "tenant")


def _tenant(*holders: Mapping[str, Any]) -> str:
    """Finds the tenant beside everything else, in the owner, or in either one's user."""
    users = [holder[name] for holder in holders for name in (*_USERS, "id") if isinstance(holder.get(name), dict)]
    everywhere = [*holders, *map(_snake, users)]
    named = {_id_of(holder[name], *_TENANTS) for holder in everywhere for name in _TENANTS if name in holder}
    named.discard(UNKNOWN)
    if len(named) > 1:
        raise ValueError("owner: its tenant cannot be read, because several are named")
    return named.pop() if named else UNKNOWN


def _first_id(parts: Mapping[str, Any], *names: str) -> str:
    found = next((parts[name] for name in names if parts.get(name, UNKNOWN) != UNKNOWN), UNKNOWN)
    return _id_of(found, *names)


def _id_of(value: Any, *names: str) -> str:
    """Reads an id, or the id of an object, which is its `id` or has one of these names."""
    if isinstance(value, dict):
        inner = _snake(value)
        value = next((inner[name] for name in ("id", *names) if name in inner), None)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"owner: its {names[0]} cannot be read")
    return value


def _line(given: Any) -> dict[str, str] | None:
    if not isinstance(given, dict):
        return None
    role, text = _ROLES.get(str(given.get("role")).casefold()), given.get("text", given.get("content"))
    return {"role": role, "text": text} if role and isinstance(text, str) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _key(conversation_id: str) -> str:
    return PLAIN_PREFIX + arguments.name(conversation_id, "conversation_id")


class _Keys(Protocol):
    async def get(self, key: str) -> str | bytes | None: ...

    async def set(self, key: str, value: str, life_ms: int) -> None: ...

    async def delete(self, key: str) -> None: ...


class _AppKeys:
    """Over the app's own connection; redis-py is not needed."""

    def __init__(self, app: plain.App) -> None:
        if not callable(getattr(app.process.store, "command", None)):
            raise SettingsError(
                "states of other services are in Redis, and this store is none: there is nothing to adopt"
            )
        self._command = plain.AppCommands(app.process).command

    async def get(self, key: str) -> str | bytes | None:
        found: bytes | None = await self._command("GET", key)
        return found

    async def set(self, key: str, value: str, life_ms: int) -> None:
        await self._command("SET", key, value, "PX", life_ms)

    async def delete(self, key: str) -> None:
        await self._command("DEL", key)


class _ClientKeys:
    def __init__(self, client: Any) -> None:
        self._client = client

    async def get(self, key: str) -> str | bytes | None:
        found: str | bytes | None = await _reached(self._client.get(key))
        return found

    async def set(self, key: str, value: str, life_ms: int) -> None:
        await _reached(self._client.set(key, value, px=life_ms))

    async def delete(self, key: str) -> None:
        await _reached(self._client.delete(key))


async def _reached(call: Any) -> Any:
    from redis.exceptions import RedisError  # the caller made the client, so redis is installed

    try:
        return await call
    except (RedisError, OSError, TimeoutError) as error:
        raise StoreUnavailable(f"the plain store of workflow states did not answer: {error}") from error
