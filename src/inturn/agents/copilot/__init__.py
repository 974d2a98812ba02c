"""The agent for Microsoft Copilot Studio."""
