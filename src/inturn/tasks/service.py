"""`TasksService`: a sentence from its POST to its task. The state of a request says which step was the last.

create    reserve tokens and write the request down (`asking`), ask the AI service, and then it is `queued`
call-back one transaction: the id of the call-back, the task with its subtasks, the settlement, and `done` or `failed`

If the process dies between two steps, the request is `asking`: a repeat with the same Idempotency-Key goes on from
there, with the same job, and a call-back that comes first ends it just as well.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import sqlalchemy as sa
from pydantic import ValidationError

from inturn import metrics
from inturn.capabilities.capability import Capabilities
from inturn.capabilities.outcome import ErrorInfo, TokenReservation, WebhookFailure, WebhookSuccess
from inturn.capabilities.parse_task.models import ParsedTask, ParseTaskInput
from inturn.database import Connection, Database
from inturn.errors import (
    BudgetExhausted,
    DatabaseError,
    DatabaseUnavailable,
    UnknownCapability,
    UnknownRequest,
    UnknownTask,
)
from inturn.http.problems import Problem
from inturn.tasks.ai_client import AiClient, JobProgress, NotAccepted
from inturn.tasks.ledger import (
    ACTIVE,
    MAX_AT_ONCE,
    MAX_USED,
    Budget,
    Ledger,
    User,
    insert_once,
    release,
    settle,
)
from inturn.tasks.tables import holds, requests, webhooks
from inturn.tasks.tasks import (
    Task,
    change_task,
    create_many_subtasks,
    create_task,
    delete_task,
    find_task_by_id,
    find_tasks,
)

log = logging.getLogger("inturn.tasks")

ASKING, QUEUED, DONE, FAILED, REFUSED = "asking", "queued", "done", "failed", "refused"
SWEEP_S = 30.0
GIVEN_UP_S = 2 * 86_400.0
"""A call-back is tried for a day. A request without one after two has failed; one that comes later still counts."""
KEPT_S = 30 * 86_400.0
"""How long the ids of call-backs are kept. Dead jobs, which may be replayed, are kept for a week."""
MAX_TOLD, MAX_SUGGESTIONS = 2000, 10
"""Characters of each text, and texts, that are kept of the reason of a failure."""
LOOK_AGAIN_S = 1.0
"""After this time whoever follows a request looks again, if nothing of it was heard."""

Status = Literal["queued", "running", "done", "failed"]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as its user sees it. `error` is there if it failed, `task` if it is done and the task still exists."""

    id: str
    status: Status
    natural_language: str
    created_at: float
    changed_at: float
    task: Task | None = None
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """What the AI service is told. `was_asked`: it may have been told before."""

    reservation: TokenReservation
    was_asked: bool


@dataclass(frozen=True, slots=True)
class Taken:
    """What a call-back is answered with. `outcome`: what it was, for the metrics."""

    request_id: str
    response: dict[str, Any]
    outcome: str
    spent: int = 0
    took_s: float = 0.0


