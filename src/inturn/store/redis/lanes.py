"""The verbs of a lane on Redis: one script each."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Literal

from inturn.errors import SettingsError
from inturn.store import clock
from inturn.store.lane import (
    Begun,
    Claimed,
    Commit,
    Ended,
    Failure,
    Given,
    GivenMessage,
    Left,
    NotAsked,
    Opening,
    Outcome,
    Send,
    Steered,
    Submission,
    Submitted,
    read_ident,
)
from inturn.store.views import DeadView, HandlerRow, LaneList, LaneRow, LaneView, MessageView
from inturn.store.redis.calls import Caller
from inturn.store.redis.scripts import load

_SUBMIT, _BEGIN, _LEAVE = load("submit"), load("begin"), load("leave")
_CLAIM, _UNCLAIM, _UNWORK = load("claim"), load("unclaim"), load("unwork")
_COMMIT, _FAIL, _CONFIRM, _ATTEND = load("commit"), load("fail"), load("confirm"), load("attend")
_STEER, _CANCEL = load("steer"), load("cancel")
_FORWARDS, _TAKE = load("forwards"), load("take")
_LANES, _LANE, _STOP, _RESUME, _CLEAR = load("lanes"), load("lane"), load("stop"), load("resume"), load("clear")
_DEAD, _REPLAY = load("dead"), load("replay")

FORWARD_AT_ONCE = 100
MOST_FORWARDS = 10
"""Batches of sends that one call brings, so that it comes to an end however fast new ones come."""


class LaneVerbs(Caller):
    @property
    def _note_ms(self) -> int:
        """How long the answer of a call is kept for its repeats: longer than any of its bytes can be under way."""
        return round(self.timeout_s * 3000)

    def must_share(self) -> None:
        if self.url.partition("://")[0].endswith("+cluster"):
            raise SettingsError(
                "shares= needs one Redis server: on a cluster a plain key lives on another node than its lane, and the "
                "two cannot change together"
            )

    async def submit(self, message: Submission) -> Submitted:
        key = message.key
        keys = self._keys[self.partition_of(key)]
        reply, _, attempts = await self._run(
            _SUBMIT,
            keys.lane(key),
            (keys.prefix, key),
            (
                message.ident, message.body, _rank(message.priority), message.ttl_ms, message.limit_ms,
                message.late_ms, message.cap, message.busy, message.keep_ms, secrets.token_hex(4),
                message.rule.text(), message.delay_ms, message.shares,
            ),
            last_key=keys.mark(key, message.ident),
            durable=True,
        )  # fmt: skip
        status = reply[0].decode()
        if status == "pending" and attempts > 1:
            # most likely by the first attempt; if not, it is the same message
            return Submitted("delayed" if message.delay_ms else "accepted")
        if status == "duplicate":
            return Submitted(_word_of(reply[1]) or "duplicate", result=reply[1])
        if status == "busy":
            return Submitted("busy", reply[3], b"", reply[1].decode(), reply[2], reply[4].decode())
        return Submitted(status, reply[1] if len(reply) > 1 else 0)

    async def begin(self, opening: Opening) -> Begun:
        key, token, _, ident, has_id, ttl_ms, limit_ms, keep_ms, busy, cap, rule, shares = opening
        keys = self._keys[self.partition_of(key)]
        reply, sent_at, attempts = await self._run(
            _BEGIN,
            keys.lane(key),
            (keys.prefix, key, self.process, ttl_ms, limit_ms, keep_ms),
            (token, ident, 1 if has_id else 0, busy, cap, rule.text(), shares),
            last_key=keys.mark(key, ident),
            durable=b"duplicate",
        )
        doubt_until = clock.now() + self.timeout_s if attempts > 1 else 0.0
        status = reply[0].decode()
        if status == "granted":
            return Begun("granted", reply[1], reply[2], sent_at=sent_at, doubt_until=doubt_until)
        if status == "duplicate":
            return Begun("duplicate", result=reply[1], sent_at=sent_at, doubt_until=doubt_until)
        if status == "busy":
            holder, since_ms, waiting, stopped = reply[1].decode(), reply[2], reply[3], reply[4].decode()
            return Begun("busy", 0, None, waiting, b"", holder, since_ms, stopped, sent_at, doubt_until)
        ahead = reply[1] if len(reply) > 1 and reply[1] is not None else 0
        return Begun(status, ahead=ahead, sent_at=sent_at, doubt_until=doubt_until)

    async def leave(self, key: str, token: str, ident: str, fence: int = 0) -> Left:
        keys = self._keys[self.partition_of(key)]
        reply, _, attempts = await self._run(_LEAVE, keys.lane(key), (keys.prefix, key), (token, ident, fence))
        status = reply[0].decode()
        return Left("released" if status == "gone" and attempts > 1 else status)

    async def claim(self, call: str, can: Sequence[str], count: int, partition: int = 0) -> Claimed:
        keys = self._keys[partition]
        if self._is_away(keys.prefix, for_s=0.0):  # a worker has others to ask
            raise NotAsked(f"claim at {self.place}: the node of partition {partition} is away")
        used = (keys.lanes, keys.alarms, keys.fence, keys.processes, keys.era, keys.workers)
        fixed = (keys.prefix, self.process, _between_nuls(can))
        varying = (call, count, self._note_ms)
        reply, sent_at, _ = await self._run(
            _CLAIM, used, fixed, varying, last_key=keys.note(call), once=bool(self._seeds)
        )
        turns = [_given(key.decode(), token.decode(), given, sent_at, state) for key, token, state, given in reply[2]]
        return Claimed(turns, reply[1])

    async def unclaim(self, partition: int, call: str) -> int:
        keys = self._keys[partition]
        used = (keys.lanes, keys.alarms, keys.fence, keys.processes, keys.era)
        varying = (call, self._note_ms)
        reply, _, _ = await self._run(_UNCLAIM, used, (keys.prefix,), varying, last_key=keys.note(call))
        return int(reply[1])

    async def unwork(self) -> None:
        for keys in self._keys:
            await self._run(_UNWORK, (keys.workers,), (keys.prefix, self.process), ())

    async def commit(self, commit: Commit) -> Ended:
        key, token, fence, ident, is_submitted, state_op, state, keep_ms, window_ms, result = commit[:10]
        sends, after, can, have, unless_newer, version = commit[10:]
        partition = self.partition_of(key)
        keys = self._keys[partition]
        varying: tuple[Any, ...] = (
            token, fence, state_op, state, keep_ms, ident, window_ms, result, 1 if is_submitted else 0, after,
            _between_nuls(can) if after else "", have, version if unless_newer else 0,
        )  # fmt: skip
        for send in sends:
            varying += self._send_words(partition, send)
        reply, sent_at, attempts = await self._run(
            _COMMIT, keys.lane(key), (keys.prefix, key), varying, last_key=keys.mark(key, ident), durable=True
        )
        return _ended(key, after, reply, sent_at, attempts)

    def _send_words(self, partition: int, send: Send) -> tuple[Any, ...]:
        to = self.partition_of(send.key)
        where = "" if to == partition else to
        return (
            where, *send[:6], 1 if send.is_fresh else 0, _rank(send.priority), send.rule.text(), send.delay_ms,
            send.shares,
        )  # fmt: skip

    async def fail(self, failure: Failure) -> Ended:
        key, token, fence, how, delay_ms, error, why, after, can, attempts_had, version, have = failure
        keys = self._keys[self.partition_of(key)]
        reply, sent_at, attempts = await self._run(
            _FAIL,
            keys.lane(key),
            (keys.prefix, key),
            (
                token, fence, how, delay_ms, error, why, after, _between_nuls(can) if after else "", attempts_had,
                version, have,
            ),
        )  # fmt: skip
        return _ended(key, after, reply, sent_at, attempts)

    async def steer(self, key: str, token: str, fence: int, have: int, version: int = 1) -> Steered:
        keys = self._keys[self.partition_of(key)]
        reply, _, _ = await self._run(_STEER, keys.lane(key), (keys.prefix, key), (token, fence, have, version))
        return Steered(reply[0].decode(), _messages(reply[1]) if len(reply) > 1 else ())

    async def cancel(self, key: str, ident: str, window_ms: int) -> Literal["cancelled", "begun", "ended"]:
        keys = self._keys[self.partition_of(key)]
        mark = keys.mark(key, ident)
        reply, _, _ = await self._run(_CANCEL, keys.lane(key), (keys.prefix, key), (ident, window_ms), last_key=mark)
        status: Literal["cancelled", "begun", "ended"] = reply[0].decode()
        return status

    async def confirm(self, key: str, token: str) -> bool:
        keys = self._keys[self.partition_of(key)]
        reply, _, _ = await self._run(_CONFIRM, keys.lane(key), (keys.prefix, key), (token,))
        return bool(reply[0] == b"held")

    async def attend(self, key: str, ident: str) -> Outcome:
        keys = self._keys[self.partition_of(key)]
        used = (*keys.lane(key), keys.letters, keys.inbox(self.process))
        reply, _, _ = await self._run(
            _ATTEND, used, (keys.prefix, key, self.process), (ident,), last_key=keys.mark(key, ident), durable=b"done"
        )
        status = reply[0].decode()
        if status == "done":
            return Outcome(_word_of(reply[1]) or "done", reply[1])
        if status == "dead":
            return Outcome("dead", b"", reply[1], _texts(reply[2]))
        return Outcome(status)

    async def forward(self, source: int, target: int) -> int:
        # if we die between the two, another process reads the same sends, and `take` passes over what it has taken
        left, taken = self._keys[source], "0"
        used = (left.forward(target), left.forwards)
        for _ in range(MOST_FORWARDS):
            reply, _, _ = await self._run(_FORWARDS, used, (left.prefix, target), (taken, FORWARD_AT_ONCE))
            sends = reply[1]
            if not sends:
                return 0
            to = self._keys[target]
            there = (to.taken, to.lanes, to.fence, to.processes, to.alarms, to.era)
            reply, _, _ = await self._run(_TAKE, there, (to.prefix, source), tuple(sends), durable=True)
            taken = reply[1].decode()
        reply, _, _ = await self._run(_FORWARDS, used, (left.prefix, target), (taken, 1))
        return int(reply[2])

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
        _, token, fence, since, ident, stopped, why, ready, waiting, state, ttl, messages = reply
        return LaneView(
            key, token.decode(), fence, since, ident.decode(), stopped.decode(), why.decode(), ready.decode(),
            waiting, state, ttl, tuple(map(_message_view, messages)),
        )  # fmt: skip

    async def stop(self, key: str, how: Literal["paused", "parked"], why: str) -> None:
        keys = self._keys[self.partition_of(key)]
        await self._run(_STOP, keys.lane(key), (keys.prefix, key), (how, why))

    async def resume(self, key: str) -> bool:
        keys = self._keys[self.partition_of(key)]
        reply, _, attempts = await self._run(_RESUME, keys.lane(key), (keys.prefix, key), ())
        return reply[0] == b"resumed" or attempts > 1

    async def clear(self, key: str) -> int:
        keys = self._keys[self.partition_of(key)]
        note = keys.note(secrets.token_hex(8))
        reply, _, _ = await self._run(_CLEAR, keys.lane(key), (keys.prefix, key), (self._note_ms,), last_key=note)
        return int(reply[1])

    async def dead(self, limit: int) -> list[DeadView]:
        found: list[DeadView] = []
        for keys in self._keys:
            reply, _, _ = await self._run(_DEAD, (keys.dead, keys.letters), (keys.prefix,), (limit, ""))
            found += map(_dead_view, reply[1])
        return sorted(found, key=lambda letter: letter.died_ms)[:limit]

    async def dead_letter(self, key: str, ident: str) -> DeadView | None:
        keys = self._keys[self.partition_of(key)]
        varying = (1, f"{key}\0{ident}")
        reply, _, _ = await self._run(_DEAD, (keys.dead, keys.letters), (keys.prefix,), varying)
        return _dead_view(reply[1][0]) if reply[1] else None

    async def replay(self, key: str, ident: str) -> bool:
        return await self._bring_back(key, ident, "replay")

    async def drop(self, key: str, ident: str) -> bool:
        return await self._bring_back(key, ident, "drop")

    async def _bring_back(self, key: str, ident: str, how: str) -> bool:
        keys = self._keys[self.partition_of(key)]
        used = (keys.dead, keys.letters, keys.lanes, keys.fence, keys.processes, keys.alarms, keys.era)
        reply, _, attempts = await self._run(_REPLAY, used, (keys.prefix, key), (ident, how))
        return reply[0] == b"done" or attempts > 1


def _rank(priority: int) -> str:
    """As text, so that a higher priority comes first."""
    return f"{1000 - priority:04d}"


def _between_nuls(can: Sequence[str]) -> str:
    return "\0" + "".join(f"{handler}\0" for handler in can)


def _word_of(mark: bytes) -> Literal["superseded", "cancelled"] | None:
    """Why a message will never run; `None` if it has."""
    if mark[:1] != b"\0":
        return None
    return "superseded" if mark == b"\0superseded" else "cancelled"


def _messages(rows: Any) -> tuple[GivenMessage, ...]:
    return tuple(GivenMessage(ident.decode(), body, waited_ms) for ident, body, waited_ms in rows)


def _given(key: str, token: str, given: Any, sent_at: float, state: bytes | None = None) -> Given:
    fence, attempts, ttl_ms, limit_ms, messages, is_open = given
    return Given(key, token, fence, attempts, ttl_ms, limit_ms, _messages(messages), sent_at, state, bool(is_open))


def _ended(key: str, token: str, reply: Any, sent_at: float, attempts: int) -> Ended:
    if reply[0] == b"newer":
        return Ended("newer", None, attempts, _messages(reply[1]))
    given = _given(key, token, reply[1], sent_at) if len(reply) > 1 and reply[1] else None
    return Ended(reply[0].decode(), given, attempts)


def _texts(words: Any) -> tuple[str, ...]:
    return tuple(word.decode() for word in words)


def _message_view(row: Any) -> MessageView:
    ident, rank, attempts, age_ms, due_in_ms, is_inline, body, errors, place, lead = row
    handler, message_id = read_ident(ident.decode())
    priority = 1000 - int(rank)
    return MessageView(
        handler, message_id, priority, attempts, age_ms, due_in_ms, bool(is_inline), body, _texts(errors),
        place.decode(), read_ident(lead.decode())[1],
    )  # fmt: skip


def _dead_view(row: Any) -> DeadView:
    key, ident, body, attempts, accepted_ms, died_ms, errors = row
    handler, message_id = read_ident(ident.decode())
    return DeadView(key.decode(), handler, message_id, body, attempts, accepted_ms, died_ms, _texts(errors))
