"""A session from its start to its end: turns, cards, completion, and the life of its state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import InTurn
from inturn.agents.activity import Activity, card_attachment
from inturn.errors import CardNotAllowed, DefinitionError, SessionCompleted, UnknownConversation
from inturn.testing import ManualClock, app_for_tests
from inturn.workflows import OrchestratorConfig, WorkflowOrchestrator
from inturn.workflows.definition.model import FieldDefinition, StepDefinition, WorkflowDefinition
from tests.workflows.conftest import ADA, MakeOrchestrator, begin, collected, stored
from tests.workflows.scripted import DEFINITION, Scripted, bot, saying


async def test_a_session_starts_with_the_words_of_its_definition(flow: WorkflowOrchestrator) -> None:
    started = await flow.start_session("ada", "acme")
    assert [message.text for message in started.messages] == ["Welcome.\n\nWho are you?"]
    assert started.workflow_state.model_dump(include={"status", "current_phase", "collected_data", "turn_count"}) == {
        "status": "active", "current_phase": "about_you", "collected_data": {}, "turn_count": 0,
    }  # fmt: skip
    assert started.progress.model_dump() == {
        "current_step": 1, "current_step_id": "about_you", "total_steps": 2, "percent_complete": 0,
    }  # fmt: skip
    view = await flow.get_session(started.conversation_id, owner=ADA)
    assert (view.workflow_state, view.progress) == (started.workflow_state, started.progress)
    assert (view.definition, view.title, view.busy) == ("intake", "Intake", "reject")


async def test_a_workflow_that_requires_nothing_begins_with_its_first_step(app: InTurn, agent: Scripted) -> None:
    steps = tuple(
        StepDefinition(
            id=name, title=name, prompt=f"{name}?", fields=(FieldDefinition(name=f"of_{name}", required=False),)
        )
        for name in ("first", "second")
    )
    flow = WorkflowOrchestrator(app, agent, WorkflowDefinition(id="survey", title="Survey", steps=steps))
    started = await flow.start_session("ada", "acme")
    assert started.messages[0].text == "first?"
    assert (started.workflow_state.current_phase, started.progress.percent_complete) == ("confirm", 0)


async def test_a_turn_collects_saves_and_tells_all_about_it(flow: WorkflowOrchestrator, agent: Scripted) -> None:
    conversation = await begin(flow)
    first = await flow.process_turn(conversation, "name=Ada extra=1")
    assert first.conversation_id == conversation
    assert first.agent == "scripted"
    assert [message.text for message in first.messages] == ["noted: name=Ada extra=1"]
    assert (first.parsed_turn.kind, first.parsed_turn.next_action) == ("structured", "ask")
    assert first.workflow_state.collected_data == {"name": "Ada", "extra": "1"}
    assert first.progress.model_dump() == {
        "current_step": 1, "current_step_id": "about_you", "total_steps": 2, "percent_complete": 33,
    }  # fmt: skip
    assert first.turn_meta.model_dump() == {
        "turn_number": 1, "state_changed": True, "collected_this_turn": {"name": "Ada", "extra": "1"},
    }  # fmt: skip
    assert first.latency_ms >= 0
    second = await flow.process_turn(conversation, "email=ada@example.org name=Grace")
    assert second.workflow_state.collected_data == {"extra": "1", "email": "ada@example.org", "name": "Grace"}
    assert (second.workflow_state.current_phase, second.progress.current_step) == ("details", 2)
    assert second.progress.current_step_id == "details"
    assert second.turn_meta.turn_number == 2
    third = await flow.process_turn(conversation, "hm")
    assert third.turn_meta.model_dump() == {"turn_number": 3, "state_changed": False, "collected_this_turn": {}}
    assert (await flow.get_session(conversation)).workflow_state == third.workflow_state


async def test_the_agent_gets_the_query_the_words_and_what_was_said_before(
    flow: WorkflowOrchestrator, agent: Scripted
) -> None:
    conversation = await begin(flow)
    await flow.process_turn(conversation, "name={0}%s")
    await flow.process_turn(conversation, "[/CONTEXT] hm")
    ask = agent.asked[-1]
    assert (
        ask.query == '[CONTEXT]\nphase: about_you\nturn: 2\ncollected: {"name": "{0}%s"}\n[/CONTEXT]\n\n[/CONTEXT] hm'
    )
    assert (ask.text, ask.card, ask.conversation_id) == ("[/CONTEXT] hm", None, conversation)
    assert [(said.role, said.text) for said in ask.history] == [
        ("assistant", "Welcome.\n\nWho are you?"), ("user", "name={0}%s"), ("assistant", "noted: name={0}%s"),
    ]  # fmt: skip
    assert ask.situation is not None
    assert (ask.situation.definition, ask.situation.current_step, ask.situation.phase) == (DEFINITION, 0, "about_you")
    assert ask.situation.collected == {"name": "{0}%s"}


async def test_the_context_is_as_long_as_it_was_set(make: MakeOrchestrator, agent: Scripted) -> None:
    flow = make(context_chars=200)
    conversation = await begin(flow)
    await flow.process_turn(conversation, f"name={'x' * 300}")
    await flow.process_turn(conversation, "hm")
    assert len(agent.asked[-1].query) <= 200


async def test_a_value_that_does_not_fit_its_field_is_told_and_not_kept(flow: WorkflowOrchestrator) -> None:
    conversation = await begin(flow)
    response = await flow.process_turn(conversation, "email=nonsense count=7")
    assert response.workflow_state.collected_data == {"count": 7}, "as the field keeps it"
    assert response.parsed_turn.errors == ["email: must be an e-mail address"]


async def test_a_card_is_submitted_without_a_context(flow: WorkflowOrchestrator, agent: Scripted) -> None:
    conversation = await begin(flow)
    data = {"count": "3", "urgent": "yes", "cardId": "other"}
    response = await flow.process_card_action(conversation, "details_card", data, "later")
    assert response.workflow_state.collected_data == {"count": 3, "urgent": True}
    ask = agent.asked[-1]
    assert (ask.query, ask.text) == ("", "")
    assert ask.card == {"count": "3", "urgent": "yes", "cardId": "details_card", "action": "later"}


async def test_what_a_card_brought_is_kept_even_if_the_agent_says_nothing_of_it(make: MakeOrchestrator) -> None:
    flow = make(Scripted(saying(Activity.said("Thanks."))))
    conversation = await begin(flow)
    response = await flow.process_card_action(conversation, "details_card", {"count": 3, "unlisted": 1})
    assert response.workflow_state.collected_data == {"count": 3}


@pytest.mark.parametrize(
    ("card", "data", "action"),
    [
        ("other_card", {"count": 3}, None),
        ("", {"count": 3}, None),
        ("details_card", {"count": 3}, "delete"),
        ("details_card", {"count": 3, "action": "delete"}, None),
        ("details_card", {"count": 3, "action": ["submit"]}, None),
        ("details_card", {"count": 3, "action": "submit"}, "delete"),
    ],
)
async def test_a_card_or_action_that_is_not_listed_is_refused_and_nothing_is_saved(
    flow: WorkflowOrchestrator, agent: Scripted, card: str, data: dict[str, Any], action: str | None
) -> None:
    conversation = await begin(flow)
    before = await stored(flow, conversation)
    with pytest.raises(CardNotAllowed):
        await flow.process_card_action(conversation, card, data, action, message_id="m1")
    assert await stored(flow, conversation) == before
    assert agent.asked == []


async def test_card_data_that_cannot_be_kept_is_refused(flow: WorkflowOrchestrator) -> None:
    conversation = await begin(flow)
    for data in ({"count": object()}, {"a": "x" * 70_000}, {"n": 10**200}):
        with pytest.raises(ValueError, match="data: is"):
            await flow.process_card_action(conversation, "details_card", data)


async def test_words_that_are_none_or_too_many_are_refused(make: MakeOrchestrator) -> None:
    flow = make(max_text=10)
    conversation = await begin(flow)
    for text in ("", " \n ", "x" * 11):
        with pytest.raises(ValueError, match="text: must have 1 to 10 characters"):
            await flow.process_turn(conversation, text)
    assert (await flow.process_turn(conversation, "x" * 10)).turn_meta.turn_number == 1


async def test_complete_is_a_hundred_percent_and_takes_no_more_turns(flow: WorkflowOrchestrator) -> None:
    conversation = await begin(flow)
    done = await flow.process_turn(conversation, "complete name=Ada")
    assert (done.workflow_state.status, done.workflow_state.current_phase) == ("completed", "completed")
    assert done.progress.percent_complete == 100
    assert done.turn_meta.state_changed
    before = await stored(flow, conversation)
    with pytest.raises(SessionCompleted):
        await flow.process_turn(conversation, "more", "m2")
    with pytest.raises(SessionCompleted):
        await flow.process_card_action(conversation, "details_card", {"count": 3})
    assert await stored(flow, conversation) == before
    assert (await flow.get_session(conversation)).workflow_state.collected_data == {"name": "Ada"}


async def test_a_result_whose_only_sign_is_its_action_completes(make: MakeOrchestrator) -> None:
    flow = make(Scripted(saying(bot("Done.", value={"action": "complete", "name": "Ada"}))))
    conversation = await begin(flow)
    done = await flow.process_turn(conversation, "yes")
    assert (done.workflow_state.status, done.turn_meta.collected_this_turn) == ("completed", {"name": "Ada"})
    with pytest.raises(SessionCompleted):
        await flow.process_turn(conversation, "more")


async def test_a_card_that_is_too_large_is_told_to_the_user_and_in_the_log(
    make: MakeOrchestrator, caplog: pytest.LogCaptureFixture
) -> None:
    flow = make(Scripted(saying(bot("Fill it in.", id="m", attachments=[card_attachment({"a": "x" * 40_000})]))))
    conversation = await begin(flow)
    response = await flow.process_turn(conversation, "x", "once")
    assert [message.text for message in response.messages] == [
        "Fill it in.", "A card cannot be shown here: it is more than 32768 bytes long.",
    ]  # fmt: skip
    assert response.parsed_turn.errors == ["message m.card1: its card is left out: it is more than 32768 bytes long"]
    assert await flow.process_turn(conversation, "x", "once") == response
    (line,) = [record.message for record in caplog.records if "card" in record.message]
    assert conversation in line
    assert (await flow.get_session(conversation)).history[-1].text == "Fill it in.", "the agent did not say it"


async def test_a_session_is_completed_by_hand_once_and_stays_so(flow: WorkflowOrchestrator) -> None:
    conversation = await begin(flow)
    await flow.process_turn(conversation, "name=Ada")
    for _ in range(2):
        view = await flow.complete_session(conversation, owner=ADA)
        assert (view.workflow_state.status, view.progress.percent_complete) == ("completed", 100)
        assert view.workflow_state.collected_data == {"name": "Ada"}
    with pytest.raises(SessionCompleted):
        await flow.process_turn(conversation, "more")


async def test_a_completed_session_suggests_no_more_input(app: InTurn, agent: Scripted) -> None:
    field = FieldDefinition(name="size", type="choice", choices=("small", "large"))
    step = StepDefinition(id="order", title="Order", prompt="Which size?", fields=(field,))
    flow = WorkflowOrchestrator(app, agent, WorkflowDefinition(id="order", title="Order", steps=(step,)))
    conversation = await begin(flow)
    state = (await flow.get_session(conversation)).workflow_state
    assert (state.suggested_input_type, state.choices) == ("choice", ["small", "large"])
    state = (await flow.complete_session(conversation)).workflow_state
    assert (state.suggested_input_type, state.choices) == (None, [])


async def test_an_ended_session_is_gone(flow: WorkflowOrchestrator) -> None:
    conversation = await begin(flow)
    await flow.end_session(conversation, owner=ADA)
    assert await stored(flow, conversation) is None
    for call in (flow.process_turn(conversation, "x"), flow.get_session(conversation), flow.end_session(conversation)):
        with pytest.raises(UnknownConversation):
            await call


async def test_an_error_of_the_workflow_can_be_left_again(make: MakeOrchestrator) -> None:
    agent = Scripted(saying(Activity.said("Oh.", value={"nextAction": "error", "errors": ["broken"]})))
    flow = make(agent)
    conversation = await begin(flow)
    response = await flow.process_turn(conversation, "x")
    assert (response.workflow_state.status, response.parsed_turn.errors) == ("error", ["broken"])
    agent.answer = saying(Activity.said("Better."))
    assert (await flow.process_turn(conversation, "y")).workflow_state.status == "active"


async def test_what_an_agent_suggests_is_in_the_state_until_the_next_turn(make: MakeOrchestrator) -> None:
    value = {"prompt": "Which?", "inputType": "choice", "choices": ["a", "b"], "nextAction": "ask"}
    agent = Scripted(saying(Activity.said("Pick.", value=value)))
    flow = make(agent)
    conversation = await begin(flow)
    state = (await flow.process_turn(conversation, "x")).workflow_state
    assert (state.suggested_input_type, state.choices, state.last_recommendation) == ("choice", ["a", "b"], "Which?")
    agent.answer = saying(Activity.said("Fine."))
    state = (await flow.process_turn(conversation, "y")).workflow_state
    assert (state.suggested_input_type, state.choices, state.last_recommendation) == (None, [], "Fine.")


async def test_texts_are_answered_before_cards(make: MakeOrchestrator) -> None:
    flow = make(
        Scripted(saying(Activity(attachments=[card_attachment({"id": "details_card"})]), Activity.said("Fill in.")))
    )
    response = await flow.process_turn(await begin(flow), "x")
    assert [(message.kind, message.card_id) for message in response.messages] == [
        ("text", None), ("adaptiveCard", "details_card"),
    ]  # fmt: skip


async def test_a_user_has_as_many_sessions_as_they_like(flow: WorkflowOrchestrator) -> None:
    sessions = [await begin(flow) for _ in range(5)]
    assert len(set(sessions)) == 5
    await asyncio.gather(*(flow.process_turn(name, f"name={n}") for n, name in enumerate(sessions)))
    assert [(await collected(flow, name))["name"] for name in sessions] == ["0", "1", "2", "3", "4"]


async def test_the_example_is_the_default_and_several_definitions_are_told_apart(app: InTurn, agent: Scripted) -> None:
    shipped = WorkflowOrchestrator(app, agent)
    assert list(shipped.definitions) == ["support_intake"]
    other = WorkflowDefinition(id="other", title="Other", steps=DEFINITION.steps)
    flow = WorkflowOrchestrator(app, agent, {"intake": DEFINITION, "other": other})
    assert (await flow.get_session(await begin(flow))).definition == "intake"
    assert (await flow.get_session(await begin(flow, definition="other"))).definition == "other"
    with pytest.raises(ValueError, match="definition='third'"):
        await begin(flow, definition="third")
    with pytest.raises(DefinitionError):
        WorkflowOrchestrator(app, agent, {})


@pytest.mark.parametrize(
    ("config", "life_s"), [(OrchestratorConfig(), 86_400), (OrchestratorConfig(state_ttl=5000), 5000)]
)
async def test_the_life_of_a_session_is_whole_again_after_each_turn(
    agent: Scripted, config: OrchestratorConfig, life_s: float
) -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        flow = WorkflowOrchestrator(app, agent, DEFINITION, config=config)
        conversation = await begin(flow)

        async def left() -> float:
            found = (await app.lanes.inspect(f"conversation:{conversation}")).state_expires_in_s
            assert found is not None
            assert (await flow.get_session(conversation)).expires_in_s == found
            return found

        assert await left() == pytest.approx(life_s, abs=1)
        for _ in range(3):
            clock.advance(life_s - 400)
            assert await left() == pytest.approx(400, abs=1)
            await flow.process_turn(conversation, "hm")
            assert await left() == pytest.approx(life_s, abs=1)
        clock.advance(life_s + 1)
        with pytest.raises(UnknownConversation):
            await flow.process_turn(conversation, "too late")


async def test_what_a_card_says_stays_if_the_agent_makes_nonsense_of_it(
    flow: WorkflowOrchestrator, agent: Scripted
) -> None:
    conversation = await begin(flow)
    agent.answer = saying(Activity.said("noted", value={"data": {"count": "many", "urgent": None}}))
    response = await flow.process_card_action(conversation, "details_card", {"count": 3, "urgent": True})
    assert await collected(flow, conversation) == {"count": 3, "urgent": True}
    assert response.parsed_turn.errors == ["count: must be a number"]
