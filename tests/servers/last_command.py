"""One shell command that runs when the process that gave it is gone, however it ended.

A `sh` reads from a pipe whose other end only this process holds: `kill -9` closes the pipe. (PR_SET_PDEATHSIG would
already end a server when the *thread* that started it ends.)
"""

from __future__ import annotations

import os
import shlex
import subprocess
import weakref
from pathlib import Path

_SCRIPT = 'last=:; while IFS= read -r line; do last=$line; done; eval "$last"'
_given: weakref.WeakSet[LastCommand] = weakref.WeakSet()


class LastCommand:
    """The newest command that was set counts."""

    def __init__(self) -> None:
        # A session of its own, so that Ctrl-C in the terminal does not reach it.
        self._shell = subprocess.Popen(
            ["sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _given.add(self)

    def set(self, command: str) -> None:
        """Run `command` (one line) once this process is gone."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{command}\n".encode())
        self._shell.stdin.flush()

    def dismiss(self) -> None:
        """Forget the command: nothing runs at the end."""
        self.set(":")
        self._let_go()
        self._shell.wait()

    def _let_go(self) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.close()


def removal(folder: Path) -> str:
    """The shell command for it. A server of many threads may still make a file while it is being killed."""
    path = shlex.quote(str(folder))
    return f"rm -rf {path} || {{ sleep 1; rm -rf {path}; }}"


def end_of_all_in(folder: Path, then: str = ":") -> str:
    """The shell command that kills whoever works in a folder, does `then`, and removes the folder.

    It is for a process that is being started, while nobody knows its number yet: either it is found in the folder, or
    it finds the folder gone, and does not start.
    """
    path = shlex.quote(f"/cwd -> {folder}")
    links = f"ls -ld /proc/[0-9]*/cwd 2>/dev/null | grep -F {path}"
    kill = rf"kill -9 $({links} | sed 's|.*/proc/\([0-9]*\)/cwd -> .*|\1|')"
    return f"{kill}; {then}; {removal(folder)}; {kill}; {removal(folder)}"


def _let_go_in_the_child() -> None:
    # A forked child that outlives its parent must not hold the pipe open.
    for last in list(_given):
        last._let_go()


os.register_at_fork(after_in_child=_let_go_in_the_child)
