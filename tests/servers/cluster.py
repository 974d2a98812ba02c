"""A private Redis Cluster: three masters, and a replica of the first that takes its place when it dies."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from tests.servers.program import Program
from tests.servers.redis import PrivateRedis, facts, tell
from tests.servers.server import PrivateGroup, free_port

SLOTS = 16384
MASTERS = 3
NODE_TIMEOUT_MS = 1000
"""After so long without a sign of life a node is thought to be gone."""


class ClusterNode(PrivateRedis):
    """One node. The port of its bus stays the same over `kill()` and `start()`, as its own port does."""

    kind: ClassVar[str] = "node"
    bus_port = 0

    def arguments(self, program: Program, port: int) -> list[str]:
        if self._port is None:  # not reachable yet: a port that was taken is replaced
            self.bus_port = free_port()
        ours = {
            "--cluster-enabled": "yes",
            "--cluster-port": str(self.bus_port),
            "--cluster-node-timeout": str(NODE_TIMEOUT_MS),
            "--cluster-replica-validity-factor": "0",
            "--cluster-allow-replica-migration": "no",
            "--repl-diskless-sync-delay": "0",
        }
        return [*super().arguments(program, port), *(text for pair in ours.items() for text in pair)]

    @property
    def id(self) -> str:
        return str(self.tell("CLUSTER", "MYID"))

    def tell(self, *words: object) -> Any:
        return tell(self._socket, *words)

    def facts(self, *words: object) -> dict[str, str]:
        return facts(self._socket, *words)


class PrivateCluster(PrivateGroup):
    """`masters` and `replica` are as they were at the start; `owner(slot)` tells who serves a slot now."""

    def __init__(self) -> None:
        super().__init__()
        self.masters: list[ClusterNode] = []
        self._meet_at = 0.0
        self.replica = ClusterNode()

    @property
    def nodes(self) -> list[ClusterNode]:
        return [*self.masters, self.replica]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def form(self) -> None:
        self.masters = [self.add(ClusterNode()) for _ in range(MASTERS)]
        self.replica = self.add(ClusterNode())
        first = self.masters[0]
        for number, node in enumerate(self.nodes):
            node.tell("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if node is not self.replica:
                begin, end = SLOTS * number // MASTERS, SLOTS * (number + 1) // MASTERS - 1
                node.tell("CLUSTER", "ADDSLOTSRANGE", begin, end)
        self.wait_until(lambda: self._have_met(first), "they have not met")
        self.replica.tell("CLUSTER", "REPLICATE", first.id)
        self.wait_until(
            lambda: (
                self.replica.facts("INFO", "replication").get("master_link_status") == "up"
                and first.facts("INFO", "replication").get("connected_slaves") == "1"
                and all(self._sees_replica(node) for node in self.nodes)
            ),
            "the replica has no copy yet",
        )
        self.wait_until(lambda: all(map(self.is_well, self.nodes)), "some slots are not served")

    def _have_met(self, first: ClusterNode) -> bool:
        """Introduces those who do not know all yet, also once more: who answers too late is forgotten again."""
        if all(map(self._knows_all, self.nodes)):
            return True
        if time.monotonic() >= self._meet_at:
            self._meet_at = time.monotonic() + 3 * NODE_TIMEOUT_MS / 1000
            for node in self.nodes:
                if node is not first:
                    first.tell("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus_port)
        return False

    def _knows_all(self, node: ClusterNode) -> bool:
        return node.facts("CLUSTER", "INFO").get("cluster_known_nodes") == str(len(self.nodes))

    def is_well(self, node: ClusterNode) -> bool:
        return node.facts("CLUSTER", "INFO").get("cluster_state") == "ok"

    def _sees_replica(self, node: ClusterNode) -> bool:
        return any("slave" in line for line in str(node.tell("CLUSTER", "NODES")).splitlines())

    def owner(self, slot: int) -> ClusterNode:
        """As a node that runs sees it."""
        asked = next(node for node in self.nodes if node.is_running)
        for begin, end, master, *_ in asked.tell("CLUSTER", "SLOTS"):
            if begin <= slot <= end:
                return next(node for node in self.nodes if node.port == master[1])
        raise LookupError(f"nobody serves slot {slot}")
