"""`inturn lanes`: lanes and dead letters, in both forms; exit codes, one-sentence errors."""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from inturn import Turn
from inturn.cli.main import main
from inturn.lanes.admin import DeadLetter, LaneInfo, LaneSummary, MessageInfo
from tests.cli.conftest import Captured, Shop, field_lists, in_terminal, one_sentence


def test_ls_says_that_there_is_nothing(shop: Shop) -> None:
    assert shop.say("ls") == (0, "Nothing is running, and nothing is waiting.\n", "")
    assert shop.json("ls") == {"lanes": []}


def test_ls_shows_what_runs_waits_and_is_stopped(shop: Shop) -> None:
    shop.submit("a", user=1)
    shop.submit("b", user=1)
    shop.app.lanes.pause("user:2", "for a while")
    with shop.app.turn("user:3"):
        lanes = {lane["key"]: lane for lane in shop.json("ls")["lanes"]}
        _, out, _ = shop.say("ls")
    fields = {"key", "status", "handler", "holder", "held_s", "waiting", "why", "is_unhandled"}
    assert [set(lane) for lane in lanes.values()] == [fields] * 3
    assert (lanes["user:1"]["status"], lanes["user:1"]["handler"], lanes["user:1"]["waiting"]) == ("ready", "order", 2)
    assert lanes["user:1"]["is_unhandled"]
    assert (lanes["user:2"]["status"], lanes["user:2"]["why"]) == ("paused", "for a while")
    assert lanes["user:3"]["status"] == "running"
    assert lanes["user:3"]["holder"].endswith(f":{os.getpid()}")
    head, *rows = out.splitlines()
    assert head.split() == ["key", "status", "handler", "holder", "held", "for", "waiting", "note"]
    told = {row.split()[0]: " ".join(row.split()) for row in rows if row.startswith("user:")}
    assert told["user:1"].startswith("user:1 ready order - 2 no worker")
    assert "no worker runs 'order'" in " ".join(out.split())
    assert told["user:2"].startswith("user:2 paused - 0 for a while")
    assert told["user:3"].startswith("user:3 running (inline)")


def test_a_lane_with_a_living_worker_is_not_marked(shop: Shop) -> None:
    shop.submit("a")

    async def work() -> None:
        store = shop.app.inner.process.store
        await store.claim(shop.app.inner.process.registry.new_token(), ("order",), 0)

    with shop.app.lock("beating"):  # so that its process lives on, however late we look
        shop.app.runner.run(work())
        assert [lane["is_unhandled"] for lane in shop.json("ls")["lanes"]] == [False]
        assert "no worker" not in shop.say("ls")[1]


def test_show_tells_the_state_and_the_messages_in_order(shop: Shop) -> None:
    shop.submit("a")
    shop.drain()
    shop.submit("b", how="retry")
    shop.drain()
    shop.submit("c")
    lane = shop.json("show", "user:1")["lane"]
    assert (lane["key"], lane["status"], lane["state"], lane["version"]) == ("user:1", "waiting", {"last": "a"}, 1)
    assert [message["id"] for message in lane["messages"]] == ["b", "c"]
    assert 90 < lane["messages"][0]["due_in_s"] <= 100
    assert lane["messages"][0]["errors"][0]["type"] == "Retry"
    code, out, err = shop.say("show", "user:1")
    assert (code, err) == (0, "")
    assert out.startswith("user:1 (waiting)\n")
    assert '"last": "a"' in out
    assert "state, version 1, does not expire while it is in use:" in out
    assert "waiting (2):" in out
    (row,) = [" ".join(line.split()) for line in out.splitlines() if line.split()[:2] == ["order", "b"]]
    assert "in 1 min" in row
    assert "Retry: not yet" in row
    title = "what message 'b' of handler 'order' has raised:\nattempt 1 at "
    assert out.count(title) == out.count("Traceback (most recent call last):") == 1
    assert 'raise Retry("not yet", after=100)' in out.partition(title)[2]
    assert [message["id"] for message in shop.json("show", "user:1", "--limit", "1")["lane"]["messages"]] == ["b"]
    assert "waiting (the first 1 of 2):" in shop.say("show", "user:1", "--limit", "1")[1]


def test_show_of_an_idle_lane_tells_when_its_state_expires(shop: Shop) -> None:
    shop.submit("a")
    shop.drain()
    _, out, _ = shop.say("show", "user:1")
    assert out.startswith("user:1 (idle)\n")
    assert "expires in 23 h 59 min" in out or "expires in 24 h 0 min" in out
    assert out.endswith("Nothing is waiting.\n")
    assert 86000 < shop.json("show", "user:1")["lane"]["state_expires_in_s"] <= 86400


