"""One run: a store, workers under load, faults of some kinds; then rest, a look at the store, a verdict."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tests.chaos import aftermath, faults
from tests.chaos.checker import Rules, Violation, check
from tests.chaos.history import History, Recorder, read
from tests.chaos.load import Load
from tests.chaos.proxy import Proxy
from tests.chaos.sides import InTurnSide, open_side
from tests.chaos.workers import Workers
from tests.servers import PrivateRedis

WORKERS = 4
LOOKS_WITHIN_S = 20.0
"""Who only looks waits for a store that is slow."""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    store: str
    strikes: tuple[faults.Strike, ...] = ()
    every_s: float = 1.0
    may_lose: bool = True
    has_proxy: bool = False
    keeps_data: bool = False
    cancels: float = 0.02
    blocks: bool = False


PROCESSES = (faults.kill_holder, faults.kill_anyone, faults.stop_holder)
SERVER = (faults.flush_scripts, faults.restart, faults.away, faults.cut, faults.stall, faults.isolate)

SCENARIOS = (
    Scenario("no faults", "redis", may_lose=False),
    Scenario("kill", "redis", (faults.kill_holder, faults.kill_anyone), 0.7, may_lose=False),
    Scenario("stop", "redis", (faults.stop_holder, faults.stop_shortly), 0.7),
    Scenario("blocked loop", "redis", may_lose=False, blocks=True),
    Scenario("cancel", "redis", may_lose=False, cancels=0.5),
    Scenario("script flush", "redis", (faults.flush_scripts,), 0.2, may_lose=False),
    Scenario("store away", "redis", (faults.away,), 1.5),
    Scenario("restart with data", "redis", (faults.restart,), 1.0, keeps_data=True),
    Scenario("restart without data", "redis", (faults.wipe,), 1.5),
    Scenario("cut connections", "redis", (*[faults.cut] * 3, faults.stall), 0.1, has_proxy=True),
    Scenario("isolated holder", "redis", (faults.isolate,), 0.7, has_proxy=True),
    Scenario("everything", "redis", PROCESSES + SERVER, 0.3, has_proxy=True, keeps_data=True, cancels=0.2, blocks=True),
    Scenario("no faults", "sqlite", may_lose=False),
    Scenario("kill", "sqlite", (faults.kill_holder, faults.kill_anyone), 0.7, may_lose=False),
    Scenario("stop", "sqlite", (faults.stop_holder, faults.stop_shortly), 0.7),
    Scenario("blocked loop", "sqlite", may_lose=False, blocks=True),
    Scenario("cancel", "sqlite", may_lose=False, cancels=0.5),
    Scenario("store away", "sqlite", (faults.away,), 1.5),
    Scenario("everything", "sqlite", PROCESSES, 0.5, cancels=0.2, blocks=True),
)


@dataclass(slots=True)
class Result:
    history: History
    violations: list[Violation]
    kept: Path | None = None
    """Where the histories and logs of a run with violations are."""

    @property
    def faults(self) -> Counter[str]:
        named = Counter(fault.kind for fault in self.history.faults if fault.kind != "stall")
        return named + Counter({kind: self.history.counts[kind] for kind in ("block", "cancel")})

    @property
    def handovers(self) -> int:
        """Grants to someone who had waited."""
        return sum(1 for hold in self.history.holds if hold.arrival and hold.arrival < hold.fence)


@dataclass(slots=True)
class Run:
    scenario: Scenario
    lock: str
    seconds: float
    seed: int
    workers: int = WORKERS

    async def play(self) -> Result:
        folder = Path(tempfile.mkdtemp(prefix="inturn-chaos-"))
        try:
            violations = await self._play(folder)
            history = read(folder)
            rules = Rules(ttl_s=Load("", "", "", "").ttl_s, may_lose=self.scenario.may_lose)
            violations += check(history, rules)
        except BaseException:
            print(f"what was recorded is in {folder}")  # the run itself failed: keep what there is
            raise
        if violations and self.lock == "inturn":
            (folder / "violations.txt").write_text("\n".join(f"{v.kind} {v.what}: {v.text}" for v in violations))
            return Result(history, violations, folder)
        shutil.rmtree(folder)
        return Result(history, violations)

    async def _play(self, folder: Path) -> list[Violation]:
        scenario = self.scenario
        found: list[Violation] = []
        recorder = Recorder(folder / "faults.jsonl")
        chance = random.Random(self.seed)
        async with AsyncExitStack() as stack:
            stack.callback(recorder.close)
            server = proxy = None
            url = f"sqlite:///{folder}/inturn.db"
            if scenario.store == "redis":
                server = await asyncio.to_thread(self._start_redis, stack)
                url = server.url
            load = Load(
                self.lock, url, "chaos", str(folder), self.seed, cancels=scenario.cancels, blocks=scenario.blocks
            )
            side = open_side(replace(load, store_timeout_s=LOOKS_WITHIN_S))
            stack.push_async_callback(side.close)
            behind = load
            if scenario.has_proxy and server is not None:
                proxy = await stack.enter_async_context(Proxy(server.port))
                behind = replace(load, url=proxy.url)
            workers = Workers(behind, self.workers, recorder)
            stack.callback(workers.destroy)
            await workers.start()

            async def holder_pid(chance: random.Random) -> int | None:
                name, _ = chance.choice([entry for entry in load.names if entry[1] == 1])
                return await side.holder_pid(name)

            field = faults.Field(load, workers, holder_pid, recorder, chance, server, proxy)
            await faults.rage(field, scenario.strikes, scenario.every_s, self.seconds)
            if proxy is not None:
                proxy.heal()
            await workers.rest(within_s=load.ttl_s + 3 * load.store_timeout_s + 30)
            if isinstance(side, InTurnSide):
                found += await aftermath.stuck_names(side.app, load)
            await workers.end()
            if isinstance(side, InTurnSide):
                found += await aftermath.what_is_left(side.app, load)
        return found

    def _start_redis(self, stack: ExitStack | AsyncExitStack) -> PrivateRedis:
        extra = ("--appendfsync", "always") if self.scenario.keeps_data else ()
        return stack.enter_context(PrivateRedis(appendonly=self.scenario.keeps_data, extra=extra))
