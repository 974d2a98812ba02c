"""The sentences of the offline agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inturn.agents.reading.place import Refused
from inturn.agents.offline.free_chat import name_of
from inturn.agents.offline.words import quoted
from inturn.agents.replying.reply import choices_of
from inturn.workflows.definition.model import FieldDefinition, WorkflowDefinition

UNSENT = "Nothing was sent, and nothing will be before you say yes."
_MOST = 200


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
    """Says what was understood, so that a wrong reading is seen at once."""
    changed = [name for name in found if name in before and before[name] != found[name]]
    new = [name for name in found if name not in before]
    said = [f"I changed {_label(definition, name)} to {shown(found[name])}." for name in changed]
    if new and set(new) <= {asked} and definition.by_name[new[0]].type in ("text", "email", "boolean"):
        said.append("Thank you.")
    elif new:
        said.append("I noted " + ", ".join(f"{_label(definition, name)}: {shown(found[name])}" for name in new) + ".")
    return " ".join(said) or "That is what I have already."


def refused(each: Refused) -> str:
    if each.why.startswith("could be"):
        return f"{quoted(each.said)} {each.why}"
    # a pattern is written for machines
    why = "does not have the form that is needed" if each.why.startswith("must match") else each.why
    return f"I cannot take {quoted(each.said)} for {each.field.title}: it {why}{'' if why[-1] in '?!' else '.'}"


def summary(definition: WorkflowDefinition, collected: Mapping[str, Any]) -> str:
    lines = [f"- {each.title}: {shown(collected[each.name])}" for each in definition.fields() if each.name in collected]
    return "\n".join(["Here is what I have:", *lines])


def topics(definition: WorkflowDefinition) -> str:
    names = [name_of(topic) for topic in definition.answers]
    return f"You can ask me about: {', '.join(names)}." if names else ""


def unknown(definition: WorkflowDefinition) -> str:
    return " ".join(part for part in ("I do not know the answer to that.", topics(definition)) if part)


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = " ".join(str(value).split())
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


def _label(definition: WorkflowDefinition, name: str) -> str:
    return definition.by_name[name].title


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
