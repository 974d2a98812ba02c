"""API keys: read from a file and from the environment, and never shown."""

from __future__ import annotations

import asyncio
import errno
import hmac
import os
from pathlib import Path

import pytest

from inturn.errors import SettingsError
from inturn.http import api_keys
from inturn.http.api_keys import ApiKeys, CurrentKeys, load_keys
from inturn.http.caller import SERVICE, Caller
from inturn.settings import Settings, load_settings
from inturn.visitors.message import LaneKind, lane_name

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
        (f"{ONE} ada acme more", "the fourth word is a role, and admin is the only one"),
        (f"{ONE} ada acme Admin", "the fourth word is a role, and admin is the only one"),
        (f"{ONE} ada acme {TWO}x", "the fourth word is a role, and admin is the only one"),
        (f"{ONE} ada acme admin more", "may have the role admin after them; it has 5 parts"),
        ("hunter2 ada acme", "at least 16"),
        (f"{ONE}é ada acme", "printable ASCII"),
        (f"{ONE} a:da acme", "the user must have"),
        (f"{ONE} ada a>cme", "the tenant must have"),
        (f"{ONE} ada ada@example.com", "the tenant must have 1 to 64 letters, digits or any of _ . -"),
        (f"{ONE} ada a+b", "the tenant must have"),
        (f"{ONE} ada local", "the tenant 'local' is the one of servers without API keys"),
        (f"{ONE} ada {'a' * 65}", "the tenant must have"),
    ],
)
def test_a_wrong_line_is_named_and_its_key_is_not_shown(tmp_path: Path, line: str, why: str) -> None:
    told = refused(tmp_path, f"# first\n{TWO} bob acme\n{line}\n")
    assert told.startswith(f"{tmp_path / 'keys'}:3: ")
    assert why in told
    assert ONE not in told
    assert TWO not in told
    assert "hunter2" not in told


def test_a_key_may_have_the_role_admin_in_both_places(tmp_path: Path) -> None:
    keys = of_file(
        tmp_path, f"{ONE} ada acme admin\n{TWO} ada acme\n", api_keys=f"{THREE}:eve:other:admin,{THREE}4:eve:other"
    )
    assert len(keys) == 4
    assert keys.caller(ONE) == Caller("ada", "acme", is_admin=True)
    assert keys.caller(TWO) == Caller("ada", "acme"), "the role is one of the key, not of the user"
    assert keys.caller(THREE) == Caller("eve", "other", is_admin=True)
    assert keys.caller(f"{THREE}4") == Caller("eve", "other")
    with pytest.raises(SettingsError, match="INTURN_API_KEYS: entry 1: the fourth word is a role"):
        load_keys(Settings(api_keys=f"{ONE}:ada:acme:root"))


def test_services_have_keys_of_their_own_and_are_no_users(tmp_path: Path) -> None:
    keys = of_file(tmp_path, f"{ONE} service service\n", service_keys=f"{TWO}, {THREE}")
    assert (len(keys), keys.services) == (1, 2)
    assert keys.caller(TWO) == keys.caller(THREE) == SERVICE
    assert keys.caller(ONE) == Caller("service", "service") != SERVICE
    assert not SERVICE.is_user
    assert not SERVICE.is_admin
    assert keys.caller(f"{TWO}, {THREE}") is None
    assert TWO not in repr(vars(keys)) + repr(Settings(service_keys=TWO))


