"""One thread per process that keeps every lease and every waiting place alive, and watches their deadlines.

It has an event loop and a connection of its own, so that the application loses nothing when its loop is blocked. It
never touches a task: what has to happen is posted to the loop concerned. An error is logged, and the thread goes on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable

from inturn import metrics
from inturn.errors import InTurnError, StoreUnavailable
from inturn.process.registry import Held, Registry, post
from inturn.store import clock
from inturn.store.limits import BEAT_S, PLACE_LIVES_MS
from inturn.store.protocol import Beat, Notice

log = logging.getLogger("inturn.heartbeat")

REST_AFTER_S = 5.0
"""A process that holds nothing and waits for nothing stops beating after this time."""

AT_ONCE = 500
"""How many calls the heartbeat has under way at once."""

OVERDUE = "its time is up"
_NEVER = float("inf")

Chore = Callable[[], Awaitable[None]]


def margin_s(ttl_s: float) -> float:
    """How long before its end a lease counts as over. Its body needs that time to stop."""
    return min(max(ttl_s * 0.1, 0.25), ttl_s / 2)


class Heartbeat:
    def __init__(self, registry: Registry) -> None:
        self.is_resting = False
        self.chores: list[Chore] = []
        """What else is done about once a second while someone waits."""
        self._registry = registry
        self._store = registry.store
        self._confirmed_at = [0.0] * self._store.partitions
        self._noted: list[list[Notice]] = [[] for _ in range(self._store.partitions)]
        self._eras = [0] * self._store.partitions
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._watch_woken = asyncio.Event()
        self._looks_at = 0.0
        self._is_stopping = False
        self._busy_at = 0.0
        self._due_in_s = BEAT_S
        self._beats_every_s = BEAT_S
        self._must_confirm = False
        self._bringing: dict[tuple[int, int], asyncio.Task[int]] = {}
        self._beating: dict[int, asyncio.Task[None]] = {}
        """By partition. A slow one gets no further beat before it has answered."""
        self._aside: asyncio.Task[None] | None = None
        """The other duties. They may wait for a partition that is away, and must not hold up a beat."""

    def ensure(self) -> None:
        """Make sure that it beats. Called on every change of the registry, so it is cheap if there is nothing to do."""
        if self._thread is None:
            self._start()
        elif self.is_resting:
            self._wake()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._registry.is_closed:
                self._is_stopping = False
                thread = threading.Thread(target=self._main, name="inturn-heartbeat", daemon=True)
                thread.start()
                self._thread = thread

    def watch_over(self, held: Held) -> bool:
        """A lease was added: look sooner if it could end before the next look. `False`: it has already ended."""
        deadline = self.deadline_of(held)
        if deadline < self._looks_at or 0.0 < held.ttl_s < 4 * self._beats_every_s:
            self._wake()
        return deadline > clock.now()

    def deadline_of(self, held: Held) -> float:
        """When its body must have stopped, counted from when the last confirmed renewal was *sent*."""
        deadline = _NEVER
        if held.ttl_s:
            deadline = self.confirmed_at(held) + held.ttl_s - margin_s(held.ttl_s)
        if held.fixed_until:
            deadline = min(deadline, held.fixed_until)
        return deadline

    def confirmed_at(self, held: Held) -> float:
        """When the last call for it was sent that the store has answered."""
        return max(held.confirmed_at, self._confirmed_at[held.partition])

    def stop(self) -> None:
        """End the thread and wait for it."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._is_stopping = True
            self._wake()
            thread.join(timeout=self._store.timeout_s * 2)

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None:
            post(loop, self._wake_both)

    def _wake_both(self) -> None:
        self._woken.set()
        self._watch_woken.set()

    def confirm_soon(self) -> None:
        """A connection is back, perhaps to a server that was restored from an older copy of its data."""
        self._must_confirm = True

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except Exception:
            log.exception("the heartbeat thread failed; the next lock or turn starts a new one")
        finally:
            with self._starting:
                if self._thread is threading.current_thread():
                    self._thread = None

    async def _run(self) -> None:
        self._woken, self._watch_woken = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        watching = asyncio.create_task(self._watch())
        try:
            while not self._is_stopping:
                try:
                    await self._round()
                except InTurnError as error:
                    log.warning("beat failed: %s", error)
                    await self._sleep(self._woken, self._interval_s() / 2)
                except Exception:
                    # whatever it was: without a heartbeat every lease of the process would end
                    log.exception("beat failed")
                    await self._sleep(self._woken, self._interval_s())
        finally:
            tasks = [watching, *self._bringing.values(), *self._beating.values()]
            if self._aside is not None:
                tasks.append(self._aside)
            self._beating, self._aside = {}, None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._store.close()

    async def _round(self) -> None:
        registry = self._registry
        if not registry.is_empty():
            self._busy_at = clock.now()
        elif clock.now() - self._busy_at > REST_AFTER_S:
            self.is_resting = True
            if registry.is_empty() and not self._is_stopping:  # checked again, now that `is_resting` is set
                await self._sleep(self._woken, None)
            self.is_resting = False
            return
        started_at = clock.now()
        self._due_in_s = BEAT_S
        for partition in range(self._store.partitions):
            if partition not in self._beating:
                self._beating[partition] = asyncio.create_task(self._beat(partition))
        # a slow one goes on beside the next round, so that it holds up no other
        await asyncio.wait(self._beating.values(), timeout=self._interval_s())
        failures = []
        for partition, beating in list(self._beating.items()):
            if beating.done():
                del self._beating[partition]
                if (failure := beating.exception()) is not None:
                    failures.append(failure)
        if len(failures) == self._store.partitions:
            raise failures[0]
        registry.give_back_of_closed_loops()
        if self._aside is None or self._aside.done():
            self._aside = asyncio.create_task(self._look_after())
            await asyncio.wait((self._aside,), timeout=self._interval_s())
        if failures:  # of some partitions; the others have been served
            raise failures[0]
        self._beats_every_s = self._interval_s()
        pause = started_at + min(self._beats_every_s, self._due_in_s) - clock.now()
        await self._sleep(self._woken, max(pause, 0.01))

    async def _look_after(self) -> None:
        try:
            await self._release_leftovers()
            await self._confirm_leases()
            for chore in self.chores:
                await chore()
        except InTurnError as error:
            log.warning("beat: %s", error)
        except Exception:
            log.exception("beat failed")

    def _interval_s(self) -> float:
        shortest = min((held.ttl_s for held in list(self._registry.holding.values()) if held.ttl_s), default=60.0)
        return min(BEAT_S, shortest / 4)

    async def _beat(self, partition: int) -> None:
        noted = self._noted[partition]
        try:
            beat = await self._store.beat(partition, noted)
        except StoreUnavailable as error:
            metrics.beats_failed.inc()
            metrics.store_up.set(0)
            for waiter in list(self._registry.waiting.values()):
                if self._store.partition_of(waiter.request.name) == partition:
                    post(waiter.loop, waiter.give_up, error)
            raise
        metrics.beats_confirmed.inc()
        metrics.store_up.set(1)
        self._noted[partition] = [notice for notice in beat.notices if notice.kind in ("lost", "settled")]
        self._take(partition, beat)

    def _bring(self, source: int, target: int) -> None:
        """Bring sends that their own process left behind. It must not hold up the next beat."""
        if (source, target) in self._bringing:
            return
        bringing = asyncio.get_running_loop().create_task(self._store.forward(source, target))
        self._bringing[source, target] = bringing

        def done(task: asyncio.Task[int]) -> None:
            del self._bringing[source, target]
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("forward from=%d to=%d: %s", source, target, error)

        bringing.add_done_callback(done)

    def _take(self, partition: int, beat: Beat) -> None:
        registry = self._registry
        if beat.era > self._eras[partition]:
            self._eras[partition] = beat.era
            # if the store lost its memory, our leases went with it; those granted since then carry a later fence
            for held in list(registry.holding.values()):
                if held.partition == partition and held.fence < beat.era:
                    post(held.loop, held.lose, "the store lost its memory")
        # Judged by our own clock: another call may have been seen before this beat. And what is over stays over: a
        # renewal that comes after the deadline must not revive a lease that its body should have left.
        self._end_overdue()
        was_away_s = beat.sent_at - self._confirmed_at[partition]
        self._confirmed_at[partition] = beat.sent_at
        # a place may have been dropped, by our clock or by the store's: a beat can be late on its way there
        if not beat.is_known or max(was_away_s * 1000, beat.away_ms) > PLACE_LIVES_MS:
            registry.look_again()
        for notice in beat.notices:
            registry.notice(notice)
        for target in beat.forwards:
            self._bring(partition, target)
        if registry.waiting and beat.due_in_ms >= 0:
            self._due_in_s = min(self._due_in_s, beat.due_in_ms / 1000 + 0.005)

    async def _release_leftovers(self) -> None:
        """Some of them with every beat, so that many do not hold up the next beat."""
        registry, at = self._registry, clock.now()
        due = [leftover for leftover in registry.leftovers if leftover[0] <= at][:AT_ONCE]
        released = [undo() for _, undo in due]
        failure: BaseException | None = None
        for leftover, answer in zip(due, await asyncio.gather(*released, return_exceptions=True), strict=True):
            if isinstance(answer, BaseException):
                failure = answer
            else:
                registry.leftovers.remove(leftover)
        if failure is not None:
            log.warning("not everything could be given back; retrying: %s", failure)

    async def _confirm_leases(self) -> None:
        """A beat only confirms the process. So the store is asked once for each lease whether it still knows it."""
        if not self._must_confirm:
            return
        self._must_confirm = False
        held = list(self._registry.holding.values())
        for start in range(0, len(held), AT_ONCE):
            part = held[start : start + AT_ONCE]
            asked = [lease.is_known() for lease in part]
            for lease, answer in zip(part, await asyncio.gather(*asked, return_exceptions=True), strict=True):
                if isinstance(answer, BaseException):
                    self._must_confirm = True
                elif not answer and self._registry.holding.get(lease.token) is lease:
                    post(lease.loop, lease.lose, "the store lost its memory")

    async def _watch(self) -> None:
        """End leases whose deadline has passed. It waits for no reply, so it also works while the store is away."""
        while True:
            at = clock.now()
            try:
                soonest = self._end_overdue()
            except Exception:
                log.exception("checking lease deadlines failed; trying again")
                soonest = at
            self._looks_at = at + min(max(soonest - at, 0.01), BEAT_S)
            await self._sleep(self._watch_woken, self._looks_at - at)

    def _end_overdue(self) -> float:
        """Returns when the next deadline is."""
        at, soonest = clock.now(), _NEVER
        for held in list(self._registry.holding.values()):
            deadline = self.deadline_of(held)
            if deadline <= at:
                why = OVERDUE if held.fixed_until and held.fixed_until <= at else "no renewal in time"
                post(held.loop, held.lose, why)
            else:
                soonest = min(soonest, deadline)
        return soonest

    @staticmethod
    async def _sleep(woken: asyncio.Event, pause_s: float | None) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await woken.wait()
        except TimeoutError:
            return
        woken.clear()
