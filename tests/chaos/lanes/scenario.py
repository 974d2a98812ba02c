"""One run: a store, workers and clients, faults; then everything drains, and the store is looked at and judged."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from inturn.errors import StoreUnavailable
from tests.chaos import faults
from tests.chaos.checker import Violation
from tests.chaos.history import Recorder, now
from tests.chaos.lanes.checker import check
from tests.chaos.lanes.history import Found, Name, Told, read
from tests.chaos.lanes.load import LaneLoad
from tests.chaos.lanes.open import open_side
from tests.chaos.lanes.sides import Side
from tests.chaos.lanes.worker import idle_file
from tests.chaos.proxy import Proxy
from tests.chaos.scenario import LOOKS_WITHIN_S
from tests.chaos.workers import Workers
from tests.servers import PrivateRedis

WORKERS = 6
DRAINS_WITHIN_LEASES = 4
IDLE_WITHIN_S = 60.0
CLIENTS_END_WITHIN_S = 90.0
"""After the load: whatever they await has a time limit."""
UNEXPLAINED = ("user_script", "unexpected", "Traceback", "never retrieved", "never awaited")
INTENDED = re.compile(r"\n *Traceback [^\n]*(?:\n   [^\n]*)+\n *tests\.chaos\.lanes\.load\.Fails(?=\n)")
"""The traceback of a handler that was told to fail."""
LEAVES_WITHIN_S = 30.0
"""A worker that was told to end: its grace, and what it has to tell a store that may be away."""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    store: str
    strikes: tuple[faults.Strike, ...] = ()
    every_s: float = 0.7
    partitions: int = 1
    share: float = 1.0
    """Of the time of all scenarios."""
    pause_s: float = 0.4


PROCESSES = (faults.kill_holder, faults.kill_anyone, faults.stop_holder, faults.terminate)
SERVER = (faults.flush_scripts, faults.restart, faults.away)
NETWORK = (faults.cut, faults.cut, faults.stall, faults.isolate, faults.slow)

SCENARIOS = (
    Scenario("processes", "redis", PROCESSES),
    Scenario("server, network", "redis", SERVER + NETWORK, 0.5),
    Scenario("everything", "redis", PROCESSES + SERVER + NETWORK, 0.4, share=2.0),
    Scenario("four partitions", "redis", PROCESSES + SERVER + NETWORK, 0.4, partitions=4),
    Scenario("processes", "sqlite", PROCESSES, pause_s=1.0),
    Scenario("everything", "sqlite", (*PROCESSES, faults.away), pause_s=1.0),
)


@dataclass(slots=True)
class Result:
    told: Told
    found: Found
    violations: list[Violation]
    drained_s: float
    kept: Path | None = None
    """Where the histories and logs of a run with violations are."""

    @property
    def applied(self) -> int:
        return sum(len(state["list"]) for state in self.found.lanes.values())

    @property
    def inline(self) -> int:
        """Turns among them that were inline."""
        return sum(1 for state in self.found.lanes.values() for entry in state["list"] if entry["by"] == "inline")

    @property
    def joined(self) -> int:
        """Messages that were applied by the turn of another: merged, interrupted or steered."""
        return sum(1 for state in self.found.lanes.values() for entry in state["list"] if "lead" in entry)

    @property
    def sends(self) -> int:
        """That arrived."""
        hops = sum(1 for state in self.found.lanes.values() for entry in state["list"] if entry["by"] == "hop")
        return hops + sum(map(len, self.found.audits.values()))


@dataclass(slots=True)
class Run:
    scenario: Scenario
    side: str
    seconds: float
    seed: int
    workers: int = WORKERS
    lanes: int = 100
    tell: Callable[[str], None] = lambda progress: None

    async def play(self) -> Result:
        folder = Path(tempfile.mkdtemp(prefix="inturn-chaos-lanes-"))
        try:
            found, drained_s = await self._play(folder)
            told = read(folder)
            violations = check(told, found)
        except BaseException:
            print(f"what was recorded is in {folder}")  # the run itself failed: keep what there is
            raise
        if violations and self.side == "inturn":
            (folder / "violations.txt").write_text("\n".join(f"{v.kind} {v.what}: {v.text}" for v in violations))
            return Result(told, found, violations, drained_s, folder)
        shutil.rmtree(folder)
        return Result(told, found, violations, drained_s)

    async def _play(self, folder: Path) -> tuple[Found, float]:
        scenario = self.scenario
        recorder = Recorder(folder / "faults.jsonl")
        async with AsyncExitStack() as stack:
            stack.callback(recorder.close)
            server = proxy = None
            url = f"sqlite:///{folder}/inturn.db"
            if scenario.store == "redis":
                # an answered write is on the disk: what was acknowledged is judged, also across a kill of the server
                server = PrivateRedis(appendonly=True, extra=("--appendfsync", "always"))
                await asyncio.to_thread(server.start)
                stack.callback(server.stop)
                url = server.url
            load = LaneLoad(
                self.side, url, "chaos", str(folder), self.seed, lanes=self.lanes,
                partitions=scenario.partitions, pause_s=scenario.pause_s,
            )  # fmt: skip
            side = open_side(replace(load, store_timeout_s=LOOKS_WITHIN_S))
            stack.push_async_callback(side.close)
            behind = load
            if server is not None:
                proxy = await stack.enter_async_context(Proxy(server.port))
                behind = replace(behind, url=proxy.url)
            workers = Workers(behind, self.workers, recorder, "tests.chaos.lanes.worker")
            stack.callback(workers.destroy)
            await workers.start()
            clients = Workers(behind, load.clients, recorder, "tests.chaos.lanes.client", replaces=False)
            stack.callback(clients.destroy)
            await clients.start()
            load.end_at(now() + self.seconds)

            async def holder_pid(chance: random.Random) -> int | None:
                holders = sorted(await side.holders())
                return chance.choice(holders) if holders else None

            watching = asyncio.create_task(self._watch(folder))
            stack.callback(watching.cancel)
            field = faults.Field(load, workers, holder_pid, recorder, random.Random(self.seed), server, proxy)
            await faults.rage(field, scenario.strikes, scenario.every_s, self.seconds)
            if proxy is not None:
                proxy.heal()
            found = Found()
            try:
                await clients.ended(CLIENTS_END_WITHIN_S)
            except TimeoutError as error:
                found.bad_exits.append(f"clients: {error}")
                clients.destroy()
            await workers.steady()
            await self._until_idle(workers, load)
            drained_s = await self._drain(side, load, found)
            found.bad_exits += [f"worker {pid} ended with an error" for pid in workers.broken]
            found.bad_exits += [f"worker {pid} does not end" for pid in workers.late(LEAVES_WITHIN_S)]
            try:
                await workers.end()
            except (RuntimeError, TimeoutError) as error:
                found.bad_exits.append(str(error))
            if not found.left:
                await self._drain(side, load, found)  # whoever ends in good order leaves nothing behind
            await self._look(side, load, found, read(folder))
            found.errors = await asyncio.to_thread(_errors, folder)
            if server is not None and self.side == "inturn":
                # every write of the run is in there: where a lane went wrong can be found, line by line
                await asyncio.to_thread(shutil.copytree, server.folder / "appendonlydir", folder / "appendonlydir")
        return found, drained_s

    @staticmethod
    async def _until_idle(workers: Workers, load: LaneLoad) -> None:
        """Inline turns that the workers have begun themselves come to their end."""
        gives_up_at = now() + IDLE_WITHIN_S
        while not all(idle_file(load, pid).exists() for pid in workers.pids):
            if now() > gives_up_at:
                return  # whoever is late is found by what it leaves
            await asyncio.sleep(0.05)

    async def _drain(self, side: Side, load: LaneLoad, found: Found) -> float:
        """Everything that was accepted has its turn, within a few leases."""
        began = now()
        while True:
            try:
                found.left = await side.left()
            except StoreUnavailable as error:
                found.left = [f"store {error}"]
            if not found.left or now() - began > load.ttl_s * DRAINS_WITHIN_LEASES:
                return now() - began
            await asyncio.sleep(0.1)

    @staticmethod
    async def _look(side: Side, load: LaneLoad, found: Found, told: Told) -> None:
        found.dead = {Name(*letter) for letter in await side.dead()}
        for key in load.keys:
            found.lanes[key] = await side.state(key)
            found.audits[key] = (await side.state(f"{key}>audit"))["list"]
        for name in {*told.asked, *told.inline}:
            result = await side.result(*name)
            if isinstance(result, str):
                found.written_off[name] = result
            elif result is not None:
                found.results[name] = result

    async def _watch(self, folder: Path) -> None:
        """Say from time to time how far it is."""
        began = now()
        while True:
            await asyncio.sleep(5)
            acked, struck = await asyncio.to_thread(_count_events, folder, "acked", "fault")
            self.tell(f"{now() - began:4.0f} s: {acked} messages acknowledged, {struck} faults")


def _errors(folder: Path) -> list[str]:
    """What the processes logged and no fault explains."""
    return [
        f"{file.name}: {line.strip()}"
        for file in sorted(folder.glob("*.log"))
        for line in INTENDED.sub("", file.read_text(errors="replace")).splitlines()
        if any(word in line for word in UNEXPLAINED)
    ]


def _count_events(folder: Path, *kinds: str) -> list[int]:
    written = [file.read_bytes() for file in folder.glob("*.jsonl")]
    return [sum(history.count(f'"event": "{kind}"'.encode()) for history in written) for kind in kinds]
