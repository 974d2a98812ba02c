"""`app.submit`: put a message into its lane. Nothing is half done: it is refused before, or the store has it."""

from __future__ import annotations

import logging
import secrets
from datetime import datetime
from functools import partial
from typing import Any

from inturn import metrics
from inturn.arguments import Seconds
from inturn.errors import ArgumentError, LaneBusy, MailboxFull
from inturn.lanes import policy
from inturn.lanes.handler import Handler
from inturn.lanes.receipt import Receipt
from inturn.lanes.runtime import Runtime
from inturn.process.process import read_token
from inturn.store.lane import Submission, Submitted, ident_of

log = logging.getLogger("inturn.lanes")


async def submit(
    runtime: Runtime,
    handler: Handler,
    body: Any,
    *,
    key: str | None,
    message_id: object | None,
    priority: int | None = None,
    delay: Seconds | None = None,
    not_before: datetime | float | None = None,
) -> Receipt:
    delay_ms = policy.delay_ms(delay, not_before, runtime.now_s())
    if delay_ms and handler.busy in ("reject", "drop"):
        problem = f"cannot be combined with busy={handler.busy!r}: nobody knows yet whether the lane will be busy then"
        raise ArgumentError("delay" if delay is not None else "not_before", problem)
    lane = handler.key_of(body, key)
    chosen = handler.id_of(lane, body, message_id)
    written = handler.write_body(body)
    identity = chosen if chosen is not None else secrets.token_hex(12)
    await runtime.process.ready()
    if not_before is not None:
        # becoming ready may have taken a while
        delay_ms = min(delay_ms, policy.delay_ms(None, not_before, runtime.now_s()))
    timing = handler.timing
    answer = await runtime.process.store.submit(
        Submission(
            key=lane,
            ident=ident_of(handler.name, identity),
            body=written,
            ttl_ms=timing.ttl_ms,
            limit_ms=timing.limit_ms,
            keep_ms=timing.keep_ms,
            busy="reject" if handler.busy in ("reject", "drop") else "queue",
            late_ms=round(handler.wait_s * 1000) if handler.wait_s else 0,
            cap=handler.max_waiting,
            priority=handler.priority if priority is None else policy.priority(priority),
            rule=handler.rule_of(body),
            delay_ms=delay_ms,
            shares=handler.shares_of(body),
            group=handler.group_of(body),
        )
    )
    return _receipt(runtime, handler, lane, identity, answer)


def _receipt(runtime: Runtime, handler: Handler, key: str, identity: str, answer: Submitted) -> Receipt:
    status = answer.status
    receipt = partial(Receipt, key=key, handler=handler.name, id=identity, _runtime=runtime)
    if status == "accepted":
        metrics.messages_accepted.inc()
        if log.isEnabledFor(logging.DEBUG):
            log.debug("submit key=%s handler=%s id=%s ahead=%d", key, handler.name, identity, answer.ahead)
        return receipt("queued" if answer.ahead else "accepted", ahead=answer.ahead)
    metrics.messages.labels(handler.busy if status == "busy" else status).inc()
    if status in ("delayed", "superseded", "cancelled"):
        log.debug("submit key=%s handler=%s id=%s: %s", key, handler.name, identity, status)
        return receipt(status)
    if status == "duplicate":
        log.info("duplicate key=%s handler=%s id=%s: it was committed before", key, handler.name, identity)
        return receipt("duplicate", _result=answer.result)
    if status == "pending":
        log.info("duplicate key=%s handler=%s id=%s: it is waiting or running", key, handler.name, identity)
        return receipt("duplicate")
    if status == "full":
        raise MailboxFull(key, answer.ahead)
    busy = busy_lane(key, answer.holder, answer.since_ms, answer.ahead, answer.stopped)
    if handler.busy == "drop":
        log.info("drop key=%s handler=%s id=%s: %s", key, handler.name, identity, busy)
        return receipt("dropped", ahead=answer.ahead)
    raise busy


def busy_lane(key: str, holder: str, since_ms: int, waiting: int, stopped: str) -> LaneBusy:
    who = "{}:{}".format(*read_token(holder)) if holder else None
    return LaneBusy(key, who, since_ms / 1000 if holder else 0.0, waiting, stopped)
