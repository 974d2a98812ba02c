"""Reads a whole message: whatever fits a field of the workflow, in any order, the field that was asked for first.

What is surely about a field (`my email is …`) may correct it at any time. What only might be (a number, a date) goes to
the field that was asked for, or to one that the same clause names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from typing import Any

from inturn.agents.offline import small_talk
from inturn.agents.offline.choices import Ambiguous, apart
from inturn.agents.offline.corrections import Correction, corrections_in
from inturn.agents.offline.fields import CORRECTING, Labelled, is_name, labelled
from inturn.agents.offline.values import Finding, UnaskedFields, says_only_value, value_in
from inturn.agents.offline.words import STOP, Span, clauses, emails_in, sentences, tidy, words
from inturn.agents.offline.yes_no import is_limited, is_plain
from inturn.workflows.definition.model import FieldDefinition, WorkflowDefinition, is_prose

_REACH = frozenset([
    "reach", "contact", "email", "mail", "address", "write", "use", "via", "under", "or", "send", "reply",
])  # fmt: skip

_MAX_ANSWER = 1000
"""In a longer text, a number or a date somewhere does not count as an answer."""
_MAX_QUESTIONS = 5
"""How many questions of one message are answered. Each is compared with every topic."""
_JOINTS = frozenset(["and", "but", "also", "plus", "so", "then", "or"])
_MAX_CLAUSES = 50
"""Further clauses of a message are only prose: people who fill in fields do not write so many."""
_MARKS = " \n,.;:!()<>\"'-"


@dataclass(frozen=True, slots=True)
class Refused:
    """Words that were meant for a field but do not fit it."""

    field: FieldDefinition
    said: str
    why: str


@dataclass(slots=True)
class Reading:
    """What was found in a message. `questions` are the user's own."""

    found: dict[str, Any] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MessageContext:
    """Where the conversation stands when a message is read. `asked`: the field that the user was asked for."""

    definition: WorkflowDefinition
    collected: Mapping[str, Any]
    asked: FieldDefinition | None
    last: FieldDefinition | None
    """The field that was filled last. `Sorry, I meant …` is about it."""
    today: date


def read_message(text: str, context: MessageContext) -> Reading:
    return _Message(tidy(text), context).read()


