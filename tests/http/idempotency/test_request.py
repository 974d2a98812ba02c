"""Reading a request with a key: who is calling, the key itself, and what makes two requests the same."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inturn.http import by_address, by_authorization, by_cookie, by_header
from inturn.http.idempotency.request import MAX_KEY, MAX_VALUE, CallerOf, fingerprint, key_of, lane_of, read_key
from inturn.http.problems import Problem
from tests.http.calls import scope_of


def test_equal_credentials_are_one_caller_and_others_are_not() -> None:
    alice, bob = (by_authorization(scope_of("k", caller=f"Bearer {name}")) for name in ("alice", "bob"))
    assert alice
    assert bob
    assert alice != bob
    assert alice == by_authorization(scope_of("other", path="/elsewhere", caller="Bearer alice"))


@pytest.mark.parametrize("caller_of", [by_authorization, by_header("X-API-Key"), by_cookie("session")])
def test_without_what_tells_callers_apart_there_is_no_caller(caller_of: CallerOf) -> None:
    assert caller_of(scope_of("k", caller=None, headers=[(b"cookie", b"theme=dark; session=")])) is None


def test_a_header_and_a_cookie_can_name_the_caller() -> None:
    scope = scope_of("k", headers=[(b"X-Api-Key", b"secret"), (b"cookie", b"theme=dark; session=s1")])
    assert by_header("X-API-Key")(scope) == "secret"
    assert by_cookie("session")(scope) == "s1"
    assert by_cookie("sess")(scope) is None


def test_credentials_that_stand_there_twice_are_nobody_elses() -> None:
    both = by_authorization(scope_of("k", headers=[(b"authorization", b"Bearer bob")]))
    assert both not in ("Bearer alice", "Bearer bob", None)


def test_an_address_is_a_caller_whatever_its_port() -> None:
    scope = scope_of("k")
    assert by_address(scope) == "192.0.2.7"
    for absent in (None, ("", 0)):
        scope["client"] = absent
        assert by_address(scope) is None


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b'"8e03978e-40d5-43dd-bc93-6894a57f9324"', "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        (b"8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        (b' \t"a b" ', "a b"),
        (rb'"say \"hi\" \\ bye"', 'say "hi" \\ bye'),
        (b'"a,b;c"', "a,b;c"),
        (b'"a";v=1; w="x;y";flag', "a"),
        (b"order:42/1=x", "order:42/1=x"),
        (b'"' + b"x" * MAX_KEY + b'"', "x" * MAX_KEY),
        (b"x" * MAX_KEY, "x" * MAX_KEY),
        (b'"' + b'\\"' * MAX_KEY + b'"', '"' * MAX_KEY),
    ],
)
def test_a_key_is_read_with_and_without_quotes(value: bytes, key: str) -> None:
    assert read_key(value) == key


@pytest.mark.parametrize(
    "value",
    [
        b"", b"   ", b'""', b'"', b'"a', b'a"', b'"a"b', b'"a" "b"', b'"a", "b"', b"a, b", b"a b", b"a;b", b"a\\b",
        rb'"a\b"', b'"a\x00"', b'"a\x1f"', b'"a\x7f"', b"\xc3\xa9", b'"\xc3\xa9"', b'"a";', b'"a";V', b'"a"; =1',
        b"x" * (MAX_KEY + 1), b'"' + b"x" * (MAX_KEY + 1) + b'"', b'"a";v=' + b"1" * MAX_VALUE, b"\n", b'"a\n"', b"a\n",
    ],
)  # fmt: skip
def test_what_is_no_key_is_refused_with_400(value: bytes) -> None:
    with pytest.raises(Problem) as refused:
        read_key(value)
    assert refused.value.status == 400
    assert refused.value.code == "key-malformed"


@given(st.binary(max_size=MAX_VALUE + 50))
@example(b'"' * MAX_VALUE)
@example(b'"a"' + b";a" * 300)
@example(b'"' + b"\\" * 500)
def test_any_bytes_give_a_bounded_printable_key_or_a_problem(value: bytes) -> None:
    try:
        key = read_key(value)
    except Problem:
        return
    assert 1 <= len(key) <= MAX_KEY
    assert key.isascii()
    assert key.isprintable()


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=MAX_KEY))
def test_every_printable_text_can_be_a_quoted_key(key: str) -> None:
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    assert read_key(f'"{escaped}"'.encode()) == key


def test_a_header_that_stands_there_twice_is_refused_even_if_both_are_equal() -> None:
    with pytest.raises(Problem, match="more than once"):
        key_of(scope_of('"a"', headers=[(b"Idempotency-Key", b'"a"')]))


def test_no_header_is_no_key() -> None:
    assert key_of(scope_of(None)) is None


def test_callers_and_keys_that_read_the_same_when_joined_are_two_lanes() -> None:
    assert lane_of("ab", "c") != lane_of("a", "bc")
    assert lane_of("a", "b") != lane_of("b", "a")


def test_equal_requests_are_equal_and_the_key_salts_them() -> None:
    asked = fingerprint(scope_of("k"), "k", b"{}")
    assert asked == fingerprint(scope_of("k"), "k", b"{}")
    assert asked != fingerprint(scope_of("k2"), "k2", b"{}")


def test_parts_that_read_the_same_when_joined_are_two_requests() -> None:
    one = fingerprint(scope_of("k", path="/a", query=b"b"), "k", b"{}")
    assert one != fingerprint(scope_of("k", path="/ab", query=b""), "k", b"{}")


def test_a_server_that_does_not_say_the_raw_path_is_served_too() -> None:
    scope = scope_of("k")
    asked = fingerprint(scope, "k", b"")
    del scope["raw_path"]
    assert fingerprint(scope, "k", b"") == asked
