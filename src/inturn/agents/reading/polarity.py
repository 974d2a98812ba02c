"""Yes or no, in many wordings. `None` where a text says neither, both, or that its writer does not know."""

from __future__ import annotations

import re

from inturn.agents.reading.words import words

_YES = (
    "yes|yep|yeah|yup|yea|ya|y|sure|sure thing|ok|okay|k|of course|certainly|absolutely|definitely|indeed|correct|"
    "right|true|agreed|fine|please do|go ahead|go for it|do it|i do|i am|i agree|i consent|i accept|i would|we do|"
    "sounds good|looks good|looks right|all good|all right|alright|that's right|that's correct|"
    "that is right|that is correct|it is|"
    "affirmative|perfect|great|exactly|why not|no problem|i think so|i guess so|i suppose so|with pleasure|"
    "you may|you can|confirmed|confirm|i confirm|all correct|everything is correct|"
    "everything is right|submit|send it|done"
)
_NO = (
    "no|nope|nah|n|no way|never|not really|not at all|not yet|not now|false|negative|i don't|i do not|i am not|i'm not|"
    "we don't|we do not|don't|do not|please don't|rather not|i'd rather not|i disagree|disagree|wrong|incorrect|"
    "not correct|not right|that's wrong|that is wrong|no thanks|no thank you|i don't think so|not that i know|"
    "not that i know of|none|nothing|it isn't|it is not|it's not|isn't|certainly not|"
    "absolutely not|of course not|definitely not"
)
_UNSURE = (
    "not sure|i'm not sure|i am not sure|maybe|perhaps|i don't know|i do not know|don't know|do not know|no idea|dunno|"
    "yes and no|it depends|depends|not certain|i don't understand|i do not understand|no clue|unsure"
)
_FILLERS = frozenset([
    "well", "um", "uh", "hmm", "oh", "ah", "actually", "please", "thanks", "thank", "you", "so",
])  # fmt: skip
_NOT = frozenset([
    "no", "not", "never", "without", "none", "cannot", "neither", "nobody", "nothing",
])  # fmt: skip
_FOR = frozenset([
    "yes", "yep", "yeah", "sure", "agree", "agreed", "consent", "accept", "fine", "ok", "okay", "correct", "right",
    "true", "allowed", "allow", "welcome", "may",
])  # fmt: skip
_HERE = re.compile(
    r"\b(?:there (?:is|are)|there's|(?:i|we) (?:have|know|found|got|use|do)|(?:i|we)'ve (?:got|found)|known)\b",
    re.IGNORECASE,
)

_PHRASES: dict[tuple[str, ...], bool | None] = {
    **{tuple(phrase.split()): True for phrase in _YES.split("|")},
    **{tuple(phrase.split()): False for phrase in _NO.split("|")},
    **{tuple(phrase.split()): None for phrase in _UNSURE.split("|")},
}
_LONGEST = max(map(len, _PHRASES))
_SIGNS = {"👍": True, "✅": True, "👎": False, "❌": False}


def yes_or_no(text: str) -> bool | None:
    """The answer that a message gives to a question of yes or no."""
    for sign, value in _SIGNS.items():
        if sign in text:
            return value
    said = words(text)
    while said and said[0] in _FILLERS:
        said = said[1:]
    for length in range(min(_LONGEST, len(said)), 0, -1):
        phrase = tuple(said[:length])
        if phrase in _PHRASES:
            return _PHRASES[phrase]
    return leaning(text)


def is_plain(text: str) -> bool:
    """The message is a yes or a no, and nothing else."""
    said = [word for word in words(text) if word not in _FILLERS]
    return (bool(said) and tuple(said) in _PHRASES) or text.strip() in _SIGNS


def leaning(text: str) -> bool | None:
    """What a sentence about something says of it, if it has a word that decides."""
    said = words(text)
    against = [at for at, word in enumerate(said) if word in _NOT or word.endswith("n't")]
    favour = [at for at, word in enumerate(said) if word in _FOR]
    if against:
        negated = all(any(0 < at - no <= 3 for no in against) for at in favour)
        return False if negated else None
    return True if favour or _HERE.search(text) else None
