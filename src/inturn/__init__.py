"""inturn: every conversation, in turn.

Every key gets a lane: one turn at a time, in order, committed exactly once, across any number of processes. Beneath it
are locks that are granted in order, fenced, and kept alive by a heartbeat. On SQLite or Redis; `inturn.sync` is the
same for synchronous code.
"""

from inturn.app import InTurn
from inturn.errors import (
    AgentError,
    AgentRejected,
    AgentTimeout,
    AgentUnavailable,
    AlreadyHeld,
    BadMessage,
    CardNotAllowed,
    CommitUnknown,
    ConversationError,
    ConversationLockError,
    DeadlockDetected,
    DefinitionError,
    DuplicateMessage,
    HandlerFailed,
    HandlerSignal,
    HandlerTimeout,
    Interrupted,
    InTurnError,
    LaneBusy,
    LaneError,
    LaneTimeout,
    LeaseLost,
    LockError,
    LockMismatch,
    LockTimeout,
    MailboxFull,
    MessageCancelled,
    MissingExtra,
    NotHeld,
    NotReplicated,
    OwnLane,
    ResultExpired,
    Retry,
    SessionCompleted,
    SettingsError,
    StateMismatch,
    Stop,
    StoreUnavailable,
    Superseded,
    TooLarge,
    UnknownConversation,
    UnknownHandler,
    WorkflowTooDeep,
)
from inturn.lanes.dedup import AsyncMessageDeduplicationManager, MessageDeduplicationManager
from inturn.lanes.effects import Message, Turn
from inturn.lanes.policy import Cut
from inturn.lanes.receipt import Receipt
from inturn.lanes.template import content_id
from inturn.lanes.watch import Event, Watch
from inturn.locks.conversation import ConversationLock
from inturn.locks.lease import Lease
from inturn.locks.lock import Lock
from inturn.locks.managers import AsyncDistributedLockManager, DistributedLockManager
from inturn.locks.quorum import Quorum, QuorumLock
from inturn.locks.quorum_lease import QuorumLease
from inturn.locks.visitor import VisitorLock, VisitorLockService

__all__ = [
    "AgentError",
    "AgentRejected",
    "AgentTimeout",
    "AgentUnavailable",
    "AlreadyHeld",
    "AsyncDistributedLockManager",
    "AsyncMessageDeduplicationManager",
    "BadMessage",
    "CardNotAllowed",
    "CommitUnknown",
    "ConversationError",
    "ConversationLock",
    "ConversationLockError",
    "Cut",
    "DeadlockDetected",
    "DefinitionError",
    "DistributedLockManager",
    "DuplicateMessage",
    "Event",
    "HandlerFailed",
    "HandlerSignal",
    "HandlerTimeout",
    "InTurn",
    "InTurnError",
    "Interrupted",
    "LaneBusy",
    "LaneError",
    "LaneTimeout",
    "Lease",
    "LeaseLost",
    "Lock",
    "LockError",
    "LockMismatch",
    "LockTimeout",
    "MailboxFull",
    "Message",
    "MessageCancelled",
    "MessageDeduplicationManager",
    "MissingExtra",
    "NotHeld",
    "NotReplicated",
    "OwnLane",
    "Quorum",
    "QuorumLease",
    "QuorumLock",
    "Receipt",
    "ResultExpired",
    "Retry",
    "SessionCompleted",
    "SettingsError",
    "StateMismatch",
    "Stop",
    "StoreUnavailable",
    "Superseded",
    "TooLarge",
    "Turn",
    "UnknownConversation",
    "UnknownHandler",
    "VisitorLock",
    "VisitorLockService",
    "Watch",
    "WorkflowTooDeep",
    "content_id",
]
