"""Publishing to those who watch a lane, and watching, on SQLite: best effort, beside everything else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from inturn.errors import StoreUnavailable
from inturn.store.sqlite import watching
from inturn.store.sqlite.calling import Caller
from inturn.store.sqlite.ears import Ear
from inturn.store.sqlite.transaction import Transaction


class WatchVerbs(Caller):
    def publish(self, key: str, text: bytes) -> None:
        """In this process without the disk; to others by way of the writer, which finds out whether there are any."""
        self.ears.hear(key, text)
        with self._starting:
            if self.writer is not None:
                self.writer.say(key, text)

    async def subscribe(self, key: str, listener: Callable[[bytes], None]) -> Callable[[], Awaitable[None]]:
        ear = Ear(key, listener)
        self.ears.add(ear)
        try:
            await self._call(watching.watch, self.process, (key,))
        except BaseException:
            self.ears.remove(ear)
            raise

        async def unsubscribe() -> None:
            self.ears.remove(ear)
            if key not in self.ears:
                with suppress(StoreUnavailable):  # we are forgotten in time
                    await self._call(self._unwatch, key)

        return unsubscribe

    def _unwatch(self, tx: Transaction, key: str) -> None:
        if key not in self.ears:  # nobody has begun to watch it again
            watching.unwatch(tx, self.process, key)