class _Message:
    def __init__(self, text: str, context: MessageContext) -> None:
        self.text = text
        self.context = context
        self.asked = context.asked
        self.reading = Reading()
        self.fields = self._in_order()
        self.parts = _parts_of(text)
        self.left = _Remainder(text)

    def _in_order(self) -> Sequence[FieldDefinition]:
        """Returns the field that was asked for, then the missing ones, then the others."""
        missing = [each for each in self.context.definition.fields() if each.name not in self.context.collected]
        known = [each for each in self.context.definition.fields() if each.name in self.context.collected]
        first = [] if self.asked is None else [self.asked]
        return list(dict.fromkeys([*first, *missing, *known]))

    def read(self) -> Reading:
        """Goes from what is surest to what is left over. Each step takes its words away from the steps after it."""
        # the label of a choice, or a correction, is the whole message: nothing else may be picked out of it
        self._whole_answer()
        if self.asked is None or self.asked.name not in self.reading.found:
            self._corrected()
        if self.reading.found and not self.left.spans():
            return self.reading
        # before the questions, because `could you change the product to Website?` is a correction
        self._labels()
        # before anything is guessed, because a number or a choice in a question is not an answer
        self._set_questions_aside()
        # an address looks like nothing else, and must not end up in a name or a text
        self._addresses()
        # before the choices: `Will Page` is a name even if a word of it resembles a choice
        self._names()
        # the field that was asked for comes before the others and sees all words that are left, to notice a doubt
        self._asked_for()
        self._unasked()
        # `yes, and call me by phone`: without what was just found, only the yes is left
        if self.asked is not None and self.asked.type == "boolean" and not is_limited(self.text):
            self._asked_for()
        # texts take anything, so they come last, and never get a lone yes or no
        self._plain_words()
        self._texts()
        # only now is it clear whether nothing was understood
        self._explain()
        return self.reading

    def _whole_answer(self) -> None:
        """Compares the whole answer with the choices: one may look like anything else (`2`, `Yes`, `By e-mail`)."""
        if self.asked is not None and self.asked.type == "choice" and len(self.text) <= 80:
            for choice in self.asked.choices:
                if apart(choice) == apart(self.text) != []:
                    self.reading.found[self.asked.name] = choice

    def _corrected(self) -> None:
        """Reads `no wait, I meant …`, `15, not 12` and the like: for the field whose value is taken back, or for the
        last one. What is labelled (`my email is …`) is read by its label; only what stands before that is read here.
        """
        label = next((clause for _, clause in self.parts if labelled(clause, self.fields)), None)
        head = Span(self.text, 0, len(self.text)) if label is None else Span("", 0, label.start)
        for correction in corrections_in(self.text[: head.end].rstrip(" ,;").removesuffix(" and")):
            found = self._replaced(correction) if correction.old else self._meant(correction)
            if found is not None:
                self.reading.found[found[0].name] = found[1]
                self.left.take(head)
                return

    def _replaced(self, correction: Correction) -> tuple[FieldDefinition, Any] | None:
        """Returns the known field that has the old value, with the new one; or the field that was asked for, if both
        are values of it: `12, no, 15`.
        """
        for each in self._known():
            known = self.context.collected[each.name]
            if self._is_held(each, correction.old, known):
                value = self._value(each, _exchanged(each, correction, known))
                if value is not None and value != known:
                    return each, value
        asked = self.asked
        if asked is None or (asked.type == "text" and not is_name(asked)):
            return None
        if asked.type == "boolean" and correction.is_contrast:
            return None  # `I do not agree` contrasts nothing
        value = self._value(asked, correction.new)
        return (asked, value) if value is not None and self._may_be(asked, correction.old) else None

    def _meant(self, correction: Correction) -> tuple[FieldDefinition, Any] | None:
        """Returns the field that was filled last, with the new value, if that is all that is said; or the only other
        known one that it fits, unless it answers what was asked for.
        """
        new, last = correction.new, self.context.last
        if is_plain(new) or small_talk.command(new) or small_talk.is_greeting(new) or small_talk.is_thanks(new):
            return None
        if last is not None and (value := self._only_value(last, correction)) is not None:
            return last, value
        asked = self.asked
        if asked is not None and not is_prose(asked) and self._may_be(asked, new):
            return None
        fitting = [(each, value) for each in self._known() if (value := self._only_value(each, correction)) is not None]
        return fitting[0] if len(fitting) == 1 else None

    def _only_value(self, each: FieldDefinition, correction: Correction) -> Any:
        """Returns the new value if it fits the field and nothing else is said; a name must also look like one."""
        value = None if is_prose(each) else self._value(each, correction.new)
        if value is None or value == self.context.collected.get(each.name):
            return None
        if is_name(each):
            return value if small_talk.is_surely_name(value, is_introduced=correction.is_sure) else None
        if each.type == "text":
            return value if correction.is_sure and each is self.context.last else None
        return value if says_only_value(each, correction.new, self.context.today) else None

    def _value(self, each: FieldDefinition, phrase: str) -> Any:
        """Returns the value of the field in the phrase, or `None` if it does not fit."""
        try:
            return value_in(each, phrase, self.context.today)
        except ValueError:
            return None

    def _may_be(self, each: FieldDefinition, phrase: str) -> bool:
        """Whether it fits the field, or could be one of several of its values."""
        try:
            return value_in(each, phrase, self.context.today) is not None
        except ValueError as error:
            return str(error).startswith("could be")

    def _is_held(self, each: FieldDefinition, old: str, known: Any) -> bool:
        """Whether the old words are the field's value, or a part of the name or address that it has."""
        if is_name(each):
            return bool(words(old)) and set(words(old)) <= set(words(str(known)))
        if each.type == "email":
            return len(old) > 1 and old.casefold() in str(known).casefold()
        return each.type != "text" and each.type != "boolean" and self._value(each, old) == known

    def _labels(self) -> None:
        parts = self.parts
        labels = [labelled(clause, self.fields) for _, clause in parts]
        is_prose_asked = self.asked is not None and is_prose(self.asked)
        for number, label in enumerate(labels):
            if label is None or label.field.name in self.reading.found:
                continue
            if label.field.type == "text" and is_plain(label.value.text):
                continue
            value = self._value_span(label, number, parts, labels)
            is_quiet = not label.is_strict and (is_prose_asked or label.field is not self.asked)
            if self._take(label.field, value.text, is_quiet=is_quiet, is_labelled=True):
                self.left.take(Span("", parts[number][1].start, value.end))

    def _value_span(
        self, label: Labelled, number: int, parts: list[tuple[Span, Span]], labels: list[Labelled | None]
    ) -> Span:
        """A text continues past `and` and commas: prose to the end of the message, others to that of the sentence."""
        end = label.value.end
        if label.field.type == "text" and (not is_name(label.field) or label.by in (":", "=", "->")):
            for (sentence, clause), following in list(zip(parts, labels, strict=True))[number + 1 :]:
                is_part = sentence is parts[number][0] or is_prose(label.field)
                if (
                    following is not None
                    or not is_part
                    or emails_in(clause.text)
                    or small_talk.is_question(sentence.text)
                ):
                    break
                end = clause.end
        return Span(self.text[label.value.start : end], label.value.start, end)

    def _set_questions_aside(self) -> None:
        may_be_short = self.asked is not None and self.asked.type != "text"
        for sentence in sentences(self.text):
            if not small_talk.is_question(sentence.text) or self.left.is_touched(sentence):
                continue
            if may_be_short and len(words(sentence.text)) <= 3:
                continue
            if len(self.reading.questions) < _MAX_QUESTIONS:
                self.reading.questions.append(sentence.text)
            self.left.take(sentence)

    def _addresses(self) -> None:
        """Gives an e-mail address to a field that waits for one. A filled field gets it only as a correction."""
        found = [each for each in emails_in(self.text) if not self.left.is_touched(each)]
        is_alone = len(found) == 1 and found[0].end - found[0].start >= len(self.text) - 2
        is_correction = is_alone or bool(CORRECTING.search(self.text))
        waiting = [
            each for each in self.fields
            if each.type == "email" and each.name not in self.reading.found
            and (each is self.asked or each.name not in self.context.collected or is_correction)
        ]  # fmt: skip
        if self.asked in waiting and len({address.text for address in found}) > len(waiting):
            self._take(waiting[0], self.text, is_quiet=False)
            return
        for each, address in zip(waiting, found, strict=False):
            if self._take(each, address.text, is_quiet=True):
                self.left.take(self._around(address))

    def _around(self, found: Span) -> Span:
        """Returns the whole clause if it only leads to the address: `you can reach me at …`."""
        clause = self.left.clause_of(found)
        others = words(clause.text.replace(found.text, " "))
        return clause if all(word in STOP or word in _REACH for word in others) else found

    def _names(self) -> None:
        """Reads `I'm Ada Lovelace` for the first open name field."""
        for each in self.fields:
            is_open = each is self.asked or each.name not in self.context.collected
            is_refused = any(refused.field is each for refused in self.reading.refused)
            if is_name(each) and is_open and each.name not in self.reading.found and not is_refused:
                spans = self.left.spans()
                is_lone = each is self.asked and len(spans) <= 2
                for span in spans:
                    name = "" if is_plain(span.text) else small_talk.name_in(span.text, is_asked=is_lone)
                    if small_talk.is_greeting(span.text) or self._is_choice(name):
                        continue
                    if name and self._take(each, name, is_quiet=True, is_labelled=True):
                        self.left.take(span)
                        break
                return

    def _is_choice(self, name: str) -> bool:
        """Whether it is a choice: `API`, from somebody who was asked for a name."""
        return any(apart(choice) == apart(name) for each in self.fields for choice in each.choices)

    def _asked_for(self) -> None:
        """Reads all that is left as one answer: half of `between 5 and 10` would be a wrong one."""
        each, rest = self.asked, self.left.text()
        if each is None or each.type in ("text", "email") or each.name in self.reading.found or not rest:
            return
        if len(rest) <= _MAX_ANSWER and self._take(each, rest, is_quiet=True, is_doubt_told=True):
            if len(words(rest)) <= 6:
                self.left.use(Span(rest, 0, len(self.text)))
        elif each.type == "choice" and not self.reading.refused:
            self._chosen_in_a_clause(each)

    def _chosen_in_a_clause(self, each: FieldDefinition) -> None:
        """Reads `it's not billing, it's a crash`: all clauses that mean a choice must mean the same one."""
        meant: dict[str, Span] = {}
        for span in self.left.spans():
            try:
                meant[value_in(each, span.text, self.context.today)] = span
            except Ambiguous as error:
                self.reading.refused.append(Refused(each, span.text, str(error)))
                return
            except ValueError:
                continue
        if len(meant) > 1:
            self.reading.refused.append(Refused(each, self.text, str(Ambiguous(list(meant)))))
        for value, span in meant.items() if len(meant) == 1 else ():
            self.reading.found[each.name] = value
            self.left.use(span)

    def _unasked(self) -> None:
        """Reads the words of an answer once more for other fields: `12 people since yesterday`."""
        for name, value, span, is_short in self._findings():
            self.reading.found.setdefault(name, value)
            if is_short:
                self.left.use(span)

    def _findings(self) -> Iterable[Finding]:
        spans = self.left.spans(with_used=True)
        doubted = [each.field for each in self.reading.refused]
        missing = [each for each in self._open_fields() if each not in doubted]
        yield from UnaskedFields(missing, self.context.today).find(spans)
        if self.asked is None or (CORRECTING.search(self.text) and not is_prose(self.asked)):
            yield from UnaskedFields(self._known(), self.context.today, is_known=True).find(spans)

    def _known(self) -> list[FieldDefinition]:
        return [each for each in self.fields if each.name in self.context.collected]

    def _open_fields(self) -> list[FieldDefinition]:
        known = {**self.context.collected, **self.reading.found}
        return [each for each in self.fields if each.name not in known]

    def _plain_words(self) -> None:
        """Keeps a yes or no among other things from becoming part of a text."""
        for span in self.left.spans():
            if is_plain(span.text) and len(span.text) < len(self.text):
                self.left.use(span)

    def _texts(self) -> None:
        """Gives what is left to the text that was asked for, or, if it is long, to a prose field that is missing."""
        rest = self.left.text()
        is_text_asked = (
            self.asked is not None and self.asked.type == "text" and self.asked.name not in self.reading.found
        )
        if is_text_asked and self.asked is not None and not is_name(self.asked):
            if is_prose(self.asked):
                rest = self.left.text(with_used=True)
            if small_talk.is_greeting(rest) or is_plain(rest) or not words(rest) or small_talk.is_thanks(rest):
                return
            if self.reading.found and not words(CORRECTING.sub(" ", rest)):
                return  # only the `sorry` of a correction is left
            self._take(self.asked, small_talk.after_lead(rest), is_quiet=False)
            return
        prose = next((each for each in self._open_fields() if each.required and is_prose(each)), None)
        if prose is not None and self.reading.found:
            rest = small_talk.without_greeting(rest)
            if len(words(rest)) >= 5:
                self._take(prose, rest, is_quiet=True)

    def _explain(self) -> None:
        """If nothing was understood, says why the words do not fit the field that was asked for."""
        if self.asked is None or self.reading.found or self.reading.refused or self.reading.questions:
            return
        if small_talk.is_greeting(self.text) or small_talk.is_thanks(self.text) or not self.text:
            return
        try:
            rest = self.left.text(with_used=True) or self.text
            value_in(self.asked, rest if self.asked.type == "text" else rest[:_MAX_ANSWER], self.context.today)
            why = "does not look like an answer"
        except ValueError as error:
            why = str(error)
        self.reading.refused.append(Refused(self.asked, self.text, why))

    def _take(
        self,
        each: FieldDefinition,
        phrase: str,
        *,
        is_quiet: bool,
        is_doubt_told: bool = False,
        is_labelled: bool = False,
    ) -> bool:
        """`is_quiet`: what does not fit is not reported, unless it could be two things and `is_doubt_told`."""
        try:
            self.reading.found[each.name] = value_in(each, phrase, self.context.today, is_labelled=is_labelled)
        except ValueError as error:
            if not is_quiet or (is_doubt_told and str(error).startswith("could be")):
                self.reading.refused.append(Refused(each, phrase, str(error)))
            return False
        return True


