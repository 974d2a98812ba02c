"""Reads a whole message: whatever fits a field of the workflow, in any order; the field that was asked for first.

What is surely about a field (`my email is …`) may correct it at any time. What only might be (a number, a date) goes to
the field that was asked for, or to one that the same clause names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inturn.agents.offline.agent import small_talk as leads
from inturn.agents.offline.choices import Ambiguous, apart
from inturn.agents.reading.emails import emails_in
from inturn.agents.reading.finders import Careful, Finding
from inturn.agents.reading.kinds import is_name
from inturn.agents.offline.fields import CORRECTING, Labelled, labelled
from inturn.agents.reading.place import Place, Reading, Refused
from inturn.agents.reading.polarity import is_limited, is_plain
from inturn.agents.reading.remainder import Remainder, parts_of
from inturn.agents.reading.values import value_in
from inturn.agents.offline.words import STOP, Span, sentences, tidy, words
from inturn.workflows.definition.model import FieldDefinition
from inturn.workflows.prose import is_prose

_REACH = frozenset([
    "reach", "contact", "email", "mail", "address", "write", "use", "via", "under", "or", "send", "reply",
])  # fmt: skip

_LONGEST_ANSWER = 1000
"""Of more characters than that, a number or a date somewhere is no answer yet."""
_MOST_QUESTIONS = 5
"""Of one message that are answered: each is held against every topic."""


def read_message(text: str, place: Place) -> Reading:
    return _Message(tidy(text), place).read()


class _Message:
    def __init__(self, text: str, place: Place) -> None:
        self.text = text
        self.place = place
        self.asked = place.asked
        self.reading = Reading()
        self.fields = self._in_order()
        self.parts = parts_of(text)
        self.left = Remainder(text)

    def _in_order(self) -> Sequence[FieldDefinition]:
        """The field that was asked for, then the missing ones, then the others."""
        missing = [each for each in self.place.definition.fields() if each.name not in self.place.collected]
        known = [each for each in self.place.definition.fields() if each.name in self.place.collected]
        first = [] if self.asked is None else [self.asked]
        return list(dict.fromkeys([*first, *missing, *known]))

    def read(self) -> Reading:
        """From what is surest to what is left over: each step takes its words away from those after it."""
        # the label of a choice, or a correction, is the whole message: nothing may be picked out of it
        self._whole_answer()
        if self.asked is None or self.asked.name not in self.reading.found:
            self._meant()
        if self.reading.found:
            return self.reading
        # before the questions, since `could you change the product to Website?` is a correction
        self._labels()
        # before anything is guessed, since a number or a choice in a question is no answer
        self._set_questions_aside()
        # an address looks like nothing else, and must not end up in a name or a text
        self._addresses()
        # before the choices: `Will Page` is a name although a word of it may be like a choice
        self._names()
        # the question comes before what nobody asked for, and sees all the words that are left, to notice a doubt
        self._asked_for()
        self._unasked()
        # `yes, and call me by phone`: without what was just found, only the yes is left
        if self.asked is not None and self.asked.type == "boolean" and not is_limited(self.text):
            self._asked_for()
        # texts take whatever there is, so they come last, and a lone yes or no is kept from them
        self._plain_words()
        self._texts()
        # only now is it known that nothing was understood
        self._explain()
        return self.reading

    def _whole_answer(self) -> None:
        """A choice may look like anything else (`2`, `Yes`, `By e-mail`): an answer is first read as a whole."""
        if self.asked is not None and self.asked.type == "choice" and len(self.text) <= 80:
            for choice in self.asked.choices:
                if apart(choice) == apart(self.text) != []:
                    self.reading.found[self.asked.name] = choice

    def _meant(self) -> None:
        """`Sorry, I meant …`: about the last field, if it fits; names and the like have no other mark."""
        last = self.place.last
        found = CORRECTING.search(self.text)
        if last is None or found is None or found.start() > 4 or is_prose(last) or len(self.text) > 200:
            return
        if any(labelled(clause, self.fields) for _, clause in self.parts):
            return
        phrase = leads.after_lead(self.text[found.end() :].lstrip(" ,:.-"))
        if is_name(last):
            self._take(last, phrase, is_quiet=True)
        elif last.type != "text":
            self._take(last, leads.after_introduction(phrase), is_quiet=True)

    def _labels(self) -> None:
        parts = self.parts
        labels = [labelled(clause, self.fields) for _, clause in parts]
        prose_asked = self.asked is not None and is_prose(self.asked)
        for number, label in enumerate(labels):
            if label is None or label.field.name in self.reading.found:
                continue
            if label.field.type == "text" and is_plain(label.value.text):
                continue
            value = self._value_span(label, number, parts, labels)
            is_quiet = not label.is_strict and (prose_asked or label.field is not self.asked)
            if self._take(label.field, value.text, is_quiet=is_quiet):
                self.left.take(Span("", parts[number][1].start, value.end))

    def _value_span(
        self, label: Labelled, number: int, parts: list[tuple[Span, Span]], labels: list[Labelled | None]
    ) -> Span:
        """A text goes on over `and` and commas: prose to the end of what is said, others to the end of the sentence."""
        end = label.value.end
        if label.field.type == "text" and (not is_name(label.field) or label.by in (":", "=", "->")):
            for (sentence, clause), following in list(zip(parts, labels, strict=True))[number + 1 :]:
                same = sentence is parts[number][0] or is_prose(label.field)
                if following is not None or not same or emails_in(clause.text) or leads.is_question(sentence.text):
                    break
                end = clause.end
        return Span(self.text[label.value.start : end], label.value.start, end)

    def _set_questions_aside(self) -> None:
        may_be_short = self.asked is not None and self.asked.type != "text"
        for sentence in sentences(self.text):
            if not leads.is_question(sentence.text) or self.left.is_touched(sentence):
                continue
            if may_be_short and len(words(sentence.text)) <= 3:
                continue
            if len(self.reading.questions) < _MOST_QUESTIONS:
                self.reading.questions.append(sentence.text)
            self.left.take(sentence)

    def _addresses(self) -> None:
        """An e-mail address goes to the field that waits for one; to a filled one only as a correction."""
        found = [each for each in emails_in(self.text) if not self.left.is_touched(each)]
        alone = len(found) == 1 and found[0].end - found[0].start >= len(self.text) - 2
        correcting = alone or bool(CORRECTING.search(self.text))
        waiting = [
            each for each in self.fields
            if each.type == "email" and each.name not in self.reading.found
            and (each is self.asked or each.name not in self.place.collected or correcting)
        ]  # fmt: skip
        if self.asked in waiting and len({address.text for address in found}) > len(waiting):
            self._take(waiting[0], self.text, is_quiet=False)
            return
        for each, address in zip(waiting, found, strict=False):
            if self._take(each, address.text, is_quiet=True):
                self.left.take(self._around(address))

    def _around(self, found: Span) -> Span:
        """The whole clause, if it only leads to the address: `you can reach me at …`."""
        clause = self.left.clause_of(found)
        others = words(clause.text.replace(found.text, " "))
        return clause if all(word in STOP or word in _REACH for word in others) else found

    def _names(self) -> None:
        """`I'm Ada Lovelace`, for the first name field that is open."""
        for each in self.fields:
            is_open = each is self.asked or each.name not in self.place.collected
            is_refused = any(refused.field is each for refused in self.reading.refused)
            if is_name(each) and is_open and each.name not in self.reading.found and not is_refused:
                spans = self.left.spans()
                lone = each is self.asked and len(spans) <= 2
                for span in spans:
                    name = "" if is_plain(span.text) else leads.name_in(span.text, is_asked=lone)
                    if leads.is_greeting(span.text) or self._is_choice(name):
                        continue
                    if name and self._take(each, name, is_quiet=True):
                        self.left.take(span)
                        break
                return

    def _is_choice(self, name: str) -> bool:
        """`API`, when somebody was asked for a name."""
        return any(apart(choice) == apart(name) for each in self.fields for choice in each.choices)

    def _asked_for(self) -> None:
        """All that is left is read as one answer: half of `between 5 and 10` would be a wrong one."""
        each, rest = self.asked, self.left.text()
        if each is None or each.type in ("text", "email") or each.name in self.reading.found or not rest:
            return
        if len(rest) <= _LONGEST_ANSWER and self._take(each, rest, is_quiet=True, is_doubt_told=True):
            if len(words(rest)) <= 6:
                self.left.use(Span(rest, 0, len(self.text)))
        elif each.type == "choice" and not self.reading.refused:
            self._chosen_in_a_clause(each)

    def _chosen_in_a_clause(self, each: FieldDefinition) -> None:
        """`It's not billing, it's a crash`: the clauses that mean a choice must all mean the same one."""
        meant: dict[str, Span] = {}
        for span in self.left.spans():
            try:
                meant[value_in(each, span.text, self.place.today)] = span
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
        """Words that answered one question may tell more: `12 people since yesterday`."""
        for name, value, span, is_short in self._findings():
            self.reading.found.setdefault(name, value)
            if is_short:
                self.left.use(span)

    def _findings(self) -> Iterable[Finding]:
        spans = self.left.spans(with_used=True)
        doubted = [each.field for each in self.reading.refused]
        yield from Careful([each for each in self._open_fields() if each not in doubted], self.place.today).find(spans)
        if self.asked is None or (CORRECTING.search(self.text) and not is_prose(self.asked)):
            known = [each for each in self.fields if each.name in self.place.collected]
            yield from Careful(known, self.place.today, is_known=True).find(spans)

    def _open_fields(self) -> list[FieldDefinition]:
        known = {**self.place.collected, **self.reading.found}
        return [each for each in self.fields if each.name not in known]

    def _plain_words(self) -> None:
        """A yes or no that is left between other things belongs to none of the texts."""
        for span in self.left.spans():
            if is_plain(span.text) and len(span.text) < len(self.text):
                self.left.use(span)

    def _texts(self) -> None:
        """What is left over goes to the text that was asked for, or, of a long message, to a prose that is missing."""
        rest = self.left.text()
        asked_text = self.asked is not None and self.asked.type == "text" and self.asked.name not in self.reading.found
        if asked_text and self.asked is not None and not is_name(self.asked):
            if is_prose(self.asked):
                rest = self.left.text(with_used=True)
            if leads.is_greeting(rest) or is_plain(rest) or not words(rest) or leads.is_thanks(rest):
                return
            self._take(self.asked, leads.after_lead(rest), is_quiet=False)
            return
        prose = next((each for each in self._open_fields() if each.required and is_prose(each)), None)
        if prose is not None and self.reading.found:
            rest = leads.without_greeting(rest)
            if len(words(rest)) >= 5:
                self._take(prose, rest, is_quiet=True)

    def _explain(self) -> None:
        """Nothing was understood: say why the words do not fit the field that was asked for."""
        if self.asked is None or self.reading.found or self.reading.refused or self.reading.questions:
            return
        if leads.is_greeting(self.text) or leads.is_thanks(self.text) or not self.text:
            return
        try:
            rest = self.left.text(with_used=True) or self.text
            value_in(self.asked, rest if self.asked.type == "text" else rest[:_LONGEST_ANSWER], self.place.today)
            why = "does not look like an answer"
        except ValueError as error:
            why = str(error)
        self.reading.refused.append(Refused(self.asked, self.text, why))

    def _take(self, each: FieldDefinition, phrase: str, *, is_quiet: bool, is_doubt_told: bool = False) -> bool:
        """`is_quiet`: what does not fit is not worth a word, unless it could be two things and `is_doubt_told`."""
        try:
            self.reading.found[each.name] = value_in(each, phrase, self.place.today)
        except ValueError as error:
            if not is_quiet or (is_doubt_told and str(error).startswith("could be")):
                self.reading.refused.append(Refused(each, phrase, str(error)))
            return False
        return True
