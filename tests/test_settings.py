"""The environment becomes settings that were checked, or an error that names each bad variable."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from pydantic import ValidationError

from inturn.errors import SettingsError
from inturn.http.tenant_streams import MAX_STREAMS
from inturn.settings import STORE_SCHEMES, Settings, load_settings, mask, variables

EXAMPLE = Path(__file__).parents[1] / ".env.example"
NOTHING = {"PATH": "/bin"}

FALLBACKS = [
    ("url", "INTURN_URL", "REDIS_URL", "redis://ours/1", "redis://theirs/2"),
    ("state_ttl", "INTURN_STATE_TTL", "REDIS_TTL", "11", "12"),
    ("openai_base_url", "INTURN_OPENAI_BASE_URL", "OPENAI_BASE_URL", "http://ours/v1", "https://theirs/v1"),
    ("openai_api_key", "INTURN_OPENAI_API_KEY", "OPENAI_API_KEY", "our-key", "their-key"),
]


def message_of(**environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ)
    return str(caught.value)


def example() -> dict[str, str]:
    lines = EXAMPLE.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_without_variables_the_defaults_hold() -> None:
    settings = load_settings(NOTHING)
    assert settings.url == "sqlite:///inturn.db"
    assert (settings.namespace, settings.partitions, settings.replicas) == ("inturn", None, 0)
    assert settings.store_timeout == 5.0
    assert (settings.lock_ttl, settings.dedup_window, settings.state_ttl) == (30.0, 300.0, 86_400.0)
    assert settings.allow_eviction is False
    assert settings.log_level == "INFO"
    assert (settings.agent, settings.agent_timeout) == (("offline",), 60.0)
    assert settings.openai_base_url is settings.openai_model is settings.copilot_direct_url is None
    assert settings.copilot_environment_id is settings.copilot_agent is None
    assert settings.openai_api_key is settings.copilot_token is None


def test_the_process_environment_is_read_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTURN_NAMESPACE", "mine")
    assert load_settings().namespace == "mine"


def test_an_empty_mapping_is_not_the_process_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTURN_NAMESPACE", "mine")
    assert load_settings({}).namespace == "inturn"


@pytest.mark.parametrize(("field", "ours", "theirs", "our_value", "their_value"), FALLBACKS)
def test_the_name_that_people_have_is_read_where_ours_is_not_set(
    field: str, ours: str, theirs: str, our_value: str, their_value: str
) -> None:
    def value(**environ: str) -> object:
        return getattr(load_settings(environ), field)

    assert value(**{theirs: their_value}) == Settings.model_validate({field: their_value}).model_dump()[field]
    assert value(**{ours: "", theirs: their_value}) == value(**{theirs: their_value})
    assert value(**{ours: our_value, theirs: their_value}) == value(**{ours: our_value})
    assert value(**{ours: our_value}) != value(**{theirs: their_value})


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_an_empty_value_counts_as_not_set(empty: str) -> None:
    environ = {"INTURN_URL": empty, "INTURN_LOCK_TTL": empty, "INTURN_ANYTHING": empty}
    assert load_settings(environ) == Settings()


@pytest.mark.parametrize("value", ["abc", "0", "-1", "inf", "nan", "30s"])
@pytest.mark.parametrize("name", ["REDIS_TTL", "INTURN_STORE_TIMEOUT"])
def test_a_bad_time_is_named_as_the_user_set_it(name: str, value: str) -> None:
    assert message_of(**{name: value}) == f"{name}={value!r}: must be a number of seconds greater than 0"


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("SEND_AI_RESPONSE_LOCK_TIMEOUT", "0", "must be a number of seconds from 0.001 to 604800"),
        ("SEND_AI_RESPONSE_LOCK_TIMEOUT", "30s", "must be a number of seconds from 0.001 to 604800"),
        ("SEND_AI_RESPONSE_DEDUP_EXPIRATION", "1e12", "must be a number of seconds from 0.001 to 604800"),
        ("INTURN_BOT_AGENT_TIMEOUT", "inf", "must be a number of seconds greater than 0, up to 86400"),
        ("INTURN_PARTITIONS", "0", "must be a whole number from 1 to 1024"),
        ("INTURN_PARTITIONS", "1025", "must be a whole number from 1 to 1024"),
        ("INTURN_PARTITIONS", "1.5", "must be a whole number from 1 to 1024"),
        ("INTURN_NAMESPACE", "a{b}", "must be 1 to 64 letters, digits or any of _ . -"),
        ("INTURN_NAMESPACE", "a" * 65, "must be 1 to 64 letters, digits or any of _ . -"),
        ("INTURN_ALLOW_EVICTION", "perhaps", "must be true or false"),
        ("INTURN_LOG_LEVEL", "loud", "must be DEBUG, INFO, WARNING, ERROR or CRITICAL"),
        (
            "INTURN_AGENT",
            "siri",
            "must be one or more of offline, openai, copilot_studio, separated by commas, each once",
        ),
        (
            "INTURN_AGENT",
            "openai,,offline",
            "must be one or more of offline, openai, copilot_studio, separated by commas, each once",
        ),
        (
            "INTURN_AGENT",
            "openai,openai",
            "must be one or more of offline, openai, copilot_studio, separated by commas, each once",
        ),
        ("OPENAI_BASE_URL", "localhost:11434", "must be a URL that starts with one of http://, https://"),
        ("OPENAI_BASE_URL", "http:///x", "must be a URL that starts with one of http://, https://"),
    ],
)
def test_a_bad_value_is_told_what_it_must_be(name: str, value: str, rule: str) -> None:
    assert message_of(**{name: value}) == f"{name}={value!r}: {rule}"


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///inturn.db",
        "sqlite:////var/lib/inturn.db?synchronous=NORMAL",
        "redis://localhost",
        "rediss://user:secret@cache.internal:6380/1",
        "unix:///run/redis.sock?db=1",
        "redis+sentinel://:secret@a:26379,b:26379/main/0",
        "redis+cluster://a:7000,[::1]:7001",
    ],
)
def test_every_kind_of_store_url_is_taken(url: str) -> None:
    assert load_settings({"INTURN_URL": f" {url}\n"}).url == url


@pytest.mark.parametrize("url", ["memcached://h", "localhost:6379", "redis://", "redis://h:port", "redis://h:99999"])
def test_a_bad_store_url_is_told_the_schemes(url: str) -> None:
    message = message_of(REDIS_URL=url)
    assert message.startswith(f"REDIS_URL={url!r}: must be a URL that starts with one of ")
    assert all(f"{scheme}://" in message for scheme in STORE_SCHEMES)


@pytest.mark.parametrize(
    "url",
    [
        "memcached://user:hunter2@h",
        "redis://:hunter2@h:port",
        "memcached://:hunter2@hunter2/@h",
        "user:hunter2@h:6379",
        "memcached://h?password=hunter2&db=1",
        "memcached://h?sentinel_password=hunter2",
    ],
)
def test_no_password_is_shown(url: str) -> None:
    assert "hunter2" not in message_of(INTURN_URL=url)
    with pytest.raises(ValidationError) as caught:
        Settings(url=url)
    assert "hunter2" not in str(caught.value)


def test_a_password_is_not_shown_by_repr_or_str() -> None:
    settings = Settings(url="redis://user:hunter2@h/0", openai_base_url="https://user:hunter2@h/")
    assert "hunter2" not in repr(settings) + str(settings)
    assert "redis://user:***@h/0" in repr(settings)


def test_a_key_or_token_is_not_shown_by_repr_or_str() -> None:
    settings = load_settings({"OPENAI_API_KEY": " hunter2 ", "INTURN_COPILOT_TOKEN": "hunter2"})
    assert "hunter2" not in f"{settings!r}{settings}{settings.model_dump()}"
    assert settings.openai_api_key is not None
    assert settings.openai_api_key.get_secret_value() == "hunter2"


def test_agents_are_named_in_the_order_in_which_they_are_asked() -> None:
    assert load_settings({"INTURN_AGENT": " openai, copilot_studio ,offline"}).agent == (
        "openai",
        "copilot_studio",
        "offline",
    )
    assert Settings(agent=("openai", "offline")).agent == ("openai", "offline")


def test_a_url_without_password_is_not_changed_by_masking() -> None:
    for url in ("redis://h:6379/0", "redis://user@h/0", "sqlite:////tmp/a.db", "unix:///run/redis.sock?db=1"):
        assert mask(url) == url


def test_every_bad_variable_is_named_at_once() -> None:
    lines = message_of(REDIS_TTL="abc", INTURN_PARTITIONS="many", INTURN_LOCK_TLL="3").splitlines()
    assert len(lines) == 3
    assert {line.split("=")[0].split(":")[0] for line in lines} == {
        "REDIS_TTL",
        "INTURN_PARTITIONS",
        "INTURN_LOCK_TLL",
    }


def test_a_bad_fallback_is_no_error_where_our_name_is_set() -> None:
    assert load_settings({"INTURN_STATE_TTL": "60", "REDIS_TTL": "abc"}).state_ttl == 60


def test_an_unknown_variable_is_refused_and_the_nearest_name_suggested() -> None:
    assert message_of(INTURN_LOCK_TLL="30").endswith("there is no such setting; did you mean INTURN_LOCK_TTL?")
    assert "inturn.settings.Settings" in message_of(INTURN_QQQ="1")
    assert load_settings({"UNRELATED": "1", "inturn_url": "x"}) == Settings()


@pytest.mark.parametrize("name", ["INTURN_REDIS_SERVER", "INTURN_RABBITMQ_SERVER", "INTURN_POSTGRES_SERVER"])
def test_a_variable_of_the_tests_is_no_setting_and_no_error(name: str) -> None:
    assert load_settings({name: "/opt/a-server"}) == Settings()
    assert name not in chain.from_iterable(variables())
    assert f"{name}S: there is no such setting" in message_of(**{f"{name}S": "1"})


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().url = "sqlite:///other.db"  # type: ignore[misc]


def test_a_setting_can_be_given_by_its_own_name() -> None:
    assert Settings(url="redis://h", lock_ttl=3).lock_ttl == 3.0


def test_the_example_file_lists_exactly_the_variables_that_are_read() -> None:
    assert sorted(example()) == sorted(chain.from_iterable(variables()))


def test_the_example_file_loads_and_holds_the_defaults() -> None:
    assert load_settings(example()) == Settings()


def test_every_variable_of_the_example_file_has_a_comment() -> None:
    lines = EXAMPLE.read_text().splitlines()
    places = [number for number, line in enumerate(lines) if line and not line.startswith("#")]
    assert all(lines[number - 1].startswith("# ") for number in places)


def test_where_the_server_listens_and_who_may_call() -> None:
    settings = load_settings(NOTHING)
    assert (settings.host, settings.port, settings.turn_lease) == ("127.0.0.1", 8420, 30.0)
    assert settings.api_keys is None
    assert settings.api_keys_file is settings.workflows is None
    assert settings.concurrency == 10
    assert load_settings({"INTURN_CONCURRENCY": "3"}).concurrency == 3
    told = message_of(INTURN_PORT="70000", INTURN_HOST="a b", INTURN_TURN_LEASE="0", INTURN_CONCURRENCY="0")
    assert "INTURN_CONCURRENCY='0': must be a whole number from 1 to 1000" in told
    assert "INTURN_PORT='70000': must be a port from 1 to 65535, or 0 for any that is free" in told
    assert "INTURN_HOST='a b': must be an address or a name of this machine" in told
    assert "INTURN_TURN_LEASE='0': must be a number of seconds greater than 0" in told


def test_how_visitors_are_answered_can_be_set() -> None:
    settings = load_settings(NOTHING)
    assert (settings.visitor_quiet, settings.share_visitor_lock, settings.offline_pace) == (None, False, None)
    told = message_of(INTURN_VISITOR_QUIET="0", INTURN_SHARE_VISITOR_LOCK="perhaps", INTURN_OFFLINE_PACE="11")
    assert "INTURN_VISITOR_QUIET='0': must be a number of seconds greater than 0" in told
    assert "INTURN_SHARE_VISITOR_LOCK='perhaps': must be true or false" in told
    assert "INTURN_OFFLINE_PACE='11': must be a number of seconds from 0 to 10" in told


def test_what_a_server_has_in_common_with_other_services_can_be_set() -> None:
    settings = load_settings(NOTHING)
    assert (settings.share_conversation_lock, settings.adopt_workflows) == (False, False)
    assert settings.max_streams_per_tenant == MAX_STREAMS
    told = message_of(INTURN_ADOPT_WORKFLOWS="perhaps", INTURN_MAX_STREAMS_PER_TENANT="0")
    assert "INTURN_ADOPT_WORKFLOWS='perhaps': must be true or false" in told
    assert "INTURN_MAX_STREAMS_PER_TENANT='0': must be a whole number from 1 to 100000" in told


def test_api_keys_are_not_shown() -> None:
    settings = load_settings({"INTURN_API_KEYS": "hunter2-0123456789:ada:acme"})
    assert settings.api_keys is not None
    assert "hunter2" not in repr(settings) + str(settings)
