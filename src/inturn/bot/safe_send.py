"""`send_ai_response_safe`: one sender at a time for each user, and nothing twice, for code that sends by itself.

Every sender takes the lock `send_ai_response:user:{chat_id}`, whatever process it is in: the bot's deliveries, Celery's
tasks, and callers of these functions. The duplicate check happens under the lock, and a text is marked only once it has
gone out. A store that is away is not a lock that is held: only `…_with_fallback` sends without one.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from inturn import arguments, metrics
from inturn.app import InTurn
from inturn.bot.chat import PerhapsSent
from inturn.bot.courier import send_ai_response, send_each_part_once
from inturn.compat.brought_lock import ANSWERS_WITHIN_S, BroughtLock, BroughtLocks, ask
from inturn.compat.dedup import AsyncMessageDeduplicationManager
from inturn.compat.managers import AsyncDistributedLockManager
from inturn.compat.plain import kind_of
from inturn.errors import ArgumentTypeError, InTurnError, LockTimeout, StoreUnavailable
from inturn.settings import Settings
from inturn.store import clock

log = logging.getLogger("inturn.bot")

LOCK_TIMEOUT_S = 30.0
MIN_EXTEND_S = 1.0
"""How long an extension of a lock with a short life may take."""

Send = Callable[[Any, str, Any, Any], Any]
"""Takes chat_id, text, bot and typing_manager. Returns `False`, or raises, if the text was not sent. It may be
synchronous, and then it blocks the loop.
"""


def lock_name(chat_id: int | str) -> str:
    return f"send_ai_response:user:{chat_id}"


class Managers(NamedTuple):
    """What all senders of a deployment share."""

    lock_manager: AsyncDistributedLockManager
    dedup_manager: AsyncMessageDeduplicationManager
    own_app: InTurn | None = None
    """The app that was opened for them alone: whoever made the managers closes it."""

    async def close(self) -> None:
        if self.own_app is not None:
            await self.own_app.close()


def make_managers(app: InTurn, settings: Settings | None = None) -> Managers:
    """The managers for sending, made once at start. On Redis their locks are plain keys that other services can share;
    on SQLite they are locks of the app's store. `PROACTIVE_MESSAGING_REDIS_URL` moves them to another server.
    """
    if not isinstance(app, InTurn):
        raise ArgumentTypeError("app", f"must be an inturn.InTurn, not {kind_of(app)}")
    settings = settings or app.settings
    own = InTurn(settings.proactive_redis_url, settings=settings) if settings.proactive_redis_url else None
    return Managers(
        AsyncDistributedLockManager(own or app, settings.send_lock_timeout),
        AsyncMessageDeduplicationManager(own or app, settings.send_dedup_expiration),
        own,
    )


def must_be_managers(lock_manager: Any, dedup_manager: Any) -> None:
    """What is none is a mistake, and not a store that is away. `None` is none that is wanted."""
    for field, manager, methods in (
        ("lock_manager", lock_manager, ("acquire_lock", "release_lock")),
        ("dedup_manager", dedup_manager, ("generate_message_id", "is_duplicate", "mark_as_processed")),
    ):
        if manager is None or all(callable(getattr(manager, method, None)) for method in methods):
            continue
        *first, last = methods
        needs = f"must have {', '.join(first)} and {last}, as the {field} of make_managers() has"
        raise ArgumentTypeError(field, f"{needs}; got {kind_of(manager)}")


async def send_ai_response_safe(
    chat_id: int | str,
    text: str,
    bot: Any,
    typing_manager: Any = None,
    lock_manager: Any = None,
    dedup_manager: Any = None,
    lock_timeout: arguments.Seconds | None = LOCK_TIMEOUT_S,
    *,
    wait: arguments.Seconds | None = None,
    send: Send | None = None,
) -> bool:
    """Send a text to a user while nobody else does, unless it was sent before.

    Returns `True` if it was sent; `False` if it is a duplicate, if the lock was not to be had, or if sending failed.
    The log and the metrics say which. If every answer was lost it counts as sent: better not at all than many times.
    Without managers it just sends.

    Args:
        typing_manager: handed to `send`.
        lock_manager: a `DistributedLockManager` or an `AsyncDistributedLockManager`.
        dedup_manager: a `MessageDeduplicationManager` or an `AsyncMessageDeduplicationManager`.
        lock_timeout: seconds that the lock lives; it is extended while parts go out. `None`: the manager's default.
        wait: seconds to wait for the lock. Default: `lock_timeout`.
        send: your own sending function. Default: `send_ai_response`.
    """
    work = _Work(chat_id, text, bot, typing_manager, lock_manager, dedup_manager, send or send_ai_response)
    return await work.run(lock_timeout, wait, falls_back=False)


async def send_ai_response_safe_with_fallback(
    chat_id: int | str,
    text: str,
    bot: Any,
    typing_manager: Any = None,
    lock_manager: Any = None,
    dedup_manager: Any = None,
    lock_timeout: arguments.Seconds | None = LOCK_TIMEOUT_S,
    *,
    wait: arguments.Seconds | None = None,
    send: Send | None = None,
) -> bool:
    """As `send_ai_response_safe`; but if the store of the lock is away, the text is sent without a lock.

    That is logged and counted. What may have gone out already is never sent a second time: no part is, either.
    """
    work = _Work(chat_id, text, bot, typing_manager, lock_manager, dedup_manager, send or send_each_part_once)
    return await work.run(lock_timeout, wait, falls_back=True)


class SendLock(NamedTuple):
    """The lock of one user, for as long as one sender has it."""

    lock: BroughtLock
    life_s: float

    @classmethod
    def of(cls, manager: BroughtLocks, chat_id: int | str, life_s: float) -> SendLock:
        return cls(BroughtLock(manager, lock_name(chat_id), life_s, f"user {chat_id}"), life_s)

    async def take(self, wait_s: float) -> str | None:
        """Returns its id; `None` if it was not to be had. Raises `StoreUnavailable` if the store is away."""
        began = clock.now()
        try:
            return await self.lock.take(wait_s)
        except LockTimeout:
            return None
        finally:
            metrics.safe_send_wait_seconds.observe(clock.now() - began)

    @asynccontextmanager
    async def extended(self, lock_id: str) -> AsyncIterator[None]:
        """While the block runs, the lock does not expire as long as its store answers."""
        began = clock.now()
        extending = asyncio.create_task(self._extend(lock_id))
        try:
            yield
        finally:
            extending.cancel()
            metrics.safe_send_hold_seconds.observe(clock.now() - began)

    async def _extend(self, lock_id: str) -> None:
        pause_s = self.life_s / 3
        while True:
            await asyncio.sleep(pause_s)
            pause_s = self.life_s / 3
            try:
                if not await self.lock.extend(lock_id, self.life_s, max(MIN_EXTEND_S, self.life_s / 6)):
                    log.warning("the send lock of %s was lost while its holder was sending", self.lock.whose)
                    return
            except Exception as error:  # noqa: BLE001 - whatever a manager raises, the lock may still be ours
                log.warning("the send lock of %s could not be extended: %s", self.lock.whose, error)
                pause_s = self.life_s / 12  # there is time for another try, even if this one hung

    async def release(self, lock_id: str) -> None:
        if not await self.lock.release(lock_id):
            metrics.safe_send_expiries.inc()


class SentTexts(NamedTuple):
    """What users were sent lately. If nobody knows, a text counts as new: better twice than not at all."""

    manager: Any

    def id_at_once(self, chat_id: int | str, text: str) -> str:
        """`""` if the manager cannot make one: then the text is not marked either."""
        try:
            return str.__str__(self.manager.generate_message_id(chat_id, text))
        except Exception as error:  # noqa: BLE001 - a manager of someone else's may raise anything
            return _no_id(chat_id, error)

    async def id_of(self, chat_id: int | str, text: str) -> str:
        """The same, also of a manager whose ids must be awaited."""
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                made = self.manager.generate_message_id(chat_id, text)
                return str.__str__(await made if inspect.isawaitable(made) else made)
        except Exception as error:  # noqa: BLE001 - a manager of someone else's may raise anything
            return _no_id(chat_id, error)

    async def has(self, text_id: str) -> bool:
        if not text_id:
            return False
        try:
            return bool(await self._ask(self.manager.is_duplicate, text_id))
        except Exception as error:  # noqa: BLE001 - a manager of someone else's may raise anything
            log.warning("nobody knows whether %s was sent before: %s", text_id, _why(error))
            return False

    async def mark(self, text_id: str) -> None:
        if not text_id:
            return
        try:
            await self._ask(self.manager.mark_as_processed, text_id)
        except Exception as error:  # noqa: BLE001 - it has gone out, whatever the manager says
            log.warning("%s was sent, and could not be marked: %s", text_id, _why(error))

    async def _ask(self, method: Callable[..., Any], text_id: str) -> Any:
        async with asyncio.timeout(ANSWERS_WITHIN_S):  # a client without a timeout of its own may hang for good
            return (await ask(self.manager, method, text_id)).value


def _no_id(chat_id: int | str, error: Exception) -> str:
    log.warning("nobody knows whether this was sent to user %s before: %s", chat_id, _why(error))
    return ""


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


@dataclass(frozen=True, slots=True)
class _Work:
    """One text for one user."""

    chat_id: Any
    text: Any
    bot: Any
    typing_manager: Any
    lock_manager: Any
    dedup_manager: Any
    send: Send

    async def run(
        self, lock_timeout: arguments.Seconds | None, wait: arguments.Seconds | None, *, falls_back: bool
    ) -> bool:
        if not str(self.text or "").strip() or self.bot is None:
            log.error("Invalid parameters: text and bot are required")
            return _not_sent("invalid")
        if not isinstance(self.text, str):
            log.error("Invalid parameters: text must be a str, not %s", type(self.text).__name__)
            return _not_sent("invalid")
        if not isinstance(self.chat_id, int | str) or isinstance(self.chat_id, bool) or self.chat_id == "":
            log.error("Invalid parameters: chat_id must be an int or a str, not %r", self.chat_id)
            return _not_sent("invalid")
        must_be_managers(self.lock_manager, self.dedup_manager)
        if self.lock_manager is None:
            return await self._send_new()
        if lock_timeout is None:
            lock_timeout = getattr(self.lock_manager, "default_timeout", LOCK_TIMEOUT_S)
        life_s = arguments.ttl(lock_timeout, "lock_timeout")
        wait_s = life_s if wait is None else arguments.seconds(wait, "wait", allow_zero=True)
        lock = SendLock.of(self.lock_manager, self.chat_id, life_s)
        try:
            lock_id = await lock.take(wait_s)
        except Exception as error:  # noqa: BLE001 - a manager of someone else's may raise anything
            if falls_back and _is_away(error):
                # the lock was not had, so nothing has been sent yet
                log.warning("Distributed locking failed, falling back to direct send: %s", error)
                metrics.safe_send_fallbacks.inc()
                return await self._send_now()
            log.warning("user %s: nobody knows whether the send lock is free: %s", self.chat_id, error)
            log.warning("Failed to acquire lock for user %s", self.chat_id)
            return _not_sent("away" if _is_away(error) else "failed")
        if lock_id is None:
            log.warning("Failed to acquire lock for user %s", self.chat_id)
            return _not_sent("locked")
        try:
            async with lock.extended(lock_id):
                return await self._send_new()
        finally:
            await lock.release(lock_id)

    async def _send_new(self) -> bool:
        """Sends it unless it was sent before, and remembers it."""
        if self.dedup_manager is None:
            return await self._send_now()
        sent = SentTexts(self.dedup_manager)
        text_id = await sent.id_of(self.chat_id, self.text)
        if await sent.has(text_id):
            log.info("Skipping duplicate message for user %s", self.chat_id)
            metrics.safe_send_duplicates.inc()
            return _not_sent("duplicate")
        if not await self._send_now():
            return False
        await sent.mark(text_id)
        return True

    async def _send_now(self) -> bool:
        try:
            sent = self.send(self.chat_id, self.text, self.bot, self.typing_manager)
            if inspect.isawaitable(sent):
                sent = await sent
        except PerhapsSent as doubt:  # whoever was told that it failed would send it again
            log.warning("user %s: the message may or may not have been sent: %s", self.chat_id, doubt)
            metrics.safe_sends.labels("in_doubt").inc()
            return True
        except Exception as error:
            log.error("Error sending message to user %s: %s", self.chat_id, error, exc_info=True)
            return _not_sent("failed")
        if sent is False:
            log.warning("Failed to send AI response to user %s", self.chat_id)
            return _not_sent("failed")
        log.info("Successfully sent message to user %s", self.chat_id)
        metrics.safe_sends.labels("sent").inc()
        return True


def _is_away(error: Exception) -> bool:
    """An error of Python's own that is not about a connection is a mistake: of the manager, or in how it is used. So is
    one of ours that is not about the store, such as a chat id that is too long for a name.
    """
    if isinstance(error, InTurnError):
        return isinstance(error, StoreUnavailable)
    return isinstance(error, OSError) or type(error).__module__ != "builtins"


def _not_sent(why: str) -> bool:
    metrics.safe_sends.labels(why).inc()
    return False