def test_every_key_is_compared_also_after_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the time that it takes would tell which one is nearly right."""
    keys = load_keys(Settings(api_keys=f"{ONE}:ada:acme", service_keys=f"{TWO},{THREE}"))
    compared: list[bytes] = []
    compare = hmac.compare_digest

    def noticed(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noticed)
    for given in (ONE, TWO, THREE, "nobody"):
        compared.clear()
        keys.caller(given)
        assert len(set(compared)) == 3


@pytest.mark.parametrize(
    ("services", "why"),
    [
        (f"{TWO},hunter2", "INTURN_SERVICE_KEYS: entry 2: the key must have at least 16"),
        (f"{TWO},", "INTURN_SERVICE_KEYS: entry 2: the key must have at least 16"),
        (f"{TWO}\u00e9", "INTURN_SERVICE_KEYS: entry 1: the key must have at least 16 printable ASCII characters"),
        (f"{TWO} {THREE}", "INTURN_SERVICE_KEYS: entry 1: the key must have at least 16 printable ASCII characters"),
        (f"{TWO},{TWO}", "INTURN_SERVICE_KEYS: entry 2: the key is already listed above"),
        (f"{TWO},{ONE}", "INTURN_API_KEYS: entry 1: the key is a service key too; make another"),
    ],
)
def test_a_wrong_service_key_is_named_and_not_shown(services: str, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        CurrentKeys(Settings(api_keys=f"{ONE}:ada:acme", service_keys=services))
    assert str(caught.value).startswith(why)
    for key in (ONE, TWO, THREE, "hunter2"):
        assert key not in str(caught.value)


def test_service_keys_alone_make_a_server_that_needs_keys() -> None:
    keys = CurrentKeys(Settings(service_keys=TWO))
    assert keys.are_needed
    assert (len(keys), keys.services) == (0, 1)
    assert keys.caller(TWO) == SERVICE
    assert not CurrentKeys(Settings()).are_needed


def test_a_file_cannot_take_over_the_key_of_a_service_later(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{ONE} ada acme\n")
    keys = CurrentKeys(Settings(api_keys_file=str(path), service_keys=TWO))
    path.write_text(f"{ONE} ada acme\n{TWO} mallory acme admin\n")
    clock.at += api_keys.LOOK_S
    assert keys.caller(TWO) == SERVICE
    assert "keys:2: the key is a service key too" in caplog.text
    path.write_text("")
    clock.at += api_keys.LOOK_S
    assert (keys.caller(ONE), keys.caller(TWO)) == (None, SERVICE)
    assert "only services may call until it does" in caplog.text


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


@pytest.mark.parametrize("kind", ["visitor", "chat", "project", "presence"])
def test_no_name_without_a_tenant_is_a_lane_of_a_tenant(kind: LaneKind) -> None:
    of_tenants = {lane_name(kind, name, "acme") for name in ("1", "a:1", ":1")}
    of_nobody = {lane_name(kind, name) for name in ("acme:1", "acme:a:1", "acme::1", ":acme:1", "1")}
    assert not of_tenants & of_nobody
    assert (len(of_tenants), len(of_nobody)) == (3, 5)
    assert lane_name(kind, "1") == f"{kind}:1"


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(api_keys, "clock", moved)
    return moved


def test_keys_are_read_again_when_their_file_changes(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{ONE} ada acme\n")
    keys = CurrentKeys(Settings(api_keys_file=str(path), api_keys=f"{THREE}:eve:other"))
    path.write_text(f"# of another length: the clock of files is coarse\n{TWO} bob acme\n")
    assert keys.caller(TWO) is None, "it is not looked at with every request"
    clock.at += api_keys.LOOK_S
    assert keys.caller(TWO) == Caller("bob", "acme")
    assert keys.caller(ONE) is None
    assert keys.caller(THREE) == Caller("eve", "other")
    assert len(keys) == 2
    assert TWO not in caplog.text


@pytest.mark.parametrize("broken", [f"{TWO} bob\n", None], ids=["a wrong line", "deleted"])
def test_a_file_that_cannot_be_used_keeps_the_keys_of_before(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, broken: str | None
) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{ONE} ada acme\n")
    path.chmod(0o600)
    keys = CurrentKeys(Settings(api_keys_file=str(path)))
    path.unlink() if broken is None else path.write_text(broken)
    for _ in range(3):
        clock.at += api_keys.LOOK_S
        assert keys.caller(ONE) == Caller("ada", "acme")
    (line,) = [record.getMessage() for record in caplog.records]
    assert "those of before still count" in line
    assert TWO not in line
    path.write_text(f"{TWO} bob acme\n")
    clock.at += api_keys.LOOK_S
    assert keys.caller(TWO) == Caller("bob", "acme")


@pytest.mark.parametrize("left", ["", "# nobody any more\n"], ids=["empty", "a comment"])
def test_a_file_that_names_no_key_any_more_withdraws_all_that_it_had(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, left: str
) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{ONE} ada acme\n")
    path.chmod(0o600)
    keys = CurrentKeys(Settings(api_keys_file=str(path)))
    both = CurrentKeys(Settings(api_keys_file=str(path), api_keys=f"{THREE}:eve:other"))
    path.write_text(left)
    for _ in range(3):
        clock.at += api_keys.LOOK_S
        assert keys.caller(ONE) is None
        assert keys.are_needed, "it does not become a server without keys"
    (record,) = caplog.records
    assert (record.levelname, "nobody may call" in record.getMessage()) == ("ERROR", True)
    assert both.caller(ONE) is None
    assert both.caller(THREE) == Caller("eve", "other")
    path.write_text(f"{ONE} ada acme\n")
    clock.at += api_keys.LOOK_S
    assert keys.caller(ONE) == Caller("ada", "acme")


async def test_a_key_counts_as_withdrawn_only_if_it_no_longer_belongs_to_its_caller(
    tmp_path: Path, clock: Clock
) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{ONE} ada acme\n{TWO} bob acme\n")
    keys = CurrentKeys(Settings(api_keys_file=str(path)))
    ada = asyncio.create_task(keys.withdrawn(ONE, Caller("ada", "acme")))
    bob = asyncio.create_task(keys.withdrawn(TWO, Caller("bob", "acme")))

    async def changed(text: str) -> None:
        for _ in range(3):  # all who wait do so, and later all have looked
            await asyncio.sleep(0)
        path.write_text(text)
        clock.at += api_keys.LOOK_S
        keys.caller(THREE)
        for _ in range(3):
            await asyncio.sleep(0)

    await changed(f"{ONE} ada acme\n{TWO} bob acme\n{THREE} eve acme\n")
    assert (ada.done(), bob.done()) == (False, False)
    await changed(f"{ONE} ada other\n{TWO} bob acme\n")
    assert (ada.done(), bob.done()) == (True, False)
    await changed("")
    assert bob.done()


@pytest.mark.parametrize(("before", "after"), [(" admin", ""), ("", " admin")], ids=["withdrawn", "given"])
async def test_a_key_whose_role_changes_counts_as_withdrawn(
    tmp_path: Path, clock: Clock, before: str, after: str
) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{ONE} ada acme{before}\n")
    keys = CurrentKeys(Settings(api_keys_file=str(path), service_keys=TWO))
    was = keys.caller(ONE)
    assert was is not None
    ada, service = (asyncio.create_task(keys.withdrawn(key, who)) for key, who in ((ONE, was), (TWO, SERVICE)))
    await asyncio.sleep(0)
    path.write_text(f"# another length\n{ONE} ada acme{after}\n")
    clock.at += api_keys.LOOK_S
    assert keys.caller(ONE) == Caller("ada", "acme", is_admin=bool(after))
    async with asyncio.timeout(20):
        await ada
    assert not service.done()
    service.cancel()


def test_a_key_withdrawn_while_the_file_could_not_be_read_is_withdrawn_later(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{ONE} ada acme\n{TWO} bob acme\n")
    keys = CurrentKeys(Settings(api_keys_file=str(path)))
    path.write_text(f"{ONE} ada acme\n")
    caplog.clear()

    def looked(why: int) -> Caller | None:
        def fails(*_: object) -> str:
            raise OSError(why, os.strerror(why))

        with monkeypatch.context() as patched:
            if why:
                patched.setattr(Path, "read_text", fails)
            clock.at += api_keys.LOOK_S
            return keys.caller(TWO)

    for why in (errno.EMFILE, errno.EMFILE, errno.EIO):
        assert looked(why) == Caller("bob", "acme")
    told = [record.getMessage() for record in caplog.records]
    assert [os.strerror(why) in line for why, line in zip((errno.EMFILE, errno.EIO), told, strict=True)] == [True, True]
    assert looked(0) is None, "though the file has not changed since"
    assert keys.caller(ONE) == Caller("ada", "acme")
    path.write_text(f"{ONE} ada acme\n{THREE} eve acme\n")
    caplog.clear()
    looked(errno.EIO)
    assert os.strerror(errno.EIO) in caplog.text, "a new failure is told again"


def test_a_change_that_leaves_size_and_time_as_they_were_is_read(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{ONE} ada acme\n")
    was = path.stat()
    keys = CurrentKeys(Settings(api_keys_file=str(path)))
    while path.stat().st_ctime_ns == was.st_ctime_ns:  # the clock of files is coarse
        path.write_text(f"{TWO} ada acme\n")
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    clock.at += api_keys.LOOK_S
    assert (keys.caller(ONE), keys.caller(TWO)) == (None, Caller("ada", "acme"))


def test_a_file_that_stays_broken_is_not_warned_of_each_time(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{ONE} ada acme\n")
    path.chmod(0o644)
    keys = CurrentKeys(Settings(api_keys_file=str(path)))
    path.write_text(f"{TWO} bob\n")
    for _ in range(3):
        clock.at += api_keys.LOOK_S
        keys.caller(ONE)
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]


@pytest.mark.parametrize(("mode", "is_warned"), [(0o600, False), (0o640, False), (0o644, True), (0o602, True)])
def test_a_file_that_everybody_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, is_warned: bool
) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{ONE} ada acme\n")
    path.chmod(mode)
    load_keys(Settings(api_keys_file=str(path)))
    assert (f"chmod 600 {path}" in caplog.text) == is_warned
    assert ONE not in caplog.text
