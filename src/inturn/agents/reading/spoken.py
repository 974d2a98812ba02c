"""Numbers in words: `twelve`, `a dozen`, `two hundred and fifty`, `ten thousand`."""

from __future__ import annotations

import re
from collections.abc import Iterator

WORDS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100,
}  # fmt: skip
_TIMES = {"thousand": 1000, "grand": 1000, "million": 1_000_000}
_OTHERS = {
    "a dozen": 12, "dozen": 12, "half a dozen": 6, "a hundred": 100, "a thousand": 1000, "a million": 1_000_000,
    "nobody": 0, "no one": 0, "none": 0, "just me": 1, "only me": 1, "myself": 1,
}  # fmt: skip
_ONE = re.compile(
    rf"(?<![\w@-])(?:{'|'.join(sorted([*WORDS, *_OTHERS], key=len, reverse=True))})(?![\w@])", re.IGNORECASE
)
_NEXT = re.compile(rf"(?P<by>[\s-]|\sand\s)(?P<word>{'|'.join([*WORDS, *_TIMES])})(?![\w@])", re.IGNORECASE)


def spoken_in(text: str) -> Iterator[tuple[int, int, int]]:
    """Start, end and value of each number; words that make one number are one."""
    at = 0
    while found := _ONE.search(text, at):
        word = found.group().casefold()
        value, at = WORDS[word] if word in WORDS else _OTHERS[word], found.end()
        done, last = 0, word
        while following := _NEXT.match(text, at):
            word = following["word"].casefold()
            if following["by"].strip().casefold() == "and" and last not in _TIMES and not last.endswith("hundred"):
                break  # `five and ten` are two
            if word in _TIMES and 0 < value < 1000:
                done, value = done + value * _TIMES[word], 0
            elif word == "hundred" and 0 < value < 10:
                value *= 100
            elif word in WORDS and word != "hundred" and _may_follow(value, done, WORDS[word]):
                value += WORDS[word]
            else:
                break
            at, last = following.end(), word
        if not (text[at : at + 1] == "-" and text[at + 1 : at + 2].isalnum()):  # `two-factor` is no number
            yield found.start(), at, done + value


def _may_follow(value: int, done: int, added: int) -> bool:
    """`twenty five`, `two hundred twelve`, `one thousand ten`; and not `five ten`."""
    if value == 0:
        return done > 0 and added > 0
    return 0 < added < 10 if value % 100 >= 20 and value % 10 == 0 else value % 100 == 0 and 0 < added < 100
