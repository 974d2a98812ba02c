"""inturn: every conversation, in turn.

Locks that are granted in order, fenced, kept alive by a heartbeat, and that cancel the body when they are lost; on
SQLite or Redis. `inturn.sync` is the same for synchronous code.
"""

from inturn.app import InTurn
from inturn.errors import (
    AlreadyHeld,
    ConversationLockError,
    DeadlockDetected,
    InTurnError,
    LeaseLost,
    LockError,
    LockMismatch,
    LockTimeout,
    MissingExtra,
    NotHeld,
    SettingsError,
    StoreUnavailable,
)
from inturn.locks.lease import Lease
from inturn.locks.lock import Lock

__all__ = [
    "AlreadyHeld",
    "ConversationLockError",
    "DeadlockDetected",
    "InTurn",
    "InTurnError",
    "Lease",
    "LeaseLost",
    "Lock",
    "LockError",
    "LockMismatch",
    "LockTimeout",
    "MissingExtra",
    "NotHeld",
    "SettingsError",
    "StoreUnavailable",
]
