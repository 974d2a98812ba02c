"""A private RabbitMQ is reachable, can be killed, paused and started again, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import aio_pika
import pytest

from tests.servers import Broker, PrivateRabbitMQ, ServerFailed, free_port
from tests.servers.program import Local
from tests.servers.rabbitmq import SharedRabbitMQ, shared_broker
from tests.servers.test_redis import is_alive
from tests.waiting import until, wait_until

QUORUM: dict[str, str | int] = {"x-queue-type": "quorum"}
SCRIPT = """
import time
from tests.servers import PrivateRabbitMQ
server = PrivateRabbitMQ().start()
print(server.pid, server.folder, flush=True)
time.sleep(120)
"""


def processes_of(folder: Path) -> set[int]:
    """All that were started in the environment of a server, an epmd that went its own way included."""
    found = set()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            is_ours = f"HOME={folder}/home\0".encode() in environ.read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended, or is another user's
        if is_ours and is_alive(int(environ.parent.name)):
            found.add(int(environ.parent.name))
    return found


def name_of(pid: int) -> str:
    """'' if it has ended: RabbitMQ asks `df` for the free space now and then."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def run_erl_as_it_does_every_minute(pid: int) -> int:
    """RabbitMQ runs this to have an epmd started, where none is."""
    environ = Path(f"/proc/{pid}/environ").read_text().split("\0")
    environment = dict(line.split("=", 1) for line in environ if line)
    environment["ERL_EPMD_PORT"] = str(free_port())  # one that runs elsewhere would be enough for it
    command = ["erl", "-boot", "no_dot_erlang", "-sname", "epmd-starter-1", "-noinput", "-s", "erlang", "halt"]
    return subprocess.run(command, env=environment, check=False, timeout=30).returncode


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def waiting_in(url: str, queue: str) -> int:
    """How many messages are ready in a queue: exact, and at once."""
    async with await aio_pika.connect(url) as link:
        channel = await link.channel()
        declared = await channel.declare_queue(queue, passive=True)
        return declared.declaration_result.message_count or 0


async def publish(url: str, queue: str, **arguments: str | int) -> None:
    """Declares a quorum queue and puts one message in it; returns once the broker has confirmed that."""
    async with await aio_pika.connect(url) as link:
        channel = await link.channel(publisher_confirms=True, on_return_raises=True)
        await channel.declare_queue(queue, durable=True, arguments={**QUORUM, **arguments})
        kept = aio_pika.Message(b"kept", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(kept, routing_key=queue, mandatory=True)


async def test_what_it_confirmed_is_there_when_it_was_killed_and_started_again(fresh_rabbitmq: PrivateRabbitMQ) -> None:
    await publish(fresh_rabbitmq.url, "jobs")
    await until(lambda: fresh_rabbitmq.keeps("jobs"))
    assert not fresh_rabbitmq.keeps("other")
    before = (fresh_rabbitmq.broker, fresh_rabbitmq.pid)
    fresh_rabbitmq.kill()
    assert not fresh_rabbitmq.is_running
    with pytest.raises(aio_pika.exceptions.AMQPConnectionError):
        await aio_pika.connect(fresh_rabbitmq.url)
    assert not fresh_rabbitmq.broker.is_ready("any")
    await asyncio.to_thread(fresh_rabbitmq.start)
    assert fresh_rabbitmq.broker == before[0]
    assert fresh_rabbitmq.pid != before[1]
    async with await aio_pika.connect(fresh_rabbitmq.url) as link:
        channel = await link.channel()
        queue = await channel.declare_queue("jobs", passive=True)
        message = await queue.get(timeout=20)
        assert message.body == b"kept"
        await message.ack()


def test_two_share_nothing_and_one_is_paused_alone_and_stopped_without_a_trace(broker: Broker) -> None:
    with PrivateRabbitMQ() as server:
        mine, pid, folder = server.broker, server.pid, server.folder
        assert len({mine.port, mine.management_port, broker.port, broker.management_port, 5672, 15672}) == 6
        mine.add_vhost("only/here")
        assert sorted(mine.vhosts()) == ["/", "only/here"]
        assert "only/here" not in broker.vhosts()
        assert mine.url_of("only/here") == server.url_of("only/here") == f"{server.url}only%2Fhere"
        if sys.platform == "linux":
            assert pid in processes_of(folder)
            assert Path(f"/proc/{pid}/comm").read_text().startswith("beam")  # no script that waits for it
            assert run_erl_as_it_does_every_minute(pid) == 0
            assert "epmd" not in {name_of(child) for child in processes_of(folder)}
        assert (folder / "home" / ".erlang.cookie").exists()

        server.pause()
        with socket.create_connection(("127.0.0.1", server.port), timeout=0.5) as link:
            link.sendall(b"AMQP\x00\x00\x09\x01")
            with pytest.raises(TimeoutError):
                link.recv(1)
        assert broker.vhosts()
        server.resume()
        assert sorted(mine.vhosts()) == ["/", "only/here"]
    assert not is_alive(pid)
    wait_until(lambda: not processes_of(folder))
    assert not folder.exists()
    assert not is_open(mine.port)
    assert not is_open(mine.management_port)
    server.stop()  # may be repeated


def test_a_parent_that_is_killed_takes_its_server_with_it() -> None:
    parent = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().decode().split()
        assert is_alive(int(pid))
        parent.send_signal(signal.SIGKILL)
        parent.wait(30)
        wait_until(lambda: not is_alive(int(pid)))
        wait_until(lambda: not processes_of(Path(folder)))
        wait_until(lambda: not Path(folder).exists())


def test_a_start_that_is_given_up_ends_at_once_and_leaves_nothing() -> None:
    server = PrivateRabbitMQ()
    trouble: list[Exception] = []

    def start() -> None:
        try:
            server.start()
        except ServerFailed as error:
            trouble.append(error)

    starting = threading.Thread(target=start)
    starting.start()
    wait_until(lambda: server.is_running)
    server.pause()  # it comes no further, however late we are
    pid, folder = server.pid, server.folder
    server.give_up()
    starting.join(60)
    assert "did not start" in str(trouble[0])
    assert not is_alive(pid)
    assert not folder.exists()


def test_a_start_that_fails_says_what_the_server_wrote() -> None:
    with pytest.raises(ServerFailed, match=r"rabbitmq did not start on port \d+"):
        PrivateRabbitMQ(Local("/bin/false")).start()


def test_the_server_of_a_run_ends_with_it_also_while_it_starts(tmp_path: Path) -> None:
    SharedRabbitMQ(tmp_path).stop()
    with pytest.raises(ServerFailed, match="the RabbitMQ of the run did not start: ServerFailed"):
        shared_broker(tmp_path)


def test_workers_are_told_why_the_server_of_a_run_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerFailed, match="did not start within 0 s"):
        shared_broker(tmp_path, within_s=0)
    monkeypatch.setenv("INTURN_RABBITMQ_SERVER", "/no/such/program")
    SharedRabbitMQ(tmp_path).stop()
    with pytest.raises(ServerFailed, match="MissingProgram: INTURN_RABBITMQ_SERVER='/no/such/program'"):
        shared_broker(tmp_path)


