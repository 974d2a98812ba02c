"""A private cluster and private sentinels: real, ready when they say so, gone with the process that started them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import PrivateCluster, PrivateSentinels, ServerFailed
from tests.servers.cluster import SLOTS
from tests.servers.redis import tell
from tests.servers.test_redis import is_alive
from tests.waiting import wait_until

SCRIPT = """
import threading, time
from tests.servers import PrivateCluster, PrivateSentinels

groups = [PrivateCluster(), PrivateSentinels()]
starting = [threading.Thread(target=group.start) for group in groups]
for thread in starting:
    thread.start()
for thread in starting:
    thread.join()
cluster, sentinels = groups
servers = [*cluster.nodes, sentinels.master, sentinels.replica, *sentinels.sentinels]
print(*(server.pid for server in servers), *(server.folder for server in servers), flush=True)
time.sleep(120)
"""


def test_a_cluster_serves_every_slot_and_its_first_master_has_a_replica() -> None:
    with PrivateCluster() as cluster:
        owners = [cluster.owner(slot) for slot in (0, SLOTS // 3 - 1, SLOTS // 2, SLOTS - 1)]
        assert owners == [cluster.masters[0], cluster.masters[0], cluster.masters[1], cluster.masters[2]]
        assert cluster.url.startswith("redis+cluster://127.0.0.1:")
        assert cluster.url.count(",") == 3
        assert all(map(cluster.is_well, cluster.nodes))
        assert cluster.replica.facts("INFO", "replication")["master_port"] == str(cluster.masters[0].port)
        assert cluster.start() is cluster  # it runs already
        ports = cluster.replica.port, cluster.replica.bus_port
        cluster.replica.kill()
        cluster.replica.start()  # on the same ports, and it finds the others again
        assert (cluster.replica.port, cluster.replica.bus_port) == ports
        wait_until(lambda: cluster.replica.facts("INFO", "replication").get("master_link_status") == "up")
        folders = [node.folder for node in cluster.nodes]
    assert not any(folder.exists() for folder in folders)


def test_sentinels_agree_on_a_master_and_its_replica() -> None:
    with PrivateSentinels() as sentinels:
        asked = sentinels.sentinels[0]
        name = sentinels.url.rpartition("/")[2]
        assert asked.tell("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)[1] == str(sentinels.master.port)
        assert asked.tell("SENTINEL", "CKQUORUM", name).startswith("OK")
        with pytest.raises(ServerFailed, match="it refused: ERR unknown command"):
            asked.tell("NONSENSE")


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="does not answer PING"):
        tell(str(tmp_path / "nobody.sock"), "PING")


def test_a_parent_that_is_killed_takes_all_of_its_servers_with_it() -> None:
    parent = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        words = parent.stdout.readline().decode().split()
        pids, folders = [int(word) for word in words[: len(words) // 2]], words[len(words) // 2 :]
        assert len(pids) == 9
        assert all(map(is_alive, pids))
        parent.send_signal(signal.SIGKILL)
        parent.wait(30)
        wait_until(lambda: not any(map(is_alive, pids)))
        wait_until(lambda: not any(Path(folder).exists() for folder in folders))
