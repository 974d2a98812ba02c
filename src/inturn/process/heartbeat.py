"""One thread per process that keeps every lease and every waiting place alive, and watches their deadlines.

It has an event loop and a connection of its own, so that the application loses nothing when its loop is blocked. It
never touches a task: what has to happen is posted to the loop concerned. An error is logged, and the thread goes on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

from inturn import metrics
from inturn.errors import InTurnError, SettingsError, StoreUnavailable
from inturn.process.registry import Held, Registry, post
from inturn.store import clock
from inturn.store.limits import BEAT_S, PLACE_LIVES_MS
from inturn.store.protocol import Beat, Notice

log = logging.getLogger("inturn.heartbeat")

REST_AFTER_S = 5.0
"""A process that holds nothing and waits for nothing stops beating after this time."""

SHORT_FOR_S = 5.0
"""After a short lease it beats as often as that one needed for this long: most likely the next one is as short."""

STALL_S = 0.1
"""How long the thread may stand still before it looks as if the store did not answer."""

AT_ONCE = 500
"""How many calls the heartbeat has under way at once."""

OVERDUE, NOT_RENEWED = "its time is up", "no renewal in time"
_NEVER = float("inf")

Chore = Callable[[], Awaitable[None]]


def margin_s(ttl_s: float) -> float:
    """How long before its end a lease counts as over. Its body needs that time to stop."""
    return min(max(ttl_s * 0.1, 0.25), ttl_s / 2)


def why_overdue(held: Held, at: float) -> str:
    return OVERDUE if held.fixed_until and held.fixed_until <= at else NOT_RENEWED


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
        self._starting = threading.RLock()  # a wait may be collected, and given up, in the middle of this
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._watch_woken = asyncio.Event()
        self._looks_at = 0.0
        self._is_stopping = False
        self._busy_at = 0.0
        self._due_at = _NEVER
        self._beats_every_s = BEAT_S
        self._short_s = BEAT_S
        self._short_until = 0.0
        self._must_confirm = False
        self._must_check = False
        self.on_refused: Callable[[SettingsError], None] = lambda error: None
        self._running: asyncio.Task[None] | None = None
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
            self._wake(self._wake_beat)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._registry.is_closing:
                self._is_stopping = False
                thread = threading.Thread(target=self._main, name="inturn-heartbeat", daemon=True)
                thread.start()
                self._thread = thread

    def watch_over(self, held: Held) -> bool:
        """A lease was added: look sooner if it could end before the next look, and beat sooner if it needs that.

        `False`: it has already ended.
        """
        at, deadline = clock.now(), self.deadline_of(held)
        if deadline < self._looks_at:
            self._wake(self._wake_watch)
        if held.ttl_s:
            needs_s = held.ttl_s / 4
            if needs_s < BEAT_S and (needs_s <= self._short_s or self._short_until < at):
                self._short_s, self._short_until = needs_s, at + SHORT_FOR_S
            if needs_s < self._beats_every_s:
                self._wake(self._wake_beat)
        return deadline > at

    def beat_by(self, at: float) -> None:
        """Something will be due then that no beat knows of yet."""
        if at < self._due_at:
            self._due_at = at
            self._wake(self._wake_beat)

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
        """End the thread and wait for it. It waits for no reply."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._is_stopping = True
            self._wake(self._end)
            thread.join(timeout=self._store.timeout_s)

    def _wake(self, call: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None:
            post(loop, call)

    def _wake_beat(self) -> None:
        self._woken.set()

    def _wake_watch(self) -> None:
        self._watch_woken.set()

    def _end(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def confirm_soon(self) -> None:
        """A connection is back, perhaps to a server that was restored from an older copy of its data."""
        self._must_confirm = self._must_check = True

    def _main(self) -> None:
        try:
            with suppress(asyncio.CancelledError):  # it was stopped
                asyncio.run(self._run())
        except Exception:
            log.exception("the heartbeat thread failed; the next lock or turn starts a new one")
        finally:
            with self._starting:
                if self._thread is threading.current_thread():
                    self._thread = None

    async def _run(self) -> None:
        self._woken, self._watch_woken = asyncio.Event(), asyncio.Event()
        self._running, self._loop = asyncio.current_task(), asyncio.get_running_loop()
        watching = asyncio.create_task(self._watch())
        try:
            while not self._is_stopping:
                try:
                    await self._round()
                except InTurnError as error:
                    # a store that is away is in the log already, now and then: see store/failures.py
                    level = logging.DEBUG if isinstance(error, StoreUnavailable) else logging.WARNING
                    log.log(level, "beat failed: %s", error)
                    await self._sleep(self._woken, self._interval_s() / 2)
                except Exception:
                    # whatever it was: without a heartbeat every lease of the process would end
                    log.exception("beat failed")
                    await self._sleep(self._woken, self._interval_s())
        finally:
            self._running = None  # it ends, and is not cancelled any more
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
        self._due_at = _NEVER
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
        registry.give_back_dropped()
        if self._aside is None or self._aside.done():
            self._aside = asyncio.create_task(self._look_after())
            await asyncio.wait((self._aside,), timeout=self._interval_s())
        if failures:  # of some partitions; the others have been served
            raise failures[0]
        await self._pause(started_at, clock.now() + 0.01)

    async def _pause(self, began_at: float, at_least_until: float) -> None:
        """Sleep until the next beat is due. Whoever wakes us has made it due sooner, but not necessarily now."""
        is_woken = True
        while is_woken and not self._is_stopping:
            self._beats_every_s = self._interval_s()
            ends_at = max(min(began_at + self._beats_every_s, self._due_at), at_least_until)
            is_woken = await self._sleep(self._woken, max(ends_at - clock.now(), 0.0))

    async def _look_after(self) -> None:
        try:
            await self._check_partitions()
            await self._release_leftovers()
            await self._confirm_leases()
            for chore in self.chores:
                await chore()
        except InTurnError as error:
            log.warning("beat: %s", error)
        except Exception:
            log.exception("beat failed")

    def _interval_s(self) -> float:
        """How often it must beat: four times in each lease, and so that those who wait hear of an outage in time."""
        registry = self._registry
        every_s = min((held.ttl_s for held in list(registry.holding.values()) if held.ttl_s), default=60.0) / 4
        if clock.now() < self._short_until:
            every_s = min(every_s, self._short_s)
        if registry.waiting:
            every_s = min(every_s, self._store.timeout_s / 4)
        return min(BEAT_S, every_s)

    async def _beat(self, partition: int) -> None:
        asking = asyncio.ensure_future(self._store.beat(partition, self._noted[partition]))
        try:
            await self._tell_if_late(asking, partition)
            beat = await asking
        except StoreUnavailable as error:
            metrics.beats_failed.inc()
            self._is_away(partition, error)
            raise
        finally:
            asking.cancel()
        metrics.beats_confirmed.inc()
        metrics.store_up.set(1)
        self._noted[partition] = [notice for notice in beat.notices if notice.kind in ("lost", "settled")]
        self._take(partition, beat)

    async def _tell_if_late(self, asking: asyncio.Future[Beat], partition: int) -> None:
        """Those who wait hear within the store's timeout that it is away, which may be since the beat before this one:
        so they are told before this call gives up.
        """
        patience_s = max(self._store.timeout_s - self._beats_every_s - 2 * STALL_S, 0.0)
        # twice, because perhaps it is we who stood still: then the answer is here, and is read first
        for limit_s in (patience_s, STALL_S):
            done, _ = await asyncio.wait((asking,), timeout=limit_s)
            if done:
                return
        self._is_away(
            partition, StoreUnavailable(f"the store has not answered a beat for {patience_s + STALL_S:.3g} s")
        )

    def _is_away(self, partition: int, error: StoreUnavailable) -> None:
        metrics.store_up.set(0)
        for waiter in list(self._registry.waiting.values()):
            if self._store.partition_of(waiter.request.name) == partition:
                post(waiter.loop, waiter.give_up, error)

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
            self._must_check = self._must_check or partition == 0  # it holds the record
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
            self._due_at = min(self._due_at, clock.now() + beat.due_in_ms / 1000 + 0.005)

    async def _check_partitions(self) -> None:
        """The record of their number may have been away when the app was opened, or was lost with its memory."""
        if not self._must_check:
            return
        self._must_check = False  # before it is asked: a connection that comes back meanwhile must be asked again
        try:
            await self._store.check_partitions(pushes=False)
        except SettingsError as error:
            self.on_refused(error)
        except StoreUnavailable:
            # asked again with the next beat; what else has to be looked after does not wait for partition 0
            self._must_check = True
        except BaseException:
            self._must_check = True
            raise

    async def _release_leftovers(self) -> None:
        """All that are due, some at a time. Beats go on beside it."""
        leftovers, at = self._registry.leftovers, clock.now()
        # not `items`, which may be interrupted by whoever adds one
        noted = [(number, leftovers.get(number)) for number in list(leftovers)]
        due = [(number, left[1]) for number, left in noted if left is not None and left[0] <= at]
        for start in range(0, len(due), AT_ONCE):
            part = due[start : start + AT_ONCE]
            released = [undo() for _, undo in part]
            failure: BaseException | None = None
            for (number, _), answer in zip(part, await asyncio.gather(*released, return_exceptions=True), strict=True):
                if isinstance(answer, BaseException):
                    failure = answer
                else:
                    leftovers.pop(number, None)
            if isinstance(failure, StoreUnavailable):  # the store has logged it, now and then
                log.debug("not everything could be given back; retrying: %s", failure)
                return
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
                post(held.loop, held.lose, why_overdue(held, at))
            else:
                soonest = min(soonest, deadline)
        return soonest

    @staticmethod
    async def _sleep(woken: asyncio.Event, pause_s: float | None) -> bool:
        """Returns whether it was woken."""
        try:
            async with asyncio.timeout(pause_s):
                await woken.wait()
        except TimeoutError:
            return False
        woken.clear()
        return True
