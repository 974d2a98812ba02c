"""`inturn locks` in the terminal: tables for people, JSON for programs.

Names and owners come from others: what cannot be printed is shown escaped, so that it cannot steer the terminal.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from inturn.errors import SettingsError
from inturn.locks.admin import HolderInfo, LockInfo, WaiterInfo
from inturn.settings import load_settings
from inturn.store.sqlite.address import Address
from inturn.sync import InTurn, Locks


def run_locks(arguments: argparse.Namespace) -> int:
    settings = load_settings()
    url = arguments.url or settings.url
    if missing := _missing_file(url, arguments.namespace or settings.namespace):
        return _complain(f"there is no store at {missing}; name the right one with --url or INTURN_URL")
    app = InTurn(url, namespace=arguments.namespace, settings=settings)
    try:
        if arguments.action == "ls":
            return _list(app.locks, arguments.json)
        if arguments.action == "show":
            return _show(app.locks, arguments.name, arguments.json)
        return _release(app.locks, arguments.name, arguments.json, arguments.yes)
    finally:
        app.close()


def _missing_file(url: str, namespace: str) -> str | None:
    """Looking at a store must not make one: SQLite would create the file that is not there."""
    if not url.startswith("sqlite://"):
        return None
    path = Address.from_url(url, namespace).path
    if path is None:
        raise SettingsError("sqlite:///:memory: is seen only by the process that made it; there is nothing to look at")
    return None if path.exists() else str(path)


def _list(locks: Locks, as_json: bool) -> int:
    found = locks.list()
    if as_json:
        _print_json({"locks": [asdict(lock) for lock in found]})
    elif found:
        _print(_table_of_locks(found))
    else:
        print("Nobody holds a lock, and nobody waits for one.")
    return 0


def _show(locks: Locks, name: str, as_json: bool) -> int:
    lock = locks.inspect(name)
    if as_json:
        _print_json({"lock": asdict(lock) if lock else None})
        return 0 if lock else 1
    if lock is None:
        return _complain(f"nobody holds {name!r}, and nobody waits for it")
    kind = f"semaphore or read-write lock, {lock.capacity} permits" if lock.capacity > 1 else "lock"
    print(f"{printable(lock.name)} ({kind})")
    _print(_table_of_holders(lock.holders))
    if lock.waiters:
        _print(_table_of_waiters(lock.waiters))
    else:
        print("Nobody waits.")
    return 0


def _release(locks: Locks, name: str, as_json: bool, is_sure: bool) -> int:
    if not is_sure:
        if not sys.stdin.isatty():
            raise SettingsError("taking a lock away needs a confirmation: add --yes, or run it in a terminal")
        lock = locks.inspect(name)
        if lock is not None and not _is_confirmed(lock):
            return _complain(f"{name!r} was left alone")
    count = locks.force_release(name)
    if as_json:
        _print_json({"name": name, "released": count})
    elif count:
        print(f"{printable(name)} was taken from {count} holder{'s' if count > 1 else ''}.")
    else:
        return _complain(f"nobody holds {name!r}")
    return 0 if count else 1


def _is_confirmed(lock: LockInfo) -> bool:
    holders = ", ".join(_place(holder) for holder in lock.holders) or "nobody"
    question = f"{printable(lock.name)} is held by {holders}, {len(lock.waiters)} waiting. Take it away? [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# -- tables ----------------------------------------------------------------------------------------------------------


def _table_of_locks(locks: list[LockInfo]) -> Table:
    table = _table("name", "holder", "owner", ">held for", ">fence", ">waiters")
    for lock in locks:
        name, waiters = printable(lock.name), str(len(lock.waiters))
        for holder in lock.holders:
            told = (_place(holder), _owner(holder), duration(holder.held_s), str(holder.fence))
            table.add_row(*map(Text, (name, *told, waiters)))
            name = waiters = ""  # further holders of a semaphore stand under the first
        if not lock.holders:
            table.add_row(*map(Text, (name, "-", "", "", "", waiters)))
    return table


def _table_of_holders(holders: tuple[HolderInfo, ...]) -> Table:
    table = _table("holder", "owner", ">held for", ">fence", ">weight", ">ends in")
    for holder in holders:
        ends = "renewed" if holder.ends_in_s is None else duration(holder.ends_in_s)
        told = (_place(holder), _owner(holder), duration(holder.held_s))
        table.add_row(*map(Text, (*told, str(holder.fence), str(holder.weight), ends)))
    return table


def _table_of_waiters(waiters: tuple[WaiterInfo, ...]) -> Table:
    table = _table(">turn", "waiter", "owner", ">waiting for", ">priority", ">weight")
    for turn, waiter in enumerate(waiters, 1):
        told = (str(turn), _place(waiter), _owner(waiter), duration(waiter.waited_s))
        table.add_row(*map(Text, (*told, str(waiter.priority), str(waiter.weight))))
    return table


def _table(*headings: str) -> Table:
    """A heading that starts with `>` stands over a column of numbers."""
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        is_number = heading.startswith(">")
        table.add_column(
            heading.lstrip(">"), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
        )
    return table


def _place(who: HolderInfo | WaiterInfo) -> str:
    return printable(f"{who.host}:{who.pid}" if who.pid else who.host)


def _owner(who: HolderInfo | WaiterInfo) -> str:
    """An owner that we named ourselves repeats the process: only its last part is news."""
    process, slash, rest = who.owner.partition("/")
    is_ours = slash and process.startswith(f"{who.host}:{who.pid}:")
    return printable(rest if is_ours else who.owner)


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _print(table: Table) -> None:
    Console(highlight=False).print(table)


def _print_json(document: object) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))


def _complain(sentence: str) -> int:
    print(f"inturn: {sentence}", file=sys.stderr)
    return 1
