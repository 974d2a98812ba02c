"""The sides of the comparison: our turn, and what people do without it. Each does the same work on the same state.

A turn is: duplicate check, exclusive lease, load the state (300 bytes of JSON), save it, mark, release. Peers get fair
conditions: redis-py with hiredis, a pool as large as they want, warm connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import Any
from uuid import uuid4

from pydantic_core import from_json, to_json
from redis.asyncio import Redis

from benchmarks.plan import Target
from inturn.app import InTurn
from inturn.errors import InTurnError, StoreUnavailable
from inturn.lanes.turn import Turn
from inturn.process.process import new_process
from inturn.store import clock
from inturn.store.lane import Commit, Opening, ident_of
from inturn.store.redis.link import Reply
from inturn.store.redis.scripts import Script, load
from inturn.store.redis.store import RedisStore

STATE_BYTES = 300
TakeTurn = Callable[[str, str], Awaitable[None]]
"""One turn: of a lane, for a message id."""
OpenSide = Callable[[Target, Sequence[str]], AbstractAsyncContextManager[TakeTurn]]
"""Opens a side with the lanes that will be used, which have their state then."""
LOCK_S, STATE_S, MARK_S = 10, 24 * 3600, 300
SENT = {"text": "On its way."}
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


def some_state() -> dict[str, Any]:
    """A short conversation. `n` counts the turns; it begins so high that its length stays the same."""
    said = [{"role": "user", "text": "Where is my order?"}, {"role": "assistant", "text": "On its way."}]
    state: dict[str, Any] = {"n": 100_000, "name": "Ada", "language": "en", "said": said, "notes": ""}
    state["notes"] = "." * (STATE_BYTES - len(to_json(state)))
    return state


def lanes(count: int) -> list[str]:
    return [f"lane:{number}" for number in range(count)]


class PlainPool(RedisStore):
    """Our scripts without our link: each call goes through a pool of redis-py, which reads and writes one at a time.

    The verbs build keys and arguments as they always do, so that what is compared cannot drift apart.
    """

    def __init__(self, client: Redis, url: str, process: str, namespace: str) -> None:
        super().__init__(url, process, namespace=namespace, timeout_s=60.0)  # it does not repeat what came too late
        self._client = client
        self._skew_s = 0.0

    async def load_scripts(self) -> None:
        for verb in ("lanes/begin", "lanes/commit"):
            await self._client.script_load(load(verb).source.decode())
        seconds, micros = await self._client.time()
        self._skew_s = seconds + micros / 1e6 - clock.now()

    async def _run(
        self,
        script: Script,
        keys: tuple[str, ...],
        fixed: tuple[Any, ...],
        varying: tuple[Any, ...],
        *,
        granting: str | None = None,
        pushes: bool = True,
        last_key: str | None = None,
        durable: bool | bytes = False,
        once: bool = False,
        unsent: type[StoreUnavailable] = StoreUnavailable,
    ) -> tuple[Reply, float, int]:
        sent_at = clock.now()
        deadline_ms = int((sent_at + self.timeout_s + self._skew_s) * 1000)
        used = keys if last_key is None else (*keys, last_key)
        reply = await self._client.evalsha(script.sha.decode(), len(used), *used, *fixed, *varying, deadline_ms)
        return reply, sent_at, 1


@asynccontextmanager
async def inturn(target: Target, lanes: Sequence[str]) -> AsyncIterator[TakeTurn]:
    async with InTurn(target.url, namespace=target.prefix) as app:

        async def take_turn(key: str, message_id: str) -> None:
            async with app.turn(key, message_id=message_id, state=dict) as turn:
                turn.state["n"] += 1

        await _begin(app, lanes)
        yield take_turn


@asynccontextmanager
async def inturn_with_send(target: Target, lanes: Sequence[str]) -> AsyncIterator[TakeTurn]:
    """Sends to the default lane. The message stays there: a worker would take its share of the machine, too."""
    async with _sending(target, lanes) as app:

        async def take_turn(key: str, message_id: str) -> None:
            async with app.turn(key, message_id=message_id, state=dict) as turn:
                turn.state["n"] += 1
                turn.send("deliver", SENT)

        yield take_turn


@asynccontextmanager
async def inturn_with_send_to_idle_lane(target: Target, lanes: Sequence[str]) -> AsyncIterator[TakeTurn]:
    """As if all earlier sends were delivered: each goes to an idle lane, which the store must make ready."""
    async with _sending(target, lanes) as app:

        async def take_turn(key: str, message_id: str) -> None:
            async with app.turn(key, message_id=message_id, state=dict) as turn:
                turn.state["n"] += 1
                turn.send("deliver", SENT, key=f"chat:{message_id}")

        yield take_turn


@asynccontextmanager
async def _sending(target: Target, lanes: Sequence[str]) -> AsyncIterator[InTurn]:
    async with InTurn(target.url, namespace=f"{target.prefix}-sends-{uuid4().hex[:4]}") as app:

        @app.handler("deliver")
        async def deliver(turn: Turn[None]) -> None:
            raise AssertionError("no worker runs here: what is sent stays in its lane")

        await _begin(app, lanes)
        yield app


async def _begin(app: InTurn, lanes: Sequence[str]) -> None:
    for key in lanes:
        async with app.turn(key, state=dict, initial=some_state):
            pass


@asynccontextmanager
async def recipe(target: Target, lanes: Sequence[str]) -> AsyncIterator[TakeTurn]:
    """The common recipe, six calls: EXISTS mark, SET lock NX EX, GET, SET, SET mark EX, compare-and-delete."""
    async with Redis.from_url(target.url) as client:
        prefix = f"{target.prefix}-recipe"
        release = client.register_script(RELEASE)

        async def take_turn(key: str, message_id: str) -> None:
            lock, state_key, mark = f"{prefix}:lock:{key}", f"{prefix}:state:{key}", f"{prefix}:mark:{key}:{message_id}"
            token = uuid4().hex
            if await client.exists(mark):
                raise InTurnError(f"{message_id} is no duplicate, but the recipe says so")
            if not await client.set(lock, token, nx=True, ex=LOCK_S):
                raise InTurnError(f"{lock} is nobody else's, but it is taken")
            state = from_json(await client.get(state_key) or b"")
            state["n"] += 1
            await client.set(state_key, to_json(state), ex=STATE_S)
            await client.set(mark, b"null", ex=MARK_S)
            await release(keys=[lock], args=[token])

        for key in lanes:
            await client.set(f"{prefix}:state:{key}", to_json(some_state()), ex=STATE_S)
        await asyncio.gather(*(client.ping() for _ in lanes))
        yield take_turn


@asynccontextmanager
async def plain_pool(target: Target, lanes: Sequence[str]) -> AsyncIterator[TakeTurn]:
    """Our own two scripts, with the same keys and arguments, through redis-py's pool instead of our link."""
    async with Redis.from_url(target.url) as client:
        process = new_process()
        store = PlainPool(client, target.url, process, f"{target.prefix}-pool")
        numbers = count(1)

        async def take_turn(key: str, message_id: str) -> None:
            token, ident = f"{process}#{next(numbers)}", ident_of("", message_id)
            opening = Opening(
                name=key, token=token, owner=token, ident=ident, has_id=True, ttl_ms=LOCK_S * 1000, limit_ms=600_000,
                keep_ms=STATE_S * 1000, busy="wait", cap=10_000,
            )  # fmt: skip
            begun = await store.begin(opening)
            if begun.status != "granted":
                raise InTurnError(f"{key} is nobody else's, but begin answers {begun.status}")
            version, _, written = (begun.state or b"0 " + to_json(some_state())).partition(b" ")
            state = from_json(written)
            state["n"] += 1
            saved = b"%d " % (int(version) + 1) + to_json(state)
            commit = Commit(
                key=key, token=token, fence=begun.fence, ident=ident, is_submitted=False, state_op="set", state=saved,
                keep_ms=STATE_S * 1000, window_ms=MARK_S * 1000, result=b"null",
            )  # fmt: skip
            ended = await store.commit(commit)
            if ended.status != "committed":
                raise InTurnError(f"{key} is ours, but commit answers {ended.status}")

        await store.load_scripts()
        await asyncio.gather(*(take_turn(key, f"first of {process}") for key in lanes))
        yield take_turn
