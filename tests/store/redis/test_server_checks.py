"""What is looked at before a server is used: a server that would lose locks silently is refused."""

from __future__ import annotations

import pytest
import redis

from inturn.errors import SettingsError, StoreUnavailable
from tests.servers import PrivateRedis
from tests.store.redis.peers import Open
from tests.store.redis.proxy import Proxy


async def test_a_server_that_evicts_is_refused_unless_that_is_allowed(
    fresh_redis: PrivateRedis, open_at: Open, owner: redis.Redis
) -> None:
    owner.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(SettingsError, match=r"allkeys-lru.*INTURN_ALLOW_EVICTION"):
        await open_at(fresh_redis.url).store.check()
    warnings = await open_at(fresh_redis.url, allow_eviction=True).store.check()
    assert any("may evict locks" in warning for warning in warnings)


async def test_a_server_that_keeps_nothing_on_disk_is_warned_about(
    fresh_redis: PrivateRedis, open_at: Open, owner: redis.Redis
) -> None:
    peer = open_at(fresh_redis.url)
    (warning,) = await peer.store.check()
    assert "a restart forgets every lock" in warning
    owner.config_set("save", "3600 1")
    assert await peer.store.check() == []
    owner.config_set("save", "")
    owner.config_set("appendonly", "yes")
    assert await peer.store.check() == []


INFO = "# Server\r\n{version}\r\n# Memory\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"


@pytest.mark.parametrize(
    "version", ["redis_version:6.2.14", "redis_version:6.9.9\r\nother:7.0.0", "redis_version:odd", "nothing:here"]
)
async def test_an_old_or_unknown_version_is_refused(proxy: Proxy, open_at: Open, version: str) -> None:
    proxy.answer_text("INFO", INFO.format(version=version))
    with pytest.raises(SettingsError, match=r"needs Redis >= 7 or Valkey >= 7.2"):
        await open_at(proxy.url).store.check()


@pytest.mark.parametrize(
    "version", ["redis_version:7.0.0", "redis_version:8.2.1", "redis_version:7.2.4\r\nvalkey_version:8.1.0"]
)
async def test_a_version_that_will_do_is_taken(proxy: Proxy, open_at: Open, version: str) -> None:
    proxy.answer_text("INFO", INFO.format(version=version))
    assert await open_at(proxy.url).store.check() == []


@pytest.mark.parametrize("command", ["HELLO", "SSUBSCRIBE"])
async def test_a_server_that_is_too_old_to_greet_us_says_what_is_needed(
    proxy: Proxy, open_at: Open, command: str
) -> None:
    proxy.answer(command, f"ERR unknown command `{command}`, with args beginning with: ")
    with pytest.raises(StoreUnavailable, match=r"needs Redis >= 7 or Valkey >= 7.2"):
        await open_at(proxy.url).store.check()


@pytest.mark.parametrize("error", ["NOPERM this user has no permissions", "ERR unknown command 'INFO'"])
async def test_a_server_that_keeps_its_settings_to_itself_is_warned_about(
    proxy: Proxy, open_at: Open, error: str
) -> None:
    proxy.answer("INFO", error)
    (warning,) = await open_at(proxy.url).store.check()
    assert "were not checked" in warning


async def test_a_server_that_is_not_ready_to_be_looked_at_is_not_taken_for_fit(proxy: Proxy, open_at: Open) -> None:
    peer = open_at(proxy.url)
    proxy.answer("INFO", "LOADING Redis is loading the dataset in memory")
    with pytest.raises(StoreUnavailable, match="LOADING"):
        await peer.store.check()
    await peer.store.check()


async def test_a_connection_that_is_cut_while_we_look_is_an_absent_store(proxy: Proxy, open_at: Open) -> None:
    peer = open_at(proxy.url)
    await peer.store._link().open()
    proxy.cut(100)
    with pytest.raises(StoreUnavailable, match="closed the connection") as gone:
        await peer.store.check()
    assert gone.value.__cause__ is not None
