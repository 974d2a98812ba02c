"""Runs a module as a process of its own, as `python -m` does, forked from a process that has already imported inturn.

A new interpreter takes a third of a second of processor time to import it, and a run of the tests starts hundreds. What
is forked has opened nothing: such a process shares no connection, thread or lease with any other. It can
be killed and stopped like any other. It is killed when the process that started it ends. If that one is killed, it gets
another parent, as any orphan.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing.util  # noqa: F401 - registers what it runs at exit before we do, so that ours runs first
import os
import runpy
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver, get_context
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

_forking = get_context("forkserver")
_forking.set_forkserver_preload(
    [
        "inturn.store.redis.store", "inturn.visitors.responder", "inturn.workflows.orchestrator", "runpy",
        "inturn.jobs.worker", "inturn.jobs.rabbitmq.transport", "openai.resources.chat.completions",
    ]
)  # fmt: skip


_started: weakref.WeakSet[ModuleProcess] = weakref.WeakSet()


@atexit.register
def _kill_all() -> None:
    """What a broken test left behind. Otherwise we would wait for it to end in good order, also if it is stopped."""
    for process in _started:
        process.kill()


class ModuleProcess:
    """With the methods of `subprocess.Popen` that tests use. It has a session of its own: Ctrl-C does not reach it."""

    def __init__(self, module: str, arguments: Sequence[str], *, files: Mapping[int, int]) -> None:
        """`files`: by its own descriptor (0, 1, 2), which of ours it gets. Without 0 it has nothing to read."""
        given = (module, list(arguments), dict(os.environ), {place: _File(ours) for place, ours in files.items()})
        self._process = _forking.Process(target=_run, args=given, daemon=True)
        self._process.start()
        _started.add(self)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None, "it was started"
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """As `poll()`: it does not have to be asked before."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise TimeoutError(f"process {self.pid} still runs after {timeout} s")
        return code

    def send_signal(self, which: signal.Signals) -> None:
        """Nothing happens if it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, which)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _File:
    """A descriptor on its way to the process: it arrives there as a number of its own."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Callable[..., int], tuple[Any]]:
        return _arrived, (DupFd(self._number),)


def _arrived(file: Any) -> int:
    number: int = file.detach()
    return number


def _run(module: str, arguments: list[str], environ: dict[str, str], files: dict[int, int]) -> None:
    # held open by us, it would keep the process that forked us from ending with the one that asked for us
    os.close(vars(forkserver)["_forkserver"]._forkserver_alive_fd)
    os.setsid()
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environ)
    for place, number in ({0: os.open(os.devnull, os.O_RDONLY)} | files).items():
        os.dup2(number, place)  # what arrived has a higher number than any place
        os.close(number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - open for as long as the process lives
    sys.argv = [module, *arguments]
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:  # as at the end of an interpreter, which this process leaves out
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
