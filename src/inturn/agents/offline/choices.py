"""Finds which of a field's choices an answer means: by its words, its number, its beginning, or a near match."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from inturn.agents.offline.words import STOP, stem, words

_ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
_NUMBER = re.compile(r"(?:option|choice|number|no\.?|nr\.?|#)?\s*#?\s*([0-9]{1,4})\s*[.)]?", re.IGNORECASE)
_PLACE = re.compile(rf"(?:the\s)?({'|'.join(_ORDINALS)}|last)(?:\s(?:one|option|choice))?[.!]?", re.IGNORECASE)
_NOT = frozenset(["not", "isn't", "no", "never", "without", "don't", "dont"])
_WEAK = frozenset(["cannot", "can't", "cant", "not", "no", "never", "only"])
"""Words that do not single out a label: `we cannot work` may mean `Nobody can work` or `Some people cannot work`."""
_SAME = (
    {"phone", "telephone", "call", "ring"}, {"email", "mail"}, {"chat", "live-chat"}, {"people", "ppl"},
    {"cannot", "can't", "cant"},
)  # fmt: skip
EVERYDAY = frozenset(["nobody", "some", "people", "work", "something", "else", "only", "question", "problem"])
"""Words of longer labels that mean something else unless the field was asked for."""
_CLOSE = 0.8
_MAX_PHRASE = 80


class Ambiguous(ValueError):
    """More than one choice fits."""

    def __init__(self, fitting: Sequence[str]) -> None:
        super().__init__(f"could be {' or '.join(fitting)}: which one?")


def choose(choices: Sequence[str], phrase: str) -> str | None:
    """Returns the choice that an answer to the question means, or `None`. Raises `Ambiguous` if several fit."""
    phrase = phrase.strip(" .!?,;:\"'")
    same = [choice for choice in choices if apart(choice) == apart(phrase) and words(phrase)]
    if same:
        return same[0]
    placed = _by_place(choices, phrase)
    if placed is not None:
        return placed
    for fitting in (named(choices, phrase), _by_words(choices, phrase), _nearly(choices, phrase)):
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise Ambiguous(fitting)
    return None


def named(choices: Sequence[str], text: str) -> list[str]:
    """Returns the choices whose whole label occurs in the text without a `not` in front of it."""
    said = apart(text)
    found = {}
    for choice in choices:
        label = apart(choice)
        for at in range(len(said) - len(label) + 1 if label else 0):
            if said[at : at + len(label)] == label and not _NOT & set(said[max(0, at - 2) : at]):
                found[choice] = (at, at + len(label))
    # `Mobile app` is not also `app`
    return [
        choice
        for choice, (start, end) in found.items()
        if not any(begin <= start and end <= stop and stop - begin > end - start for begin, stop in found.values())
    ]


def apart(text: str) -> list[str]:
    """Splits at hyphens too: people also write `Self-employed` as two words."""
    return [part for word in words(text) for part in word.split("-")]


def has_words(text: str, label: object) -> bool:
    """Whether the label occurs in the text, whatever is said about it."""
    return isinstance(label, str) and f" {' '.join(words(label))} " in f" {' '.join(words(text))} "


def is_everyday(choice: str) -> bool:
    """Whether people write the label without meaning the choice: a small word such as `Other`."""
    label = words(choice)
    return all(word in STOP or word in ("other", "others", "else", "none", "question") for word in label)


def _by_place(choices: Sequence[str], phrase: str) -> str | None:
    number = _NUMBER.fullmatch(phrase)
    if number:
        place = int(number[1])
        return choices[place - 1] if 1 <= place <= len(choices) else None
    ordinal = _PLACE.fullmatch(phrase)
    if ordinal is None or not choices:
        return None
    word = ordinal[1].casefold()
    place = len(choices) if word == "last" else _ORDINALS.index(word) + 1
    return choices[place - 1] if place <= len(choices) else None


def _by_words(choices: Sequence[str], phrase: str) -> list[str]:
    """Returns the choices that begin with a short answer or have all its words. Small words count only on their own."""
    said = words(phrase)[:12]
    telling = [word for word in said if word not in STOP and word not in _LEAD] or said
    if not telling or len(phrase) > _MAX_PHRASE or _NOT & set(said):
        return []
    begins = [choice for choice in choices if choice.casefold().startswith(phrase.casefold())]
    if begins and len(phrase) >= 2:
        return begins
    fitting = [choice for choice in choices if all(_has(choice, word) for word in telling)]
    by_word = [[choice for choice in choices if _has(choice, word)] for word in telling if word not in _WEAK]
    if len(fitting) == 1 and fitting in by_word:
        return fitting
    # `chat or phone`, `we cannot work`: each word fits some choice, but no single choice is meant by all of them
    return [choice for choice in choices if any(choice in each for each in by_word)] if all(by_word) else []


_LEAD = frozenset([
    "think", "guess", "use", "using", "mean", "one", "option", "pick", "choose", "take", "prefer", "via", "say",
    "suppose", "rather",
])  # fmt: skip


def _has(choice: str, word: str) -> bool:
    """Also finds `login` in `Cannot log in`."""
    own = words(choice)
    if any(word in same and same & set(own) for same in _SAME):
        return True
    begins = any(stem(each) == stem(word) or (len(word) >= 3 and each.startswith(word)) for each in own)
    return begins or (len(word) >= 5 and word in "".join(own))


def _nearly(choices: Sequence[str], phrase: str) -> list[str]:
    if len(phrase) > _MAX_PHRASE or _NOT & set(words(phrase)):
        return []
    said = [word for word in words(phrase) if word not in STOP and word not in _LEAD]
    best, fitting = _CLOSE, []
    for choice in choices:
        near = max((_likeness(label, said) for label in _labels(choice)), default=0.0)
        if near > best:
            best, fitting = near, [choice]
        elif near == best and near > _CLOSE:
            fitting.append(choice)
    return fitting


def _labels(choice: str) -> list[list[str]]:
    """Returns the whole label, and each telling word of it."""
    return [words(choice), *([each] for each in words(choice) if each not in _WEAK)]


def _likeness(label: Sequence[str], said: Sequence[str]) -> float:
    one, other = " ".join(label), " ".join(said)
    if len(one) < 3 or len(other) < 3 or one in STOP:
        return 0.0
    if 2 * min(len(one), len(other)) <= _CLOSE * (len(one) + len(other)):
        # comparing is slow, and lengths that differ so much rule out a match
        return 0.0
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() > _CLOSE else 0.0
