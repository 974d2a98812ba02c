"""One turn per conversation: the visitor responder and the workflow orchestrator."""

from inturn.conversations.config import OrchestratorConfig
from inturn.conversations.context import build_contextual_query
from inturn.conversations.messages import NormalizedMessage, normalize_activities
from inturn.conversations.orchestrator import WorkflowOrchestrator
from inturn.conversations.parse import ParsedTurn, parse_turn
from inturn.conversations.plain import RedisWorkflowStateStore, WorkflowStateStore
from inturn.conversations.response import SessionView, WorkflowResponse
from inturn.conversations.state import Owner, WorkflowState
from inturn.workflows.definition import WorkflowDefinition

__all__ = [
    "NormalizedMessage",
    "OrchestratorConfig",
    "Owner",
    "ParsedTurn",
    "RedisWorkflowStateStore",
    "SessionView",
    "WorkflowDefinition",
    "WorkflowOrchestrator",
    "WorkflowResponse",
    "WorkflowState",
    "WorkflowStateStore",
    "build_contextual_query",
    "normalize_activities",
    "parse_turn",
]
