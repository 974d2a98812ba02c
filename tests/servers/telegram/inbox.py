"""The updates that wait for one bot, and how it gets them: it polls, or they are pushed to its webhook.

An update is here until a later offset confirms it, or the webhook answers it with 2xx.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp

from tests.servers.telegram.faults import Refused

MAX_POLL_S = 50
REPEATED_POLL_S = 3
"""A poll with the offset of the last one, within this time of it, waits at least this long."""
FUTURE_IDS = 10
"""An offset that is farther than this beyond the next update id confirms nothing."""
WEBHOOK_ANSWERS_WITHIN_S = 60.0
OFF_BY_DEFAULT = {"chat_member", "message_reaction", "message_reaction_count"}
OTHER_POLL = "terminated by other getUpdates request; make sure that only one bot instance is running"
WEBHOOK_IS_ACTIVE = "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"

Update = dict[str, Any]


class Inbox:
    def __init__(self) -> None:
        self.updates: dict[int, Update] = {}
        self.next_id = 500_001
        self._allowed: list[str] = []
        self._poll: asyncio.Future[None] | None = None
        self._polled = (0, float("-inf"))
        """The offset of the last poll, and when it came."""
        self._url = self._secret = self._error = ""

    def wants(self, kind: str) -> bool:
        return kind in self._allowed if self._allowed else kind not in OFF_BY_DEFAULT

    def put(self, update: Update) -> int:
        """The next ids follow its `update_id`, if it has one."""
        update_id = int(update.get("update_id", self.next_id))
        self.updates[update_id] = {"update_id": update_id} | update
        self.next_id = update_id + 1
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(None)
        return update_id

    async def poll(self, params: Mapping[str, Any]) -> list[Update]:
        if self._url:
            raise Refused(409, f"Conflict: {WEBHOOK_IS_ACTIVE}")
        self._allow(params)
        offset, now = int(params.get("offset", 0)), time.monotonic()
        limit = min(max(int(params.get("limit", 100)), 1), 100)
        timeout = min(max(int(params.get("timeout", 0)), 0), MAX_POLL_S)
        if offset == self._polled[0] and now < self._polled[1] + REPEATED_POLL_S:
            timeout = max(timeout, REPEATED_POLL_S)
        self._polled = (offset, now)
        found = self._take(offset, limit)
        if found or not timeout:
            return found
        # Only a poll that has to wait ends the one that waits: if there are updates, both get them.
        self._end_poll(OTHER_POLL)
        poll = self._poll = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await poll
        return self._take(offset, limit)

    def set_webhook(self, params: Mapping[str, Any]) -> None:
        """No `url` removes it. Telegram would insist on https."""
        self._url, self._secret, self._error = params.get("url", ""), params.get("secret_token", ""), ""
        if self._url:
            self._end_poll("terminated by setWebhook request")
            self._allow(params)
        if str(params.get("drop_pending_updates", "")).lower() in ("true", "yes", "1"):
            self.updates = {}

    def webhook(self) -> dict[str, Any]:
        told = {"url": self._url, "has_custom_certificate": False, "pending_update_count": len(self.updates)}
        if self._allowed:
            told["allowed_updates"] = self._allowed
        if self._error:
            told |= {"last_error_date": int(time.time()), "last_error_message": self._error}
        return told

    async def push(self) -> dict[int, int]:
        """One update of a queue at a time, until one is not answered with 2xx. Returns the statuses by update id."""
        assert self._url, "no webhook is set"
        queues: dict[tuple[str, object], list[Update]] = {}
        for update in self.updates.values():
            queues.setdefault(_queue_of(update), []).append(update)
        statuses: dict[int, int] = {}
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(WEBHOOK_ANSWERS_WITHIN_S)) as session:
            await asyncio.gather(*(self._push(session, queue, statuses) for queue in queues.values()))
        return statuses

    async def _push(self, session: aiohttp.ClientSession, queue: Sequence[Update], statuses: dict[int, int]) -> None:
        headers = {"X-Telegram-Bot-Api-Secret-Token": self._secret} if self._secret else {}
        for update in queue:
            update_id, status, reason = update["update_id"], 0, "Connection failed"
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.post(self._url, json=update, headers=headers) as answer:
                    status, reason = answer.status, f"Wrong response from the webhook: {answer.status} {answer.reason}"
            statuses[update_id] = status
            if not 200 <= status < 300:
                self._error = reason
                return
            self.updates.pop(update_id, None)

    def _allow(self, params: Mapping[str, Any]) -> None:
        """Kinds of updates; an empty list is the default set. If none is given, the last one still counts."""
        self._allowed = params.get("allowed_updates", self._allowed)

    def _take(self, offset: int, limit: int) -> list[Update]:
        """Confirms all below the offset; a negative one counts from the end."""
        if offset > self.next_id + FUTURE_IDS:
            offset = 0
        if offset < 0:
            offset += self.next_id
        self.updates = {update_id: update for update_id, update in self.updates.items() if update_id >= offset}
        return list(self.updates.values())[:limit]

    def _end_poll(self, reason: str) -> None:
        if self._poll is not None and not self._poll.done():
            self._poll.set_exception(Refused(409, f"Conflict: {reason}"))


def _queue_of(update: Update) -> tuple[str, object]:
    """Messages of a chat, edited ones too, are one queue; other updates have their own, and may overtake."""
    kind, content = next((each for each in update.items() if each[0] != "update_id"), ("", None))
    chat = content.get("chat") if isinstance(content, dict) else None
    return "message" if kind == "edited_message" else kind, chat.get("id") if isinstance(chat, dict) else None
