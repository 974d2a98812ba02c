"""A lock on a majority of independent Redis servers: exclusive, without a queue, fenced.

A grant is a majority's, and its fence was written back to a majority, so that the next majority, which shares a
server with that one, grants a greater one. What was asked for and not kept is taken back everywhere, also when
its grant arrives late. A server that restarts without its data forgets its votes, so the servers must keep them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

from inturn.errors import SettingsError
from inturn.store import clock
from inturn.store.redis import scripts
from inturn.store.redis.address import Address
from inturn.store.redis.quorum.ballot import Ballot, Call, Servers, Vote

CLEAN_EVERY_S = 0.5
CLOCK_DOUBT_S = 0.1
"""How far a server's clock may be, at most, from where we believe it is when we wait for one of its deadlines."""


class QuorumGrant:
    """What a majority granted, and every question about it whose bytes could still have an effect."""

    __slots__ = ("_is_over", "_lock", "_questions", "fence", "name", "sent_at", "token")

    def __init__(self, name: str, token: str, fence: int, acquiring: Ballot) -> None:
        self.name = name
        self.token = token
        self.fence = fence
        self.sent_at = acquiring.sent_at
        """When the first question left: the life of the grant is counted from here."""
        self._questions = [acquiring]
        self._is_over = False
        self._lock = threading.Lock()

    def ask(self, make: Callable[[], Ballot]) -> Ballot | None:
        """Asks about the grant, from any thread. Returns `None` if it is being released."""
        with self._lock:
            if self._is_over:
                return None
            at, (acquiring, *later) = clock.now(), self._questions
            later = [question for question in later if question.deadline + CLOCK_DOUBT_S > at]
            self._questions = [acquiring, *later, make()]
            return self._questions[-1]

    def end(self) -> list[Ballot]:
        with self._lock:
            self._is_over = True
            return self._questions


class QuorumRefusal(NamedTuple):
    """`is_away`: so many servers did not answer that there can be no majority."""

    holders: list[str]
    failures: list[Exception]
    is_away: bool


class QuorumExtended(NamedTuple):
    """`lost`: a majority does not have it any more; `away`: not known."""

    status: Literal["extended", "lost", "away"]
    sent_at: float
    failures: list[Exception]


class _Cleaning(NamedTuple):
    """A release that was sent, and what it leaves in doubt.

    `is_behind`: it follows everything that was asked on the same connection, so its answer is the last word.
    Else what was asked before can take effect until `doubtful_until`.
    """

    released: Vote
    is_behind: bool
    doubtful_until: float
    life_s: float
    call: Call


class QuorumKeys:
    """Every key that a quorum uses; the same names on every server."""

    def __init__(self, namespace: str) -> None:
        self._prefix = f"{namespace}:quorum:"
        self.fence = f"{self._prefix}fence"

    def lock(self, name: str) -> str:
        return f"{self._prefix}lock:{name}"


