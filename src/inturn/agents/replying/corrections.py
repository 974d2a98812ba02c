"""What somebody wants to change who was asked whether all is right, and did not simply say no."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inturn.agents.offline.choices import has_words, named
from inturn.agents.reading.kinds import is_agreement
from inturn.agents.offline.fields import aliases, mentioned, says_only, wants_to_change
from inturn.agents.reading.objections import objection
from inturn.agents.offline.words import words
from inturn.workflows.definition.model import FieldDefinition

_AGREEING = frozenset(["agree", "agreed", "consent", "accept"])


def choice_named(text: str, known: Sequence[FieldDefinition]) -> tuple[FieldDefinition, str, bool] | None:
    """A label that only one field has, and whether it is all that is said, unlike in `the website, too`."""
    hits = [(each, choice) for each in known for choice in named(each.choices, text)]
    if len(hits) != 1:
        return None
    field, choice = hits[0]
    return field, choice, says_only(text, words(choice), aliases(field))


def field_to_change(text: str, known: Sequence[FieldDefinition], values: Mapping[str, Any]) -> FieldDefinition | None:
    """The field that a message without a value is about."""
    wanted = wants_to_change(text, known)
    if wanted is not None or not objection(text):
        return wanted
    # `I withdraw my consent`, and `great, but not the API`
    chosen = [each for each in known if each.choices and has_words(text, values[each.name])]
    return mentioned(text, [each for each in known if each.type == "boolean"]) or (
        chosen[0] if len(chosen) == 1 else None
    )


def agreement_against(
    decision: bool, text: str, known: Sequence[FieldDefinition], values: Mapping[str, Any]
) -> FieldDefinition | None:
    """An agreement that says something else than the message: `I consent`, of somebody who did not."""
    said = set(words(text))
    for each in known:
        differs = each.type == "boolean" and is_agreement(each) and values[each.name] is not decision
        if differs and ("consent" in said or (decision and _AGREEING & said)):
            return each
    return None
