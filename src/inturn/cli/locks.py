"""`inturn locks`: who holds what, who waits, and the last resort."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from inturn.cli.open import opened
from inturn.cli.output import (
    Sight,
    complain,
    duration,
    is_confirmed,
    must_be_able_to_ask,
    print_json,
    show,
)
from inturn.cli.terminal import Screen, Table
from inturn.locks.admin import HolderInfo, LockInfo, WaiterInfo
from inturn.printable import printable
from inturn.sync import Locks


def run_locks(arguments: argparse.Namespace) -> int:
    name, as_json = getattr(arguments, "name", ""), arguments.json
    with opened(arguments) as app:
        if arguments.action == "ls":
            return show(lambda: _all(app.locks), as_json=as_json)
        if arguments.action == "show":
            return show(lambda: _one(app.locks, name), as_json=as_json)
        return _release(app.locks, name, as_json=as_json, is_sure=arguments.yes)


def _all(locks: Locks) -> Sight:
    found = locks.list()
    nothing = ["Nobody holds a lock, and nobody waits for one."]
    return Sight(
        {"locks": [asdict(lock) for lock in found]},
        lambda screen: _table_of_locks(found).lines(screen) if found else nothing,
    )


def _one(locks: Locks, name: str) -> Sight:
    lock = locks.inspect(name)
    if lock is None:
        return Sight({"lock": None}, lambda screen: [], f"nobody holds {name!r}, and nobody waits for it")
    return Sight({"lock": asdict(lock)}, lambda screen: _lines_of(lock, screen))


def _lines_of(lock: LockInfo, screen: Screen) -> list[str]:
    kind = f"semaphore or read-write lock, {lock.capacity} permits" if lock.capacity > 1 else "lock"
    waiters = _table_of_waiters(lock.waiters).lines(screen) if lock.waiters else ["Nobody is waiting."]
    return [f"{printable(lock.name)} ({kind})", *_table_of_holders(lock.holders).lines(screen), *waiters]


def _release(locks: Locks, name: str, *, as_json: bool, is_sure: bool) -> int:
    if not is_sure:
        must_be_able_to_ask("force-releasing a lock")
        lock = locks.inspect(name)
        if lock is not None and not is_confirmed(_question(lock)):
            return complain(f"{name!r} was not released")
    count = locks.force_release(name)
    if as_json:
        print_json({"name": name, "released": count})
    elif count:
        print(f"{printable(name)} was released: {count} holder{'s' if count > 1 else ''} lost it.")
    else:
        return complain(f"nobody holds {name!r}")
    return 0 if count else 1


def _question(lock: LockInfo) -> str:
    holders = ", ".join(_process(holder) for holder in lock.holders) or "nobody"
    return printable(f"{lock.name} is held by {holders}, with {len(lock.waiters)} waiting. Force-release it?")


def _table_of_locks(locks: list[LockInfo]) -> Table:
    table = Table("name", "holder", "owner", ">held for", ">fence", ">waiters")
    for lock in locks:
        name, waiters = lock.name, str(len(lock.waiters))
        for holder in lock.holders:
            told = (_process(holder), _owner(holder), duration(holder.held_s), str(holder.fence))
            table.add(printable(name), *told, waiters)
            name = waiters = ""  # further holders of a semaphore stand under the first
        if not lock.holders:
            table.add(printable(name), "-", "", "", "", waiters)
    return table


def _table_of_holders(holders: tuple[HolderInfo, ...]) -> Table:
    table = Table("holder", "owner", ">held for", ">fence", ">weight", ">ends in")
    for holder in holders:
        ends = "renewed" if holder.ends_in_s is None else duration(holder.ends_in_s)
        told = (_process(holder), _owner(holder), duration(holder.held_s))
        table.add(*told, str(holder.fence), str(holder.weight), ends)
    return table


def _table_of_waiters(waiters: tuple[WaiterInfo, ...]) -> Table:
    table = Table(">turn", "waiter", "owner", ">waiting for", ">priority", ">weight")
    for turn, waiter in enumerate(waiters, 1):
        told = (str(turn), _process(waiter), _owner(waiter), duration(waiter.waited_s))
        table.add(*told, str(waiter.priority), str(waiter.weight))
    return table


def _process(who: HolderInfo | WaiterInfo) -> str:
    return printable(f"{who.host}:{who.pid}" if who.pid else who.host)


def _owner(who: HolderInfo | WaiterInfo) -> str:
    """An owner that inturn named repeats the process; only its last part says something new."""
    process, slash, rest = who.owner.partition("/")
    is_ours = slash and process.startswith(f"{who.host}:{who.pid}:")
    return printable(rest if is_ours else who.owner)
