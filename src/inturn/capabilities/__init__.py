"""The AI service: what it can be asked for, and what guards it."""

from inturn.capabilities.capability import AgentCalls, Capabilities, Capability, Executed, execute_capability
from inturn.capabilities.default import default_capabilities
from inturn.capabilities.guard import check_input
from inturn.capabilities.metadata import OpenaiMetadata, extract_openai_token_usage
from inturn.capabilities.parse_task.models import ParsedTask, ParseTaskConfig, ParseTaskInput

__all__ = [
    "AgentCalls",
    "Capabilities",
    "Capability",
    "Executed",
    "OpenaiMetadata",
    "ParseTaskConfig",
    "ParseTaskInput",
    "ParsedTask",
    "check_input",
    "default_capabilities",
    "execute_capability",
    "extract_openai_token_usage",
]
