"""Failover asks agents in order, and nothing of a failed one is left over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from prometheus_client import REGISTRY

from inturn.agents import Activity, Agent, Ask, Completed, OfflineAgent, Prompt, ProviderCall, complete, failover
from inturn.agents.activity import signature_of
from inturn.errors import AgentError, AgentRejected, AgentTimeout, AgentUnavailable
from tests.agents.conftest import MakeAgent, asking, heard, said
from tests.agents.provider import Provider
from tests.agents.scripted import Clock, Scripted
from tests.agents.task import BAD_SCORE, GOOD, MILK, prompt
from tests.agents.wire import answers, whole
from tests.waiting import until

AWAY = AgentUnavailable("x", "is away")
LATE = AgentTimeout("x", "is late")
REFUSED = AgentRejected("x", "refuses")


def remembers(word: str) -> object:
    def change(ask: Ask) -> None:
        ask.memory["word"] = word
        ask.memory.setdefault("words", []).append(word)

    return change


def ok(name: str) -> Scripted:
    return Scripted(name, Activity.said(f"{name} says"))


@pytest.mark.parametrize("error", [AWAY, LATE, REFUSED])
async def test_the_next_agent_is_asked_when_one_fails(error: AgentError) -> None:
    first, second, third = Scripted("a", error), ok("b"), ok("c")
    activities = await heard(failover([first, second, third]))
    assert said(activities) == ["b says"]
    assert signature_of(activities[-1]) == "b"
    assert (first.asked, second.asked, third.asked) == (1, 1, 0)


async def test_the_last_error_is_raised_when_all_fail() -> None:
    agent = failover([Scripted("a", AWAY), Scripted("b", LATE)])
    with pytest.raises(AgentTimeout) as caught:
        await heard(agent)
    assert caught.value is LATE


async def test_pieces_that_were_shown_are_declared_void() -> None:
    first = Scripted("a", Activity.piece("half an "), AWAY)
    second = Scripted("b", AWAY)
    third = Scripted("c", Activity.piece("whole"), Activity.said("whole"))
    activities = await heard(failover([first, second, third]))
    assert [(activity.type, activity.text, activity.value) for activity in activities] == [
        ("typing", "half an ", None),
        ("event", "", {"restart": True}),
        ("typing", "whole", None),
        ("message", "whole", None),
    ]


async def test_nothing_is_declared_void_where_nothing_was_shown() -> None:
    activities = await heard(failover([Scripted("a", Activity(type="typing"), AWAY), ok("b")]))
    assert [activity.type for activity in activities] == ["typing", "message"]


async def test_a_message_of_an_agent_that_fails_afterwards_never_counts() -> None:
    activities = await heard(failover([Scripted("a", Activity.said("half"), AWAY), ok("b")]))
    assert said(activities) == ["b says"]


async def test_pieces_come_at_once() -> None:
    go = asyncio.Event()

    async def wait(ask: Ask) -> None:
        await go.wait()

    agent = failover([Scripted("a", Activity.piece("early"), wait, Activity.said("late"))])
    activities = agent.ask(asking())
    assert (await anext(activities)).text == "early"
    go.set()
    assert [activity.text async for activity in activities] == ["late"]


async def test_each_agent_has_its_own_memory_and_a_failed_one_changes_nothing() -> None:
    first = Scripted("a", remembers("new"), AWAY)  # type: ignore[arg-type]
    second = Scripted("b", remembers("mine"), Activity.said("ok"))  # type: ignore[arg-type]
    ask = asking(memory={"a": {"words": ["old"]}})
    await heard(failover([first, second]), ask)
    assert ask.memory == {"a": {"words": ["old"]}, "b": {"word": "mine", "words": ["mine"]}}


async def test_an_agent_finds_its_memory_again() -> None:
    ask = asking()
    agent = failover([Scripted("a", remembers("one"), Activity.said("ok"))])  # type: ignore[arg-type]
    await heard(agent, ask)
    await heard(agent, ask)
    assert ask.memory == {"a": {"word": "one", "words": ["one", "one"]}}


def is_open(name: str) -> float | None:
    return REGISTRY.get_sample_value("inturn_agent_breaker_open", {"agent": name})


async def test_five_failures_take_an_agent_out_until_a_probe_is_answered() -> None:
    clock = Clock()
    first, second = Scripted("gauged", AWAY), ok("b")
    agent = failover([first, second], clock=clock)
    for _ in range(7):
        assert said(await heard(agent)) == ["b says"]
    assert (first.asked, is_open("gauged")) == (5, 1)
    clock.now += 30
    await heard(agent)
    assert (first.asked, is_open("gauged")) == (6, 1)
    await heard(agent)
    assert first.asked == 6
    clock.now += 30
    first.parts = [Activity.said("back")]
    assert said(await heard(agent)) == ["back"]
    assert is_open("gauged") == 0
    assert said(await heard(agent)) == ["back"]


async def test_timeouts_and_outages_make_one_row() -> None:
    first = Scripted("a", LATE)
    agent = failover([first, ok("b")], failures=2)
    await heard(agent)
    first.parts = [AWAY]
    await heard(agent)
    await heard(agent)
    assert first.asked == 2


async def test_rejections_do_not_take_an_agent_out() -> None:
    first = Scripted("a", REFUSED)
    agent = failover([first, ok("b")])
    for _ in range(10):
        await heard(agent)
    assert first.asked == 10


async def test_while_one_call_probes_the_others_go_on_to_the_next() -> None:
    clock = Clock()
    first = Scripted("a", AWAY)
    agent = failover([first, ok("b")], failures=1, clock=clock)
    await heard(agent)
    clock.now += 30
    go = asyncio.Event()

    async def wait(ask: Ask) -> None:
        await go.wait()

    first.parts = [wait, Activity.said("back")]
    probe = asyncio.create_task(heard(agent))
    await until(lambda: first.asked == 2)
    assert [said(await heard(agent)) for _ in range(3)] == [["b says"]] * 3
    assert first.asked == 2
    go.set()
    assert said(await probe) == ["back"]
    assert said(await heard(agent)) == ["back"]


async def test_a_cancelled_probe_lets_the_next_call_probe() -> None:
    clock = Clock()
    first = Scripted("a", AWAY)
    agent = failover([first, ok("b")], failures=1, clock=clock)
    await heard(agent)
    clock.now += 30
    first.parts = [lambda ask: asyncio.sleep(60)]
    probe = asyncio.create_task(heard(agent))
    await until(lambda: first.asked == 2)
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    first.parts = [Activity.said("back")]
    assert said(await heard(agent)) == ["back"]


async def test_when_all_are_out_it_says_when_the_first_may_be_asked_again() -> None:
    clock = Clock()
    agent = failover([Scripted("a", AWAY), Scripted("b", AWAY)], failures=1, clock=clock)
    with pytest.raises(AgentUnavailable):
        await heard(agent)
    clock.now += 12.5
    with pytest.raises(
        AgentUnavailable, match=r"a, b failed too often; the first may be asked again in 17\.5 s"
    ) as caught:
        await heard(agent)
    assert (caught.value.agent, caught.value.retry_after_s) == ("failover", 17.5)


async def test_leaving_in_the_middle_leaves_the_agent_too() -> None:
    first = Scripted("a", Activity.piece("a"), Activity.piece("b"))
    activities = failover([first]).ask(asking())
    assert isinstance(activities, AsyncGenerator)
    await anext(activities)
    await activities.aclose()
    assert first.left == 1


async def test_closing_closes_every_agent_also_if_one_cannot() -> None:
    class Stubborn(Scripted):
        async def aclose(self) -> None:
            await super().aclose()
            raise RuntimeError("will not close")

    agents = [Scripted("a"), Stubborn("b"), Scripted("c")]
    with pytest.raises(RuntimeError, match="will not close"):
        await failover(agents).aclose()
    assert [agent.closed for agent in agents] == [1, 1, 1]


@pytest.mark.parametrize(
    ("agents", "options", "named"),
    [
        ([], {}, "agents"),
        ([Scripted("a"), Scripted("a")], {}, "agents"),
        ([Scripted("a")], {"failures": 0}, "failures"),
        ([Scripted("a")], {"open_s": 0.0}, "open_s"),
        ([Scripted("a")], {"open_s": float("nan")}, "open_s"),
    ],
)
def test_bad_arguments_are_named(agents: list[Scripted], options: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        failover(agents, **options)  # type: ignore[arg-type]


async def test_half_an_answer_is_what_a_reader_of_an_unguarded_chain_would_get() -> None:
    """The check above can fail: without holding messages back, both answers would count."""
    first, second = Scripted("a", Activity.said("half"), AWAY), ok("b")
    got: list[str] = []
    for agent in (first, second):
        try:
            async for activity in agent.ask(asking()):
                got.append(activity.text)
            break
        except AgentError:
            continue
    assert got == ["half", "b says"]


class Buggy:
    name = "buggy"

    def __init__(self) -> None:
        self.asked = 0
        self.error = KeyError("hunter2")

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        self.asked += 1
        yield Activity.piece("half")
        raise self.error

    async def aclose(self) -> None: ...


class Plain:
    name = "plain"

    async def ask(self, ask: Ask) -> AsyncIterator[Any]:
        yield {"type": "message", "from": {"role": "bot"}, "text": "words"}
        yield None

    async def aclose(self) -> None: ...


async def test_a_bug_of_an_agent_is_failed_over_and_opens_its_breaker() -> None:
    buggy = Buggy()
    agent = failover([buggy, Scripted("b", Activity.said("b says"))], failures=2, clock=Clock())
    for _ in range(3):
        assert said(await heard(agent)) == ["b says"]
    assert buggy.asked == 2


async def test_the_last_bug_is_told_without_its_words() -> None:
    buggy = Buggy()
    with pytest.raises(AgentUnavailable) as raised:
        await heard(failover([buggy]))
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is buggy.error


async def test_an_agent_may_yield_plain_objects_also_under_failover() -> None:
    assert said(await heard(failover([Plain()]))) == ["words"]


class Completing(Scripted):
    """Has the second door too: what it gives there is `given`."""

    def __init__(self, name: str, given: Exception | None = None, billed: int = 0) -> None:
        super().__init__(name)
        self.given = given
        self.calls = tuple(ProviderCall(name, "m", 10 + at, 1, 5) for at in range(billed))

    async def complete(self, asked: Prompt[Any]) -> Completed[Any]:
        self.asked += 1
        if isinstance(self.given, AgentError):
            self.given.calls = self.calls
        if self.given is not None:
            raise self.given
        return Completed(MILK, self.name, self.calls)


@pytest.mark.parametrize("kind", [AgentUnavailable, AgentTimeout, AgentRejected])
async def test_a_completion_goes_to_the_next_agent_and_carries_what_the_failed_ones_cost(
    kind: type[AgentError],
) -> None:
    first, second, third = Completing("a", kind("a", "x"), 2), Completing("b", billed=1), Completing("c")
    done = await complete(failover([first, second, third]), prompt())
    assert (done.value, done.agent) == (MILK, "b")
    assert done.calls == (*first.calls, *second.calls)
    assert (first.asked, second.asked, third.asked) == (1, 1, 0)


async def test_the_last_error_of_a_completion_carries_all_that_was_billed() -> None:
    late = AgentTimeout("b", "is late")
    first, second = Completing("a", AgentUnavailable("a", "x"), 1), Completing("b", late, 2)
    with pytest.raises(AgentTimeout) as caught:
        await complete(failover([first, second]), prompt())
    assert caught.value is late
    assert late.calls == (*first.calls, *second.calls)


async def test_both_doors_of_an_agent_are_behind_one_breaker() -> None:
    clock = Clock()
    first = Completing("a", AgentUnavailable("a", "x"))
    first.parts = [AWAY]
    agent = failover([first, Completing("b")], failures=2, clock=clock)
    first_only = failover([first], failures=2, clock=clock)
    with pytest.raises(AgentUnavailable):
        await heard(first_only)
    for _ in range(3):
        with pytest.raises(AgentUnavailable) as caught:
            await complete(first_only, prompt())
    assert (first.asked, caught.value.agent, caught.value.retry_after_s) == (2, "failover", 30.0)
    assert caught.value.calls == ()
    assert (await complete(agent, prompt())).agent == "b"
    clock.now += 30
    first.given = None
    assert (await complete(first_only, prompt())).agent == "a"
    assert (await complete(first_only, prompt())).agent == "a"


async def test_rejected_completions_do_not_take_an_agent_out() -> None:
    first = Completing("a", AgentRejected("a", "refuses"))
    agent = failover([first, Completing("b")], failures=1)
    for _ in range(3):
        await complete(agent, prompt())
    assert first.asked == 3


async def test_a_bug_in_a_completion_is_failed_over_and_told_without_its_words() -> None:
    bug = KeyError("hunter2")
    agent: Agent = failover([Completing("a", bug)], failures=1)
    with pytest.raises(AgentUnavailable) as caught:
        await complete(agent, prompt())
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is bug


async def test_a_cancelled_completion_says_nothing_about_its_agent() -> None:
    class Slow(Completing):
        async def complete(self, asked: Prompt[Any]) -> Completed[Any]:
            self.asked += 1
            await asyncio.Event().wait()
            raise AssertionError

    first = Slow("a")
    agent = failover([first, Completing("b")], failures=1)
    task = asyncio.create_task(complete(agent, prompt()))
    await until(lambda: first.asked == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_open("a") == 0


async def test_an_agent_that_can_only_ask_is_completed_in_words_also_under_failover() -> None:
    done = await complete(failover([Scripted("a", Activity.said("no")), Scripted("b", Activity.said(GOOD))]), prompt())
    assert (done.value, done.agent) == (MILK, "b")
    assert [call.agent for call in done.calls] == ["a", "a", "b"]


async def test_the_offline_agent_stands_in_for_a_model_that_answers_nonsense(
    provider: Provider, make_openai: MakeAgent
) -> None:
    provider.script = answers(200, whole(BAD_SCORE))
    done = await complete(failover([make_openai(), OfflineAgent()]), prompt(rules=lambda: MILK))
    assert (done.value, done.agent) == (MILK, "offline")
    assert [(call.agent, call.tokens_in) for call in done.calls] == [("openai", 7), ("openai", 7), ("offline", 0)]


async def test_of_several_failures_one_that_is_worth_a_retry_is_raised() -> None:
    """What the second agent refuses for good, the first may answer when it is asked again."""
    busy = Completing("a", AgentUnavailable("a", "is busy", status=429, retry_after_s=7), 1)
    refusing = Completing("b", AgentRejected("b", "refuses"), 2)
    with pytest.raises(AgentUnavailable) as raised:
        await complete(failover([busy, refusing]), prompt())
    assert (raised.value.agent, raised.value.retry_after_s, len(raised.value.calls)) == ("a", 7, 3)
