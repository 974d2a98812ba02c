"""One turn per conversation: the visitor responder and the workflow orchestrator."""
