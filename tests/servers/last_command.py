"""A warden runs one shell command when the process that made it is gone, however it went.

It is a `sh` that reads from a pipe whose other end only its maker holds: `kill -9` of the maker
closes the pipe. (PR_SET_PDEATHSIG would end a server already when the *thread* that started it ends.)
"""

from __future__ import annotations

import os
import subprocess
import weakref

_SCRIPT = 'last=:; while IFS= read -r line; do last=$line; done; eval "$last"'
_wardens: weakref.WeakSet[Warden] = weakref.WeakSet()


class Warden:
    """Holds one last command; the newest given counts."""

    def __init__(self) -> None:
        # A session of its own, so that Ctrl-C in the terminal does not reach it.
        self._shell = subprocess.Popen(
            ["sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _wardens.add(self)

    def at_death(self, command: str) -> None:
        """Run `command` (one line) once this process is gone."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{command}\n".encode())
        self._shell.stdin.flush()

    def dismiss(self) -> None:
        """End the warden without its command."""
        self.at_death(":")
        self._let_go()
        self._shell.wait()

    def _let_go(self) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.close()


def _let_go_in_the_child() -> None:
    # A forked child that outlives its parent must not hold the pipe open.
    for warden in list(_wardens):
        warden._let_go()


os.register_at_fork(after_in_child=_let_go_in_the_child)
