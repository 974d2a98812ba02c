"""The capabilities that come with the service."""

from __future__ import annotations

from inturn.capabilities.capability import Capabilities
from inturn.capabilities.parse_task.capability import PARSE_TASK


def default_capabilities() -> Capabilities:
    capabilities = Capabilities()
    capabilities.register(PARSE_TASK)
    return capabilities
