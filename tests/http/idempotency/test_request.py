from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inturn.web.key_header import MAX_KEY, MAX_VALUE, key_of, read_key
from inturn.web.problem import Problem
from tests.http.calls import scope_of


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
