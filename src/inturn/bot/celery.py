"""Celery for the bot: `send_proactive_message`, a beat entry for what is due, and `@serialized` for tasks of your own.

The lanes do the work, whoever works on them: a task only puts its message in and works on that user's lanes for a
while. So a redelivered, retried or doubled task sends nothing twice, and senders in other processes take turns with it.
When a message is due is known to the store, and never to Celery: an eta would wait in a worker's memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from inturn.app import InTurn
from inturn.bot.bot import CADENCE, PROACTIVE, CompanionBot
from inturn.bot.delivery_lane import DELIVER, OUTCOME
from inturn.bot.factory import make_companion, make_companion_agent
from inturn.bot.serialized import WAITS, app_of, closers, must_not_be_revoked, put_back, revoke, serialized
from inturn.bot.telegram import make_bot
from inturn.errors import MailboxFull, MessageCancelled, MissingExtra, StoreUnavailable
from inturn.lanes.executor import Passed, take_turn
from inturn.lanes.own_work import OwnWork
from inturn.lanes.runtime import Runtime
from inturn.store import clock
from inturn.store.lane import Given

try:
    from celery import shared_task
except ImportError as error:
    raise MissingExtra("inturn.bot.celery", "celery") from error

__all__ = [
    "BEAT_SCHEDULE",
    "revoke",
    "revoke_proactive_message",
    "send_due_messages",
    "send_proactive_message",
    "serialized",
    "use_companion",
]

log = logging.getLogger("inturn.celery")

EVERY_S = 60.0
BEAT_SCHEDULE = {
    "inturn-send-due-messages": {
        "task": "inturn.bot.send_due_messages",
        "schedule": EVERY_S,
        "options": {"expires": EVERY_S},
    }
}
"""`app.conf.beat_schedule = {**BEAT_SCHEDULE, …}`. Two beats do no harm."""
HOLD_S = 5.0
"""How long a task waits for its message before it is put back."""
LOOK_S = 0.2
TURNS_AT_ONCE = 100
OURS = (CADENCE, PROACTIVE, OUTCOME, DELIVER)
"""What Celery works on. Users' messages are the bot's."""

MakeCompanion = Callable[[InTurn], Coroutine[Any, Any, CompanionBot]]


async def _of_settings(app: InTurn) -> CompanionBot:
    settings = app.settings
    return make_companion(app, make_companion_agent(settings), make_bot(settings), settings)


_make: MakeCompanion = _of_settings
_companions: list[CompanionBot] = []
_making = threading.Lock()


def use_companion(make: MakeCompanion) -> None:
    """Have the tasks use a companion of your own. It is made in each child of a worker, on the loop of its app."""
    global _make
    _make = make


def _companion() -> CompanionBot:
    with _making:  # the threads of a worker have one together
        if not _companions:
            app = app_of(None)
            made = app.runner.run(_make(app.inner))
            _companions.append(made)
            closers.append(lambda: app.runner.run(_close(made)))
        return _companions[0]


def _after_fork() -> None:
    """In the child: the parent's companion speaks by the parent's loop; a thread of the parent may be making one."""
    global _making
    _making = threading.Lock()
    _companions.clear()


os.register_at_fork(after_in_child=_after_fork)


async def _close(companion: CompanionBot) -> None:
    _companions.clear()
    await companion.close()
    await companion.agent.aclose()
    bot = getattr(companion.chat, "bot", None)
    if bot is not None:
        await bot.session.close()


@shared_task(  # type: ignore[untyped-decorator]
    bind=True, name="inturn.bot.send_proactive_message", acks_late=True, reject_on_worker_lost=True
)
def send_proactive_message(self: Any, user_id: int, text: str | None = None) -> str:
    """Write to a user first; without a text the agent finds one. Returns what became of it: `sent`, `duplicate`,
    `quiet` (it follows after their quiet hours), `unreachable`, `superseded` (the user wrote meanwhile) or `failed`.

    It waits without holding a worker: while the user is being answered, the task is put back with a countdown.
    """
    companion, app = _companion(), app_of(None)
    key, task_id = f"user:{user_id}", self.request.id
    is_plain = self.request.called_directly or self.request.is_eager
    waits = self.request.get(WAITS, 0)
    while True:
        try:
            if task_id is not None:
                must_not_be_revoked(app, key, task_id, None if is_plain else self)
            result = app.runner.run(_say(companion, user_id, text, task_id, None if is_plain else HOLD_S))
            break
        except MessageCancelled:
            return "superseded"
        except (TimeoutError, StoreUnavailable, MailboxFull) as error:
            if is_plain:
                raise
            waits += 1
            put_back(self, waits, error)  # it returns, after a pause, if the broker cannot take it
    if result not in ("sent", "duplicate", "quiet"):
        log.warning("Failed to send proactive message to user %s", user_id)
    return result


async def _say(
    companion: CompanionBot, user_id: int, text: str | None, task_id: str | None, hold_s: float | None
) -> str:
    runtime = companion.app.runtime
    runtime.must_not_wait_for(f"user:{user_id}")  # before it is said: what is refused must not be sent later
    receipt = await companion.say(user_id, text, message_id=task_id)
    work = OwnWork(runtime)
    ends_at = None if hold_s is None else clock.now() + hold_s
    while True:
        for key, can in ((f"user:{user_id}", (CADENCE, PROACTIVE, OUTCOME)), (f"user:{user_id}>deliver", (DELIVER,))):
            await work.start(key, can=can)
        try:
            result = await companion.outcome_of(receipt, LOOK_S)
        except TimeoutError:
            if ends_at is not None and clock.now() > ends_at:
                raise
            continue
        await work.start(f"user:{user_id}", can=(OUTCOME,))
        return result


def revoke_proactive_message(task_id: str, user_id: int) -> None:
    """The task does nothing if it has not begun, and its message is taken back if it waits. Outlives the workers."""
    key = f"user:{user_id}"
    revoke(task_id, key=key)
    companion, app = _companion(), app_of(None)
    app.runner.run(companion.take_back(user_id, task_id))


@shared_task(name="inturn.bot.send_due_messages", ignore_result=True)  # type: ignore[untyped-decorator]
def send_due_messages() -> int:
    """Works on all messages that are due now, for a minute at most. Returns how many turns that took."""
    companion = _companion()
    return app_of(None).runner.run(_work_due(companion.app.runtime, EVERY_S))


async def _work_due(runtime: Runtime, within_s: float) -> int:
    await runtime.process.ready()
    can = [name for handler in OURS for name in runtime.handler(handler).names(runtime.version)]
    ends_at, turns = clock.now() + within_s, 0
    partitions = range(runtime.process.store.partitions)
    while clock.now() < ends_at:
        each = await asyncio.gather(*(_work_once(runtime, can, one) for one in partitions), return_exceptions=True)
        for done in each:  # by now, those that could be asked have done what they had
            if isinstance(done, BaseException):
                raise done
        done_now = sum(done for done in each if isinstance(done, int))
        if not done_now:
            break
        turns += done_now
    return turns


async def _work_once(runtime: Runtime, can: list[str], partition: int) -> int:
    given = (await runtime.claim(can, TURNS_AT_ONCE, partition)).turns
    await asyncio.gather(*(_work(runtime, each) for each in given))
    return len(given)


async def _work(runtime: Runtime, given: Given) -> None:
    passed: Passed | None = Passed(given, given.state)
    while passed is not None:
        passed = await take_turn(runtime, passed.given, passed.stored, lambda: False)
