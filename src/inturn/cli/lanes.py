"""`inturn lanes`: what runs, waits or is stopped in the lanes of a store; stopping, resuming and clearing them; and the
messages that failed for good."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from inturn.cli.open import opened
from inturn.cli.output import (
    Sight,
    complain,
    duration,
    is_confirmed,
    moment,
    must_be_able_to_ask,
    pretty,
    print_json,
    printable_lines,
    show,
)
from inturn.cli.terminal import Screen, Table
from inturn.errors import SettingsError
from inturn.lanes.admin import DeadLetter, LaneInfo, LaneSummary, MessageInfo
from inturn.printable import printable
from inturn.sync import DeadLetters, InTurn, Lanes

MAX_LETTERS = 1_000_000
MAX_BODY_SHOWN = 20_000
MAX_ERROR_SHOWN = 200


def run_lanes(arguments: argparse.Namespace) -> int:
    with opened(arguments) as app:
        return _run(app, arguments)


def _run(app: InTurn, arguments: argparse.Namespace) -> int:
    action, as_json, lanes = arguments.action, arguments.json, app.lanes
    if action in ("dead", "replay", "drop"):
        return _run_dead(app.dead_letters, arguments)
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
    nothing = ["Nothing is running, and nothing is waiting."]
    return Sight(
        {"lanes": [asdict(lane) for lane in found]},
        lambda screen: _table_of_lanes(found).lines(screen) if found else nothing,
    )


def _one(lanes: Lanes, key: str, limit: int) -> Sight:
    lane = lanes.inspect(key, limit)
    if _is_nothing(lane):
        return Sight({"lane": None}, lambda screen: [], _nothing(key))
    return Sight({"lane": asdict(lane)}, lambda screen: _lines_of(lane, screen))


def _pause(lanes: Lanes, key: str, why: str, as_json: bool) -> int:
    lanes.pause(key, why)
    if as_json:
        print_json({"key": key, "paused": True})
    else:
        print(printable(f"{key} is paused. A running turn may finish. Resume it with: inturn lanes resume {key}"))
    return 0


def _resume(lanes: Lanes, key: str, as_json: bool) -> int:
    is_resumed = lanes.resume(key)
    if as_json:
        print_json({"key": key, "resumed": is_resumed})
    elif is_resumed:
        print(printable(f"{key} was resumed."))
    else:
        return complain(f"{key!r} was not stopped; inturn lanes show {key} shows what it is doing")
    return 0 if is_resumed else 1


def _clear(lanes: Lanes, key: str, as_json: bool, is_sure: bool) -> int:
    if not is_sure:
        must_be_able_to_ask("clearing a lane")
    lane = lanes.inspect(key, 1)
    is_there = not _is_nothing(lane)
    if is_there and not is_sure and not is_confirmed(_question(lane)):
        return complain(f"{key!r} was not changed")
    count = lanes.clear(key)
    if as_json:
        print_json({"key": key, "cleared": is_there, "messages": count})
    elif is_there:
        print(printable(f"{key} was cleared: {count} message{'' if count == 1 else 's'} and its state are gone."))
    else:
        return complain(_nothing(key))
    return 0 if is_there else 1


def _question(lane: LaneInfo) -> str:
    runs = ", one running" if lane.holder else ""
    state = f"a state of version {lane.version}" if lane.version else "no state"
    messages = f"{lane.waiting} message{'' if lane.waiting == 1 else 's'} waiting"
    return printable(f"{lane.key} has {messages}{runs}, and {state}. Delete all of it for good?")


def _is_nothing(lane: LaneInfo) -> bool:
    return lane.status == "idle" and not lane.version and not lane.delayed


def _nothing(key: str) -> str:
    return f"there is nothing in lane {key!r}: no message and no state; inturn lanes ls shows the lanes in use"


def _table_of_lanes(lanes: list[LaneSummary]) -> Table:
    table = Table("key", "status", "handler", "holder", ">held for", ">waiting", "note")
    for lane in lanes:
        held = duration(lane.held_s) if lane.holder else ""
        note = f"no worker runs {lane.handler!r}" if lane.is_unhandled else lane.why
        handler = lane.handler or ("(inline)" if lane.holder else "")
        cells = (lane.key, lane.status, handler, lane.holder or "-", held, str(lane.waiting), note)
        table.add(*map(printable, cells))
    return table


def _lines_of(lane: LaneInfo, screen: Screen) -> list[str]:
    lines = [screen.paint(printable(f"{lane.key} ({lane.status})"), "bold")]
    if lane.why:
        lines.append(printable(f"stopped: {lane.why}"))
    if lane.holder:
        lines.append(printable(f"held by {lane.holder} for {duration(lane.held_s)}, fence {lane.fence}"))
    if lane.version:
        ends = lane.state_expires_in_s
        life = "does not expire while it is in use" if ends is None else f"expires in {duration(ends)}"
        lines += [f"state, version {lane.version}, {life}:", *printable_lines(pretty(lane.state))]
    else:
        lines.append("no state")
    if lane.running is not None and lane.running.is_inline:
        lines.append(printable(f"running: an inline turn ({lane.running.id})"))
    elif lane.running is not None:
        lines += ["running:", *_table_of_messages([lane.running, *lane.burst]).lines(screen)]
    if lane.delayed:
        lines += ["delayed:", *_table_of_messages(lane.delayed).lines(screen)]
    if lane.messages:
        first = f"the first {len(lane.messages)} of " if lane.waiting > len(lane.messages) else ""
        lines += [f"waiting ({first}{lane.waiting}):", *_table_of_messages(lane.messages).lines(screen)]
    else:
        lines.append("Nothing is waiting.")
    running = (lane.running, *lane.burst) if lane.running is not None else ()
    return lines + _lines_of_failures((*running, *lane.messages))


def _lines_of_failures(messages: Sequence[MessageInfo]) -> list[str]:
    """What each attempt of these messages raised. The messages of a burst failed together: that is said once."""
    lines: list[str] = []
    told: list[dict[str, Any]] = []
    for message in messages:
        errors = [error for error in message.errors if error not in told]
        if errors:
            told += errors
            lines.append(printable(f"what message {message.id!r} of handler {message.handler!r} has raised:"))
            lines += [line for error in errors for line in _lines_of_error(error)]
    return lines


def _table_of_messages(messages: Sequence[MessageInfo]) -> Table:
    table = Table("handler", "id", ">priority", ">attempts", ">age", ">due", "last error")
    for message in messages:
        due = f"in {duration(message.due_in_s)}" if message.due_in_s else "now"
        error = _error(message.errors[-1])[:MAX_ERROR_SHOWN] if message.errors else ""
        handler = "(inline)" if message.is_inline else message.handler
        handler = f"└ {handler}" if message.lead else handler
        numbers = (str(message.priority), str(message.attempts), duration(message.age_s), due)
        table.add(*map(printable, (handler, message.id, *numbers, error)))
    return table


def _error(error: dict[str, Any]) -> str:
    return f"{error.get('type')}: {error.get('message')}"


def _run_dead(letters: DeadLetters, arguments: argparse.Namespace) -> int:
    action, place = arguments.action, arguments.place
    if action == "dead":
        if len(place) not in (0, 3):
            raise SettingsError("name one dead letter by KEY, HANDLER and ID, or leave all three out to list them all")
        look = (lambda: _one_letter(letters, *place)) if place else (lambda: _all_letters(letters, arguments.limit))
        return show(look, as_json=arguments.json, watch=arguments.watch)
    if len(place) != (0 if arguments.all else 3):
        raise SettingsError(f"say what to {action}: KEY HANDLER ID, or --all")
    if arguments.handler and not arguments.all:
        raise SettingsError("--handler goes with --all; a single dead letter is named by KEY HANDLER ID")
    act = letters.replay if action == "replay" else letters.drop
    done = "replayed" if action == "replay" else "dropped"
    if arguments.all:
        is_sure = action == "replay" or arguments.yes
        return _act_on_all(letters, act, done, handler=arguments.handler, as_json=arguments.json, is_sure=is_sure)
    return _act_on_one(act, done, place, as_json=arguments.json)


def _all_letters(letters: DeadLetters, limit: int) -> Sight:
    found = letters.list(limit)
    nothing = ["There are no dead letters."]
    return Sight(
        {"dead": [asdict(letter) for letter in found]},
        lambda screen: _table_of_letters(found).lines(screen) if found else nothing,
    )


def _one_letter(letters: DeadLetters, key: str, handler: str, message_id: str) -> Sight:
    letter = letters.show(key, handler, message_id)
    if letter is None:
        return Sight({"dead_letter": None}, lambda screen: [], _no_letter(key, handler, message_id))
    return Sight({"dead_letter": asdict(letter)}, lambda screen: _lines_of_letter(letter, screen))


def _act_on_one(act: Callable[[str, str, str], bool], done: str, place: list[str], *, as_json: bool) -> int:
    key, handler, message_id = place
    is_done = act(key, handler, message_id)
    if as_json:
        print_json({done: int(is_done)})
    elif is_done:
        print(f"1 dead letter was {done}.")
    else:
        return complain(_no_letter(key, handler, message_id))
    return 0 if is_done else 1


def _act_on_all(
    letters: DeadLetters,
    act: Callable[[str, str, str], bool],
    done: str,
    *,
    handler: str | None,
    as_json: bool,
    is_sure: bool,
) -> int:
    if not is_sure:
        must_be_able_to_ask("dropping dead letters for good")
    found = [letter for letter in letters.list(MAX_LETTERS) if handler in (None, letter.handler)]
    if found and not is_sure and not is_confirmed(f"Drop {_count(len(found))} for good?"):
        return complain("nothing was dropped")
    # only those that were found: what is replayed and dies again stays
    count = sum(act(letter.key, letter.handler, letter.id) for letter in found)
    if as_json:
        print_json({done: count})
    else:
        print(f"{_count(count)} {'was' if count == 1 else 'were'} {done}.")
    return 0


def _count(letters: int) -> str:
    return f"{letters} dead letter{'' if letters == 1 else 's'}"


def _no_letter(key: str, handler: str, message_id: str) -> str:
    return f"lane {key!r} has no dead letter {message_id!r} of handler {handler!r}; inturn lanes dead lists them all"


def _table_of_letters(letters: list[DeadLetter]) -> Table:
    table = Table("key", "handler", "id", ">attempts", ">died", "last error")
    for letter in letters:
        error = _error(letter.errors[-1])[:MAX_ERROR_SHOWN] if letter.errors else ""
        cells = (letter.key, letter.handler, letter.id, str(letter.attempts), moment(letter.died_at), error)
        table.add(*map(printable, cells))
    return table


def _lines_of_letter(letter: DeadLetter, screen: Screen) -> list[str]:
    title = printable(f"message {letter.id!r} of handler {letter.handler!r} in lane {letter.key!r}")
    plural = "" if letter.attempts == 1 else "s"
    lines = [
        screen.paint(title, "bold"),
        f"accepted {moment(letter.accepted_at)}, died {moment(letter.died_at)} after {letter.attempts} attempt{plural}",
        f"expires {moment(letter.expires_at)}",
        "body:",
        *printable_lines(pretty(letter.body, MAX_BODY_SHOWN)),
    ]
    return lines + [line for error in letter.errors for line in _lines_of_error(error)]


def _lines_of_error(error: dict[str, Any]) -> list[str]:
    at = f" at {moment(error['at'] / 1000)}" if isinstance(error.get("at"), int | float) else ""
    attempt = f"attempt {error['attempt']}" if "attempt" in error else "error"
    lines = printable_lines(f"{attempt}{at}: {_error(error)}")
    return lines + (printable_lines(str(error["traceback"]).rstrip()) if error.get("traceback") else [])
