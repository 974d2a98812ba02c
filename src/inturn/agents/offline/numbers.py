"""Numbers as people write them, in digits or words, each with its unit: `1,200`, `5k`, `6kg`, `a dozen`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from inturn.agents.offline.words import words
from inturn.workflows.definition.model import FieldDefinition

_SHORT_UNITS = "kgs?|g|lbs?|oz|km|cm|mm|mi|ft|eur|usd|gbp|chf|ml"
"""Units that people write without a blank behind a number. Not `10m`: it may mean metres, minutes or millions."""
_MULTIPLES = {"thousand": 1000, "grand": 1000, "million": 1_000_000}
_DIGITS = re.compile(
    r"(?<![\w.,:@#/])(?P<sign>-|minus\s)?[$€£]?(?P<digits>[0-9]{1,3}(?:(?P<by>[,.' ])[0-9]{3}(?:(?P=by)[0-9]{3}){0,4})?"
    r"(?P<part>[.,][0-9]{1,9})?|[0-9]{4,18}(?P<rest>[.,][0-9]{1,9})?)(?P<k>\s?k\b|\sthousand\b|\sgrand\b|\smillion\b)?"
    rf"(?:(?=(?:{_SHORT_UNITS}|ish)\b)|(?![\w@]|[.,:/][0-9]))",
    re.IGNORECASE,
)
_SHARE = re.compile(r"\s?(?:%|percent\b|per cent\b)", re.IGNORECASE)

NUMBER_WORDS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100,
}  # fmt: skip
_OTHERS = {
    "a dozen": 12, "dozen": 12, "half a dozen": 6, "a hundred": 100, "a thousand": 1000, "a million": 1_000_000,
    "nobody": 0, "no one": 0, "none": 0, "just me": 1, "only me": 1, "myself": 1,
}  # fmt: skip
_FIRST_WORD = re.compile(
    rf"(?<![\w@-])(?:{'|'.join(sorted([*NUMBER_WORDS, *_OTHERS], key=len, reverse=True))})(?![\w@])", re.IGNORECASE
)
_NEXT_WORD = re.compile(
    rf"(?P<by>[\s-]|\sand\s)(?P<word>{'|'.join([*NUMBER_WORDS, *_MULTIPLES])})(?![\w@])", re.IGNORECASE
)
_KINDS_OF_UNITS = (
    {"kg": "kg kgs kilo kilos kilogram kilograms", "g": "g gram grams", "t": "ton tons tonne tonnes",
     "lb": "lb lbs pound pounds", "oz": "oz ounce ounces"},
    {"km": "km kilometre kilometres kilometer kilometers", "m": "m metre metres meter meters",
     "cm": "cm centimetre centimetres centimeter centimeters", "mm": "mm millimetre millimetres",
     "mile": "mi mile miles", "ft": "ft foot feet", "inch": "inch inches", "yard": "yd yard yards"},
    {"euro": "eur euro euros €", "dollar": "usd dollar dollars $", "pound": "gbp quid £", "franc": "chf franc francs"},
    {"litre": "l litre litres liter liters", "ml": "ml millilitre millilitres", "gallon": "gallon gallons"},
)  # fmt: skip
_UNITS = {
    word: (kind, unit)
    for kind, units in enumerate(_KINDS_OF_UNITS)
    for unit, said in units.items()
    for word in said.split()
}
_BEHIND = re.compile(r"\s?([a-z]+|[€$£])", re.IGNORECASE)
_BEFORE = re.compile(r"[€$£](?=\s?$)")


@dataclass(frozen=True, slots=True)
class FoundNumber:
    start: int
    end: int
    value: float | int
    is_spoken: bool = False
    is_share: bool = False
    """`10%`."""
    grouped: int | None = None
    """The value of `1.234` if the point separates thousands."""
    unit: str = ""


def numbers_in(text: str) -> list[FoundNumber]:
    """Returns all numbers of a text in order, without parts of dates, versions, times and addresses."""
    found = [
        FoundNumber(
            match.start(),
            match.end(),
            _written(match),
            is_share=bool(_SHARE.match(text, match.end())),
            grouped=_grouped(match),
            unit=_unit_of(text, match.start(), match.end()),
        )
        for match in _DIGITS.finditer(text)
    ]
    for start, end, value in _spoken_in(text):
        if not any(each.start < end and start < each.end for each in found):  # `10 thousand` was read as digits
            found.append(FoundNumber(start, end, value, is_spoken=True, unit=_unit_of(text, start, end)))
    return sorted(found, key=lambda each: each.start)


def _written(match: re.Match[str]) -> float | int:
    digits, by = match["digits"], match["by"]
    part = match["part"] or match["rest"] or ""
    whole = digits.removesuffix(part) if part else digits
    if by == "." and whole.count(".") == 1 and not part:
        # `1.234` is a decimal in English; `1.234.567` can only be grouped
        part, whole = whole[whole.index(".") :], whole[: whole.index(".")]
    number = float(re.sub(r"[^0-9]", "", whole) + part.replace(",", "."))
    number *= _multiple(match["k"]) if match["k"] else 1
    number = -number if match["sign"] else number
    return int(number) if number.is_integer() else number


def _multiple(said: str) -> int:
    word = said.strip().casefold()
    return 1000 if word == "k" else _MULTIPLES[word]


def _grouped(match: re.Match[str]) -> int | None:
    digits = match["digits"]
    is_doubt = match["by"] == "." and digits.count(".") == 1 and not match["part"] and not digits.startswith("0")
    return int(digits.replace(".", "")) * (-1 if match["sign"] else 1) if is_doubt and not match["k"] else None


def _spoken_in(text: str) -> Iterator[tuple[int, int, int]]:
    """Yields start, end and value of each number in words. Words that form one number are yielded as one."""
    at = 0
    while found := _FIRST_WORD.search(text, at):
        word = found.group().casefold()
        value, at = NUMBER_WORDS[word] if word in NUMBER_WORDS else _OTHERS[word], found.end()
        done, last = 0, word
        while following := _NEXT_WORD.match(text, at):
            word = following["word"].casefold()
            if following["by"].strip().casefold() == "and" and last not in _MULTIPLES and not last.endswith("hundred"):
                break  # `five and ten` are two
            if word in _MULTIPLES and 0 < value < 1000:
                done, value = done + value * _MULTIPLES[word], 0
            elif word == "hundred" and 0 < value < 10:
                value *= 100
            elif word in NUMBER_WORDS and word != "hundred" and _may_follow(value, done, NUMBER_WORDS[word]):
                value += NUMBER_WORDS[word]
            else:
                break
            at, last = following.end(), word
        if not (text[at : at + 1] == "-" and text[at + 1 : at + 2].isalnum()):  # `two-factor` is not a number
            yield found.start(), at, done + value


def _may_follow(value: int, done: int, added: int) -> bool:
    """Accepts `twenty five`, `two hundred twelve`, `one thousand ten`, but not `five ten`."""
    if value == 0:
        return done > 0 and added > 0
    return 0 < added < 10 if value % 100 >= 20 and value % 10 == 0 else value % 100 == 0 and 0 < added < 100


def _unit_of(text: str, start: int, end: int) -> str:
    """Returns the unit word behind a number, or the sign before it; '' if there is neither."""
    behind = _BEHIND.match(text, end)
    if behind and behind[1].casefold() in _UNITS:
        return behind[1].casefold()
    before = _BEFORE.search(text[max(0, start - 2) : start + 1].rstrip("0123456789"))
    return before.group() if before else ""


def wanted_instead(field: FieldDefinition, unit: str) -> str:
    """Returns the unit that the field asks for (`Weight in kg`) if `unit` is another one of the same kind, else ''."""
    kind, meant = _UNITS.get(unit, (None, ""))
    own = {name for its_kind, name in _own_units(field) if its_kind == kind}
    return "" if not own or meant in own else sorted(own)[0]


@lru_cache(maxsize=4096)
def _own_units(field: FieldDefinition) -> frozenset[tuple[int, str]]:
    said = f"{field.name} {field.label} {field.prompt}".replace("_", " ")
    return frozenset(_UNITS[word] for word in (*words(said), *re.findall("[€$£]", said)) if word in _UNITS)
