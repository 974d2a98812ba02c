"""The files for people with Docker say what they claim. They are read, not run: no test needs a Docker engine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from inturn.cli.main import _parser
from inturn.http.signatures import new_secret, secrets_of
from inturn.settings import load_settings, variables
from inturn.web.app import make_app
from tests.servers.program import COMPOSE_FILE

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
OURS = ("migrate", "tasks", "ai", "worker")
SERVERS = ("redis", "rabbitmq", "postgres")
NEEDED = {
    "INTURN_WEBHOOK_SECRETS": new_secret(),
    "INTURN_SERVICE_KEYS": "a-service-key-of-the-tests",
    "INTURN_API_KEYS": "a-key-of-ada-0123456789:ada:home",
    "RABBITMQ_PASSWORD": "a-password",
    "POSTGRES_PASSWORD": "a-password",
}
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def read(name: str, **given: str) -> dict[str, Any]:
    """As Compose does: variables are filled in, and a `:?` that is not set is an error with its words."""

    def value(found: re.Match[str]) -> str:
        name, kind, words = found.groups()
        if given.get(name):
            return given[name]
        if kind == "?":
            raise LookupError(f"{name}: {words}")
        return words or ""

    def fill(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: fill(each) for key, each in node.items()}
        if isinstance(node, list):
            return [fill(each) for each in node]
        return VARIABLE.sub(value, node) if isinstance(node, str) else node

    filled: dict[str, Any] = fill(yaml.safe_load((DEPLOY / name).read_text())["services"])
    return filled


@pytest.fixture
def services() -> dict[str, Any]:
    return read("compose.yml", **NEEDED)


def test_the_whole_flow_has_its_servers_its_migration_and_three_services(services: dict[str, Any]) -> None:
    assert set(services) == {*SERVERS, *OURS}
    assert services["postgres"]["image"] == "postgres:16"
    for name in OURS:
        assert services[name]["build"] == {"context": "..", "dockerfile": "deploy/Dockerfile"}
    environment = {name: services[name]["environment"] for name in OURS}
    assert environment["tasks"]["INTURN_SERVICES"] == "tasks"
    assert (environment["ai"]["INTURN_SERVICES"], environment["ai"]["INTURN_JOB_CONCURRENCY"]) == ("ai", "0")
    assert "DATABASE_URL" not in environment["ai"] | environment["worker"], "the database belongs to Tasks"
    assert environment["migrate"]["DATABASE_URL"] == environment["tasks"]["DATABASE_URL"]


@pytest.mark.parametrize("name", OURS)
def test_each_command_is_one_of_inturn(services: dict[str, Any], name: str) -> None:
    _parser().parse_args(services[name]["command"])


@pytest.mark.parametrize("name", OURS)
def test_every_variable_of_a_service_is_a_setting_and_all_of_them_are_valid(
    services: dict[str, Any], name: str
) -> None:
    environment = services[name]["environment"]
    known = {variable for names in variables() for variable in names}
    assert set(environment) <= known
    settings = load_settings(environment)
    assert settings.database_url is None or settings.database_url.endswith("@postgres:5432/inturn")
    if name != "migrate":
        assert len(secrets_of(settings)) == 1
        assert settings.url == "redis://redis:6379/0"
        assert settings.tasks_service_base_url == "http://tasks:8420"


@pytest.mark.parametrize("name", ["tasks", "ai"])
async def test_each_server_would_start_with_its_settings_and_asks_for_keys(services: dict[str, Any], name: str) -> None:
    api = make_app(load_settings(services[name]["environment"]))
    assert api.state.served == (name,)
    assert api.state.keys.are_needed


@pytest.mark.parametrize("missing", NEEDED)
def test_a_secret_that_is_not_set_is_named_with_what_to_set(missing: str) -> None:
    with pytest.raises(LookupError, match=f"{missing}: set it to "):
        read("compose.yml", **{name: value for name, value in NEEDED.items() if name != missing})


def test_no_secret_stands_in_the_file() -> None:
    text = (DEPLOY / "compose.yml").read_text()
    for line in re.findall(r"^ *\w*(?:SECRET|PASS|KEY)\w*: *(.*)$", text, re.MULTILINE):
        assert line.startswith("${") or line == ">-", line


def test_services_start_after_what_they_need_is_healthy(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if name != "migrate":
            assert {"test", "interval", "timeout", "retries"} <= set(service["healthcheck"]), name
        for needed, how in service.get("depends_on", {}).items():
            expected = "service_completed_successfully" if needed == "migrate" else "service_healthy"
            assert how == {"condition": expected}
    assert set(services["tasks"]["depends_on"]) == {"migrate", "redis"}
    assert set(services["migrate"]["depends_on"]) == {"postgres"}
    for name in ("ai", "worker"):
        assert set(services[name]["depends_on"]) == {"redis", "rabbitmq"}


def test_only_tasks_is_reached_from_outside_and_from_this_machine_alone(services: dict[str, Any]) -> None:
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert ports == {"tasks": ["127.0.0.1:8420:8420"]}


def test_the_servers_alone_listen_on_their_usual_ports_of_this_machine() -> None:
    services = read("compose.dev.yml")
    assert {name: service["ports"] for name, service in services.items()} == {
        "redis": ["127.0.0.1:6379:6379"],
        "rabbitmq": ["127.0.0.1:5672:5672", "127.0.0.1:15672:15672"],
        "postgres": ["127.0.0.1:5432:5432"],
    }
    assert services["rabbitmq"]["image"].endswith("-management")
    assert all({"test", "interval", "timeout", "retries"} <= set(each["healthcheck"]) for each in services.values())


def test_the_commands_above_the_servers_reach_them() -> None:
    text = (DEPLOY / "compose.dev.yml").read_text()
    found = dict(re.findall(r"\b([A-Z_]+)=(\S+)", text.split("services:")[0]))
    settings = load_settings(found)
    environment = read("compose.dev.yml")["postgres"]["environment"]
    user, password = environment["POSTGRES_USER"], environment["POSTGRES_PASSWORD"]
    assert settings.database_url == f"postgresql://{user}:{password}@127.0.0.1/{environment['POSTGRES_DB']}"
    assert settings.rabbitmq_url == "amqp://guest:guest@127.0.0.1/"
    assert settings.url == "redis://127.0.0.1:6379/0"


def test_all_files_run_the_same_servers() -> None:
    tested = yaml.safe_load(COMPOSE_FILE.read_text())["services"]
    images = {name: tested[name]["image"] for name in SERVERS}
    for file in ("compose.yml", "compose.dev.yml"):
        services = read(file, **NEEDED)
        assert {name: services[name]["image"] for name in SERVERS} == images


def test_the_image_has_a_python_that_inturn_runs_on_and_copies_what_is_there() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    needs = tuple(int(part) for part in required.removeprefix(">=").split("."))
    for version in re.findall(r"^FROM python:(\d+)\.(\d+)-slim", text, re.MULTILINE):
        assert tuple(int(part) for part in version) >= needs
    copied = [word for words in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in words.split()]
    assert {"src", "pyproject.toml", "requirements.lock"} <= set(copied)
    kept = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().split() if line.startswith("!")}
    assert kept == set(copied)
    assert all((ROOT / name).exists() for name in copied)
    assert re.search(r"^USER (?!root)", text, re.MULTILINE)
    locked = (ROOT / "requirements.lock").read_text()
    for needed in ("asyncpg", "aio-pika", "redis", "sqlalchemy", "alembic", "openai"):
        assert re.search(rf"^{needed}==", locked, re.MULTILINE), needed
