"""`python -m benchmarks`: the shape of what it prints, its errors, and that it ends what it started."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
import redis

from benchmarks import machine
from benchmarks.__main__ import main
from benchmarks.figures import BOT, CONVERSATIONS, JOBS, LOCKS, POLICIES, TASKS, TURNS
from tests.servers import Broker, PrivateRedis

COMMAND = [sys.executable, "-m", "benchmarks"]
TINY = ["--rounds", "1", "--scale", "0.01"]
LONG = ["--rounds", "1000", "--scale", "0.01"]


def descendants(pid: int) -> set[int]:
    try:
        children = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return children.union(*(descendants(child) for child in children))


def run_tiny(subject: str, picture: Path, redis_url: str, *more: str) -> dict[str, Any]:
    """Its JSON; what is true of every subject is checked here."""
    options = ["--json", "--picture", str(picture), "--redis", redis_url, *more]
    with redis.Redis.from_url(redis_url) as client:
        before = set(client.keys())
        done = subprocess.run([*COMMAND, subject, *TINY, *options], capture_output=True, text=True, timeout=150)
        assert done.returncode == 0, done.stderr
        assert set(client.keys()) - before == set()
    assert all(line.startswith("bench: ") for line in done.stderr.splitlines()), done.stderr
    assert picture.read_text("utf-8").startswith("<svg")
    document: dict[str, Any] = json.loads(done.stdout)
    all_bars = {
        "locks": LOCKS, "turns": TURNS, "policies": POLICIES, "conversations": CONVERSATIONS, "jobs": JOBS,
        "tasks": TASKS, "bot": BOT,
    }  # fmt: skip
    bars = all_bars[subject]
    assert set(document) == {*bars, "details", "versions", "machine", "date", "rounds", "seconds"}
    assert set(document["details"]) == set(bars)
    for name, details in document["details"].items():
        assert details["value"] == document[name]
        assert {"value", "bar", "reached", "unit", "medians_by_round"} <= set(details)
        assert all(details["medians_by_round"].values())
    return document


def test_a_tiny_run_of_the_locks_has_every_figure_and_leaves_nothing_in_the_server(
    tmp_path: Path, redis_url: str
) -> None:
    document = run_tiny("locks", tmp_path / "locks.svg", redis_url)
    assert document["round_trips_uncontended"] == 2
    assert document["renew_round_trips_10k"] <= 2
    assert set(document["handoff_across_processes_ms"]) == {"median", "p90"}
    assert document["details"]["sqlite_vs_bare_loop_one_caller"]["reached"] is None
    assert set(document["versions"]) == {
        "inturn", "python", "sqlite", "redis", "hiredis", "python-redis-lock", "pottery", "redis-server",
    }  # fmt: skip


def test_a_tiny_run_of_the_turns_has_every_figure_and_leaves_nothing_in_the_server(
    tmp_path: Path, fresh_redis: PrivateRedis
) -> None:
    """On a server of its own: it measures memory, and what other tests have left would come and go meanwhile."""
    document = run_tiny("turns", tmp_path / "turns.svg", fresh_redis.url)
    details = document["details"]
    assert document["round_trips_per_turn"] == 2
    assert details["round_trips_per_turn"]["scripts_per_turn"] == 2
    trips = details["round_trips_per_turn"]["medians_by_round"]
    assert {side: round(sorted(values)[len(values) // 2]) for side, values in trips.items()} == {
        "inturn": 2, "recipe": 6, "plain pool": 2,
    }  # fmt: skip
    assert all(isinstance(document[name], float) for name in TURNS)
    assert details["submit_to_start_ms"]["p99"] >= document["submit_to_start_ms"] > 0
    assert details["sqlite_vs_bare_loop"]["one_caller"] > 0
    # what there is of a lane and of a mark, and nothing more: this does not depend on how busy the machine is
    assert 300 < document["bytes_per_idle_lane"] <= 550
    assert 40 < document["bytes_per_mark"] <= 250


def test_a_tiny_run_of_the_conversations_has_every_figure_and_leaves_nothing_in_the_server(
    tmp_path: Path, redis_url: str
) -> None:
    document = run_tiny("conversations", tmp_path / "conversations.svg", redis_url)
    assert set(document["overhead_ms"]) == {"median", "p99"}
    assert document["details"]["overhead_ms"]["reached"] is (document["overhead_ms"]["median"] <= 3)
    assert document["http_turns_per_s"] > 0
    assert document["http_vs_unguarded"] > 0
    sides = {"inturn, Redis", "inturn, SQLite", "no guard"}
    assert all(set(document["details"][name]["medians_by_round"]) == sides for name in CONVERSATIONS)


def test_a_tiny_run_of_the_policies_has_every_figure_and_leaves_nothing_in_the_server(
    tmp_path: Path, redis_url: str
) -> None:
    document = run_tiny("policies", tmp_path / "policies.svg", redis_url)
    details = document["details"]
    assert all(document[name] > 0 for name in POLICIES)
    assert document["interrupt_p99_ms"] >= document["interrupt_ms"]
    assert details["interrupt_ms"]["slowest"] >= document["interrupt_p99_ms"]
    assert details["stream_chunks_per_s"]["deliveries_per_s"] == 100 * document["stream_chunks_per_s"]
    assert {name for name in POLICIES if details[name]["reached"] is None} == {
        "stream_chunks_per_s", "cluster_vs_single",
    }  # fmt: skip
    sides = {name: set(details[name]["medians_by_round"]) for name in POLICIES}
    assert sides["merge_overhead_vs_queue"] == {"inturn, burst of 20", "inturn, one message"}
    assert sides["turn_slowdown_with_watchers"] == {"inturn, 100 watchers", "inturn, no watcher"}
    assert sides["cluster_vs_single"] == {"inturn, 3 masters", "inturn, one server"}


def test_a_tiny_run_of_the_jobs_has_every_figure_and_leaves_nothing_in_the_servers(
    tmp_path: Path, redis_url: str, broker: Broker
) -> None:
    ports = f"{broker.port}:{broker.management_port}"
    document = run_tiny("jobs", tmp_path / "jobs.svg", redis_url, "--rabbitmq", ports)
    details = document["details"]
    assert all(document[name] > 0 for name in JOBS)
    assert document["job_p99_ms"] >= document["job_p50_ms"]
    assert document["job_p99_ms_embedded"] >= document["job_p50_ms_embedded"]
    peers = {"celery", "dramatiq", "taskiq", "faststream"}
    assert {name for name in JOBS if details[name]["reached"] is not None} == {f"queue_vs_{peer}" for peer in peers}
    assert {*peers, "taskiq-aio-pika", "redis-server", "rabbitmq-server"} <= set(document["versions"])
    assert set(details["queue_vs_celery"]["medians_by_round"]) == {*peers, "inturn"}
    assert not any(vhost.startswith("inturn-bench-") for vhost in broker.vhosts())


def test_a_tiny_run_of_the_tasks_has_every_figure_and_leaves_nothing_in_the_servers(
    tmp_path: Path, redis_url: str, broker: Broker
) -> None:
    ports = f"{broker.port}:{broker.management_port}"
    document = run_tiny("tasks", tmp_path / "tasks.svg", redis_url, "--rabbitmq", ports)
    details = document["details"]
    assert all(document[name] > 0 for name in TASKS)
    assert document["tasks_p99_ms"] >= document["tasks_p50_ms"]
    assert document["tasks_p99_ms_embedded"] >= document["tasks_p50_ms_embedded"]
    assert {name for name in TASKS if details[name]["reached"] is not None} == {"reserve_vs_bare"}
    ratios = [document[name] for name in TASKS if name.startswith("reserve_vs_bare_")]
    assert len(ratios) == 4
    assert document["reserve_vs_bare"] == min(ratios) == document[details["reserve_vs_bare"]["smallest"]]
    assert {"asyncpg", "redis-server", "rabbitmq-server", "postgres-server"} <= set(document["versions"])
    assert not any(vhost.startswith("inturn-bench-") for vhost in broker.vhosts())


def test_a_tiny_run_of_the_bot_has_every_figure_and_leaves_nothing_in_the_server(
    tmp_path: Path, redis_url: str
) -> None:
    document = run_tiny("bot", tmp_path / "bot.svg", redis_url)
    details = document["details"]
    assert {name for name in BOT if details[name]["reached"] is not None} == {
        "guard_overhead_ms", "users_at_once", "faults",
    }  # fmt: skip
    assert all(document[name] > 0 for name in BOT if name != "faults")
    assert document["faults"] == 0
    assert document["users_at_once"] == document["users_at_once_embedded"] == 10
    # no answer can come before the quiet time and the agent are over
    assert document["answer_p99_ms"] >= document["answer_p50_ms"] > 240
    assert document["answer_p99_ms_embedded"] >= document["answer_p50_ms_embedded"] > 240
    assert document["peak_mb"] >= details["peak_mb"]["idle_mb"] > 0
    assert {"aiogram", "redis-server"} <= set(document["versions"])


@pytest.mark.parametrize(
    ("subject", "while_it"), [("locks", "throughput"), ("turns", "throughput"), ("policies", "interrupts")]
)
def test_ctrl_c_ends_the_benchmark_and_its_processes(subject: str, while_it: str) -> None:
    bench = subprocess.Popen([*COMMAND, subject, *LONG], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert bench.stderr is not None
    for line in bench.stderr:
        if while_it in line:
            break
    started = descendants(bench.pid)
    assert started
    bench.send_signal(signal.SIGINT)
    _, err = bench.communicate(timeout=20)
    assert bench.returncode == 130
    assert "Traceback" not in err
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)


def test_a_missing_peer_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def version(package: str) -> str:
        if package == "pottery":
            raise PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr(machine, "version", version)
    assert main(["locks"]) == 2
    assert capsys.readouterr().err == "bench: this benchmark needs the package pottery; `make setup` installs it\n"


@pytest.mark.parametrize(
    ("picture", "part"), [("picture.png", ".svg"), ("no/such/folder/x.svg", "no/such/folder")]
)  # fmt: skip
def test_a_wrong_picture_is_one_sentence_and_code_2(
    picture: str, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["locks", "--picture", picture]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bench: ")
    assert err.count("\n") == 1
    assert part in err