class TasksService:
    def __init__(
        self,
        database: Database,
        ai: AiClient,
        ledger: Ledger,
        capabilities: Capabilities,
        *,
        callback_url: str | None,
        estimate: int = 1000,
        now: Clock = time.time,
    ) -> None:
        """`callback_url`: where the AI service reaches this one; without it nothing can be asked for. `estimate`: the
        tokens of a request, where no capability of this process says better.
        """
        self.database = database
        self.ai = ai
        self.ledger = ledger
        self.now = now
        self._capabilities = capabilities
        self._callback_url = callback_url
        self._estimate = estimate
        self._accepted: dict[str, str] = {}
        """Jobs by request, which the sweep has to write down."""
        self._followers: dict[str, set[asyncio.Event]] = {}
        self._sweeping: asyncio.Task[None] | None = None

    # -- create

    async def create(self, user: User, given: ParseTaskInput, idempotency_key: str | None = None) -> str:
        """Returns the id of the request: the AI service has it. Raises `BudgetExhausted`, or a `Problem` that says why
        the AI service has not, and then nothing is held for it; or that nobody knows, and then its tokens stay held.
        """
        if self._callback_url is None:
            raise Problem(
                "ai-unavailable", "This server cannot be called back: its operator must set TASKS_SERVICE_BASE_URL."
            )
        request_id = _request_id(user, idempotency_key)
        log.info("Create task (async) - starting request=%s", request_id)
        begun = await self._begin(user, request_id, given)
        if begun is None:  # it is known, and was accepted
            return request_id
        # if we are killed here, the hold expires; or the client repeats, and the same job is asked for
        try:
            job_id = await self.ai.ask(
                given.natural_language, given.time_zone, idempotency_key=request_id,
                callback_url=self._callback_url, user_id=user.user_id, hold=begun.reservation,
            )  # fmt: skip
        except NotAccepted as refused:
            # where the job may run, of this ask or of one before, its call-back settles the hold, or it expires
            if refused.is_certain and not begun.was_asked:
                await self._give_back(request_id)
            raise refused.problem from refused
        # if we are killed here, the job runs, and its call-back finds the request as it is
        try:
            await self.database.transaction(lambda at: _was_accepted(at, request_id, job_id, self.now()))
        except DatabaseUnavailable as error:  # both services have it: to repeat it now would make another one
            log.warning("request=%s: that it is queued will be written down later: %s", request_id, error)
            self._accepted[request_id] = job_id
        log.info("Create task (async) - succeeded request=%s job=%s", request_id, job_id)
        return request_id

    async def create_now(self, user: User, given: ParseTaskInput, idempotency_key: str | None = None) -> Task:
        """Waits for the AI service, and returns the task. Raises as `create` does; nothing stays held."""
        request_id, began_at = _request_id(user, idempotency_key, "sync"), self.now()
        log.info("Create task (sync) - starting request=%s", request_id)
        if await self._begin(user, request_id, given) is None:
            return await self._made_before(user, request_id)
        try:
            told = await self.ai.ask_and_wait(given.natural_language, given.time_zone)
            parsed, used = ParsedTask.model_validate(told.get("result")), _used_of(told.get("openai_metadata"))
            task = await self.database.transaction(
                lambda at: _finish_now(at, self.ledger, request_id, parsed, used, self.now())
            )
        except NotAccepted as refused:
            await self._give_back(request_id)
            raise refused.problem from refused
        except ValidationError as error:
            await self._give_back(request_id)
            raise Problem("ai-unavailable", "The AI service gave an answer that is not a task.") from error
        except BaseException:  # cancelled, say: nobody will be called back
            await asyncio.shield(self._give_back(request_id))
            raise
        self._count("done", used, self.now() - began_at)
        log.info("Create task (sync) - succeeded request=%s task=%s", request_id, task.id)
        return task

    async def _made_before(self, user: User, request_id: str) -> Task:
        found = await self.request(user, request_id)
        if found.task is None:
            raise Problem("ai-unavailable", "This request has failed. Repeat it with another Idempotency-Key.")
        return found.task

    async def _begin(self, user: User, request_id: str, given: ParseTaskInput) -> Begun | None:
        """Reserves, and writes the request down. `None`: it was accepted before.

        What the AI service is told of a request is the same for each repeat: else it would refuse its key.
        """
        estimate = self._tokens_of(given)

        async def begin(at: Connection) -> Begun | None:
            now = created_at = self.now()
            was_asked = False
            values = {
                "tenant_id": user.tenant_id, "user_id": user.user_id, "natural_language": given.natural_language,
                "time_zone": given.time_zone, "state": ASKING, "hold_id": "", "created_at": now, "changed_at": now,
            }  # fmt: skip
            if not await insert_once(at, requests, id=request_id, **values):
                row = await _locked(at, requests.c.id == request_id)
                if (row.natural_language, row.time_zone) != (given.natural_language, given.time_zone):
                    raise Problem("other-payload")
                if row.state in (QUEUED, DONE, FAILED):
                    return None
                created_at, was_asked = row.created_at, row.state == ASKING
                hold = await self.ledger.reserve_again(at, row.hold_id, now)
            else:
                hold = await self.ledger.reserve(at, user, estimate, now, request_id)
            changed = sa.update(requests).where(requests.c.id == request_id)
            await at.execute(changed.values(hold_id=hold.id, state=ASKING, changed_at=now))
            reservation = TokenReservation(
                tokens_reserved=hold.estimate,
                window_start_timestamp=self.ledger.window_of(created_at),
                hold_id=hold.id,
            )
            return Begun(reservation, was_asked)

        try:
            return await self.database.transaction(begin)
        except BudgetExhausted:
            metrics.budget_refusals.inc()
            raise

    def _tokens_of(self, given: ParseTaskInput) -> int:
        try:
            return self._capabilities.get("parse-task").tokens(given)
        except UnknownCapability:
            return self._estimate

    async def _give_back(self, request_id: str) -> None:
        """The AI service has not accepted it."""

        async def give_back(at: Connection) -> bool:
            row = await _locked(at, requests.c.id == request_id)
            if row.state != ASKING:  # its call-back was faster, or a repeat was accepted
                return False
            await release(at, row.hold_id)
            changed = sa.update(requests).where(requests.c.id == request_id)
            await at.execute(changed.values(state=REFUSED, changed_at=self.now()))
            return True

        try:
            if await self.database.transaction(give_back):
                metrics.task_requests.labels("refused").inc()
        except DatabaseError as error:  # the user is told what the AI service said; the hold expires
            log.warning("request=%s: its tokens are held until they expire: %s", request_id, error)

    # -- the call-back

    async def take_callback(self, webhook_id: str, callback: WebhookSuccess | WebhookFailure) -> dict[str, Any]:
        """Returns what the caller is answered with: the same for each repeat. Raises `Problem`."""
        log.info("Handle webhook callback - starting webhook=%s status=%s", webhook_id, callback.status)
        taken = await self.database.transaction(
            lambda at: handle_webhook_callback(at, self.ledger, webhook_id, callback, self.now())
        )
        metrics.webhooks_received.labels(taken.outcome).inc()
        if taken.outcome in ("done", "failed"):
            self._count(taken.outcome, taken.spent, taken.took_s)
        for follower in self._followers.get(taken.request_id, ()):
            follower.set()
        log.info(
            "Handle webhook callback - succeeded webhook=%s request=%s %s", webhook_id, taken.request_id, taken.outcome
        )
        return taken.response

    def _count(self, outcome: str, spent: int, took_s: float) -> None:
        metrics.task_requests.labels(outcome).inc()
        metrics.budget_tokens_spent.inc(spent)
        if outcome == "done":
            metrics.task_seconds.observe(max(0.0, took_s))

    # -- look

    async def request(self, user: User, request_id: str) -> Request:
        """Raises `UnknownRequest`, also for one of somebody else."""

        async def look(at: Connection) -> Any:
            row = (await at.execute(sa.select(requests).where(requests.c.id == request_id, *_of(user)))).one_or_none()
            if row is None or row.state == REFUSED:
                raise UnknownRequest(request_id)
            return row, await find_task_by_id(at, user, row.task_id) if row.task_id else None

        row, task = await self.database.transaction(look)
        if row.state == QUEUED or _may_be_replayed(row):
            job = await self.ai.job(row.ai_service_request_id)
            if row.state == FAILED and job is not None and job.is_open:
                await self.database.transaction(lambda at: _open_again(at, self.ledger, row, job, self.now()))
                row, task = await self.database.transaction(look)  # its call-back may have come meanwhile
            return _request(row, task, row.state == QUEUED and job is not None and job.status == "running")
        return _request(row, task)

    async def requests(self, user: User, states: tuple[str, ...], limit: int) -> list[Request]:
        """The newest first, without asking what runs."""

        async def look(at: Connection) -> list[Request]:
            query = sa.select(requests).where(*_of(user), requests.c.state.in_(states))
            rows = (await at.execute(query.order_by(requests.c.created_at.desc(), requests.c.id).limit(limit))).all()
            made = await find_tasks(at, user, [row.task_id for row in rows if row.task_id])
            return [_request(row, made.get(row.task_id)) for row in rows]

        return await self.database.transaction(look)

    async def follow(self, request_id: str, event: asyncio.Event) -> None:
        """Returns when the request may have changed."""
        followers = self._followers.setdefault(request_id, set())
        followers.add(event)
        try:
            async with asyncio.timeout(LOOK_AGAIN_S):
                await event.wait()
        except TimeoutError:
            pass  # another process may have taken the call-back
        finally:
            event.clear()
            followers.discard(event)
            if not followers:
                self._followers.pop(request_id, None)

    async def budget(self, user: User) -> Budget:
        return await self.database.transaction(lambda at: self.ledger.budget(at, user, self.now()))

    async def set_limit(self, user: User, tokens: int) -> Budget:
        async def change(at: Connection) -> Budget:
            await self.ledger.set_limit(at, user, tokens, self.now())
            return await self.ledger.budget(at, user, self.now())

        return await self.database.transaction(change)

    # -- tasks

    async def task(self, user: User, task_id: str) -> Task:
        found = await self.database.transaction(lambda at: find_task_by_id(at, user, task_id))
        if found is None:
            raise UnknownTask(task_id)
        return found

    async def change(self, user: User, task_id: str, given: dict[str, Any]) -> Task:
        async def change(at: Connection) -> Task | None:
            task = await find_task_by_id(at, user, task_id, locks=True)
            if task is None:
                return None
            await change_task(at, task, given, self.now())
            return await find_task_by_id(at, user, task_id)

        changed = await self.database.transaction(change)
        if changed is None:
            raise UnknownTask(task_id)
        return changed

    async def delete(self, user: User, task_id: str) -> None:
        is_deleted = False

        async def delete(at: Connection) -> bool:
            nonlocal is_deleted  # by a first try, whose commit was not answered
            is_deleted = await delete_task(at, user, task_id) or is_deleted
            return is_deleted

        if not await self.database.transaction(delete):
            raise UnknownTask(task_id)

    # -- what nobody asks for

    async def sweep(self) -> None:
        """Lets holds expire, ends requests that no call-back has ended, and forgets old ids."""

        for request_id, job_id in list(self._accepted.items()):
            await self.database.transaction(
                partial(_was_accepted, request_id=request_id, job_id=job_id, now=self.now())
            )
            del self._accepted[request_id]

        async def expire(at: Connection) -> int:
            return len(await self.ledger.expire(at, self.now()))

        async def end(at: Connection) -> tuple[int, int]:
            now, ended = self.now(), 0
            old = {ASKING: now - self.ledger.hold_ttl_s, QUEUED: now - GIVEN_UP_S}
            for state, before in old.items():
                why = ErrorInfo(type="no_answer", message="The AI service has not answered. Please try again.")
                given_up = await at.execute(
                    sa.update(requests)
                    .where(requests.c.state == state, requests.c.changed_at < before)
                    .values(state=FAILED, error=why.model_dump_json(exclude_none=True), changed_at=now)
                )
                ended += given_up.rowcount
            await at.execute(sa.delete(webhooks).where(webhooks.c.received_at < now - KEPT_S))
            held = await at.scalar(sa.select(sa.func.sum(holds.c.estimate)).where(holds.c.state == ACTIVE))
            return ended, int(held or 0)

        expired = MAX_AT_ONCE
        while expired == MAX_AT_ONCE:
            expired = await self.database.transaction(expire)
            metrics.budget_holds_expired.inc(expired)
        ended, held = await self.database.transaction(end)
        metrics.task_requests.labels("failed").inc(ended)
        metrics.budget_tokens_held.set(held)

    async def start(self) -> None:
        """Opens the database. Raises `DatabaseOutdated`; if it is away, requests get 503 until it is back."""
        is_open = True
        try:
            await self.database.open()
        except DatabaseUnavailable as error:
            is_open = False
            log.warning("the database is away, and requests for tasks get 503 until it is back: %s", error)
        self._sweeping = asyncio.create_task(self._sweep_now_and_then(is_open))

    async def _sweep_now_and_then(self, is_open: bool) -> None:
        while True:
            try:
                if not is_open:
                    await self.database.open()
                    is_open = True
                await self.sweep()
            except DatabaseError as error:
                log.warning("sweep postponed: %s", error)
            except Exception:  # whatever it is, holds must go on to expire
                log.exception("sweep failed")
            await asyncio.sleep(SWEEP_S)

    async def close(self) -> None:
        sweeping, self._sweeping = self._sweeping, None
        if sweeping is not None:
            sweeping.cancel()
            await asyncio.wait([sweeping])
        await self.ai.aclose()
        await self.database.close()


