"""Whether a server can keep the promises, and what its errors mean, in words that say what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hiredis

from inturn.errors import SettingsError, StoreUnavailable
from inturn.store.redis.address import Address

if TYPE_CHECKING:
    from inturn.store.redis.link import Link

_MEANING = {
    "OOM": "its memory is full (maxmemory); give it more, or remove what fills it",
    "MISCONF": "it cannot save to disk and therefore refuses writes; look at its disk and its log",
    "NOREPLICAS": "too few replicas are connected for its min-replicas-to-write",
    "NOPERM": "the ACL user may not do this: it needs +@read +@write +@scripting +@pubsub +time, "
    "and the keys (~) and channels (&) of its namespace",
    "NOAUTH": "it requires a password: put it in the URL",
    "WRONGPASS": "the user name or the password in the URL is wrong, or the user is off",
    "DENIED": "it is in protected mode; give it a password, or connect from its own machine",
    "WRONGTYPE": "a key of this namespace is used by someone else; choose another namespace",
}


def explain(code: str, answer: str) -> str:
    if "user executing the script can't" in answer:  # so says Redis 7.0 where others say NOPERM
        code = "NOPERM"
    meaning = _MEANING.get(code)
    if "unknown command" in answer:
        meaning = "inturn needs Redis >= 7 or Valkey >= 7.2"
    return f"refused: {answer}" + (f" ({meaning})" if meaning else "")


async def examine(link: Link, address: Address, allow_eviction: bool) -> list[str]:
    """Raises `SettingsError` for a server that would lose locks silently. Returns what its owner should know."""
    info = await link.ask("INFO")
    if isinstance(info, hiredis.ReplyError):
        if not str(info).startswith(("NOPERM", "ERR")):
            raise StoreUnavailable(f"{address} cannot answer INFO right now: {info}") from info
        return [f"{address} does not let us read INFO, so its settings were not checked: {info}"]
    text = info.decode() if isinstance(info, bytes) else str(info)
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    version = facts.get("valkey_version") or facts.get("redis_version", "unknown")
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) < 7:
        raise SettingsError(f"{address} is version {version}; inturn needs Redis >= 7 or Valkey >= 7.2")
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and not allow_eviction:
        raise SettingsError(
            f"{address} has maxmemory-policy {policy!r} and may throw locks and messages away when its memory is full; "
            "set it to 'noeviction', or INTURN_ALLOW_EVICTION=true if you accept that"
        )
    warnings = []
    saves = await link.ask("CONFIG", "GET", "save")
    if facts.get("aof_enabled") == "0" and isinstance(saves, hiredis.ReplyError):
        warnings.append(f"{address} does not let us read CONFIG, so whether it saves to disk was not checked: {saves}")
    elif facts.get("aof_enabled") == "0" and not (isinstance(saves, dict) and saves.get(b"save")):
        warnings.append(
            f"{address} keeps nothing on disk: a restart forgets every lock, lane and message "
            "(set 'appendonly yes' to keep them)"
        )
    if policy != "noeviction":
        warnings.append(f"{address} may evict locks and lanes (maxmemory-policy {policy!r}), as you allowed")
    return warnings


def spread(place: str, masters: int, used: int, partitions: int) -> list[str]:
    """Returns what the owner of a cluster should know about where the partitions are."""
    if used >= masters:
        return []
    where = f"the {partitions} partition(s) of this namespace are on {used} of them"
    advice = "a new namespace with more partitions (INTURN_PARTITIONS) uses them all"
    return [f"{place} has {masters} masters, and {where}; {advice}"]


def divided_otherwise(place: str, namespace: str, there: str, ours: int, is_default: bool, key: str) -> str:
    """Returns why a process must not use a namespace that has another number of partitions, and what to do."""
    set_by = "the default of its URL" if is_default else "INTURN_PARTITIONS"
    return (
        f"the namespace {namespace!r} at {place} is divided into {there} partition(s), and this app into {ours} "
        f"({set_by}): their turns of one key would run at the same time. Set INTURN_PARTITIONS={there} for all its "
        "processes (redis:// has 1 by default, redis+cluster:// has 16), or take another INTURN_NAMESPACE. If nothing "
        f"of the namespace is in use any more, delete the key {key!r}"
    )
