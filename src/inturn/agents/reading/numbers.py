"""Numbers as people write them: `1,200`, `12.5`, `5k`, `6kg`, `a dozen`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from inturn.agents.reading.spoken import spoken_in
from inturn.agents.reading.units import SHORT, unit_of

_DIGITS = re.compile(
    r"(?<![\w.,:@#/])(?P<sign>-|minus\s)?[$€£]?(?P<digits>[0-9]{1,3}(?:(?P<by>[,.' ])[0-9]{3}(?:(?P=by)[0-9]{3}){0,4})?"
    r"(?P<part>[.,][0-9]{1,9})?|[0-9]{4,18}(?P<rest>[.,][0-9]{1,9})?)(?P<k>\s?k\b|\sthousand\b|\sgrand\b|\smillion\b)?"
    rf"(?:(?=(?:{SHORT}|ish)\b)|(?![\w@]|[.,:/][0-9]))",
    re.IGNORECASE,
)
_SHARE = re.compile(r"\s?(?:%|percent\b|per cent\b)", re.IGNORECASE)
_TIMES = {"k": 1000, "thousand": 1000, "grand": 1000, "million": 1_000_000}


@dataclass(frozen=True, slots=True)
class FoundNumber:
    start: int
    end: int
    value: float | int
    is_spoken: bool = False
    is_share: bool = False
    """`10%`."""
    grouped: int | None = None
    """What `1.234` is where the point stands between thousands."""
    unit: str = ""


def numbers_in(text: str) -> list[FoundNumber]:
    """All numbers of a text, in their order. Parts of dates, versions, times and addresses are none."""
    found = [
        FoundNumber(
            match.start(),
            match.end(),
            _written(match),
            is_share=bool(_SHARE.match(text, match.end())),
            grouped=_grouped(match),
            unit=unit_of(text, match.start(), match.end()),
        )
        for match in _DIGITS.finditer(text)
    ]
    for start, end, value in spoken_in(text):
        if not any(each.start < end and start < each.end for each in found):  # `10 thousand` is read already
            found.append(FoundNumber(start, end, value, is_spoken=True, unit=unit_of(text, start, end)))
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


def _grouped(match: re.Match[str]) -> int | None:
    digits = match["digits"]
    is_doubt = match["by"] == "." and digits.count(".") == 1 and not match["part"] and not digits.startswith("0")
    return int(digits.replace(".", "")) * (-1 if match["sign"] else 1) if is_doubt and not match["k"] else None