def test_show_tells_what_runs(shop: Shop) -> None:
    seen: list[Any] = []

    @shop.app.handler("looks", key="k")
    def looks(turn: Turn[Any]) -> None:
        seen.extend((shop.json("show", "k"), shop.say("show", "k")[1]))

    shop.app.submit("looks", {"text": "hi"}, message_id="m1")
    shop.drain()
    document, out = seen
    assert (document["lane"]["status"], document["lane"]["running"]["id"]) == ("running", "m1")
    assert document["lane"]["holder"].endswith(f":{os.getpid()}")
    assert "running:\n" in out
    assert f":{os.getpid()} for " in out
    assert out.splitlines()[-2].split()[:4] == ["looks", "m1", "0", "1"]


def test_show_tells_of_an_inline_turn(shop: Shop) -> None:
    with shop.app.turn("user:1", message_id="web-1", state=dict):
        shop.submit("b")
        lane = shop.json("show", "user:1")["lane"]
        _, out, _ = shop.say("show", "user:1")
    assert (lane["status"], lane["running"]["id"], lane["waiting"]) == ("running", "web-1", 1)
    assert "running: an inline turn (web-1)\n" in out


def test_show_of_what_is_not_there_is_code_1(shop: Shop) -> None:
    code, out, err = shop.say("show", "user:404")
    assert (code, out) == (1, "")
    assert "inturn lanes ls" in one_sentence(err)
    assert shop.json("show", "user:404", code=1) == {"lane": None}


def test_pause_and_resume(shop: Shop) -> None:
    code, out, _ = shop.say("pause", "user:1", "--why", "deploying")
    assert code == 0
    assert "inturn lanes resume user:1" in out
    assert (shop.app.lanes.inspect("user:1").status, shop.app.lanes.inspect("user:1").why) == ("paused", "deploying")
    assert shop.json("pause", "user:1") == {"key": "user:1", "paused": True}
    assert shop.say("resume", "user:1") == (0, "user:1 was resumed.\n", "")
    code, out, err = shop.say("resume", "user:1")
    assert (code, out) == (1, "")
    assert "was not stopped" in one_sentence(err)
    assert shop.json("resume", "user:1", code=1) == {"key": "user:1", "resumed": False}


def test_clear_with_yes_does_not_ask(shop: Shop) -> None:
    shop.submit("a")
    shop.drain()
    shop.submit("b")
    assert shop.json("clear", "user:1", "--yes") == {"key": "user:1", "cleared": True, "messages": 1}
    assert shop.app.lanes.inspect("user:1").state is None
    assert shop.json("clear", "user:1", "--yes", code=1) == {"key": "user:1", "cleared": False, "messages": 0}
    assert "there is nothing in lane" in one_sentence(shop.say("clear", "user:1", "--yes")[2])


def test_clear_without_a_terminal_and_without_yes_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.submit("a")
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        code, out, err = shop.say("clear", "user:1")
        assert (code, out) == (2, "")
        assert "--yes" in one_sentence(err)
        code, out, err = shop.say("drop", "--all")
        assert (code, out) == (2, "")
        assert "--yes" in one_sentence(err)
    assert shop.app.lanes.inspect("user:1").waiting == 1


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_clear_asks_in_a_terminal(shop: Shop, answer: str, code: int) -> None:
    shop.submit("a")
    got, _, err = in_terminal(shop.command("clear", "user:1", "--json"), answer)
    assert got == code
    assert "user:1 has 1 message waiting, and no state. Delete all of it for good? [y/N]" in err
    assert shop.app.lanes.inspect("user:1").waiting == (0 if code == 0 else 1)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "ACTION"),
        (["show"], "KEY"),
        (["burn"], "burn"),
        (["dead", "user:1"], "KEY, HANDLER and ID"),
        (["replay"], "KEY HANDLER ID, or --all"),
        (["drop", "user:1", "order"], "KEY HANDLER ID, or --all"),
        (["replay", "user:1", "order", "a", "--all"], "KEY HANDLER ID, or --all"),
        (["replay", "user:1", "order", "a", "--handler", "order"], "--handler goes with --all"),
        (["show", ""], "key=''"),
        (["ls", "--limit", "0"], "limit=0"),
        (["ls", "--limit", "many"], "--limit"),
    ],
)
def test_wrong_usage_is_one_sentence_and_code_2(shop: Shop, words: list[str], part: str) -> None:
    code, out, err = shop.say(*words)
    assert (code, out) == (2, "")
    assert part in one_sentence(err)


