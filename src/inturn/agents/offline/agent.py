"""The offline agent: no key, no network, no guessing. The same words in the same situation get the same answer.

It fills a workflow from what the user writes, and chats from the definition's own texts. A prompt brings its own rules.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from datetime import date
from time import perf_counter
from typing import Any

from inturn.agents.activity import Activity, card_attachment
from inturn.agents.call import Watch, watched
from inturn.agents.completion import Completed, M, Prompt, ProviderCall, ms_since, problem_of
from inturn.agents.offline.free_chat import chat
from inturn.agents.offline.reply import Reply
from inturn.agents.offline.workflow import walk
from inturn.agents.protocol import Ask
from inturn.errors import AgentRejected, ArgumentError
from inturn.workflows.definition.load import default_definition
from inturn.workflows.definition.model import WorkflowDefinition

_CHUNK = 6
_WORDS = re.compile(r"\S+\s*|\s+")


class OfflineAgent:
    """`definition`: what it knows in free chat. `pace_s`: how long it waits after each word that it streams."""

    name = "offline"

    def __init__(
        self,
        definition: WorkflowDefinition | None = None,
        *,
        today: Callable[[], date] = date.today,
        pace_s: float = 0.0,
    ) -> None:
        if not 0.0 <= pace_s <= 10.0:
            raise ArgumentError("pace_s", "must be a number of seconds from 0 to 10", pace_s)
        self._definition = definition
        self._today = today
        self._pace_s = pace_s

    def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        return watched(self.name, self._answer(ask))

    async def complete(self, prompt: Prompt[M]) -> Completed[M]:
        with Watch(self.name) as watch:
            return await watch.limited(self._by_rules(prompt))

    async def _by_rules(self, prompt: Prompt[M]) -> Completed[M]:
        if prompt.rules is None:
            raise AgentRejected(self.name, f"has no rules for the capability {prompt.name!r}: it needs another agent")
        began = perf_counter()
        try:
            value = prompt.answer.model_validate(prompt.rules())
            prompt.check(value)
        except ValueError as error:  # the rules would say the same again
            why = f"has rules for the capability {prompt.name!r} whose answer is not valid"
            raise AgentRejected(self.name, why, problem_of(error)) from error
        return Completed(value, self.name, (ProviderCall(self.name, "offline", 0, 0, ms_since(began)),))

    async def _answer(self, ask: Ask) -> AsyncGenerator[Activity, None]:
        situation = ask.situation
        reply = self._chat(ask) if situation is None else walk(ask, situation, self._today())
        async for piece in self._pieces(reply.text):
            yield piece
        for activity in _messages(reply):
            yield activity

    def _chat(self, ask: Ask) -> Reply:
        if self._definition is None:
            self._definition = default_definition()  # only here: the packaged example is YAML, and needs its extra
        return chat(ask, self._definition)

    async def aclose(self) -> None:
        """Has nothing to close."""

    async def _pieces(self, text: str) -> AsyncIterator[Activity]:
        found = _WORDS.findall(text)
        size = 1 if self._pace_s else _CHUNK
        for at in range(0, len(found), size):
            if self._pace_s:
                await asyncio.sleep(self._pace_s)
            yield Activity.piece("".join(found[at : at + size]))


def _messages(reply: Reply) -> list[Activity]:
    more: dict[str, Any] = {}
    if reply.next_action is not None:
        more["value"] = {
            "data": reply.data,
            "nextAction": reply.next_action,
            "prompt": reply.prompt,
            "choices": reply.choices,
            "inputType": reply.input_type,
        }
    if reply.suggested:
        actions = [{"type": "imBack", "title": title, "value": title} for title in reply.suggested]
        more["suggested_actions"] = {"actions": actions}
    messages = [Activity.said(reply.text, **more)]
    messages += [Activity.said("", attachments=[card_attachment(card)]) for card in reply.cards]
    return messages
