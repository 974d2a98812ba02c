"""`inturn bench locks`: the shape of what it prints, and that it ends what it started."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import redis

from inturn.bench import sides
from inturn.bench.figures import BARS
from inturn.cli import main

COMMAND = [sys.executable, "-m", "inturn.cli", "bench", "locks"]
TINY = ["--quick", "--rounds", "1", "--scale", "0.01"]


def descendants(pid: int) -> set[int]:
    try:
        children = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return children.union(*(descendants(child) for child in children))


def test_a_tiny_run_has_every_figure_and_leaves_nothing_in_the_server(tmp_path: Path, redis_url: str) -> None:
    picture = tmp_path / "locks.svg"
    options = ["--json", "--picture", str(picture), "--redis", redis_url]
    with redis.Redis.from_url(redis_url) as client:
        before = set(client.keys())
        done = subprocess.run([*COMMAND, *TINY, *options], capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, done.stderr
        assert set(client.keys()) - before == set()
    document = json.loads(done.stdout)
    assert set(document) == {*BARS, "details", "versions", "machine", "date", "rounds", "seconds"}
    assert set(document["details"]) == set(BARS)
    for name, details in document["details"].items():
        assert details["value"] == document[name]
        assert {"value", "bar", "reached", "unit", "medians_by_round"} <= set(details)
        assert all(details["medians_by_round"].values())
    assert document["round_trips_uncontended"] == 2
    assert document["renew_round_trips_10k"] <= 2
    assert set(document["handoff_across_processes_ms"]) == {"median", "p90"}
    assert document["details"]["sqlite_vs_bare_loop_one_caller"]["reached"] is None
    assert set(document["versions"]) == {
        "inturn", "python", "sqlite", "redis", "hiredis", "python-redis-lock", "pottery", "redis-server",
    }  # fmt: skip
    assert all(line.startswith("bench: ") for line in done.stderr.splitlines())
    assert picture.read_text("utf-8").startswith("<svg")


def test_ctrl_c_ends_the_benchmark_and_its_processes() -> None:
    bench = subprocess.Popen([*COMMAND, "--quick"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert bench.stderr is not None
    for line in bench.stderr:
        if "throughput" in line:
            break
    started = descendants(bench.pid)
    assert started
    bench.send_signal(signal.SIGINT)
    _, err = bench.communicate(timeout=20)
    assert bench.returncode == 130
    assert "Traceback" not in err
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)


def test_a_missing_peer_names_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def version(package: str) -> str:
        if package == "pottery":
            raise PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr(sides, "version", version)
    assert main(["bench", "locks"]) == 2
    assert "pip install 'inturn[bench]'" in capsys.readouterr().err
