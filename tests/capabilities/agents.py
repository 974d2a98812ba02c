"""An agent that answers from a script, as a provider would, and bills each answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from inturn.agents.activity import Activity
from inturn.agents.completion import Completed, M, Prompt, ProviderCall
from inturn.agents.protocol import Ask
from inturn.errors import AgentError, AgentRejected


class ScriptedAgent:
    """`answers`: JSON for the prompt's model, or an error to raise. Keeps the prompts that it was asked."""

    name = "scripted"

    def __init__(self, *answers: dict[str, Any] | AgentError) -> None:
        self._answers = list(answers)
        self.prompts: list[Prompt[Any]] = []

    async def complete(self, prompt: Prompt[M]) -> Completed[M]:
        self.prompts.append(prompt)
        answer = self._answers.pop(0)
        call = ProviderCall(self.name, "tiny-1", 100, 20, 7)
        if isinstance(answer, AgentError):
            answer.calls = (call,)
            raise answer
        return Completed(prompt.answer.model_validate(answer), self.name, (call,))

    def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        raise AgentRejected(self.name, "does not chat")

    async def aclose(self) -> None:
        pass
