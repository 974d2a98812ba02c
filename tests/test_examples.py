"""Each example is run by its one command, as a process of its own, and does what its first lines say."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import httpx
import pytest

from tests.connections import NEW_EACH_TIME
from tests.servers import free_port
from tests.servers.server import keep_port
from tests.servers.telegram import TOKEN, TelegramServer

EXAMPLES = Path(__file__).parents[1] / "examples"


@contextmanager
def started(name: str, store_url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, which has said that it listens, and where."""
    port = free_port()
    with keep_port(port) or nullcontext():  # it takes a second to come to it, and others look for a free one meanwhile
        yield from started_on(port, name, store_url)


def started_on(port: int, name: str, store_url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / name)],
        env={**os.environ, "PORT": str(port), "INTURN_URL": store_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert f":{port}" in process.stdout.readline()
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 20
        while True:
            try:
                httpx.get(f"{url}/docs", timeout=5)
                break
            except httpx.TransportError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        yield process, url
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        said = process.stderr.read().splitlines()
        assert [line for line in said if not line.startswith("store: ")] == []  # what it has to say of a Redis
    finally:
        process.kill()
        process.communicate()


def test_a_message_that_the_webhook_gets_twice_is_answered_once(store_url: str, namespace: str) -> None:
    def post(message_id: str, text: str) -> str:
        done = httpx.post(f"{url}/webhook", json={"id": message_id, "chat": namespace, "text": text}, timeout=10)
        assert done.status_code == 202
        return str(done.json()["status"])

    with started("fastapi_webhook.py", store_url) as (process, url):
        assert process.stdout is not None
        assert post("m1", "hello") == "accepted"
        assert process.stdout.readline() == f"to {namespace}: I have read 1: hello\n"
        assert post("m1", "hello") == "duplicate"
        post("m2", "anyone?")
        assert process.stdout.readline() == f"to {namespace}: I have read 2: hello, anyone?\n"


def test_a_newer_message_interrupts_the_answer_and_both_are_answered_together(store_url: str, namespace: str) -> None:
    # a word of the answer takes 0.3 s: on a busy machine the newer message must not come when all have been said
    first = [f"word{number}" for number in range(12)]
    # made beforehand, since that takes its time
    with (
        started("interrupting_chat.py", store_url) as (_, url),
        httpx.Client(timeout=20, limits=NEW_EACH_TIME) as client,
    ):
        chat = f"{url}/chats/{namespace}"
        assert "EventSource" in client.get(url).text
        with client.stream("GET", f"{chat}/events") as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": watching"
            client.post(chat, json={"text": " ".join(first)})
            seen: list[tuple[str, object]] = []
            while not seen or seen[-1][0] != "commit":
                line = next(lines)
                if line.startswith("event: "):
                    data = json.loads(next(lines).removeprefix("data: "))
                    seen.append((line.removeprefix("event: "), data))
                    if seen[-1] == ("chunk", "You") and len(seen) == 2:
                        client.post(chat, json={"text": "two"})
        whats = [what for what, _ in seen]
        assert whats.count("interrupt") == 1
        again = whats.index("begin", 1)
        assert whats.index("interrupt") < again
        assert [data for what, data in seen[again:] if what == "chunk"] == ["You", "said:", *first, "/", "two"]


def test_the_chat_stops_quietly_while_a_stream_is_open(store_url: str, namespace: str) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(httpx.Client(timeout=20, limits=NEW_EACH_TIME))
        # the example is stopped first, and the stream left last
        streams = stack.enter_context(ExitStack())
        _, url = stack.enter_context(started("interrupting_chat.py", store_url))
        stream = streams.enter_context(client.stream("GET", f"{url}/chats/{namespace}/events"))
        lines = stream.iter_lines()
        assert next(lines) == ": watching"


def test_the_lock_that_replaces_redis_pys_serves_its_waiters_in_order(redis_url: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "redis_lock_replaced.py"), redis_url],
        cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    theirs, ours = done.stdout.splitlines()
    assert sorted(re.findall(r"\d", theirs.split("[")[1].split("]")[0])) == list("01234")
    assert ours.startswith("inturn: served in the order [0, 1, 2, 3, 4], all of them within ")


def test_a_job_is_called_back_until_its_receiver_has_taken_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "async_job.py")],
        cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "202: the job is safe",
        "call-back 1: signed; answered with 503, as if the receiver were busy",
        "call-back 2: signed; 'Pay the rent', finance",
        "the job is done; it was attempted 1 time, and called back 2 times",
        "one webhook-id: True; about this job: True",
    ]
    assert list(tmp_path.iterdir()) == []


async def test_the_telegram_bot_answers_a_burst_at_once_in_parts_and_stops_quietly(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        given = {"INTURN_BOT_TOKEN": TOKEN, "INTURN_BOT_API_URL": telegram.url, "INTURN_BOT_QUIET": "0.5"}
        telegram.say(42, "Tea, please")
        telegram.say(42, "and more tea")
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLES / "telegram_bot.py"),
            cwd=tmp_path, env=os.environ | given | {"INTURN_URL": "sqlite:///bot.db"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            await telegram.until(lambda: len(telegram.texts(42)) == 2, 120)
            assert telegram.texts(42) == ["2 so far.", "You wrote: Tea, please / and more tea"]
            process.send_signal(signal.SIGINT)
            said = await asyncio.wait_for(process.communicate(), 60)
            assert (process.returncode, *said) == (0, b"polling; Ctrl-C ends it\n", b"")
            assert telegram.pending == []
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def test_the_telegram_bot_names_the_token_that_it_needs(tmp_path: Path) -> None:
    none = dict.fromkeys(("INTURN_BOT_TOKEN", "TELEGRAM_BOT_TOKEN", "BOT_TOKEN"), "")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "telegram_bot.py")],
        cwd=tmp_path, env=os.environ | none, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("INTURN_BOT_TOKEN: must be set")


def test_tasks_of_celery_run_once_and_send_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "celery_proactive.py")],
        cwd=tmp_path, env=os.environ | {"INTURN_URL": "sqlite:///bot.db", "CELERY_BROKER_URL": "memory://"},
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "brewing o-1",
        "o-1 is ready",
        "o-1 is ready",
        "to 42: Your tea is ready.",
        "to 42: Come and get it.",
        "sent",
        "duplicate",
    ]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_names_its_one_command(path: Path) -> None:
    shown = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    assert f"python examples/{path.name}" in shown
