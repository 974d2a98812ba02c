"""inturn: every conversation, in turn.

Every key gets a lane: one turn at a time, in order, committed exactly once, across any number of processes. Beneath the
lanes are locks that are granted in order, fenced, and kept alive by a heartbeat. On SQLite or Redis.

Here is what a first program needs. All errors are in `inturn.errors`; the same for synchronous code is `inturn.sync`;
tests of your own begin with `inturn.testing`; the rest is in `inturn.workflows`, `inturn.visitors`, `inturn.jobs`,
`inturn.capabilities`, `inturn.agents`, `inturn.locks.quorum` and `inturn.compat`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from inturn.app import InTurn
from inturn.compat.conversation import ConversationLock
from inturn.compat.dedup import AsyncMessageDeduplicationManager, MessageDeduplicationManager
from inturn.compat.managers import AsyncDistributedLockManager, DistributedLockManager
from inturn.compat.visitor import VisitorLockService
from inturn.errors import (
    ArgumentError,
    BadMessage,
    CommitUnknown,
    ConversationLockError,
    DuplicateMessage,
    HandlerFailed,
    Interrupted,
    InTurnError,
    LaneBusy,
    LaneTimeout,
    LeaseLost,
    LockTimeout,
    MailboxFull,
    MessageCancelled,
    NotHeld,
    Retry,
    SettingsError,
    Stop,
    StoreUnavailable,
    Superseded,
)
from inturn.lanes.policy import Cut
from inturn.lanes.receipt import Receipt
from inturn.lanes.template import content_id
from inturn.lanes.turn import Message, Turn
from inturn.lanes.watch import Event, Watch
from inturn.locks.lease import Lease
from inturn.locks.lock import Lock
from inturn.locks.quorum import Quorum
from inturn.printable import escape_records

if TYPE_CHECKING:
    from inturn.visitors import VisitorResponder
    from inturn.workflows import WorkflowDefinition, WorkflowOrchestrator

__all__ = [
    "ArgumentError",
    "AsyncDistributedLockManager",
    "AsyncMessageDeduplicationManager",
    "BadMessage",
    "CommitUnknown",
    "ConversationLock",
    "ConversationLockError",
    "Cut",
    "DistributedLockManager",
    "DuplicateMessage",
    "Event",
    "HandlerFailed",
    "InTurn",
    "InTurnError",
    "Interrupted",
    "LaneBusy",
    "LaneTimeout",
    "Lease",
    "LeaseLost",
    "Lock",
    "LockTimeout",
    "MailboxFull",
    "Message",
    "MessageCancelled",
    "MessageDeduplicationManager",
    "NotHeld",
    "Quorum",
    "Receipt",
    "Retry",
    "SettingsError",
    "Stop",
    "StoreUnavailable",
    "Superseded",
    "Turn",
    "VisitorLockService",
    "VisitorResponder",
    "Watch",
    "WorkflowDefinition",
    "WorkflowOrchestrator",
    "content_id",
]

escape_records()

# A program that only takes locks need not load agents and definitions: these are imported when they are first used.
_LATER = {
    "VisitorResponder": "inturn.visitors",
    "WorkflowDefinition": "inturn.workflows",
    "WorkflowOrchestrator": "inturn.workflows",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'inturn' has no attribute {name!r}")
