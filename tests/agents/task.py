"""A prompt for a task, what an agent may answer to it, and what that cost."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, Field

from inturn.agents import Prompt, ProviderCall


class Task(BaseModel):
    title: str = Field(min_length=1, max_length=20)
    score: int = Field(ge=0, le=10)


def fits(task: Task) -> None:
    if task.title == "urgent" and task.score < 5:
        raise ValueError("an urgent task has a score of 5 or more")


def prompt(**more: Any) -> Prompt[Task]:
    return Prompt("parse-task", "Read the task.", "<task>milk</task>", Task, **{"check": fits, **more})


MILK = Task(title="milk", score=3)
GOOD = json.dumps({"title": "milk", "score": 3})
BAD_SCORE = json.dumps({"title": "milk", "score": 11})
BAD_CHECK = json.dumps({"title": "urgent", "score": 3})


def bill(calls: tuple[ProviderCall, ...]) -> list[tuple[str, str, int, int]]:
    assert all(call.ms >= 0 for call in calls)
    return [(call.agent, call.model, call.tokens_in, call.tokens_out) for call in calls]
