"""Whose a conversation is, what is seen of it, and changes from outside, which wait for no answer. On both stores."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence

import pytest

from inturn import InTurn
from inturn.errors import MailboxFull, TooLarge, UnknownConversation
from inturn.store.lane import Given
from inturn.testing import ManualClock, app_for_tests, drain
from inturn.visitors.chat import MAX_ALL_MESSAGES, MAX_MESSAGES, MAX_METADATA, VisitorState
from inturn.visitors.conversations import CHAT_TTL_S, MAX_IN_LANE, MAX_SHOWN, NOTES, LaneConversations
from inturn.visitors.message import Note
from inturn.visitors.responder import VisitorResponder
from tests.conftest import MakeApp
from tests.visitors.world import AT, Recorder, answers, chat_of, filled_chat, outcomes, said, set_up
from tests.waiting import until, until_status


async def test_it_is_opened_once_and_given_to_its_visitor_only(make_app: MakeApp) -> None:
    first, second = LaneConversations(make_app()), LaneConversations(make_app())
    opened = await asyncio.gather(*(store.open("c1", "p1", "v1") for store in (first, second) * 5))
    assert all(owner == opened[0] for owner in opened)
    for project, visitor in (("p1", "v2"), ("p2", "v1")):
        with pytest.raises(UnknownConversation):
            await first.open("c1", project, visitor)
    assert await second.get("none") is None
    with pytest.raises(UnknownConversation):
        await first.set_ai_enabled("none", False)
    with pytest.raises(UnknownConversation):
        await first.merge_metadata("none", {})
    with pytest.raises(UnknownConversation):
        await first.delete("none")


async def test_a_name_with_a_colon_is_not_another_tenants_chat(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    store = responder.conversations
    await store.open("acme:c1", "p1", "v1")
    assert await store.get("c1", "acme") is None
    await store.open("c1", "p2", "v2", "acme")
    ours, theirs = await store.get("acme:c1"), await store.get("c1", "acme")
    assert ours is not None
    assert theirs is not None
    assert (ours.visitor_uid, theirs.visitor_uid) == ("v1", "v2")
    await set_up(responder)
    await store.open("c7", "p1", "acme:v1")
    await store.open("c7", "p1", "v1", "acme")
    assert await responder.handle_visitor_message(said(1, conversation_id="c7", visitor_uid="acme:v1")) is not None
    theirs = await store.get("c7", "acme")
    assert theirs is not None
    assert theirs.messages == []


async def test_a_chat_lives_thirty_days_after_it_was_last_written_and_its_owner_longer(agent: Recorder) -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        responder = VisitorResponder(app, agent)
        await set_up(responder)
        await responder.handle_visitor_message(said(1))
        clock.advance(29 * 86400)
        assert len((await chat_of(responder)).messages) == 2
        clock.advance(2 * 86400)
        assert (await chat_of(responder)).messages == []
        clock.advance(300 * 86400)
        assert await responder.conversations.owner("c1") is not None
        clock.advance(300 * 86400)
        assert await responder.conversations.owner("c1") is not None, "reading it has renewed it"


@pytest.mark.parametrize("has_worker", [True, False])
async def test_a_change_waits_for_no_answer_and_is_seen_at_once(
    make_app: MakeApp, agent: Recorder, has_worker: bool
) -> None:
    front, back = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(front)
    agent.hold()
    if has_worker:
        await front.submit_visitor_message(said(1))
        answering = asyncio.create_task(drain(back.app, raise_errors=True))
    else:
        answering = asyncio.create_task(back.handle_visitor_message(said(1)))  # type: ignore[arg-type]
    await agent.reached.wait()
    changed = await front.conversations.set_ai_enabled("c1", False)
    assert not changed.ai_enabled
    assert [message.id for message in changed.waiting] == ["m1"]
    agent.opened.set()
    await answering
    assert await answers(front) == [("re: text 1", ["m1"])], "an answer that is being written still comes"
    assert await front.handle_visitor_message(said(2)) is None
    assert not (await chat_of(back)).ai_enabled
    assert await outcomes(back) == {"m1": "answered", "m2": "unanswered"}


async def test_a_change_comes_before_what_waits(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    await responder.app.lanes.pause("visitor:v1")
    await responder.submit_visitor_message(said(1))
    await responder.conversations.set_ai_enabled("c1", False)
    await responder.app.lanes.resume("visitor:v1")
    await drain(responder.app, raise_errors=True)

    async def is_settled() -> bool:
        return await outcomes(responder) == {"m1": "unanswered"}

    await until(is_settled)
    assert agent.asked == []


async def test_metadata_is_merged_by_field_and_bounded(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    store = responder.conversations
    await store.merge_metadata("c1", {"crm": {"owner": "anna", "tier": 2}})
    changed = await store.merge_metadata("c1", {"crm": {"tier": None}, "vip": True})
    assert changed.metadata == {"crm": {"owner": "anna"}, "vip": True}
    with pytest.raises(TooLarge, match=r"crm\.notes"):
        await store.merge_metadata("c1", {"crm": {"notes": "x" * MAX_METADATA}})
    assert (await chat_of(responder)).metadata == {"crm": {"owner": "anna"}, "vip": True}


async def test_what_is_deleted_is_gone_and_may_be_opened_anew(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, "c1", "c2")
    for name in ("c1", "c2"):
        await responder.handle_visitor_message(said(1, conversation_id=name))
    await responder.conversations.delete("c1")
    assert await responder.conversations.get("c1") is None
    with pytest.raises(UnknownConversation):
        await responder.submit_visitor_message(said(2))
    assert len((await chat_of(responder, "c2")).messages) == 2
    await responder.conversations.open("c1", "p1", "v1")
    assert (await chat_of(responder)).messages == []


async def test_changes_that_come_at_once_leave_nothing_in_the_lane_where_no_worker_runs(
    app: InTurn, agent: Recorder
) -> None:
    """What is left there would have the next message refused, under `reject`."""
    responder = VisitorResponder(app, agent)
    await set_up(responder, busy="reject")
    fields = [{f"field{number}": number} for number in range(6)]
    await asyncio.gather(*(responder.conversations.merge_metadata("c1", each) for each in fields))
    await until_status(app, "visitor:v1", "idle")
    assert await responder.handle_visitor_message(said(1)) is not None
    chat = await responder.conversations.get("c1")
    assert chat is not None
    assert {f"field{number}" for number in range(6)} <= chat.metadata.keys()


async def test_a_change_is_told_as_it_is_however_many_wait_and_refused_when_they_are_too_many(
    make_app: MakeApp, agent: Recorder
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    await responder.app.lanes.pause("visitor:v1")
    note = Note(conversation_id="c1", project_id="p1", visitor_uid="v1", ai_enabled=True, at=AT)
    for _ in range(MAX_IN_LANE - 2):
        await responder.app.submit(NOTES, note, message_id=uuid.uuid4().hex)
    for is_on in (False, True):
        assert (await responder.conversations.set_ai_enabled("c1", is_on)).ai_enabled is is_on
    with pytest.raises(MailboxFull):
        await responder.conversations.set_ai_enabled("c1", False)
    assert (await chat_of(responder)).ai_enabled


async def test_a_change_finds_room_when_no_more_messages_do(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    await responder.app.lanes.pause("visitor:v1")
    for number in range(MAX_MESSAGES):
        await responder.submit_visitor_message(said(number))
    with pytest.raises(MailboxFull):
        await responder.submit_visitor_message(said("more"))
    chat = await responder.conversations.set_ai_enabled("c1", False)
    assert not chat.ai_enabled
    assert [message.id for message in chat.waiting] == [f"m{number}" for number in range(MAX_SHOWN)]


async def test_changes_while_one_is_made_have_the_lane_looked_at_once_more_and_not_once_for_each(
    app: InTurn, agent: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder)
    looked: list[str] = []
    claim_lane = app.runtime.claim_lane

    async def noted(key: str, can: Sequence[str] = ()) -> Given | None:
        looked.append(key)
        return await claim_lane(key, can)

    monkeypatch.setattr(app.runtime, "claim_lane", noted)
    agent.hold()
    answering = asyncio.create_task(responder.handle_visitor_message(said(1)))
    await agent.reached.wait()
    looked.clear()
    for number in range(40):
        await responder.conversations.merge_metadata("c1", {"last": number})
    agent.opened.set()
    assert await answering is not None
    await until_status(app, "visitor:v1", "idle")
    await until(lambda: not app.runtime.own_work)
    assert (await chat_of(responder)).metadata == {"last": 39}
    assert len(looked) <= 40 + 3, "one for each turn, and one or two that find nothing"


async def test_what_a_reader_does_to_its_chat_is_seen_by_nobody(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder)
    await responder.conversations.merge_metadata("c1", {"crm": {"ticket": 7}})
    await responder.handle_visitor_message(said(1))
    mine = await chat_of(responder)
    mine.metadata["crm"]["ticket"] = 8
    mine.messages[0].text = "changed"
    mine.messages.pop()
    again = await chat_of(responder)
    assert again.metadata == {"crm": {"ticket": 7}}
    assert [message.text for message in again.messages] == ["text 1", "re: text 1"]


async def test_a_chat_that_lost_its_messages_keeps_its_switch_and_its_numbers(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    others = [f"other{number}" for number in range(MAX_ALL_MESSAGES // MAX_MESSAGES)]
    await set_up(responder, "c1", *others)
    await responder.handle_visitor_message(said(1))
    await responder.conversations.set_ai_enabled("c1", False)
    await until_status(app, "visitor:v1", "idle")
    async with app.turn("visitor:v1", state=VisitorState, state_ttl=CHAT_TTL_S) as turn:
        for name in others:
            chat = filled_chat(MAX_MESSAGES)
            chat.conversation_id, chat.changed_at = name, app.runtime.now_s() + 1
            turn.state.keep(chat)
    await responder.handle_visitor_message(said(2, conversation_id=others[0]))
    chat = await chat_of(responder)
    assert (chat.messages, chat.ai_enabled, chat.next_seq) == ([], False, 3)
    assert await responder.handle_visitor_message(said(3)) is None
    assert [(message.seq, message.outcome) for message in (await chat_of(responder)).messages] == [(3, "unanswered")]


async def test_the_ids_of_a_deleted_conversation_stay_known_and_a_new_id_is_answered(
    make_app: MakeApp, agent: Recorder
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    await responder.submit_visitor_message(said(1))
    await drain(responder.app, raise_errors=True)
    await responder.conversations.delete("c1")
    await responder.conversations.open("c1", "p1", "v1")
    assert (await responder.accept(said(1))).is_repeat
    assert not (await responder.accept(said(2))).is_repeat
    await until_status(responder.app, "visitor:v1", "ready")
    await drain(responder.app, raise_errors=True)
    assert await answers(responder) == [("re: text 2", ["m2"])]
