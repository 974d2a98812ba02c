"""URL -> store: what is known, what is missing, what is wrong; and that no password is ever shown."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from inturn.errors import MissingExtra, SettingsError
from inturn.settings import STORE_SCHEMES, load_settings
from inturn.store.open import open_store
from inturn.store.redis.store import RedisStore
from inturn.store.sqlite.store import SqliteStore


def test_the_scheme_decides(sqlite_url: str) -> None:
    assert isinstance(open_store(sqlite_url, "h:1:x"), SqliteStore)
    for url in (
        "redis://localhost/0", "rediss://localhost/0", "unix:///run/redis.sock", "redis+cluster://one:7000,two:7001",
        "redis+sentinel://one:26379,two:26379/mymaster",
    ):  # fmt: skip
        assert isinstance(open_store(url, "h:1:x"), RedisStore)


def test_what_was_asked_for_arrives(sqlite_url: str) -> None:
    redis = open_store("redis://localhost", "h:1:x", namespace="shop", partitions=8, timeout_s=2.5)
    assert (redis.process, redis.partitions, redis.timeout_s) == ("h:1:x", 8, 2.5)
    sqlite = open_store(sqlite_url, "h:1:x", partitions=8, timeout_s=2.5)
    assert (sqlite.process, sqlite.partitions, sqlite.timeout_s) == ("h:1:x", 1, 2.5)
    assert sqlite.partition_of("any") == 0


@pytest.mark.parametrize("scheme", ["redis", "rediss", "unix", "redis+cluster", "redis+sentinel"])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    for module in [name for name in sys.modules if name.startswith("inturn.store.redis")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setitem(sys.modules, "hiredis", None)
    with pytest.raises(MissingExtra, match=rf"{re.escape(scheme)}:// needs the extra 'redis'.*inturn\[redis\]"):
        open_store(f"{scheme}://localhost", "h:1:x")


def test_a_cluster_has_more_partitions_unless_it_is_told_how_many() -> None:
    assert open_store("redis+cluster://localhost", "h:1:x").partitions == 16
    assert open_store("redis+cluster://localhost", "h:1:x", partitions=4).partitions == 4
    assert open_store("redis://localhost", "h:1:x").partitions == 1


@pytest.mark.parametrize("replicas", [-1, 1000, 1.5])
def test_a_bad_number_of_replicas_is_refused(replicas: Any) -> None:
    with pytest.raises(SettingsError, match=f"replicas {replicas}: must be a whole number from 0 to 100"):
        open_store("redis://localhost", "h:1:x", replicas=replicas)


def test_a_file_has_no_replicas(sqlite_url: str) -> None:
    with pytest.raises(SettingsError, match="replicas 1: sqlite:// has none"):
        open_store(sqlite_url, "h:1:x", replicas=1)


def test_only_a_file_takes_another_clock() -> None:
    with pytest.raises(SettingsError, match="only sqlite:// takes another clock"):
        open_store("redis://localhost", "h:1:x", wall=lambda: 0)


@pytest.mark.parametrize(
    "url",
    ["mysql://user:secret@host/db", "user:secret@host", "", "sqlite:secret.db", "REDIS//secret", "://secret"],
)
def test_an_unknown_scheme_is_refused_with_the_known_ones_and_without_the_password(url: str) -> None:
    with pytest.raises(SettingsError, match="sqlite://, redis://, rediss://, unix://") as refused:
        open_store(url, "h:1:x")
    assert "secret" not in str(refused.value)
    if "://" in url and not url.startswith(":"):
        assert "'mysql'" in str(refused.value)


@pytest.mark.parametrize("namespace", ["", "a:b", "a b", "a\n", "{a}", "a/b", "..\\x", "\0", "ä!*", "\ud800", "x" * 65])
def test_a_bad_namespace_is_refused(namespace: str, sqlite_url: str) -> None:
    for url in (sqlite_url, "redis://localhost"):
        with pytest.raises(SettingsError, match=r"^namespace .*: must be 1 to 64 letters, digits or any of _ \. -$"):
            open_store(url, "h:1:x", namespace=namespace)


@pytest.mark.parametrize(
    ("name", "value"),
    [("namespace", "ä!*"), ("namespace", "a:b"), ("partitions", 1025), ("replicas", 101), ("dead_letter_ttl", 0.0)],
)
def test_an_argument_is_refused_in_the_words_in_which_its_variable_is_refused(name: str, value: object) -> None:
    with pytest.raises(SettingsError) as as_argument:
        open_store("redis://localhost", "h:1:x", **{name: value})  # type: ignore[arg-type]
    with pytest.raises(SettingsError) as as_variable:
        load_settings({f"INTURN_{name.upper()}": str(value)})
    assert str(as_argument.value).split(": must")[1] == str(as_variable.value).split(": must")[1]


def test_every_scheme_of_the_settings_opens_a_store(sqlite_url: str) -> None:
    for scheme in STORE_SCHEMES:
        url = sqlite_url if scheme == "sqlite" else f"{scheme}://localhost/0"
        assert open_store(url, "h:1:x").process == "h:1:x"


@pytest.mark.parametrize("partitions", [0, -1, 1025])
def test_a_bad_number_of_partitions_is_refused(partitions: int, sqlite_url: str) -> None:
    for url in (sqlite_url, "redis://localhost"):
        with pytest.raises(SettingsError, match=f"partitions {partitions}: must be a whole number from 1 to 1024"):
            open_store(url, "h:1:x", partitions=partitions)
