"""The value of one field in the words that are about it. What does not fit is a `ValueError` that says why."""

from __future__ import annotations

from datetime import date
from typing import Any

from inturn.agents.offline.choices import choose
from inturn.agents.offline.dates import dates_in
from inturn.agents.reading.emails import emails_in
from inturn.agents.reading.kinds import is_agreement, is_coming, is_name, is_past
from inturn.agents.offline.small_talk import bare, name_in
from inturn.agents.offline.fields import aliases
from inturn.agents.reading.polarity import opens_with, yes_or_no
from inturn.agents.reading.quantities import quantities
from inturn.agents.offline.words import words
from inturn.workflows.definition.model import FieldDefinition
from inturn.workflows.prose import is_prose


def value_in(field: FieldDefinition, phrase: str, today: date) -> Any:
    """Reads an answer to this field alone; the field's own check has the last word."""
    match field.type:
        case "email":
            return field.check(_only([found.text for found in emails_in(phrase)], phrase))
        case "date":
            return field.check(_date(field, phrase, today))
        case "number" | "integer":
            return field.check(_only(quantities(field, phrase, today), phrase))
        case "choice":
            return field.check(choose(field.choices, phrase))
        case "boolean":
            return field.check(_boolean(field, phrase))
        case "text":
            return _text(field, phrase)


def _boolean(field: FieldDefinition, phrase: str) -> bool | None:
    is_fact = not is_agreement(field)
    answer = yes_or_no(phrase, aliases(field), is_fact=is_fact)
    return opens_with(phrase) if answer is None and is_fact else answer


def _date(field: FieldDefinition, phrase: str, today: date) -> str:
    found = dates_in(phrase, today, is_past=is_past(field), is_coming=is_coming(field))
    for each in found:
        if each.why:
            raise ValueError(each.why)
        if is_past(field) and each.value is not None and each.value > today:
            raise ValueError("lies in the future")
    return str(_only([each.value.isoformat() for each in found if each.value is not None], phrase))


def _only(found: list[Any], phrase: str) -> Any:
    """The one that was found; what was written, if nothing was; what there is to choose from, if more was."""
    different = list(dict.fromkeys(found))
    if len(different) > 1:
        raise ValueError(f"could be {' or '.join(str(each) for each in different[:4])}: which one?")
    return different[0] if different else phrase.strip()


def _text(field: FieldDefinition, phrase: str) -> str:
    if is_prose(field):
        if not any(len(word) > 1 and word[0].isalpha() for word in words(phrase)):
            raise ValueError("must be a sentence or two")
        return str(field.check(phrase))
    if is_name(field):
        name = name_in(phrase, is_asked=True)
        if not name:
            raise ValueError("does not look like a name; please write the name alone")
        return str(field.check(name))
    text = bare(phrase.strip(" ,;"))
    if field.pattern is None and len(text.rpartition(" ")[2]) > 5:
        # the end of a sentence, and not of `Acme Inc.`
        text = text.rstrip(".!")
    last: ValueError | None = None
    # a text with a pattern may stand among other words: `it is AB-1234, I think`
    for candidate in (text, text.rstrip(".!"), *(text.split()[:40] if field.pattern is not None else ())):
        try:
            return str(field.check(candidate.strip(",;") if candidate is not text else candidate))
        except ValueError as error:
            last = last or error
    raise last or ValueError("must be a text")
