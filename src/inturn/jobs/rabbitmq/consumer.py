"""Consumes one queue of RabbitMQ: hands deliveries to a handler, and acknowledges each when its handler has returned.

The handlers are tasks of ours. When a channel is lost, its deliveries are void and come again, but what their handlers
do (a provider that is being asked, and paid) goes on to its end. The consumer is looked at every few seconds: one that
the broker has cancelled, or that gets nothing although jobs wait, is made anew. So is one that is idle, now and then: a
broker may believe that it delivered what never came (RabbitMQ 3.10 does if a queue is deleted and declared again).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from inturn.errors import BrokerUnavailable, MissingExtra
from inturn.jobs.rabbitmq.link import OPEN_S, Link
from inturn.jobs.transport import Delivery, Take
from inturn.store import clock

try:
    import aiormq
    from aiormq.abc import DeliveredMessage
except ImportError as error:
    raise MissingExtra("RabbitMQ", "rabbitmq") from error

if TYPE_CHECKING:
    from aiormq.channel import Channel

log = logging.getLogger("inturn.jobs")

LOOK_S = 3.0
"""How often a consumer is looked at. Two looks in a row must find it wrong: so it is restored within 15 s."""
IDLE_S = 9.0
"""An idle consumer that got nothing for so long is made anew."""
AGAIN_S = (0.2, 0.5, 1.0, 2.0, 3.0)
"""Pauses between attempts to connect again; the last one repeats."""
FAILED_S = 1.0
"""A delivery whose handler failed is given back after this time: it comes again at once."""
STUBBORN_S = 3.0
"""How long a handler may take to stop when it is cancelled."""
_LOST = (aiormq.exceptions.AMQPError, OSError, TimeoutError, RuntimeError)
"""What a call raises if its channel or connection is lost, or does not answer."""


class RabbitMQConsumer:
    def __init__(
        self,
        link: Link,
        queue: str,
        handler: Take,
        concurrency: int,
        read: Callable[[DeliveredMessage], Delivery],
        put_back: Callable[[DeliveredMessage], Awaitable[None]] | None = None,
    ) -> None:
        """`put_back`: publishes a delivery again. Without it, what a stop leaves undone is requeued."""
        self._link = link
        self._queue = queue
        self._handler = handler
        self._concurrency = concurrency
        self._read = read
        self._put_back = put_back
        self._stubborn_s = STUBBORN_S + link.timeout_s
        """How long a handler may take to stop and leave its job to others."""
        self._places = asyncio.Semaphore(concurrency)
        """More than this never run at once, also if a new channel brings more while those of a lost one still run."""
        self._tag = ""
        self._waiting: set[asyncio.Task[None]] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        """Those that leave their delivery to others. If they were cancelled in that there would be a copy too many."""
        self._came = 0
        self._came_at = clock.now()
        self._stopping = False
        self._hurry = asyncio.Event()
        self._stopped = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    async def start(self) -> None:
        """Raises `BrokerUnavailable`. From then on it reconnects by itself."""
        try:
            await self._consume(OPEN_S)
        except BaseException:
            await self._link.close()
            raise
        self._looking = asyncio.create_task(self._look_after(), name=f"inturn consumer {self._queue}")

    async def _consume(self, at_least_s: float = 0.0) -> None:
        channel = await self._link.channel(at_least_s)
        try:
            async with asyncio.timeout(max(self._link.timeout_s, at_least_s)):
                await channel.basic_qos(prefetch_count=self._concurrency)
                found = await channel.basic_consume(self._queue, partial(self._deliver, channel))
        except _LOST as error:
            raise BrokerUnavailable(f"RabbitMQ does not let us consume {self._queue!r}: {error}") from error
        self._tag, self._came_at = str(found.consumer_tag), clock.now()
        channel.closing.add_done_callback(lambda _: self._woken.set())
        channel.on_consumer_cancel_callbacks.add(lambda _: self._woken.set())

    # -- looking after it

    async def _look_after(self) -> None:
        failures = suspicions = 0
        while not self._stopping:
            try:
                if not self._is_consuming():
                    await self._restore()
                    failures = suspicions = 0
                came = self._came
                self._woken.clear()
                if not self._is_consuming():
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._woken.wait()
                if not self._is_consuming():
                    continue
                if self._is_idle() and clock.now() - self._came_at >= IDLE_S:
                    await self._renew()
                    continue
                suspicions = suspicions + 1 if await self._gets_nothing(came) else 0
                if suspicions >= 2:
                    raise BrokerUnavailable("jobs wait, there is room, and none is delivered")
            except Exception as error:
                pause_s = AGAIN_S[min(failures, len(AGAIN_S) - 1)]
                if not isinstance(error, BrokerUnavailable):  # a worker that looks after nothing would be idle for ever
                    log.exception("rabbitmq queue=%s: looking after it failed; connecting again", self._queue)
                elif failures == 0 or pause_s == AGAIN_S[-1]:
                    log.warning("rabbitmq queue=%s: %s; connecting again", self._queue, error)
                failures, suspicions = failures + 1, 0
                await self._link.drop()
                await asyncio.sleep(pause_s)

    def _is_consuming(self) -> bool:
        """Not if it is being stopped. aiormq forgets a consumer that the broker has cancelled."""
        channel = self._link.open_channel
        return not self._stopping and channel is not None and self._tag in channel.consumers

    def _is_idle(self) -> bool:
        return not self._running and not self._waiting

    async def _renew(self) -> None:
        """On a new channel, unless something comes at the last moment. What the old one did not answer comes again."""
        channel = self._link.open_channel
        if channel is None:
            return
        try:
            async with asyncio.timeout(self._link.timeout_s):
                await channel.basic_cancel(self._tag)  # nothing comes after its answer
        except _LOST as error:
            raise BrokerUnavailable(f"RabbitMQ does not answer: {type(error).__name__} {error}") from error
        await asyncio.sleep(0)  # what came before it has a task now
        if self._is_idle():
            await self._link.renew_channel()
        if not self._stopping:
            await self._consume()

    async def _restore(self) -> None:
        await self._link.drop()  # what was delivered there and is not acknowledged comes again
        await self._consume()
        log.info("rabbitmq queue=%s: consuming again", self._queue)

    async def _gets_nothing(self, came: int) -> bool:
        """Whether the broker holds jobs for us back. Asking also shows that the connection is not half dead."""
        channel = self._link.open_channel
        if channel is None:
            return False
        try:
            async with asyncio.timeout(self._link.timeout_s):
                found = await channel.queue_declare(self._queue, passive=True)
        except _LOST as error:
            raise BrokerUnavailable(f"RabbitMQ does not answer: {type(error).__name__} {error}") from error
        has_room = len(self._waiting) + len(self._running) < self._concurrency
        return bool(found.message_count) and has_room and came == self._came

    # -- deliveries

    async def _deliver(self, channel: Channel, given: DeliveredMessage) -> None:
        """Called by aiormq in a task that ends with the channel: the work is done in one of ours."""
        self._came, self._came_at = self._came + 1, clock.now()
        task = asyncio.get_running_loop().create_task(self._work(channel, given))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(self._ended)

    async def _work(self, channel: Channel, given: DeliveredMessage) -> None:
        tag = given.delivery_tag
        assert tag is not None, "every delivery has one"
        task = asyncio.current_task()
        assert task is not None
        try:
            async with self._places:
                if channel.is_closed:  # it was lost while this waited: the delivery comes again
                    return
                if self._stopping:
                    await self._leave_to_others(channel, given)
                    return
                self._waiting.discard(task)
                self._running.add(task)
                await self._handler(self._read(given))
        except asyncio.CancelledError:
            await self._leave_to_others(channel, given)
            raise
        except Exception:
            log.exception("rabbitmq queue=%s: a handler failed; its job is given back", self._queue)
            await asyncio.sleep(FAILED_S)
            await self._answer(channel, channel.basic_nack(tag, requeue=True, wait=False))
        else:
            await self._answer(channel, channel.basic_ack(tag, wait=False))

    async def _leave_to_others(self, channel: Channel, given: DeliveredMessage) -> None:
        """Its worker stops. If it is killed before the acknowledge there are two copies; the record lets one count."""
        if channel.is_closed:  # it comes again
            return
        task = asyncio.current_task()
        assert task is not None
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        tag = given.delivery_tag or 0
        if self._put_back is not None:
            try:
                await self._put_back(given)
            except (BrokerUnavailable, asyncio.CancelledError) as error:
                log.info("rabbitmq queue=%s: a job could not be put back, and is requeued: %s", self._queue, error)
            else:
                await self._answer(channel, channel.basic_ack(tag, wait=True))
                return
        await self._answer(channel, channel.basic_nack(tag, requeue=True, wait=True))

    async def _answer(self, channel: Channel, answer: object) -> None:
        """If the channel is lost, the delivery comes again, and is found to be done."""
        try:
            async with asyncio.timeout(self._link.timeout_s):
                await answer  # type: ignore[misc]
        except _LOST as error:
            log.info("rabbitmq queue=%s: a delivery could not be answered, and comes again: %s", self._queue, error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("rabbitmq queue=%s: a delivery ended unexpectedly", self._queue, exc_info=error)

    # -- stopping

    async def stop(self, grace_s: float) -> bool:
        if self._stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s + 2 * self._stubborn_s):
                    await self._stopped.wait()
            return not self._running
        self._stopping = True
        await self._cancel()
        if self._looking is not None:
            self._woken.set()
            if self._link.open_channel is not None:
                # aiormq closes a channel whose question is cancelled: what runs could not be acknowledged any more
                await asyncio.wait({self._looking}, timeout=self._link.timeout_s)
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
            await self._cancel()  # it may have consumed again just before
        await self._give_back(self._waiting - self._running)
        if self._running:
            hurry = asyncio.ensure_future(self._hurry.wait())
            finished = asyncio.ensure_future(asyncio.wait(set(self._running)))
            await asyncio.wait({hurry, finished}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
            hurry.cancel()
            finished.cancel()
        late = len(self._running)
        await self._give_back(self._running)
        await self._link.close()
        self._stopped.set()
        return late == 0

    async def _cancel(self) -> None:
        channel = self._link.open_channel
        if channel is not None and self._tag in channel.consumers:
            with contextlib.suppress(*_LOST):
                async with asyncio.timeout(self._link.timeout_s):
                    await channel.basic_cancel(self._tag)

    def hurry(self) -> None:
        self._hurry.set()

    async def _give_back(self, tasks: set[asyncio.Task[None]]) -> None:
        tasks = set(tasks)
        for task in tasks - self._leaving:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._stubborn_s)
