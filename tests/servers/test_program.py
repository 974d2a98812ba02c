"""Where the program of a server comes from, tried with stand-ins for apt-get and docker."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import redis

from tests.servers import MissingProgram, PrivateRedis, program
from tests.servers.program import Compose, Local, find_chromium, find_redis

APT = """
echo "$@" >>{log}
cat {policy} >>{log}
case "$*" in *install*) ln -sf {real} {bin}/redis-server;; esac
"""

# Runs the server as `docker compose run` would, and delivers signals by the name of the container.
DOCKER = """
echo "$@" >>{log}
case "$1 $2" in
    "info "|"compose version") exit 0;;
    "kill --signal") exec sh -c "kill -$3 $(cat {bin}/$4.pid)";;
esac
while test "$1" != redis; do test "$1" = --name && name=$2; shift; done
shift 2
echo $$ >{bin}/$name.pid
exec {real} "$@"
"""


LOCAL = shutil.which(os.environ.get("INTURN_REDIS_SERVER") or "redis-server")


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> str:
    """A program to be found; only one test runs it."""
    monkeypatch.delenv("INTURN_REDIS_SERVER", raising=False)
    return LOCAL or "/bin/true"


@pytest.fixture
def bin_only(real: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH that holds nothing but what a shell script needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cat", "ln", "rm"):
        (folder / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(program, "POLICY", tmp_path / "policy-rc.d")
    return folder


def stand_in(folder: Path, name: str, script: str, real: str) -> Path:
    log = folder.parent / f"{name}.log"
    values = {"log": log, "bin": folder, "real": real, "policy": program.POLICY}
    for key, value in values.items():
        script = script.replace(f"{{{key}}}", str(value))
    (folder / name).write_text(f"#!{folder}/sh\n{script}")
    (folder / name).chmod(0o755)
    return log


def test_a_program_on_the_path_is_used(bin_only: Path, real: str) -> None:
    (bin_only / "redis-server").symlink_to(real)
    assert find_redis() == Local(str(bin_only / "redis-server"))


def test_the_variable_goes_before_the_path(bin_only: Path, real: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (bin_only / "redis-server").symlink_to("/bin/false")
    monkeypatch.setenv("INTURN_REDIS_SERVER", real)
    assert find_redis() == Local(real)


def test_a_variable_that_names_no_program_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTURN_REDIS_SERVER", "/no/such/program")
    with pytest.raises(MissingProgram, match="INTURN_REDIS_SERVER='/no/such/program'"):
        find_redis()


def test_root_installs_it_from_debian_without_starting_the_daemon(
    bin_only: Path, real: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    log = stand_in(bin_only, "apt-get", APT, real)
    assert find_redis() == Local(str(bin_only / "redis-server"))
    assert "install --yes --no-install-recommends redis-server\n#!/bin/sh\nexit 101\n" in log.read_text()
    assert not program.POLICY.exists()


def test_a_policy_that_is_there_is_left_alone(bin_only: Path, real: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    stand_in(bin_only, "apt-get", APT, real)
    program.POLICY.write_text("theirs")
    find_redis()
    assert program.POLICY.read_text() == "theirs"


def test_nobody_but_root_installs(bin_only: Path, real: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    log = stand_in(bin_only, "apt-get", APT, real)
    with pytest.raises(MissingProgram):
        find_redis()
    assert not log.exists()


def test_where_nothing_serves_one_sentence_says_what_to_install(bin_only: Path) -> None:
    with pytest.raises(MissingProgram, match=r"^redis-server is needed and was not found: install it .*\.$") as caught:
        PrivateRedis().start()
    assert "\n" not in str(caught.value)


def test_an_engine_that_does_not_answer_is_not_used(bin_only: Path, real: str) -> None:
    stand_in(bin_only, "docker", "exit 1", real)
    with pytest.raises(MissingProgram):
        find_redis()


def test_docker_serves_where_there_is_no_program(bin_only: Path, real: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = stand_in(bin_only, "docker", DOCKER, real)
    if LOCAL is None:
        monkeypatch.undo()  # this machine has the true docker, or the run would have stopped
    server = PrivateRedis()
    with server, redis.Redis.from_url(server.url) as client:
        client.set("a", "1")
        server.restart(keep_data=True)
        assert client.get("a") == b"1"
        server.kill()
        assert not server.is_running
        server.start()
        server.pause()
        server.resume()
        assert client.ping()
        published = f"--publish 127.0.0.1:{server.port}:{server.port} redis redis-server --port"
        assert LOCAL is None or published in log.read_text()
        folder = server.folder
    assert not folder.exists()


def test_a_container_is_signalled_by_its_name() -> None:
    assert (
        Compose("redis", "redis-server").signal("inturn-redis-x-1", 7, 9) == "docker kill --signal 9 inturn-redis-x-1"
    )


def test_a_browser_of_any_of_its_names_is_used(bin_only: Path) -> None:
    (bin_only / "google-chrome").symlink_to("/bin/true")
    assert find_chromium() == str(bin_only / "google-chrome")
    for better in ("chromium", "chromium-headless-shell"):
        (bin_only / better).symlink_to("/bin/true")
        assert find_chromium() == str(bin_only / better)


def test_root_installs_a_browser_from_debian(bin_only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    log = stand_in(bin_only, "apt-get", APT.replace("redis-server", "chromium-headless-shell"), "/bin/true")
    assert find_chromium() == str(bin_only / "chromium-headless-shell")
    assert "install --yes --no-install-recommends chromium-headless-shell\n" in log.read_text()


def test_where_there_is_no_browser_one_sentence_says_what_to_install(
    bin_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingProgram, match=r"^chromium is needed and was not found: install it .*\.$"):
        find_chromium()
