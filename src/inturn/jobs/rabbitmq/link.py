"""One connection to RabbitMQ, with one channel. Whoever needs it asks for the channel, and gets one that is open.

aio-pika's robust connection is not used: it goes on consuming by itself, and hides what a worker must know (that its
deliveries are void, that a consumer was cancelled). Here a lost channel is lost, and the next one is made on purpose.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, cast

from inturn import metrics
from inturn.errors import BrokerUnavailable, MissingExtra, QueueMismatch
from inturn.jobs.rabbitmq.queues import mismatch
from inturn.settings import mask

try:
    import aio_pika
    import aiormq
except ImportError as error:
    raise MissingExtra("RabbitMQ", "rabbitmq") from error

if TYPE_CHECKING:
    from aiormq.channel import Channel

log = logging.getLogger("inturn.jobs")

HEARTBEAT_S = 10
TIMEOUT_S = 5.0
"""How long the broker may take to answer, if nobody says otherwise."""
OPEN_S = 30.0
"""At the start: a broker that is busy takes a while to make all the queues."""


class Link:
    """`queues`: declared on every new channel before anybody gets it. `timeout_s`: for each answer of the broker."""

    def __init__(
        self,
        url: str,
        purpose: str,
        queues: dict[str, dict[str, Any]],
        *,
        confirms: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.timeout_s = timeout_s
        self._url = url
        self._purpose = purpose
        self._queues = queues
        self._confirms = confirms
        self._connection: aio_pika.abc.AbstractConnection | None = None
        self._channel: Channel | None = None
        self._opening = asyncio.Lock()
        self._is_over = False

    @property
    def where(self) -> str:
        return mask(self._url)

    @property
    def open_channel(self) -> Channel | None:
        """The channel, if there is one that is open."""
        channel = self._channel
        return channel if channel is not None and not channel.is_closed else None

    async def channel(self, at_least_s: float = 0.0) -> Channel:
        """Raises `BrokerUnavailable`: nothing was sent then. `QueueMismatch` if a queue does not fit."""
        within_s = max(self.timeout_s, at_least_s)
        found = self.open_channel
        if found is not None:
            return found
        try:
            async with asyncio.timeout(within_s), self._opening:
                return self.open_channel or await self._open()
        except TimeoutError as error:
            why = f"RabbitMQ at {self.where} does not answer within {within_s:g} s"
            raise BrokerUnavailable(why, is_certain=True) from error

    async def _open(self) -> Channel:
        await self.drop()
        if self._is_over:
            raise BrokerUnavailable("the connection to RabbitMQ is being closed", is_certain=True)
        try:
            self._connection = await aio_pika.connect(
                self._url, heartbeat=HEARTBEAT_S, client_properties={"connection_name": f"inturn {self._purpose}"}
            )
            channel = await self._new_channel(self._connection)
            await self._declare(channel)
        except QueueMismatch:
            await self.drop()
            raise
        except (aiormq.exceptions.AMQPError, OSError, EOFError) as error:
            await self.drop()
            told = " ".join(str(part) for part in error.args if part) or type(error).__name__
            if "Connection.Close" in told:  # all that aiormq says of a virtual host that is refused
                told = "it closed the connection; is there such a virtual host, and may this user use it?"
            raise BrokerUnavailable(f"RabbitMQ at {self.where} cannot be used: {told}", is_certain=True) from error
        except BaseException:
            await self.drop()
            raise
        self._channel = channel
        metrics.broker_up.labels(self._purpose).set(1)
        log.info("rabbitmq link=%s: connected to %s", self._purpose, self.where)
        return channel

    async def _new_channel(self, connection: aio_pika.abc.AbstractConnection) -> Channel:
        made = await connection.channel(publisher_confirms=self._confirms, on_return_raises=self._confirms)
        return cast("Channel", await made.get_underlay_channel())

    async def renew_channel(self) -> None:
        """Another channel on the same connection. What was not answered on the old one comes again."""
        async with self._opening:
            old, connection = self.open_channel, self._connection
            if old is None or connection is None:
                return
            try:
                async with asyncio.timeout(self.timeout_s):
                    await old.close()
                    self._channel = await self._new_channel(connection)
            except (aiormq.exceptions.AMQPError, OSError, TimeoutError, RuntimeError) as error:
                raise BrokerUnavailable(
                    f"RabbitMQ at {self.where} does not answer: {error}", is_certain=True
                ) from error

    async def _declare(self, channel: Channel) -> None:
        for name, arguments in self._queues.items():
            try:
                await channel.queue_declare(name, durable=True, arguments=arguments)
            except aiormq.exceptions.ChannelPreconditionFailed as error:
                raise mismatch(name, str(error.args[0] if error.args else error)) from error

    async def drop(self) -> None:
        """Ends the connection, whatever state it is in. The next who asks for the channel connects again."""
        connection, self._connection, self._channel = self._connection, None, None
        metrics.broker_up.labels(self._purpose).set(0)
        if connection is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(self.timeout_s):
                    await connection.close()

    async def close(self) -> None:
        self._is_over = True
        async with self._opening:
            await self.drop()
