"""An agent that answers at once, and a workflow without end: what is left of a turn is what is measured."""

from __future__ import annotations

from collections.abc import AsyncIterator

from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.workflows.definition.model import FieldDefinition, StepDefinition, WorkflowDefinition

DEFINITION = WorkflowDefinition(
    id="bench",
    title="A workflow that never ends",
    steps=(
        StepDefinition(
            id="talk",
            title="Talk",
            prompt="Say something.",
            fields=(FieldDefinition(name="last"), FieldDefinition(name="never")),
        ),
    ),
)


class InstantAgent:
    name = "instant"

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        yield Activity.said(f"You said: {ask.text}", value={"data": {"last": ask.text}, "nextAction": "ask"})

    async def aclose(self) -> None:
        """It holds nothing."""
