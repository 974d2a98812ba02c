"""The two stores cannot drift apart: every Lua file has its translation, and it is found by the same name."""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from pathlib import Path

import pytest

import inturn

STORE = Path(inturn.__file__).parent / "store"
LUA, SQLITE = STORE / "redis/lua", STORE / "sqlite"

# A folder of Lua scripts is a module here, a script is a function.
GROUPS = {
    "locks": "acquire release extend force_release edges names inspect",
    "lanes": "submit begin leave commit fail steer cancel confirm attend",
    "workers": "claim claim_lane unclaim unwork",
    "processes": "beat report depart",
    "admin": "stop resume clear replay lanes lane dead",
}
ONLY_REDIS = {
    "forward": "sends go from one partition to another; SQLite has one partition",
    "plain": "other services lock plain keys; nobody else locks anything in a SQLite file",
    "quorum": "a lock over several servers",
}
# On Redis dead.lua also reads one letter, and replay.lua also drops one.
ONLY_SQLITE = {"admin": {"drop", "dead_letter"}}

# An include is a module of the same name, but for the small ones.
MODULE_OF_INCLUDE = {
    "clock": "transaction",  # the transaction has the clock,
    "partition": "transaction",  # the counter and the processes,
    "tell": "transaction",  # their inboxes,
    "worker": "transaction",  # and the workers among them
    "lock": "settle",  # a lock is a sum of grants, so there is little but bringing it up to date
    "burst": "lane",  # parts of a lane
    "turns": "lane",
    "arrive_due": "arrive",  # other ways to arrive
    "send": "arrive",
    "steer": "give",  # gives messages to a turn that runs
    "waiting": "admin",  # only the verbs that look use it
}
INLINE = {"arrive_due": "arrive.arrive_due", "send": "arrive.deliver"}  # no function in Lua, but one here
NO_TRANSLATION = {
    "share": "turns hold plain keys only on Redis",
    "note": "here a call runs once, so nothing repeats it",
}

RENAMED = {
    "announce": "watch.announce",
    "steer": "give.take_newer",  # `steer` is the verb
    "due_in": "due.lanes_due",
    "lost_or_gone": "lane.why_lost",
    "waiting_in": "admin._waiting_in",
    "save_grant": "settle.insert_grant",
    "handler_of": "lane.handler",  # a property of a message
    "read_messages": "lane.others_of",
    "not_idle": "workers._not_idle",
    "works": "workers._works",
}
ONLY_IN_LUA = {
    "Redis packs records and names their members; here they are rows": {
        "new_lane", "whole_lane", "whole", "mail_member", "later_member", "place_member", "rank_of", "waits_of",
        "turn_notice", "grant_notice", "needs_of", "alarm", "end_delay", "letter_until",
    },
    "saves a look at the lane, which SQLite has in its transaction": {"is_last"},
    "turns hold plain keys only on Redis": {"keep_shared"},
    "Redis can lose a part of its memory, a file is lost as a whole": {"dismiss_waiters", "read_place"},
}  # fmt: skip


def lua_groups() -> dict[str, set[str]]:
    """The scripts of each folder."""
    return {
        folder.name: {script.stem for script in folder.glob("*.lua")}
        for folder in LUA.iterdir()
        if folder.is_dir() and folder.name != "include"
    }


def functions_of(module: str) -> set[str]:
    """Functions, and methods of classes, that a module of ours defines."""
    tree = ast.parse((SQLITE / f"{module}.py").read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_folder_of_scripts_has_its_module_and_every_script_its_function() -> None:
    for group, scripts in lua_groups().items():
        if group not in ONLY_REDIS:
            assert scripts - functions_of(group) == set(), f"lua/{group}/ has scripts that sqlite/{group}.py does not"


def test_every_script_is_in_the_folder_that_we_know() -> None:
    found = {group: scripts for group, scripts in lua_groups().items() if group not in ONLY_REDIS}
    assert found == {group: set(verbs.split()) for group, verbs in GROUPS.items()}


@pytest.mark.parametrize("group", GROUPS)
def test_every_verb_here_is_a_script_there(group: str) -> None:
    tree = ast.parse((SQLITE / f"{group}.py").read_text("utf-8"))
    verbs = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}
    assert verbs - ONLY_SQLITE.get(group, set()) == lua_groups()[group]


@pytest.mark.parametrize("include", sorted(path.stem for path in (LUA / "include").glob("*.lua")))
def test_every_include_has_its_translation_function_by_function(include: str) -> None:
    if include in NO_TRANSLATION:
        return
    module = MODULE_OF_INCLUDE.get(include, include)
    ours = functions_of(module)
    only_there = set().union(*ONLY_IN_LUA.values())
    lua = (LUA / "include" / f"{include}.lua").read_text("utf-8")
    for name in re.findall(r"^local function (\w+)", lua, re.MULTILINE):
        where, _, renamed = RENAMED.get(name, "").partition(".")
        is_translated = name in ours or (where and renamed in functions_of(where))
        assert is_translated or name in only_there, f"{name} of {include}.lua is not in sqlite/{module}.py"


def test_no_two_functions_of_the_includes_have_the_same_name() -> None:
    """An exception made for one of them would hide that the other has no translation."""
    text = "".join(path.read_text("utf-8") for path in (LUA / "include").glob("*.lua"))
    names = re.findall(r"^local function (\w+)", text, re.MULTILINE)
    assert sorted(names) == sorted(set(names))


def test_the_module_of_an_include_names_it() -> None:
    """So that a reader who has either of the two open finds the other."""
    for path in (LUA / "include").glob("*.lua"):
        if path.stem not in NO_TRANSLATION:
            module = MODULE_OF_INCLUDE.get(path.stem, path.stem)
            assert f"{path.stem}.lua" in (SQLITE / f"{module}.py").read_text("utf-8")


def test_the_tables_of_exceptions_hold_nothing_that_is_gone() -> None:
    includes = {path.stem for path in (LUA / "include").glob("*.lua")}
    assert {*MODULE_OF_INCLUDE, *INLINE, *NO_TRANSLATION} <= includes
    text = "".join(path.read_text("utf-8") for path in (LUA / "include").glob("*.lua"))
    there = set(re.findall(r"^local function (\w+)", text, re.MULTILINE))
    assert {*RENAMED, *set().union(*ONLY_IN_LUA.values())} <= there
    for where in (*RENAMED.values(), *INLINE.values()):
        module, _, name = where.partition(".")
        assert name in functions_of(module)
    for group, verbs in ONLY_SQLITE.items():
        assert verbs <= functions_of(group)


def test_the_package_carries_the_tables() -> None:
    found = {file.name for file in (files("inturn.store.sqlite") / "schema").iterdir()}
    assert found >= {"schema.sql", "lanes.sql", "policies.sql", "waits.sql", "groups.sql", "letters.sql"}
