"""A conversation with the offline agent: what the orchestrator does around it, and nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from inturn.agents.activity import Activity
from inturn.agents.offline.agent import OfflineAgent
from inturn.agents.offline.extraction import MessageContext, Reading, read_message
from inturn.agents.protocol import Ask, Said, Situation
from inturn.workflows.definition.load import default_definition
from inturn.workflows.definition.model import WorkflowDefinition

TODAY = date(2026, 11, 16)
"""A Monday."""


@dataclass
class Talk:
    definition: WorkflowDefinition = field(default_factory=default_definition)
    collected: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    history: list[Said] = field(default_factory=list)
    phase: str = ""
    activities: list[Activity] = field(default_factory=list)

    async def say(self, text: str) -> str:
        return await self._ask(text, None)

    async def submit(self, card_id: str, **data: Any) -> str:
        return await self._ask("", {**data, "cardId": card_id})

    async def _ask(self, text: str, card: Mapping[str, Any] | None) -> str:
        situation = Situation(
            self.definition, self.definition.position(self.collected), self.phase, dict(self.collected)
        )
        ask = Ask("c", text, text, card, tuple(self.history), situation, memory=self.memory)
        self.activities = [each async for each in OfflineAgent(today=lambda: TODAY).ask(ask)]
        self.collected |= self.value["data"]
        self.history += [Said("user", text), Said("assistant", self.text)]
        return self.text

    @property
    def messages(self) -> list[Activity]:
        return [each for each in self.activities if each.type == "message"]

    @property
    def text(self) -> str:
        return self.messages[0].text

    @property
    def value(self) -> dict[str, Any]:
        return dict(self.messages[0].value)

    @property
    def cards(self) -> list[dict[str, Any]]:
        return [attachment["content"] for each in self.messages for attachment in each.attachments]

    @property
    def suggested(self) -> list[str]:
        actions = self.messages[0].suggested_actions or {"actions": []}
        return [action["value"] for action in actions["actions"]]


def read(text: str, asked: str = "", last: str = "", **collected: Any) -> Reading:
    """Reads one message with the shipped support intake."""
    fields = default_definition().by_name
    return read_message(
        text,
        MessageContext(
            definition=default_definition(),
            collected=collected,
            asked=fields.get(asked),
            last=fields.get(last),
            today=TODAY,
        ),
    )


EVERYTHING = {
    "name": "Ada Lovelace", "email": "ada@example.com", "product": "Mobile app", "category": "Error or crash",
    "description": "It crashes.", "impact": "Nobody can work", "since": "2026-11-15", "affected_users": 12,
    "workaround": False, "contact_by": "By phone", "consent": True,
}  # fmt: skip
