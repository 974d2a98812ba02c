"""One turn per conversation: the visitor responder and the workflow orchestrator."""

from inturn.visitors.answer import Answer
from inturn.visitors.chat import Change, Chat, ChatMessage
from inturn.conversations.chats import ConversationStore, LaneConversations
from inturn.workflows.config import OrchestratorConfig
from inturn.conversations.context import build_contextual_query
from inturn.visitors.message import VisitorMessage
from inturn.conversations.graph.model import Graph, load_graph
from inturn.visitors.graph.walk import ToolContext
from inturn.workflows.messages import NormalizedMessage, normalize_activities
from inturn.workflows.orchestrator import WorkflowOrchestrator
from inturn.workflows.parse import ParsedTurn, parse_turn
from inturn.conversations.plain import RedisWorkflowStateStore, WorkflowStateStore
from inturn.visitors.presence import LanePresence, Presence
from inturn.visitors.projects import LaneProjects, Projects, ProjectSettings
from inturn.visitors.responder import AiResponderService, VisitorResponder
from inturn.workflows.response import SessionView, WorkflowResponse
from inturn.conversations.state import Owner, WorkflowState
from inturn.workflows.definition.model import WorkflowDefinition
from inturn.workflows.definition.load import default_definition, load_definition, load_definitions

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
