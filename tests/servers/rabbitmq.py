"""A private RabbitMQ that can be killed, paused, and started again with its data; and one that a whole run shares.

It is a node by itself: it listens for AMQP and for its management API, on 127.0.0.1 alone, and for no other node. So it
needs no port mapper (epmd), which would outlive it. Nothing is read or written outside of its folder, the Erlang cookie
included.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from inturn.errors import InTurnError
from tests.servers.broker import Broker
from tests.servers.program import Compose, Program, find_rabbitmq
from tests.servers.server import PrivateServer, ServerFailed, free_port

STATISTICS_MS = 500
SHARED_FILE = "rabbitmq.json"

CONFIGURATION = f"""
listeners.tcp.1 = {{bind}}:{{port}}
management.tcp.ip = {{bind}}
management.tcp.port = {{management_port}}
loopback_users = none
vm_memory_high_watermark.absolute = 1GB
disk_free_limit.absolute = 50MB
raft.wal_max_size_bytes = 67108864
collect_statistics_interval = {STATISTICS_MS}
management.rates_mode = none
log.console = true
log.console.level = warning
log.file = false
"""


class PrivateRabbitMQ(PrivateServer):
    """A `rabbitmq-server` with its management API, for this process alone. `broker` is asked for what is in it."""

    kind: ClassVar[str] = "rabbitmq"
    ready_s: ClassVar[float] = 120.0  # it loads 1500 modules: seven seconds of processor time
    look_again_s: ClassVar[float] = 0.05

    def __init__(self, program: Program | None = None) -> None:
        super().__init__(program)
        self._management_port = 0

    @property
    def broker(self) -> Broker:
        return Broker(self.port, self._management_port)

    @property
    def url(self) -> str:
        return self.broker.url

    def url_of(self, vhost: str) -> str:
        return self.broker.url_of(vhost)

    def keeps(self, queue: str) -> bool:
        """Whether a quorum queue would survive `kill()`.

        RabbitMQ writes the name of a new one down half a second after it confirmed the declaration. If it is killed
        before, the queue is still listed afterwards, but answers nothing any more.
        """
        names = self.folder.glob("data/*/quorum/*/names.dets")
        return any(f"_{queue}".encode() in file.read_bytes() for file in names)

    def find(self) -> Program:
        return find_rabbitmq()

    def arguments(self, program: Program, port: int) -> list[str]:
        if self._port is None:  # not reachable yet: a port that was taken is replaced
            self._management_port = free_port()
        values = {"bind": program.bind, "port": port, "management_port": self._management_port}
        (self.folder / "home").mkdir(exist_ok=True)
        (self.folder / "rabbitmq.conf").write_text(CONFIGURATION.format(**values))
        (self.folder / "enabled_plugins").write_text("[rabbitmq_management].\n")
        (self.folder / "rabbitmq-env.conf").touch()  # instead of the machine's
        return []

    def environment(self, program: Program, port: int) -> dict[str, str]:
        node, folder = self._node(port), self.folder
        machine = [
            f"-sname {node}",
            # Two processors at most, and no spinning while there is nothing to do.
            "+S 2:2 +SDcpu 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
            # Quorum queues tell their figures this often.
            f"-rabbit quorum_tick_interval {STATISTICS_MS}",
        ]
        return {
            "HOME": f"{folder}/home",
            "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the server: our child is the process that serves
            # It has a name, but neither a listener for other nodes nor a registration. All of Erlang must know this:
            # once a minute RabbitMQ runs an `erl` that would start an epmd. A port on which nobody listens keeps it
            # from registering with an epmd of this machine.
            "ERL_ZFLAGS": f"-dist_listen false -start_epmd false -erl_epmd_port {port}",
            "ERL_EPMD_PORT": "1",
            "RABBITMQ_NODENAME": node,
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/rabbitmq-env.conf",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{folder}/advanced.config",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{folder}/generated",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": " ".join(machine),
        }

    def more_ports(self) -> Sequence[int]:
        return (self._management_port,)

    def answers(self, program: Program, port: int) -> bool:
        return Broker(port, self._management_port).is_ready(self._node(port))

    def _fresh_folder(self, program: Program) -> Path:
        folder = super()._fresh_folder(program)
        if isinstance(program, Compose):
            (folder / "home").mkdir(mode=0o777)
        return folder

    def _node(self, port: int) -> str:
        """Its folder is part of its name, so that no other server on a port that was taken is mistaken for it."""
        return f"{self.folder.name}-{port}@localhost"


class SharedRabbitMQ:
    """One for all workers of a run: it starts in the background, and `folder` tells them where it is."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / SHARED_FILE
        self._server = PrivateRabbitMQ()
        self._starting = threading.Thread(target=self._start, name="starts RabbitMQ", daemon=True)
        self._starting.start()

    def stop(self) -> None:
        """Also if it has not started yet: a short run does not wait for it."""
        self._server.give_up()
        self._starting.join()
        self._server.stop()

    def _start(self) -> None:
        try:
            broker = self._server.start().broker
            told: dict[str, Any] = {"ports": [broker.port, broker.management_port]}
        except (InTurnError, OSError) as error:  # whoever waits for it is told
            told = {"trouble": f"{type(error).__name__}: {error}"}
        half = self._file.with_suffix(".new")
        half.write_text(json.dumps(told))
        half.rename(self._file)


def shared_broker(folder: Path, within_s: float = PrivateRabbitMQ.ready_s) -> Broker:
    """Returns the run's RabbitMQ once it has started."""
    file = folder / SHARED_FILE
    deadline = time.monotonic() + within_s
    while not file.exists():
        if time.monotonic() > deadline:
            raise ServerFailed(f"the RabbitMQ of the run did not start within {within_s:g} s")
        time.sleep(PrivateRabbitMQ.look_again_s)
    told = json.loads(file.read_text())
    if "trouble" in told:
        raise ServerFailed(f"the RabbitMQ of the run did not start: {told['trouble']}")
    port, management_port = told["ports"]
    return Broker(port, management_port)
