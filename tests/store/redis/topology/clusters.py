"""What the owner of a cluster does to it, and names that are in a partition of the test's choice."""

from __future__ import annotations

from inturn.store.redis.store import RedisStore
from inturn.store.redis.topology.slots import slot_of
from tests.servers import ClusterNode, PrivateCluster


def name_in(store: RedisStore, partition: int, text: str = "n") -> str:
    """A lock or lane of that partition."""
    return next(
        name for name in (f"{text}{number}" for number in range(100_000)) if store.partition_of(name) == partition
    )


def slot_of_partition(store: RedisStore, partition: int) -> int:
    return slot_of(store._keys[partition].prefix)


def partitions_of(store: RedisStore, cluster: PrivateCluster, node: ClusterNode) -> list[int]:
    """Those that a node serves now."""
    return [p for p in range(store.partitions) if cluster.owner(slot_of_partition(store, p)) is node]


def names_at(store: RedisStore, cluster: PrivateCluster, node: ClusterNode, count: int) -> list[str]:
    """Names of lanes that live on a node."""
    there = set(partitions_of(store, cluster, node))
    names = (f"lane-{number}" for number in range(1_000_000))
    return [next(name for name in names if store.partition_of(name) in there) for _ in range(count)]


def is_copied(master: ClusterNode) -> bool:
    """Whether its replica has everything that it has."""
    facts = master.facts("INFO", "replication")
    return f",offset={facts['master_repl_offset']}," in facts.get("slave0", "")


class Move:
    """A slot goes from its node to another one, step by step."""

    def __init__(self, cluster: PrivateCluster, slot: int) -> None:
        self.slot = slot
        self.cluster = cluster
        self.source = cluster.owner(slot)
        self.target = next(node for node in cluster.masters if node is not self.source)

    def begin(self) -> None:
        self.target.tell("CLUSTER", "SETSLOT", self.slot, "IMPORTING", self.source.id)
        self.source.tell("CLUSTER", "SETSLOT", self.slot, "MIGRATING", self.target.id)

    def move_keys(self, count: int = 1_000_000) -> int:
        """At most so many. Answers how many there were."""
        keys = self.source.tell("CLUSTER", "GETKEYSINSLOT", self.slot, count)
        for key in keys:
            self.source.tell("MIGRATE", "127.0.0.1", self.target.port, key, 0, 5000)
        return len(keys)

    def end(self) -> None:
        while self.move_keys():
            pass
        for node in (self.target, self.source):
            node.tell("CLUSTER", "SETSLOT", self.slot, "NODE", self.target.id)

    def all_at_once(self) -> None:
        self.begin()
        self.end()
