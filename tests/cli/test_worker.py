"""`inturn worker MODULE:APP`: it runs the handlers of an app, and stops in good order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inturn import InTurn
from inturn.cli.main import main
from tests.waiting import until

Captured = pytest.CaptureFixture[str]

APP = """
import asyncio, os
from pathlib import Path
from inturn import InTurn
from inturn.sync import InTurn as SyncInTurn

url, namespace = os.environ["SHOP_URL"], os.environ["SHOP_NAMESPACE"]
app = InTurn(url, namespace=namespace)
blocking = SyncInTurn(url, namespace=namespace)
nothing = InTurn(url)
word = "shop"

class Shop:
    app = app

@app.handler("order", key="{key}")
async def order(turn):
    Path("begun").touch()
    await asyncio.sleep(turn.body.get("seconds", 0))
    return f"order {turn.body['key']}"

@blocking.handler("order", key="{key}")
def order_blocking(turn):
    return f"order {turn.body['key']}"
"""


@pytest.fixture
def folder(tmp_path: Path, store_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a_shop.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_URL", store_url)
    monkeypatch.setenv("SHOP_NAMESPACE", namespace)
    return tmp_path


@pytest.fixture(autouse=True)
def modules_and_path_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("a_shop", "a_broken", "a_needy")):
            del sys.modules[name]


@pytest.fixture
async def shop(store_url: str, namespace: str) -> Any:
    async with InTurn(store_url, namespace=namespace) as app:

        @app.handler("order", key="{key}")
        async def order(turn: Any) -> None:
            raise AssertionError("it runs elsewhere")

        yield app


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "inturn.cli.main", "worker", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


@pytest.mark.parametrize("named", ["a_shop:app", "a_shop:Shop.app", "a_shop:blocking"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_works_until_a_signal_and_ends_with_code_0(
    folder: Path, shop: InTurn, named: str, number: signal.Signals
) -> None:
    worker = start(named, "--concurrency", "3", "--grace", "5")
    try:
        receipt = await shop.submit("order", {"key": "k"})
        assert await receipt.result(timeout=20) == "order k"
        worker.send_signal(number)
        out, err = worker.communicate(timeout=20)
    finally:
        worker.kill()
        worker.communicate()
    assert (worker.returncode, out) == (0, "")
    assert " INFO inturn.worker - worker begins handlers=order concurrency=3" in err
    assert "worker ends: 0 turns were handed back" in err
    assert "Traceback" not in err


async def test_what_does_not_finish_within_the_grace_is_handed_back(folder: Path, shop: InTurn) -> None:
    worker = start("a_shop:app", "--grace", "0")
    try:
        await shop.submit("order", {"key": "k", "seconds": 600})
        await until((folder / "begun").exists)  # the store knows of a turn before its worker does
        worker.send_signal(signal.SIGTERM)
        _, err = worker.communicate(timeout=20)
    finally:
        worker.kill()
        worker.communicate()
    assert worker.returncode == 0
    assert "1 turns were handed back" in err
    lane = await shop.lanes.inspect("k")
    assert (lane.status, lane.waiting, lane.messages[0].attempts) == ("ready", 1, 0)


@pytest.mark.parametrize(
    ("named", "part"),
    [
        ("a_shop", "MODULE:APP"),
        (":app", "MODULE:APP"),
        ("a_shop:", "MODULE:APP"),
        ("a_shop_that_is_not:app", "there is no module 'a_shop_that_is_not'"),
        ("a_shop.inner:app", "there is no module 'a_shop.inner'"),
        ("a_shop:missing", "module 'a_shop' has no 'missing'"),
        ("a_shop:Shop.missing", "module 'a_shop' has no 'Shop.missing'"),
        ("a_shop:word", "'a_shop:word' is a str: it must be an inturn.InTurn"),
        ("a_shop:nothing", "register a handler"),
        ("a_broken:app", "module 'a_broken' cannot be imported: ZeroDivisionError: division by zero"),
        ("a_needy:app", "module 'a_needy' cannot be imported: ModuleNotFoundError: No module named 'not_installed'"),
    ],
)
def test_a_wrong_app_is_one_sentence_and_code_2(folder: Path, named: str, part: str, capsys: Captured) -> None:
    (folder / "a_broken.py").write_text("app = 1 / 0\n")
    (folder / "a_needy.py").write_text("import not_installed\n")
    assert main(["worker", named]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert part in err
    assert err.startswith("inturn: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["--concurrency", "0"], ["--grace", "-1"], ["--concurrency", "many"]])
def test_wrong_numbers_are_code_2(folder: Path, words: list[str], capsys: Captured) -> None:
    assert main(["worker", "a_shop:app", *words]) == 2
    assert words[0].strip("-") in capsys.readouterr().err


def test_a_store_that_is_away_is_code_1(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("SHOP_URL", "redis://:secret@127.0.0.1:1/0")
    for named in ("a_shop:app", "a_shop:blocking"):
        assert main(["worker", named]) == 1
        err = capsys.readouterr().err.splitlines()[-1]
        assert err.startswith("inturn: ")
        assert "cannot connect" in err
        assert "secret" not in err
