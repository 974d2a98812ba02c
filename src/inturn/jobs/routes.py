"""The HTTP routes of the AI service: capabilities, the jobs behind them, and the dead jobs for those who run it.

Routes raise errors as they are; the app that includes them turns errors into problem documents.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from pydantic import ValidationError

from inturn.capabilities.outcome import JobId
from inturn.errors import InTurnError, MissingExtra, UnknownJob
from inturn.http.caller import Caller
from inturn.http.problems import Problem, documented
from inturn.jobs.bodies import CapabilityIn, DeadJobOut, DeadJobsOut, Dropped, JobOut, QueuedOut, Replayed, SyncOut
from inturn.jobs.dead import DeadJobs
from inturn.jobs.patterns import Pattern, get_pattern_executor
from inturn.jobs.record import JobRecord
from inturn.jobs.service import JobService
from inturn.jobs.types import AsyncConfig, SyncConfig, lane_of
from inturn.lanes.admin import LaneInfo
from inturn.lanes.watch import Watch

try:
    from fastapi import APIRouter, Depends, Header, Path, Query, Response
    from fastapi.sse import EventSourceResponse, ServerSentEvent

    from inturn.http.exception_handlers import invalid_body
except ImportError as error:
    raise MissingExtra("inturn.jobs.routes", "server") from error

_NEEDED = ("callback_url", "user_id")
_READ = ("store-unavailable", "state-mismatch")
_WRITE = (*_READ, "outcome-unknown", "turn-lost")
_AGENT = ("agent-unavailable", "agent-rejected", "agent-timeout")

Calls = Callable[..., Caller]
Name = Annotated[str, Path(description="The name of the capability.")]
Id = Annotated[JobId, Path(description="The `ai_service_request_id`.")]


def job_routes(service: JobService, caller: Calls, admin: Calls) -> APIRouter:
    router = APIRouter(prefix="/api/v1")
    _add_capability_routes(router, service, caller)
    _add_job_routes(router, service, caller)
    _add_admin_routes(router, DeadJobs(service.app), admin)
    return router


def _add_capability_routes(router: APIRouter, service: JobService, caller: Calls) -> None:
    calls = Depends(caller)

    @router.post(
        "/capabilities/{name}",
        tags=["capabilities"],
        summary="Execute a capability",
        response_model=SyncOut | QueuedOut,
        responses={
            202: {"model": QueuedOut, "description": "Accepted: the outcome will be called back"},
            **documented(
                "unknown-capability", "input-refused", "vague-input", "callback-missing", "callback-not-allowed",
                "not-allowed", "broker-unavailable", *_WRITE, *_AGENT,
            ),
        },
    )  # fmt: skip
    async def execute(
        name: Name,
        given: CapabilityIn,
        response: Response,
        pattern: Annotated[
            Literal["sync", "async"], Query(description="Wait for the result, or be called back.")
        ] = "sync",
        idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
        who: Caller = calls,
    ) -> SyncOut | QueuedOut:
        """`sync` answers with the result. `async` answers with 202 as soon as the job is safe; its outcome is POSTed to
        `callback_url`, signed, and can be followed at `/api/v1/jobs/{ai_service_request_id}`.
        """
        capability = service.capabilities.get(name)
        if pattern == "async":
            _must_name(given)
        given_input = _read(capability.input, given.model_extra or {})
        by, job_id = Pattern(service, capability, who.tenant_id), _job_id(who, name, idempotency_key)
        if pattern == "sync":
            timed = await get_pattern_executor("sync")(by, SyncConfig(), given_input, job_id)
            assert timed.result.status == "success"
            return SyncOut(**timed.result.model_dump(exclude={"status", "pattern"}), duration_ms=timed.duration_ms)
        config = AsyncConfig(
            callback_url=given.callback_url or "",
            user_id=given.user_id or "",
            token_reservation=given.token_reservation,
        )
        _must_be_allowed(service, config, who)
        timed = await get_pattern_executor("async")(by, config, given_input, job_id)
        assert timed.result.status == "queued"
        response.status_code = 202
        response.headers["location"] = f"/api/v1/jobs/{job_id}"
        return QueuedOut(message=timed.result.message, ai_service_request_id=job_id)


def _job_id(who: Caller, capability: str, idempotency_key: str | None) -> str:
    """The same key of the same caller is the same job, also if the process that accepted it was killed."""
    if idempotency_key is None:
        return uuid.uuid4().hex
    told = "\0".join((who.tenant_id, who.user_id, capability, idempotency_key))
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def _must_name(given: CapabilityIn) -> None:
    missing = [field for field in _NEEDED if not getattr(given, field)]
    if missing:
        raise Problem(
            "callback-missing",
            f"With pattern=async the body must also have: {', '.join(missing)}.",
            more={"missing": missing},
        )


def _must_be_allowed(service: JobService, config: AsyncConfig, who: Caller) -> None:
    """A user may be called back about itself alone: what we sign is believed."""
    if not who.is_service and config.user_id != who.user_id:
        raise Problem(
            "not-allowed", "With a user's API key, user_id must be that user. Services have keys of their own."
        )
    why = service.callbacks.targets.problem(config.callback_url)
    if why:
        raise Problem("callback-not-allowed", f"The callback_url cannot be used: {why}.")


def _read(model: Any, given: dict[str, Any]) -> Any:
    """As FastAPI reads a body: what is wrong with it becomes a 422 that names each field."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise invalid_body(error) from error


