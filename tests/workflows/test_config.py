"""What can be set about an orchestrator is checked when it is set."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.workflows import OrchestratorConfig


def test_the_defaults_are_those_of_the_specification() -> None:
    config = OrchestratorConfig()
    assert (config.busy, config.state_ttl, config.context_chars) == ("reject", 86_400, 2000)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"busy": "drop"}, "busy"),
        ({"state_ttl": 0}, "state_ttl"),
        ({"lease": -1}, "lease"),
        ({"time_limit": float("nan")}, "time_limit"),
        ({"agent_timeout": 0}, "agent_timeout"),
        ({"wait": float("inf")}, "wait"),
        ({"dedup_window": 0}, "dedup_window"),
        ({"context_chars": 10}, "context_chars"),
        ({"max_text": 0}, "max_text"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        OrchestratorConfig(**wrong)


@pytest.mark.parametrize("wrong", [{"lease": "30"}, {"context_chars": 2000.0}, {"wait": None}])
def test_a_value_of_another_type_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(wrong))):
        OrchestratorConfig(**wrong)


def test_a_session_may_live_as_long_as_a_state_may() -> None:
    month_s = 30 * 86_400.0
    assert OrchestratorConfig(state_ttl=month_s).state_ttl == month_s


def test_it_cannot_be_changed_afterwards() -> None:
    with pytest.raises(AttributeError):
        OrchestratorConfig().busy = "queue"  # type: ignore[misc]
