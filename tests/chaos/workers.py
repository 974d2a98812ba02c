"""The worker processes of one run: started, killed, stopped, replaced, and all of them ended by their ids."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.chaos.history import Recorder, now
from tests.module_process import ModuleProcess

STARTS_WITHIN_S = 120.0
"""A dozen may start at once, on a machine that has other things to do."""


class Job(Protocol):
    """What the processes of a run are told to do."""

    @property
    def folder(self) -> str: ...
    def of_worker(self, number: int) -> Job: ...
    def as_json(self) -> str: ...


class Workers:
    """`size` processes of a module, each with its part of the job. Whoever dies is replaced, if it `replaces`."""

    def __init__(
        self, job: Job, size: int, recorder: Recorder, module: str = "tests.chaos.worker", replaces: bool = True
    ) -> None:
        self._job = job
        self._size = size
        self._recorder = recorder
        self._module = module
        self._replaces = replaces
        self._folder = Path(job.folder)
        self._workers: dict[int, ModuleProcess] = {}
        self._stopped: set[int] = set()
        self._killed: set[int] = set()
        self._leaving: dict[int, float] = {}
        self._started = 0
        self._keeping: asyncio.Task[None] | None = None
        self.broken: list[int] = []
        """Processes that ended with an error by themselves."""

    async def start(self) -> None:
        self._keep_up()
        await self._until(lambda: all(self._says(pid, "started") for pid in self._workers), STARTS_WITHIN_S, "start")
        if self._replaces:
            self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def _keep_up(self) -> None:
        """Replace whoever died."""
        for pid, worker in list(self._workers.items()):
            if worker.poll() is not None:
                del self._workers[pid]
                if worker.returncode != 0 and pid not in self._killed:
                    self.broken.append(pid)
        while len(self._workers) < self._size:
            self._started += 1
            job = self._job.of_worker(self._started).as_json()
            with (self._folder / f"{self._module.rpartition('.')[2]}-{self._started}.log").open("wb") as log:
                worker = ModuleProcess(self._module, [job], files={1: log.fileno(), 2: log.fileno()})
            self._workers[worker.pid] = worker

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            self._keep_up()

    @property
    def pids(self) -> list[int]:
        """Of those that run."""
        return [pid for pid in self._workers if self.is_ours(pid)]

    def any_pid(self, chance: random.Random) -> int:
        return chance.choice(sorted(self._workers))

    def is_ours(self, pid: int | None) -> bool:
        return pid in self._workers and self._workers[pid].poll() is None

    def kill(self, pid: int) -> None:
        if not self.is_ours(pid):
            return
        at = now()  # until the signal is sent the process can run, and does
        self._killed.add(pid)
        self._workers[pid].kill()
        self._recorder.write("fault", kind="kill", target=pid, began=at, ended=at)

    def terminate(self, pid: int) -> None:
        """In good order. A process that has not begun to work yet is left alone."""
        if self.is_ours(pid) and pid not in self._leaving and self._says(pid, "started"):
            at = self._leaving[pid] = now()
            self._workers[pid].terminate()
            self._recorder.write("fault", kind="term", target=pid, began=at, ended=at)

    def late(self, within_s: float) -> list[int]:
        """Who was told to end longer ago than that, and still runs."""
        return [pid for pid, at in self._leaving.items() if self.is_ours(pid) and now() - at > within_s]

    async def stop(self, pid: int, seconds: float) -> None:
        if pid in self._stopped:
            return
        began = now()
        self._stopped.add(pid)
        self._workers[pid].send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._stopped.discard(pid)
            if self.is_ours(pid):
                self._workers[pid].send_signal(signal.SIGCONT)
            self._recorder.write("fault", kind="stop", target=pid, began=began, ended=now())

    async def rest(self, within_s: float) -> None:
        """Every worker ends its holds and asks for nothing more, but lives and beats."""
        await self.steady()
        self._signal(signal.SIGUSR1)
        await self._until(lambda: all(self._says(pid, "resting", last=True) for pid in self._workers), within_s, "rest")

    async def steady(self) -> None:
        """Every place is filled, and stays with whom it has."""
        if self._keeping is not None:
            self._keeping.cancel()
        # one that was killed just now may not be gone yet, and would be taken for one that lives
        await self._until(lambda: not any(self.is_ours(pid) for pid in self._killed), 30, "die")
        self._keep_up()
        await self._until(lambda: all(self._says(pid, "started") for pid in self._workers), STARTS_WITHIN_S, "start")

    async def end(self) -> None:
        """Every worker closes in good order."""
        for pid, worker in self._workers.items():
            if pid not in self._leaving:  # a second signal would mean: hurry
                worker.send_signal(signal.SIGTERM)
        await self.ended(60)

    async def ended(self, within_s: float) -> None:
        """All of them have ended by themselves, and well."""
        await self._until(lambda: all(worker.poll() is not None for worker in self._workers.values()), within_s, "end")
        broken = [pid for pid, worker in self._workers.items() if worker.returncode != 0]
        if broken:
            raise RuntimeError(f"workers {broken} failed; see {self._folder}/*.log")

    def destroy(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
        for worker in self._workers.values():
            with contextlib.suppress(ProcessLookupError):
                worker.kill()
            worker.wait()

    def _signal(self, which: signal.Signals) -> None:
        for worker in self._workers.values():
            worker.send_signal(which)

    def _says(self, pid: int, event: str, last: bool = False) -> bool:
        file = self._folder / f"worker-{pid}.jsonl"
        if not file.exists():
            return False
        with file.open("rb") as history:
            if last:
                history.seek(max(0, os.fstat(history.fileno()).st_size - 2000))
            return f'"event": "{event}"'.encode() in history.read(2000)

    async def _until(self, is_true: Callable[[], bool], within_s: float, what: str) -> None:
        deadline = now() + within_s
        while not is_true():
            if now() > deadline:
                raise TimeoutError(f"the workers did not {what} within {within_s:g} s; see {self._folder}")
            await asyncio.sleep(0.02)
