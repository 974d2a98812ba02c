"""Yes or no, in many wordings, and only if the whole message says so: `sure, cancel it` begins like a yes and is none.

`None` where a text says neither, both, that its writer does not know, or anything besides.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import product

from inturn.agents.offline.yes_no import FILLERS, GOOD, HAVE, NO, SMALL, SUBJECTS, UNSURE, VERBS, YES
from inturn.agents.offline.words import stem, words

_SIGNS = {"👍": "yes", "👌": "yes", "✅": "yes", "✔": "yes", "👎": "no", "❌": "no"}
_FRIENDLY = frozenset("🙂😀😃😄😊🎉🙏❤\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
_SIGN = re.compile(r"[^\w\s\x00-\x7f¡¿…–—“”‘’«»]")  # noqa: RUF001
_ASKS = re.compile(r"(?<!why not)\?", re.IGNORECASE)
_MOST = 24
"""A yes of more words than that says something else as well."""


def _stated(*said: str) -> Iterator[str]:
    """`everything looks good` and its like."""
    for subject, verb, what in product(SUBJECTS, VERBS, said):
        yield f"{subject}{verb} {what}"


_PHRASES: dict[tuple[str, ...], str] = {
    tuple(phrase.split()): kind
    for kind, phrases in (
        ("yes", [*YES.split("|"), *GOOD, *_stated(*GOOD, *(f"all {each}" for each in GOOD))]),
        ("no", [*NO.split("|"), *_stated("not", "not all", "wrong", "all wrong")]),
        ("have", HAVE.split("|")),
        ("unsure", UNSURE.split("|")),
        ("filler", FILLERS.split("|")),
    )
    for phrase in phrases
}
_LONGEST = max(map(len, _PHRASES))


def yes_or_no(text: str, own: Collection[str] = (), *, is_fact: bool = True) -> bool | None:
    """What the whole message answers to a question of yes or no. `own`: the stems of words that name the question.

    `is_fact`: the question is whether there is something, so that `there is one` answers it, too.
    """
    kinds = _kinds(text, own)
    if kinds is None or "unsure" in kinds or _ASKS.search(text) or {"yes", "no"} <= set(kinds):
        return None
    if "no" in kinds:
        return False
    return True if "yes" in kinds or (is_fact and "have" in kinds) else None


def is_plain(text: str) -> bool:
    """The message is a yes, a no or a perhaps, and nothing else."""
    return bool({"yes", "no", "unsure"} & set(_kinds(text, ()) or ()))


def opens_with(text: str) -> bool | None:
    """The answer of `yes, restarting helps`: what follows explains it, and neither limits it nor takes it back."""
    if _ASKS.search(text) or is_plain(text):
        return None
    if _OPENS_YES.match(text) and not _TAKEN_BACK.search(text):
        return True
    return False if _OPENS_NO.match(text) and not _LIMITED.search(text) else None


def is_limited(text: str) -> bool:
    """`Sure, but only …`."""
    return bool(re.search(rf"\b(?:{_LIMITS})\b", text, re.IGNORECASE))


_OPENS_YES = re.compile(r"(?:yes|yep|yeah|yup)\b", re.IGNORECASE)
_OPENS_NO = re.compile(r"(?:no|nope|nah)\s?[,.;:!-]", re.IGNORECASE)
_LIMITS = "but|only|if|unless|except|however|though|although|until|maybe|perhaps|wait|stop|cancel|sorry"
_LIMITED = re.compile(rf"\b(?:{_LIMITS}|yes|yep|yeah)\b", re.IGNORECASE)
_TAKEN_BACK = re.compile(
    rf"\b(?:{_LIMITS}|no|nope|not|never|none|nothing|nobody|wrong|cannot|without)\b|n't\b", re.IGNORECASE
)


def _kinds(text: str, own: Collection[str]) -> list[str] | None:
    """What each phrase of the message is; `None` if there is a word that belongs to none."""
    signs = [sign for sign in _SIGN.findall(text) if sign not in _FRIENDLY]
    said = words(text)
    if len(said) > _MOST or said[-1:] == ["and"] or any(sign not in _SIGNS for sign in signs):
        return None
    names = bool(own) and any(stem(word) in own for word in said)
    kinds = [_SIGNS[sign] for sign in signs]
    at = 0
    before = ""
    while at < len(said):
        longest = min(_LONGEST, len(said) - at)
        length = next((size for size in range(longest, 0, -1) if tuple(said[at : at + size]) in _PHRASES), 0)
        if length:
            kind = _PHRASES[tuple(said[at : at + length])]
            last = said[at + length - 1]
            # `not right`, `I don't agree`, `no consent`: the yes is part of the no before it
            negated = before.endswith(("not", "n't")) or (before in ("no", "without") and stem(last) in own)
            kinds.append("filler" if negated and kind == "yes" else kind)
            before = last if kind == "no" else ""
        elif not names or (said[at] not in SMALL and stem(said[at]) not in own):
            return None
        at += length or 1
    return kinds
