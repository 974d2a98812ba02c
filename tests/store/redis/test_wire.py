"""The kept heads give the very bytes that packing the whole command would give."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest

from inturn.store.redis import wire
from inturn.store.redis.scripts import Script, load
from inturn.store.redis.wire import Wire

KEYS = ("ns:{0}:lock:a", "ns:{0}:fence")
NAMES = ["a", "", " ", "ünïcödé", "名前", "🔑" * 50, "a\r\nb", "$5\r\n*3\r\n", "\0", "x" * 512, "e\u0301", "\u202e"]


def packed(script: Script, keys: tuple[str, ...], fixed: tuple[Any, ...], varying: tuple[Any, ...]) -> bytes:
    whole: bytes = hiredis.pack_command(("EVALSHA", script.sha, len(keys), *keys, *fixed, *varying))
    return whole


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_are_packed_as_hiredis_packs_them(name: str) -> None:
    kept = Wire()
    keys = tuple(f"{key}:{name}" for key in KEYS)
    for token in ("t#1", name):
        call = (load("locks/acquire"), keys, ("ns:{0}:", name, 1, 30_000), (token, name, 1, 1_790_000_000_000))
        assert kept.call(*call) == packed(*call)


@pytest.mark.parametrize("count", [0, 1, 8, 9, 10, 11, 99, 100, 1001])
def test_any_number_of_varying_arguments_is_counted(count: int) -> None:
    kept = Wire()
    for _ in range(2):
        call = (load("processes/beat"), KEYS, ("ns:{0}:", "process"), tuple(f"notice {n}" for n in range(count)))
        assert kept.call(*call) == packed(*call)


def test_calls_that_differ_in_anything_fixed_have_heads_of_their_own() -> None:
    kept = Wire()
    calls: list[tuple[Script, tuple[str, ...], tuple[Any, ...], tuple[Any, ...]]] = [
        (load(verb), (f"{prefix}lock:{name}",), (prefix, name, number), tail)
        for verb in ("locks/acquire", "locks/release")
        for prefix in ("ns:{0}:", "ns:{1}:")
        for name in ("a", "b", "1")
        for number in (1, 12)
        for tail in (("t",), ("t", 1), ("u", 2))
    ]
    for call in calls * 2:
        assert kept.call(*call) == packed(*call)


def test_more_names_than_are_kept_still_give_the_right_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_KEPT", 10)
    kept = Wire()
    for number in [*range(25), *range(25)]:
        name = f"lock-{number}"
        call = (load("locks/release"), (f"ns:{{0}}:lock:{name}",), ("ns:{0}:", name), (f"t#{number}", number))
        assert kept.call(*call) == packed(*call)
        assert len(kept._kept) <= 10


def test_the_call_with_the_source_in_it_carries_the_same_arguments() -> None:
    script = load("locks/release")
    arguments: tuple[Any, ...] = ("ns:{0}:", "名前", "t#1", 5)
    whole: tuple[Any, ...] = ("EVAL", script.source, 2, *KEYS, *arguments)
    assert Wire().whole_source(script, KEYS, arguments) == hiredis.pack_command(whole)
    whole = ("EVAL", script.source, 3, *KEYS, "ns:{0}:mark:a", *arguments)
    assert Wire().whole_source(script, KEYS, arguments, "ns:{0}:mark:a") == hiredis.pack_command(whole)


def test_a_guarded_call_names_a_key_of_its_partition_more_and_names_it_last() -> None:
    script, kept = load("lanes/submit"), Wire(guarded=True)
    fixed, varying = ("ns:{7}:", "名前"), ("t#1", 5)
    for number in range(2):
        mark = f"ns:{{7}}:mark:{number}"
        named = (*KEYS, mark, "ns:{7}:never")
        assert kept.call(script, KEYS, fixed, varying, mark) == packed(script, named, fixed, varying)
        whole: tuple[Any, ...] = ("EVAL", script.source, len(named), *named, *fixed, *varying)
        assert kept.whole_source(script, KEYS, (*fixed, *varying), mark) == hiredis.pack_command(whole)
    other = load("processes/beat")
    assert kept.call(other, KEYS, fixed, varying) == packed(other, (*KEYS, "ns:{7}:never"), fixed, varying)
