"""One client process: it submits to its lanes, in sequence; some messages once more, also those of other clients.

`python -m tests.chaos.lanes.client '<LaneLoad as JSON>'`. It ends by itself when its time is over.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import sys
from pathlib import Path
from typing import NamedTuple

from inturn.errors import HandlerFailed, MessageCancelled, ResultExpired, StoreUnavailable, Superseded
from tests.chaos.history import Recorder, now
from tests.chaos.lanes.load import Fails, LaneLoad
from tests.chaos.lanes.open import open_side
from tests.chaos.lanes.sides import Side, Slip

BURST = 3
"""Messages of a lane before their results are waited for, so that what waits is bounded."""


class Message(NamedTuple):
    key: str
    by: str
    id: str
    number: int


class InlineTurns:
    """Turns of this process's own, on anybody's lanes."""

    def __init__(self, load: LaneLoad, side: Side, recorder: Recorder) -> None:
        self._load = load
        self._side = side
        self._recorder = recorder
        self._chance = load.chance
        self._ids = itertools.count(1)

    async def run(self, every_s: float) -> None:
        while (left_s := self._load.until - now()) > 0:
            pause_s = self._chance.expovariate(1 / every_s)
            await asyncio.sleep(min(pause_s, left_s))
            if pause_s > left_s:
                return
            key, message_id = self._chance.choice(self._load.keys), f"in.{os.getpid()}.{next(self._ids)}"
            self._recorder.write("inline", key=key, id=message_id, outcome="unknown")
            outcome = await self._side.inline(key, message_id, self._body)
            self._recorder.write("inline", key=key, id=message_id, outcome=outcome)

    async def _body(self) -> None:
        await asyncio.sleep(self._chance.choice((0.0, 0.0, 0.01, 0.1)))
        if self._chance.random() < 0.1:
            raise Fails


class Client:
    def __init__(self, load: LaneLoad, side: Side, recorder: Recorder) -> None:
        self._load = load
        self._side = side
        self._recorder = recorder
        self._chance = load.chance
        self._acked: list[Message] = []
        self._read: dict[Path, int] = {}

    async def run(self) -> None:
        mine = self._load.keys[self._load.number - 1 :: self._load.clients]
        again = asyncio.create_task(self._submit_again())
        inline = asyncio.create_task(InlineTurns(self._load, self._side, self._recorder).run(every_s=0.1))
        await asyncio.gather(*map(self._sequence, mine))
        await asyncio.gather(again, inline)

    async def _sequence(self, key: str) -> None:
        """The only one who brings new messages to this lane: each is acknowledged, or given up, before the next."""
        await asyncio.sleep(self._chance.uniform(0, self._load.pause_s))
        slips: list[tuple[Message, Slip]] = []
        cancels: list[asyncio.Task[None]] = []
        for number in range(1, self._load.most + 1):
            if now() > self._load.until:
                break
            message_id = f"{key}.{number}"
            message = Message(key, self._load.handler_of(message_id), message_id, number)
            if slip := await self._submit_new(message):
                slips.append((message, slip))
                if self._load.nature(message.by, message.id).is_cancelled:
                    cancels.append(asyncio.create_task(self._cancel(message, slip)))
            if len(slips) >= BURST:
                await self._await_results(slips)
                slips = []
            # people write two or three at once, and then wait
            pause_s = self._load.pause_s * 2.5 if number % 3 == 2 else 0.01
            await asyncio.sleep(self._chance.expovariate(1 / pause_s))
        await asyncio.gather(*cancels)
        await self._await_results(slips)

    async def _cancel(self, message: Message, slip: Slip) -> None:
        await asyncio.sleep(self._chance.choice((0.0, 0.0, 0.01, 0.1)))
        self._recorder.write("cancel", **message._asdict())
        try:
            if await slip.cancel():
                self._recorder.write("cancelled", **message._asdict())
        except StoreUnavailable:
            self._recorder.write("away")

    async def _submit_new(self, message: Message) -> Slip | None:
        self._recorder.write("asked", **message._asdict())
        while True:
            try:
                if self._chance.random() < 0.05:
                    slip, _ = await asyncio.gather(self._submit(message), self._submit(message))
                else:
                    slip = await self._submit(message)
            except StoreUnavailable:
                self._recorder.write("away")
                # its sender goes on: it may be there, or not
                if self._chance.random() < 0.2 or now() > self._load.until + self._load.ttl_s:
                    return None
                await asyncio.sleep(0.05)
            else:
                self._recorder.write("acked", **message._asdict())
                self._acked.append(message)
                return slip

    async def _submit(self, message: Message) -> Slip:
        return await self._side.submit(message.key, message.by, message.id, message.number)

    async def _await_results(self, slips: list[tuple[Message, Slip]]) -> None:
        await asyncio.gather(*(self._await_result(message, slip) for message, slip in slips))

    async def _await_result(self, message: Message, slip: Slip) -> None:
        facts, began = message._asdict(), now()
        try:
            entry = await slip.result(timeout=self._load.ttl_s * 3)
        except HandlerFailed:
            self._recorder.write("dead", **facts)
        except Superseded:
            self._recorder.write("superseded", **facts)
        except MessageCancelled:
            self._recorder.write("cancelled", **facts)
        except ResultExpired:
            self._recorder.write("expired", **facts)
        except StoreUnavailable:
            self._recorder.write("result away")
        except TimeoutError:
            self._recorder.write("result late", **facts)
        else:
            self._recorder.write("result", **facts, entry=entry, waited_s=now() - began)

    async def _submit_again(self) -> None:
        while now() < self._load.until:
            await asyncio.sleep(self._chance.expovariate(1 / 0.05))
            known = self._acked if self._chance.random() < 0.5 else self._acked_by_others()
            if not known:
                continue
            # a fresh one most often: it may still wait or run
            message = known[-1] if self._chance.random() < 0.5 else self._chance.choice(known)
            self._recorder.write("again")
            try:
                slip = await self._submit(message)
                if self._chance.random() < 0.2:
                    await self._await_result(message, slip)
            except StoreUnavailable:
                await asyncio.sleep(0.05)

    def _acked_by_others(self) -> list[Message]:
        """What came to their files since the last look."""
        found: list[Message] = []
        for file in Path(self._load.folder).glob("worker-*.jsonl"):
            if file.name == f"worker-{os.getpid()}.jsonl":
                continue
            with file.open("rb") as history:
                history.seek(self._read.get(file, 0))
                whole, _, _ = history.read().rpartition(b"\n")
            self._read[file] = self._read.get(file, 0) + len(whole) + (1 if whole else 0)
            for line in whole.split(b"\n"):
                if b'"event": "acked"' in line:
                    facts = json.loads(line)
                    found.append(Message(facts["key"], facts["by"], facts["id"], facts["number"]))
        return found


async def end_with_parent() -> None:
    parent = os.getppid()
    while True:
        await asyncio.sleep(1)
        if os.getppid() != parent:
            os._exit(1)


async def main() -> None:
    load = LaneLoad.from_json(sys.argv[1])
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    recorder = Recorder(Path(load.folder) / f"worker-{os.getpid()}.jsonl")
    orphaned = asyncio.create_task(end_with_parent())
    side = open_side(load)
    recorder.write("started")
    await Client(load, side, recorder).run()
    orphaned.cancel()
    await side.close()


if __name__ == "__main__":
    asyncio.run(main())
