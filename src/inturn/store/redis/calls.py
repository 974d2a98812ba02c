"""Calling scripts on Redis: each is repeated until it is answered or its deadline has passed.

A call carries its deadline in server time, so that bytes which arrive after it change nothing. Within it a call may be
repeated, because every script answers a repeat as it answered the first time.
"""

from __future__ import annotations

import asyncio
from typing import Any

import hiredis

from inturn.errors import NotReplicated, StoreUnavailable
from inturn import metrics
from inturn.store import clock
from inturn.store.protocol import Grant, Notice
from inturn.store.redis import server_checks as health
from inturn.store.redis.keys import copied
from inturn.store.redis.link import LinkLost, LinkRefused, Reply
from inturn.store.redis.links import Links, Way
from inturn.store.redis.scripts import Script
from inturn.store.redis.topology.slots import slot_of

# Answers that say "not now": the script did not run, and may run a moment later.
_NOT_NOW = frozenset({"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "ASK"})
# Answers that say "not here": another server must be asked.
_NOT_HERE = frozenset({"READONLY", "MOVED"})


class Caller(Links):
    async def check(self) -> list[str]:
        try:
            if self._seeds:
                return await self._check_all()
            link = self._link()
            await link.open()
            return await health.examine(link, self._address, self._allow_eviction)
        except LinkLost as error:
            raise StoreUnavailable(str(error)) from error

    async def _check_all(self) -> list[str]:
        """Every master of a cluster. One that has just died may have been replaced a moment later."""
        cluster, gives_up_at = self._cluster(asyncio.get_running_loop()), clock.now() + self.timeout_s
        while True:
            warnings: list[str] = []
            away: list[LinkLost] = []
            masters = []
            try:
                masters = await cluster.masters()
            except LinkRefused:
                raise
            except LinkLost as error:
                away.append(error)
            for link in masters:
                try:
                    await link.open(self.timeout_s)
                    warnings += await health.examine(link, link.address, self._allow_eviction)
                except LinkRefused:
                    raise
                except LinkLost as error:
                    away.append(error)
            is_late = clock.now() >= gives_up_at
            if is_late and len(away) >= len(masters):
                raise away[0]
            if is_late or not away:  # the partitions of the others can be used
                used = {cluster.slots.at(slot_of(keys.prefix)) for keys in self._keys}
                warnings += [f"a master was not checked: {error}" for error in away]
                return warnings + health.spread(self.place, len(masters), len(used), self.partitions)

    async def command(self, *command: Any) -> Reply:
        """One plain command on keys that are shared with others. It may be sent twice: see `locks/plain.py`."""
        gives_up_at = clock.now() + self.timeout_s
        link = self._way_of(command)
        name = Script(f"plain {command[0].lower()}", b"", b"")
        packed = hiredis.pack_command(command)
        failure: Exception | None = None
        while True:
            try:
                if not link.is_up:
                    await link.open(gives_up_at - clock.now())
                is_late = clock.now() > gives_up_at - self.timeout_s / 2
                answer = link.send(packed)
                reply = await (_in_time(answer, gives_up_at) if is_late else answer)
            except LinkRefused as error:
                raise self._unavailable(name, str(error)) from error
            except LinkLost as error:
                failure, link = error, link.after(error)
            except TimeoutError:  # what was wrong before says more
                failure = failure or TimeoutError("the reply did not come in time")
            else:
                if not isinstance(reply, hiredis.ReplyError):
                    return reply
                failure = await self._refused(link, name, reply)
                link = link.after(failure)
            if clock.now() >= gives_up_at:
                why = f"no answer within {self.timeout_s:g} s: {failure}"
                raise self._unavailable(name, why) from failure

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
    ) -> tuple[Reply, float, int]:
        """Answers the reply, when the answered attempt was sent, and how many attempts it took.

        `fixed` begins with the prefix of the keys. `durable`: with `replicas=n` it is answered when they have it, too
        (a word: only if that is the answer). `once`: it is not repeated when the link is lost.
        """
        link = self._way(pushes, fixed[0])
        copies = self._copies if durable else None
        server, run_id = None, ""
        asked: set[str] = set()  # the processes that may have run it
        sent_at = clock.now()
        gives_up_at = sent_at + self.timeout_s
        is_late_at = sent_at + self.timeout_s / 2  # from here on the link's own patience would outlast ours
        knows_script = True
        attempts = 0

        def granted(reply: Reply) -> None:
            # runs even when the caller was cancelled: the grants in the reply belong to others of this process
            if type(reply) is list and type(reply[-1]) is list:
                for token, fence, arrival, life_left in reply[-1]:
                    grant = Grant(token.decode(), fence, arrival, life_left)
                    self._listener(Notice("granted", granting or "", grant.token, grant=grant, sent_at=sent_at))

        failure: Exception | None = None
        while True:
            try:
                if not link.is_up:
                    await link.open(gives_up_at - clock.now())
                if copies is not None:
                    server = link.server
                    run_id = await copies.server_of(server)
                    if link.server is not server or server.run_id != run_id:
                        raise LinkLost(f"{server.address} was left while we asked who it is")
                sent_at = clock.now()
                all_varying = (*varying, int((gives_up_at + link.skew_s) * 1000))
                if knows_script:
                    packed = self._wire.call(script, keys, fixed, all_varying, last_key)
                else:
                    packed = self._wire.whole_source(script, keys, (*fixed, *all_varying), last_key)
                attempts += 1
                if copies is not None:
                    asked.add(run_id)
                answer = link.send(packed, granted if granting else None)
                reply = await (answer if sent_at < is_late_at else _in_time(answer, gives_up_at))
            except LinkRefused as error:
                raise self._unavailable(script, str(error)) from error
            except LinkLost as error:
                failure, link = error, link.after(error)
                if once and attempts:  # its caller has others to ask meanwhile
                    raise self._unavailable(script, str(error)) from error
            except TimeoutError:  # what was wrong before says more
                failure = failure or TimeoutError("the reply did not come in time")
            else:
                if type(reply) is list and reply[0] != b"stale":
                    if copies is None or server is None or (type(durable) is bytes and reply[0] != durable):
                        return reply, sent_at, attempts
                    try:
                        await copies.made(server, run_id, copied(fixed[0]), gives_up_at)
                        if reply[0] == b"gone" and len(asked) > 1:
                            # the server that may have done it was replaced, perhaps by one that never heard of it
                            raise NotReplicated(f"{script.verb} at {self.place}: the server was replaced meanwhile")
                        return reply, sent_at, attempts
                    except LinkLost as error:  # as if the reply had been lost: another server may not have it
                        failure = NotReplicated(f"{script.verb} at {self.place}: {error}")
                        await asyncio.sleep(0.05)
                else:
                    failure = await self._refused(link, script, reply)
                    link = link.after(failure)
                    knows_script = not str(failure).startswith("NOSCRIPT")
                    attempts -= 1  # it did not run, so this is not a repeat
            if clock.now() >= gives_up_at:
                if isinstance(failure, NotReplicated):
                    raise failure
                why = f"no answer within {self.timeout_s:g} s: {failure}"
                raise self._unavailable(script, why) from failure

    def _unavailable(self, script: Script, why: str) -> StoreUnavailable:
        metrics.store_failures.labels(script.verb).inc()
        return StoreUnavailable(f"{script.verb} at {self.place}: {why}")

    async def _refused(self, link: Way, script: Script, reply: Reply) -> Exception:
        """The script did not run. Returns what the server said if it may run on another try, raises if not."""
        if not isinstance(reply, hiredis.ReplyError):  # stale: the server's clock is ahead of what we believe
            try:
                await link.read_clock()
            except LinkLost as error:
                return error
            return TimeoutError("the call reached the server after its deadline")
        code, _, rest = str(reply).partition(" ")
        if code == "NOSCRIPT":
            return reply
        if code in _NOT_NOW:
            await asyncio.sleep(0.05)
            return reply
        if code in _NOT_HERE:
            link.leave(str(reply), moved_to=rest.split()[1] if code == "MOVED" else None)
            await asyncio.sleep(0.05)
            return reply
        raise self._unavailable(script, health.explain(code, str(reply))) from reply


async def _in_time(answer: asyncio.Future[Reply], gives_up_at: float) -> Reply:
    async with asyncio.timeout(gives_up_at - clock.now()):
        return await answer
