"""`JobService`: a job from its acceptance to its call-back. Each step is one turn of the job's lane.

accept    the broker has the job, and then its record says `queued`
work      a provider is asked, once; its answer, the record and the call-back are one commit
again     the next attempt is published, and then the record says which one counts
give up   the record, a dead letter and the call-back of the failure are one transition
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import time
import uuid
from functools import partial
from itertools import islice
from typing import Any, Literal

from inturn import metrics
from inturn.agents.protocol import Agent
from inturn.app import LANE_TTL, InTurn
from inturn.capabilities.capability import Capabilities
from inturn.capabilities.outcome import ErrorInfo
from inturn.errors import (
    BadMessage,
    BrokerUnavailable,
    CommitUnknown,
    DuplicateMessage,
    HandlerTimeout,
    InTurnError,
    LaneBusy,
    LeaseLost,
    Stop,
    StoreUnavailable,
    TooLarge,
)
from inturn.http import request_id
from inturn.jobs.callbacks import MAX_ATTEMPTS, CallbackClient, CallbackMessage, Gone, Receiver, receiver_lane
from inturn.jobs.processor import TIME_LIMIT_S, Clock, now_utc, process_job, retry_with_backoff
from inturn.jobs.record import JobRecord, worker_died
from inturn.jobs.transport import DELIVERY_LIMIT, JOB, WEBHOOK, Delivery, StoreTransport, Transport, message_id
from inturn.jobs.types import (
    AsyncConfig,
    CapabilityJobPayload,
    JobFailed,
    JobMessage,
    JobSucceeded,
    callback_of,
    lane_of,
    read_prices,
    webhook_id,
)
from inturn.lanes.inline import InlineTurn
from inturn.lanes.receipt import Receipt
from inturn.lanes.retry import Exhausted, describe, traceback_of
from inturn.lanes.turn import Turn
from inturn.settings import Settings
from inturn.store import clock

log = logging.getLogger("inturn.jobs")

SPARE_S = 30.0
"""What the turn of an attempt has beyond the time for the provider."""
STUBBORN_S = 3.0
"""How long a provider's call may take to stop when it is cancelled."""
SOON_S = 1.0
"""After this time a worker asks again for what is away: the store, or the broker."""
MAX_PAYLOAD = 100 * 1024
"""Bytes, written: it must fit into a message of a lane, together with the result."""
UNREADABLE = "job.unreadable"
RECEIVER = "receiver.gone"

_AWAY = (StoreUnavailable, LeaseLost, CommitUnknown, BrokerUnavailable, HandlerTimeout)
"""Not the job's fault: it is tried again here."""

Outcome = JobSucceeded | JobFailed
Place = tuple[str, int, int]
"""A job's id, run and attempt."""


class JobGivenUp(Stop):
    """The job has failed for good. `failed`: what its caller is told."""

    def __init__(self, failed: JobFailed) -> None:
        super().__init__(failed.detail or failed.error.message)
        self.failed = failed


