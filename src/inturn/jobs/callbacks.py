"""Call-backs: the outcome of a job, signed, POSTed to the URL that its caller named, until the receiver has taken it.

Only URLs below a configured base are ever called: scheme, host and port must be spelled as configured, so no other name
of a private address gets through, and redirects are not followed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, JsonValue

from inturn import metrics
from inturn.app import InTurn
from inturn.capabilities.outcome import WEBHOOK_PATH, ErrorInfo, RequestId, WebhookCallbackResponse
from inturn.errors import MissingExtra, Retry, Stop
from inturn.http import request_id
from inturn.http.signatures import Secrets, new_secret, secrets_of, sign
from inturn.jobs.processor import retry_with_backoff
from inturn.jobs.types import JobFailed
from inturn.masking import masked
from inturn.settings import Settings
from inturn.store import clock

try:
    import httpx2
except ImportError as error:
    raise MissingExtra("calling back", "server") from error

log = logging.getLogger("inturn.jobs")

INSIDE = "inside.inturn.internal"
"""Hosts below this name are receivers inside a process, known by no name server."""
TRIED_FOR_S = 86_400.0
LONGEST_S = 600.0
"""Between two attempts at the same call-back."""
MAX_ATTEMPTS = 1000
ANSWER_S = 20.0
"""How long a receiver may take, for all of its answer."""
CONNECT_S = 5.0
MAX_ANSWER = 64 * 1024
KNOWN_S = 5.0
"""How long we believe that a receiver is not disabled."""
_PASSING = (408, 425, 429)
"""The 4xx that are about the moment, not about the call-back."""
_ODD = re.compile(r"[\x00-\x20\x7f\\;]|%(?:25|2e|2f|3b|5c|7f|[01][0-9a-f])", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}


class CallbackMessage(BaseModel):
    """A message of the handler `webhook`. All attempts have one `webhook_id`: by it the receiver knows repeats."""

    url: str
    webhook_id: str
    request_id: RequestId
    content: dict[str, JsonValue]


class Receiver(BaseModel):
    """The state of a receiver's lane. It is there once the receiver has answered 410: it wants no more call-backs."""

    url: str
    disabled_at: float


class Gone(Stop):
    """The receiver answered 410, now or before."""


@dataclass(frozen=True, slots=True)
class _Base:
    scheme: str
    host: str
    port: int
    path: str


class CallbackTargets:
    """Which URLs may be called back."""

    def __init__(self, bases: Iterable[str]) -> None:
        self._bases = [_base_of(base) for base in bases]

    def add(self, base: str) -> None:
        self._bases.append(_base_of(base))

    @classmethod
    def of(cls, settings: Settings) -> CallbackTargets:
        """Of the Tasks service only the path for call-backs: its other routes are not for us to call."""
        tasks = settings.tasks_service_base_url
        return cls(([tasks.rstrip("/") + WEBHOOK_PATH] if tasks else []) + list(settings.callback_urls))

    def problem(self, url: str) -> str:
        """Returns why this URL is not called; '' if it is."""
        if not self._bases:
            return "no call-backs are configured here: set TASKS_SERVICE_BASE_URL or INTURN_CALLBACK_URLS"
        try:
            parts = urlsplit(url)
            asked = _Base(parts.scheme, parts.hostname or "", _port(parts), parts.path)
        except ValueError:
            return "it is not a URL"
        if _ODD.search(url) or parts.username is not None or parts.fragment or ".." in parts.path.split("/"):
            return "it is not a plain URL: leave out users, fragments, spaces, and dots or slashes in disguise"
        if not any(_is_below(asked, base) for base in self._bases):
            return "it is not below a configured base URL"
        return ""


def _base_of(url: str) -> _Base:
    parts = urlsplit(url)
    return _Base(parts.scheme, parts.hostname or "", _port(parts), parts.path.rstrip("/"))


def _port(parts: SplitResult) -> int:
    return _PORTS.get(parts.scheme, 0) if parts.port is None else parts.port


def _is_below(asked: _Base, base: _Base) -> bool:
    is_there = (asked.scheme, asked.host, asked.port) == (base.scheme, base.host, base.port)
    return is_there and (asked.path == base.path or asked.path.startswith(f"{base.path}/"))


def receiver_lane(url: str) -> str:
    return f"receiver:{hashlib.sha256(url.encode()).hexdigest()[:24]}"


