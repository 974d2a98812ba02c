"""Which node of a cluster serves which slot, as one of its nodes tells it.

A key's slot follows from its hash tag, `{p}` in every key of a partition, so a partition lives in one slot.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from inturn.errors import SettingsError
from inturn.store.redis.address import Address, split_url

CLUSTER_SCHEMES = ("redis+cluster", "rediss+cluster")
SLOTS = 16_384
"""Of every cluster: the number is part of its protocol."""
CLUSTER_PARTITIONS = 16
"""Where nothing else is set. It never changes, since the lanes of a namespace stay where they were put."""

_FORM = "redis+cluster://host:port,host:port, for example redis+cluster://10.0.0.1:6379,10.0.0.2:6379"


def is_cluster(url: str) -> bool:
    return url.partition("://")[0] in CLUSTER_SCHEMES


def seeds_of(url: str) -> list[Address]:
    """Returns the nodes that are asked first. The others are learnt from them."""
    parts = split_url(url)
    if parts.path.strip("/") not in ("", "0"):
        raise SettingsError(f"a cluster has database 0 only, so the URL ends after the hosts: {_FORM}")
    seeds = []
    for host in parts.hosts:
        seeds.append(Address.from_url(parts._replace(hosts=[host], path="").one()))
    if any(seed.db for seed in seeds):
        raise SettingsError(f"a cluster has database 0 only, so the URL has no db: {_FORM}")
    return seeds


def slot_of(key: str | bytes) -> int:
    """The checksum (CRC-16) of the first hash tag, if that is not empty; else of the whole key."""
    whole = key.encode() if isinstance(key, str) else key
    _, _, behind = whole.partition(b"{")
    tag, closed, _ = behind.partition(b"}")
    return crc_hqx(tag if closed and tag else whole, 0) % SLOTS


class Slots:
    """A slot map of the cluster. It may be out of date; then the nodes say so when they are asked."""

    def __init__(self) -> None:
        self._at: dict[int, Address] = {}
        self._ranges: list[tuple[int, int, Address]] = []
        self.masters: list[Address] = []
        self.nodes: list[Address] = []
        """All that may be asked for another slot map, the replicas included."""

    @classmethod
    def read(cls, reply: Sequence[Any], asked: Address) -> Slots:
        """Reads the answer to CLUSTER SLOTS. A node that does not know its own host has that of the node we asked."""
        slots = cls()
        masters: dict[Address, None] = {}
        nodes: dict[Address, None] = {}
        for first, last, *serving in reply:
            addresses = [_address(node, asked) for node in serving]
            slots._ranges.append((first, last, addresses[0]))
            masters[addresses[0]] = None
            nodes.update(dict.fromkeys(addresses))
        slots.masters, slots.nodes = list(masters), list(nodes)
        return slots

    def at(self, slot: int) -> Address | None:
        """The master that serves it."""
        moved = self._at.get(slot)
        if moved is not None:
            return moved
        return next((address for first, last, address in self._ranges if first <= slot <= last), None)

    def move(self, slot: int, to: Address) -> None:
        """A node said that this slot has moved."""
        self._at[slot] = to
        if to not in self.nodes:
            self.nodes.append(to)


def elsewhere(home: Address, where: str) -> Address:
    """Returns the node at `host:port`, as MOVED and ASK name it; without a host, at that of the node that says so."""
    host, _, port = where.rpartition(":")
    return replace(home, host=host or home.host, port=int(port), path=None)


def _address(node: Sequence[Any], asked: Address) -> Address:
    host, port = (node[0] or b"").decode(), int(node[1])
    if host == "?" and len(node) > 3:  # it is set to go by a host name, and has none
        more = node[3]
        facts = more if isinstance(more, dict) else dict(zip(more[::2], more[1::2], strict=True))
        host = facts.get(b"ip", b"").decode()
    return replace(asked, host=host or asked.host, port=port, path=None)
