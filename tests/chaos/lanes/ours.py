"""inturn under the load: handlers of every policy, inline turns, and the look into the store."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import redis

from inturn import InTurn
from inturn.errors import (
    CommitUnknown,
    DuplicateMessage,
    HandlerFailed,
    LaneTimeout,
    LeaseLost,
    MessageCancelled,
    ResultExpired,
    Stop,
    StoreUnavailable,
    Superseded,
)
from inturn.lanes.receipt import Receipt
from inturn.lanes.turn import Turn
from inturn.settings import Settings
from tests.chaos.history import Recorder
from tests.chaos.lanes.load import Fails, LaneLoad, apply, fresh_state
from tests.chaos.lanes.sides import Entry, InlineOutcome, WrittenOff

ATTEMPTS = 50
"""So many that kills do not use them up: what dies is poison."""
MUST_BE_GONE = ("lanes", "alarms", "mail:", "msgs:", "ready:", "forward", "later", "delayed:")
"""Keys that a partition with nothing to do must not have."""


class InTurnSide:
    def __init__(self, load: LaneLoad, recorder: Recorder | None = None) -> None:
        self._load = load
        self._recorder = recorder
        settings = Settings(store_timeout=load.store_timeout_s, partitions=load.partitions)
        self.app = InTurn(load.url, namespace=load.namespace, settings=settings)
        self._register()

    def _register(self) -> None:
        app, ttl = self.app, self._load.ttl_s
        common: dict[str, Any] = {"state": dict, "initial": fresh_state, "ttl": ttl, "attempts": ATTEMPTS}
        often: dict[str, Any] = {**common, "backoff": (0.02, 0.2)}

        async def answer(turn: Turn[dict[str, Any]]) -> Entry:
            self._begins(turn)
            for message in turn.messages:
                await asyncio.sleep(self._load.nature(turn.handler, message.id).seconds / len(turn.messages))
            if turn.handler == "take":
                await turn.new_messages()
            self._fails(turn)
            return self._apply_all(turn)

        app.handler("say", **often)(answer)
        app.handler("gather", busy="merge", quiet=0.02, max_burst=4, **often)(answer)
        app.handler("cut", busy="interrupt", **often)(answer)
        app.handler("undo", busy="rollback", **often)(answer)
        app.handler("last", busy="latest", **often)(answer)
        app.handler("take", **often)(answer)
        app.handler("fresh", unless_newer=True, **often)(answer)
        app.handler("idle", interruptible=True, **often)(answer)

        @app.handler("act", on_failure="skip", **common)
        def act(turn: Turn[dict[str, Any]]) -> Entry:
            nature = self._begins(turn)
            time.sleep(min(nature.seconds, 0.02))
            self._fails(turn)
            return self._apply_all(turn)

        @app.handler("hop", **often)
        async def hop(turn: Turn[dict[str, Any]]) -> Entry:
            self._begins(turn)
            self._fails(turn)
            return self._apply(turn, turn.body["n"], turn.body["from"])

        @app.handler("audit", **often)
        async def audit(turn: Turn[dict[str, Any]]) -> None:
            if turn.attempt <= self._load.nature("audit", turn.body["id"]).failures:
                raise Fails
            turn.state["count"] += 1
            turn.state["list"].append(turn.body)

    def _begins(self, turn: Turn[dict[str, Any]]) -> Any:
        if self._recorder is not None:
            self._recorder.write("ran", key=turn.key, id=turn.id, by=turn.handler, fence=turn.fence, n=turn.attempt)
        return self._load.nature(turn.handler, turn.id)

    def _fails(self, turn: Turn[dict[str, Any]]) -> None:
        natures = [self._load.nature(turn.handler, message.id) for message in turn.messages]
        is_poison = any(nature.is_poison for nature in natures)
        if is_poison and turn.attempt >= 3:
            raise Stop
        if is_poison or turn.attempt <= max(nature.failures for nature in natures):
            raise Fails

    def _apply_all(self, turn: Turn[dict[str, Any]]) -> Entry:
        """Every message of the turn; the first one leads. Answers its entry: all of them have this result."""
        lead, *others = turn.messages
        first = self._apply(turn, lead.body["number"])
        for message in others:
            self._apply(turn, message.body["number"], message_id=message.id, lead=lead.id)
        return first

    def _apply(
        self, turn: Turn[dict[str, Any]], number: int = 0, sender: str = "", message_id: str = "", lead: str = ""
    ) -> Entry:
        by, message_id = turn.handler or "inline", message_id or turn.id
        nature = self._load.nature(by, message_id)
        number = number if nature.is_ordered else 0
        entry = apply(turn.state, message_id, by, turn.fence, number, nature.to, sender, nature.priority, lead)
        turn.send("audit", {name: entry[name] for name in ("id", "by", "n", "fence")})
        if nature.to:
            turn.send("hop", {"from": turn.key, "n": entry["n"]}, key=nature.to, message_id=message_id)
        return entry

    async def submit(self, key: str, handler: str, message_id: str, number: int) -> Receipt:
        nature = self._load.nature(handler, message_id)
        return await self.app.submit(
            handler, {"number": number}, key=key, message_id=message_id, priority=nature.priority,
            delay=nature.delay_s or None,
        )  # fmt: skip

    async def inline(self, key: str, message_id: str, body: Callable[[], Awaitable[None]]) -> InlineOutcome:
        outcome = await self._inline(key, message_id, body)
        for _ in range(2):
            # a commit, now or before, settles it; that another try is refused says nothing of the first
            if outcome == "unknown" and await self._inline(key, message_id, body) == "committed":
                outcome = "committed"
        return outcome

    async def _inline(self, key: str, message_id: str, body: Callable[[], Awaitable[None]]) -> InlineOutcome:
        has_run = False
        try:
            async with self.app.turn(
                key,
                message_id=message_id,
                wait=3,
                state=dict,
                initial=fresh_state,
                ttl=self._load.ttl_s,
                interruptible=self._load.nature("inline", message_id).is_interruptible,
            ) as turn:
                has_run = True
                await body()
                turn.result = self._apply(turn)
        except DuplicateMessage as duplicate:
            # a commit that was not answered, or whose lease still runs out
            try:
                await duplicate.receipt.result(timeout=self._load.ttl_s)
            except (ResultExpired, TimeoutError, StoreUnavailable):
                return "unknown"
            return "committed"
        except CommitUnknown:
            return "unknown"
        except (LeaseLost, LaneTimeout, Fails):
            return "refused"
        except StoreUnavailable:
            return "unknown" if has_run else "refused"
        return "committed"

    async def work(self, started: Callable[[], None]) -> None:
        while True:
            try:
                await self.app.open()
                break
            except StoreUnavailable:
                await asyncio.sleep(0.05)  # it is away as this process starts
        running = asyncio.create_task(self.app.run(concurrency=8, grace=1, signals=True))
        await asyncio.sleep(0)  # from here on a signal is heard
        started()
        await running

    async def holders(self) -> list[int]:
        return [int(lane.holder.rpartition(":")[2]) for lane in await self.app.lanes.list() if lane.holder]

    async def left(self) -> list[str]:
        lanes = [f"{lane.key} ({lane.status}, {lane.waiting} wait)" for lane in await self.app.lanes.list(10_000)]
        return lanes or await asyncio.to_thread(self._leftovers)

    def _leftovers(self) -> list[str]:
        if self._load.url.startswith("sqlite:"):
            with closing(sqlite3.connect(self._load.file)) as db:
                return [f"message {row}" for row in db.execute("SELECT * FROM messages LIMIT 20")]
        with redis.Redis.from_url(self._load.url, decode_responses=True) as client:
            keys = [str(key) for key in client.scan_iter(f"{self._load.namespace}:*", count=1000)]
        return [key for key in keys if key.partition("}:")[2].startswith(MUST_BE_GONE)]

    async def state(self, key: str) -> dict[str, Any]:
        state: dict[str, Any] = (await self.app.lanes.inspect(key)).state or fresh_state()
        return state

    async def result(self, key: str, handler: str, message_id: str) -> Entry | WrittenOff | None:
        name = "" if handler == "inline" else handler
        receipt = Receipt("duplicate", key, name, message_id, 0, self.app.runtime)
        try:
            found: Entry = await receipt.result(timeout=0)
        except Superseded:
            return "superseded"
        except MessageCancelled:
            return "cancelled"
        except (HandlerFailed, ResultExpired, TimeoutError):
            return None
        return found

    async def dead(self) -> set[tuple[str, str, str]]:
        letters = await self.app.dead_letters.list(100_000)
        return {(letter.key, letter.handler, letter.id) for letter in letters}

    async def close(self) -> None:
        await self.app.close()
