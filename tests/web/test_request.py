from __future__ import annotations

from inturn.web.request import fingerprint, lane_of
from tests.http.calls import scope_of


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
