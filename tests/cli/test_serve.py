"""`inturn serve`: what it refuses, and how it says so."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from inturn.cli.main import main
from inturn.cli.serve import _listening, _who
from inturn.http.signatures import new_secret
from inturn.jobs.transport import JOB, WEBHOOK
from inturn.lanes import worker
from inturn.lanes.runtime import Runtime
from inturn.lanes.worker import Worker
from tests.acceptance.served import Served
from tests.cli.conftest import Captured, one_sentence

KEY = "key-0123456789abcdef"


def refused(captured: Captured, code: int, *words: str) -> str:
    assert main(["serve", "--url", "sqlite:///:memory:", *words]) == code
    out, err = captured.readouterr()
    assert out == ""
    return one_sentence(err)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_without_keys_it_serves_this_machine_alone(capsys: Captured, host: str) -> None:
    told = refused(capsys, 2, "--host", host, "--port", "0")
    assert "there are no API keys: set INTURN_API_KEYS_FILE or INTURN_API_KEYS, or" in told
    assert "or listen on 127.0.0.1" in told


def test_secrets_of_call_backs_are_no_keys(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTURN_WEBHOOK_SECRETS", new_secret())
    assert "there are no API keys" in refused(capsys, 2, "--host", "0.0.0.0", "--port", "0")


@pytest.mark.parametrize("name", ["INTURN_SERVICE_KEYS", "INTURN_WEBHOOK_SECRETS"])
def test_a_wrong_secret_is_told_at_the_start_without_showing_it(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "hunter2")
    told = refused(capsys, 2, "--port", "0")
    assert f"{name}: entry 1: " in told
    assert "hunter2" not in told


def test_with_keys_it_may_be_reached_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{KEY} ada acme\n")
    served = Served(tmp_path, "--host", "0.0.0.0", INTURN_API_KEYS_FILE="keys", INTURN_API_KEYS=f"{KEY}2:bob:acme")
    try:
        assert served.line.startswith("inturn serves http://0.0.0.0:")
        assert "2 API keys" in served.line
        assert KEY not in served.line + served.logged()
        assert served.terminate() == 0
    finally:
        served.end()


def test_the_keys_of_services_are_counted_and_suffice(tmp_path: Path) -> None:
    served = Served(tmp_path, "--host", "0.0.0.0", INTURN_SERVICE_KEYS=f"{KEY},{KEY}2")
    try:
        assert "agent offline, 2 service keys: serves services only)" in served.line
        asked = httpx.get(f"{served.url}/api/v1/nothing", headers={"x-request-id": "from-a-test"}, trust_env=False)
        assert (asked.status_code, asked.headers["x-request-id"]) == (401, "from-a-test")
        key = {"authorization": f"Bearer {KEY}"}
        assert httpx.get(f"{served.url}/metrics", headers=key, trust_env=False).status_code == 200
        assert served.terminate() == 0
    finally:
        served.end()


@pytest.mark.parametrize(
    ("keys", "services", "who"),
    [
        (0, 0, 'no API keys: serves this machine only, as user "local"'),
        (1, 0, "1 API key"),
        (2, 1, "2 API keys and 1 service key"),
        (0, 1, "1 service key: serves services only"),
    ],
)
def test_the_first_line_says_who_may_call(keys: int, services: int, who: str) -> None:
    assert _who(keys, services) == who


def test_a_port_in_use_is_told_in_one_sentence(capsys: Captured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = refused(capsys, 1, "--port", str(port))
    assert told == (
        f"inturn: port {port} on 127.0.0.1 is in use: stop what listens there, or choose another with --port\n"
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--port", "70000"], "--port 70000: must be a port"),
        (["--host", "no such host"], "--host no such host: must be an address"),
        (["--url", "redis:hunter2"], "must be a URL"),
        (["--workflows", "/nowhere.yaml"], "/nowhere.yaml: there is no such file or folder"),
        (["--grace", "-1"], "grace=-1.0: must be 0 seconds or more"),
        (["--namespace", "a b"], "--namespace a b: must be"),
        (["--concurrency", "0"], "--concurrency 0: must be a whole number from 1 to 1000"),
    ],
)
def test_a_wrong_argument_is_told_in_one_sentence(capsys: Captured, words: list[str], why: str) -> None:
    assert why in refused(capsys, 2, *words)


def test_an_address_of_another_machine_is_told_in_one_sentence(capsys: Captured) -> None:
    assert "is not an address of this machine" in refused(capsys, 1, "--host", "192.0.2.1", "--port", "0")


def test_how_many_turns_run_at_once_can_be_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[int] = []

    class Noticed(Worker):
        def __init__(self, runtime: Runtime, concurrency: int, grace_s: float, only: set[str]) -> None:
            super().__init__(runtime, concurrency, grace_s, only)
            if JOB not in only and WEBHOOK not in only:  # those have a number of their own
                asked.append(concurrency)
                os.kill(os.getpid(), signal.SIGTERM)  # that was all

    monkeypatch.setattr(worker, "Worker", Noticed)
    monkeypatch.setenv("INTURN_CONCURRENCY", "7")
    words = ["serve", "--url", f"sqlite:///{tmp_path / 'x.db'}", "--port", "0"]
    assert main(words) == 0
    assert main([*words, "--concurrency", "3"]) == 0
    assert asked == [7, 3]


def test_wrong_keys_are_told_without_showing_them(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").write_text("hunter2 ada acme\n")
    monkeypatch.setenv("INTURN_API_KEYS_FILE", str(tmp_path / "keys"))
    told = refused(capsys, 2)
    assert f"{tmp_path / 'keys'}:1: the key must have at least 16" in told
    assert "hunter2" not in told


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['fastapi'] = None; from inturn.cli.main import main; sys.exit(main(['serve']))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert one_sentence(done.stderr) == "inturn: inturn serve needs the extra 'server': pip install 'inturn[server]'\n"
    assert list(tmp_path.iterdir()) == []


def test_the_command_knows_itself_without_the_extra() -> None:
    code = (
        "import sys; from inturn.cli.main import main; "
        "code = main(['serve', '--help']); sys.exit(bool({'fastapi', 'uvicorn'} & set(sys.modules)) or code)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False).returncode == 0


def test_answers_do_not_wait_for_more_to_send() -> None:
    with _listening("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()[:2]):
        served, _ = listening.accept()
        with served:
            assert served.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