async def handle_webhook_callback(
    at: Connection, ledger: Ledger, webhook_id: str, callback: WebhookSuccess | WebhookFailure, now: float
) -> Taken:
    """Takes a call-back whose signature was verified, in one transaction with all that follows from it.

    `done` is final: whatever comes later, in whatever order, changes nothing. A success after a failure is a job that
    was replayed: its tokens are reserved anew, and charged.
    """
    if not await insert_once(at, webhooks, id=webhook_id, request_id="", response="", received_at=now):
        known = (await at.execute(sa.select(webhooks).where(webhooks.c.id == webhook_id))).one()
        return Taken(known.request_id, json.loads(known.response), "repeated")
    by_job = requests.c.ai_service_request_id == callback.ai_service_request_id
    reservation = callback.token_reservation
    row = None
    if reservation is not None:  # the hold is known from the beginning; the job only once the AI service has answered
        by_hold = sa.select(holds.c.request_id).where(holds.c.id == reservation.hold_id).scalar_subquery()
        row = await _locked(at, requests.c.id == by_hold)
    row = row or await _locked(at, by_job)
    if row is None:
        raise Problem("unknown-request", "No request of this service waits for this call-back.")
    if row.user_id != callback.user_id:
        raise Problem("not-allowed", "The user_id is not the one of the request.")
    outcome, spent, task_id = "repeated", 0, row.task_id
    if row.state != DONE:
        outcome, spent, task_id = await _take(at, ledger, row, callback, now)
    task = await find_task_by_id(at, User(row.tenant_id, row.user_id), task_id) if task_id else None
    response = {"tasks_service_request_id": row.id, "task": task.model_dump(mode="json") if task else None}
    kept = sa.update(webhooks).where(webhooks.c.id == webhook_id)
    await at.execute(kept.values(request_id=row.id, response=json.dumps(response)))
    return Taken(row.id, response, outcome, spent, now - row.created_at)