def test_a_store_that_is_away_is_code_1(capsys: Captured) -> None:
    for words in (["ls"], ["show", "k"], ["dead"], ["pause", "k"]):
        assert main(["lanes", *words, "--json", "--url", "redis://:secret@127.0.0.1:1/0"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert "cannot connect" in one_sentence(err)
        assert "secret" not in err


def test_looking_at_a_store_does_not_make_one(capsys: Captured, tmp_path: Path) -> None:
    assert main(["lanes", "ls", "--url", f"sqlite:///{tmp_path}/none.db"]) == 1
    assert "there is no store at" in one_sentence(capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


def test_a_key_cannot_steer_the_terminal(shop: Shop) -> None:
    key = "\x1b[31mred [bold]\r\u202e"
    with shop.app.turn(key, state=dict) as turn:
        turn.state["text"] = "\u202e\x9b"
    shop.app.lanes.pause(key, "why\x07\nnot")
    for words in (["ls"], ["show", key], ["pause", key], ["resume", key], ["resume", key], ["clear", key, "--yes"]):
        _, out, err = shop.say(*words)
        assert all(char.isprintable() or char == "\n" for char in out + err)


def test_help_documents_the_json(capsys: Captured) -> None:
    assert main(["lanes", "ls", "--help"]) == 0
    out, _ = capsys.readouterr()
    documented = field_lists(out)
    for kind in (LaneSummary, LaneInfo, MessageInfo, DeadLetter):
        assert [field.name for field in fields(kind)] in documented
    for field in ("paused", "resumed", "cleared", "replayed", "dropped"):
        assert f'"{field}"' in out


# -- dead letters ----------------------------------------------------------------------------------------------------


@pytest.fixture
def buried(shop: Shop) -> Shop:
    """Three dead letters, of two handlers, in two lanes."""
    shop.submit("a", user=1, how="stop")
    shop.submit("b", user=1, handler="other")
    shop.submit("c", user=2, how="stop")
    shop.drain()
    return shop


def ids(shop: Shop) -> list[str]:
    return sorted(letter.id for letter in shop.app.dead_letters.list())


def test_dead_lists_the_letters(buried: Shop) -> None:
    letters = buried.json("dead")["dead"]
    assert sorted(letter["id"] for letter in letters) == ["a", "b", "c"]
    fields = {"key", "handler", "id", "body", "attempts", "accepted_at", "died_at", "expires_at", "errors"}
    assert [set(letter) for letter in letters] == [fields] * 3
    assert len(buried.json("dead", "--limit", "2")["dead"]) == 2
    code, out, _ = buried.say("dead")
    assert code == 0
    assert out.splitlines()[0].split() == ["key", "handler", "id", "attempts", "died", "last", "error"]
    assert "KeyError: 'other'" in " ".join(out.split())
    assert "\x1b" not in out


def test_dead_says_that_there_are_none(shop: Shop) -> None:
    assert shop.say("dead") == (0, "There are no dead letters.\n", "")
    assert shop.json("dead") == {"dead": []}


def test_dead_shows_one_whole(buried: Shop) -> None:
    letter = buried.json("dead", "user:1", "other", "b")["dead_letter"]
    assert letter["body"] == {"user": 1, "id": "b", "how": ""}
    assert letter["errors"][0]["type"] == "KeyError"
    code, out, _ = buried.say("dead", "user:1", "order", "a")
    assert code == 0
    assert out.startswith("message 'a' of handler 'order' in lane 'user:1'\n")
    assert '"how": "stop"' in out
    assert "attempt 1 at " in out
    week = datetime.fromtimestamp(letter["died_at"]) + timedelta(days=7)
    assert f"\nexpires {week:%Y-%m-%d}" in out
    assert "Traceback (most recent call last):" in out
    assert 'raise Stop("it is \\x1b[31mbroken")' in out
    assert any(len(line) > 90 for line in out.splitlines()), "a traceback is not broken into the terminal's width"
    assert "\x1b" not in out


@pytest.mark.parametrize("action", ["dead", "replay", "drop"])
def test_a_letter_that_is_not_there_is_code_1(buried: Shop, action: str) -> None:
    code, out, err = buried.say(action, "user:1", "order", "zzz")
    assert (code, out) == (1, "")
    assert "inturn lanes dead lists them all" in one_sentence(err)
    empty = {"dead": {"dead_letter": None}, "replay": {"replayed": 0}, "drop": {"dropped": 0}}[action]
    assert buried.json(action, "user:1", "order", "zzz", code=1) == empty


def test_replay_and_drop_of_one(buried: Shop) -> None:
    assert buried.say("replay", "user:1", "order", "a") == (0, "1 dead letter was replayed.\n", "")
    assert buried.app.lanes.inspect("user:1").messages[0].id == "a"
    assert buried.json("drop", "user:1", "other", "b") == {"dropped": 1}
    assert ids(buried) == ["c"]


def test_replay_and_drop_of_all(buried: Shop) -> None:
    assert buried.json("replay", "--all", "--handler", "other") == {"replayed": 1}
    assert ids(buried) == ["a", "c"]
    assert buried.say("drop", "--all", "--handler", "nobody", "--yes") == (0, "0 dead letters were dropped.\n", "")
    assert buried.json("replay", "--all") == {"replayed": 2}
    assert ids(buried) == []
    buried.drain()
    assert ids(buried) == ["a", "b", "c"]
    assert buried.json("drop", "--all", "--yes") == {"dropped": 3}
    assert ids(buried) == []


@pytest.mark.parametrize(("answer", "left"), [("y", 0), ("n", 1)])
def test_dropping_all_asks_in_a_terminal(shop: Shop, answer: str, left: int) -> None:
    shop.submit("a", how="stop")
    shop.drain()
    _, _, err = in_terminal(shop.command("drop", "--all"), answer)
    assert "Drop 1 dead letter for good? [y/N]" in err
    assert len(shop.app.dead_letters.list()) == left
