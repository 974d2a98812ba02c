"""Workflows: definitions, and the orchestrator that walks users through them, one turn at a time per conversation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inturn.workflows.config import OrchestratorConfig
    from inturn.workflows.definition.load import default_definition, load_definition, load_definitions
    from inturn.workflows.definition.model import WorkflowDefinition
    from inturn.workflows.loop import build_contextual_query
    from inturn.workflows.messages import NormalizedMessage, normalize_activities
    from inturn.workflows.orchestrator import WorkflowOrchestrator
    from inturn.workflows.parse import ParsedTurn, parse_turn
    from inturn.workflows.plain_state import RedisWorkflowStateStore, WorkflowStateStore
    from inturn.workflows.response import SessionView, WorkflowResponse
    from inturn.workflows.state import Owner, WorkflowState

# Imported on first use (PEP 562): agents import `workflows.definition`, and the orchestrator imports agents.
_MODULES = {
    "NormalizedMessage": "messages",
    "OrchestratorConfig": "config",
    "Owner": "state",
    "ParsedTurn": "parse",
    "RedisWorkflowStateStore": "plain_state",
    "SessionView": "response",
    "WorkflowDefinition": "definition.model",
    "WorkflowOrchestrator": "orchestrator",
    "WorkflowResponse": "response",
    "WorkflowState": "state",
    "WorkflowStateStore": "plain_state",
    "build_contextual_query": "loop",
    "default_definition": "definition.load",
    "load_definition": "definition.load",
    "load_definitions": "definition.load",
    "normalize_activities": "messages",
    "parse_turn": "parse",
}

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
    "default_definition",
    "load_definition",
    "load_definitions",
    "normalize_activities",
    "parse_turn",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"inturn.workflows.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'inturn.workflows' has no attribute {name!r}")
