"""One turn per conversation: the visitor responder and the workflow orchestrator."""

from inturn.conversations.answering import Answer
from inturn.conversations.chat import Change, Chat, ChatMessage
from inturn.conversations.chats import ConversationStore, LaneConversations
from inturn.conversations.config import OrchestratorConfig
from inturn.conversations.context import build_contextual_query
from inturn.conversations.event import VisitorMessage
from inturn.conversations.graph.model import Graph, load_graph
from inturn.conversations.graph.walk import ToolContext
from inturn.conversations.messages import NormalizedMessage, normalize_activities
from inturn.conversations.orchestrator import WorkflowOrchestrator
from inturn.conversations.parse import ParsedTurn, parse_turn
from inturn.conversations.plain import RedisWorkflowStateStore, WorkflowStateStore
from inturn.conversations.presence import LanePresence, Presence
from inturn.conversations.projects import LaneProjects, Projects, ProjectSettings
from inturn.conversations.responder import AiResponderService, VisitorResponder
from inturn.conversations.response import SessionView, WorkflowResponse
from inturn.conversations.state import Owner, WorkflowState
from inturn.workflows.definition import WorkflowDefinition
from inturn.workflows.load import default_definition, load_definition, load_definitions

__all__ = [
    "AiResponderService",
    "Answer",
    "Change",
    "Chat",
    "ChatMessage",
    "ConversationStore",
    "Graph",
    "LaneConversations",
    "LanePresence",
    "LaneProjects",
    "NormalizedMessage",
    "OrchestratorConfig",
    "Owner",
    "ParsedTurn",
    "Presence",
    "ProjectSettings",
    "Projects",
    "RedisWorkflowStateStore",
    "SessionView",
    "ToolContext",
    "VisitorMessage",
    "VisitorResponder",
    "WorkflowDefinition",
    "WorkflowOrchestrator",
    "WorkflowResponse",
    "WorkflowState",
    "WorkflowStateStore",
    "build_contextual_query",
    "default_definition",
    "load_definition",
    "load_definitions",
    "load_graph",
    "normalize_activities",
    "parse_turn",
]
