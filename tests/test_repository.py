"""The ground that the project stands on: pinned packages, the commands, no package host named anywhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers import PrivateRedis

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = {name: (ROOT / name).read_text() for name in ("requirements.lock", "requirements-dev.lock")}
PIN = re.compile(r"^([a-z0-9-]+)==([^\s;\\]+)(?: ;[^\\]*)?((?: *\\\n +--hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)
TARGETS = {
    "help",
    "setup",
    "run",
    "demo",
    "test",
    "check",
    "format",
    "bench",
    "chaos",
    "pictures",
    "lock",
    "clean",
    "split",
}
EXTRAS = {"redis", "server", "rabbitmq", "workflows", "copilot", "openai", "all", "tasks", "postgres", "bot", "celery"}
HOSTS = [".".join(name) for name in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"))]


def names_of(requirements: list[str | dict[str, str]]) -> set[str]:
    """Without the groups that a group includes."""
    return {re.split(r"[^A-Za-z0-9-]", line)[0] for line in requirements if isinstance(line, str)}


def pinned(lock: str) -> dict[str, str]:
    return {name: version for name, version, _ in PIN.findall(LOCKS[lock])}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_of_a_lock_is_a_pin_with_hashes(lock: str) -> None:
    assert PIN.sub("", LOCKS[lock]).strip() == ""
    assert len(pinned(lock)) > 20


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_host(lock: str) -> None:
    assert "://" not in LOCKS[lock]
    assert "--index" not in LOCKS[lock]
    assert "--find-links" not in LOCKS[lock]


def test_the_development_lock_pins_all_that_tests_and_benchmarks_need() -> None:
    extras, groups = PROJECT["project"]["optional-dependencies"], PROJECT["dependency-groups"]
    wanted = names_of(PROJECT["project"]["dependencies"] + PROJECT["build-system"]["requires"])
    for some in (*(extras[name] for name in extras if name != "all"), *groups.values()):
        wanted |= names_of(some)
    assert wanted <= set(pinned("requirements-dev.lock"))


def test_the_lock_for_serving_pins_what_serving_needs_and_no_test_tool() -> None:
    extras, groups = PROJECT["project"]["optional-dependencies"], PROJECT["dependency-groups"]
    wanted = names_of(PROJECT["project"]["dependencies"] + extras["server"] + extras["redis"] + extras["openai"])
    wanted |= names_of(extras["rabbitmq"])
    serving = set(pinned("requirements.lock"))
    assert wanted | names_of(groups["build"]) <= serving
    assert not serving & (names_of(groups["dev"]) | names_of(groups["bench"]))
    assert len(serving) < 50


def test_what_both_locks_pin_has_one_version() -> None:
    assert pinned("requirements.lock").items() <= pinned("requirements-dev.lock").items()


def test_no_file_names_a_package_host() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    files = [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    assert files
    guilty = [file for file in files if any(host in file.read_text(errors="ignore") for host in HOSTS)]
    assert guilty == []


def test_the_extras_exist_and_all_is_all_of_them() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert set(extras) == EXTRAS
    (everything,) = extras["all"]
    assert set(everything.removeprefix("inturn[").removesuffix("]").split(",")) == EXTRAS - {"all"}


def test_help_lists_every_target() -> None:
    shown = subprocess.run(["make", "-s", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert {line.split()[1] for line in shown.splitlines()} == TARGETS


@pytest.mark.parametrize("target", ["setup", "run"])
def test_without_a_python_that_is_new_enough_a_sentence_says_so(target: str, tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", *LOCKS):
        shutil.copy(ROOT / name, tmp_path)
    make = shutil.which("make")
    assert make is not None
    done = subprocess.run(
        [make, target, "PYTHON=false"],
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert done.stderr.startswith("inturn needs Python 3.11 or newer on PATH")
    assert done.stdout == ""


def test_the_check_before_a_merge_can_be_run() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-2:] == ["make check", "make test"]


def test_compose_publishes_ports_on_this_machine_alone() -> None:
    compose = (ROOT / "docker-compose.yml").read_text()
    services = compose.split("\nservices:\n")[1]
    assert "\t" not in compose
    assert re.findall(r"^  (\w+):$", services, re.MULTILINE) == ["redis", "rabbitmq", "postgres"]
    ports = re.findall(r'^      - "([^"]*:\d+)"$', services, re.MULTILINE)
    assert ports
    assert all(re.fullmatch(r"127\.0\.0\.1:\$\{\w+:-\}:\d+", port) for port in ports)


@given(st.none())
def test_a_property_that_gets_the_processor_late_is_not_refuted_by_that(example: None) -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
    time.sleep(0.25)  # more than hypothesis allows by itself


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_every_store_has_a_url_of_its_own(store: str, request: pytest.FixtureRequest) -> None:
    assert request.getfixturevalue(f"{store}_url").startswith(f"{store}://")


def test_the_shared_server_is_not_on_the_standard_port(redis_server: PrivateRedis, redis_url: str) -> None:
    assert redis_server.port != 6379
    assert redis_url == redis_server.url
