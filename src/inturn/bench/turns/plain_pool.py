"""Our scripts without our link: each call goes through a pool of redis-py, which reads and writes one at a time.

The verbs build keys and arguments as they always do, so that what is compared cannot drift apart.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from inturn.store import clock
from inturn.store.redis.lanes import LaneVerbs
from inturn.store.redis.link import Reply
from inturn.store.redis.scripts import Script, load


class PlainPool(LaneVerbs):
    def __init__(self, client: Redis, url: str, process: str, namespace: str) -> None:
        super().__init__(url, process, namespace=namespace)
        self._client = client
        self._skew_s = 0.0

    async def load_scripts(self) -> None:
        for verb in ("begin", "commit"):
            await self._client.script_load(load(verb).source.decode())
        seconds, micros = await self._client.time()
        self._skew_s = seconds + micros / 1e6 - clock.now()

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
        sent_at = clock.now()
        deadline_ms = int((sent_at + self.timeout_s + self._skew_s) * 1000)
        used = keys if last_key is None else (*keys, last_key)
        reply = await self._client.evalsha(script.sha.decode(), len(used), *used, *fixed, *varying, deadline_ms)
        return reply, sent_at, 1
