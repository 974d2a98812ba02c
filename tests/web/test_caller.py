from __future__ import annotations

import pytest

from inturn.web import by_address, by_authorization, by_cookie, by_header
from inturn.web.caller import CallerOf
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
