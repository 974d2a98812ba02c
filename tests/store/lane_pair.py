"""A store and the model of its lanes, side by side: every call is made to both, and the answers must be the same."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Coroutine, Sequence
from typing import Any, Literal, TypeVar

from inturn.store.lane import Commit, Failure, Given, GivenMessage, Opening, Submission, ident_of
from inturn.store.limits import LETTER_LIVES_MS
from inturn.store.open import open_store
from inturn.store.protocol import Store
from inturn.store.redis.store import RedisStore
from inturn.store.views import LaneView
from tests.store.clock import RedisClock
from tests.store.lane_life import FOREVER, Lane, Message, process_of
from tests.store.lane_model import LaneModel
from tests.store.world import Inline

Answer = TypeVar("Answer")
_numbers = itertools.count(1)
TIMEOUT_S = 60.0
"""A busy machine is no answer that a model could give."""


class LanePair:
    """The clock of the store stands still; with `is_timed` it is the model's, and the test may move it."""

    def __init__(
        self, url: str, processes: int, keys: Sequence[str], is_timed: bool, letter_ms: int = LETTER_LIVES_MS
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.model = LaneModel()
        self.model.letter_ms = letter_ms
        self.keys = keys
        self.is_timed = is_timed
        self.turns: list[Given | Inline] = []
        """Every turn that was ever given."""
        self._unique = uuid.uuid4().hex[:8]
        self._namespace = f"test-{self._unique}"
        self._url = url.format(unique=self._unique)
        self._last_fence = 0
        self._clock = None if url.startswith("sqlite:") else RedisClock(url, self._namespace)
        self.stores = [self._new_process() for _ in range(processes)]

    def run(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        return self.loop.run_until_complete(call)

    def _new_process(self) -> Store:
        process = f"host-{next(_numbers)}:1:{self._unique}"
        wall = (lambda: 1_800_000_000_000_000 + self.model.now * 1000) if self._clock is None else None
        store = open_store(
            self._url,
            process,
            namespace=self._namespace,
            timeout_s=TIMEOUT_S,
            dead_letter_ttl=self.model.letter_ms / 1000,
            wall=wall,
        )
        if self._clock is not None:
            assert isinstance(store, RedisStore)
            self.run(self._clock.set_on(store))
        self.run(store.check())
        self.run(store.beat(0, []))
        self.model.beat(process)
        return store

    def new_token(self, slot: int) -> str:
        return f"{self.stores[slot].process}#{next(_numbers)}"

    def close(self) -> None:
        for store in self.stores:
            self.run(store.depart())
            self.run(store.close())
        if self._clock is not None:
            self.run(self._clock.close())
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()

    # -- the verbs -----------------------------------------------------------------------------------------------

    def submit(self, slot: int, message: Submission) -> None:
        answer = self.run(self.stores[slot].submit(message))
        assert (answer.status, answer.ahead) == self.model.submit(message)
        if answer.status == "duplicate":
            assert answer.result == self.model.mark(message.key, message.ident)
        if answer.status == "busy":
            lane = self.model.lanes[message.key]
            assert (answer.holder, answer.stopped) == (lane.token, lane.stopped)

    def begin(self, opening: Opening) -> None:
        """Only a living process asks."""
        store = next((store for store in self.stores if store.process == process_of(opening.token)), None)
        if store is None:
            return
        answer = self.run(store.begin(opening))
        assert (answer.status, answer.ahead) == self.model.begin(opening)
        if answer.status == "granted":
            assert answer.state == self.model.state(opening.name)
            self._began(Inline(opening.name, opening.token, answer.fence, opening.ident, answer.state))
        if answer.status == "duplicate":
            assert answer.result == self.model.mark(opening.name, opening.ident)
        if answer.status == "busy":
            lane = self.model.lanes[opening.name]
            assert (answer.holder, answer.stopped) == (lane.token, lane.stopped)

    def _began(self, turn: Given | Inline) -> None:
        lane = self.model.lanes[turn.key]
        assert (lane.token, lane.running) == (turn.token, turn.ident)
        if lane.fence == -1:
            # an inline turn got its fence when it was offered
            assert turn.fence > self._last_fence or isinstance(turn, Inline)
            lane.fence = turn.fence
            self.turns.append(turn)
        assert turn.fence == lane.fence
        self._last_fence = max(self._last_fence, turn.fence)

    def leave(self, slot: int, key: str, token: str, ident: str) -> None:
        answer = self.run(self.stores[slot].leave(key, token, ident))
        assert answer.status == self.model.leave(key, token, ident)

    def claim(self, call: str, can: Sequence[str], count: int) -> None:
        store = next((store for store in self.stores if store.process == process_of(call)), None)
        if store is None:
            return
        turns = self.run(store.claim(call, can, count)).turns
        keys = [turn.key for turn in turns]
        assert self.model.claim(store.process, call, can, count, keys) == keys
        for turn in turns:
            assert turn.state == self.model.state(turn.key)
            self._given(turn, self.model.lanes[turn.key].given)

    def _given(self, turn: Given | None, message: Message | None) -> None:
        if turn is None or message is None:
            assert (turn, message) == (None, None)
            return
        assert (turn.attempts, turn.ttl_ms, turn.limit_ms) == (message.attempts, message.ttl, message.limit)
        self._are(turn.messages, message.all)
        self._began(turn)

    def _are(self, given: Sequence[GivenMessage], expected: Sequence[Message]) -> None:
        found = [(message.ident, message.body) for message in given]
        assert found == [(message.ident, message.body) for message in expected]

    def unclaim(self, slot: int, call: str) -> None:
        assert self.run(self.stores[slot].unclaim(0, call)) == self.model.unclaim(call)

    def commit(self, slot: int, commit: Commit) -> None:
        ended = self.run(self.stores[slot].commit(commit))
        status, message, newer = self.model.commit(commit)
        assert ended.status == status
        self._are(ended.newer, newer)
        self._given(ended.next, message)

    def fail(self, slot: int, failure: Failure) -> None:
        ended = self.run(self.stores[slot].fail(failure))
        status, message = self.model.fail(failure)
        assert ended.status == status
        self._given(ended.next, message)

    def steer(self, slot: int, turn: Given, have: int) -> None:
        steered = self.run(self.stores[slot].steer(turn.key, turn.token, turn.fence, have))
        status, newer = self.model.steer(turn.key, turn.token, turn.fence, have)
        assert steered.status == status
        self._are(steered.messages, newer)

    def cancel(self, slot: int, key: str, ident: str, window_ms: int) -> None:
        answer = self.run(self.stores[slot].cancel(key, ident, window_ms))
        assert answer == self.model.cancel(key, ident, window_ms)

    def attend(self, slot: int, key: str, ident: str) -> None:
        store = self.stores[slot]
        outcome = self.run(store.attend(key, ident))
        assert outcome.status == self.model.attend(store.process, key, ident)
        if outcome.status == "done":
            assert outcome.result == self.model.mark(key, ident)
        if outcome.status == "dead":
            message, _ = self.model.letters[key, ident]
            assert (outcome.attempts, len(outcome.errors)) == (message.attempts, message.errors)

    def stop(self, slot: int, key: str) -> None:
        self.run(self.stores[slot].stop(key, "paused", "why"))
        self.model.stop(key)

    def resume(self, slot: int, key: str) -> None:
        assert self.run(self.stores[slot].resume(key)) == self.model.resume(key)

    def clear(self, slot: int, key: str) -> None:
        assert self.run(self.stores[slot].clear(key)) == self.model.clear(key)

    def replay(self, slot: int, key: str, ident: str) -> None:
        assert self.run(self.stores[slot].replay(key, ident)) == self.model.replay(key, ident)

    def drop(self, slot: int, key: str, ident: str) -> None:
        assert self.run(self.stores[slot].drop(key, ident)) == self.model.drop(key, ident)

    # -- processes -----------------------------------------------------------------------------------------------

    def beat(self, slot: int, is_noting: bool) -> None:
        store = self.stores[slot]
        told = [notice for notice in self.run(store.beat(0, [])).notices if notice.kind != "ready"]
        self.model.beat(store.process)
        inbox = self.model.inbox.setdefault(store.process, set())
        assert {(notice.kind, notice.token, notice.name) for notice in told} == inbox
        if is_noting:
            noted = [notice for notice in told if notice.kind == "lost"]
            self.run(store.beat(0, noted))
            inbox -= {(notice.kind, notice.token, notice.name) for notice in noted}

    def kill(self, slot: int, how: Literal["departs", "vanishes"]) -> None:
        """It is gone, although it holds something: at once, or it just does not beat any more. Another comes."""
        dead = self.stores[slot]
        self.stores[slot] = self._new_process()
        if how == "departs":
            self.run(dead.depart())
            self.model.depart(dead.process)
        self.run(dead.close())
        self.settle()

    def pass_time(self, ms: int) -> None:
        self.model.now += ms
        self.settle()

    def settle(self) -> None:
        """All who live beat: SQLite has looked at every lane after two beats, Redis after one, as they are so few."""
        for store in (*self.stores, self.stores[0]):
            self.run(store.beat(0, []))
            self.model.beat(store.process)

    # -- what is seen ----------------------------------------------------------------------------------------------

    def compare(self) -> None:
        store, model = self.stores[0], self.model

        async def look() -> Any:
            views = (store.lane(key, 100) for key in self.keys)
            return await asyncio.gather(store.lanes(10), store.dead(100), *views)

        listed, letters, *views = self.run(look())
        assert {row.key for row in listed.lanes} == set(model.lanes)
        assert listed.dead == len(model.letters)
        assert {(letter.key, ident_of(letter.handler, letter.id)) for letter in letters} == set(model.letters)
        for view in views:
            delayed = {message.ident for (key, _), message in model.later.items() if key == view.key}
            seen = [message for message in view.messages if message.place == "delayed"]
            assert {ident_of(message.handler, message.id) for message in seen} == delayed
            assert len(seen) == len(delayed)
            _, expires = model.states.get(view.key, (b"", 0))
            assert view.state == model.state(view.key)
            assert (view.state_ttl_ms > 0) == (model.now < expires < FOREVER)
            if (lane := model.lanes.get(view.key)) is None:
                assert (view.token, view.stopped, view.ready, len(view.messages)) == ("", "", "", len(delayed))
            else:
                self._compare_lane(view, lane)

    def _compare_lane(self, view: LaneView, lane: Lane) -> None:
        assert (view.token, view.ident, view.stopped) == (lane.token, lane.running, lane.stopped)
        assert lane.fence in (view.fence, -1)
        assert view.ready == self.model.ready.get(view.key, ("", 0))[0], (view.ready, self.model.ready, view)
        assert view.waiting == len(lane.mail)
        expected, messages = lane.every(), [seen for seen in view.messages if seen.place != "delayed"]
        assert [ident_of(seen.handler, seen.id) for seen in messages] == [message.ident for message in expected]
        for seen, message in zip(messages, expected, strict=True):
            assert (seen.attempts, len(seen.errors), seen.body) == (message.attempts, message.errors, message.body)
            assert (seen.is_inline, -seen.priority) == (message.caller != "", message.rank)
            assert (seen.due_in_ms > 0) == (message.after > self.model.now)

    def empty_the_lanes(self, can: Sequence[str]) -> None:
        """No lane is stuck: who has a turn ends it, and workers get all the rest, whose time comes if time passes."""
        store, views = self.stores[0], []
        for key in self.keys:
            self.run(store.resume(key))
        for _ in range(100):
            if self.is_timed:
                self.model.now += 1000
                self.run(store.beat(0, []))
            for row in self.run(store.lanes(10)).lanes:
                if row.token:
                    self.run(store.leave(row.key, row.token, row.ident))
            for turn in self.run(store.claim(self.new_token(0), can, 10)).turns:
                self.run(store.fail(Failure(turn.key, turn.token, turn.fence, "dead", error="e")))
            views = [self.run(store.lane(key, 1)) for key in self.keys]
            if not any(view.token or view.ready or (self.is_timed and view.messages) for view in views):
                break
        else:
            raise AssertionError(f"a lane is stuck: {views}")
        for key in self.keys:
            self.run(store.clear(key))
        assert self.run(store.lanes(10)).lanes == []
