"""`inturn lanes dead`, `replay`, `drop`."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shop, in_terminal, one_sentence


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
    fields = {"key", "handler", "id", "body", "attempts", "accepted_at", "died_at", "errors"}
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
    assert "Traceback (most recent call last):" in out
    assert 'raise Stop("it is \\x1b[31mbroken")' in out
    assert any(len(line) > 90 for line in out.splitlines()), "a traceback is not broken into the terminal's width"
    assert "\x1b" not in out


@pytest.mark.parametrize("action", ["dead", "replay", "drop"])
def test_a_letter_that_is_not_there_is_code_1(buried: Shop, action: str) -> None:
    code, out, err = buried.say(action, "user:1", "order", "zzz")
    assert (code, out) == (1, "")
    assert "inturn lanes dead lists all" in one_sentence(err)
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
    assert "1 will be gone for good. Drop them? [y/N]" in err
    assert len(shop.app.dead_letters.list()) == left