async def _take(
    at: Connection, ledger: Ledger, row: Any, callback: WebhookSuccess | WebhookFailure, now: float
) -> tuple[str, int, str | None]:
    if callback.status == "failure":
        await _fail(at, row, callback.error, callback.ai_service_request_id, now)
        return "failed", 0, None
    try:
        parsed = ParsedTask.model_validate(callback.result)
    except ValidationError as error:
        log.error("job=%s: its result is not a task: %s", callback.ai_service_request_id, error)
        why = ErrorInfo(type="invalid_result", message="The AI service gave an answer that is not a task.")
        await _fail(at, row, why, callback.ai_service_request_id, now)
        return "failed", 0, None
    used = min(MAX_USED, sum(call.total_tokens for call in callback.openai_metadata))
    return "done", used, await _finish(at, ledger, row, parsed, used, now, callback.ai_service_request_id)


async def _finish(
    at: Connection, ledger: Ledger, row: Any, parsed: ParsedTask, used: int, now: float, job_id: str | None = None
) -> str:
    """Returns the id of the task."""
    user, hold_id = User(row.tenant_id, row.user_id), row.hold_id
    task_id = await create_task(at, user, row.id, row.natural_language, parsed, now)
    await create_many_subtasks(at, task_id, [(title, False) for title in parsed.subtasks or ()])
    if not await settle(at, hold_id, used):  # its failure was told, and its job was replayed
        hold_id = await _hold_anew(at, ledger, row, now)
        await settle(at, hold_id, used)
    changed = sa.update(requests).where(requests.c.id == row.id)
    ended = {"state": DONE, "task_id": task_id, "hold_id": hold_id, "error": None, "changed_at": now}
    await at.execute(changed.values(**ended, ai_service_request_id=job_id))
    return task_id


