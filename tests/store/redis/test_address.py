"""URLs are read as redis-py reads them, and a password is never shown."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.connection import parse_url
from redis.crc import key_slot

from inturn.errors import SettingsError
from inturn.store.redis.address import Address
from inturn.store.redis.topology.slots import slot_of


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://", "redis://localhost:6379/0"),
        ("redis://cache", "redis://cache:6379/0"),
        ("redis://cache:7000/3", "redis://cache:7000/3"),
        ("redis://cache:7000?db=4", "redis://cache:7000/4"),
        ("redis://[::1]:7000/0", "redis://::1:7000/0"),
        ("redis://user:secret@cache:7000/3", "redis://cache:7000/3"),
        ("redis://:secret@cache", "redis://cache:6379/0"),
        ("rediss://user:secret@cache:7000", "rediss://cache:7000/0"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("unix://user:secret@/run/redis.sock?db=2", "unix:///run/redis.sock"),
    ],
)
def test_a_url_says_where_the_server_is(url: str, text: str) -> None:
    assert str(Address.from_url(url)) == text


PARTS = {
    "scheme": st.sampled_from(["redis", "unix"]),
    "user": st.sampled_from(["", "@", ":pass@", "user@", "us%40er:p%2Fa%3As%25s@", "user:@", "%C3%A4:%2520@"]),
    "place": st.sampled_from(["", "cache", "cache:7000", "[::1]", "[::1]:7000", "CACHE:0", "ca%2Dche", "/run/r.sock"]),
    "path": st.sampled_from(["", "/", "/3", "/%33", "/3/", "/x", "/-1", "//4", "/1/2"]),
    "query": st.sampled_from(
        [
            "",
            "?",
            "?db=4",
            "?db=",
            "?db=4&db=5",
            "?db=%34",
            "?timeout=2",
            "?db=4&protocol=3",
            "?password=p%20w",
            "?username=u&password=p&db=1",
            "?password=",
            "?username=%C3%A4",
        ]
    ),
}


@given(st.builds("{scheme}://{user}{place}{path}{query}".format, **PARTS))
def test_a_url_is_read_as_redis_py_reads_it(url: str) -> None:
    theirs: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
    if url.startswith("unix:") and "path" not in theirs:
        with pytest.raises(SettingsError, match="names no socket"):
            Address.from_url(url)
        return
    ours = Address.from_url(url)
    assert (ours.path, ours.db) == (theirs.get("path"), theirs.get("db", 0))
    assert (ours.username, ours.password) == (theirs.get("username"), theirs.get("password"))
    if not url.startswith("unix:"):
        assert (ours.host, ours.port) == (theirs.get("host", "localhost"), theirs.get("port", 6379))


@given(st.lists(st.sampled_from([b"{", b"}", b"a", b"inturn:", "ä".encode()]), max_size=8).map(b"".join))
def test_a_key_is_in_the_slot_in_which_redis_py_puts_it(key: bytes) -> None:
    assert slot_of(key) == key_slot(key)


def test_redis_py_is_not_loaded_for_a_store() -> None:
    code = (
        "import asyncio, sys, inturn\n"
        "asyncio.run(inturn.InTurn('redis://127.0.0.1:1').close())\n"
        "assert 'inturn.store.redis.store' in sys.modules\n"
        "print('redis' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"


def test_user_and_password_may_carry_any_character() -> None:
    address = Address.from_url("redis://us%40er:p%2Fa%3As%25s@cache:7000/0")
    assert (address.username, address.password) == ("us@er", "p/a:s%s")


def test_the_database_of_a_socket_is_a_parameter() -> None:
    assert Address.from_url("unix:///run/redis.sock?db=2").db == 2


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:topsecret@cache:7000/3",
        "rediss://:topsecret@cache",
        "unix://:topsecret@/run/redis.sock",
        "unix:///run/redis.sock?db=2&password=topsecret",
    ],
)
def test_no_text_of_an_address_shows_its_password(url: str) -> None:
    address = Address.from_url(url)
    assert address.password == "topsecret"
    assert "topsecret" not in f"{address} {address!r}"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://cache", "must start with redis://, rediss:// or unix://"),
        ("redis:/cache:6379", "must start with redis://, rediss:// or unix://"),
        ("redis:1", "must start with redis://, rediss:// or unix://"),
        ("unix://tmp", "names no socket"),
        ("rediss://cache?ssl_ca_certs=%00", "ssl_ca_certs"),
        ("redis://cache?db=three", "db= must be a number"),
        ("redis://:top/secret@cache:6379", "%2F"),
        ("redis://user:topsecret@cache:70000", "host or port"),
        ("redis://user:topsecret@cache:port", "host or port"),
        ("redis://user:topsecret@[::1", "host or port"),
        ("rediss://user:topsecret@cache?ssl_cert_reqs=maybe", "required, optional or none"),
        ("rediss://user:topsecret@cache?ssl_ca_certs=/no/such/file", "ssl_ca_certs='/no/such/file'"),
        ("rediss://user:topsecret@cache?ssl_certfile=/no/such/file", "ssl_certfile='/no/such/file'"),
    ],
)
def test_a_bad_url_is_refused_in_words_that_do_not_show_the_password(url: str, says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Address.from_url(url)
    assert says in str(refused.value)
    shown = "".join(traceback.format_exception(refused.value, chain=True))
    # a traceback quotes our source, which names no password either
    assert "top" not in shown.replace("stop", "")


def test_a_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("this is not a certificate")
    with pytest.raises(SettingsError, match="ssl_ca_certs"):
        Address.from_url(f"rediss://cache?ssl_ca_certs={tmp_path}/ca.pem")
    with pytest.raises(SettingsError, match="ssl_certfile"):
        Address.from_url(f"rediss://cache?ssl_certfile={tmp_path}/ca.pem")
