"""Scripts and their callers agree: every key and argument stands where the script's header says that it does.

Each verb is called with values that say their own names, so that a side which changes alone is found.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inturn.compat.plain import StringLocks
from inturn.store import limits
from inturn.store.lane import Commit, Failure, Opening, Rule, Send, Submission
from inturn.store.protocol import Notice, Request, Wait
from inturn.store.redis import scripts
from inturn.store.redis import store as redis_store
from inturn.store.redis.quorum.store import QuorumGrant, QuorumStore
from inturn.store.redis.scripts import Script, load
from inturn.store.redis.store import RedisStore

LUA = Path(str(files("inturn.store.redis") / "lua"))
PARTS = {path.stem: path.read_text("utf-8") for path in (LUA / "include").glob("*.lua")}
PATHS = sorted(
    f"{path.parent.name}/{path.stem}" for path in LUA.glob("*/*.lua") if path.parent.name not in ("include", "quorum")
)
QUORUM = sorted(f"quorum/{path.stem}" for path in (LUA / "quorum").glob("*.lua"))
RULE = Rule("merge", cap=7)

Verb = Callable[[RedisStore], Awaitable[Any]]


def say(*names: str) -> dict[str, Any]:
    """Every value is its own name."""
    return {name: name for name in names}


def a_request() -> Request:
    return Request(**say("name", "token", "owner", "capacity", "weight", "ttl_ms", "life_ms", "priority"), wait=True)


def a_submission() -> Submission:
    words = say(
        "key", "ident", "body", "ttl_ms", "limit_ms", "keep_ms", "busy", "late_ms", "cap", "delay_ms", "shares", "group"
    )
    return Submission(**words, rule=RULE)


def an_opening() -> Opening:
    words = say("token", "owner", "ident", "ttl_ms", "limit_ms", "keep_ms", "busy", "cap", "shares")
    return Opening(**words, name="key", has_id=True, rule=RULE)


def a_send(number: int) -> Send:
    words = say("ident", "body", "ttl_ms", "limit_ms", "keep_ms", "delay_ms", "shares", "group")
    numbered = {name: f"{word} {number}" for name, word in words.items()}
    return Send(**say("key"), **cast(dict[str, Any], numbered), is_fresh=True, rule=RULE)


def send_words(number: int) -> list[Any]:
    special = {"to": "", "key": "key", "is_fresh": 1, "rank": str(limits.MAX_PRIORITY), "rule": RULE.text()}
    assert names_of("lanes/commit", "SEND") == names_of("lanes/fail", "SEND")
    return [special.get(name, f"{name} {number}") for name in names_of("lanes/commit", "SEND")]


def a_commit() -> Commit:
    words = say(
        "key", "token", "fence", "ident", "state_op", "state", "keep_ms", "window_ms", "result", "next_token", "have"
    )
    words |= {"unless_newer": True, "version": "unless_newer"}
    return Commit(**words, is_submitted=True, sends=[a_send(1), a_send(2)], can=["can"])


def a_failure() -> Failure:
    words = (
        "key",
        "token",
        "fence",
        "how",
        "delay_ms",
        "error",
        "why",
        "next_token",
        "attempts",
        "version",
        "have",
        "state_op",
        "state",
        "keep_ms",
    )
    return Failure(**say(*words), can=["can"], sends=[a_send(1), a_send(2)])


NOTED = [Notice("granted", "n1", "t1"), Notice("lost", "n2", "t2", "why", 5)]

CALLS: dict[str, Verb] = {
    "locks/acquire": lambda store: store.acquire(a_request()),
    "locks/release": lambda store: store.release("name", "process#token", **say("fence")),
    "locks/extend": lambda store: store.extend(**say("name", "token", "how", "ms")),
    "locks/force_release": lambda store: store.force_release("name", "owner"),
    "locks/edges": lambda store: store.edges(["o1", "o2"]),
    "locks/names": lambda store: store.names(**say("limit")),
    "locks/inspect": lambda store: store.inspect("name"),
    "lanes/submit": lambda store: store.submit(a_submission()),
    "lanes/begin": lambda store: store.begin(an_opening()),
    "lanes/leave": lambda store: store.leave(**say("key", "token", "ident", "fence")),
    "lanes/commit": lambda store: store.commit(a_commit()),
    "lanes/fail": lambda store: store.fail(a_failure()),
    "lanes/steer": lambda store: store.steer(**say("key", "token", "fence", "have", "version")),
    "lanes/cancel": lambda store: store.cancel(**say("key", "ident", "window_ms")),
    "lanes/confirm": lambda store: store.confirm(**say("key", "token")),
    "lanes/attend": lambda store: store.attend(**say("key", "ident")),
    "workers/claim": lambda store: store.claim(can=["can"], **say("call", "count")),
    "workers/claim_lane": lambda store: store.claim_lane(can=["can"], **say("call", "key")),
    "workers/unclaim": lambda store: store.unclaim(0, **say("call")),
    "workers/unwork": lambda store: store.unwork(),
    "processes/beat": lambda store: store.beat(0, NOTED),
    "processes/report": lambda store: store.report(0, [Wait("n1", "t1", "l", "i", 5, 6), Wait("n2")]),
    "processes/depart": lambda store: store.depart(),
    "admin/stop": lambda store: store.stop(**say("key", "how", "why")),
    "admin/resume": lambda store: store.resume("key"),
    "admin/clear": lambda store: store.clear("key"),
    "admin/lanes": lambda store: store.lanes(**say("limit")),
    "admin/lane": lambda store: store.lane(**say("key", "limit")),
    "admin/dead": lambda store: store.dead(**say("limit")),
    "admin/replay": lambda store: store.replay(**say("key", "ident")),
    "forward/forwards": lambda store: store.forward(0, 1),
    "forward/take": lambda store: store.forward(0, 1),
}
SPECIAL: dict[str, dict[str, Any]] = {
    "locks/acquire": {"wait": 1},
    "locks/release": {"token": "process#token"},
    "locks/extend": {"order": "0000000000000007"},
    "locks/force_release": {"note_ms": 6000},
    "locks/edges": {"owners...": ["o1", "o2"]},
    "lanes/submit": {"rank": str(limits.MAX_PRIORITY), "call": "random", "note_ms": 6000, "rule": RULE.text()},
    "lanes/begin": {"has_id": 1, "rule": RULE.text()},
    "lanes/commit": {"is_submitted": 1, "can": "\0can\0"},
    "lanes/fail": {"can": "\0can\0"},
    "lanes/cancel": {"note_ms": 6000},
    "workers/claim": {"can": "\0can\0", "note_ms": 6000},
    "workers/claim_lane": {"can": "\0can\0", "note_ms": 6000},
    "workers/unclaim": {"note_ms": 6000},
    "processes/beat": {"notices...": ["granted t1 n1", "lost t2 5 why\nn2"]},
    "processes/report": {"waits...": ["n1", "t1", "l", "i", 5, 6, "n2", "", "", "", 0, 0]},
    "admin/stop": {"note_ms": 6000},
    "admin/resume": {"note_ms": 6000},
    "admin/clear": {"note_ms": 6000},
    "admin/dead": {"member": ""},
    "admin/replay": {"how": "replay", "note_ms": 6000},
    "forward/forwards": {"to": 1, "taken": "0", "limit": 100},
    "forward/take": {"prefix": "ns:{1}:", "from": 0, "sends...": [b"s1", b"s2"]},
}


class Called(Exception):
    def __init__(self, script: Script, keys: list[str], arguments: list[Any]) -> None:
        super().__init__(script.verb)
        self.script, self.keys, self.arguments = script, keys, arguments


def names_of(path: str, label: str) -> list[str]:
    """Read from the file, by other means than `scripts.py` does."""
    lines = (LUA / f"{path}.lua").read_text("utf-8").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(f"-- {label}  "))
    end = next(number for number in range(at + 1, len(lines)) if not lines[number].startswith("--      "))
    text = " ".join(line.removeprefix(f"-- {label}").removeprefix("--") for line in lines[at:end])
    return re.sub(r"\([^()]*\)", " ", text).replace(",", " ").split()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> RedisStore:
    store = RedisStore("redis://localhost", "process", namespace="ns", partitions=2, timeout_s=2.0, letter_ms=3_600_000)
    monkeypatch.setattr(store, "partition_of", lambda name: 0)
    monkeypatch.setattr(secrets, "token_hex", lambda length: "random")
    monkeypatch.setattr(redis_store, "_extensions", itertools.count(7))
    return store


async def call_of(store: RedisStore, path: str, call: Verb) -> Called:
    async def run(
        script: Script, keys: tuple[str, ...], fixed: tuple[Any, ...], varying: tuple[Any, ...], **options: Any
    ) -> Any:
        if script.verb == "forwards" and path == "forward/take":
            return [b"forwards", [b"s1", b"s2"], 2], 0.0, 1
        last_key = options.get("last_key")
        raise Called(script, [*keys, *([last_key] if last_key else [])], [*fixed, *varying, "deadline_ms"])

    store._run = run  # type: ignore[method-assign]
    with pytest.raises(Called) as caught:
        await call(store)
    return caught.value


@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith("plain/")])
async def test_every_key_and_argument_stands_where_the_header_says(store: RedisStore, path: str) -> None:
    called = await call_of(store, path, CALLS[path])
    assert called.script is load(path)
    special: dict[str, Any] = {"prefix": "ns:{0}:", "process": "process", "letter_ms": 3_600_000}
    special |= SPECIAL.get(path, {})
    if path in ("lanes/commit", "lanes/fail"):
        special["sends..."] = [*send_words(1), *send_words(2)]
    expected: list[Any] = []
    for name in names_of(path, "ARGV"):
        expected += special[name] if name.endswith("...") else [special.get(name, name)]
    assert called.arguments == expected
    prefix = special["prefix"]
    assert [key.removeprefix(prefix).partition(":")[0] for key in called.keys] == names_of(path, "KEYS")
    assert all(key.startswith(prefix) for key in called.keys)


async def test_one_dead_letter_is_asked_for_by_its_member(store: RedisStore) -> None:
    called = await call_of(store, "admin/dead", lambda store: store.dead_letter("key", "ident"))
    assert called.arguments == ["ns:{0}:", 3_600_000, 1, "key\0ident", "deadline_ms"]


async def test_dropping_is_replaying_that_ends_before_the_mailbox(store: RedisStore) -> None:
    called = await call_of(store, "admin/replay", lambda store: store.drop("key", "ident"))
    assert called.arguments == ["ns:{0}:", "key", 3_600_000, "ident", "drop", 6000, "deadline_ms"]


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("plain/")])
async def test_the_scripts_of_plain_locks_get_what_their_headers_say(path: str) -> None:
    sent: list[Any] = []

    async def command(*words: Any) -> bytes:
        sent.extend(words)
        return b"done"

    locks = StringLocks(SimpleNamespace(command=command))
    script = load(path)
    await getattr(locks, script.verb)("lock", *script.arguments)
    assert sent == ["EVAL", script.source, 1, *names_of(path, "KEYS"), *names_of(path, "ARGV")]


async def test_the_scripts_of_a_quorum_get_what_their_headers_say(monkeypatch: pytest.MonkeyPatch) -> None:
    quorum = QuorumStore(["redis://localhost"], "ns", 2.0)
    calls: list[Any] = []

    async def decide() -> None:
        return

    def ask(call: Any, deadline: float, yes: bytes) -> Any:
        calls.append(call)
        aye = SimpleNamespace(reply=[b"granted", b"fence" if call.script.verb == "holder" else "fence"], run_id="")
        how = {"is_won": True, "majority": 1, "failures": [], "decide": decide, "sent_at": 0.0, "deadline": deadline}
        return SimpleNamespace(votes=[], ayes=[aye], **how)

    async def reach() -> None:
        return

    monkeypatch.setattr(quorum._servers, "ask", ask)
    monkeypatch.setattr(quorum._servers, "reach", reach)
    monkeypatch.setattr(quorum._servers, "here", list)
    grant = await quorum.acquire("name", "token", 3.0)
    assert isinstance(grant, QuorumGrant)
    await quorum.extend(grant, 4.0, 1.0)
    quorum.release(grant, 4.0)
    await quorum.holder("name")
    assert sorted(f"quorum/{call.script.verb}" for call in calls) == QUORUM
    values = {"ttl_ms": 3000, "life_ms": 4000}
    for call in calls:
        path = f"quorum/{call.script.verb}"
        assert call.script is load(path)
        assert [*call.args, "deadline_ms"] == [values.get(name, name) for name in names_of(path, "ARGV")]
        assert [key.split(":")[2] for key in call.keys] == names_of(path, "KEYS")


@pytest.mark.parametrize("path", [*PATHS, *QUORUM])
def test_what_is_sent_has_every_name_replaced_and_every_part_once(path: str) -> None:
    script = load(path)
    source = script.source.decode()
    assert list(script.keys) == names_of(path, "KEYS")
    assert list(script.arguments) == names_of(path, "ARGV")
    assert not re.search(r"\b(KEYS|ARGV|FIRST|LAST|SIZE|SEND|limits)\.\w", source)
    assert "-- include" not in source
    for name, part in PARTS.items():
        assert source.count(part.splitlines()[0]) <= 1, f"{name} stands in it more than once"


@pytest.mark.parametrize("path", [*PATHS, *QUORUM, *(f"include/{part}" for part in PARTS)])
def test_no_place_is_counted_by_hand(path: str) -> None:
    text = (LUA / f"{path}.lua").read_text("utf-8")
    assert not re.search(r"\b(KEYS|ARGV)\[[^]]*\d", text)
    assert not re.search(r"#(KEYS|ARGV)\b(?!\.)", text)


@pytest.mark.parametrize(
    ("path", "answer"), [("lanes/begin", "return { 'granted'"), ("lanes/commit", "return finish()")]
)
def test_an_inline_turn_that_is_alone_ends_above_what_only_others_need(path: str, answer: str) -> None:
    """Each function of a part costs time in every call that passes it: measured, twice the time of a whole begin."""
    source = load(path).source.decode()
    above = source[: source.index(answer)]
    assert {name for name, part in PARTS.items() if part.splitlines()[0] in above} == {"clock", "partition"}


def test_a_limit_is_put_into_the_scripts_as_its_number() -> None:
    source = load("lanes/submit").source.decode()
    assert f"now + {limits.YIELD_MS}, ''" in source
    assert f">= {limits.MAX_CUTS} or" in source


@pytest.mark.parametrize("text", ["ARGV.typo", "KEYS.typo", "limits.MAX_TYPO", "FIRST.typo"])
def test_a_name_that_is_in_no_list_is_refused(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / f"{text}.lua").write_text(f"-- KEYS  a\n-- ARGV  b\nreturn {text}\n")
    monkeypatch.setattr(scripts, "_LUA", tmp_path)
    with pytest.raises(KeyError, match=re.escape(text)):
        load(text)


# -- what a script calls is there ------------------------------------------------------------------------------------

LUA_NAMES = {
    "cmsgpack", "redis", "string", "table", "math", "cjson", "tonumber", "tostring", "ipairs", "pairs", "unpack",
    "type", "select", "next", "assert", "error",
}  # fmt: skip
LUA_WORDS = re.compile(
    r"\blocal function (?P<made>\w+)|\b(?P<word>function|then|do|repeat|end|until|elseif|else)\b"
    r"|(?<![\w.:])(?P<called>\w+)\(|\blocal (?P<locals>\w+(?:, \w+)*)"
)


def calls_out_of_scope(source: str) -> set[str]:
    """Functions that a script calls where no `local` above and around the call has made them."""
    code = re.sub(r"--[^\n]*", "", source)
    code = re.sub(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", "''", code)
    scopes: list[set[str]] = [set(LUA_NAMES)]
    missing = set()
    for found in LUA_WORDS.finditer(code):
        if made := found["made"]:
            scopes[-1].add(made)
            scopes.append(set())
        elif locals_ := found["locals"]:
            scopes[-1].update(locals_.split(", "))
        elif called := found["called"]:
            if called not in {"function", "if", "and", "or", "not", "return", "in", "while", "until", "elseif"}:
                missing |= set() if any(called in scope for scope in scopes) else {called}
            elif called == "function":
                scopes.append(set())
            elif called == "elseif":
                scopes.pop()
        elif (word := found["word"]) in ("function", "then", "do", "repeat"):
            scopes.append(set())
        elif word == "else":
            scopes[-1] = set()
        else:
            scopes.pop()
    assert len(scopes) == 1, "the blocks of the script do not add up"
    return missing


@pytest.mark.parametrize("path", [*PATHS, *QUORUM])
def test_every_function_that_a_script_calls_is_there_in_every_branch(path: str) -> None:
    assert calls_out_of_scope(load(path).source.decode()) == set()


def test_a_function_that_is_included_only_in_another_branch_is_missed() -> None:
    source = "if a then\n local function give() end\n give()\nelse\n give()\nend\ngive()\nlocal function late() end"
    assert calls_out_of_scope(source) == {"give"}
    assert calls_out_of_scope("late()\nlocal function late() end") == {"late"}


def fields_of(source: str) -> dict[str, int]:
    """The names of a record's fields, `local A, B = 1, 2`, with their positions."""
    found = re.findall(r"^local ([A-Z][A-Z_, ]+) = ([\d, ]+)", source, re.MULTILINE)
    pairs = (zip(names.split(", "), map(int, numbers.split(", ")), strict=True) for names, numbers in found)
    return {name: number for pair in pairs for name, number in pair}


def test_what_the_short_ways_repeat_of_a_lane_is_as_the_long_way_has_it() -> None:
    lane = fields_of(PARTS["lane"])
    short = fields_of((LUA / "lanes/commit.lua").read_text("utf-8"))
    assert len(short) >= 6
    assert short == {name: lane[name] for name in short}
    (made,) = re.findall(r"function new_lane\(\)\s+return \{([^}]+)\}", PARTS["lane"])
    (packed,) = re.findall(r"cmsgpack\.pack\(\{([^}]+)\}\)", (LUA / "lanes/begin.lua").read_text("utf-8"))
    assert len(packed.split(",")) == len(made.split(",")) == lane["SHARED"]
