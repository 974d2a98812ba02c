"""`app.submit`: put a message into its lane. Nothing is half-written: it is refused before, or the store has it."""

from __future__ import annotations

import logging
import secrets
from datetime import datetime
from typing import Any

from inturn.errors import LaneBusy, MailboxFull
from inturn.lanes import policy
from inturn.lanes.handler import Handler
from inturn.lanes.receipt import Receipt
from inturn.lanes.runtime import Runtime
from inturn.arguments import Seconds
from inturn import metrics
from inturn.process.identity import read_token
from inturn.store.lane import Submission, Submitted, ident_of

log = logging.getLogger("inturn.lanes")


async def submit(
    runtime: Runtime,
    handler: Handler,
    body: Any,
    key: str | None,
    message_id: object | None,
    priority: int | None = None,
    delay: Seconds | None = None,
    not_before: datetime | float | None = None,
) -> Receipt:
    delay_ms = policy.delay_ms(delay, not_before, runtime.now_s())
    if delay_ms and handler.busy in ("reject", "drop"):
        raise ValueError(f"a delay with busy={handler.busy!r}: whether the lane is busy then cannot be known now")
    lane = handler.key_of(body, key)
    chosen = handler.id_of(lane, body, message_id)
    written = handler.write_body(body)
    identity = chosen if chosen is not None else secrets.token_hex(12)
    await runtime.process.ready()
    timing = handler.timing
    answer = await runtime.process.store.submit(
        Submission(
            lane,
            ident_of(handler.name, identity),
            written,
            timing.ttl_ms,
            timing.limit_ms,
            timing.keep_ms,
            "reject" if handler.busy in ("reject", "drop") else "queue",
            round(handler.wait_s * 1000) if handler.wait_s else 0,
            handler.max_waiting,
            handler.priority if priority is None else policy.priority(priority),
            handler.rule_of(body),
            delay_ms,
            handler.shares_of(body),
        )
    )
    return _told(runtime, handler, lane, identity, answer)


def _told(runtime: Runtime, handler: Handler, key: str, identity: str, answer: Submitted) -> Receipt:
    status = answer.status
    if status == "accepted":
        metrics.messages_accepted.inc()
        if log.isEnabledFor(logging.DEBUG):
            log.debug("submit key=%s handler=%s id=%s ahead=%d", key, handler.name, identity, answer.ahead)
        return Receipt("queued" if answer.ahead else "accepted", key, handler.name, identity, answer.ahead, runtime)
    metrics.messages.labels(handler.busy if status == "busy" else status).inc()
    if status in ("delayed", "superseded", "cancelled"):
        log.debug("submit key=%s handler=%s id=%s: %s", key, handler.name, identity, status)
        return Receipt(status, key, handler.name, identity, 0, runtime)
    if status == "duplicate":
        log.info("duplicate key=%s handler=%s id=%s: it was committed before", key, handler.name, identity)
        return Receipt("duplicate", key, handler.name, identity, 0, runtime, answer.result)
    if status == "pending":
        log.info("duplicate key=%s handler=%s id=%s: it waits or runs", key, handler.name, identity)
        return Receipt("duplicate", key, handler.name, identity, 0, runtime)
    if status == "full":
        raise MailboxFull(key, answer.ahead)
    busy = busy_lane(key, answer.holder, answer.since_ms, answer.ahead, answer.stopped)
    if handler.busy == "drop":
        log.info("drop key=%s handler=%s id=%s: %s", key, handler.name, identity, busy)
        return Receipt("dropped", key, handler.name, identity, answer.ahead, runtime)
    raise busy


def busy_lane(key: str, holder: str, since_ms: int, waiting: int, stopped: str) -> LaneBusy:
    who = "{}:{}".format(*read_token(holder)) if holder else None
    return LaneBusy(key, who, since_ms / 1000 if holder else 0.0, waiting, stopped)
