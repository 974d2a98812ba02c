"""One turn through a workflow: reads what the user wrote, says what was understood, asks for what is missing.

When all is there it asks whether that is right. It completes only at a yes that is nothing but a yes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from inturn.agents.offline import reply, small_talk
from inturn.agents.offline.choices import has_words, named
from inturn.agents.offline.extraction import MessageContext, Reading, Refused, read_message
from inturn.agents.offline.fields import (
    aliases,
    asks_for_change,
    is_agreement,
    mentioned,
    says_only,
    wants_to_change,
)
from inturn.agents.offline.free_chat import answer_to
from inturn.agents.offline.reply import Reply, choices_of
from inturn.agents.offline.words import quoted, tidy, words
from inturn.agents.offline.yes_no import is_plain, objection, yes_or_no
from inturn.agents.protocol import Ask, Situation
from inturn.workflows.definition.card import card_of
from inturn.workflows.definition.model import FieldDefinition, WorkflowDefinition, is_prose

_CONFIRM = "(confirm)"
_CHANGE = "(change)"
_AGREEING = frozenset(["agree", "agreed", "consent", "accept"])


def walk(ask: Ask, situation: Situation, today: date) -> Reply:
    """Returns the answer to one turn, and writes what must be remembered to `ask.memory`."""
    turn = _Turn(ask, situation, today)
    answer = turn.reply()
    turn.notes.write(ask.memory)
    return answer


class _Turn:
    def __init__(self, ask: Ask, situation: Situation, today: date) -> None:
        self.ask = ask
        self.definition: WorkflowDefinition = situation.definition
        self.before: Mapping[str, Any] = situation.collected
        self.today = today
        self.text = tidy(ask.text)
        self.notes = _Notes.read(ask.memory, situation.definition)
        self.is_first = not ask.history and not self.notes.entered
        self.pending = self.notes.pending(self.definition, self.before)
        is_all_there = not any(step.missing(self.before) for step in self.definition.steps)
        is_due = self.pending is None or situation.phase == "confirm"
        self.is_confirming = is_all_there and (
            self.notes.asked in (_CONFIRM, _CHANGE) or (self.notes.asked == "" and is_due)
        )

    @property
    def asked(self) -> FieldDefinition | None:
        """What the user was asked for last; if that was not noted, what would be asked for now."""
        return self.definition.by_name.get(self.notes.asked) or (None if self.is_confirming else self.pending)

    def reply(self) -> Reply:
        if self.ask.card is not None:
            return self._card(self.ask.card)
        if not words(self.text) and not is_plain(self.text):
            return self._go_on([self.definition.welcome] if self.is_first else [])
        if self.asked is not None and self.text.casefold() in {choice.casefold() for choice in self.asked.choices}:
            return self._read()
        match small_talk.command(self.text):
            case "back":
                return self._back()
            case "skip" if not self.is_confirming:
                return self._skip()
            case "help":
                return self._go_on(self._help())
            case "stop" if not self.is_confirming:
                return self._go_on([reply.STOPPED])
            case "wait" if not self.is_confirming:
                return self._go_on(["Take your time."])
        if small_talk.is_thanks(self.text) and not self.is_confirming:
            return self._go_on(["You are welcome."])
        return self._confirm() if self.is_confirming else self._read()

    def _card(self, data: Mapping[str, Any]) -> Reply:
        found: dict[str, Any] = {}
        said: list[str] = []
        action = data.get("action")
        for name, each in self.definition.by_name.items():
            value = data.get(name)
            if value is None or (isinstance(value, str) and not value.strip()):
                if name in data and not each.required and name not in self.notes.skipped:
                    self.notes.skipped.append(name)
                continue
            try:
                found[name] = each.check(value)
            except ValueError as error:
                said.append(reply.refused(Refused(each, str(value)[:100], str(error))))
        if action == "back" and not found:
            return self._back()
        if action == "skip" and not found:
            return self._skip()
        if not found and self.is_confirming and action in ("confirm", "yes", "submit"):
            return self._complete()
        return self._go_on(said if found or said else ["There was nothing in it that I could use."], found)

    def _read(self) -> Reply:
        asked = self.asked
        reading = self._reading(asked, last=self.definition.by_name.get(self.notes.last))
        if asked is not None and self._declines(asked) and reading.found.keys() <= {asked.name}:
            return self._skip()
        wanted = wants_to_change(self.text, self._known()) if not reading.found else None
        if wanted is not None and not (asked and is_prose(asked)):
            return self._ask_again(wanted, [])
        said = self._answers(reading, asked)
        if not reading.found and not said:
            if small_talk.is_greeting(self.text):
                return self._go_on([self.definition.welcome if self.is_first else "Hello again!"])
            answer = self._request()
            said = [answer] if answer else self._refusals(reading, asked)
        elif reading.refused:
            said += [reply.refused(each) for each in reading.refused]
        return self._go_on(said, reading.found)

    def _reading(self, asked: FieldDefinition | None, last: FieldDefinition | None) -> Reading:
        context = MessageContext(
            definition=self.definition, collected=self.before, asked=asked, last=last, today=self.today
        )
        return read_message(self.text, context)

    def _declines(self, asked: FieldDefinition) -> bool:
        """Whether it declines a text that may be left out: `no`, or `no special wishes`."""
        is_optional = asked.type == "text" and not asked.required
        return is_optional and yes_or_no(self.text, aliases(asked)) is False

    def _refusals(self, reading: Reading, asked: FieldDefinition | None) -> list[str]:
        said = [reply.refused(each) for each in reading.refused] or [f"I did not understand {quoted(self.text)}."]
        if asked is not None and choices_of(asked) and not any("which one?" in each for each in said):
            said = [f"I did not understand {quoted(self.text)}.", reply.choices(asked)]
        return said

    def _answers(self, reading: Reading, asked: FieldDefinition | None) -> list[str]:
        """Answers the user's questions. One without an answer may itself be the text that was asked for."""
        said = []
        for each in reading.questions:
            wants_prose = asked is not None and is_prose(asked) and asked.name not in reading.found
            share = 0.5 if wants_prose else 0.0
            answer = answer_to(each, self.definition.answers, self.definition.about, share=share)
            if answer is None and wants_prose and asked is not None:
                try:
                    reading.found[asked.name] = asked.check(self.text)
                except ValueError as error:
                    reading.refused.append(Refused(asked, self.text, str(error)))
                return []
            said.append(answer or reply.unknown(self.definition))
        return list(dict.fromkeys(said))

    def _request(self) -> str | None:
        """Answers what is not a question but asks for something: `I want to talk to a human`."""
        if is_plain(self.text) or len(words(self.text)) > 20:
            return None
        return answer_to(self.text, self.definition.answers, share=0.6)

    def _help(self) -> list[str]:
        about = self.definition.about or self.definition.welcome
        return [about, reply.topics(self.definition), "Say “back” to change the last answer."]

    def _back(self) -> Reply:
        asked = self.asked
        fields = list(self.definition.fields())
        end = fields.index(asked) if asked is not None else len(fields)
        earlier = [each for each in fields[:end] if each.name in self.before or each.name in self.notes.skipped]
        if not earlier:
            return self._go_on(["This is where it begins."])
        return self._ask_again(earlier[-1], [])

    def _skip(self) -> Reply:
        asked = self.asked
        if asked is None or asked.name in self.before:
            self.notes.asked = ""
            return self._go_on(["All right, it stays as it is."])
        if asked.required:
            return self._go_on(["I need this one to go on."])
        self.notes.skipped.append(asked.name)
        return self._go_on(["All right, we will leave that out."])

    def _confirm(self) -> Reply:
        """Completes at a yes that is nothing but a yes. Anything else is a correction, or is asked about."""
        decision = yes_or_no(self.text, is_fact=False)
        doubted = None if decision is None else _agreement_against(decision, self.text, self._known(), self.before)
        if decision is not None and doubted is None:
            return self._decide(decision)
        reading = self._reading(asked=None, last=None)
        choice = _choice_named(self.text, self._known())
        found = reading.found or ({choice[0].name: choice[1]} if choice and choice[2] else {})
        refused = [reply.refused(each) for each in reading.refused]
        if found:
            return self._go_on(refused, found)
        wanted = doubted or _field_to_change(self.text, self._known(), self.before) or (choice[0] if choice else None)
        if wanted is None and self.notes.asked == _CHANGE:
            wanted = mentioned(self.text, self._known())
        unsent = [reply.UNSENT] if objection(self.text) else []
        if wanted is not None:
            return self._ask_again(wanted, unsent + refused)
        answers = self._answers(reading, None)
        if answers:
            return self._go_on(unsent + answers)
        return self._not_understood(unsent)

    def _not_understood(self, unsent: list[str]) -> Reply:
        sorry = f"I did not understand {quoted(self.text)}."
        if objection(self.text) == "wrong" or asks_for_change(self.text):
            return self._what_to_change(unsent)
        if self.notes.asked == _CHANGE:
            return self._what_to_change(unsent or [sorry])
        answer = self._request()
        return self._go_on([*unsent, answer or ("" if unsent else f"{sorry} Please say yes or no.")])

    def _decide(self, decision: bool) -> Reply:
        if self.notes.asked == _CHANGE:
            if not decision:
                return self._go_on(["All right, nothing was changed."])
            return self._what_to_change([f"I did not understand {quoted(self.text)}."])
        return self._complete() if decision else self._what_to_change([])

    def _what_to_change(self, said: list[str]) -> Reply:
        self.notes.asked = _CHANGE
        prompt = "What should I change?"
        titles = [each.title for each in self._known()]
        return Reply(
            text=_join([*said, prompt]),
            next_action="ask",
            prompt=prompt,
            choices=titles,
            input_type="text",
            suggested=titles,
        )

    def _known(self) -> list[FieldDefinition]:
        return [each for each in self.definition.fields() if each.name in self.before]

    def _complete(self) -> Reply:
        self.notes.asked = ""
        return Reply(self.definition.done or "Thank you, that is all.", next_action="complete")

    def _ask_again(self, wanted: FieldDefinition, said: list[str]) -> Reply:
        """Asks for a field that is filled already, or was skipped."""
        self.notes.skipped = [name for name in self.notes.skipped if name != wanted.name]
        return self._question(wanted, said, self.before, {})

    def _go_on(self, said: list[str], found: dict[str, Any] | None = None) -> Reply:
        """Says what there is to say, then asks for the next field, or whether everything is right."""
        found = {name: found[name] for name in self.definition.by_name if name in found} if found else {}
        collected = {**self.before, **found}
        if found:
            self.notes.last = list(found)[-1]
            self.notes.skipped = [name for name in self.notes.skipped if name not in found]
            said = [reply.noted(found, self.before, self.notes.asked, self.definition), *said]
        pending = self.notes.pending(self.definition, collected)
        still = self.definition.by_name.get(self.notes.asked)
        if not found and still is not None and still.name not in self.notes.skipped:
            pending = still
        if pending is not None:
            return self._question(pending, said, collected, found)
        self.notes.asked = _CONFIRM
        prompt = self.definition.confirm or "Is all of this right?"
        prompts, cards = self._passed(len(self.definition.steps), collected)
        text = _join([*said, *prompts]) + f"\n\n{reply.summary(self.definition, collected)}\n\n{prompt}"
        return Reply(
            text=text.strip(),
            data=found,
            next_action="confirm",
            prompt=prompt,
            choices=["Yes", "No"],
            input_type="boolean",
            cards=cards,
            suggested=["Yes", "No"],
        )

    def _question(
        self, asked: FieldDefinition, said: list[str], collected: Mapping[str, Any], found: dict[str, Any]
    ) -> Reply:
        number = next(at for at, step in enumerate(self.definition.steps) if asked in step.fields)
        prompts, cards = self._passed(number + 1, collected)
        self.notes.asked = asked.name
        prompt = reply.question(asked, collected)
        offered = choices_of(asked)
        skip = [] if asked.required or asked.name in collected else ["Skip"]
        return Reply(
            text=_join([*said, *prompts, prompt]),
            data=found,
            next_action="ask",
            prompt=prompt,
            choices=offered,
            input_type=asked.type,
            cards=cards,
            suggested=[*offered, *skip],
        )

    def _passed(self, end: int, collected: Mapping[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
        """Returns prompts and cards of the steps that are entered now. A step whose fields are all known is silent."""
        prompts, cards = [], []
        for step in self.definition.steps[:end]:
            if step.id in self.notes.entered:
                continue
            self.notes.entered.append(step.id)
            if step.fields and all(each.name in collected for each in step.fields):
                continue
            prompts.append(step.prompt)
            if step.card is not None:
                cards.append(card_of(step, collected))
        return prompts, cards


def _join(parts: list[str]) -> str:
    return " ".join(part for part in parts if part)


@dataclass(slots=True)
class _Notes:
    """What the agent remembers between turns: what it asked for last, what was skipped, which steps were entered.

    `asked` is the name of a field, `_CONFIRM`, `_CHANGE` or ''.
    """

    asked: str = ""
    last: str = ""
    skipped: list[str] = field(default_factory=list)
    entered: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, memory: Mapping[str, Any], definition: WorkflowDefinition) -> _Notes:
        """Reads what still fits the definition, which may be newer than the memory."""
        names, steps = definition.by_name, {step.id for step in definition.steps}
        asked, last = memory.get("asked"), memory.get("last")
        return cls(
            asked if isinstance(asked, str) and (asked in names or asked in (_CONFIRM, _CHANGE)) else "",
            last if isinstance(last, str) and last in names else "",
            _known(memory.get("skipped"), names),
            _known(memory.get("entered"), steps),
        )

    def write(self, memory: dict[str, Any]) -> None:
        memory.update(asked=self.asked, last=self.last, skipped=self.skipped, entered=self.entered)

    def pending(self, definition: WorkflowDefinition, collected: Mapping[str, Any]) -> FieldDefinition | None:
        """Returns what to ask for: the first missing field. An optional one counts unless it was skipped."""
        for each in definition.fields():
            if each.name not in collected and (each.required or each.name not in self.skipped):
                return each
        return None


def _known(names: object, among: object) -> list[str]:
    found = names if isinstance(names, list) and isinstance(among, dict | set) else []
    return [name for name in found if isinstance(name, str) and name in among]  # type: ignore[operator]


def _choice_named(text: str, known: Sequence[FieldDefinition]) -> tuple[FieldDefinition, str, bool] | None:
    """Returns a label that only one field has, and whether nothing else is said, unlike in `the website, too`."""
    hits = [(each, choice) for each in known for choice in named(each.choices, text)]
    if len(hits) != 1:
        return None
    field, choice = hits[0]
    return field, choice, says_only(text, words(choice), aliases(field))


def _field_to_change(text: str, known: Sequence[FieldDefinition], values: Mapping[str, Any]) -> FieldDefinition | None:
    """Returns the field that a message without a value wants to change."""
    wanted = wants_to_change(text, known)
    if wanted is not None or not objection(text):
        return wanted
    # `I withdraw my consent`, and `great, but not the API`
    chosen = [each for each in known if each.choices and has_words(text, values[each.name])]
    return mentioned(text, [each for each in known if each.type == "boolean"]) or (
        chosen[0] if len(chosen) == 1 else None
    )


def _agreement_against(
    decision: bool, text: str, known: Sequence[FieldDefinition], values: Mapping[str, Any]
) -> FieldDefinition | None:
    """Returns an agreement that contradicts the message: `I consent`, from somebody who did not consent before."""
    said = set(words(text))
    for each in known:
        differs = each.type == "boolean" and is_agreement(each) and values[each.name] is not decision
        if differs and ("consent" in said or (decision and _AGREEING & said)):
            return each
    return None
