"""Any OpenAI-compatible endpoint, through the official package: chat completions, streamed, by schema in a workflow.

One client for all calls, without the package's own retries: trying again is the lane's job.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from inturn.agents.activity import Activity
from inturn.agents.failure import by_status, short
from inturn.agents.prompt import messages
from inturn.agents.protocol import Ask
from inturn.agents.reply import Joiner, ReplyScanner
from inturn.agents.schema import response_format
from inturn.agents.structured import answer_of
from inturn.agents.watched import watched
from inturn.errors import AgentError, AgentRejected, AgentTimeout, AgentUnavailable, MissingExtra, SettingsError

if TYPE_CHECKING:
    import openai

CONNECT_S = 10.0
"""A connection that is not there by then will not come, whatever time an answer may take."""
_AFTER_S = 1.0


class OpenAIAgent:
    """`client`: an `AsyncOpenAI` of your own, which stays yours to close; else one is made."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        name: str = "openai",
        client: openai.AsyncOpenAI | None = None,
        max_output_tokens: int | None = None,
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingExtra("the OpenAI agent", "openai") from error
        self.name = name
        self.model = model
        self._timeout = timeout
        self._max_output_tokens = max_output_tokens
        self._is_ours = client is None
        limits = openai.Timeout(timeout, connect=min(CONNECT_S, timeout))
        try:
            made = client or openai.AsyncOpenAI(base_url=base_url, api_key=api_key, timeout=limits)
        except openai.OpenAIError as error:
            raise SettingsError(f"the OpenAI agent: {error}") from error
        self._client = made.with_options(max_retries=0)
        self._completions = self._client.chat.completions  # imports half the package: now, not in the first call
        self._openai = openai

    def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        return watched(self.name, self._answer(ask), self._timeout)

    async def aclose(self) -> None:
        if self._is_ours:
            await self._client.close()

    async def _answer(self, ask: Ask) -> AsyncGenerator[Activity, None]:
        text, joiner = "", Joiner()
        scanner = ReplyScanner()
        scanner.is_plain = None if ask.situation else True
        finish = refusal = ""
        try:
            async with await self._completions.create(**self._request(ask)) as stream:
                while not finish:
                    try:
                        chunk = await anext(stream)
                    except StopAsyncIteration:
                        break
                    delta, refused, finish = self._read(chunk)
                    refusal += refused
                    piece = joiner.feed(delta) + (joiner.rest() if finish else "")
                    text += piece
                    shown = scanner.feed(piece)
                    if shown:
                        yield Activity.piece(shown)
                if finish:
                    await self._run_out(stream)
        except (AgentError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a provider makes of its stream, it is translated
            raise self._translated(error) from self._harmless(error)
        if refusal:
            raise AgentRejected(self.name, "refused to answer", self._said(refusal))
        yield self._whole(text, finish, scanner)

    def _request(self, ask: Ask) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.model, "messages": messages(ask), "stream": True}
        if ask.situation is not None:
            request["response_format"] = response_format(ask.situation.definition)
        if self._max_output_tokens is not None:
            request["max_completion_tokens"] = self._max_output_tokens
        return request

    def _read(self, chunk: Any) -> tuple[str, str, str]:
        """What a chunk adds to the answer and to a refusal, and why the answer ends with it, if it does."""
        for choice in chunk.choices or ():
            if choice.index:  # only the first was asked for
                continue
            if choice.finish_reason == "content_filter":
                raise AgentRejected(self.name, "refused to answer", "content_filter")
            delta = choice.delta
            content, refusal = (delta.content, delta.refusal) if delta is not None else (None, None)
            return content or "", refusal or "", choice.finish_reason or ""
        return "", "", ""  # the chunk that carries the usage has no choice

    async def _run_out(self, stream: Any) -> None:
        """Read to the end, so that the connection can be used again; the answer does not depend on it."""
        with suppress(Exception):
            async with asyncio.timeout(_AFTER_S):
                async for _ in stream:
                    pass

    def _whole(self, text: str, finish: str, scanner: ReplyScanner) -> Activity:
        if not finish:
            raise AgentUnavailable(self.name, "broke off in the middle of its answer")
        if scanner.is_plain is not False:
            return Activity.said(text)
        answer = answer_of(text)
        if answer is None and (finish == "length" or scanner.has_reply):
            said = "its token limit is reached" if finish == "length" else ""
            raise AgentUnavailable(self.name, "gave an answer that is cut off or no valid JSON", said)
        return answer or Activity.said(text)

    def _translated(self, error: Exception) -> AgentError:
        sdk = self._openai
        if isinstance(error, sdk.APITimeoutError | TimeoutError):
            return AgentTimeout(self.name, "did not answer in time")
        if isinstance(error, sdk.APIStatusError):
            return by_status(self.name, error.status_code, self._said(_message(error)))
        if isinstance(error, sdk.APIConnectionError):
            return AgentUnavailable(self.name, "cannot be reached", self._said(str(error.__cause__ or error)))
        if isinstance(error, sdk.APIError):
            return AgentUnavailable(self.name, "broke off with an error", self._said(_message(error)))
        return AgentUnavailable(self.name, "sent what cannot be read", self._said(f"{type(error).__name__}: {error}"))

    def _said(self, text: str) -> str:
        return short(text, [self._client.api_key])

    def _harmless(self, error: Exception) -> Exception | None:
        """The error as a cause, unless a log of it would show the key."""
        key = self._client.api_key
        return None if key and key in f"{error}{error.__cause__}" else error


def _message(error: openai.APIError) -> str:
    """The provider's own sentence, if its error has one."""
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return str(body["message"])
    return str(body or error.message)
