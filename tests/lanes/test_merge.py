"""`merge`: what waited is answered in one turn; a quiet time; and only the poisonous one of a burst is set aside."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from inturn import Cut, InTurn, Turn
from inturn.lanes.receipt import Receipt
from inturn.store import clock
from tests.lanes.workbench import SLACK_S, Gate, Seen, bodies, results, submitted, working
from tests.waiting import until_status

LONG_S = 30.0
"""A quiet time that nobody here waits for."""
QUIET_S = 4.0
"""One that does not pass between two messages, however busy the machine is."""


async def test_all_that_waited_is_one_turn_and_all_receipts_have_its_one_result(app: InTurn, other: InTurn) -> None:
    seen, gate = Seen(), Gate()

    @app.handler("h", key="k", busy="merge", state=list)
    async def h(turn: Turn[list[str]]) -> dict[str, Any]:
        turn.state += seen.note(turn)
        await gate.pass_through()
        return {"answers": bodies(turn), "fence": turn.fence}

    other.handler("h", key="k", busy="merge", state=list)(h)
    async with working(app):
        first = await submitted(app, "a")
        await gate.reached.wait()
        rest = await submitted(app, "b", "c") + await submitted(other, "d")
        gate.opened.set()
        (alone,), together = await results(first), await results(rest)
        assert alone["answers"] == ["a"]
        assert together[0]["answers"] == ["b", "c", "d"]
        assert together == [together[0]] * 3, "one turn, one result, wherever one waits for it"
        again = await submitted(other, "b", "c", "d")
        assert [receipt.status for receipt in again] == ["duplicate"] * 3
        assert await results(again) == together
    assert seen.bursts == [["a"], ["b", "c", "d"]]
    assert (await app.lanes.inspect("k")).state == ["a", "b", "c", "d"]


async def test_what_is_brought_again_while_it_waits_or_runs_in_a_burst_does_not_run_twice(app: InTurn) -> None:
    seen, gate = Seen(), Gate()

    @app.handler("h", key="k", busy="merge")
    async def h(turn: Turn[Any]) -> int:
        seen.note(turn)
        await gate.pass_through()
        return len(turn.messages)

    await submitted(app, "a", "b", "c")
    assert [receipt.status for receipt in await submitted(app, "c", "b", "a")] == ["duplicate"] * 3
    async with working(app):
        await gate.reached.wait()
        again = await submitted(app, "a", "b", "c")
        assert [receipt.status for receipt in again] == ["duplicate"] * 3
        gate.opened.set()
        assert await results(again) == [3, 3, 3]
    assert seen.bursts == [["a", "b", "c"]]


async def test_a_burst_has_at_most_its_cap_and_the_rest_is_the_next_burst(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="merge", max_burst=3)
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)

    receipts = await submitted(app, *"abcdefg")
    async with working(app):
        await results(receipts)
    assert seen.bursts == [["a", "b", "c"], ["d", "e", "f"], ["g"]]


async def test_only_neighbours_of_one_handler_and_one_priority_are_a_burst(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="merge")
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)

    @app.handler("between", key="k")
    async def between(turn: Turn[Any]) -> None:
        seen.note(turn)

    receipts = await submitted(app, "a", "b")
    receipts.append(await app.submit("between", "x"))
    receipts += await submitted(app, "c")
    receipts.append(await app.submit("h", "urgent", priority=5))
    async with working(app):
        await results(receipts)
    assert seen.bursts[-2:] == [["x"], ["c"]]
    assert [text for burst in seen.bursts for text in burst] == ["urgent", "a", "b", "x", "c"]


@pytest.mark.usefixtures("nobody_looks")
async def test_every_message_restarts_the_quiet_time(app: InTurn) -> None:
    began: list[float] = []
    seen = Seen()

    @app.handler("h", key="k", busy="merge", quiet=QUIET_S)
    async def h(turn: Turn[Any]) -> None:
        began.append(clock.now())
        seen.note(turn)

    async with working(app):
        receipts: list[Receipt] = []
        for text in "abcd":
            last_at = clock.now()
            receipts += await submitted(app, text)
            if text != "d":
                await asyncio.sleep(0.1)  # a person types
        await results(receipts)
    assert seen.bursts == [["a", "b", "c", "d"]]
    assert QUIET_S - 0.01 <= began[0] - last_at < QUIET_S + SLACK_S


@pytest.mark.usefixtures("nobody_looks")
async def test_a_person_who_never_stops_typing_is_answered_after_the_longest_wait(app: InTurn) -> None:
    seen, began = Seen(), asyncio.Event()
    took: list[float] = []

    @app.handler("h", key="k", busy="merge", quiet=QUIET_S, max_quiet=QUIET_S + 0.5)
    async def h(turn: Turn[Any]) -> None:
        took.append(clock.now() - begins_at)
        seen.note(turn)
        began.set()

    async with working(app):
        begins_at, number = clock.now(), 0
        while not began.is_set() and clock.now() < begins_at + 30:
            await submitted(app, f"m{number}")
            number += 1
            await asyncio.sleep(0.4)  # not so often that the burst is full first
    assert QUIET_S + 0.45 <= took[0] < QUIET_S + 0.5 + SLACK_S
    assert len(seen.bursts[0]) > 2


async def test_a_full_burst_does_not_wait_for_quiet(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="merge", quiet=LONG_S, max_burst=3)
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)

    async with working(app):
        await results(await submitted(app, "a", "b", "c"))
    assert seen.bursts == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("cut", "body"),
    [
        (lambda body: body["text"].endswith("!"), {"text": "now!"}),
        (Cut(text="text", longer_than=20), {"text": "a long message, which says it all"}),
        (Cut(text="message.text", longer_than=3), {"message": {"text": "four"}}),
        (Cut(sent_at="at", older_than=60), {"at": time.time() - 61}),
        (Cut(sent_at="at", older_than=60), {"at": datetime.fromtimestamp(time.time() - 61, UTC).isoformat()}),
        (Cut(text="text", longer_than=20, sent_at="at", older_than=60), {"text": "short", "at": 0}),
        (Cut(text="text", words=30), {"text": "\tso  many\nwords" * 10}),
        (Cut(text="text", longer_than=100, words=3), {"text": "now or never"}),
        (Cut(text="text", longer_than=5, words=30), {"text": "characters"}),
        (Cut(more_than=1), {"text": "the second"}),
        (Cut(text="text", words=30, more_than=1), {"text": "the second"}),
    ],
    ids=[
        "function",
        "long",
        "long in a field",
        "late",
        "late as text",
        "long or late",
        "words",
        "few letters, many words",
        "many letters, few words",
        "many",
        "words or many",
    ],
)
async def test_a_message_can_cut_the_quiet_time_short(app: InTurn, cut: Any, body: Any) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="merge", quiet=LONG_S, cut=cut)
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)

    async with working(app):
        first = await app.submit("h", {"text": "short", "at": time.time(), "message": {}})
        await until_status(app, "k", "waiting")
        last = await app.submit("h", body)
        await results([first, last])
    assert len(seen.bursts) == 1, "the one before it does not stay behind"
    assert seen.bursts[0][1] == body


@pytest.mark.parametrize(
    "body",
    [{"text": "short"}, {"text": 5}, {"text": None}, {}, {"at": True}, {"at": None}, {"at": time.time() + 86_400}],
)
async def test_what_is_neither_long_nor_late_cuts_nothing(app: InTurn, body: Any) -> None:
    @app.handler("h", key="k", busy="merge", quiet=LONG_S, cut=Cut("text", 10, "at", 60))
    async def h(turn: Turn[Any]) -> None: ...

    async with working(app):
        await app.submit("h", body)
        info = await until_status(app, "k", "waiting")
        assert info.waiting == 1


@pytest.mark.parametrize("body", [{"text": "two words"}, {"text": " \n"}, {"text": ["a", "b", "c"]}, {}])
async def test_what_has_too_few_words_cuts_nothing(app: InTurn, body: Any) -> None:
    @app.handler("h", key="k", busy="merge", quiet=LONG_S, cut=Cut(text="text", words=3, more_than=1))
    async def h(turn: Turn[Any]) -> None: ...

    async with working(app):
        await app.submit("h", body)
        assert (await until_status(app, "k", "waiting")).waiting == 1


async def test_more_messages_than_the_cut_allows_begin_at_once_and_all_that_wait_are_one_turn(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="merge", quiet=LONG_S, cut=Cut(text="text", words=30, more_than=8))
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)

    receipts = await submitted(app, *"abcdefgh")
    assert (await app.lanes.inspect("k")).status == "waiting"
    receipts += await submitted(app, "i")
    assert (await app.lanes.inspect("k")).status == "ready"
    receipts += await submitted(app, *"jkl")
    async with working(app):
        await results(receipts)
    assert seen.bursts == [[*"abcdefghijkl"]]


async def test_a_time_that_is_no_time_is_refused_when_it_is_submitted(app: InTurn) -> None:
    @app.handler("h", key="k", busy="merge", quiet=LONG_S, cut=Cut(sent_at="at", older_than=60))
    async def h(turn: Turn[Any]) -> None: ...

    with pytest.raises(ValueError, match=r"'at' is 'yesterday'; it must be a time"):
        await app.submit("h", {"at": "yesterday"})
    assert (await app.lanes.inspect("k")).status == "idle"


async def test_a_quiet_lane_holds_up_no_other(app: InTurn) -> None:
    @app.handler("h", key="{k}", busy="merge", quiet=LONG_S, cut=lambda body: body["k"] == "2")
    async def h(turn: Turn[Any]) -> str:
        return turn.key

    async with working(app, concurrency=1):
        await app.submit("h", {"k": "1"})
        await until_status(app, "1", "waiting")
        assert await (await app.submit("h", {"k": "2"})).result(20) == "2"


async def test_a_receipt_can_be_cancelled_out_of_the_quiet_time(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="merge", quiet=0.2)
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)

    one, two, three = await submitted(app, "a", "b", "c")
    assert await two.cancel()
    async with working(app):
        await results([one, three])
    assert seen.bursts == [["a", "c"]]
