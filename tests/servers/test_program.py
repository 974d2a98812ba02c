"""Where the program of a server comes from, tried with stand-ins for apt-get and docker."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import redis

from tests.servers import MissingProgram, PrivateRedis, program
from tests.servers.program import Compose, Local, find_chromium, find_rabbitmq, find_redis

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


@pytest.fixture
def packages(bin_only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Debian would have RabbitMQ: it is not there yet."""
    monkeypatch.delenv("INTURN_RABBITMQ_SERVER", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(program, "RABBITMQ", tmp_path / "rabbitmq")
    return tmp_path / "rabbitmq"


def script(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def wrapped(packages: Path, bin_only: Path) -> None:
    """On the PATH, as a package puts it there: it becomes the user `rabbitmq`."""
    (bin_only / "rabbitmq-server").symlink_to(script(packages / "bin" / "rabbitmq-script-wrapper"))


def test_the_script_behind_the_wrapper_is_used(bin_only: Path, packages: Path) -> None:
    wrapped(packages, bin_only)
    with pytest.raises(MissingProgram, match=r"^rabbitmq-server is needed .* brew install rabbitmq\), or .*\.$"):
        find_rabbitmq()
    script(packages / "lib/rabbitmq_server-3.9.13/sbin/rabbitmq-server")
    newest = script(packages / "lib/rabbitmq_server-3.10.8/sbin/rabbitmq-server")
    assert find_rabbitmq() == Local(str(newest))
    own = script(packages / "bin" / "rabbitmq-server")
    assert find_rabbitmq() == Local(str(own))


def test_a_rabbitmq_on_the_path_that_is_no_wrapper_is_used(bin_only: Path, packages: Path) -> None:
    (bin_only / "rabbitmq-server").symlink_to(script(packages.parent / "Cellar" / "sbin" / "rabbitmq-server"))
    assert find_rabbitmq() == Local(str(bin_only / "rabbitmq-server"))


def test_the_variable_goes_before_a_packaged_rabbitmq(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(packages / "bin" / "rabbitmq-server")
    monkeypatch.setenv("INTURN_RABBITMQ_SERVER", "/bin/true")
    assert find_rabbitmq() == Local("/bin/true")
    monkeypatch.setenv("INTURN_RABBITMQ_SERVER", "/no/such/program")
    with pytest.raises(MissingProgram, match="INTURN_RABBITMQ_SERVER='/no/such/program'"):
        find_rabbitmq()


def test_root_installs_rabbitmq_without_starting_its_daemon(
    bin_only: Path, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    wrapped(packages, bin_only)
    installs = APT.replace("{bin}/redis-server", str(packages / "bin" / "rabbitmq-server"))
    log = stand_in(bin_only, "apt-get", installs, "/bin/true")
    assert find_rabbitmq() == Local(str(packages / "bin" / "rabbitmq-server"))
    assert "install --yes --no-install-recommends rabbitmq-server\n#!/bin/sh\nexit 101\n" in log.read_text()


def test_docker_serves_rabbitmq_with_its_settings_and_both_ports(bin_only: Path, packages: Path) -> None:
    stand_in(bin_only, "docker", "exit 0", "")
    found = find_rabbitmq()
    assert found == Compose("rabbitmq", "rabbitmq-server")
    command = " ".join(found.command("some-name", Path("/some/folder"), [1, 2], {"A": "b c"}))
    assert "--env A=b c --volume /some/folder:/some/folder " in command
    assert command.endswith("--publish 127.0.0.1:1:1 --publish 127.0.0.1:2:2 rabbitmq rabbitmq-server")


def test_a_program_that_is_given_an_environment_sees_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RABBITMQ_NODENAME", "theirs")
    env = shutil.which("env") or "env"
    command = Local(env).command("some-name", Path("/"), [1], {"HOME": "/a b"})
    seen = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert seen == f"PATH={os.environ['PATH']}\nLANG=C.UTF-8\nHOME=/a b\n"
    assert Local(env).command("some-name", Path("/"), [1], {}) == [env]


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
