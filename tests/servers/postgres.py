"""A private PostgreSQL that can be killed, paused and restarted, and keeps all that it has committed.

Whoever reaches 127.0.0.1 on its port is its superuser `inturn`, without a password. PostgreSQL is a family of
processes: pause, resume and kill mean all of them. It refuses to be root; if we are, it runs as another user, who owns
its folder. None of this needs a PostgreSQL client library: the programs beside `postgres` are asked.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import quote

from tests.servers.program import Compose, Family, Local, Program, find_postgres
from tests.servers.server import TAKEN, PrivateServer, ServerFailed

USER = "inturn"
DATABASE = "inturn"
ANSWERS_WITHIN_S = 60.0
FAMILY_WITHIN_S = 10.0

SETTINGS = {
    "shared_buffers": "32MB",
    "max_connections": "200",
    "dynamic_shared_memory_type": "mmap",  # in its folder: it goes with it
}
# Without fsync only a machine that loses power loses data. The rest stays as it is: with `synchronous_commit` off a
# killed process would lose commits, and with `full_page_writes` off it could leave half a page.
FAST_SETTINGS = {"fsync": "off", "min_wal_size": "32MB", "max_wal_size": "128MB"}


class PrivatePostgres(PrivateServer):
    """A `postgres` for this process alone. Without `is_fast` it waits for the disk, as it does in production."""

    kind: ClassVar[str] = "postgres"
    ready_s: ClassVar[float] = 60.0
    look_again_s: ClassVar[float] = 0.02
    try_again: ClassVar[tuple[str, ...]] = (
        *TAKEN,
        # somebody else killed the first process alone, and the others have not noticed yet
        "pre-existing shared memory block",
        'lock file "postmaster.pid" already exists',
    )

    def __init__(self, *, is_fast: bool = True, program: Program | None = None) -> None:
        super().__init__(program)
        self._is_fast = is_fast

    @property
    def url(self) -> str:
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def create_database(self, name: str) -> None:
        self.execute(f"CREATE DATABASE {_quoted(name)}", database="postgres")

    def drop_database(self, name: str) -> None:
        """Also if there are connections to it: they are ended. It is no error if there is no such database."""
        self.execute(f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)", database="postgres")

    def execute(self, statement: str, *, database: str = DATABASE) -> str:
        """Returns a line for each row, with `|` between the columns. A refusal raises `ServerFailed`."""
        asked = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"]
        asked += ["--dbname", database, "--command", statement]
        done = self._ask("psql", self.port, *asked, within_s=ANSWERS_WITHIN_S)
        if done.returncode != 0:
            raise ServerFailed(f"PostgreSQL refused {statement!r}: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")

    def start(self) -> Self:
        if self.is_running:
            return self
        super().start()
        try:
            if not self.execute(f"SELECT 1 FROM pg_database WHERE datname = '{DATABASE}'", database="postgres"):
                self.create_database(DATABASE)
        except BaseException:
            self.stop()
            raise
        return self

    def restart(self) -> None:
        """Stop and start on the same port. Transactions that are open are rolled back, connections are closed."""
        self.resume()  # a paused server could not shut down
        self._end(signal.SIGINT)
        self.start()

    def pause(self) -> None:
        super().pause()
        if self.is_running:
            _wait_until_all(_children(self.pid), in_states="TtZ")

    def find(self) -> Program:
        return find_postgres()

    def arguments(self, program: Program, port: int) -> list[str]:
        values = {**SETTINGS, **(FAST_SETTINGS if self._is_fast else {})}
        values |= {"listen_addresses": program.bind, "port": str(port)}
        if isinstance(program, Local):
            values["unix_socket_directories"] = str(self.folder)
            if not self._data.exists():
                self._initialize(program)
        return [text for name, value in values.items() for text in ("-c", f"{name}={value}")]

    def environment(self, program: Program, port: int) -> dict[str, str]:
        ours = {"PGDATA": str(self._data), "HOME": str(self.folder)}
        if isinstance(program, Compose):  # the image makes the data folder itself
            ours |= {"POSTGRES_USER": USER, "POSTGRES_DB": DATABASE, "POSTGRES_HOST_AUTH_METHOD": "trust"}
        return ours

    def answers(self, program: Program, port: int) -> bool:
        try:
            return self._ask("pg_isready", port, "--quiet", within_s=5).returncode == 0
        except ServerFailed:
            return False

    def leftovers(self) -> str:
        """The kernel keeps a few bytes of shared memory of a server that was killed; its lock file names them.

        A container's go with it, and their number could be somebody else's here.
        """
        if isinstance(self._program, Compose):
            return ":"
        return f"ipcrm -m $(sed -n '7s/.* //p' {shlex.quote(str(self._data / 'postmaster.pid'))})"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _fresh_folder(self, program: Program) -> Path:
        folder = super()._fresh_folder(program)
        if isinstance(program, Family) and program.user is not None:
            shutil.chown(folder, program.user)
        return folder

    def _initialize(self, program: Local) -> None:
        self._end_all_at_the_end()
        asked = ["--no-sync", "--no-instructions", f"--username={USER}", "--auth=trust"]
        asked += ["--encoding=UTF8", "--locale=C", f"--pgdata={self._data}"]
        initdb = replace(program, path=_beside(program, "initdb"))
        command = [*initdb.command(self._name, self.folder, [], {"HOME": str(self.folder)}), *asked]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise ServerFailed(f"initdb made no data folder:\n{(done.stdout + done.stderr)[-2000:]}")

    def _end(self, how: signal.Signals) -> None:
        """Returns when the whole family has ended: it holds memory that the next start needs."""
        children = _children(self.pid) if self.is_running else []
        super()._end(how)
        _wait_until_all(children, in_states="ZX")

    def _ask(self, tool: str, port: int, *arguments: str, within_s: float) -> subprocess.CompletedProcess[str]:
        """Through its socket, where only our own server can answer; on the port, in a race, another could."""
        if isinstance(self._program, Local):
            command, host = [_beside(self._program, tool)], str(self.folder)
        else:
            command, host = ["docker", "exec", self._name, tool], "127.0.0.1"
        seen = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "HOME": str(self.folder)}
        command += ["--host", host, "--port", str(port), "--username", USER, *arguments]
        try:
            return subprocess.run(
                command,
                env=seen,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=within_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServerFailed(f"{tool} got no answer: {error}") from error


def _beside(program: Local, tool: str) -> str:
    """A link to `postgres` may stand alone."""
    here = Path(program.path)
    return str(next((path for path in (here.with_name(tool), here.resolve().with_name(tool)) if path.exists()), tool))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _children(pid: int) -> list[int]:
    """None where there is no /proc."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _wait_until_all(pids: list[int], *, in_states: str) -> None:
    """Of a process that is gone nothing more is expected."""
    deadline = time.monotonic() + FAMILY_WITHIN_S
    while not all(_state(pid) in in_states for pid in pids):
        if time.monotonic() > deadline:
            raise ServerFailed(f"processes of PostgreSQL do not obey: {pids}")
        time.sleep(0.002)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
