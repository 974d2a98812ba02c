"""The agent for any OpenAI-compatible endpoint."""
