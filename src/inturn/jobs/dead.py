"""Dead jobs: the dead letters of jobs and call-backs, known by the id of their job, whatever carried them.

They are dead letters of the store: `inturn lanes dead` shows them too. A job that is replayed keeps its id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from inturn.app import InTurn
from inturn.jobs.record import JobRecord
from inturn.jobs.service import UNREADABLE, JobGivenUp
from inturn.jobs.transport import JOB, WEBHOOK
from inturn.jobs.types import lane_of, webhook_id
from inturn.lanes.admin import DeadLetter

_KINDS = {JOB: "job", WEBHOOK: "webhook", UNREADABLE: "unreadable"}
MAX_LETTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class DeadJob:
    """`errors`: of every attempt that is still known, the newest last, each with its traceback."""

    id: str
    kind: str
    attempts: int
    accepted_at: float
    died_at: float
    error: str
    payload: Any
    errors: list[dict[str, Any]]
    letter: DeadLetter


Many = list["DeadJob"]


class DeadJobs:
    def __init__(self, app: InTurn) -> None:
        self._app = app

    async def list(self, limit: int = 1000) -> Many:
        """The oldest first."""
        asked = limit
        while True:
            letters = await self._app.dead_letters.list(asked)
            found = [_of(letter) for letter in letters if letter.handler in _KINDS][:limit]
            if len(found) == limit or len(letters) < asked or asked == MAX_LETTERS:
                return found
            asked = min(10 * asked, MAX_LETTERS)  # other handlers have dead letters too

    async def show(self, job_id: str) -> Many:
        """All that died of this job: the job itself, or its call-back."""
        lane = lane_of(job_id)
        record = await self._app.lanes.state(lane, JobRecord)
        if record is None:  # it has expired, and its letters may not have
            return [dead for dead in await self.list(MAX_LETTERS) if dead.id == job_id]
        show = self._app.dead_letters.show
        died = await show(lane, JOB, record.letter) if record.letter else None
        letters = [died] + [await show(f"{lane}>{WEBHOOK}", WEBHOOK, webhook_id(job_id, run))
                            for run in range(1, record.run + 1)]  # fmt: skip
        found = [_of(letter) for letter in letters if letter is not None]
        return [_with_record(dead, record) if dead.kind == "job" else dead for dead in found]

    async def replay(self, job_id: str) -> int:
        return await self._replay(await self.show(job_id))

    async def replay_all(self) -> int:
        """Only those that are dead now: what dies again stays. What is no job at all stays, too."""
        return await self._replay([dead for dead in await self.list(MAX_LETTERS) if dead.kind != "unreadable"])

    async def drop(self, job_id: str) -> int:
        return await self._drop(await self.show(job_id))

    async def drop_all(self) -> int:
        return await self._drop(await self.list(MAX_LETTERS))

    async def _replay(self, dead: Many) -> int:
        letters = self._app.dead_letters
        return sum([await letters.replay(each.letter.key, each.letter.handler, each.letter.id) for each in dead])

    async def _drop(self, dead: Many) -> int:
        letters = self._app.dead_letters
        return sum([await letters.drop(each.letter.key, each.letter.handler, each.letter.id) for each in dead])


def _with_record(dead: DeadJob, record: JobRecord) -> DeadJob:
    """The record knows the errors of all attempts; the dead letter only the last one."""
    errors = [error.model_dump() for error in record.errors] or dead.errors
    return replace(dead, attempts=record.attempt, errors=errors)


def _of(letter: DeadLetter) -> DeadJob:
    last = letter.errors[-1] if letter.errors else {}
    body = letter.body if isinstance(letter.body, dict) else {}
    payload = body.get("payload", body)
    accepted_at = payload.get("accepted_at") if isinstance(payload, dict) else None
    return DeadJob(
        id=letter.key.removeprefix("job:").partition(">")[0],
        kind=_KINDS[letter.handler],
        attempts=body.get("attempt", letter.attempts),
        accepted_at=accepted_at or letter.accepted_at,
        died_at=letter.died_at,
        error=_said(last),
        payload=payload,
        errors=[dict(error) for error in letter.errors],
        letter=letter,
    )


def _said(error: dict[str, Any]) -> str:
    """The error of a job that was given up is what it was given up for."""
    message = str(error.get("message", "no error was kept"))
    return message if error.get("type") == JobGivenUp.__name__ else f"{error.get('type', 'Error')}: {message}"
