"""Microsoft Copilot Studio, through the official client.

The service keeps the conversation. Only its id is kept here, in `ask.memory`. If the service no longer knows it, a new
one is started, once.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from inturn.agents.activity import Activity
from inturn.agents.call import watched
from inturn.agents.copilot.stream import Pieces
from inturn.agents.failure import harmless, short
from inturn.agents.protocol import Ask
from inturn.errors import AgentError, AgentRejected, AgentUnavailable, MissingExtra

if TYPE_CHECKING:
    from microsoft_agents.copilotstudio.client import ConnectionSettings, CopilotClient

_ID = "conversation_id"
_TOLD = re.compile(r"\berror code:\s*(?P<code>\w+)[\s.]+conversation id:", re.IGNORECASE)
"""The message of the system topic `On Error`: it looks like an answer, and is an error."""
_FILTERED = re.compile(r"ContentFiltered|OpenAI(?!RateLimit)\w+")


class CopilotStudioAgent:
    """`token`: a text, or an async function that returns the current one. A client has its own, and takes none."""

    def __init__(
        self,
        settings_or_client: ConnectionSettings | CopilotClient,
        *,
        token: str | Callable[[], Awaitable[str]] | None = None,
        timeout: float = 60.0,
        name: str = "copilot_studio",
    ) -> None:
        try:
            from inturn.agents.copilot import client
        except ImportError as error:
            raise MissingExtra("the Copilot Studio agent", "copilot") from error
        self.name = name
        self._timeout = timeout
        self._module = client
        self._link = client.Link(settings_or_client, token, timeout)

    def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        return watched(self.name, self._answer(ask), self._timeout)

    async def aclose(self) -> None:
        await self._link.aclose()

    async def _answer(self, ask: Ask) -> AsyncGenerator[Activity, None]:
        try:
            async with aclosing(self._turn(ask)) as activities:
                async for activity in activities:
                    yield activity
        except AgentError:
            raise
        except Exception as error:  # noqa: BLE001 - the client may raise anything; it is translated
            raise self._link.translated(self.name, error) from harmless(error, self._link.secrets)

    async def _turn(self, ask: Ask) -> AsyncGenerator[Activity, None]:
        said = _said(ask)
        known = ask.memory.get(_ID)
        is_new = not known or not isinstance(known, str)
        if is_new:
            # Asks for the greeting only if there is nothing to send: it would swallow the first question.
            for activity in await self._start(ask, greets=not said):
                yield activity
        while said:
            try:
                async with aclosing(self._send(ask, said)) as activities:
                    async for activity in activities:
                        yield activity
                return
            except self._module.StatusError as error:
                if is_new or not error.is_conversation_gone:
                    raise
            is_new = True
            del ask.memory[_ID]
            await self._start(ask, greets=False)

    async def _start(self, ask: Ask, *, greets: bool) -> list[Activity]:
        call = self._module.Call()
        stream = await self._link.start(call, greets=greets)
        greeting = [activity async for activity in self._read(ask, stream)]
        if not call.conversation_id:
            raise AgentUnavailable(self.name, "started a conversation without giving its id")
        ask.memory[_ID] = call.conversation_id
        return greeting if greets else []

    async def _send(self, ask: Ask, said: dict[str, Any]) -> AsyncGenerator[Activity, None]:
        stream = await self._link.send(self._module.Call(), ask.memory[_ID], **said)
        async with aclosing(self._read(ask, stream)) as activities:
            async for activity in activities:
                yield activity

    async def _read(self, ask: Ask, stream: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[Activity, None]:
        pieces = Pieces()
        async with aclosing(stream):
            async for given in stream:
                activity = pieces.read(given)
                if activity is None:
                    continue
                if activity.type == "endOfConversation":
                    ask.memory.pop(_ID, None)
                failed = _error_told(self.name, activity.text) if activity.type == "message" else None
                if failed is not None:
                    raise failed
                yield activity
        if pieces.is_open:
            raise AgentUnavailable(self.name, "broke off in the middle of its answer")


def _said(ask: Ask) -> dict[str, Any]:
    """Returns what to send: the data of a card, or words; empty if there is nothing to say."""
    if ask.card is not None:
        return {"value": dict(ask.card)}
    return {"text": ask.query} if ask.query else {}


def _error_told(agent: str, text: str) -> AgentError | None:
    """Returns the error that a message of the bot reports: a limit, a fault of the service, or a filter."""
    found = _TOLD.search(text)
    if found is None:
        return None
    if _FILTERED.fullmatch(found["code"]):
        return AgentRejected(agent, "refused to answer", short(text))
    return AgentUnavailable(agent, "failed inside the service", short(text))
