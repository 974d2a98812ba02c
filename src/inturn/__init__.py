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
from inturn.locks.conversation import ConversationLock
from inturn.locks.lease import Lease
from inturn.locks.lock import Lock
from inturn.locks.managers import AsyncDistributedLockManager, DistributedLockManager
from inturn.locks.quorum import Quorum, QuorumLock
from inturn.locks.quorum_lease import QuorumLease
from inturn.locks.visitor import VisitorLock, VisitorLockService

__all__ = [
    "AlreadyHeld",
    "AsyncDistributedLockManager",
    "ConversationLock",
    "ConversationLockError",
    "DeadlockDetected",
    "DistributedLockManager",
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
    "Quorum",
    "QuorumLease",
    "QuorumLock",
    "SettingsError",
    "StoreUnavailable",
    "VisitorLock",
    "VisitorLockService",
]
