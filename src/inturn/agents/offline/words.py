"""The words of a text: tidied, cut into sentences and clauses, reduced to stems; and its e-mail addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_READ = 8000
"""How many characters of a message are read. No field takes more."""

_SAME = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"', "‐": "-", "‑": "-", "−": "-", "\xa0": " "})  # noqa: RUF001
_BLANKS = re.compile(r"[^\S\n]+")
_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_BREAK = re.compile(r"(?<=[.!?;])(?<!\b[DMS]r\.)(?<!\bM[rs]s\.)(?<!\bMs\.)(?<!\bProf\.)\s+|\s*\n\s*")
_CLAUSE = re.compile(
    r"(?<!\d),\s+|,\s+(?!\d)|(?<!\d),?\s+and\s+(?:also\s+)?|,?\s+and\s+(?:also\s+)?(?!\d)|"
    r",?\s+(?:but|plus|also)\s+(?:also\s+)?|\s+[-–]\s+",  # noqa: RUF001
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\bbetween\s\S{1,20}$", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")

STOP = frozenset([
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "could", "did", "do", "does", "doing", "for", "from", "get", "give", "had", "has", "have", "he", "her", "here",
    "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "like", "me", "my", "no", "not", "of",
    "on", "one", "only", "or", "our", "please", "she", "should", "so", "some", "tell", "than", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "those", "to", "too", "up", "us", "very", "was", "we", "were",
    "what", "when", "where", "which", "who", "whom", "whose", "why", "will", "with", "would", "yes", "you", "your",
    "hi", "hello", "hey", "thanks", "thank", "ok", "okay", "really", "want", "need", "know", "i'm", "i'd", "i've",
    "i'll", "it's", "that's", "what's", "don't", "can't", "won't", "you're", "we're", "there's", "isn't", "doesn't",
    "didn't", "happen", "happens",
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the message, with its position."""

    text: str
    start: int
    end: int


def tidy(text: str) -> str:
    """Uses one kind of quotes and blanks, and replaces what cannot be encoded."""
    text = text[:MAX_READ].encode("utf-8", "replace").decode("utf-8").translate(_SAME)
    return _BLANKS.sub(" ", _CONTROLS.sub(" ", text.replace("\r", "\n"))).strip()


def sentences(text: str) -> list[Span]:
    return _cut(Span(text, 0, len(text)), _BREAK)


def clauses(sentence: Span) -> list[Span]:
    """Splits at commas, `and` and `but`, except at the comma of `30, 2026` and the `and` of `5 and 10`."""
    return _cut(sentence, _CLAUSE)


def _cut(whole: Span, at: re.Pattern[str]) -> list[Span]:
    parts, begin = [], 0
    for found in at.finditer(whole.text):
        if _BETWEEN.search(whole.text[max(0, found.start() - 40) : found.start()]):
            continue
        parts.append((begin, found.start()))
        begin = found.end()
    parts.append((begin, len(whole.text)))
    return [
        Span(whole.text[start:end], whole.start + start, whole.start + end)
        for start, end in parts
        if whole.text[start:end].strip()
    ]


def words(text: str) -> list[str]:
    return [found.replace("e-mail", "email") for found in _WORD.findall(text.casefold())]


def stem(word: str) -> str:
    """Good enough to match `affects`, `affected` and `affecting`."""
    word = word.removesuffix("'s")
    for ending in ("ing", "ies", "ed", "es", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def stems(text: str) -> set[str]:
    """Returns the stems of the words that say what the text is about, without the small ones."""
    return {stem(word) for word in words(text) if word not in STOP}


def quoted(text: str) -> str:
    """Quotes the user's words in our answer, shortened."""
    line = " ".join(text.split()).rstrip(".")
    return f"“{line if len(line) <= 60 else line[:57] + '…'}”"


# Every part has a maximum length, so no text makes the search slow.
_ADDRESS = re.compile(
    r"""(?<![\w.+-])(?:mailto:)?(?P<address>[^\s@<>()\[\],;:"“”]{1,64}@[^\W_](?:[\w-]{0,62})(?:\.[^\W_][\w-]{0,62}){1,8})"""
)


def emails_in(text: str) -> list[Span]:
    return [
        Span(match["address"].lstrip("'*_`"), match.start(), match.end())
        for match in _ADDRESS.finditer(text)
        if len(match["address"]) <= 254
    ]
