"""`inturn locks ls`, `show`, `release`: both forms, exit codes, one-sentence errors."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from inturn import sync
from inturn.cli.main import main
from inturn.locks.admin import HolderInfo, LockInfo, WaiterInfo
from tests.cli.conftest import Captured, field_lists, one_sentence
from tests.waiting import wait_until

HOLDER = {"owner", "host", "pid", "fence", "held_s", "weight", "ends_in_s"}
WAITER = {"owner", "host", "pid", "waited_s", "priority", "weight"}


@pytest.fixture
def app(store_url: str) -> Iterator[sync.InTurn]:
    with sync.InTurn(store_url) as app:
        yield app


@pytest.fixture
def name(namespace: str) -> str:
    """The stores of a run are shared by its tests; a name is not."""
    return f"repo:{namespace}"


def told(captured: Captured) -> tuple[str, str]:
    out, err = captured.readouterr()
    return out, err


def wait_until_queued(app: sync.InTurn, name: str, count: int) -> None:
    wait_until(lambda: (lock := app.locks.inspect(name)) is not None and len(lock.waiters) >= count)


@pytest.fixture
def contended(app: sync.InTurn, name: str) -> Iterator[str]:
    """A lock that is held by one and waited for by two."""

    def wait(priority: int) -> None:
        with app.lock(name, priority=priority):
            pass

    threads = []
    with app.lock(name):
        for count, priority in enumerate((0, 5), 1):
            threads.append(threading.Thread(target=wait, args=(priority,)))
            threads[-1].start()
            wait_until_queued(app, name, count)
        yield name
    for thread in threads:
        thread.join()


# -- looking ---------------------------------------------------------------------------------------------------------


def test_ls_prints_every_lock_as_json(store_url: str, contended: str, capsys: Captured) -> None:
    assert main(["locks", "ls", "--json", "--url", store_url]) == 0
    out, err = told(capsys)
    assert err == ""
    document = json.loads(out)
    assert set(document) == {"locks"}
    (lock,) = [lock for lock in document["locks"] if lock["name"] == contended]
    assert set(lock) == {"name", "capacity", "holders", "waiters"}
    (holder,) = lock["holders"]
    assert set(holder) == HOLDER
    assert holder["pid"] == os.getpid()
    assert holder["fence"] > 0
    assert holder["ends_in_s"] is None
    assert [set(waiter) for waiter in lock["waiters"]] == [WAITER, WAITER]
    assert [waiter["priority"] for waiter in lock["waiters"]] == [5, 0]


def test_ls_prints_a_table_for_people(store_url: str, contended: str, capsys: Captured) -> None:
    assert main(["locks", "ls", "--url", store_url]) == 0
    out, _ = told(capsys)
    assert out.split("\n")[0].split() == ["name", "holder", "owner", "held", "for", "fence", "waiters"]
    (row,) = [line for line in out.splitlines() if contended in line]
    assert f":{os.getpid()}" in row
    assert row.split()[-1] == "2"


def test_ls_says_that_there_is_nothing(sqlite_url: str, capsys: Captured) -> None:
    sync.InTurn(sqlite_url).__enter__().close()
    assert main(["locks", "ls", "--url", sqlite_url]) == 0
    assert told(capsys)[0] == "Nobody holds a lock, and nobody waits for one.\n"
    assert main(["locks", "ls", "--json", "--url", sqlite_url]) == 0
    assert json.loads(told(capsys)[0]) == {"locks": []}


def test_show_prints_the_waiters_in_order(store_url: str, contended: str, capsys: Captured) -> None:
    assert main(["locks", "show", contended, "--url", store_url]) == 0
    lines = told(capsys)[0].splitlines()
    assert lines[0] == f"{contended} (lock)"
    assert lines[2].split()[-1] == "renewed"
    assert [line.split()[0] for line in lines[-2:]] == ["1", "2"]
    assert [line.split()[-2] for line in lines[-2:]] == ["5", "0"]  # the higher priority comes first


def test_show_as_json(store_url: str, contended: str, capsys: Captured) -> None:
    assert main(["locks", "show", contended, "--json", "--url", store_url]) == 0
    document = json.loads(told(capsys)[0])
    assert document["lock"]["name"] == contended
    assert len(document["lock"]["waiters"]) == 2


def test_show_of_a_free_lock_is_not_found(app: sync.InTurn, store_url: str, name: str, capsys: Captured) -> None:
    assert main(["locks", "show", name, "--url", store_url]) == 1
    out, err = told(capsys)
    assert out == ""
    assert one_sentence(err) == f"inturn: nobody holds {name!r}, and nobody waits for it\n"
    assert main(["locks", "show", name, "--json", "--url", store_url]) == 1
    out, err = told(capsys)
    assert json.loads(out) == {"lock": None}
    assert err == ""


def test_a_namespace_is_a_world_of_its_own(store_url: str, namespace: str, name: str, capsys: Captured) -> None:
    with sync.InTurn(store_url, namespace=namespace) as app, app.lock(name):
        assert main(["locks", "ls", "--json", "--url", store_url, "--namespace", namespace]) == 0
        assert [lock["name"] for lock in json.loads(told(capsys)[0])["locks"]] == [name]


def test_the_environment_names_the_store(
    store_url: str, contended: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTURN_URL", store_url)
    assert main(["locks", "show", contended, "--json"]) == 0
    assert json.loads(told(capsys)[0])["lock"]["name"] == contended


def test_a_name_cannot_steer_the_terminal(sqlite_url: str, capsys: Captured) -> None:
    name = "\x1b[31mred [bold]\r\u202e"
    with sync.InTurn(sqlite_url) as app, app.lock(name, owner="me\x07"):
        assert main(["locks", "ls", "--url", sqlite_url]) == 0
        assert main(["locks", "show", name, "--url", sqlite_url]) == 0
    out, _ = told(capsys)
    assert all(char.isprintable() or char == "\n" for char in out)
    assert r"\x1b[31mred [bold]\r\u202e" in out


# -- releasing -------------------------------------------------------------------------------------------------------


def test_release_takes_the_lock_from_its_holder(app: sync.InTurn, store_url: str, name: str, capsys: Captured) -> None:
    lock = app.lock(name)
    lock.acquire()
    assert main(["locks", "release", name, "--yes", "--json", "--url", store_url]) == 0
    assert json.loads(told(capsys)[0]) == {"name": name, "released": 1}
    assert app.locks.inspect(name) is None


def test_release_of_a_free_lock_is_not_found(app: sync.InTurn, store_url: str, name: str, capsys: Captured) -> None:
    assert main(["locks", "release", name, "--yes", "--url", store_url]) == 1
    assert one_sentence(told(capsys)[1]) == f"inturn: nobody holds {name!r}\n"
    assert main(["locks", "release", name, "--yes", "--json", "--url", store_url]) == 1
    assert json.loads(told(capsys)[0]) == {"name": name, "released": 0}


def test_release_without_a_terminal_and_without_yes_is_refused(
    app: sync.InTurn, store_url: str, name: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with app.lock(name), Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert main(["locks", "release", name, "--url", store_url]) == 2
        out, err = told(capsys)
        assert out == ""
        assert "--yes" in one_sentence(err)
        assert app.locks.inspect(name) is not None


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_release_asks_in_a_terminal(sqlite_url: str, answer: str, code: int) -> None:
    with sync.InTurn(sqlite_url) as app:
        lock = app.lock("asked")
        lock.acquire()
        ours, theirs = pty.openpty()
        try:
            asking = subprocess.Popen(
                [sys.executable, "-m", "inturn.cli.main", "locks", "release", "asked", "--json", "--url", sqlite_url],
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            os.write(ours, f"{answer}\n".encode())
            out, err = asking.communicate(timeout=20)
        finally:
            os.close(ours)
            os.close(theirs)
        assert asking.returncode == code
        assert "with 0 waiting. Force-release it? [y/N]" in err
        assert (app.locks.inspect("asked") is None) == (code == 0)
        assert (json.loads(out) if out else None) == ({"name": "asked", "released": 1} if code == 0 else None)


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "x" * 513])
def test_a_bad_name_is_refused(app: sync.InTurn, store_url: str, name: str, capsys: Captured) -> None:
    assert main(["locks", "show", name, "--url", store_url]) == 2
    assert "name=" in one_sentence(told(capsys)[1])


def test_a_store_that_is_away_is_code_1_and_shows_no_password(capsys: Captured) -> None:
    url = "redis://:secret@127.0.0.1:1/0"
    assert main(["locks", "ls", "--json", "--url", url]) == 1
    out, err = told(capsys)
    assert out == ""
    assert "cannot connect" in one_sentence(err)
    assert "secret" not in err


def test_looking_at_a_store_does_not_make_one(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the default store is a file in the current folder
    assert main(["locks", "ls"]) == 1
    assert "there is no store at" in one_sentence(told(capsys)[1])
    assert not Path("inturn.db").exists()


def test_help_documents_the_json(capsys: Captured) -> None:
    assert main(["locks", "ls", "--help"]) == 0
    documented = field_lists(told(capsys)[0])
    for kind in (LockInfo, HolderInfo, WaiterInfo):
        assert [field.name for field in fields(kind)] in documented
