"""`inturn lanes dead|replay|drop`: messages that failed for good."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from inturn.errors import SettingsError
from inturn.lanes.dead import DeadLetter
from inturn.sync import DeadLetters
from inturn.terminal.show import (
    add_row,
    complain,
    is_confirmed,
    lines,
    moment,
    must_be_able_to_ask,
    pretty,
    print_json,
    table,
)
from inturn.terminal.sight import Sight, show

MOST = 1_000_000


def run_dead(letters: DeadLetters, arguments: argparse.Namespace) -> int:
    action, place = arguments.action, arguments.place
    if action == "dead":
        if len(place) not in (0, 3):
            raise SettingsError("name a dead letter by its KEY, HANDLER and ID, or none to list them all")
        look = (lambda: _one(letters, *place)) if place else (lambda: _all(letters, arguments.limit))
        return show(look, as_json=arguments.json, watch=arguments.watch)
    if len(place) != (0 if arguments.all else 3):
        raise SettingsError(f"say what to {action}: KEY HANDLER ID, or --all")
    if arguments.handler and not arguments.all:
        raise SettingsError("--handler goes with --all; a single dead letter is named by KEY HANDLER ID")
    act = letters.replay if action == "replay" else letters.drop
    done = "replayed" if action == "replay" else "dropped"
    if arguments.all:
        is_sure = action == "replay" or arguments.yes
        return _act_on_all(letters, act, done, arguments.handler, arguments.json, is_sure)
    return _act_on_one(act, done, place, arguments.json)


def _all(letters: DeadLetters, limit: int) -> Sight:
    found = letters.list(limit)
    view = _table_of_letters(found) if found else Text("There are no dead letters.")
    return Sight({"dead": [asdict(letter) for letter in found]}, view)


def _one(letters: DeadLetters, key: str, handler: str, message_id: str) -> Sight:
    letter = letters.show(key, handler, message_id)
    if letter is None:
        return Sight({"dead_letter": None}, "", _no_letter(key, handler, message_id))
    return Sight({"dead_letter": asdict(letter)}, _picture(letter))


def _act_on_one(act: Callable[[str, str, str], bool], done: str, place: list[str], as_json: bool) -> int:
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
    handler: str | None,
    as_json: bool,
    is_sure: bool,
) -> int:
    if not is_sure:
        must_be_able_to_ask("dropping dead letters for good")
    found = [letter for letter in letters.list(MOST) if handler in (None, letter.handler)]
    if found and not is_sure and not is_confirmed(f"{len(found)} will be gone for good. Drop them?"):
        return complain("the dead letters were left alone")
    # those that are there now; what dies of it again stays
    count = sum(act(letter.key, letter.handler, letter.id) for letter in found)
    if as_json:
        print_json({done: count})
    else:
        print(f"{count} dead letter{' was' if count == 1 else 's were'} {done}.")
    return 0


def _no_letter(key: str, handler: str, message_id: str) -> str:
    return f"there is no dead letter {message_id!r} of handler {handler!r} in lane {key!r}; inturn lanes dead lists all"


def _table_of_letters(letters: list[DeadLetter]) -> Table:
    made = table("key", "handler", "id", ">attempts", ">died", "last error")
    for letter in letters:
        error = _told(letter.errors[-1])[:200] if letter.errors else ""
        add_row(made, letter.key, letter.handler, letter.id, str(letter.attempts), moment(letter.died_at), error)
    return made


def _picture(letter: DeadLetter) -> Group:
    parts = [
        Text(f"message {letter.id!r} of handler {letter.handler!r} in lane {letter.key!r}", style="bold"),
        Text(f"accepted {moment(letter.accepted_at)}, died {moment(letter.died_at)}, {letter.attempts} attempt(s)"),
        Text("body:"),
        lines(pretty(letter.body, 20_000)),
    ]
    for error in letter.errors:
        at = f" at {moment(error['at'] / 1000)}" if isinstance(error.get("at"), int | float) else ""
        attempt = f"attempt {error['attempt']}" if "attempt" in error else "error"
        parts.append(lines(f"{attempt}{at}: {_told(error)}"))
        if error.get("traceback"):
            parts.append(lines(str(error["traceback"]).rstrip()))
    return Group(*parts)


def _told(error: dict[str, Any]) -> str:
    return f"{error.get('type')}: {error.get('message')}"