async def _finish_now(
    at: Connection, ledger: Ledger, request_id: str, parsed: ParsedTask, used: int, now: float
) -> Task:
    row = await _locked(at, requests.c.id == request_id)
    if row.state != DONE:  # else the first try of this was committed
        await _finish(at, ledger, row, parsed, used, now)
        row = await _locked(at, requests.c.id == request_id)
    found = await find_task_by_id(at, User(row.tenant_id, row.user_id), row.task_id)
    assert found is not None, "it was just made"
    return found


async def _open_again(at: Connection, ledger: Ledger, row: Any, job: JobProgress, now: float) -> None:
    """If the job of a request that had failed is being replayed, unless its call-back was faster."""
    found = await _locked(at, requests.c.id == row.id)
    told = await at.scalar(sa.select(sa.func.count()).select_from(webhooks).where(webhooks.c.request_id == row.id))
    # each run calls back once
    if (found.state, found.changed_at) != (row.state, row.changed_at) or not 0 < (told or 0) < job.run:
        return
    hold_id = await _hold_anew(at, ledger, found, now)
    changed = sa.update(requests).where(requests.c.id == row.id)
    await at.execute(changed.values(hold_id=hold_id, state=QUEUED, error=None, changed_at=now))


async def _hold_anew(at: Connection, ledger: Ledger, row: Any, now: float) -> str:
    """For a job that is replayed. An operator has decided that, not the user, so it may pass the limit: the tokens are
    used in any case, and the ledger says so.
    """
    estimate = await at.scalar(sa.select(holds.c.estimate).where(holds.c.id == row.hold_id)) or 0
    return (await ledger.reserve(at, User(row.tenant_id, row.user_id), estimate, now, row.id, may_exceed=True)).id