def _add_job_routes(router: APIRouter, service: JobService, caller: Calls) -> None:
    calls, app = Depends(caller), service.app

    async def look(job_id: str, who: Caller) -> tuple[JobRecord, LaneInfo]:
        lane = await app.lanes.inspect(lane_of(job_id), limit=1)
        record = lane.state_as(JobRecord)
        if record is None or record.status == "withdrawn" or not may_see(record, who):
            raise UnknownJob(job_id)
        return record, lane

    @router.get(
        "/jobs/{job_id}",
        tags=["jobs"],
        summary="Get a job",
        response_model_exclude_none=True,
        responses=documented("unknown-job", *_READ),
    )
    async def get_job(job_id: Id, who: Caller = calls) -> JobOut:
        return JobOut.of(*await look(job_id, who))

    async def watch_of(job_id: Id, who: Caller = calls) -> AsyncIterator[Watch]:
        # a dependency, so that the watch ends with the request; and looked at first, so that a stranger gets a 404
        await look(job_id, who)
        async with app.watch(lane_of(job_id)) as watch:
            yield watch

    the_watch = Depends(watch_of)

    @router.get(
        "/jobs/{job_id}/events",
        tags=["jobs"],
        summary="Stream a job as server-sent events",
        response_class=EventSourceResponse,
        responses=documented("unknown-job", "too-many-streams", *_READ),
    )
    async def get_job_events(
        job_id: Id, watch: Watch = the_watch, who: Caller = calls
    ) -> AsyncIterator[ServerSentEvent]:
        """Each event is named by the new status (`queued`, `running`, `attempt`, `done`, `dead`) and holds the job. The
        stream ends with `done` or `dead`.
        """
        told: tuple[str, int, int] | None = None
        try:
            while True:
                job = JobOut.of(*await look(job_id, who))
                if told != (told := (job.status, job.run, job.attempt)):
                    yield ServerSentEvent(event=job.status, data=job.model_dump(mode="json", exclude_none=True))
                if job.status in ("done", "dead"):
                    return
                while (await anext(watch)).what == "chunk":
                    pass
        except StopAsyncIteration:
            return
        except InTurnError:
            yield ServerSentEvent(event="problem", data=Problem("stream-ended").document())


def may_see(record: JobRecord, who: Caller) -> bool:
    return who.is_service or who.is_admin or (record.tenant_id, record.user_id) == (who.tenant_id, who.user_id)


def _add_admin_routes(router: APIRouter, dead: DeadJobs, admin: Calls) -> None:
    only_admins = [Depends(admin)]
    described = documented("not-allowed", "unknown-job", *_WRITE)
    place = "/admin/jobs/dead"

    @router.get(place, tags=["admin"], summary="List the dead jobs", responses=described, dependencies=only_admins)
    async def list_dead(limit: Annotated[int, Query(ge=1, le=10_000)] = 1000) -> DeadJobsOut:
        """Jobs that failed for good, and call-backs that were not taken; the oldest first."""
        return DeadJobsOut(dead=[DeadJobOut.of(each) for each in await dead.list(limit)])

    @router.post(
        f"{place}/replay", tags=["admin"], summary="Replay all dead jobs", responses=described, dependencies=only_admins
    )
    async def replay_all() -> Replayed:
        return Replayed(replayed=await dead.replay_all())

    @router.get(
        f"{place}/{{job_id}}", tags=["admin"], summary="Show what died of a job", responses=described,
        dependencies=only_admins,
    )  # fmt: skip
    async def show_dead(job_id: Id) -> DeadJobsOut:
        """With its payload, and the error and traceback of each attempt."""
        found = await dead.show(job_id)
        if not found:
            raise UnknownJob(job_id)
        return DeadJobsOut(dead=[DeadJobOut.of(each, whole=True) for each in found])

    @router.post(
        f"{place}/{{job_id}}/replay", tags=["admin"], summary="Replay a dead job", responses=described,
        dependencies=only_admins,
    )  # fmt: skip
    async def replay_one(job_id: Id) -> Replayed:
        """It keeps its id, and gets all its attempts again. A call-back that died is sent again."""
        return Replayed(replayed=_some(await dead.replay(job_id), job_id))

    @router.delete(
        f"{place}/{{job_id}}", tags=["admin"], summary="Drop a dead job", responses=described, dependencies=only_admins
    )
    async def drop_one(job_id: Id) -> Dropped:
        return Dropped(dropped=_some(await dead.drop(job_id), job_id))


def _some(count: int, job_id: str) -> int:
    if not count:
        raise UnknownJob(job_id)
    return count
