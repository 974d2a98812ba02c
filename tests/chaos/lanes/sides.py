"""The two sides behind one face, so that clients, workers and the look at the end are the same for both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

Entry = dict[str, Any]
WrittenOff = Literal["superseded", "cancelled"]
"""Of a message that will never run."""
InlineOutcome = Literal["committed", "refused", "unknown"]
"""`refused`: it was said that nothing was done. `unknown`: it was not said."""


class Slip(Protocol):
    """What the submitter of a message holds."""

    async def result(self, timeout: float) -> Entry:
        """`TimeoutError` if there is none yet, `HandlerFailed` for a dead letter, `ResultExpired` if it is unknown,
        `Superseded` and `MessageCancelled` if it will never have one.
        """
        ...

    async def cancel(self) -> bool: ...


class Side(Protocol):
    async def submit(self, key: str, handler: str, message_id: str, number: int) -> Slip:
        """Returns when it is acknowledged; `StoreUnavailable`: it may be there."""
        ...

    async def inline(self, key: str, message_id: str, body: Callable[[], Awaitable[None]]) -> InlineOutcome: ...

    async def work(self, started: Callable[[], None]) -> None:
        """Until SIGTERM."""
        ...

    async def holders(self) -> list[int]:
        """The processes that hold a lane now."""
        ...

    async def left(self) -> list[str]:
        """What is still to be done, or was left behind; nothing when all has drained."""
        ...

    async def state(self, key: str) -> dict[str, Any]: ...

    async def result(self, key: str, handler: str, message_id: str) -> Entry | WrittenOff | None: ...

    async def dead(self) -> set[tuple[str, str, str]]:
        """Dead letters: key, handler, id."""
        ...

    async def close(self) -> None: ...