async def _fail(at: Connection, row: Any, error: ErrorInfo, job_id: str, now: float) -> None:
    """Settles at 0: who got no task pays nothing."""
    await settle(at, row.hold_id, 0)
    told = ErrorInfo(
        type=_kept(error.type), message=_kept(error.message) or "", suggestions=_kept_all(error.suggestions)
    )
    await at.execute(
        sa.update(requests)
        .where(requests.c.id == row.id)
        .values(
            state=FAILED, ai_service_request_id=job_id, error=told.model_dump_json(exclude_none=True), changed_at=now
        )
    )


async def _was_accepted(at: Connection, request_id: str, job_id: str, now: float) -> None:
    """Unless its call-back was faster. Of two repeats at once, one may have been refused."""
    changed = sa.update(requests).where(requests.c.id == request_id, requests.c.state.in_((ASKING, REFUSED)))
    await at.execute(changed.values(state=QUEUED, ai_service_request_id=job_id, changed_at=now))


async def _locked(at: Connection, which: sa.ColumnElement[bool]) -> Any:
    """Until the end of the transaction nobody else changes it."""
    return (await at.execute(sa.select(requests).where(which).with_for_update())).one_or_none()


def _request_id(user: User, idempotency_key: str | None, pattern: str = "async") -> str:
    """The same key of the same user is the same request, also if the process that began it was killed."""
    if idempotency_key is None:
        return uuid.uuid4().hex
    told = "\0".join((user.tenant_id, user.user_id, pattern, idempotency_key))
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def _of(user: User) -> tuple[sa.ColumnElement[bool], ...]:
    return requests.c.tenant_id == user.tenant_id, requests.c.user_id == user.user_id


def _request(row: Any, task: Task | None, is_running: bool = False) -> Request:
    statuses: dict[str, Status] = {DONE: "done", FAILED: "failed"}
    return Request(
        id=row.id,
        status="running" if is_running else statuses.get(row.state, "queued"),
        natural_language=row.natural_language,
        created_at=row.created_at,
        changed_at=row.changed_at,
        task=task,
        error=ErrorInfo.model_validate_json(row.error) if row.error else None,
    )


def _may_be_replayed(row: Any) -> bool:
    """What is vague stays vague. Anything else may have become a dead letter of the AI service."""
    if row.state != FAILED or row.ai_service_request_id is None:
        return False
    return ErrorInfo.model_validate_json(row.error).type != "vague_input"


def _kept(text: str | None) -> str | None:
    """As much as people read, and without what no database keeps: it may be the words of a model."""
    return None if text is None else text.replace("\0", "").encode(errors="replace").decode()[:MAX_TOLD]


def _kept_all(texts: list[str] | None) -> list[str] | None:
    return None if texts is None else [_kept(each) or "" for each in texts[:MAX_SUGGESTIONS]]


def _used_of(calls: Any) -> int:
    """What the AI service says that its calls used."""
    told = [call.get("total_tokens") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return min(MAX_USED, sum(tokens for tokens in told if isinstance(tokens, int) and tokens > 0))