class JobService:
    """Registers its handlers with the app. A process that only accepts jobs runs none of them."""

    handlers = frozenset({JOB, WEBHOOK, RECEIVER, UNREADABLE})

    def __init__(
        self,
        app: InTurn,
        agent: Agent,
        capabilities: Capabilities,
        callbacks: CallbackClient,
        transport: Transport,
        *,
        settings: Settings,
        now: Clock = now_utc,
        lease_s: float = LANE_TTL,
    ) -> None:
        """`lease_s`: a job whose worker was killed goes on elsewhere after this time."""
        self.app = app
        self.agent = agent
        self.capabilities = capabilities
        self.callbacks = callbacks
        self.transport = transport
        self.now = now
        self.prices = read_prices(settings.token_prices)
        # a dead letter that is replayed must find its record
        self._ttl_s = max(settings.job_ttl, settings.dead_letter_ttl + 3600)
        # several agents are asked one after another, and each may be asked once more
        self._answer_s = max(TIME_LIMIT_S, 2 * settings.agent_timeout * len(settings.agent))
        self._limit_s = self._answer_s + SPARE_S
        self._lease_s = lease_s
        self._is_by_store = isinstance(transport, StoreTransport)
        self._asked: dict[Place, asyncio.Task[Outcome]] = {}
        """Providers that are asked, or have answered: an attempt whose turn was lost takes its answer from here."""
        self._asked_at: dict[Place, float] = {}
        self._register()

    def _register(self) -> None:
        app = self.app
        app.handler(
            JOB, key=lambda message: message.lane, message_id=message_id, body=JobMessage, state=JobRecord,
            initial=_no_record, state_ttl=self._ttl_s, ttl=self._lease_s, time_limit=self._limit_s, on_dead=self._bury,
            # with a broker it only publishes and buries, and goes on trying while the broker is away
            attempts=DELIVERY_LIMIT if self._is_by_store else MAX_ATTEMPTS,
        )(self._run)  # fmt: skip
        app.handler(
            WEBHOOK, body=CallbackMessage, ttl=self._lease_s, time_limit=60, attempts=MAX_ATTEMPTS,
            on_dead=self._not_taken,
        )(self._call_back)  # fmt: skip
        app.handler(RECEIVER, body=Receiver, state=Receiver, initial=_no_record, state_ttl=365 * 86_400)(self._gone)
        app.handler(UNREADABLE)(self._unreadable)

    # -- accept

    async def accept(
        self, capability: str, given: dict[str, Any], config: AsyncConfig, *, job_id: str, tenant_id: str = ""
    ) -> None:
        """Raises `BrokerUnavailable`: then the job was not accepted, and never runs. `CommitUnknown`: it may run.

        An id that was accepted before is the same job: nothing more is done.
        """
        payload = CapabilityJobPayload(
            ai_service_request_id=job_id,
            capability=capability,
            input=given,
            callback_url=config.callback_url,
            user_id=config.user_id,
            request_id=request_id.get() or uuid.uuid4().hex,
            token_reservation=config.token_reservation,
            tenant_id=tenant_id,
            accepted_at=time.time(),
        )
        written = payload.model_dump_json().encode()
        if len(written) > MAX_PAYLOAD:
            raise TooLarge("the input", len(written), MAX_PAYLOAD)
        if CapabilityJobPayload.model_validate_json(written) != payload:  # a number that JSON does not know, say
            raise BadMessage("the input cannot be written as JSON and read back as it was")
        try:
            unknown = await self._publish_and_record(payload)
        except LeaseLost as lost:
            if self._is_by_store:
                raise  # it would have been published with the commit
            raise CommitUnknown(lane_of(job_id), lost.fence) from lost
        if unknown is not None:
            raise unknown

    async def _publish_and_record(self, payload: CapabilityJobPayload) -> BrokerUnavailable | None:
        """Returns why it is not known whether the broker has the job: it is withdrawn then."""
        message = JobMessage(payload=payload)
        try:
            return await self._publish_in_turn(message, "reject")
        except LaneBusy:
            # a repeat, and a worker may be at it for minutes; or the first request is at it, or was killed there
            record = (await self.app.lanes.inspect(message.lane, limit=1)).state_as(JobRecord)
            if record is not None and record.status != "withdrawn":
                return None
        return await self._publish_in_turn(message, "wait")

    async def _publish_in_turn(self, message: JobMessage, busy: Literal["wait", "reject"]) -> BrokerUnavailable | None:
        payload = message.payload
        async with self._turn(message.lane, busy=busy) as turn:
            if turn.state is not None and turn.state.status != "withdrawn":
                return None
            # one that was withdrawn may still be on the broker: then there are two copies, and the first one counts
            turn.state = JobRecord.of(message)
            try:
                # a worker that gets it now waits for the lane, until the record is there
                await self.transport.publish_job(payload, turn=turn)
            except BrokerUnavailable as error:
                if error.is_certain:
                    raise  # nothing was published, and nothing is written
                # it may be there all the same: whoever gets it is to drop it
                turn.state.move("withdrawn")
                return error
        return None

    def _turn(
        self, lane: str, message_id: str | None = None, busy: Literal["wait", "reject"] = "wait"
    ) -> InlineTurn[JobRecord | None]:
        return self.app.turn(
            lane, message_id=message_id, busy=busy, state=JobRecord, initial=_no_record, state_ttl=self._ttl_s,
            ttl=self._lease_s, time_limit=self._limit_s,
        )  # fmt: skip

    # -- work: a delivery of the broker

    async def take(self, delivery: Delivery) -> None:
        """Returns when the delivery may be acknowledged, and not before."""
        message = delivery.message
        if message is None:
            await self._file_unreadable(delivery)
            return
        with request_id.with_request_id(message.payload.request_id):
            place = message.id, message.run, message.attempt
            try:
                while not await self._took(message, delivery):  # noqa: ASYNC110 - nobody tells when the store is back
                    await asyncio.sleep(SOON_S)
            except asyncio.CancelledError:
                self._forget(place, cancels=True)
                raise
            self._forget(place)

    async def _took(self, message: JobMessage, delivery: Delivery) -> bool:
        """`False`: something is away. The delivery is kept, and what a provider has answered is kept too."""
        try:
            if delivery.is_again and delivery.deliveries is None:
                if await self._has_crashed_too_often(message):
                    return True
                delivery.is_again = False  # it counts once, however often we have to begin anew here
            async with self._turn(message.lane, message.id) as turn:
                await self._work(turn, message)
            return True
        except DuplicateMessage as known:
            return await self._is_done(known.receipt)
        except _AWAY as error:
            log.warning("job=%s attempt=%d is kept: %s", message.id, message.attempt, error)
            return False
        except Exception as error:
            # it would end in the same way if it came again: better an error with its traceback than a worker that died
            log.exception("job=%s attempt=%d failed unexpectedly", message.id, message.attempt)
            await self._fail(message, _broken(error, message.attempt))
            return True

    async def _fail(self, message: JobMessage, failed: JobFailed) -> None:
        async with self._turn(message.lane) as turn:
            turn.state = record = JobRecord.of(message) if turn.state is None else turn.state
            if record.wants(message):
                record.run, record.attempt = message.run, message.attempt
                self._hand_over(turn, message, record, failed)

    async def _is_done(self, receipt: Receipt) -> bool:
        """Another delivery of this job is at work, or was. If that one did not commit, this one has to."""
        try:
            await receipt.result()
        except InTurnError as error:
            log.info("job=%s: another delivery of it came to no end: %s", receipt.id, error)
            return False
        return True

    async def _has_crashed_too_often(self, message: JobMessage) -> bool:
        """Classic queues do not count deliveries: so we do, before the provider is asked."""
        async with self._turn(message.lane) as turn:
            turn.state = record = JobRecord.of(message) if turn.state is None else turn.state
            if not record.wants(message):
                return True
            if (record.run, record.attempt) != (message.run, message.attempt):
                # whoever published it was killed before its commit: it is counted, and told, as what it is
                record.run, record.attempt, record.crashes = message.run, message.attempt, 0
                record.move("queued")
            record.crashes += 1
            if record.crashes >= DELIVERY_LIMIT:
                self._hand_over(turn, message, record, worker_died(record.crashes))
                return True
        return False

    async def file_dead(self, delivery: Delivery) -> None:
        """What the dead-letter queue holds becomes a dead letter here, and its caller is told."""
        message = delivery.message
        if message is None:
            await self._file_unreadable(delivery)
            return
        with request_id.with_request_id(message.payload.request_id):
            while True:
                try:
                    async with self._turn(message.lane) as turn:
                        turn.state = record = JobRecord.of(message) if turn.state is None else turn.state
                        # an old copy that died does not end an attempt that is newer
                        if record.wants(message) or (delivery.error is not None and not record.is_over):
                            at = (record.run, record.attempt), (message.run, message.attempt)
                            record.run, record.attempt = max(at)
                            failed = worker_died(DELIVERY_LIMIT + 1)
                            if delivery.error is not None:
                                failed = JobFailed(error=delivery.error)
                            self._hand_over(turn, message, record, failed)
                    return
                except _AWAY as error:
                    log.warning("job=%s: its dead letter is kept on the broker: %s", message.id, error)
                    await asyncio.sleep(SOON_S)
                except Exception as error:
                    log.exception("job=%s: its dead letter cannot be filed as one of a job", message.id)
                    delivery.why_unreadable = describe(error)
                    await self._file_unreadable(delivery)
                    return

    async def _file_unreadable(self, delivery: Delivery) -> None:
        body = {"why": delivery.why_unreadable[:1000], "body": base64.b64encode(delivery.body[:100_000]).decode()}
        name = delivery.fingerprint or hashlib.sha256(delivery.body).hexdigest()[:32]
        await self.app.submit(UNREADABLE, body, key=f"job:unreadable-{name}", message_id=name)

    async def _unreadable(self, turn: Turn[None]) -> None:
        raise Stop(f"what came from the broker is no job: {turn.body['why']}")

    # -- work: a message of the lane

    async def _run(self, turn: Turn[JobRecord | None]) -> None:
        """A job that the store carries, one that is about to become a dead letter, or one that is replayed."""
        message, record = turn.body, turn.state
        with request_id.with_request_id(message.payload.request_id):
            if record is not None and record.status == "failing":
                assert isinstance(record.outcome, JobFailed), "a job that fails has one"
                raise JobGivenUp(record.outcome)
            if record is not None and record.status == "dead":
                message = JobMessage(payload=message.payload, run=record.run + 1)
                log.info("job=%s is replayed, as run %d", message.id, message.run)
            elif record is not None and not record.wants(message):
                return
            if self._is_by_store:
                try:
                    await self._work(turn, message)
                except asyncio.CancelledError:
                    if not turn.lost:  # the worker stops: nobody waits for the provider any more
                        self._forget((message.id, message.run, message.attempt), cancels=True)
                    raise
                return
            await self.transport.publish_job(message.payload, run=message.run, attempt=message.attempt)
            turn.state = record or JobRecord.of(message)
            turn.state.run, turn.state.attempt, turn.state.crashes = message.run, message.attempt, 0
            turn.state.move("queued")

    async def _work(self, turn: Turn[Any], message: JobMessage) -> None:
        """One attempt. Everything that it leads to is committed with the turn, or it did not happen."""
        record: JobRecord = turn.state or JobRecord.of(message)
        turn.state = record
        # while it is dead, only its replay comes here, and that is another run
        if not record.wants(message):
            log.info("job=%s run=%d attempt=%d: an old copy, it does nothing", message.id, message.run, message.attempt)
            turn._is_unmarked = record.status != "done"
            return
        if (message.run, message.attempt) == (1, 1):
            metrics.job_queue_seconds.observe(max(0.0, time.time() - message.payload.accepted_at))
        record.run, record.attempt = message.run, message.attempt
        outcome = await self._outcome(message)
        kind = "success" if outcome.status == "success" else outcome.error.type or "failure"
        metrics.job_attempts.labels(self._known(record.capability), kind).inc()
        if outcome.status == "success" or outcome.is_an_answer:
            self._finish(turn, message, record, outcome)
            return
        delay_s = retry_with_backoff(outcome, message.attempt)
        if delay_s is None:
            if turn.handler == JOB:
                raise JobGivenUp(outcome)
            record.note_failure(outcome)
            self._hand_over(turn, message, record, outcome)
            return
        log.warning(
            "job=%s attempt=%d failed: %s; attempt %d in %.1f s",
            message.id, message.attempt, outcome.detail, message.attempt + 1, delay_s,
        )  # fmt: skip
        # published before the record says so: if we are killed in between there are two copies, and never none
        delay_s = await self.transport.publish_job(
            message.payload, run=message.run, attempt=message.attempt + 1, delay_s=delay_s, turn=turn
        )
        record.note_failure(outcome)
        record.attempt, record.crashes = record.attempt + 1, 0
        record.move("attempt")
        record.due_at = time.time() + delay_s
        turn._after_commit.append(partial(self._forget, (message.id, message.run, message.attempt)))
        turn._is_unmarked = True  # the job's id comes again, with the next attempt

    async def _outcome(self, message: JobMessage) -> Outcome:
        """Asks the provider, once for each attempt, whatever becomes of the turn: a lost lease is no reason to pay
        again.
        """
        place = message.id, message.run, message.attempt
        asked = self._asked.get(place)
        if asked is None or asked.get_loop() is not asyncio.get_running_loop():
            asking = process_job(
                message.payload,
                self.capabilities,
                self.agent,
                now=self.now,
                prices=self.prices,
                time_limit_s=self._answer_s,
            )
            asked = asyncio.create_task(asking)
            self._forget_old()
            self._asked[place], self._asked_at[place] = asked, clock.now()
        return await asyncio.shield(asked)

    def _forget_old(self) -> None:
        """If no turn takes an answer within the time of two, none will. The oldest stand first."""
        for place in list(islice(self._asked, 2)):
            if self._asked[place].done() and clock.now() - self._asked_at[place] > 2 * self._limit_s:
                self._forget(place)

    def _forget(self, place: Place, *, cancels: bool = False) -> None:
        asked = self._asked.pop(place, None)
        self._asked_at.pop(place, None)
        if asked is not None and cancels:
            asked.cancel()

    def _finish(self, turn: Turn[Any], message: JobMessage, record: JobRecord, outcome: Outcome) -> None:
        record.outcome = outcome
        record.move("done")
        self._send_callback(turn, message, outcome)
        turn.result = {"status": outcome.status}
        turn._after_commit.append(
            partial(self._count, message, "success" if outcome.status == "success" else "answered")
        )

    def _hand_over(self, turn: Turn[Any], message: JobMessage, record: JobRecord, failed: JobFailed) -> None:
        """The lane's own handler makes the dead letter: an inline turn cannot.

        Its id is that of the try that counts. A copy that died may be older, and its id may have been used by then.
        """
        if not record.errors or record.errors[-1].message != failed.detail:
            record.note_failure(failed)
        record.outcome = failed
        record.move("failing")
        counts = JobMessage(payload=message.payload, run=record.run, attempt=record.attempt)
        turn.send(JOB, counts, key=counts.lane, message_id=f"{message_id(counts)}.dead")
        turn._is_unmarked = True

    def _bury(self, turn: Turn[JobRecord | None], error: Exception) -> None:
        """With the dead letter: the record says so, and the caller is told."""
        message: JobMessage = turn.body
        record = turn.state or JobRecord.of(message)
        failed = error.failed if isinstance(error, JobGivenUp) else _broken(error, turn.attempt)
        if record.status == "dead":  # a replay that died
            record.run, record.attempt = record.run + 1, 1
        if record.status != "failing":
            record.note_failure(failed)
        record.outcome, record.letter = failed, turn.id
        record.move("dead")
        turn.state = record
        self._send_callback(turn, JobMessage(payload=message.payload, run=record.run), failed)
        self._forget((message.id, record.run, record.attempt))
        self._count(message, "dead")
        log.error("job=%s is a dead letter after attempt %d: %s", message.id, record.attempt, failed.detail)

    def _count(self, message: JobMessage, outcome: str) -> None:
        metrics.jobs.labels(self._known(message.payload.capability), outcome).inc()
        metrics.job_seconds.observe(max(0.0, time.time() - message.payload.accepted_at))
        self._forget((message.id, message.run, message.attempt))

    def _known(self, capability: str) -> str:
        """For the metrics. A queue may hold any name, and each would be kept for as long as this process lives."""
        return capability if capability in self.capabilities.names else "unknown"

    # -- call back

    def _send_callback(self, turn: Turn[Any], message: JobMessage, outcome: Outcome) -> None:
        payload = message.payload
        written = callback_of(payload, outcome).model_dump(mode="json")
        # what is not there is left out, but the nulls of a result are part of it
        content = {name: value for name, value in written.items() if value is not None}
        if outcome.status == "failure":
            content["error"] = outcome.error.model_dump(mode="json", exclude_none=True)
        told = CallbackMessage(
            url=payload.callback_url,
            webhook_id=webhook_id(message.id, message.run),
            request_id=payload.request_id,
            content=content,
        )
        turn.send(WEBHOOK, told, message_id=told.webhook_id)

    async def _call_back(self, turn: Turn[None]) -> dict[str, Any]:
        message: CallbackMessage = turn.body
        with request_id.with_request_id(message.request_id):
            answer = await self.callbacks.deliver(message, turn.attempt, turn.messages[0].waited_s)
        return answer.model_dump(mode="json", exclude_none=True)

    def _not_taken(self, turn: Turn[None], error: Exception) -> None:
        message: CallbackMessage = turn.body
        log.error("callback url=%s is a dead letter: %s", message.url, error)
        if isinstance(error, Gone):
            gone = Receiver(url=message.url, disabled_at=time.time())
            turn.send(RECEIVER, gone, key=receiver_lane(message.url))

    async def _gone(self, turn: Turn[Receiver | None]) -> None:
        turn.state = turn.state or turn.body

    # -- the end

    async def close(self) -> None:
        """Ends what providers are still asked for, and the connections."""
        asked = [task for task in self._asked.values() if not task.done()]
        for task in asked:
            task.cancel()
        if asked:
            await asyncio.wait(asked, timeout=STUBBORN_S)
        self._asked.clear()
        self._asked_at.clear()
        await self.transport.close()
        await self.callbacks.aclose()


def _no_record() -> None:
    return None


def _broken(error: Exception, attempts: int) -> JobFailed:
    if isinstance(error, Exhausted):
        return worker_died(attempts)
    told = ErrorInfo(message="The job could not be processed.", type="internal_error")
    return JobFailed(error=told, detail=describe(error), traceback=traceback_of(error))
