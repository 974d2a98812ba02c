"""Asks the AI service for a task: over HTTP, or in this process through the same routes.

What it refuses is told on in meaning, and nothing of its own words that are meant for operators.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from inturn.capabilities.outcome import TokenReservation
from inturn.errors import MissingExtra
from inturn.http import request_id
from inturn.http.problems import Problem

try:
    import httpx2
except ImportError as error:
    raise MissingExtra("asking the AI service", "server") from error

SYNC_S = 600.0
STATUS_S = 2.0
KEPT_S = 2.0
"""How long a connection is kept that is not in use. Servers give up after 5 s, uvicorn's default, or later."""
PATH = "/api/v1/capabilities/parse-task"
_JOB = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAY_RUN = {
    "outcome-unknown", "turn-lost", "took-too-long", "still-running", "other-payload", "not-replayable",
    "response-expired",
}  # fmt: skip
"""The AI service does not know, or knows the key: an earlier request with it may have been accepted."""
_GATEWAYS = (502, 504)


class NotAccepted(Exception):
    """`problem`: what the user is told. `is_certain`: the job does not run. Else it may, and may be called back."""

    def __init__(self, problem: Problem, is_certain: bool) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.is_certain = is_certain


class JobProgress(BaseModel):
    """`run`: 1, and one more for each time that it was replayed."""

    status: str
    run: int = 1

    @property
    def is_open(self) -> bool:
        return self.status in ("queued", "running", "attempt")


class AiClient:
    """`transport`: the AI service of this process. Without it, the one at `base_url` is asked, with a service key."""

    def __init__(
        self,
        base_url: str,
        *,
        key: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        timeout_s: float = 15.0,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._timeout_s = timeout_s
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._transport = transport
        self._client: httpx2.AsyncClient | None = None

    async def ask(
        self,
        text: str,
        time_zone: str,
        *,
        idempotency_key: str,
        callback_url: str,
        user_id: str,
        hold: TokenReservation,
    ) -> str:
        """Returns the id of the job. The same key gets the same job. Raises `NotAccepted`."""
        body = {
            "natural_language": text, "time_zone": time_zone, "callback_url": callback_url, "user_id": user_id,
            "token_reservation": hold.model_dump(mode="json"),
        }  # fmt: skip
        status, told = await self._post("async", body, self._timeout_s, {"idempotency-key": idempotency_key})
        job_id = told.get("ai_service_request_id")
        if status == 202 and isinstance(job_id, str) and _JOB.fullmatch(job_id):
            return job_id
        raise _refused(status, told)

    async def ask_and_wait(self, text: str, time_zone: str) -> Mapping[str, Any]:
        """Returns the answer of `pattern=sync`: `result` and `openai_metadata`. Raises `NotAccepted`."""
        status, told = await self._post("sync", {"natural_language": text, "time_zone": time_zone}, SYNC_S, {})
        if status == 200:
            return told
        raise _refused(status, told)

    async def job(self, job_id: str) -> JobProgress | None:
        """How far a job is. `None` if that cannot be found out."""
        try:
            async with asyncio.timeout(STATUS_S):
                response = await self._http().get(f"/api/v1/jobs/{job_id}", headers=self._sent())
            return JobProgress.model_validate_json(response.content) if response.status_code == 200 else None
        except (httpx2.HTTPError, ValidationError, OSError):
            return None

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _post(
        self, pattern: str, body: dict[str, Any], answer_s: float, headers: dict[str, str]
    ) -> tuple[int, Mapping[str, Any]]:
        timeout = httpx2.Timeout(answer_s, connect=self._timeout_s)
        try:
            async with asyncio.timeout(answer_s):  # for all of it; inside this process there is no other limit
                response = await self._http().post(
                    PATH, params={"pattern": pattern}, json=body, headers=self._sent() | headers, timeout=timeout
                )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise NotAccepted(Problem("ai-unavailable"), is_certain=True) from error
        except (httpx2.HTTPError, OSError) as error:  # it was sent, and nobody knows what became of it
            raise NotAccepted(Problem("ai-unavailable", _UNKNOWN), is_certain=False) from error
        try:
            told = response.json()
        except (ValueError, RecursionError):
            told = None
        return response.status_code, told if isinstance(told, dict) else {}

    def _sent(self) -> dict[str, str]:
        known = request_id.get()
        return self._headers | ({"x-request-id": known} if known else {})

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                base_url=self._base_url,
                transport=self._transport,
                follow_redirects=False,
                trust_env=False,
                # given up before the AI service does: if it closed one just when we use it, the answer would be lost
                limits=httpx2.Limits(max_connections=200, max_keepalive_connections=50, keepalive_expiry=KEPT_S),
            )
        return self._client


_UNKNOWN = (
    "The AI service did not answer in time. Repeat the request with the same Idempotency-Key: it is never done twice."
)


def _refused(status: int, told: Mapping[str, Any]) -> NotAccepted:
    code = told.get("code")
    if code == "input-refused":
        return NotAccepted(Problem("input-refused"), is_certain=True)
    if code == "vague-input":
        detail, suggestions = told.get("detail"), told.get("suggestions")
        more = {"suggestions": suggestions} if isinstance(suggestions, list) else {}
        return NotAccepted(Problem("vague-input", detail if isinstance(detail, str) else "", more=more), True)
    if status == 422 and code == "invalid-request":  # its detail may name what we have added
        return NotAccepted(Problem("invalid-request", "The AI service cannot read this sentence."), is_certain=True)
    if code == "agent-timeout":
        return NotAccepted(Problem("ai-unavailable", "The AI service did not finish in time."), is_certain=True)
    if status == 202 or code in _MAY_RUN or (status in _GATEWAYS and not code):
        return NotAccepted(Problem("ai-unavailable", _UNKNOWN), is_certain=False)
    return NotAccepted(Problem("ai-unavailable"), is_certain=True)
