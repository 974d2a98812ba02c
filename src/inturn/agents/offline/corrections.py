"""Finds what a message takes back and what it says instead: `it's John, not Jon`, `12, no, 15`, `no wait, the website`.

It only takes the sentence apart. Whether the two parts are values, and of which field, is for the reader to decide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from inturn.agents.offline.small_talk import after_introduction, after_lead

_MAX_LENGTH = 160
"""A longer message tells a story; a `no` or a `not` in it corrects nothing."""

_TAKES_BACK = (
    r"(?:no(?:pe)?[\s,.!:;-]{1,5}){0,3}(?:wait|hold on|hang on|sorry|oops|whoops|actually|typo|"
    r"correction|my (?:bad|mistake)|i meant?|i should have said|"
    r"(?:that|it) should(?: have)? be(?:en)?|make (?:that|it)|wrong(?: one)?|rather)"
)
_LEAD = re.compile(
    r"(?:(?:h{1,5}m{1,5}|uh|um|oh|ah|well|almost|nearly)[\s,.!:;-]{1,5}){0,4}"
    rf"(?P<lead>\*+|(?:(?:{_TAKES_BACK}|no(?=\s?[,.!:;-]|\sit)|no no)[\s,.!:;-]{{1,5}}){{1,4}})\s*(?P<new>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_OPENING = re.compile(
    r"(?:(?:h{1,5}m{1,5}|uh|um|oh|ah|well|almost|nearly|no|nope|wait|sorry|oops|actually|typo|correction)"
    r"[\s,.!:;-]{1,5}){1,9}",
    re.IGNORECASE,
)
_THEN = re.compile(
    rf"(?P<old>\S.{{0,80}}?)(?:[\s,;:.!?…-]+(?:{_TAKES_BACK})|\s?[,;:.!?…-]+\s*no(?:pe)?\s?[,;:.!…-])[\s,;:.!-]+(?P<new>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_AND_NOT = re.compile(
    r"(?P<new>\S.{0,80}?)[\s,;-]+(?:and\s)?(?:not|isn't|instead of|rather than)\s(?P<old>\S.{0,80})",
    re.IGNORECASE | re.DOTALL,
)
_NOT_BUT = re.compile(
    r"(?:(?:it|that)(?:'s| is| was) |its )?not\s(?P<old>\S.{0,80}?)(?:\s?[,;.-]+|\s(?=but\b|it's\b|its\b))\s*"
    r"(?:but\s|rather\s)?(?P<new>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_SAID_BUT = re.compile(
    r"i (?:said|wrote|typed|put) (?P<old>\S.{0,80}?),?\s(?:but|and)\s"
    r"(?:i meant?\s|(?:it|that)(?:'s| is| should be) |its )(?P<new>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_INTRODUCES = re.compile(r"(?:it|that)(?:'s| is| was)\b|its\b|i'm\b|i am\b|my name\b|call me\b|name's\b", re.IGNORECASE)
_MEANT = re.compile(r"\b(?:meant?|should|typo|correction|name)\b|\*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Correction:
    """`old`: what is taken back, or '' if the message does not say it.

    `is_contrast`: the two stand beside each other (`15, not 12`); otherwise one came first (`12, no, 15`).
    `is_sure`: it says that something was wrong, not only `no`.
    """

    new: str
    old: str = ""
    is_contrast: bool = False
    is_sure: bool = True


def corrections_in(text: str) -> list[Correction]:
    """Returns what the whole message may correct, the likeliest reading first."""
    text = text.strip()
    if not text or len(text) > _MAX_LENGTH or "\n" in text:
        return []
    opened = _OPENING.match(text)
    rest = text[opened.end() :] if opened else text
    contrasts = [found for pattern in (_SAID_BUT, _NOT_BUT, _AND_NOT) if (found := pattern.fullmatch(rest))]
    readings = [Correction(_bare(found["new"]), _bare(found["old"]), is_contrast=True) for found in contrasts[:1]]
    then = _THEN.fullmatch(text)
    if then:
        readings.append(Correction(_bare(then["new"]), _bare(then["old"])))
    starred = text.endswith("*") and not text.startswith("*")  # `website*` is the same habit as `*website`
    lead = _LEAD.fullmatch(f"*{text}" if starred else text)
    if lead:
        is_sure = bool(_MEANT.search(lead["lead"]) or _INTRODUCES.match(lead["new"]))
        readings.append(Correction(_bare(lead["new"]), is_sure=is_sure))
    return [reading for reading in readings if reading.new]


def _bare(phrase: str) -> str:
    """Returns a part without what led to it: `it's the website.` is `the website`."""
    return after_introduction(after_lead(phrase.strip(" ,;:.!?-*"))).strip()
