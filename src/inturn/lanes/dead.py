"""`app.dead_letters`: messages that failed for good, kept with their errors until someone acts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from inturn.lanes import text
from inturn import arguments
from inturn.process.process import Process
from inturn.store.lane import ident_of
from inturn.store.views import DeadView


@dataclass(frozen=True, slots=True)
class DeadLetter:
    key: str
    handler: str
    id: str
    body: Any
    attempts: int
    accepted_at: float
    """Seconds since the epoch, by the store's clock."""
    died_at: float
    errors: tuple[dict[str, Any], ...]


class DeadLetters:
    def __init__(self, process: Process) -> None:
        self._process = process

    async def list(self, limit: int = 1000) -> list[DeadLetter]:
        """The oldest first."""
        await self._process.ready()
        found = await self._process.store.dead(arguments.whole(limit, "limit", 1, 1_000_000))
        return [_letter(view) for view in found]

    async def show(self, key: str, handler: str, message_id: str) -> DeadLetter | None:
        await self._process.ready()
        view = await self._process.store.dead_letter(*_place(key, handler, message_id))
        return None if view is None else _letter(view)

    async def replay(self, key: str, handler: str, message_id: str) -> bool:
        """Back into its lane, at its old place, past the duplicate check, with all its attempts. `False`: not there."""
        await self._process.ready()
        return await self._process.store.replay(*_place(key, handler, message_id))

    async def drop(self, key: str, handler: str, message_id: str) -> bool:
        """Gone for good. `False`: not there."""
        await self._process.ready()
        return await self._process.store.drop(*_place(key, handler, message_id))


def _place(key: str, handler: str, message_id: str) -> tuple[str, str]:
    named = arguments.name(handler, "handler"), arguments.name(message_id, "message_id")
    return arguments.name(key, "key"), ident_of(*named)


def _letter(view: DeadView) -> DeadLetter:
    errors = tuple(json.loads(error) for error in view.errors)
    return DeadLetter(
        view.key, view.handler, view.id, text.read(view.body), view.attempts, view.accepted_ms / 1000,
        view.died_ms / 1000, errors,
    )  # fmt: skip
