"""Finds the answer to a question among the definition's own texts, by the words that they share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from inturn.agents.offline.words import stems, words

_ORDERS = re.compile(
    r"(?:you|always|never|be|do|don't|answer|use|keep|reply|respond|act|if|speak|write|refuse|avoid)\b", re.IGNORECASE
)
_ABOUT = re.compile(
    r"\b(?:who|what) (?:are|is) (?:you|this)\b|\bwhat (?:do|can) you do\b|\bhow does this work\b", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def name_of(topic: str) -> str:
    """A topic may be several phrases with commas between them; the first one is its name."""
    return topic.partition(",")[0].strip()


def answer_to(question: str, answers: Mapping[str, str], about: str = "", *, share: float = 0.0) -> str | None:
    """The text of the topic that the question is about; `None` if no topic is, or only a small share of its words."""
    scored = [(_score(question, topic, text), text) for topic, text in answers.items()]
    best, text = max(scored, key=lambda pair: pair[0], default=(0.0, ""))
    if best >= max(1.0, share * len(stems(question))):
        return text
    return about or None if _ABOUT.search(question) else None


def fact_for(question: str, instructions: str) -> str | None:
    """A sentence of the owner's instructions that tells something. What orders the agent about is never repeated."""
    asked = stems(question)
    best, fact = 1, None
    for sentence in _facts(instructions):
        shared = len(asked & stems(sentence))
        if shared > best or (shared == best == len(asked)):
            best, fact = shared, sentence
    return fact


def _facts(instructions: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(instructions[:20_000]):
        if sentence.strip() and not _ORDERS.match(sentence.strip(" -*")):
            yield sentence.strip(" -*")


def _score(question: str, topic: str, text: str) -> float:
    """A phrase of the topic in the question counts most, then its words, then, a little, the words of the text."""
    said = words(question)[:200]
    score = 0.0
    own, asked = stems(topic), stems(" ".join(said))
    for phrase in (words(part) for part in topic.split(",")):
        # `what do you do` is the whole question, or says nothing: `what do you do with my data` is about data
        tells = not asked or bool(stems(" ".join(phrase)))
        if tells and len(phrase) >= 2 and any(said[at : at + len(phrase)] == phrase for at in range(len(said))):
            score += 2.0
    score += 1.0 * len(asked & own)
    if score == 0:
        score += sum(
            1.0 for word in list(asked)[:20] if len(word) >= 5 and get_close_matches(word, own, n=1, cutoff=0.85)
        )
    in_text = len((asked - own) & stems(text))
    return score + (0.4 * in_text if score or in_text * 2 >= len(asked) else 0.0)