async def test_a_test_has_a_virtual_host_to_itself(broker: Broker, rabbitmq_url: str, rabbitmq_vhost: str) -> None:
    assert rabbitmq_url == broker.url_of(rabbitmq_vhost)
    assert broker.queues(rabbitmq_vhost) == {}
    await publish(rabbitmq_url, "a/b", **{"x-delivery-limit": 3})
    await until(lambda: broker.queues(rabbitmq_vhost)["a/b"]["messages_ready"] == 1)
    queue = broker.queues(rabbitmq_vhost)["a/b"]
    assert (queue["messages"], queue["messages_unacknowledged"], queue["consumers"]) == (1, 0, 0)
    assert queue["type"] == "quorum"
    assert queue["arguments"] == {"x-queue-type": "quorum", "x-delivery-limit": 3}
    assert await waiting_in(rabbitmq_url, "a/b") == 1
    broker.delete_queue(rabbitmq_vhost, "a/b")
    assert broker.queues(rabbitmq_vhost) == {}
    with pytest.raises(ServerFailed, match=r"the broker refused DELETE .*: 404"):
        broker.delete_queue(rabbitmq_vhost, "a/b")


async def test_a_dead_letter_is_moved_at_least_once(rabbitmq_url: str) -> None:
    moved = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    await publish(rabbitmq_url, "dead")
    strategy = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    await publish(rabbitmq_url, "jobs", **moved, **strategy)
    async with await aio_pika.connect(rabbitmq_url) as link:
        channel = await link.channel()
        queue = await channel.declare_queue("jobs", passive=True)
        message = await queue.get(timeout=20)
        await message.reject(requeue=False)

    async def has_come() -> bool:
        return await waiting_in(rabbitmq_url, "dead") == 2

    await until(has_come)


async def test_an_operator_can_close_the_connections_of_one_virtual_host(
    broker: Broker, rabbitmq_url: str, rabbitmq_vhost: str
) -> None:
    link = await aio_pika.connect(rabbitmq_url)
    closed: list[object] = []
    link.close_callbacks.add(lambda _, reason: closed.append(reason))
    await until(lambda: len(broker.connections(rabbitmq_vhost)) == 1)
    name = broker.connections(rabbitmq_vhost)[0]
    assert name in broker.connections()
    assert broker.connections("/") == []
    assert broker.close_all_connections(rabbitmq_vhost) == 1
    await until(lambda: closed)
    await until(lambda: not broker.connections(rabbitmq_vhost))
    broker.close_connection(name)  # it is gone already
