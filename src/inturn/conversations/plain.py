"""The plain layout that other services share: `wf:{conversation_id}` holds the state as JSON, with a life.

It is a thin store of gets and sets without any guard. The orchestrator reads it for sessions that it does not have
itself, and adopts them at their first turn.
"""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import ValidationError

from inturn.conversations.state import WorkflowState
from inturn.errors import StateMismatch, StoreUnavailable
from inturn.lanes.codec import why_not
from inturn import arguments

PREFIX = "wf:"


class WorkflowStateStore(Protocol):
    async def get(self, conversation_id: str) -> WorkflowState | None: ...

    async def set(self, conversation_id: str, state: WorkflowState) -> None: ...

    async def delete(self, conversation_id: str) -> None: ...


class RedisWorkflowStateStore:
    """Over a `redis.asyncio.Redis` (or one that answers the same). Every `set` renews the life."""

    def __init__(self, redis: Any, ttl_seconds: float = 86_400) -> None:
        self._redis = redis
        self._life_ms = round(arguments.seconds(ttl_seconds, "ttl_seconds") * 1000)

    async def get(self, conversation_id: str) -> WorkflowState | None:
        """Raises `StateMismatch` for what is no state of a workflow, rather than work with half of it."""
        key = _key(conversation_id)
        written = await _told(self._redis.get(key))
        if written is None:
            return None
        try:
            state = WorkflowState.model_validate_json(written)
        except ValidationError as error:
            raise StateMismatch(key, why_not(error), is_lane=False) from error
        if state.conversation_id != conversation_id:
            raise StateMismatch(key, f"conversation_id: is {state.conversation_id!r}", is_lane=False)
        return state

    async def set(self, conversation_id: str, state: WorkflowState) -> None:
        await _told(self._redis.set(_key(conversation_id), state.model_dump_json(), px=self._life_ms))

    async def delete(self, conversation_id: str) -> None:
        await _told(self._redis.delete(_key(conversation_id)))


def _key(conversation_id: str) -> str:
    return PREFIX + arguments.name(conversation_id, "conversation_id")


async def _told(call: Any) -> Any:
    from redis.exceptions import RedisError  # its client was made by the caller, so it is installed

    try:
        return await call
    except (RedisError, OSError, TimeoutError) as error:
        raise StoreUnavailable(f"the plain store of workflow states did not answer: {error}") from error
