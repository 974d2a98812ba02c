"""An agent that does what a test says, and a small workflow for it. What it was asked is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.workflows.definition.model import CardDefinition, FieldDefinition, StepDefinition, WorkflowDefinition
from tests.lanes.workbench import Gate

Answer = Callable[[Ask], AsyncIterator[Activity]]

DEFINITION = WorkflowDefinition(
    id="intake",
    title="Intake",
    welcome="Welcome.",
    steps=(
        StepDefinition(
            id="about_you",
            title="About you",
            prompt="Who are you?",
            fields=(FieldDefinition(name="name"), FieldDefinition(name="email", type="email")),
        ),
        StepDefinition(
            id="details",
            title="Details",
            prompt="How many?",
            fields=(
                FieldDefinition(name="count", type="integer"),
                FieldDefinition(name="urgent", type="boolean", required=False),
            ),
            card=CardDefinition(id="details_card", actions=("submit", "later")),
        ),
    ),
)


async def collecting(ask: Ask) -> AsyncIterator[Activity]:
    """`name=Ada count=3` is collected, `complete` completes."""
    given = (
        dict(ask.card) if ask.card is not None else dict(pair.split("=", 1) for pair in ask.text.split() if "=" in pair)
    )
    data = {name: value for name, value in given.items() if name not in ("cardId", "action")}
    action = "complete" if "complete" in ask.text.split() else "ask"
    yield Activity.said(f"noted: {ask.text}", value={"data": data, "nextAction": action})


def saying(*activities: Activity | dict[str, Any]) -> Answer:
    """Always these."""

    async def answer(ask: Ask) -> AsyncIterator[Activity]:
        for given in activities:
            activity = Activity.read(given)
            assert activity is not None
            yield activity

    return answer


class Scripted:
    name = "scripted"

    def __init__(self, answer: Answer = collecting) -> None:
        self.answer = answer
        self.asked: list[Ask] = []
        self.gate: Gate | None = None
        """The next ask waits here."""
        self.error: BaseException | None = None
        """The next ask raises it, after the gate."""

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        self.asked.append(ask)
        gate, self.gate = self.gate, None
        if gate is not None:
            await gate.pass_through()
        error, self.error = self.error, None
        if error is not None:
            raise error
        async for activity in self.answer(ask):
            yield activity

    async def aclose(self) -> None: ...

    @property
    def texts(self) -> list[str]:
        return [ask.text for ask in self.asked]


def bot(text: str = "", **more: Any) -> dict[str, Any]:
    """A message of an agent, as it comes over the wire."""
    return {"type": "message", "from": {"role": "bot"}, "text": text, **more}