class QuorumStore:
    """The verbs. Each is one question to all servers, or two."""

    def __init__(self, urls: Sequence[str], namespace: str, timeout_s: float) -> None:
        self.addresses = [Address.from_url(url) for url in urls]
        shown = [str(address) for address in self.addresses]
        if len(set(shown)) < len(shown):
            raise SettingsError(f"a server counts once, and one is named twice: {', '.join(shown)}")
        self._servers = Servers(self.addresses, timeout_s)
        self._timeout_s = timeout_s
        self._spare = len(urls) - self._servers.majority
        """How many servers may be away."""
        self._keys = QuorumKeys(namespace)

    def patience_s(self, ttl_s: float) -> float:
        """Returns how long one question may take, so that two of them leave enough of the lease."""
        return min(self._timeout_s, ttl_s / 4)

    async def reach(self) -> None:
        """Connects to a majority, if that can be."""
        await self._servers.reach()

    async def acquire(self, name: str, token: str, ttl_s: float) -> QuorumGrant | QuorumRefusal:
        """Makes one attempt. A token is used once, so that what takes it back may arrive at any time."""
        await self.reach()
        patience_s = self.patience_s(ttl_s)
        keys, args = (self._keys.lock(name), self._keys.fence), (token, round(ttl_s * 1000))
        acquiring = self._ask("quorum/acquire", keys, args, patience_s, b"granted")
        is_kept = False
        try:
            await acquiring.decide()
            if not acquiring.is_won:
                return self._refusal(acquiring)
            fence = max(vote.reply[1] for vote in acquiring.ayes if vote.reply)
            learning = self._ask("quorum/fence", (self._keys.fence,), (fence,), patience_s, b"learnt")
            await learning.decide()
            if not learning.is_won:
                return self._refusal(learning)
            is_kept = True
            return QuorumGrant(name, token, fence, acquiring)
        finally:
            if not is_kept:
                self._take_back(name, token, [acquiring], ttl_s)

    async def extend(self, grant: QuorumGrant, life_s: float, patience_s: float) -> QuorumExtended:
        """Only while the grant is certain, and with a patience that ends before that does."""
        keys, args = (self._keys.lock(grant.name),), (grant.token, round(life_s * 1000))
        extending = grant.ask(lambda: self._ask("quorum/extend", keys, args, patience_s, b"extended"))
        if extending is None:
            return QuorumExtended("lost", clock.now(), [])
        await extending.decide()
        if extending.is_won:
            return QuorumExtended("extended", extending.sent_at, [])
        is_lost = extending.words(b"lost") > self._spare
        return QuorumExtended("lost" if is_lost else "away", extending.sent_at, extending.failures)

    async def holder(self, name: str) -> str | QuorumRefusal:
        """Returns the token that a majority has voted for; '' if there is none."""
        await self.reach()
        asking = self._ask("quorum/holder", (self._keys.lock(name),), (), self._timeout_s, b"held")
        await asyncio.gather(*(vote.task for vote in asking.votes))
        voters: dict[str, set[str]] = {}
        for vote in asking.ayes:
            if vote.reply:
                voters.setdefault(vote.reply[1].decode(), set()).add(vote.run_id)
        elected = [token for token, servers in voters.items() if len(servers) >= asking.majority]
        refusal = self._refusal(asking)
        return refusal if refusal.is_away else next(iter(elected), "")

    def release(self, grant: QuorumGrant, life_s: float) -> Ballot:
        """It is under way everywhere when this returns, and is seen through, whether it is awaited or not."""
        return self._take_back(grant.name, grant.token, grant.end(), life_s)

    def _refusal(self, ballot: Ballot) -> QuorumRefusal:
        failures = ballot.failures
        for failure in failures:
            if isinstance(failure, SettingsError):
                raise failure
        holders = [vote.reply[1].decode() for vote in ballot.votes if vote.reply and vote.word == b"busy"]
        return QuorumRefusal(holders, failures, len(failures) > self._spare)

    def _ask(
        self, verb: str, keys: tuple[str, ...], args: tuple[str | int, ...], patience_s: float, yes: bytes
    ) -> Ballot:
        return self._servers.ask(Call(scripts.load(verb), keys, args), clock.now() + patience_s, yes)

    def _take_back(self, name: str, token: str, questions: list[Ballot], life_s: float) -> Ballot:
        here = self._servers.here()
        for question in questions:
            for vote, server in zip(question.votes, here, strict=True):
                if vote.server is server:  # else it is another loop's, and is not ours to stop
                    vote.stop()
        call = Call(scripts.load("quorum/release"), (self._keys.lock(name),), (token,))
        releasing = self._servers.ask(call, clock.now() + self._timeout_s, b"released")
        for number, released in enumerate(releasing.votes):
            asked = [question.votes[number] for question in questions]
            undecided = [vote for vote in asked if vote.is_open]
            if undecided or any(vote.is_sent for vote in asked):
                doubtful_until = max((vote.deadline for vote in undecided), default=0.0) + CLOCK_DOUBT_S
                is_behind = released.is_sent and all(
                    vote.server is released.server and vote.was_in_flight for vote in undecided
                )
                cleaning = _Cleaning(released, is_behind, doubtful_until, life_s, call)
                released.task.add_done_callback(partial(self._clean, cleaning))
        return releasing

    def _clean(self, cleaning: _Cleaning, task: asyncio.Task[None]) -> None:
        """If the release left a doubt, makes sure that the server keeps nothing of the token."""
        released = cleaning.released
        is_last = cleaning.is_behind and not released.is_repeated
        if released.reply is None or not (is_last or released.sent_at > cleaning.doubtful_until):
            self._servers.start(self._release_again(cleaning))

    async def _release_again(self, cleaning: _Cleaning) -> None:
        """What was asked may be under way, and counts until its deadline; what it takes ends with its life."""
        ends_at = max(cleaning.doubtful_until, clock.now()) + cleaning.life_s
        await asyncio.sleep(cleaning.doubtful_until - clock.now())
        while clock.now() < ends_at:
            again = Vote(cleaning.released.server, cleaning.call, clock.now() + self._timeout_s)
            self._servers.keep(again.task)
            await asyncio.wait({again.task})
            if again.reply is not None:
                return
            await asyncio.sleep(CLEAN_EVERY_S)

    async def close(self) -> None:
        await self._servers.close()

    def forget(self) -> None:
        self._servers.forget()
