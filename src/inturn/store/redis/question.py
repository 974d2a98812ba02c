"""One question to a server that is asked rarely: who is the master, who serves which slot. On its own connection."""

from __future__ import annotations

import asyncio
from typing import Any

from inturn.store.redis.address import Address
from inturn.store.redis.link import Link, LinkLost, LinkRefused, Reply


class _Question(Link):
    """It neither listens nor reads the clock, which a sentinel does not tell."""

    async def read_clock(self) -> None:
        return


async def ask_once(address: Address, within_s: float, *command: Any) -> Reply:
    """The answer, or `LinkLost`: also for an error, since somebody else may know better."""
    link = _Question(address, within_s, (), lambda text: None, lambda is_again: None)
    try:
        async with asyncio.timeout(within_s):
            await link.open()
            reply = await link.ask(*command)
            link.admit(reply)
    except TimeoutError:
        raise LinkLost(f"{address} did not answer within {within_s:g} s") from None
    finally:
        link.close()
    return reply


def all_together(what: str, troubles: list[LinkLost]) -> LinkLost:
    """What went wrong with each. It is final if it was so with all of them."""
    kind = LinkRefused if all(isinstance(trouble, LinkRefused) for trouble in troubles) else LinkLost
    return kind(f"{what}: {'; '.join(dict.fromkeys(map(str, troubles)))}")
