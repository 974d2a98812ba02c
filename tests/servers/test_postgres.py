"""A private PostgreSQL is reachable, keeps what it committed, can be killed and paused, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.servers import MissingProgram, PrivatePostgres, ServerFailed, program
from tests.servers.program import Compose, Family, Local, find_postgres
from tests.servers.test_program import bin_only, real, script, stand_in  # noqa: F401
from tests.servers.test_redis import is_alive
from tests.waiting import wait_until

SCRIPT = """
import time
from tests.servers import PrivatePostgres
server = PrivatePostgres().start()
print(server.pid, server.folder, flush=True)
time.sleep(120)
"""
TABLE = "CREATE TABLE kept (id integer); INSERT INTO kept VALUES (7)"
SSL_REQUEST = b"\0\0\0\x08\x04\xd2\x16\x2f"
"""The first that a client may say; the answer is one letter."""


def processes_of(folder: Path) -> set[int]:
    """The first process and its children work in the data folder."""
    found = set()
    for cwd in Path("/proc").glob("[0-9]*/cwd"):
        try:
            is_ours = folder in cwd.readlink().parents
        except OSError:
            continue  # it has ended, or is another user's
        if is_ours and is_alive(int(cwd.parent.name)):
            found.add(int(cwd.parent.name))
    return found


def memory_of(folder: Path) -> str:
    """The number of the shared memory that a server leaves behind if it is killed."""
    return (folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]


def has_memory(number: str) -> bool:
    segments = Path("/proc/sysvipc/shm")
    return segments.exists() and number in {line.split()[1] for line in segments.read_text().splitlines()[1:]}


@contextmanager
def busy_client(server: PrivatePostgres) -> Iterator[None]:
    """A connection whose backend computes, and so does not notice that the first process is gone."""
    assert isinstance(server._program, Local)
    psql = str(Path(server._program.path).with_name("psql"))
    command = [psql, "--dbname", server.url, "--command", "SELECT count(*) FROM generate_series(1, 100000000000) a"]
    client = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    is_busy = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series(1, %'"
    try:
        wait_until(lambda: int(server.execute(is_busy)) >= 2)  # the one that asks is the other
        yield
    finally:
        client.kill()
        client.wait()


def says_a_word(port: int, within_s: float) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=within_s) as link:
        link.sendall(SSL_REQUEST)
        try:
            return link.recv(1) == b"N"
        except TimeoutError:
            return False


def test_it_answers_on_a_port_of_its_own_as_its_own_process(postgres_server: PrivatePostgres) -> None:
    assert postgres_server.port != 5432
    assert postgres_server.url == f"postgresql://inturn@127.0.0.1:{postgres_server.port}/inturn"
    assert postgres_server.execute("SELECT current_user, current_database()") == "inturn|inturn"
    assert says_a_word(postgres_server.port, 20)
    first = (postgres_server.folder / "data" / "postmaster.pid").read_text().splitlines()[0]
    assert int(first) == postgres_server.pid  # no program that waits for it
    shown = {
        name: postgres_server.execute(f"SHOW {name}") for name in ("fsync", "synchronous_commit", "listen_addresses")
    }
    assert shown == {"fsync": "off", "synchronous_commit": "on", "listen_addresses": "127.0.0.1"}


def test_one_that_is_not_fast_waits_for_the_disk() -> None:
    with PrivatePostgres(is_fast=False) as server:
        assert server.execute("SHOW fsync") == "on"


def test_a_statement_that_is_refused_is_an_error_with_its_words(postgres_server: PrivatePostgres) -> None:
    with pytest.raises(ServerFailed, match='relation "nowhere" does not exist'):
        postgres_server.execute("SELECT * FROM nowhere")


def test_a_database_is_dropped_with_its_connections(postgres_server: PrivatePostgres) -> None:
    name = 'a "strange"/name'
    postgres_server.create_database(name)
    assert postgres_server.url_of(name).endswith("/a%20%22strange%22%2Fname")
    with pytest.raises(ServerFailed, match="already exists"):
        postgres_server.create_database(name)
    postgres_server.execute(TABLE, database=name)
    postgres_server.drop_database(name)
    postgres_server.drop_database(name)  # may be repeated
    with pytest.raises(ServerFailed, match="does not exist"):
        postgres_server.execute("SELECT 1", database=name)


def test_what_it_committed_is_there_when_it_was_killed_and_started_again(fresh_postgres: PrivatePostgres) -> None:
    fresh_postgres.execute(TABLE)
    before = (fresh_postgres.url, fresh_postgres.pid)
    for round_ in range(1, 4):
        with busy_client(fresh_postgres):
            fresh_postgres.execute("INSERT INTO kept VALUES (7)")
            fresh_postgres.kill()
            assert not fresh_postgres.is_running
            assert not processes_of(fresh_postgres.folder)
        with pytest.raises(ServerFailed):
            fresh_postgres.execute("SELECT 1")
        fresh_postgres.start()
        assert fresh_postgres.execute("SELECT count(*), min(id) FROM kept") == f"{round_ + 1}|7"
    assert fresh_postgres.url == before[0]
    assert fresh_postgres.pid != before[1]


def test_it_starts_again_although_others_of_its_processes_still_run(fresh_postgres: PrivatePostgres) -> None:
    fresh_postgres.execute(TABLE)
    with busy_client(fresh_postgres):
        os.kill(fresh_postgres.pid, signal.SIGKILL)
        wait_until(lambda: not fresh_postgres.is_running)
        left = processes_of(fresh_postgres.folder)
        killer = subprocess.Popen(
            ["sh", "-c", f"sleep 1; kill -9 {' '.join(map(str, left))}"], stderr=subprocess.DEVNULL
        )
        fresh_postgres.start()
        killer.wait(20)
    assert fresh_postgres.execute("SELECT id FROM kept") == "7"


def test_a_restart_keeps_its_data_also_if_it_is_paused(fresh_postgres: PrivatePostgres) -> None:
    fresh_postgres.execute(TABLE)
    before = (fresh_postgres.url, fresh_postgres.pid)
    fresh_postgres.restart()
    assert "was not properly shut down" not in fresh_postgres.log
    fresh_postgres.pause()
    fresh_postgres.restart()
    assert "was not properly shut down" not in fresh_postgres.log
    assert fresh_postgres.execute("SELECT id FROM kept") == "7"
    assert fresh_postgres.url == before[0]
    assert fresh_postgres.pid != before[1]


def test_a_paused_server_is_silent_to_old_connections_and_new_ones(fresh_postgres: PrivatePostgres) -> None:
    with socket.create_connection(("127.0.0.1", fresh_postgres.port), timeout=20) as old:
        old.sendall(SSL_REQUEST)
        assert old.recv(1) == b"N"
        fresh_postgres.pause()
        old.sendall(SSL_REQUEST)
        old.settimeout(0.5)
        with pytest.raises(TimeoutError):
            old.recv(1)
        assert not says_a_word(fresh_postgres.port, 0.5)
        fresh_postgres.resume()
        old.settimeout(20)
        assert old.recv(1) in (b"N", b"E", b"")  # it may refuse to be asked twice, but it says so
    assert fresh_postgres.execute("SELECT 1") == "1"


def test_two_share_nothing(fresh_postgres: PrivatePostgres, postgres_server: PrivatePostgres) -> None:
    assert fresh_postgres.port != postgres_server.port
    assert fresh_postgres.folder != postgres_server.folder
    fresh_postgres.create_database("only_here")
    assert postgres_server.execute("SELECT 1 FROM pg_database WHERE datname = 'only_here'") == ""


def test_after_stop_nothing_is_left_and_it_can_start_anew() -> None:
    server = PrivatePostgres()
    for _ in range(2):
        with ExitStack() as later, server:
            pid, folder, port, memory = server.pid, server.folder, server.port, memory_of(server.folder)
            assert sys.platform != "linux" or (len(processes_of(folder)) > 3 and has_memory(memory))
            server.execute(TABLE)
            later.enter_context(busy_client(server))
        assert not is_alive(pid)
        assert not processes_of(folder)
        assert not folder.exists()
        assert not has_memory(memory)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
        server.stop()  # may be repeated


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_parent_that_is_killed_takes_its_server_with_it(is_paused: bool) -> None:
    code = SCRIPT.replace("print(", "server.pause(); print(") if is_paused else SCRIPT
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().decode().split()
        memory = memory_of(Path(folder))
        assert is_alive(int(pid))
        parent.send_signal(signal.SIGKILL)
        parent.wait(30)
        wait_until(lambda: not is_alive(int(pid)))
        wait_until(lambda: not processes_of(Path(folder)))
        wait_until(lambda: not Path(folder).exists())
        assert not has_memory(memory)


def test_a_start_that_fails_says_why_and_leaves_nothing() -> None:
    server = PrivatePostgres(program=Local("/bin/false"))
    with pytest.raises(ServerFailed, match="initdb"):
        server.start()
    assert not server.is_running


def test_a_test_has_a_database_to_itself(postgres_server: PrivatePostgres, postgres_url: str, namespace: str) -> None:
    name = namespace.replace("-", "_")
    assert postgres_url == postgres_server.url_of(name)
    assert postgres_server.execute("SELECT current_database()", database=name) == name


def test_there_is_a_database_of_each_kind(database_url: str) -> None:
    assert database_url.startswith(("sqlite:////", "postgresql://inturn@127.0.0.1:"))


@pytest.fixture
def packages(bin_only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """Where Debian would have PostgreSQL: it is not there yet."""
    monkeypatch.delenv("INTURN_POSTGRES_SERVER", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(program, "POSTGRES", tmp_path / "postgresql")
    return tmp_path / "postgresql"


def test_the_newest_version_is_used_and_the_variable_goes_before_it(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingProgram, match=r"^postgres is needed .* apt-get install postgresql; .*\.$"):
        find_postgres()
    script(packages / "9.6" / "bin" / "postgres")
    newest = script(packages / "15" / "bin" / "postgres")
    assert find_postgres() == Family(str(newest))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = find_postgres()
    assert isinstance(found, Family)
    assert found.user in ("postgres", "nobody")
    monkeypatch.setenv("INTURN_POSTGRES_SERVER", "/no/such/program")
    with pytest.raises(MissingProgram, match="INTURN_POSTGRES_SERVER='/no/such/program'"):
        find_postgres()


def test_docker_serves_where_there_is_no_program(packages: Path, bin_only: Path) -> None:  # noqa: F811
    stand_in(bin_only, "docker", "exit 0", "")
    assert find_postgres() == Compose("postgres", "postgres")
