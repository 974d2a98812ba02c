"""What the offline agent says: a reply before it becomes activities, and the sentences that it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from inturn.agents.offline.extraction import Refused
from inturn.agents.offline.words import quoted
from inturn.workflows.definition.model import FieldDefinition, WorkflowDefinition

UNSENT = "Nothing was sent, and nothing will be before you say yes."
STOPPED = f"All right. {UNSENT} To begin again, start a new conversation; to go on, just answer."
_MAX_SHOWN = 200


@dataclass(slots=True)
class Reply:
    """One answer of the agent, as data."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    next_action: Literal["ask", "confirm", "complete"] | None = None
    """`None` in free chat."""
    prompt: str = ""
    choices: list[str] = field(default_factory=list)
    input_type: str = ""
    cards: list[dict[str, Any]] = field(default_factory=list)
    suggested: list[str] = field(default_factory=list)
    """Answers that the user can give by a click."""


def choices_of(asked: FieldDefinition) -> list[str]:
    return ["Yes", "No"] if asked.type == "boolean" else list(asked.choices)


def question(asked: FieldDefinition, collected: Mapping[str, Any]) -> str:
    text = asked.prompt or f"{_capital(asked.title)}{'' if asked.title.endswith('?') else '?'}"
    if asked.name in collected:
        text += f" (So far: {shown(collected[asked.name])})"
    elif not asked.required:
        text += " (You may skip this.)"
    return text


def choices(asked: FieldDefinition) -> str:
    found = choices_of(asked)
    return f"You can choose from: {', '.join(found)}." if found else ""


def noted(found: Mapping[str, Any], before: Mapping[str, Any], asked: str, definition: WorkflowDefinition) -> str:
    """Says what was understood, so that the user notices a wrong reading at once."""
    changed = [name for name in found if name in before and before[name] != found[name]]
    new = [name for name in found if name not in before]
    said = [f"I changed {_label(definition, name)} to {shown(found[name])}." for name in changed]
    if new and set(new) <= {asked} and definition.by_name[new[0]].type in ("text", "email", "boolean"):
        said.append("Thank you.")
    elif new:
        said.append("I noted " + ", ".join(f"{_label(definition, name)}: {shown(found[name])}" for name in new) + ".")
    return " ".join(said) or "That is what I already have."


def refused(each: Refused) -> str:
    if each.why.startswith("could be"):
        return f"{quoted(each.said)} {each.why}"
    # a pattern is not meant for people
    why = "is not in the required format" if each.why.startswith("must match") else each.why
    return f"I cannot use {quoted(each.said)} for {each.field.title}: it {why}{'' if why[-1] in '?!' else '.'}"


def summary(definition: WorkflowDefinition, collected: Mapping[str, Any]) -> str:
    lines = [f"- {each.title}: {shown(collected[each.name])}" for each in definition.fields() if each.name in collected]
    return "\n".join(["Here is what I have:", *lines])


def topics(definition: WorkflowDefinition) -> str:
    names = [name_of(topic) for topic in definition.answers]
    return f"You can ask me about: {', '.join(names)}." if names else ""


def name_of(topic: str) -> str:
    """A topic may be several phrases, separated by commas. The first one is its name."""
    return topic.partition(",")[0].strip()


def unknown(definition: WorkflowDefinition) -> str:
    return " ".join(part for part in ("I do not know the answer to that.", topics(definition)) if part)


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = " ".join(str(value).split())
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def _label(definition: WorkflowDefinition, name: str) -> str:
    return definition.by_name[name].title


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
