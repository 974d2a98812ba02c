"""`inturn locks`: who holds what, who waits, and the last resort."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.table import Table

from inturn.locks.admin import HolderInfo, LockInfo, WaiterInfo
from inturn.sync import Locks
from inturn.cli.open import opened
from inturn.terminal.show import (
    add_row,
    complain,
    duration,
    is_confirmed,
    must_be_able_to_ask,
    print_json,
    print_table,
    printable,
    table,
)


def run_locks(arguments: argparse.Namespace) -> int:
    with opened(arguments) as app:
        if arguments.action == "ls":
            return _list(app.locks, arguments.json)
        if arguments.action == "show":
            return _show(app.locks, arguments.name, arguments.json)
        return _release(app.locks, arguments.name, arguments.json, arguments.yes)


def _list(locks: Locks, as_json: bool) -> int:
    found = locks.list()
    if as_json:
        print_json({"locks": [asdict(lock) for lock in found]})
    elif found:
        print_table(_table_of_locks(found))
    else:
        print("Nobody holds a lock, and nobody waits for one.")
    return 0


def _show(locks: Locks, name: str, as_json: bool) -> int:
    lock = locks.inspect(name)
    if as_json:
        print_json({"lock": asdict(lock) if lock else None})
        return 0 if lock else 1
    if lock is None:
        return complain(f"nobody holds {name!r}, and nobody waits for it")
    kind = f"semaphore or read-write lock, {lock.capacity} permits" if lock.capacity > 1 else "lock"
    print(f"{printable(lock.name)} ({kind})")
    print_table(_table_of_holders(lock.holders))
    if lock.waiters:
        print_table(_table_of_waiters(lock.waiters))
    else:
        print("Nobody waits.")
    return 0


def _release(locks: Locks, name: str, as_json: bool, is_sure: bool) -> int:
    if not is_sure:
        must_be_able_to_ask("taking a lock away")
        lock = locks.inspect(name)
        if lock is not None and not is_confirmed(_question(lock)):
            return complain(f"{name!r} was left alone")
    count = locks.force_release(name)
    if as_json:
        print_json({"name": name, "released": count})
    elif count:
        print(f"{printable(name)} was taken from {count} holder{'s' if count > 1 else ''}.")
    else:
        return complain(f"nobody holds {name!r}")
    return 0 if count else 1


def _question(lock: LockInfo) -> str:
    holders = ", ".join(_place(holder) for holder in lock.holders) or "nobody"
    return printable(f"{lock.name} is held by {holders}, {len(lock.waiters)} waiting. Take it away?")


def _table_of_locks(locks: list[LockInfo]) -> Table:
    made = table("name", "holder", "owner", ">held for", ">fence", ">waiters")
    for lock in locks:
        name, waiters = lock.name, str(len(lock.waiters))
        for holder in lock.holders:
            told = (_place(holder), _owner(holder), duration(holder.held_s), str(holder.fence))
            add_row(made, name, *told, waiters)
            name = waiters = ""  # further holders of a semaphore stand under the first
        if not lock.holders:
            add_row(made, name, "-", "", "", "", waiters)
    return made


def _table_of_holders(holders: tuple[HolderInfo, ...]) -> Table:
    made = table("holder", "owner", ">held for", ">fence", ">weight", ">ends in")
    for holder in holders:
        ends = "renewed" if holder.ends_in_s is None else duration(holder.ends_in_s)
        told = (_place(holder), _owner(holder), duration(holder.held_s))
        add_row(made, *told, str(holder.fence), str(holder.weight), ends)
    return made


def _table_of_waiters(waiters: tuple[WaiterInfo, ...]) -> Table:
    made = table(">turn", "waiter", "owner", ">waiting for", ">priority", ">weight")
    for turn, waiter in enumerate(waiters, 1):
        told = (str(turn), _place(waiter), _owner(waiter), duration(waiter.waited_s))
        add_row(made, *told, str(waiter.priority), str(waiter.weight))
    return made


def _place(who: HolderInfo | WaiterInfo) -> str:
    return f"{who.host}:{who.pid}" if who.pid else who.host


def _owner(who: HolderInfo | WaiterInfo) -> str:
    """An owner that we named ourselves repeats the process: only its last part is news."""
    process, slash, rest = who.owner.partition("/")
    is_ours = slash and process.startswith(f"{who.host}:{who.pid}:")
    return rest if is_ours else who.owner
