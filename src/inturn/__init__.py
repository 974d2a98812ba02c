"""inturn: every conversation, in turn.

Every key gets a lane: one turn at a time, in order, committed exactly once, across any number of processes. Beneath it
are locks that are granted in order, fenced, and kept alive by a heartbeat; on it stand conversations and their agents.
On SQLite or Redis; `inturn.sync` is the same for synchronous code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from inturn.lanes.turn import Message, Turn
from inturn.lanes.policy import Cut
from inturn.lanes.receipt import Receipt
from inturn.lanes.template import content_id
from inturn.lanes.watch import Event, Watch
from inturn.compat.conversation import ConversationLock
from inturn.locks.lease import Lease
from inturn.locks.lock import Lock
from inturn.compat.managers import AsyncDistributedLockManager, DistributedLockManager
from inturn.locks.quorum import Quorum, QuorumLock
from inturn.locks.quorum.lease import QuorumLease
from inturn.compat.visitor import VisitorLock, VisitorLockService

if TYPE_CHECKING:
    from inturn.conversations import (
        AiResponderService,
        NormalizedMessage,
        OrchestratorConfig,
        ParsedTurn,
        RedisWorkflowStateStore,
        VisitorResponder,
        WorkflowDefinition,
        WorkflowOrchestrator,
        WorkflowResponse,
        WorkflowState,
        WorkflowStateStore,
        build_contextual_query,
        normalize_activities,
        parse_turn,
    )

__all__ = [
    "AgentError",
    "AgentRejected",
    "AgentTimeout",
    "AgentUnavailable",
    "AiResponderService",
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
    "NormalizedMessage",
    "NotHeld",
    "NotReplicated",
    "OrchestratorConfig",
    "OwnLane",
    "ParsedTurn",
    "Quorum",
    "QuorumLease",
    "QuorumLock",
    "Receipt",
    "RedisWorkflowStateStore",
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
    "VisitorResponder",
    "Watch",
    "WorkflowDefinition",
    "WorkflowOrchestrator",
    "WorkflowResponse",
    "WorkflowState",
    "WorkflowStateStore",
    "WorkflowTooDeep",
    "build_contextual_query",
    "content_id",
    "normalize_activities",
    "parse_turn",
]

# Who only takes locks need not load agents and definitions: these names are fetched when they are first asked for.
_OF_CONVERSATIONS = frozenset(
    {
        "AiResponderService",
        "NormalizedMessage",
        "OrchestratorConfig",
        "ParsedTurn",
        "RedisWorkflowStateStore",
        "VisitorResponder",
        "WorkflowDefinition",
        "WorkflowOrchestrator",
        "WorkflowResponse",
        "WorkflowState",
        "WorkflowStateStore",
        "build_contextual_query",
        "normalize_activities",
        "parse_turn",
    }
)


def __getattr__(name: str) -> Any:
    if name in _OF_CONVERSATIONS:
        return getattr(import_module("inturn.conversations"), name)
    raise AttributeError(f"module 'inturn' has no attribute {name!r}")
