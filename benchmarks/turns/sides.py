"""The sides of the comparison: our turn, and what people do without it. Each does the same work on the same state.

A turn is: duplicate check, exclusive lease, load the state, save it, mark, release. Peers get fair conditions:
redis-py with hiredis, a pool as large as they want, warm connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from uuid import uuid4

from pydantic_core import from_json, to_json
from redis.asyncio import Redis

from inturn.app import InTurn
from inturn.bench.place import Place
from inturn.bench.turns.plain_pool import PlainPool
from inturn.bench.turns.state import some_state
from inturn.errors import InTurnError
from inturn.lanes.turn import Turn
from inturn.process.identity import new_process
from inturn.store.lane import Commit, Opening, ident_of

TakeTurn = Callable[[str, str], Awaitable[None]]
"""One turn: of a lane, for a message id."""
OpenSide = Callable[[Place, Sequence[str]], AbstractAsyncContextManager[TakeTurn]]
"""Opens a side with the lanes that will be used, which have their state then."""

LOCK_S, STATE_S, MARK_S = 10, 24 * 3600, 300
SENT = {"text": "On its way."}
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


@asynccontextmanager
async def inturn(place: Place, lanes: Sequence[str]) -> AsyncIterator[TakeTurn]:
    async with InTurn(place.url, namespace=place.prefix) as app:

        async def take_turn(key: str, message_id: str) -> None:
            async with app.turn(key, message_id=message_id, state=dict) as turn:
                turn.state["n"] += 1

        await _begin(app, lanes)
        yield take_turn


@asynccontextmanager
async def inturn_with_send(place: Place, lanes: Sequence[str]) -> AsyncIterator[TakeTurn]:
    """To the lane that a send goes to by default. There it stays: a worker would take its share of the machine, too."""
    async with _sending(place, lanes) as app:

        async def take_turn(key: str, message_id: str) -> None:
            async with app.turn(key, message_id=message_id, state=dict) as turn:
                turn.state["n"] += 1
                turn.send("deliver", SENT)

        yield take_turn


@asynccontextmanager
async def inturn_with_send_to_idle_lane(place: Place, lanes: Sequence[str]) -> AsyncIterator[TakeTurn]:
    """As if all that was sent before had been delivered: the store has to make the lane ready, and wake a worker."""
    async with _sending(place, lanes) as app:

        async def take_turn(key: str, message_id: str) -> None:
            async with app.turn(key, message_id=message_id, state=dict) as turn:
                turn.state["n"] += 1
                turn.send("deliver", SENT, key=f"chat:{message_id}")

        yield take_turn


@asynccontextmanager
async def _sending(place: Place, lanes: Sequence[str]) -> AsyncIterator[InTurn]:
    async with InTurn(place.url, namespace=f"{place.prefix}-sends-{uuid4().hex[:4]}") as app:

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
async def recipe(place: Place, lanes: Sequence[str]) -> AsyncIterator[TakeTurn]:
    """The common recipe, six calls: EXISTS mark, SET lock NX EX, GET, SET, SET mark EX, compare-and-delete."""
    async with Redis.from_url(place.url) as client:
        prefix = f"{place.prefix}-recipe"
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
async def plain_pool(place: Place, lanes: Sequence[str]) -> AsyncIterator[TakeTurn]:
    """Our own two scripts, with the same keys and arguments, through redis-py's pool instead of our link."""
    async with Redis.from_url(place.url) as client:
        process = new_process()
        store = PlainPool(client, place.url, process, f"{place.prefix}-pool")
        numbers = count(1)

        async def take_turn(key: str, message_id: str) -> None:
            token, ident = f"{process}#{next(numbers)}", ident_of("", message_id)
            begun = await store.begin(
                Opening(key, token, token, ident, True, LOCK_S * 1000, 600_000, STATE_S * 1000, "wait", 10_000)
            )
            if begun.status != "granted":
                raise InTurnError(f"{key} is nobody else's, but begin answers {begun.status}")
            version, _, written = (begun.state or b"0 " + to_json(some_state())).partition(b" ")
            state = from_json(written)
            state["n"] += 1
            saved = b"%d " % (int(version) + 1) + to_json(state)
            ended = await store.commit(
                Commit(key, token, begun.fence, ident, False, "set", saved, STATE_S * 1000, MARK_S * 1000, b"null")
            )
            if ended.status != "committed":
                raise InTurnError(f"{key} is ours, but commit answers {ended.status}")

        await store.load_scripts()
        await asyncio.gather(*(take_turn(key, f"first of {process}") for key in lanes))
        yield take_turn
