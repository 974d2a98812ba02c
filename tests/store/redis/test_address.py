"""URLs are read as redis-py reads them, and a password is never shown."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from inturn.errors import SettingsError
from inturn.store.redis.address import Address


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


def test_user_and_password_may_carry_any_character() -> None:
    address = Address.from_url("redis://us%40er:p%2Fa%3As%25s@cache:7000/0")
    assert (address.username, address.password) == ("us@er", "p/a:s%s")


def test_the_database_of_a_socket_is_a_parameter() -> None:
    assert Address.from_url("unix:///run/redis.sock?db=2").db == 2


@pytest.mark.parametrize(
    "url", ["redis://user:topsecret@cache:7000/3", "rediss://:topsecret@cache", "unix://:topsecret@/run/redis.sock"]
)
def test_no_text_of_an_address_shows_its_password(url: str) -> None:
    address = Address.from_url(url)
    assert address.password == "topsecret"
    assert "topsecret" not in f"{address} {address!r}"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://cache", "Redis URL must specify"),
        ("redis://cache?db=three", "Invalid value for 'db'"),
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
