"""Where eviction is allowed any key may vanish at any time: no script fails, and only what the key belonged to suffers.

Each test sets up locks or lanes in every way that they can be in, deletes one key, and then does everything that can be
done with them, and with others that have lost nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio

from inturn import InTurn
from inturn.errors import LockError
from inturn.store.lane import Given, Opening
from inturn.store.limits import PLACE_LIVES_MS
from inturn.store.protocol import Released, Request, Wait
from tests.redis_keys import keys_like
from tests.store.policies import INTERRUPT, LATEST, MERGE, ROLLBACK, cancel, quiet, steer
from tests.store.world import TTL_MS, WORK, Inline, Peer, World, send_to, work
from tests.waiting import WITHIN_S, until, until_waiters

OF_ALL = {
    "fence", "era", "processes", "names", "waits", "due", "lanes", "alarms", "lates", "later", "ready", "idle",
    "handlers", "workers", "dead", "letters", "clock", "partitions", "grouped",
}  # fmt: skip
"""What all names share: without it others suffer too, but nothing fails."""


class Scene:
    """Locks and lanes in every way. What was asked for and given is kept, so that it can be ended."""

    def __init__(self, world: World, a: Peer, b: Peer, plain: str) -> None:
        self.world, self.a, self.b, self.plain = world, a, b, plain
        self.requests: list[tuple[Peer, Request]] = []
        self.turns: list[tuple[Peer, Given]] = []
        self.inline: list[tuple[Peer, Inline]] = []
        self.openings: list[tuple[Peer, Opening]] = []

    async def locks(self) -> None:
        """Held and waited for by two processes; with permits; with a fixed life; one that was lost."""
        a, b = self.a, self.b
        for name, how in (("mutex", {}), ("permits", {"capacity": 2}), ("fixed", {"ttl_ms": 0, "life_ms": 60_000})):
            self.requests.append((a, await a.hold(name, **how)))
            if name == "permits":
                self.requests.append((b, await b.hold(name, **how)))
            for peer in (a, b, a):
                self.requests.append((peer, await peer.wait_for(name, **how)))
        self.requests.append((a, await a.hold("alone")))
        self.requests.append((a, await a.hold("lost")))
        await b.store.force_release("lost")
        first = await a.hold("passed")
        self.requests.append((b, await b.wait_for("passed")))
        await a.release(first)  # granted to b, who has not confirmed it
        waiting = self.requests[1][1]
        await a.store.report(0, [Wait("turn", waiting.token, "mutex")])

    async def lanes(self) -> None:
        """Running, ready, waiting, delayed, late, in a burst, inline, yielding, sharing, awaited, parked, dead."""
        a, b = self.a, self.b
        await self._run("burst", "m1", "m2", "m3", rule=MERGE)
        await a.put("burst", "m4", rule=MERGE)
        await self._run("plain", "m1")
        await a.put("plain", "m2", "m3")
        await self._run("cut", "m1", rule=INTERRUPT)
        await a.put("cut", "m2", rule=INTERRUPT)
        await self._run("thrown", "m1", "m2", rule=MERGE)
        await self._run("latest", "m1", rule=LATEST)
        await a.put("latest", "m2", rule=LATEST)
        await self._run("shared", "m1", shares=self.plain)
        await a.attend("plain", work("m1"))
        await a.attend("plain", work("m2"))
        self.inline.append((a, await a.begin("inline", "i")))
        for peer in (a, b):
            self.openings.append((peer, await peer.queue_up("inline")))
        await b.attend("inline", "\0i")
        await self._run("offered", "m1")
        self.openings.append((b, await b.queue_up("offered")))
        await a.done(self.turns.pop()[1], state=b"s", sends=[send_to("sent", "s", delay_ms=60_000)])
        await a.put("parked", "m1", "m2")
        await a.fail(await self._claim("parked"), "park")
        await a.put("dead", "m1")
        await a.fail(await self._claim("dead"), "dead")
        await a.submit("late", "m1", late_ms=1)
        await a.submit("delayed", "m1", delay_ms=1)
        await a.submit("delayed", "m2", delay_ms=60_000)
        await a.put("quiet", "m1", rule=quiet(60_000))
        await a.put("ready", "m1", "m2")
        for key in ("one of a group", "another of it"):
            await a.put(key, "m1", "m2", group="g")
        await self.world.pass_time(10)

    async def _claim(self, key: str) -> Given:
        turn = await self.a.store.claim_lane(self.a.new_token(), [WORK], key)
        assert turn is not None
        return turn

    async def _run(self, key: str, *message_ids: str, **how: Any) -> None:
        await self.a.put(key, *message_ids, **how)
        self.turns.append((self.a, await self._claim(key)))

    async def go_on(self) -> None:
        """Everything that can be done: nothing of it may fail."""
        for act in ACTS:
            await act(self)
        for _ in range(3):
            await self.beat()
            await self.world.pass_time(max(TTL_MS, PLACE_LIVES_MS) + 1)

    async def beat(self) -> None:
        await self.a.beat()
        await self.b.beat()

    def names(self) -> list[str]:
        return sorted({request.name for _, request in self.requests})

    async def look_at_locks(self) -> None:
        await self.b.store.names(100)
        await self.b.store.edges(sorted({request.owner for _, request in self.requests} | {"turn"}))
        for name in self.names():
            await self.b.store.inspect(name)

    async def ask_again(self) -> None:
        for peer, request in self.requests:
            await peer.acquire(request)
        for peer, opening in self.openings:
            await peer.store.begin(opening)

    async def extend(self) -> None:
        for peer, request in self.requests:
            await peer.store.extend(request.name, request.token, "add", 1000)

    async def release(self) -> None:
        for peer, request in self.requests:
            await peer.store.release(request.name, request.token, 1)
        for peer, opening in self.openings:
            await peer.leave(opening)

    async def force_release(self) -> None:
        for name in self.names():
            await self.b.store.force_release(name)

    async def look_at_lanes(self) -> None:
        for key in ("burst", "plain", "inline", "parked", "ready", "delayed"):
            await self.b.store.lane(key, 100)
            await self.b.attend(key, work("m2"))
        await self.b.store.lanes(100)
        await self.b.store.dead(100)
        for peer, turn in self.turns:
            await peer.store.confirm(turn.key, turn.token)

    async def submit(self) -> None:
        for key, rule in (("cut", INTERRUPT), ("thrown", ROLLBACK), ("latest", LATEST), ("burst", MERGE)):
            await self.a.submit(key, "m9", rule=rule)
        await self.a.submit("ready", "m9", busy="reject")
        await cancel(self.b, "ready", "m2")

    async def claim_and_unclaim(self) -> None:
        call, calls = self.b.new_token(), {turn.token.rpartition(".")[0] for _, turn in self.turns}
        await self.b.claim(call=call)
        await self.b.claim(call=call)
        for given in (call, *sorted(calls)):
            await self.b.store.unclaim(0, given)

    async def steer(self) -> None:
        for peer, turn in self.turns:
            await steer(peer, turn)

    async def commit(self) -> None:
        for peer, turn in self.turns:
            await peer.commit(turn, state=b"s", unless_newer=True, next_token=peer.new_token())
            await peer.commit(turn, state=b"s")
        for peer, inline in self.inline:
            await peer.commit(inline, state=b"s", sends=[send_to("ready", "s9")])

    async def fail(self) -> None:
        for number, (peer, turn) in enumerate(self.turns):
            how = ("split", "retry", "park", "dead", "back")[number % 5]
            sends = [send_to("ready", "s8"), send_to(turn.key, "s8")] if how == "dead" else []
            await peer.fail(turn, how, next_token=peer.new_token(), sends=sends)  # type: ignore[arg-type]

    async def bring_back(self) -> None:
        await self.b.store.resume("parked")
        await self.b.store.replay("dead", work("m1"))

    async def clear(self) -> None:
        for key in ("plain", "inline", "parked"):
            await self.b.store.clear(key)

    async def others_are_well(self) -> None:
        a, b = self.a, self.b
        held = await a.hold("other")
        waiting = await b.wait_for("other")
        assert await a.release(held) == Released("released")
        await until(lambda: b.told("granted", waiting))
        assert (await b.acquire(waiting)).status == "granted"
        assert await b.release(waiting) == Released("released")
        await a.put("other", "m", handler="well")
        turn = await b.claim_one("well")
        assert (await b.commit(turn, state=b"well")).status == "committed"
        assert (await a.attend("other", turn.ident)).status == "done"
        assert await a.state("other") == b"well"


Act = Callable[[Scene], Awaitable[None]]
ACTS: list[Act] = [
    Scene.beat, Scene.look_at_locks, Scene.ask_again, Scene.extend, Scene.look_at_lanes, Scene.submit, Scene.steer,
    Scene.claim_and_unclaim, Scene.commit, Scene.fail, Scene.release, Scene.force_release, Scene.bring_back,
    Scene.clear,
]  # fmt: skip


@asynccontextmanager
async def scene_of(url: str, build: Act) -> AsyncIterator[tuple[Scene, str]]:
    namespace = f"test-{uuid.uuid4().hex[:12]}"
    world = World(url, namespace)
    scene = Scene(world, await world.peer(), await world.peer(), f"plain:{namespace}")
    try:
        await build(scene)
        yield scene, namespace
    finally:
        await world.close()


async def keys_of(client: Any, namespace: str) -> list[str]:
    """Without the namespace."""
    prefix = f"{namespace}:{{0}}:"
    return sorted({key.removeprefix(prefix) for key in await keys_like(client, f"{prefix}*")} - {"clock"})


def kind_of(key: str) -> str:
    return key.partition(":")[0]


@pytest.mark.parametrize("build", [Scene.locks, Scene.lanes])
async def test_no_script_fails_for_want_of_a_key(redis_url: str, build: Act) -> None:
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        async with scene_of(redis_url, build) as (scene, namespace):
            keys = await keys_of(client, namespace)
            await scene.go_on()
            await scene.others_are_well()
        for key in keys:
            async with scene_of(redis_url, build) as (scene, namespace):
                if not await client.delete(f"{namespace}:{{0}}:{key}") and kind_of(key) not in ("note", "inbox"):
                    raise AssertionError(f"{key!r} was not there")
                try:
                    if kind_of(key) not in OF_ALL:
                        await scene.others_are_well()
                    await scene.go_on()
                    await scene.others_are_well()
                except Exception as error:
                    error.add_note(f"without {key!r}")
                    raise


@pytest.mark.parametrize("act", ACTS)
async def test_no_script_is_the_first_to_fail_when_all_keys_of_a_kind_are_gone(redis_url: str, act: Act) -> None:
    """Another script may mend what is missing: so each is the first to find out."""
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        for build in (Scene.locks, Scene.lanes):
            async with scene_of(redis_url, build) as (_, namespace):
                kinds = {kind_of(key) for key in await keys_of(client, namespace)}
            for kind in sorted(kinds - OF_ALL | {"lanes"}):
                async with scene_of(redis_url, build) as (scene, namespace):
                    gone = [key for key in await keys_of(client, namespace) if kind_of(key) == kind]
                    await client.delete("nothing", *(f"{namespace}:{{0}}:{key}" for key in gone))
                    try:
                        await act(scene)
                    except Exception as error:
                        error.add_note(f"without {gone}")
                        raise


async def test_every_kind_of_key_is_tried(redis_url: str) -> None:
    """Or the test above would say nothing of it."""
    found: set[str] = set()
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        for build in (Scene.locks, Scene.lanes):
            async with scene_of(redis_url, build) as (_, namespace):
                found |= {kind_of(key) for key in await keys_of(client, namespace)}
    only_between_partitions = {"forward", "forwards", "taken"}
    only_while_a_worker_is_idle = {"idle", "workers"}
    kinds = OF_ALL | {
        "lock",
        "queue",
        "places",
        "lost",
        "inbox",
        "awaits",
        "mail",
        "msgs",
        "state",
        "mark",
        "note",
        "shared",
        "delayed",
    }
    assert kinds - {"clock"} - only_while_a_worker_is_idle <= found
    assert found <= kinds | only_between_partitions


@pytest.mark.parametrize("kind", ["places", "queue", "lock"])
async def test_a_waiter_whose_place_vanished_asks_again_and_gets_the_lock(
    redis_url: str, namespace: str, kind: str
) -> None:
    async with (
        redis.asyncio.Redis.from_url(redis_url) as client,
        InTurn(redis_url, namespace=namespace) as app,
        InTurn(redis_url, namespace=namespace) as other,
    ):
        held = app.lock("n", ttl=6)  # without its queue the lock is looked at when this could have ended
        assert await held.acquire()
        waiting = asyncio.create_task(other.lock("n", wait=60).acquire())
        await until_waiters(app, "n", 1)
        assert await client.delete(f"{namespace}:{{0}}:{kind}:n") == 1
        with contextlib.suppress(LockError):  # without the lock's own key it is lost
            await held.release()
        async with asyncio.timeout(WITHIN_S):
            assert await waiting