class CallbackClient:
    """Makes the calls. `tasks_client` makes one from the settings."""

    def __init__(self, app: InTurn, targets: CallbackTargets, secrets: Secrets) -> None:
        self._app = app
        self.targets = targets
        self._secrets = secrets
        self._client: httpx2.AsyncClient | None = None
        self._known_until: dict[str, float] = {}
        self._mounts: dict[str, httpx2.AsyncBaseTransport] = {}

    def mount(self, base: str, transport: httpx2.AsyncBaseTransport) -> None:
        """Call-backs below `base` go this way: to a receiver in this process. To be called before the first of them."""
        self.targets.add(base)
        parts = urlsplit(base)
        self._mounts[f"{parts.scheme}://{parts.netloc}"] = transport

    async def deliver(
        self, message: CallbackMessage, attempt: int, tried_for_s: float = 0.0
    ) -> WebhookCallbackResponse:
        """Returns what the receiver answered. Raises `Retry`, or `Stop` if it will never take it.

        `tried_for_s`: since it was sent, or replayed.
        """
        why = self.targets.problem(message.url)
        if why:
            if (urlsplit(message.url).hostname or "").endswith(INSIDE):
                said = "its receiver is inside another process: set TASKS_SERVICE_BASE_URL if several work on jobs"
                raise self._again(message, attempt, tried_for_s, said)
            raise Stop(f"{message.url} is not called: {why}")
        await self._must_not_be_gone(message.url)
        began = clock.now()
        try:
            status, retry_after_s, answer = await self._post(message)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, TimeoutError) as error:
            metrics.callbacks.labels("unreachable").inc()
            # its traceback would be logged with every attempt of a receiver that is down, and says no more
            raise self._again(message, attempt, tried_for_s, f"{type(error).__name__}: {error}") from None
        finally:
            metrics.callback_seconds.observe(clock.now() - began)
        if 200 <= status < 300:
            metrics.callbacks.labels("accepted").inc()
            log.info("callback job=%s url=%s: %d", message.content.get("ai_service_request_id"), message.url, status)
            return _response(answer)
        said = f"the receiver answered {status}: {masked(answer[:500].decode('utf-8', 'replace'))}"
        if status >= 500 or status in _PASSING:
            metrics.callbacks.labels("failed").inc()
            raise self._again(message, attempt, tried_for_s, said, retry_after_s)
        metrics.callbacks.labels("refused").inc()
        if status == 410:
            self._known_until.pop(message.url, None)
            raise Gone(f"{said}; it gets no more call-backs until its lane {receiver_lane(message.url)} is cleared")
        raise Stop(said)

    async def _post(self, message: CallbackMessage) -> tuple[int, float | None, bytes]:
        body = json.dumps(message.content, separators=(",", ":")).encode()
        headers = {
            "content-type": "application/json",
            request_id.HEADER: message.request_id,
            **sign(await self.secrets(), message.webhook_id, int(time.time()), body),
        }
        answer = b""
        async with (
            asyncio.timeout(ANSWER_S),
            self._http().stream("POST", message.url, content=body, headers=headers) as response,
        ):
            async for piece in response.aiter_bytes():
                answer += piece
                if len(answer) > MAX_ANSWER:
                    break
        return response.status_code, _seconds(response.headers.get("retry-after")), answer[:MAX_ANSWER]

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            # no proxies from the environment: they would be asked to call whatever they can reach; and no cookies: each
            # call-back stands alone, and what receivers set would only pile up
            self._client = httpx2.AsyncClient(
                follow_redirects=False,
                trust_env=False,
                timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                mounts=self._mounts,
            )
        return self._client

    def _again(
        self, message: CallbackMessage, attempt: int, tried_for_s: float, why: str, retry_after_s: float | None = None
    ) -> Exception:
        failed = JobFailed(error=ErrorInfo(message=why), is_worth_retry=True, retry_after_s=retry_after_s)
        after = retry_with_backoff(failed, attempt, retries=MAX_ATTEMPTS, longest_s=LONGEST_S)
        if after is None or tried_for_s + after > TRIED_FOR_S:
            return Stop(f"{why}; it was tried for {TRIED_FOR_S / 3600:g} hours")
        log.warning("callback url=%s attempt=%d failed: %s; again in %.1f s", message.url, attempt, why, after)
        return Retry(why, after=after)

    async def _must_not_be_gone(self, url: str) -> None:
        if self._known_until.get(url, 0.0) > clock.now():
            return
        gone = await self._app.lanes.state(receiver_lane(url), Receiver)
        if gone is not None:
            raise Gone(f"{url} answered 410 before, and gets no more call-backs until {receiver_lane(url)} is cleared")
        if len(self._known_until) > 1000:
            self._known_until.clear()
        self._known_until[url] = clock.now() + KNOWN_S

    async def secrets(self) -> Secrets:
        """Those of the settings. Without any, one that is made once and kept in the store: its processes share it."""
        if not self._secrets:
            async with self._app.turn("webhook:secret", state=dict, state_ttl=365 * 86_400) as turn:
                kept = turn.state.setdefault("secret", new_secret())
            self._secrets = Secrets([kept], "the secret in the store")
        return self._secrets

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def tasks_client(app: InTurn, settings: Settings) -> CallbackClient:
    """Raises `SettingsError` for a secret that is none."""
    return CallbackClient(app, CallbackTargets.of(settings), secrets_of(settings))


def _seconds(header: str | None) -> float | None:
    return float(header) if header is not None and re.fullmatch(r"[0-9]{1,6}", header.strip()) else None


def _response(answer: bytes) -> WebhookCallbackResponse:
    """A receiver may answer anything with its 2xx. What is not ours is left out."""
    try:
        # not by `json`: that reads texts that cannot be kept (half a character), or gives up on brackets in brackets
        return WebhookCallbackResponse.model_validate_json(answer)
    except ValueError:
        return WebhookCallbackResponse()
