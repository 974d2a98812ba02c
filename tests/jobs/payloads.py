"""Jobs as tests write them."""

from __future__ import annotations

import time
from typing import Any

from inturn.capabilities.outcome import ErrorInfo
from inturn.jobs.types import CapabilityJobPayload, JobFailed, JobMessage


def payload(job_id: str = "j1", **fields: Any) -> CapabilityJobPayload:
    given: dict[str, Any] = {
        "ai_service_request_id": job_id,
        "capability": "parse-task",
        "input": {"natural_language": "Pay the rent by Friday"},
        "callback_url": "http://127.0.0.1:1/api/v1/webhooks",
        "user_id": "ada",
        "request_id": "r1",
        "accepted_at": time.time(),
    }
    return CapabilityJobPayload(**{**given, **fields})


def message(run: int = 1, attempt: int = 1, **fields: Any) -> JobMessage:
    return JobMessage(payload=payload(**fields), run=run, attempt=attempt)


def failed(**fields: Any) -> JobFailed:
    given: dict[str, Any] = {"error": ErrorInfo(message="no", type="agent_unavailable"), "is_worth_retry": True}
    return JobFailed(**{**given, **fields})
