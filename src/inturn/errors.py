"""Every error that inturn raises on purpose. A backend's own exception never leaves `store/`.

    InTurnError
    ├── SettingsError          a variable, URL or argument of the set-up is wrong (also ValueError)
    │   └── MissingExtra       an optional dependency is not installed; names the extra
    ├── StoreUnavailable       the store is away, refuses, or did not answer in time
    └── LockError
        ├── LockTimeout        not granted within `wait`; plain, retryable
        ├── LockMismatch       the name is in use with another capacity
        ├── AlreadyHeld        this owner holds the name already (see `reentrant=True`)
        ├── NotHeld            releasing or extending what is not held
        ├── LeaseLost          the lease ended under a running body
        ├── DeadlockDetected   a cycle of waits; this waiter was chosen to give way
        └── ConversationLockError   the conversation is being answered by someone else

Bad arguments raise `ValueError` or `TypeError` that name the field and the value.
"""

from __future__ import annotations


class InTurnError(Exception):
    """The root of the tree."""


class SettingsError(InTurnError, ValueError):
    """Something in the set-up is wrong; the message names it and says what to do."""


class MissingExtra(SettingsError):
    """An optional dependency is missing."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra {extra!r}: pip install 'inturn[{extra}]'")
        self.extra = extra


class StoreUnavailable(InTurnError):
    """The store did not take the call. Nothing is assumed; `__cause__` says why."""


class LockError(InTurnError):
    """The root of the lock errors."""


class LockTimeout(LockError):
    """The lock was not granted in the time that the caller was willing to wait."""

    def __init__(self, name: str, waited_s: float, holder: str | None = None) -> None:
        by = f"; held by {holder}" if holder else ""
        super().__init__(f"lock {name!r} was not granted within {waited_s:.3g} s{by}")
        self.name = name
        self.waited_s = waited_s
        self.holder = holder


class LockMismatch(LockError):
    """The name is in use with another capacity, so the two callers mean different locks."""

    def __init__(self, name: str, asked: int, found: int) -> None:
        super().__init__(
            f"{name!r} is in use with a capacity of {found}, and {asked} was asked for: "
            "use one kind of lock (and one number of permits) for one name"
        )
        self.name = name
        self.asked = asked
        self.found = found


class AlreadyHeld(LockError):
    """The owner asked for a lock that it holds itself: waiting for it would never end."""

    def __init__(self, name: str, owner: str) -> None:
        super().__init__(
            f"{owner} already holds {name!r} and would wait for itself; release it first, "
            "or make the lock with reentrant=True"
        )
        self.name = name
        self.owner = owner


class NotHeld(LockError):
    """There is nothing to release or extend."""

    def __init__(self, name: str, why: str = "this owner does not hold it") -> None:
        super().__init__(f"lock {name!r} is not held: {why}")
        self.name = name


class LeaseLost(LockError):
    """The lease ended while its body ran. What the body wrote elsewhere may be stale: use the fence."""

    def __init__(self, name: str, fence: int, why: str) -> None:
        super().__init__(f"the lease on {name!r} (fence {fence}) was lost: {why}")
        self.name = name
        self.fence = fence
        self.why = why


class DeadlockDetected(LockError):
    """A cycle of waits was seen twice; the youngest waiter of it gives way."""

    def __init__(self, name: str, cycle: list[str]) -> None:
        super().__init__(f"waiting for {name!r} would never end: {' -> '.join(cycle)}")
        self.name = name
        self.cycle = cycle


class ConversationLockError(LockError):
    """The conversation's lock is held by someone else."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"conversation {conversation_id!r} is being answered already; try again later")
        self.conversation_id = conversation_id
