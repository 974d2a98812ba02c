"""Whatever is asked in whatever order, a store answers as the model does, and shows the same holders and queues."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from inturn.store.open import open_store
from inturn.store.protocol import HowToExtend, Notice, Request, Store
from inturn.store.sqlite import locks
from tests.store.exploration import SQLITE, explore, is_found_out
from tests.store.lock_model import Model

pytestmark = pytest.mark.timeout(300)  # they compute, so a busy machine makes them slow

CAPACITIES = {"mutex": 1, "semaphore": 3, "read-write": 2**20}
NAMES = st.sampled_from(sorted(CAPACITIES))
WEIGHTS = {"mutex": [1], "semaphore": [1, 2, 3], "read-write": [1, 2**20]}
PROCESSES = st.integers(0, 2)

Answer = TypeVar("Answer")


class Machine(RuleBasedStateMachine):
    """Three processes, three names. Nothing in it lasts long enough for any lease or unconfirmed grant to end."""

    url: ClassVar[str]
    numbers: ClassVar[Any] = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self.requests: list[Request] = []
        self.stores: list[Store] = []
        self.last_number = 0

    def run(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        return self.loop.run_until_complete(call)

    @initialize()
    def open(self) -> None:
        unique = uuid.uuid4().hex[:8]
        for number in range(3):
            url = self.url.format(unique=unique)
            store = open_store(url, f"host-{number}:1:{unique}", namespace=f"test-{unique}", timeout_s=60)
            self.stores.append(store)
            self.run(store.check())
            self.run(store.beat(0, []))

    def teardown(self) -> None:
        for request in self.requests:
            self.run(self.store_of(request).release(request.name, request.token))
        for store in self.stores:
            assert self.run(store.names(10)) == []
            self.run(store.depart())
            self.run(store.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def store_of(self, request: Request) -> Store:
        return next(store for store in self.stores if request.token.startswith(store.process))

    # -- the verbs ---------------------------------------------------------------------------------------------

    @rule(
        process=PROCESSES,
        name=NAMES,
        weight=st.integers(0, 2),
        owner=st.sampled_from(["me", "you", ""]),
        priority=st.integers(-1, 1),
        is_waiting=st.sampled_from([True, True, False]),
        is_mistaken=st.sampled_from([False] * 9 + [True]),
        life_ms=st.sampled_from([0, 60_000]),
    )
    def acquire(
        self,
        process: int,
        name: str,
        weight: int,
        owner: str,
        priority: int,
        is_waiting: bool,
        is_mistaken: bool,
        life_ms: int,
    ) -> None:
        weights = WEIGHTS[name]
        token = f"{self.stores[process].process}#{next(self.numbers)}"
        request = Request(
            name,
            token,
            owner or token,
            CAPACITIES[name] + is_mistaken,
            weights[weight % len(weights)],
            30_000,
            life_ms,
            priority,
            is_waiting,
        )
        self.requests.append(request)
        self.ask(request)

    @precondition(lambda self: self.requests)
    @rule(which=st.integers(0, 1000))
    def acquire_again(self, which: int) -> None:
        self.ask(self.requests[which % len(self.requests)])

    def ask(self, request: Request) -> None:
        is_new = self.holders(request.name).count(request.token) == 0
        answer = self.run(self.store_of(request).acquire(request))
        assert answer.status == self.model.acquire(request)
        if answer.status == "granted":
            assert answer.fence >= answer.arrival > 0
            assert (answer.life_left_ms > 0) == (request.life_ms > 0)
            if is_new:
                assert answer.fence == answer.arrival > self.last_number
        if answer.status == "mismatch":
            assert answer.other == str(self.model.locks[request.name].capacity)
        if answer.status in ("busy", "own"):
            assert answer.other in self.model.locks[request.name].held
        self.last_number = max(self.last_number, answer.fence, answer.arrival)

    @precondition(lambda self: self.requests)
    @rule(which=st.integers(0, 1000))
    def release(self, which: int) -> None:
        request = self.requests[which % len(self.requests)]
        answer = self.run(self.store_of(request).release(request.name, request.token))
        assert answer.status == self.model.release(request)

    @precondition(lambda self: self.requests)
    @rule(which=st.integers(0, 1000), how=st.sampled_from(["add", "set", "at_least"]), ms=st.integers(60_000, 90_000))
    def extend(self, which: int, how: HowToExtend, ms: int) -> None:
        request = self.requests[which % len(self.requests)]
        answer = self.run(self.store_of(request).extend(request.name, request.token, how, ms))
        assert answer.status == self.model.extend(request)
        if answer.status == "extended" and request.life_ms:
            assert answer.life_left_ms == ms if how == "set" else answer.life_left_ms >= ms

    @rule(process=PROCESSES, name=NAMES)
    def force_release(self, process: int, name: str) -> None:
        assert self.run(self.stores[process].force_release(name)) == self.model.force_release(name)

    @rule(process=PROCESSES, is_noting=st.booleans())
    def beat(self, process: int, is_noting: bool) -> None:
        store = self.stores[process]
        told = self.run(store.beat(0, [])).notices
        inbox = self.model.inbox.setdefault(store.process, set())
        assert {(notice.kind, notice.token, notice.name) for notice in told} == inbox
        if is_noting:
            noted = [notice for notice in told if notice.kind == "lost"]
            inbox -= {(notice.kind, notice.token, notice.name) for notice in noted}
            rest: list[Notice] = self.run(store.beat(0, noted)).notices
            assert {(notice.kind, notice.token, notice.name) for notice in rest} == inbox

    # -- what is seen ------------------------------------------------------------------------------------------

    def holders(self, name: str) -> list[str]:
        lock = self.model.locks.get(name)
        return [token for token, _ in sorted(lock.held.items(), key=lambda item: item[1].order)] if lock else []

    @invariant()
    def looks_like_the_model(self) -> None:
        if not self.stores:
            return
        store = self.stores[0]

        async def look() -> Any:
            return await asyncio.gather(store.names(10), *map(store.inspect, CAPACITIES))

        names, *views = self.run(look())
        assert names == sorted(self.model.locks)
        for name, view in zip(CAPACITIES, views, strict=True):
            lock = self.model.locks.get(name)
            if view is None or lock is None:
                assert (view, lock) == (None, None)
                continue
            assert view.capacity == lock.capacity
            assert [holder.token for holder in view.holders] == self.holders(name)
            assert [waiter.token for waiter in view.waiters] == [request.token for request in lock.in_order()]
            assert sum(holder.weight for holder in view.holders) <= view.capacity


@pytest.mark.random
def test_sqlite_answers_as_the_model_does(tmp_path: Path) -> None:
    explore(Machine, SQLITE.format(folder=tmp_path), 100)


@pytest.mark.random
def test_redis_answers_as_the_model_does(redis_url: str) -> None:
    # no shrinking: each try costs connections, and SQLite shows the same sequence small
    explore(Machine, redis_url, 100, phases=[Phase.reuse, Phase.generate])


def test_a_store_that_lets_newcomers_barge_in_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine itself is put to the test, once."""
    monkeypatch.setattr(locks, "has_ahead", lambda tx, name, rank: False)
    is_found_out(tmp_path, Machine, 400)