def _exchanged(each: FieldDefinition, correction: Correction, known: Any) -> str:
    """Returns the new value: with `John, not Jon`, the name `Jon Smith` becomes `John Smith`."""
    new, old = words(correction.new), words(correction.old)
    if not is_name(each) or len(new) != len(old) or len(old) >= len(words(str(known))):
        return correction.new
    return re.sub(rf"\b{re.escape(correction.old)}\b", lambda _: correction.new, str(known), flags=re.IGNORECASE)


def _parts_of(text: str) -> list[tuple[Span, Span]]:
    """Returns the clauses that are read for fields, each with its sentence."""
    every = ((sentence, clause) for sentence in sentences(text) for clause in clauses(sentence))
    return list(islice(every, _MAX_CLAUSES))


class _Remainder:
    """What is still to be read of a message. A part that is taken is gone; a prose field may quote one that is used."""

    def __init__(self, text: str) -> None:
        self._whole = Span(text, 0, len(text))
        self._parts = [clause for _, clause in _parts_of(text)]
        self._gone: list[Span] = []
        self._used: list[Span] = []

    def take(self, span: Span) -> None:
        """The words belong to a field, or are a question, and are nothing else."""
        last = self._gone[-1] if self._gone else None
        if last and last.end <= span.start and not self._whole.text[last.end : span.start].strip():
            # keeps the list short: a thousand questions in a row are one part
            self._gone[-1] = Span("", last.start, span.end)
        else:
            self._gone.append(span)

    def use(self, span: Span) -> None:
        """The words gave a field its value. A prose field may still quote them."""
        self._used.append(span)

    def is_touched(self, span: Span) -> bool:
        return any(_meet(span, gone) for gone in self._gone)

    def clause_of(self, span: Span) -> Span:
        return next((part for part in self._parts if _meet(part, span)), span)

    def spans(self, *, with_used: bool = False) -> list[Span]:
        """Returns the clauses that are left. One that was taken in part is shorter."""
        gone = self._gone if with_used else [*self._gone, *self._used]
        left = [Span(_bare(self._kept(part, gone)), part.start, part.end) for part in self._parts]
        return [span for span in left if span.text]

    def text(self, *, with_used: bool = False) -> str:
        """Returns what is left as one text."""
        return self._kept(self._whole, self._gone if with_used else [*self._gone, *self._used])

    def _kept(self, part: Span, gone: list[Span]) -> str:
        pieces, at = [], part.start
        for span in sorted((span for span in gone if _meet(part, span)), key=lambda span: span.start):
            pieces.append(self._whole.text[at : max(at, span.start)])
            at = max(at, span.end)
        pieces.append(self._whole.text[at : max(at, part.end)])
        if len(pieces) == 1:
            return pieces[0].strip()
        text = ""
        for piece in (piece for piece in map(_bare, pieces) if piece):
            joint = "" if not text else " " if text[-1] in ".!?" else ", " if piece[0].islower() else ". "
            text += joint + piece
        return text


def _meet(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _bare(piece: str) -> str:
    """Returns the piece without what joined it to its neighbours."""
    left = piece.lstrip(_MARKS).rstrip(" \n,;:(<\"'-")
    while left:
        first, _, following = left.partition(" ")
        before, _, last = left.rpartition(" ")
        if first.casefold() in _JOINTS:
            left = following.lstrip(_MARKS)
        elif last.casefold() in _JOINTS:
            left = before.rstrip(" \n,;:(<\"'-")
        else:
            break
    return left
