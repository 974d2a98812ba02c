"""The official Copilot Studio client: one for all calls, over one pool of connections.

The client itself opens a session per call and remembers only the conversation of the latest call. So every call has its
own `Call`, which sees the response first: it knows the conversation, the status and what the service said.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
from microsoft_agents.activity import Activity, ConversationAccount
from microsoft_agents.copilotstudio.client import ConnectionSettings, CopilotClient

from inturn.agents.copilot.stream import Lines, StreamError, message_in
from inturn.agents.failure import by_status, short
from inturn.errors import AgentError, AgentTimeout, AgentUnavailable, ArgumentError

Token = str | Callable[[], Awaitable[str]]

CONNECT_S = 10.0
_MAX_LINE = 4 * 1024 * 1024
"""A card comes as one line of the stream. aiohttp accepts lines of up to twice its buffer."""
_NO_CONVERSATION = re.compile(
    r"conversation\b.*\b(?:not found|expired|does(?: not|n't) exist|no longer)|ConversationNotFound",
    re.IGNORECASE | re.DOTALL,
)


class StatusError(Exception):
    """The service answered with a status other than 200."""

    def __init__(self, status: int, said: str, headers: Mapping[str, str]) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.said = said
        self.headers = headers

    @property
    def is_conversation_gone(self) -> bool:
        """Whether the service no longer knows the conversation."""
        return self.status in (404, 410) or (self.status == 400 and bool(_NO_CONVERSATION.search(self.said)))


class NoToken(Exception):
    """The function that gives the token failed, or gave none."""


@dataclass
class Call:
    """One request to the service, and what came back."""

    conversation_id: str = ""
    response: aiohttp.ClientResponse | None = None
    given: deque[dict[str, Any]] = field(default_factory=deque)
    """The activities that arrived, as the service wrote them."""


_CALL: ContextVar[Call | None] = ContextVar("inturn_copilot_call", default=None)


async def _inspect(response: aiohttp.ClientResponse) -> None:
    """Sees every response before the client reads it: aiohttp calls this."""
    call = _CALL.get()
    if call is not None:
        call.response = response
        call.conversation_id = response.headers.get("x-ms-conversationid") or call.conversation_id
    if response.status != 200:
        try:
            body = await response.content.read(4000)
        finally:
            response.close()
        raise StatusError(response.status, message_in(body.decode("utf-8", "replace")), response.headers)
    if call is not None and response.method == "POST":  # endpoints are discovered with a GET, which is no stream
        if response.content_type in ("text/html", "application/json"):
            response.close()
            raise StreamError(f"it answered with {response.content_type}, which is not a stream of events")
        response.content = cast(aiohttp.StreamReader, Lines(response.content, call.given))


def _conversation_of(activity: dict[str, Any]) -> str:
    conversation = activity.get("conversation")
    found = conversation.get("id") if isinstance(conversation, dict) else None
    return found if isinstance(found, str) else ""


class Link:
    """Sends to the service, and yields the activities that it answers with, as the service wrote them."""

    def __init__(
        self, settings_or_client: ConnectionSettings | CopilotClient, token: Token | None, timeout: float
    ) -> None:
        self._timeout = timeout
        self._connector: aiohttp.TCPConnector | None = None
        self._token = token
        self.secrets: deque[str] = deque(maxlen=4)
        """The latest tokens, newest first: the service may still mention an older one."""
        self._client: CopilotClient | None = None
        if isinstance(settings_or_client, CopilotClient):
            if token is not None:
                raise ArgumentError("token", "cannot be combined with a client, which has its own")
            self._client = settings_or_client
            self.secrets.append(str(getattr(settings_or_client, "_token", "")))
            self._settings = settings_or_client.settings
            self._settings.client_session_settings.setdefault("raise_for_status", _inspect)
        else:
            if token is None:
                raise ArgumentError("token", "must be a text, or an async function that returns one")
            self._settings = settings_or_client

    async def start(self, call: Call, *, greets: bool) -> AsyncGenerator[dict[str, Any], None]:
        client = await self._current()
        return self._activities(call, client.start_conversation(emit_start_conversation_event=greets))

    async def send(self, call: Call, conversation_id: str, **said: Any) -> AsyncGenerator[dict[str, Any], None]:
        """Sends a message of the user: its `text`, or the `value` of a card."""
        client = await self._current()
        activity = Activity(type="message", conversation=ConversationAccount(id=conversation_id), **said)
        return self._activities(call, client.ask_question_with_activity(activity))

    async def aclose(self) -> None:
        if self._connector is not None:
            await self._connector.close()

    async def _current(self) -> CopilotClient:
        """Returns the client of this process. A new token makes a new one, over the same connections."""
        if self._token is None:
            return cast(CopilotClient, self._client)
        token = await self._token_now(self._token)
        if self._client is None or token != self.secrets[0]:
            if self._connector is None:
                self._connector = aiohttp.TCPConnector(limit=0)
            settings = copy(self._settings)  # the client writes what it discovers into its settings
            settings.client_session_settings = {
                "connector": self._connector,
                "connector_owner": False,
                "read_bufsize": _MAX_LINE // 2,
                "timeout": aiohttp.ClientTimeout(
                    total=None, sock_connect=min(CONNECT_S, self._timeout), sock_read=self._timeout
                ),
                "raise_for_status": _inspect,
                **self._settings.client_session_settings,
            }
            self._client = CopilotClient(settings, token)
            self.secrets.appendleft(token)
        return self._client

    async def _token_now(self, token: Token) -> str:
        if isinstance(token, str):
            return token
        try:
            given: Any = await token()  # the application's function may return anything
        except Exception as error:
            raise NoToken(f"{type(error).__name__}: {error}") from error
        if not isinstance(given, str) or not given.strip():
            raise NoToken(f"what was returned is not a text, or is empty: {type(given).__name__}")
        return given

    async def _activities(
        self, call: Call, activities: AsyncIterable[Activity]
    ) -> AsyncGenerator[dict[str, Any], None]:
        stream = cast(AsyncGenerator[Activity, None], activities)
        try:
            while True:
                # Set for this step only: another task may take the next one.
                mine = _CALL.set(call)
                try:
                    activity = await anext(stream)
                except StopAsyncIteration:
                    return
                finally:
                    _CALL.reset(mine)
                # The application's own client may not let us see its responses.
                read = (
                    call.given.popleft()
                    if call.given
                    else activity.model_dump(mode="json", by_alias=True, exclude_unset=True)
                )
                call.conversation_id = call.conversation_id or _conversation_of(read)
                yield read
        finally:
            await stream.aclose()
            # Closing the outermost of the client's generators leaves the inner ones, and the connection, to the
            # garbage collector; a response that was read to its end has given its connection back already.
            if call.response is not None:
                call.response.close()

    def translated(self, agent: str, error: Exception) -> AgentError:
        if isinstance(error, StatusError):
            return by_status(agent, error.status, self._said(error.said), error.headers)
        if isinstance(error, StreamError):
            return AgentUnavailable(agent, "broke off with an error", self._said(str(error)))
        if isinstance(error, NoToken):
            return AgentUnavailable(agent, "got no token", self._said(str(error)))
        if isinstance(error, TimeoutError):
            return AgentTimeout(agent, "did not answer in time")
        if isinstance(error, aiohttp.ClientConnectorError):
            return AgentUnavailable(agent, "cannot be reached", self._said(str(error)))
        if isinstance(error, aiohttp.ClientError):
            return AgentUnavailable(agent, "broke off", self._said(f"{type(error).__name__}: {error}"))
        return AgentUnavailable(
            agent, "sent something that cannot be read", self._said(f"{type(error).__name__}: {error}")
        )

    def _said(self, text: str) -> str:
        return short(text, list(self.secrets))
