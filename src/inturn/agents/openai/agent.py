"""Any OpenAI-compatible endpoint, through the official package: streamed chat completions, by schema in a workflow.

For one object by a schema (`complete`) the completion is not streamed.

One client serves all calls, without the package's own retries: retrying is the lane's job.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from inturn.agents.activity import Activity
from inturn.agents.call import Watch, watched
from inturn.agents.completion import Completed, Invalid, M, Prompt, ProviderCall, answered, ms_since
from inturn.agents.failure import by_status, harmless, short
from inturn.agents.openai.completion import completion_request, provider_call
from inturn.agents.openai.prompt import messages, response_format
from inturn.agents.openai.stream import Joiner, ReplyScanner, Thoughts, answer_of, read_chunk, stream_error
from inturn.agents.protocol import Ask
from inturn.errors import AgentError, AgentRejected, AgentTimeout, AgentUnavailable, MissingExtra, SettingsError

if TYPE_CHECKING:
    import openai

CONNECT_S = 10.0
"""A connection that takes longer will not come, however long an answer may take."""
_AFTER_S = 1.0
_ABOUT_FORMAT = re.compile(r"response[ _]?format|json[ _]?schema", re.IGNORECASE)

log = logging.getLogger("inturn.agents")


class MakeRequest(Protocol):
    """Makes a request, with its schema in words or as a parameter."""

    def __call__(self, *, in_words: bool) -> dict[str, Any]: ...


class OpenAIAgent:
    """`client`: an `AsyncOpenAI` of your own, which you close yourself. Without it the agent makes one."""

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
        self._completions = self._client.chat.completions  # imports half the package: do it now, not in the first call
        self._openai = openai
        self._without_schema: set[str] = set()
        """The definitions and prompts whose schema the endpoint refused. It is told them in words."""

    def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        return watched(self.name, self._answer(ask), self._timeout)

    async def complete(self, prompt: Prompt[M]) -> Completed[M]:
        async def turn(invalid: Invalid | None, calls: list[ProviderCall]) -> str:
            return await self._completion(prompt, invalid, calls)

        with Watch(self.name, self._timeout) as watch:
            return await answered(self.name, prompt, turn, watch)

    async def aclose(self) -> None:
        if self._is_ours:
            await self._client.close()

    async def _answer(self, ask: Ask) -> AsyncGenerator[Activity, None]:
        text, joiner, thoughts = "", Joiner(), Thoughts()
        scanner = ReplyScanner()
        scanner.is_plain = None if ask.situation else True
        finish = refusal = ""
        has_begun = False
        try:
            async with await self._opened(ask) as stream:
                has_begun = True
                while not finish:
                    try:
                        chunk = await anext(stream)
                    except StopAsyncIteration:
                        break
                    delta, refused, finish = read_chunk(self.name, chunk, self._said)
                    refusal += refused
                    piece = thoughts.feed(joiner.feed(delta) + (joiner.rest() if finish else ""))
                    piece += thoughts.rest() if finish else ""
                    text += piece
                    shown = scanner.feed(piece)
                    if shown:
                        yield Activity.piece(shown)
                if finish:
                    await self._run_out(stream)
                elif not text:
                    self._must_stream(stream.response.headers.get("content-type", ""))
        except (AgentError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with a provider's stream is translated
            raise self._translated(error, has_begun) from harmless(error, [self._client.api_key])
        if refusal:
            raise AgentRejected(self.name, "refused to answer", self._said(refusal))
        if finish and not text.strip() and (ask.situation is not None or finish != "stop"):
            raise AgentUnavailable(self.name, "gave an empty answer", self._said(finish))
        yield self._whole(text, finish, scanner)

    async def _opened(self, ask: Ask) -> Any:
        """Opens the stream of an answer."""
        return await self._created("" if ask.situation is None else ask.situation.definition.id, partial(_asked, ask))

    async def _completion(self, prompt: Prompt[M], invalid: Invalid | None, calls: list[ProviderCall]) -> str:
        began = perf_counter()
        try:
            made = partial(completion_request, prompt, invalid)
            response = await self._created(f"prompt {prompt.name}", made, max_output_tokens=prompt.max_output_tokens)
            calls.append(provider_call(self.name, self.model, response, ms_since(began)))
            return self._words(response)
        except (AgentError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with a provider is translated
            raise self._translated(error, has_begun=False) from harmless(error, [self._client.api_key])

    def _words(self, response: Any) -> str:
        """Returns the text of a completion, without thoughts."""
        failed = getattr(response, "error", None)
        if isinstance(failed, dict):  # OpenRouter tells of a provider's failure with status 200
            raise stream_error(self.name, failed.get("code"), self._said(str(failed.get("message") or failed)))
        if not hasattr(response, "choices"):
            raise AgentUnavailable(self.name, "did not answer with a chat completion", self._said(str(response)))
        content, refusal, finish = read_chunk(self.name, response, self._said)
        if refusal:
            raise AgentRejected(self.name, "refused to answer", self._said(refusal))
        if finish == "length":
            raise AgentUnavailable(self.name, "gave an answer that is cut off", "its token limit is reached")
        thoughts = Thoughts()
        text = thoughts.feed(content) + thoughts.rest()
        if not text.strip():
            raise AgentUnavailable(self.name, "gave an empty answer", self._said(finish))
        return text

    async def _created(self, schema: str, made: MakeRequest, max_output_tokens: int | None = None) -> Any:
        """Asks the endpoint. One that refuses the schema of that name is asked again, with it in words."""
        limit = self._max_output_tokens if max_output_tokens is None else max_output_tokens
        more: dict[str, Any] = {} if limit is None else {"max_completion_tokens": limit}
        request = made(in_words=schema in self._without_schema)
        try:
            return await self._completions.create(model=self.model, **request, **more)
        except (self._openai.BadRequestError, self._openai.UnprocessableEntityError) as error:
            if "response_format" not in request or not _ABOUT_FORMAT.search(str(error.body or error.message)):
                raise
        log.warning("agent %r refuses the JSON schema of %r; describing it in words instead", self.name, schema)
        self._without_schema.add(schema)
        return await self._completions.create(model=self.model, **made(in_words=True), **more)

    def _must_stream(self, content_type: str) -> None:
        if content_type and "event-stream" not in content_type:
            raise AgentUnavailable(self.name, "did not answer with a stream of events", self._said(content_type))

    async def _run_out(self, stream: Any) -> None:
        """Reads to the end, so that the connection can be reused. The answer does not depend on it."""
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
            raise AgentUnavailable(self.name, "gave an answer that is cut off or not valid JSON", said)
        return answer or Activity.said(text)

    def _translated(self, error: Exception, has_begun: bool) -> AgentError:
        sdk = self._openai
        if isinstance(error, sdk.APITimeoutError | TimeoutError):
            return AgentTimeout(self.name, "did not answer in time")
        if isinstance(error, sdk.APIStatusError):
            return by_status(self.name, error.status_code, self._said(_message(error)), error.response.headers)
        if isinstance(error, sdk.APIConnectionError):
            why = "broke off in the middle of its answer" if has_begun else "cannot be reached"
            return AgentUnavailable(self.name, why, self._said(str(error.__cause__ or error)))
        if isinstance(error, sdk.APIError):
            code = error.body.get("code") if isinstance(error.body, dict) else None
            return stream_error(self.name, code, self._said(_message(error)))
        return AgentUnavailable(
            self.name, "sent something that cannot be read", self._said(f"{type(error).__name__}: {error}")
        )

    def _said(self, text: str) -> str:
        return short(text, [self._client.api_key])


def _asked(ask: Ask, *, in_words: bool) -> dict[str, Any]:
    request: dict[str, Any] = {"stream": True, "messages": messages(ask, with_schema=in_words)}
    if ask.situation is not None and not in_words:
        request["response_format"] = response_format(ask.situation.definition)
    return request


def _message(error: openai.APIError) -> str:
    """Returns the provider's own sentence, if its error has one."""
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return str(body["message"])
    return str(body or error.message)
