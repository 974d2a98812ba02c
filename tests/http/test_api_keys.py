"""API keys: read from a file and from the environment, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from inturn.errors import SettingsError
from inturn.http.api_keys import ApiKeys, load_keys
from inturn.http.caller import Caller
from inturn.settings import Settings, load_settings
from inturn.visitors.message import lane_name

ONE, TWO, THREE = "one-0123456789abc", "two-0123456789abc", "three-0123456789a"


def of_file(tmp_path: Path, text: str, **more: str) -> ApiKeys:
    path = tmp_path / "keys"
    path.write_text(text)
    return load_keys(Settings(api_keys_file=str(path), **more))


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        of_file(tmp_path, text)
    return str(caught.value)


def test_keys_of_both_places_count(tmp_path: Path) -> None:
    keys = of_file(
        tmp_path, f"# ours\n\n{ONE} ada acme\n  {TWO}\tbob  acme  \n", api_keys=f"{THREE}:eve@example.com:other, "[:-2]
    )
    assert len(keys) == 3
    assert keys.caller(ONE) == Caller("ada", "acme")
    assert keys.caller(TWO) == Caller("bob", "acme")
    assert keys.caller(THREE) == Caller("eve@example.com", "other")
    for wrong in ("", ONE[:-1], f"{ONE} ", ONE.upper(), "\udcff"):
        assert keys.caller(wrong) is None


def test_without_any_there_are_none() -> None:
    assert len(load_keys(Settings())) == 0
    assert ApiKeys().caller(ONE) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f"{ONE} ada", "it has 2 parts"),
        (ONE, "it has 1 part"),
        (f"{ONE} ada acme more", "it has 4 parts"),
        ("hunter2 ada acme", "at least 16"),
        (f"{ONE}é ada acme", "printable ASCII"),
        (f"{ONE} a:da acme", "the user must have"),
        (f"{ONE} ada a>cme", "the tenant must have"),
        (f"{ONE} ada ada@example.com", "the tenant must have 1 to 64 letters, digits or any of _ . -"),
        (f"{ONE} ada a+b", "the tenant must have"),
        (f"{ONE} ada {'a' * 65}", "the tenant must have"),
    ],
)
def test_a_wrong_line_is_named_and_its_key_is_not_shown(tmp_path: Path, line: str, why: str) -> None:
    told = refused(tmp_path, f"# first\n{TWO} bob acme\n{line}\n")
    assert told.startswith(f"{tmp_path / 'keys'}:3: ")
    assert why in told
    assert ONE not in told
    assert "hunter2" not in told


@pytest.mark.parametrize("tenant", ["a" * 64, "ACME_eu-1.example", "."])
def test_every_tenant_that_is_taken_can_have_lanes(tmp_path: Path, tenant: str) -> None:
    caller = of_file(tmp_path, f"{ONE} ada {tenant}\n").caller(ONE)
    assert caller is not None
    assert lane_name("visitor", "v", caller.tenant_id) == f"visitor:{tenant}:v"


def test_every_wrong_line_is_named_at_once(tmp_path: Path) -> None:
    told = refused(tmp_path, f"short ada acme\n{ONE} ada acme\n{ONE} bob acme\n")
    assert [line.split(": ")[0][-1] for line in told.splitlines()] == ["1", "3"]
    assert told.endswith("the key is already listed above")


def test_a_file_that_gives_no_keys_is_refused(tmp_path: Path) -> None:
    """Or a server that was meant to ask for keys would ask for none."""
    assert "has no API keys" in refused(tmp_path, "# none yet\n")
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load_keys(Settings(api_keys_file=str(tmp_path / "other")))
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load_keys(Settings(api_keys_file=str(tmp_path)))
    (tmp_path / "odd").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not UTF-8"):
        load_keys(Settings(api_keys_file=str(tmp_path / "odd")))


def test_a_wrong_entry_of_the_environment_is_named_and_not_shown() -> None:
    settings = load_settings({"INTURN_API_KEYS": f"{ONE}:ada:acme,hunter2:bob:acme"})
    assert ONE not in repr(settings)
    with pytest.raises(SettingsError, match="INTURN_API_KEYS: entry 2: the key must have") as caught:
        load_keys(settings)
    assert "hunter2" not in str(caught.value)


def test_only_digests_are_kept() -> None:
    keys = ApiKeys([("here", [ONE, "ada", "acme"])])
    assert ONE not in repr(vars(keys))
