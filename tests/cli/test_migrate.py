"""`inturn migrate`: it brings a database up to date, and says in one sentence why it cannot."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from inturn.cli.main import main
from inturn.database import Connection, Database
from inturn.database.database import HEAD
from tests.cli.conftest import Captured, one_sentence


async def _version(url: str) -> str | None:
    database = Database(url, timeout_s=30)
    try:
        return await database.version()
    finally:
        await database.close()


async def _pretend(url: str, version: str) -> None:
    """As if a newer inturn had been there."""
    database = Database(url, timeout_s=30)

    async def write(at: Connection) -> None:
        await at.execute(sa.text("UPDATE alembic_version SET version_num = :version"), {"version": version})

    try:
        await database.transaction(write)
    finally:
        await database.close()


def test_an_empty_database_is_brought_up_to_date_once(database_url: str, capsys: Captured) -> None:
    assert main(["migrate", "--database-url", database_url]) == 0
    out, err = capsys.readouterr()
    assert out == f"{database_url} was brought from nothing up to date: version {HEAD}\n"
    assert err == ""
    assert asyncio.run(_version(database_url)) == HEAD
    assert main(["migrate", "--database-url", database_url]) == 0
    assert capsys.readouterr().out == f"{database_url} is up to date: version {HEAD}\n"


@pytest.mark.parametrize("name", ["DATABASE_URL", "INTURN_DATABASE_URL"])
def test_without_a_url_it_is_the_one_of_the_environment(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, f"sqlite:///{tmp_path}/named.db")
    assert main(["migrate"]) == 0
    assert (tmp_path / "named.db").exists()
    assert main(["migrate", "--database-url", f"sqlite:///{tmp_path}/given.db"]) == 0
    assert (tmp_path / "given.db").exists()
    assert "given.db was brought" in capsys.readouterr().out


def test_without_any_it_is_the_file_beside_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("INTURN_URL", f"sqlite:///{tmp_path}/store.db")
    assert main(["migrate"]) == 0
    assert (tmp_path / "store-tasks.db").exists()
    assert not (tmp_path / "store.db").exists()
    assert capsys.readouterr().err == ""


def test_a_newer_database_is_left_alone(database_url: str, capsys: Captured) -> None:
    assert main(["migrate", "--database-url", database_url]) == 0
    asyncio.run(_pretend(database_url, "9999"))
    capsys.readouterr()
    assert main(["migrate", "--database-url", database_url]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    told = one_sentence(err)
    assert "9999" in told
    assert "newer" in told
    assert asyncio.run(_version(database_url)) == "9999"


def test_a_database_that_cannot_be_reached_is_told_within_the_patience(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.cli.migrate.PATIENCE_S", 0.5)
    monkeypatch.setenv("INTURN_DATABASE_TIMEOUT", "0.5")
    assert main(["migrate", "--database-url", "postgresql://ada:hunter2@127.0.0.1:9/x"]) == 1
    told = one_sentence(capsys.readouterr().err)
    assert "cannot be used" in told
    assert "hunter2" not in told


@pytest.mark.parametrize("url", ["mysql://h/x", "x.db", "", "sqlite:////no/such/folder/x.db"])
def test_a_url_that_is_none_is_wrong_usage(capsys: Captured, url: str) -> None:
    assert main(["migrate", "--database-url", url]) == 2
    assert "DATABASE_URL" in one_sentence(capsys.readouterr().err)


def test_a_file_that_is_no_database_is_told(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "x.db").write_text("a letter to my aunt, and by far too long to be nothing" * 50)
    assert main(["migrate", "--database-url", f"sqlite:///{tmp_path}/x.db"]) == 1
    assert "x.db" in one_sentence(capsys.readouterr().err)


def test_a_server_that_has_no_such_database_is_told(postgres_url: str, capsys: Captured) -> None:
    assert main(["migrate", "--database-url", f"{postgres_url}_not"]) == 1
    assert "does not exist" in one_sentence(capsys.readouterr().err)


def test_two_processes_that_migrate_at_once_both_succeed(database_url: str) -> None:
    command = [sys.executable, "-m", "inturn.cli.main", "migrate", "--database-url", database_url]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for each in both:
        out, err = each.communicate(timeout=120)
        assert (each.returncode, err) == (0, "")
        assert f"up to date: version {HEAD}" in out
    assert asyncio.run(_version(database_url)) == HEAD


@pytest.mark.parametrize("package", ["sqlalchemy", "alembic", "aiosqlite"])
def test_without_the_extra_it_says_what_to_install(tmp_path: Path, package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from inturn.cli.main import main; sys.exit(main(['migrate']))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "pip install 'inturn[tasks]'" in one_sentence(done.stderr)
