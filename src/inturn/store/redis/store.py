"""The store on Redis: each verb is one script, and the script is the transition.

A verb names its keys, then its arguments in the order of the script's header (`lua/<group>/<verb>.lua`): first those
that are the same for all calls on one lock or lane, whose bytes are kept, then the others.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from inturn.errors import SettingsError, StoreUnavailable
from inturn.store import clock
from inturn.store.failures import unavailable
from inturn.store.lane import (
    Begun,
    Claimed,
    Commit,
    Ended,
    Failure,
    Given,
    Left,
    NotAsked,
    Opening,
    Outcome,
    Send,
    Steered,
    Submission,
    Submitted,
)
from inturn.store.limits import MAX_PRIORITY
from inturn.store.protocol import Acquired, Beat, Edge, Extended, HowToExtend, Notice, Released, Request, Wait
from inturn.store.redis.calls import Calls
from inturn.store.redis.keys import Keys
from inturn.store.redis.link import LinkLost, Reply
from inturn.store.redis.replies import (
    dead_view_of,
    edges_of,
    ended_of,
    given_of,
    lane_view_of,
    lock_view_of,
    messages_of,
    notice_text,
    read_notice,
    texts_of,
    word_of,
)
from inturn.store.redis.scripts import Script, load
from inturn.store.redis.watch import MAX_PUBLISHED, Heard, Watch
from inturn.store.views import DeadView, HandlerRow, LaneList, LaneRow, LaneView, LockView

_ACQUIRE, _RELEASE, _EXTEND = load("locks/acquire"), load("locks/release"), load("locks/extend")
_FORCE_RELEASE, _EDGES = load("locks/force_release"), load("locks/edges")
_NAMES, _INSPECT = load("locks/names"), load("locks/inspect")

_SUBMIT, _BEGIN, _LEAVE = load("lanes/submit"), load("lanes/begin"), load("lanes/leave")
_COMMIT, _FAIL, _STEER = load("lanes/commit"), load("lanes/fail"), load("lanes/steer")
_CANCEL, _CONFIRM, _ATTEND = load("lanes/cancel"), load("lanes/confirm"), load("lanes/attend")

_CLAIM, _CLAIM_LANE = load("workers/claim"), load("workers/claim_lane")
_UNCLAIM, _UNWORK = load("workers/unclaim"), load("workers/unwork")
_BEAT, _DEPART, _REPORT = load("processes/beat"), load("processes/depart"), load("processes/report")
_FORWARDS, _TAKE = load("forward/forwards"), load("forward/take")

_STOP, _RESUME, _CLEAR = load("admin/stop"), load("admin/resume"), load("admin/clear")
_LANES, _LANE = load("admin/lanes"), load("admin/lane")
_DEAD, _REPLAY = load("admin/dead"), load("admin/replay")

FORWARD_AT_ONCE = 100
MAX_FORWARDS = 10
"""Batches of sends that one call brings, so that it ends however fast new ones come."""

_extensions = itertools.count(1)
"""Numbers the calls of `extend` in this process, so that an older one cannot undo a newer one."""


class RedisStore(Calls):
    """One process at a Redis server, at the master of a replicated one, or at the nodes of a cluster."""

    # -- locks -------------------------------------------------------------------------------------------------

    async def acquire(self, request: Request) -> Acquired:
        name, token, owner, capacity, weight, ttl_ms, life_ms, priority, wait = request
        keys = self._keys[self.partition_of(name)]
        reply, sent_at, attempts = await self._run(
            _ACQUIRE,
            keys.lock(name),
            (keys.prefix, name, self.process, capacity, weight, ttl_ms, life_ms, priority),
            (token, owner, 1 if wait else 0),
            granting=name,
        )
        status = reply[0]
        doubt_until = clock.now() + self.timeout_s if attempts > 1 else 0.0
        if status == b"granted":
            _, fence, arrival, life_left_ms, *_ = reply
            return Acquired("granted", fence, arrival, life_left_ms, sent_at=sent_at, doubt_until=doubt_until)
        if status == b"waiting":
            return Acquired("waiting", arrival=reply[1], sent_at=sent_at, doubt_until=doubt_until)
        other = reply[1].decode() if isinstance(reply[1], bytes) else str(reply[1])
        return Acquired(status.decode(), other=other, sent_at=sent_at, doubt_until=doubt_until)

    async def release(self, name: str, token: str, fence: int = 0) -> Released:
        keys = self._keys[self.partition_of(name)]
        reply, _, attempts = await self._run(
            _RELEASE, keys.lock(name), (keys.prefix, name, token.rpartition("#")[0]), (token, fence), granting=name
        )
        status = reply[0].decode()
        # `gone` to a repeat: the first attempt did it, or the lease would have left a note
        return Released("released" if status == "gone" and attempts > 1 else status)

    async def extend(self, name: str, token: str, how: HowToExtend, ms: int) -> Extended:
        keys = self._keys[self.partition_of(name)]
        used, order = (keys.lock(name)[0], keys.processes, keys.due), f"{next(_extensions):016d}"
        reply, sent_at, _ = await self._run(_EXTEND, used, (keys.prefix, name), (token, how, ms, order))
        return Extended(reply[0].decode(), reply[1] if len(reply) > 1 else 0, sent_at)

    async def force_release(self, name: str, owner: str = "") -> int:
        keys = self._keys[self.partition_of(name)]
        reply = await self._run_noted(_FORCE_RELEASE, keys, keys.lock(name), (keys.prefix, name), (owner,))
        return int(reply[1])

    async def edges(self, owners: Sequence[str]) -> list[Edge]:
        asked = (self._run(_EDGES, (keys.waits,), (keys.prefix,), tuple(owners), pushes=False) for keys in self._keys)
        return [edge for reply, _, _ in await asyncio.gather(*asked) for edge in edges_of(reply)]

    async def names(self, limit: int) -> list[str]:
        found: list[str] = []
        for keys in self._keys:
            reply, _, _ = await self._run(_NAMES, (keys.names,), (keys.prefix,), (limit,))
            found += [name.decode() for name in reply[1]]
        return sorted(found)[:limit]

    async def inspect(self, name: str) -> LockView | None:
        keys = self._keys[self.partition_of(name)]
        reply, _, _ = await self._run(_INSPECT, keys.lock(name)[:3], (keys.prefix, name), ())
        return None if reply[0] == b"free" else lock_view_of(name, reply)

    # -- lanes -------------------------------------------------------------------------------------------------

    async def submit(self, message: Submission) -> Submitted:
        key = message.key
        keys = self._keys[self.partition_of(key)]
        reply, _, attempts = await self._run(
            _SUBMIT,
            keys.lane(key),
            (keys.prefix, key),
            (
                message.ident, message.body, _rank(message.priority), message.ttl_ms, message.limit_ms,
                message.late_ms, message.cap, message.busy, message.keep_ms, secrets.token_hex(8),
                self._note_ms, message.rule.text(), message.delay_ms, message.shares, message.group,
            ),
            last_key=keys.mark(key, message.ident),
            durable=True,
        )  # fmt: skip
        status = reply[0].decode()
        if status == "pending" and attempts > 1:
            # most likely by the first attempt; if not, it is the same message
            return Submitted("delayed" if message.delay_ms else "accepted")
        if status == "duplicate":
            return Submitted(word_of(reply[1]) or "duplicate", result=reply[1])
        if status == "busy":
            _, holder, since_ms, waiting, stopped = reply
            return Submitted("busy", ahead=waiting, holder=holder.decode(), since_ms=since_ms, stopped=stopped.decode())
        return Submitted(status, ahead=reply[1] if len(reply) > 1 else 0)

    async def begin(self, opening: Opening) -> Begun:
        key = opening.name
        keys = self._keys[self.partition_of(key)]
        reply, sent_at, attempts = await self._run(
            _BEGIN,
            keys.lane(key),
            (keys.prefix, key, self.process, opening.ttl_ms, opening.limit_ms, opening.keep_ms),
            (
                opening.token, opening.ident, 1 if opening.has_id else 0, opening.busy, opening.cap,
                opening.rule.text(), opening.shares,
            ),
            last_key=keys.mark(key, opening.ident),
            durable=b"duplicate",
        )  # fmt: skip
        doubt_until = clock.now() + self.timeout_s if attempts > 1 else 0.0
        status = reply[0].decode()
        if status == "granted":
            return Begun("granted", reply[1], reply[2], sent_at=sent_at, doubt_until=doubt_until)
        if status == "duplicate":
            return Begun("duplicate", result=reply[1], sent_at=sent_at, doubt_until=doubt_until)
        if status == "busy":
            _, holder, since_ms, waiting, stopped = reply
            return Begun(
                "busy",
                ahead=waiting,
                holder=holder.decode(),
                since_ms=since_ms,
                stopped=stopped.decode(),
                sent_at=sent_at,
                doubt_until=doubt_until,
            )
        ahead = reply[1] if len(reply) > 1 and reply[1] is not None else 0
        return Begun(status, ahead=ahead, sent_at=sent_at, doubt_until=doubt_until)

    async def leave(self, key: str, token: str, ident: str, fence: int = 0) -> Left:
        keys = self._keys[self.partition_of(key)]
        reply, _, attempts = await self._run(_LEAVE, keys.lane(key), (keys.prefix, key), (token, ident, fence))
        status = reply[0].decode()
        return Left("released" if status == "gone" and attempts > 1 else status)

    async def commit(self, commit: Commit) -> Ended:
        key, next_token = commit.key, commit.next_token
        partition = self.partition_of(key)
        keys = self._keys[partition]
        varying: tuple[Any, ...] = (
            commit.token, commit.fence, commit.state_op, commit.state, commit.keep_ms, commit.ident, commit.window_ms,
            commit.result, 1 if commit.is_submitted else 0, next_token, _between_nuls(commit.can) if next_token else "",
            commit.have, commit.version if commit.unless_newer else 0,
        )  # fmt: skip
        for send in commit.sends:
            varying += self._send_words(partition, send)
        reply, sent_at, attempts = await self._run(
            _COMMIT, keys.lane(key), (keys.prefix, key), varying, last_key=keys.mark(key, commit.ident), durable=True
        )
        return ended_of(key, next_token, reply, sent_at, attempts)

    def _send_words(self, partition: int, send: Send) -> tuple[Any, ...]:
        to = self.partition_of(send.key)
        return (
            "" if to == partition else to, send.key, send.ident, send.body, send.ttl_ms, send.limit_ms, send.keep_ms,
            1 if send.is_fresh else 0, _rank(send.priority), send.rule.text(), send.delay_ms, send.shares,
            send.group,
        )  # fmt: skip

    async def fail(self, failure: Failure) -> Ended:
        key, next_token = failure.key, failure.next_token
        partition = self.partition_of(key)
        keys = self._keys[partition]
        varying: tuple[Any, ...] = (
            failure.token, failure.fence, failure.how, failure.delay_ms, failure.error, failure.why, next_token,
            _between_nuls(failure.can) if next_token else "", failure.attempts, failure.version, failure.have,
            failure.state_op, failure.state, failure.keep_ms,
        )  # fmt: skip
        for send in failure.sends:
            varying += self._send_words(partition, send)
        fixed = (keys.prefix, key, self._letter_ms)
        reply, sent_at, attempts = await self._run(_FAIL, keys.lane(key), fixed, varying)
        return ended_of(key, next_token, reply, sent_at, attempts)

    async def steer(self, key: str, token: str, fence: int, have: int, version: int = 1) -> Steered:
        keys = self._keys[self.partition_of(key)]
        reply, _, _ = await self._run(_STEER, keys.lane(key), (keys.prefix, key), (token, fence, have, version))
        if reply[0] == b"lost":
            return Steered("lost", why=reply[1].decode())
        return Steered(reply[0].decode(), messages_of(reply[1]) if len(reply) > 1 else ())

    async def cancel(self, key: str, ident: str, window_ms: int) -> Literal["cancelled", "begun", "ended"]:
        keys = self._keys[self.partition_of(key)]
        reply = await self._run_noted(_CANCEL, keys, keys.lane(key), (keys.prefix, key), (ident, window_ms))
        status: Literal["cancelled", "begun", "ended"] = reply[0].decode()
        return status

    async def confirm(self, key: str, token: str) -> bool:
        keys = self._keys[self.partition_of(key)]
        reply, _, _ = await self._run(_CONFIRM, keys.lane(key), (keys.prefix, key), (token,))
        return bool(reply[0] == b"held")

    async def attend(self, key: str, ident: str) -> Outcome:
        keys = self._keys[self.partition_of(key)]
        used = (*keys.lane(key), keys.letters, keys.inbox(self.process))
        fixed = (keys.prefix, key, self.process, self._letter_ms)
        reply, _, _ = await self._run(_ATTEND, used, fixed, (ident,), last_key=keys.mark(key, ident), durable=b"done")
        status = reply[0].decode()
        if status == "done":
            return Outcome(word_of(reply[1]) or "done", result=reply[1])
        if status == "dead":
            return Outcome("dead", attempts=reply[1], errors=texts_of(reply[2]))
        return Outcome(status)

    # -- workers -----------------------------------------------------------------------------------------------

    async def claim(self, call: str, can: Sequence[str], count: int, partition: int = 0) -> Claimed:
        keys = self._keys[partition]
        if self._is_away(keys.prefix, for_s=0.0):  # a worker has others to ask
            raise NotAsked(f"claim at {self.place}: the node of partition {partition} is away")
        used = (keys.lanes, keys.alarms, keys.fence, keys.processes, keys.era, keys.workers)
        fixed = (keys.prefix, self.process, _between_nuls(can))
        varying = (call, count, self._note_ms)
        reply, sent_at, _ = await self._run(
            _CLAIM, used, fixed, varying, last_key=keys.note(call), once=bool(self._seeds), unsent=NotAsked
        )
        turns = [given_of(key.decode(), token.decode(), given, sent_at, state) for key, token, state, given in reply[2]]
        return Claimed(turns, reply[1])

    async def claim_lane(self, call: str, can: Sequence[str], key: str) -> Given | None:
        keys = self._keys[self.partition_of(key)]
        reply, sent_at, _ = await self._run(
            _CLAIM_LANE,
            keys.lane(key),
            (keys.prefix, key, self.process, _between_nuls(can)),
            (call, self._note_ms),
            last_key=keys.note(call),
            unsent=NotAsked,
        )
        if reply[0] == b"none":
            return None
        return given_of(key, reply[1].decode(), reply[3], sent_at, reply[2])

    async def unclaim(self, partition: int, call: str) -> int:
        keys = self._keys[partition]
        used = (keys.lanes, keys.alarms, keys.fence, keys.processes, keys.era)
        varying, count, has_more = (call, self._note_ms), 0, True
        while has_more:  # others are served in between
            reply, _, _ = await self._run(_UNCLAIM, used, (keys.prefix,), varying, last_key=keys.note(call))
            count, has_more = count + int(reply[1]), bool(reply[2])
        return count

    async def unwork(self) -> None:
        calls = (self._run(_UNWORK, (keys.workers,), (keys.prefix, self.process), ()) for keys in self._keys)
        await asyncio.gather(*calls)  # one that does not answer holds up no other

    # -- processes ---------------------------------------------------------------------------------------------

    async def beat(self, partition: int, noted: Sequence[Notice]) -> Beat:
        if self._forget_closed_loops():
            self._reopened()  # the answers to their last calls may have held grants for others
        keys = self._keys[partition]
        if self._is_away(keys.prefix, pushes=False):
            # or the beats of all other partitions would wait for this one
            raise unavailable("beat", self.place, f"the node of partition {partition} is away")
        used = (
            keys.processes, keys.inbox(self.process), keys.names, keys.fence, keys.waits, keys.due, keys.era,
            keys.lanes, keys.alarms, keys.forwards, keys.workers,
        )  # fmt: skip
        texts = tuple(notice_text(notice) for notice in noted)
        fixed = (keys.prefix, self.process, self._letter_ms)
        reply, sent_at, _ = await self._run(_BEAT, used, fixed, texts, pushes=False)
        _, now_us, era, last_seen_ms, due_in_ms, inbox, forwards = reply
        return Beat(
            now_us=now_us,
            era=era,
            away_ms=now_us // 1000 - last_seen_ms if last_seen_ms else 0,
            is_known=bool(last_seen_ms),
            due_in_ms=due_in_ms,
            notices=[read_notice(text) for text in inbox],
            sent_at=sent_at,
            forwards=tuple(sorted(int(target) for target in forwards)),
        )

    async def report(self, partition: int, waits: Sequence[Wait]) -> int:
        keys = self._keys[partition]
        words = tuple(word for wait in waits for word in wait)
        reply, _, _ = await self._run(_REPORT, (keys.waits,), (keys.prefix,), words, pushes=False)
        return int(reply[1])

    async def depart(self) -> None:
        for keys in self._keys:
            used = (keys.processes, keys.inbox(self.process), keys.workers)
            await self._run(_DEPART, used, (keys.prefix, self.process), (), pushes=False)

    # -- between partitions ------------------------------------------------------------------------------------

    async def forward(self, source: int, target: int) -> int:
        # if we die between the two, another process reads the same sends, and `take` passes over what it has taken
        left, taken = self._keys[source], "0"
        used = (left.forward(target), left.forwards)
        for _ in range(MAX_FORWARDS):
            # they leave when their commit is as durable as was asked, or a failover could undo it behind them
            at_once = taken, FORWARD_AT_ONCE
            reply, _, _ = await self._run(_FORWARDS, used, (left.prefix, target), at_once, durable=b"forwards")
            sends = reply[1]
            if not sends:
                return 0
            to = self._keys[target]
            there = (to.taken, to.lanes, to.fence, to.processes, to.alarms, to.era)
            reply, _, _ = await self._run(_TAKE, there, (to.prefix, source), tuple(sends), durable=True)
            taken = reply[1].decode()
        reply, _, _ = await self._run(_FORWARDS, used, (left.prefix, target), (taken, 1))
        return int(reply[2])

    # -- by hand -----------------------------------------------------------------------------------------------

    async def lanes(self, limit: int) -> LaneList:
        in_use = dead = 0
        rows: list[LaneRow] = []
        handlers: dict[str, tuple[int, int]] = {}
        for keys in self._keys:
            used = (keys.lanes, keys.handlers, keys.workers, keys.processes, keys.dead)
            reply, _, _ = await self._run(_LANES, used, (keys.prefix,), (limit,))
            in_use, dead = in_use + reply[1], dead + reply[2]
            for row in reply[3]:
                words: list[Any] = [word.decode() if isinstance(word, bytes) else word for word in row]
                rows.append(LaneRow(*words))
            for name, ready, workers in reply[4]:
                before = handlers.get(name.decode(), (0, 0))
                handlers[name.decode()] = before[0] + ready, max(before[1], workers)
        names = [HandlerRow(name, *counts) for name, counts in sorted(handlers.items())]
        return LaneList(in_use, dead, sorted(rows)[:limit], names)

    async def lane(self, key: str, limit: int) -> LaneView:
        keys = self._keys[self.partition_of(key)]
        reply, _, _ = await self._run(_LANE, keys.lane(key), (keys.prefix, key), (limit,))
        return lane_view_of(key, reply)

    async def stop(self, key: str, how: Literal["paused", "parked"], why: str) -> None:
        keys = self._keys[self.partition_of(key)]
        await self._run_noted(_STOP, keys, keys.lane(key), (keys.prefix, key), (how, why))

    async def resume(self, key: str) -> bool:
        keys = self._keys[self.partition_of(key)]
        reply = await self._run_noted(_RESUME, keys, keys.lane(key), (keys.prefix, key), ())
        return bool(reply[0] == b"resumed")

    async def clear(self, key: str) -> int:
        keys = self._keys[self.partition_of(key)]
        reply = await self._run_noted(_CLEAR, keys, keys.lane(key), (keys.prefix, key), ())
        return int(reply[1])

    async def dead(self, limit: int) -> list[DeadView]:
        rows: list[Any] = []
        for keys in self._keys:
            fixed = (keys.prefix, self._letter_ms)
            reply, _, _ = await self._run(_DEAD, (keys.dead, keys.letters), fixed, (limit, ""))
            rows += reply[1]
        return [dead_view_of(row) for row in sorted(rows, key=lambda row: row[0])[:limit]]

    async def dead_letter(self, key: str, ident: str) -> DeadView | None:
        keys = self._keys[self.partition_of(key)]
        fixed, varying = (keys.prefix, self._letter_ms), (1, f"{key}\0{ident}")
        reply, _, _ = await self._run(_DEAD, (keys.dead, keys.letters), fixed, varying)
        return dead_view_of(reply[1][0]) if reply[1] else None

    async def replay(self, key: str, ident: str) -> bool:
        return await self._bring_back(key, ident, "replay")

    async def drop(self, key: str, ident: str) -> bool:
        return await self._bring_back(key, ident, "drop")

    async def _bring_back(self, key: str, ident: str, how: Literal["replay", "drop"]) -> bool:
        keys = self._keys[self.partition_of(key)]
        used = (keys.dead, keys.letters, keys.lanes, keys.fence, keys.processes, keys.alarms, keys.era)
        reply = await self._run_noted(_REPLAY, keys, used, (keys.prefix, key, self._letter_ms), (ident, how))
        return bool(reply[0] == b"done")

    # -- watching ----------------------------------------------------------------------------------------------

    def publish(self, key: str, text: bytes) -> None:
        """Tells the watchers of the key. Returns at once and never fails; what cannot be sent now is dropped."""
        keys = self._keys[self.partition_of(key)]
        try:
            watch = self._watch()
        except RuntimeError:  # no loop runs here
            return
        link = self._way(True, keys.prefix)
        if not link.is_up or watch.published >= MAX_PUBLISHED:
            return
        watch.published += 1
        sent = link.say("SPUBLISH", keys.watch(key), text)
        sent.add_done_callback(watch.is_published)

    async def subscribe(self, key: str, listener: Heard) -> Callable[[], Awaitable[None]]:
        """Calls `listener` on this loop with each text, and with `b""` if something may have been missed."""
        watch = self._watch()
        channel = self._keys[self.partition_of(key)].watch(key)
        try:
            await watch.begin(channel, listener, self.timeout_s)
        except LinkLost as error:
            raise StoreUnavailable(f"watch at {self.place}: {error}") from error

        async def unsubscribe() -> None:
            watch.end(channel, listener)

        return unsubscribe

    def _watch(self) -> Watch:
        loop = asyncio.get_running_loop()
        beside = self._beside.get(loop)
        if isinstance(beside, Watch):
            return beside
        watch = Watch(self._address, self._cluster(loop) if self._seeds else None, self.timeout_s / 2)
        self._beside[loop] = watch
        return watch

    # -- what is the same for all of them ----------------------------------------------------------------------

    def must_share(self) -> None:
        if self.url.partition("://")[0].endswith("+cluster"):
            raise SettingsError(
                "shares= needs one Redis server: on a cluster a plain key lives on another node than its lane, and the "
                "two cannot change together"
            )

    async def _run_noted(
        self, script: Script, keys: Keys, used: tuple[str, ...], fixed: tuple[Any, ...], varying: tuple[Any, ...]
    ) -> Reply:
        """Runs a script that notes its answer, so that it acts once: see `lua/include/note.lua`."""
        note = keys.note(secrets.token_hex(8))
        reply, _, _ = await self._run(script, used, fixed, (*varying, self._note_ms), last_key=note)
        return reply

    @property
    def _note_ms(self) -> int:
        """How long the answer to a call is kept for its repeats: longer than any of its bytes can be under way."""
        return round(self.timeout_s * 3000)


def _rank(priority: int) -> str:
    """Returns the priority as text that sorts a higher one first."""
    return f"{MAX_PRIORITY - priority:04d}"


def _between_nuls(can: Sequence[str]) -> str:
    return "\0" + "".join(f"{handler}\0" for handler in can)
