"""A private Redis is reachable, can be killed, paused and restarted, and ends with its owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.servers import PrivateRedis, ServerFailed, server
from tests.waiting import wait_until

SCRIPT = """
import os, sys, time
from tests.servers import PrivateRedis
server = PrivateRedis().start()
child = os.fork() if sys.argv[1] == "fork" else 0
if sys.argv[1] == "fork" and child == 0:
    time.sleep(120)
    os._exit(0)
print(server.pid, child, server.folder, flush=True)
time.sleep(120)
"""
STALLED = """
import pathlib, subprocess, time
from tests.servers import PrivateRedis
class Stalled(subprocess.Popen):
    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        if "cwd" in more:
            log = pathlib.Path(more["cwd"]) / "server.log"
            while "eady to accept connections" not in log.read_text():
                time.sleep(0.01)
            print(self.pid, more["cwd"], flush=True)
            time.sleep(120)
subprocess.Popen = Stalled
PrivateRedis().start()
"""
"""It gets the processor no more once it has started its server, which is up before anybody has noted its number."""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.fixture
def client(fresh_redis: PrivateRedis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(fresh_redis.url, socket_timeout=30) as client:
        yield client


def test_it_answers_on_a_port_of_its_own_and_on_a_socket(fresh_redis: PrivateRedis, client: redis.Redis) -> None:
    assert fresh_redis.port != 6379
    assert client.ping()
    with redis.Redis.from_url(fresh_redis.socket_url) as by_socket:
        assert by_socket.info("server")["run_id"] == client.info("server")["run_id"]


def test_two_servers_share_nothing(fresh_redis: PrivateRedis) -> None:
    with PrivateRedis() as other:
        assert other.port != fresh_redis.port
        assert other.folder != fresh_redis.folder


def test_after_stop_nothing_is_left() -> None:
    with PrivateRedis() as server:
        pid, folder, port = server.pid, server.folder, server.port
    assert not is_alive(pid)
    assert not folder.exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    server.stop()  # may be repeated


def test_after_stop_it_can_start_anew() -> None:
    server = PrivateRedis()
    for _ in range(2):
        with server:
            assert server.is_running


def test_a_restart_with_data_keeps_it(fresh_redis: PrivateRedis, client: redis.Redis) -> None:
    client.set("a", "1")
    before = (fresh_redis.port, fresh_redis.pid)
    fresh_redis.restart(keep_data=True)
    assert client.get("a") == b"1"
    assert fresh_redis.port == before[0]
    assert fresh_redis.pid != before[1]


def test_a_restart_without_data_loses_it(fresh_redis: PrivateRedis, client: redis.Redis) -> None:
    client.set("a", "1")
    fresh_redis.restart(keep_data=True)
    fresh_redis.restart(keep_data=False)
    assert client.get("a") is None


def test_a_killed_server_comes_back_on_the_same_port(fresh_redis: PrivateRedis, client: redis.Redis) -> None:
    client.set("a", "1")
    port = fresh_redis.port
    fresh_redis.kill()
    assert not fresh_redis.is_running
    with pytest.raises(redis.ConnectionError):
        client.ping()
    fresh_redis.start()
    assert fresh_redis.port == port
    assert client.get("a") is None


def test_an_append_only_server_survives_being_killed_with_its_data() -> None:
    with PrivateRedis(appendonly=True) as server, redis.Redis.from_url(server.url) as client:
        client.set("a", "1")
        server.kill()
        server.start()
        assert client.get("a") == b"1"
        server.restart(keep_data=False)
        assert client.get("a") is None


def test_a_paused_server_is_silent_until_it_goes_on(fresh_redis: PrivateRedis) -> None:
    with (
        redis.Redis.from_url(fresh_redis.url, socket_timeout=30) as client,
        redis.Redis.from_url(fresh_redis.url, socket_timeout=1, retry=None) as impatient,
    ):
        assert client.ping()
        fresh_redis.pause()
        with pytest.raises(redis.TimeoutError):
            impatient.ping()
        fresh_redis.resume()
        assert client.ping()


def test_a_paused_server_can_be_restarted_with_its_data(fresh_redis: PrivateRedis, client: redis.Redis) -> None:
    client.set("a", "1")
    fresh_redis.pause()
    fresh_redis.restart(keep_data=True)
    assert client.get("a") == b"1"


def test_further_arguments_reach_the_server() -> None:
    extra = ("--requirepass", "secret", "--pidfile", "{folder}/{port}.pid")
    with PrivateRedis(extra=extra) as server:
        with redis.Redis.from_url(server.url) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        with redis.Redis.from_url(server.url, password="secret") as client:
            assert client.config_get("pidfile")["pidfile"] == f"{server.folder}/{server.port}.pid"
            client.set("a", "1")
            server.restart(keep_data=True)
            assert client.get("a") == b"1"


def test_a_wrong_argument_fails_with_the_words_of_the_server() -> None:
    server = PrivateRedis(extra=("--no-such-option", "1"))
    with pytest.raises(ServerFailed, match="no-such-option"):
        server.start()
    assert not server.is_running


def test_a_port_that_another_took_first_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with PrivateRedis() as first:
        ports = iter([first.port, server.free_port()])
        monkeypatch.setattr(server, "free_port", lambda: next(ports))
        with PrivateRedis() as second:
            assert second.port != first.port
            assert next(ports, None) is None


def test_the_port_of_a_server_that_is_down_is_given_to_nobody_else(fresh_redis: PrivateRedis) -> None:
    fresh_redis.kill()
    with socket.socket() as other:
        if sys.platform == "linux":
            with pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", fresh_redis.port))
        assert other.connect_ex(("127.0.0.1", fresh_redis.port)) != 0
    fresh_redis.start()
    assert fresh_redis.is_running


def test_a_server_outlives_the_thread_that_started_it() -> None:
    with PrivateRedis() as server:
        server.kill()
        thread = threading.Thread(target=server.start)
        thread.start()
        thread.join()
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        assert is_alive(server.pid)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("mode", ["alone", "fork"])
def test_a_parent_that_ends_takes_its_server_with_it(how: signal.Signals, mode: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", SCRIPT, mode], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with parent:
        assert parent.stdout is not None
        pid, child, folder = parent.stdout.readline().split(maxsplit=2)
        assert is_alive(int(pid))
        try:
            parent.send_signal(how)
            parent.wait(30)
            wait_until(lambda: not is_alive(int(pid)))
            wait_until(lambda: not Path(folder.decode().strip()).exists())
            assert not int(child) or is_alive(int(child))
        finally:
            if int(child):
                os.kill(int(child), signal.SIGKILL)


def test_a_parent_that_is_killed_while_it_starts_its_server_takes_it_along() -> None:
    with subprocess.Popen([sys.executable, "-c", STALLED], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().decode().split()
        assert is_alive(int(pid))
        parent.kill()
    wait_until(lambda: not is_alive(int(pid)))
    wait_until(lambda: not Path(folder).exists())
