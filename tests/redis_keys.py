"""Keys of the server that all tests share, which has so many in the end that ten at a time (SCAN) take seconds."""

from __future__ import annotations

from typing import Any

AT_A_TIME = 10_000


async def keys_like(client: Any, pattern: str) -> set[str]:
    """Of a redis-py client that is asynchronous."""
    return {key.decode() async for key in client.scan_iter(pattern, count=AT_A_TIME)}
