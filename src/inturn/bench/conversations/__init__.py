"""`inturn bench conversations`: what the orchestrator adds to an agent's answer, and turns per second over HTTP."""
