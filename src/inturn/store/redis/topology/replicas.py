"""`replicas=n`: a call returns only when n replicas of its server have acknowledged all that it wrote.

WAIT blocks its connection, so it has one of its own. It covers what was written on that connection, so a tiny write
goes before it, which comes after everything answered so far in the replication stream. One round covers all calls that
wait when it begins. The run id tells whether the process that is asked is the one that answered the call.
"""

from __future__ import annotations

import asyncio

import hiredis

from inturn.errors import NotReplicated
from inturn.store import clock
from inturn.store.redis.address import Address
from inturn.store.redis.link import Link, LinkLost, LinkRefused


class _OtherServer(LinkLost):
    pass


class Copies:
    def __init__(self, replicas: int, timeout_s: float) -> None:
        self._replicas = replicas
        self._timeout_s = timeout_s

    async def server_of(self, link: Link) -> str:
        """Returns the run id of the process behind a link that is up; it is asked for once per connection."""
        if (error := await link.identify()) is not None:
            raise LinkRefused(f"{link.address} does not let us read INFO, which waiting for replicas needs: {error}")
        return link.run_id

    async def made(self, link: Link, run_id: str, key: str, gives_up_at: float) -> None:
        """Returns when what was answered on `link` has its copies. Raises `LinkLost` if that is not known."""
        rounds = next((beside for beside in link.companions if isinstance(beside, _Rounds)), None)
        if rounds is not None and rounds.address != link.address:
            link.companions.remove(rounds)
            rounds.close(LinkLost(f"the server is at {link.address} now"))
            rounds = None
        if rounds is None:
            rounds = _Rounds(link.address, self, self._replicas, self._timeout_s)
            link.companions.append(rounds)
        try:
            async with asyncio.timeout(gives_up_at - clock.now()):
                await rounds.join(run_id, key)
        except _OtherServer as error:
            link.leave(str(error))  # one of the two leads to a server that was replaced: find out which
            raise
        except TimeoutError:
            raise NotReplicated(
                f"{link.address} has it, but fewer than {self._replicas} replicas confirmed it "
                f"within {self._timeout_s:g} s; a failover could lose it"
            ) from None


class _Rounds(Link):
    """The connection that waits, and the calls that wait for it."""

    def __init__(self, address: Address, copies: Copies, replicas: int, timeout_s: float) -> None:
        super().__init__(address, timeout_s / 2, (), lambda text: None, lambda is_again: None)
        self._copies = copies
        self._replicas = replicas
        self._slice_ms = max(round(timeout_s * 250), 20)
        """A round that takes longer begins anew, so that it covers the calls that came meanwhile."""
        self._waiting: list[tuple[str, str, asyncio.Future[None]]] = []
        self._round: asyncio.Task[None] | None = None

    async def join(self, run_id: str, key: str) -> None:
        future: asyncio.Future[None] = self.loop.create_future()
        self._waiting.append((run_id, key, future))
        if self._round is None or self._round.done():
            self._round = self.loop.create_task(self._go_round())
        await future

    async def _go_round(self) -> None:
        while self._waiting:
            covered, self._waiting = [waits for waits in self._waiting if not waits[2].done()], []
            try:
                if not self.is_up:
                    await self.open()
                run_id = await self._copies.server_of(self)
                of_another = [waits for waits in covered if waits[0] != run_id]
                if of_another:
                    other = _OtherServer(f"{self.address} is another server than the one that answered")
                    _fail(of_another, other)
                    self.leave(str(other))
                    raise other
                is_enough = bool(covered) and await self._wait(covered[0][1])
            except LinkLost as error:
                _fail(covered, error)
            except asyncio.CancelledError:
                _fail([*covered, *self._waiting], LinkRefused("the app was closed"))
                raise
            else:
                if is_enough:
                    for _, _, future in covered:
                        if not future.done():
                            future.set_result(None)
                else:
                    self._waiting += covered

    async def _wait(self, key: str) -> bool:
        if not self.is_up:
            raise LinkLost(f"{self.address} was lost before we could wait for its replicas")
        written = self.say("SET", key, "", "PX", 60_000)
        waited = self.say("WAIT", self._replicas, self._slice_ms)
        for reply in await asyncio.gather(written, waited):
            if isinstance(reply, hiredis.ReplyError):
                raise LinkLost(f"{self.address} refused to wait for its replicas: {reply}")
        return int(waited.result()) >= self._replicas

    def close(self, why: LinkLost | None = None) -> None:
        super().close(why)
        if self._round is not None:
            self._round.cancel()


def _fail(waiting: list[tuple[str, str, asyncio.Future[None]]], error: LinkLost) -> None:
    for _, _, future in waiting:
        if not future.done():
            future.set_exception(error)
