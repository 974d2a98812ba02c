"""Numbers as people write them: `1,200`, `12.5`, `5k`, `a dozen`, and words up to twelve (and the tens)."""

from __future__ import annotations

import re
from dataclasses import dataclass

WORDS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100,
}  # fmt: skip
_OTHERS = {
    "a dozen": 12, "dozen": 12, "half a dozen": 6, "a hundred": 100, "one hundred": 100,
    "nobody": 0, "no one": 0, "none": 0, "just me": 1, "only me": 1, "myself": 1,
}  # fmt: skip

_DIGITS = re.compile(
    r"(?<![\w.,:@#/])(?P<sign>-|minus\s)?[$€£]?(?P<digits>[0-9]{1,3}(?:(?P<by>[,.' ])[0-9]{3}(?:(?P=by)[0-9]{3}){0,4})?"
    r"(?P<part>[.,][0-9]{1,9})?|[0-9]{4,18}(?P<rest>[.,][0-9]{1,9})?)(?P<k>\s?k\b|\sthousand\b|\smillion\b)?"
    r"(?![\w@]|[.,:/][0-9])",
    re.IGNORECASE,
)
_SPOKEN = re.compile(
    rf"(?<![\w@-])(?:{'|'.join(sorted([*WORDS, *_OTHERS], key=len, reverse=True))})(?![\w@-])", re.IGNORECASE
)
_SHARE = re.compile(r"\s?(?:%|percent\b|per cent\b)", re.IGNORECASE)
_TIMES = {"k": 1000, "thousand": 1000, "million": 1_000_000}


@dataclass(frozen=True, slots=True)
class FoundNumber:
    start: int
    end: int
    value: float | int
    is_spoken: bool = False
    is_share: bool = False
    """`10%`."""


def numbers_in(text: str) -> list[FoundNumber]:
    """All numbers of a text, in their order. Parts of dates, versions, times and addresses are none."""
    found = [
        FoundNumber(match.start(), match.end(), _written(match), is_share=bool(_SHARE.match(text, match.end())))
        for match in _DIGITS.finditer(text)
    ]
    for match in _SPOKEN.finditer(text):
        said = match.group().casefold()
        value = WORDS[said] if said in WORDS else _OTHERS[said]
        found.append(FoundNumber(match.start(), match.end(), value, is_spoken=True))
    return sorted(found, key=lambda each: each.start)


def _written(match: re.Match[str]) -> float | int:
    digits, by = match["digits"], match["by"]
    part = match["part"] or match["rest"] or ""
    whole = digits.removesuffix(part) if part else digits
    if by == "." and whole.count(".") == 1 and not part:
        # `1.234` is a decimal in English; `1.234.567` can only be grouped
        part, whole = whole[whole.index(".") :], whole[: whole.index(".")]
    number = float(re.sub(r"[^0-9]", "", whole) + part.replace(",", "."))
    number *= _TIMES[match["k"].strip().casefold()] if match["k"] else 1
    number = -number if match["sign"] else number
    return int(number) if number.is_integer() else number
