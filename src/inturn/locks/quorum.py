"""`Quorum`: one holder per name by the word of a majority of independent Redis servers.

Exclusive and fenced, without a queue: who waits tries again, in random steps. A minority of the servers may be
away. What is promised needs servers that keep their data over a restart, or stay away for the longest ttl.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from inturn import arguments
from inturn.locks.quorum_holdings import QuorumHoldings
from inturn.locks.quorum.lock import QuorumLock


class Quorum(QuorumHoldings):
    """`quorum = Quorum([url1, url2, url3])`, and then `async with quorum.lock("x") as lease:`."""

    def lock(
        self,
        name: str,
        ttl: arguments.Seconds = 30,
        wait: arguments.Seconds | None = None,
        *,
        renew: bool = True,
    ) -> QuorumLock:
        """`wait`: seconds to wait, `None` as long as it takes, `0` not at all.

        The lease is renewed while this process lives; after a crash it ends within `ttl`. `renew=False` makes it
        end after `ttl` in any case, unless it is extended.
        """
        return QuorumLock(self, name, ttl, wait, renew=renew)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


__all__ = ["Quorum", "QuorumLock"]
