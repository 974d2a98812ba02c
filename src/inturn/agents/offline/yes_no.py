"""Yes or no in many wordings, but only if the whole message says so: `sure, cancel it` begins like a yes but is not
one.

The answer is `None` if a text says neither, both, something else as well, or that its writer does not know.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import product
from typing import Literal

from inturn.agents.offline.words import stem, words

_YES = (
    "yes|yep|yeah|yup|yea|ya|y|aye|sure|sure thing|k|of course|certainly|absolutely|definitely|indeed|agreed|agree|"
    "consent|accept|accepted|please do|go|go ahead|go for it|go on|proceed|continue|do it|do that|i do|i am|i agree|"
    "i consent|i accept|i would|we do|we agree|we consent|we accept|i do agree|i do consent|i agree to that|"
    "i agree to this|i agree with that|i agree with this|i consent to that|i consent to this|i allow it|i allow that|"
    "sounds good|sounds right|looks good|looks right|looks fine|looks correct|looks ok|looks great|looks good to me|"
    "good to go|all good|all right|all set|all fine|all correct|all ok|alright|it is|it does|that's it|that is it|"
    "that's me|that's fine with me|that is fine with me|fine with me|fine by me|ok with me|okay with me|"
    "that would be fine|that would be good|that would be great|that'd be fine|that works|works for me|affirmative|"
    "exactly|precisely|why not|no problem|no objection|no objections|i don't mind|i do not mind|i have no objection|"
    "i have no objections|i think so|i guess so|i suppose so|i believe so|with pleasure|gladly|by all means|you may|"
    "you can|you may do that|you can do that|you can send it|you may send it|confirmed|confirm|i confirm|"
    "i confirm that|i confirm this|submit|submit it|send|send it|send it off|send it now|send this|send that|"
    "i'm sure|i am sure|done|lgtm"
)
_NO = (
    "no|nope|nah|n|not|no way|never|not really|not at all|not yet|not now|false|negative|i don't|i do not|i am not|"
    "i'm not|i won't|i will not|i would not|i wouldn't|we don't|we do not|don't|do not|please don't|rather not|"
    "i'd rather not|i would rather not|i disagree|disagree|wrong|incorrect|that's wrong|that is wrong|it's wrong|"
    "it is wrong|no thanks|no thank you|i don't think so|i do not think so|not that i know|not that i know of|"
    "not that we know|not that we know of|not that i'm aware of|none|nothing|it isn't|it is not|it's not|isn't|"
    "that isn't|that's not|that is not|certainly not|absolutely not|of course not|definitely not|i refuse|"
    "under no circumstances|there isn't|there is none|there are none|there aren't|there isn't one|there isn't any|"
    "there is no way|none that work|none that works|i have none|we have none|i don't have one|we don't have one|"
    "i don't have any|we don't have any|we have not found one|i have not found one|we haven't found one|"
    "i haven't found one|haven't found one|i don't know one|we don't know one|i don't know of one|i don't know any|"
    "i don't know of any|we don't know any|we don't know of any|i know none|we know none|i know of none|without"
)
_UNSURE = (
    "not sure|i'm not sure|i am not sure|i'm unsure|i am unsure|maybe|perhaps|i don't know|i do not know|"
    "we don't know|we do not know|don't know|do not know|no idea|i have no idea|we have no idea|dunno|yes and no|"
    "it depends|depends|not certain|i'm not certain|i am not certain|i don't understand|i do not understand|no clue|"
    "unsure"
)
_HAVE = (
    "there is|there's|there are|there is one|there's one|there are some|i have|we have|i have one|we have one|"
    "i've got one|we've got one|i know|we know|i know one|we know one|i found|we found|i found one|we found one|"
    "i've found one|we've found one|i've got|we've got"
)
"""Says that something exists: a yes, unless there is a `no` beside it (`we have no workaround`)."""

_FILLERS = (
    "well|um|uh|uhm|hmm|hm|oh|ah|actually|please|pls|thanks|thank you|thx|many thanks|thanks a lot|"
    "thank you very much|thanks so much|thank you so much|cheers|sorry|so|then|and|hi|hello|just|very much|really|truly"
)
_SUBJECTS = [
    "it", "that", "this", "all", "everything", "the summary", "the data", "all of it", "all of this", "all of that",
    "it all", "that all", "this all", "your summary", "all this", "all that",
]  # fmt: skip
_VERBS = [" is", "'s", " looks", " seems", " sounds"]
_GOOD = [
    "right", "correct", "good", "fine", "ok", "okay", "perfect", "great", "true", "in order", "accurate", "excellent",
    "cool", "nice", "good to me", "fine to me", "right to me",
]  # fmt: skip

_SMALL = frozenset([
    "a", "an", "the", "any", "this", "that", "to", "of", "it", "one", "with", "for", "my", "our", "your", "yet", "far",
    "at", "moment", "known", "found", "give", "i", "we", "have",
])  # fmt: skip
"""Words around the name of a field that mean nothing by themselves: `there is no workaround for it`."""


_SIGNS = {"👍": "yes", "👌": "yes", "✅": "yes", "✔": "yes", "👎": "no", "❌": "no"}
_FRIENDLY = frozenset("🙂😀😃😄😊🎉🙏❤\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
_SIGN = re.compile(r"[^\w\s\x00-\x7f¡¿…–—“”‘’«»]")  # noqa: RUF001
_ASKS = re.compile(r"(?<!why not)\?", re.IGNORECASE)
_MAX_WORDS = 24
"""A message of more words says more than yes or no."""

_WRONG = re.compile(r"\b(?:wrong|incorrect|mistakes?|false|not (?:right|correct|true))\b", re.IGNORECASE)
_STOP = re.compile(
    r"\b(?:cancel\w*|stop|abort|quit|withdraw\w*|revoke\w*|retract\w*|delete|erase|remove|discard|undo|wait|hold on|"
    r"hang on|one (?:moment|second)|forget (?:it|this|that|about)|never ?mind|later|nothing|not|no|never|nobody|cannot|"
    r"unsure|refuse|object|disagree|leave it|give up)\b|n't\b",
    re.IGNORECASE,
)


def _stated(*said: str) -> Iterator[str]:
    """Yields `everything looks good` and the like."""
    for subject, verb, what in product(_SUBJECTS, _VERBS, said):
        yield f"{subject}{verb} {what}"


_PHRASES: dict[tuple[str, ...], str] = {
    tuple(phrase.split()): kind
    for kind, phrases in (
        ("yes", [*_YES.split("|"), *_GOOD, *_stated(*_GOOD, *(f"all {each}" for each in _GOOD))]),
        ("no", [*_NO.split("|"), *_stated("not", "not all", "wrong", "all wrong")]),
        ("have", _HAVE.split("|")),
        ("unsure", _UNSURE.split("|")),
        ("filler", _FILLERS.split("|")),
    )
    for phrase in phrases
}
_LONGEST = max(map(len, _PHRASES))


def yes_or_no(text: str, own: Collection[str] = (), *, is_fact: bool = True) -> bool | None:
    """Returns what the whole message answers to a yes-or-no question. `own`: the stems that name what is asked.

    `is_fact`: the question is whether something exists, so `there is one` answers it too.
    """
    kinds = _kinds(text, own)
    if kinds is None or "unsure" in kinds or _ASKS.search(text) or {"yes", "no"} <= set(kinds):
        return None
    if "no" in kinds:
        return False
    return True if "yes" in kinds or (is_fact and "have" in kinds) else None


def is_plain(text: str) -> bool:
    """Whether the message is a yes, a no or a perhaps, and nothing else."""
    return bool({"yes", "no", "unsure"} & set(_kinds(text, ()) or ()))


def opens_with(text: str) -> bool | None:
    """Returns the answer of `yes, restarting helps`: the rest explains it, and neither limits it nor takes it back."""
    if _ASKS.search(text) or is_plain(text):
        return None
    if _OPENS_YES.match(text) and not _TAKEN_BACK.search(text):
        return True
    return False if _OPENS_NO.match(text) and not _LIMITED.search(text) else None


def is_limited(text: str) -> bool:
    """Whether it sets a condition: `sure, but only …`."""
    return bool(re.search(rf"\b(?:{_LIMITS})\b", text, re.IGNORECASE))


_OPENS_YES = re.compile(r"(?:yes|yep|yeah|yup)\b", re.IGNORECASE)
_OPENS_NO = re.compile(r"(?:no|nope|nah)\s?[,.;:!-]", re.IGNORECASE)
_LIMITS = "but|only|if|unless|except|however|though|although|until|maybe|perhaps|wait|stop|cancel|sorry"
_LIMITED = re.compile(rf"\b(?:{_LIMITS}|yes|yep|yeah)\b", re.IGNORECASE)
_TAKEN_BACK = re.compile(
    rf"\b(?:{_LIMITS}|no|nope|not|never|none|nothing|nobody|wrong|cannot|without)\b|n't\b", re.IGNORECASE
)


def _kinds(text: str, own: Collection[str]) -> list[str] | None:
    """Returns the kind of each phrase of the message, or `None` if a word belongs to no phrase."""
    signs = [sign for sign in _SIGN.findall(text) if sign not in _FRIENDLY]
    said = words(text)
    if len(said) > _MAX_WORDS or said[-1:] == ["and"] or any(sign not in _SIGNS for sign in signs):
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
        elif not names or (said[at] not in _SMALL and stem(said[at]) not in own):
            return None
        at += length or 1
    return kinds


def objection(text: str) -> Literal["wrong", "stop", ""]:
    """Finds words at the end of a workflow that sound like a no. Who writes them is told that nothing was sent.

    `wrong`: something must be changed. `stop`: it must not go on.
    """
    if _WRONG.search(text):
        return "wrong"
    return "stop" if _STOP.search(text) else ""
