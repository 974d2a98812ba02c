"""The state of a lane as it is stored, read without a turn."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from inturn.app import InTurn
from inturn.errors import StateMismatch
from inturn.lanes.admin import LaneInfo
from inturn.lanes.codec import why_not

M = TypeVar("M", bound=BaseModel)


async def look(app: InTurn, key: str, kind: type[M]) -> tuple[M | None, LaneInfo]:
    """`None`: there is none. `StateMismatch` for one that other code has written."""
    info = await app.lanes.inspect(key, limit=1)
    return None if info.state is None else read(key, info.state, kind), info


def read(key: str, state: object, kind: type[M]) -> M:
    try:
        return kind.model_validate(state)
    except ValidationError as error:
        raise StateMismatch(key, why_not(error)) from error
