"""Many readers of a visitor's lane cost one read and one parse of each change, and nobody is told what is old."""

from __future__ import annotations

import asyncio

import pytest

from inturn import InTurn
from inturn.errors import StateMismatch
from inturn.store.views import LaneView
from inturn.visitors import reader as reader_module
from inturn.visitors.chat import VisitorState
from inturn.visitors.reader import MAX_PARSED, LaneReader
from inturn.visitors.responder import VisitorResponder
from tests.visitors.world import Recorder, filled_chat, said, set_up
from tests.waiting import until

LANE = "visitor:v1"


class Reads:
    """Counts reads of the visitor's lane, and holds them up."""

    def __init__(self, app: InTurn, monkeypatch: pytest.MonkeyPatch) -> None:
        self._read = app.process.store.lane
        self.count, self.parsed = 0, 0
        self.opened = asyncio.Event()
        self.opened.set()
        monkeypatch.setattr(app.process.store, "lane", self._lane)
        parse = reader_module._SHAPE.read

        def noted(written: bytes) -> VisitorState:
            self.parsed += 1
            state: VisitorState = parse(written)
            return state

        monkeypatch.setattr(reader_module._SHAPE, "read", noted)

    async def _lane(self, key: str, limit: int) -> LaneView:
        view = await self._read(key, limit)
        if key == LANE:
            self.count += 1
            await self.opened.wait()
        return view


async def write(app: InTurn, count: int) -> None:
    async with app.turn(LANE, state=VisitorState) as turn:
        turn.state.keep(filled_chat(count))


@pytest.fixture
async def reads(app: InTurn, monkeypatch: pytest.MonkeyPatch) -> Reads:
    await write(app, 1)
    return Reads(app, monkeypatch)


async def test_those_who_ask_in_one_moment_share_one_read_and_one_parse(app: InTurn, reads: Reads) -> None:
    reader = LaneReader(app)
    found = await asyncio.gather(*(reader.read(LANE, 1) for _ in range(200)))
    assert (reads.count, reads.parsed) == (1, 1)
    assert all(lane.state is found[0].state for lane in found)
    assert (await reader.read(LANE, 1)).state is found[0].state, "it has not changed"
    assert (reads.count, reads.parsed) == (2, 1)


async def test_who_asks_after_a_change_is_told_of_it_although_a_read_is_under_way(app: InTurn, reads: Reads) -> None:
    reader = LaneReader(app)
    reads.opened.clear()
    early = asyncio.create_task(reader.read(LANE, 1))
    await until(lambda: reads.count == 1)
    await write(app, 2)
    late = [asyncio.create_task(reader.read(LANE, 1)) for _ in range(50)]
    reads.opened.set()
    chats = [(await each).state.chats[":c1"] for each in (early, *late)]
    assert [len(chat.messages) for chat in chats] == [1, *(2 for _ in late)]
    assert (reads.count, reads.parsed) == (2, 2)


async def test_a_reader_that_is_cancelled_costs_the_others_nothing(app: InTurn, reads: Reads) -> None:
    reader = LaneReader(app)
    reads.opened.clear()
    first, second = (asyncio.create_task(reader.read(LANE, 1)) for _ in range(2))
    await until(lambda: reads.count == 1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    reads.opened.set()
    assert (await second).state.chats
    assert not reader._next
    await until(lambda: not reader._last)


async def test_a_state_that_does_not_fit_is_told_to_each(app: InTurn) -> None:
    async with app.turn(LANE, state=dict) as turn:
        turn.state = {"chats": 7}
    reader = LaneReader(app)
    for _ in range(2):
        with pytest.raises(StateMismatch, match="chats"):
            await reader.read(LANE, 1)


async def test_few_parsed_states_are_kept(app: InTurn) -> None:
    reader = LaneReader(app)
    for number in range(MAX_PARSED + 5):
        reader._parse(f"visitor:{number}", b'1 {"chats": {}}')
    assert len(reader._parsed) == MAX_PARSED
    for number in range(20):
        reader._parse(f"large:{number}", b'1 {"chats": {}}' + b" " * 1_000_000)
    assert len(reader._parsed) == 8
    reader._parse("large:19", None)
    assert len(reader._parsed) == 7


async def test_a_turn_costs_all_watchers_of_its_visitor_two_reads_at_most(
    app: InTurn, agent: Recorder, reads: Reads
) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder)
    told: list[str] = []
    watching = 0

    async def watch() -> None:
        nonlocal watching
        async with app.watch(LANE) as events:
            watching += 1
            async for event in events:
                if event.what == "commit":
                    chat = await responder.conversations.watched("c1")
                    told.append(chat.messages[-1].text)
                    return

    watchers = [asyncio.create_task(watch()) for _ in range(100)]
    await until(lambda: watching == 100)
    reads.count = reads.parsed = 0
    await responder.handle_visitor_message(said("new"))
    await asyncio.gather(*watchers)
    assert told == ["re: text new"] * 100
    assert reads.count <= 2
    assert reads.parsed == 1
