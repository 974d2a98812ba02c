"""The live-chat responder: answers visitors, each in one turn at a time."""

from inturn.visitors.answer import Answer
from inturn.visitors.chat import Chat, ChatMessage
from inturn.visitors.conversations import LaneConversations
from inturn.visitors.graph.model import Graph, load_graph
from inturn.visitors.graph.walk import ToolContext
from inturn.visitors.message import VisitorMessage
from inturn.visitors.presence import LanePresence, Presence
from inturn.visitors.projects import LaneProjects, Projects, ProjectSettings
from inturn.visitors.responder import AiResponderService, VisitorResponder

__all__ = [
    "AiResponderService",
    "Answer",
    "Chat",
    "ChatMessage",
    "Graph",
    "LaneConversations",
    "LanePresence",
    "LaneProjects",
    "Presence",
    "ProjectSettings",
    "Projects",
    "ToolContext",
    "VisitorMessage",
    "VisitorResponder",
    "load_graph",
]
