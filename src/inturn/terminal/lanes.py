"""`inturn lanes`: what runs, what waits, what is stopped; and stopping, resuming and clearing it."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.console import Group
from rich.table import Table
from rich.text import Text

from inturn.lanes.admin import LaneInfo, LaneSummary, MessageInfo
from inturn.sync import InTurn, Lanes
from inturn.terminal.dead import run_dead
from inturn.cli.open import opened
from inturn.terminal.show import (
    add_row,
    complain,
    duration,
    is_confirmed,
    lines,
    must_be_able_to_ask,
    pretty,
    print_json,
    printable,
    table,
)
from inturn.terminal.sight import Sight, show


def run_lanes(arguments: argparse.Namespace) -> int:
    with opened(arguments) as app:
        return _run(app, arguments)


def _run(app: InTurn, arguments: argparse.Namespace) -> int:
    action, as_json, lanes = arguments.action, arguments.json, app.lanes
    if action in ("dead", "replay", "drop"):
        return run_dead(app.dead_letters, arguments)
    if action == "ls":
        return show(lambda: _all(lanes, arguments.limit), as_json=as_json, watch=arguments.watch)
    key = arguments.key
    if action == "show":
        return show(lambda: _one(lanes, key, arguments.limit), as_json=as_json, watch=arguments.watch)
    if action == "pause":
        return _pause(lanes, key, arguments.why, as_json)
    if action == "resume":
        return _resume(lanes, key, as_json)
    return _clear(lanes, key, as_json, arguments.yes)


def _all(lanes: Lanes, limit: int) -> Sight:
    found = lanes.list(limit)
    nothing = Text("Nothing runs, and nothing waits.")
    return Sight({"lanes": [asdict(lane) for lane in found]}, _table_of_lanes(found) if found else nothing)


def _one(lanes: Lanes, key: str, limit: int) -> Sight:
    lane = lanes.inspect(key, limit)
    if _is_nothing(lane):
        return Sight({"lane": None}, "", _nothing(key))
    return Sight({"lane": asdict(lane)}, _picture(lane))


def _pause(lanes: Lanes, key: str, why: str, as_json: bool) -> int:
    lanes.pause(key, why)
    if as_json:
        print_json({"key": key, "paused": True})
    else:
        print(printable(f"{key} is paused: what runs may finish; let it go on with: inturn lanes resume {key}"))
    return 0


def _resume(lanes: Lanes, key: str, as_json: bool) -> int:
    is_resumed = lanes.resume(key)
    if as_json:
        print_json({"key": key, "resumed": is_resumed})
    elif is_resumed:
        print(printable(f"{key} goes on."))
    else:
        return complain(f"{key!r} was not stopped; inturn lanes show {key} tells what it does")
    return 0 if is_resumed else 1


def _clear(lanes: Lanes, key: str, as_json: bool, is_sure: bool) -> int:
    if not is_sure:
        must_be_able_to_ask("clearing a lane")
    lane = lanes.inspect(key, 1)
    is_there = not _is_nothing(lane)
    if is_there and not is_sure and not is_confirmed(_question(lane)):
        return complain(f"{key!r} was left alone")
    count = lanes.clear(key)
    if as_json:
        print_json({"key": key, "cleared": is_there, "messages": count})
    elif is_there:
        print(printable(f"{key} was cleared: {count} message{'' if count == 1 else 's'} and its state are gone."))
    else:
        return complain(_nothing(key))
    return 0 if is_there else 1


def _question(lane: LaneInfo) -> str:
    runs = ", one runs" if lane.holder else ""
    state = f"a state of version {lane.version}" if lane.version else "no state"
    return printable(f"{lane.key} has {lane.waiting} waiting{runs}, and {state}. Remove it all for good?")


def _is_nothing(lane: LaneInfo) -> bool:
    return lane.status == "idle" and not lane.version and not lane.delayed


def _nothing(key: str) -> str:
    return f"there is nothing in lane {key!r}: no message and no state; inturn lanes ls shows the lanes in use"


def _table_of_lanes(lanes: list[LaneSummary]) -> Table:
    made = table("key", "status", "handler", "holder", ">held for", ">waiting", "note")
    for lane in lanes:
        held = duration(lane.held_s) if lane.holder else ""
        note = f"no worker runs {lane.handler!r}" if lane.is_unhandled else lane.why
        handler = lane.handler or ("(inline)" if lane.holder else "")
        add_row(made, lane.key, lane.status, handler, lane.holder or "-", held, str(lane.waiting), note)
    return made


def _picture(lane: LaneInfo) -> Group:
    parts: list[Text | Table] = [Text(printable(f"{lane.key} ({lane.status})"), style="bold")]
    if lane.why:
        parts.append(Text(printable(f"stopped: {lane.why}")))
    if lane.holder:
        parts.append(Text(printable(f"held by {lane.holder} for {duration(lane.held_s)}, fence {lane.fence}")))
    if lane.version:
        ends = lane.state_expires_in_s
        life = "does not expire while it is in use" if ends is None else f"expires in {duration(ends)}"
        parts += [Text(f"state, version {lane.version}, {life}:"), lines(pretty(lane.state))]
    else:
        parts.append(Text("no state"))
    if lane.running is not None and lane.running.is_inline:
        parts.append(Text(printable(f"running: an inline turn ({lane.running.id})")))
    elif lane.running is not None:
        parts += [Text("running:"), _table_of_messages([lane.running, *lane.burst])]
    if lane.delayed:
        parts += [Text("delayed:"), _table_of_messages(lane.delayed)]
    if lane.messages:
        first = f"the first {len(lane.messages)} of " if lane.waiting > len(lane.messages) else ""
        parts += [Text(f"waiting, {first}{lane.waiting}:"), _table_of_messages(lane.messages)]
    else:
        parts.append(Text("Nothing waits."))
    return Group(*parts)


def _table_of_messages(messages: list[MessageInfo] | tuple[MessageInfo, ...]) -> Table:
    made = table("handler", "id", ">priority", ">attempts", ">age", ">due", "last error")
    for message in messages:
        due = f"in {duration(message.due_in_s)}" if message.due_in_s else "now"
        last = message.errors[-1] if message.errors else None
        error = f"{last.get('type')}: {last.get('message')}" if last else ""
        handler = "(inline)" if message.is_inline else message.handler
        handler = f"└ {handler}" if message.lead else handler
        add_row(
            made,
            handler,
            message.id,
            str(message.priority),
            str(message.attempts),
            duration(message.age_s),
            due,
            error[:200],
        )
    return made
