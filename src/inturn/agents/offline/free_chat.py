"""Free chat: answers come from the owner's instructions and the definition's own texts, and from nowhere else.

A text answers a question by the words that both share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from inturn.agents.offline import reply, small_talk
from inturn.agents.offline.reply import Reply, name_of
from inturn.agents.offline.words import quoted, stems, tidy, words
from inturn.agents.protocol import Ask
from inturn.workflows.definition.model import WorkflowDefinition

_ORDERS = re.compile(
    r"(?:you|always|never|be|do|don't|answer|use|keep|reply|respond|act|if|speak|write|refuse|avoid)\b", re.IGNORECASE
)
_ABOUT = re.compile(
    r"\b(?:who|what) (?:are|is) (?:you|this)\b|\bwhat (?:do|can) you do\b|\bhow does this work\b", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def chat(ask: Ask, definition: WorkflowDefinition) -> Reply:
    text = tidy(ask.text)
    is_first = not any(said.role == "assistant" for said in ask.history)
    suggested = [name_of(topic) for topic in definition.answers]
    if ask.card is not None:
        return Reply("I cannot do anything with a form here. What can I tell you?", suggested=suggested)
    if not words(text) or small_talk.is_greeting(text):
        return Reply(_greeting(definition) if is_first else "How can I help you?", suggested=suggested)
    if small_talk.is_thanks(text):
        return Reply("You are welcome.")
    question = small_talk.without_greeting(text)
    if small_talk.command(question) == "help":
        known = definition.about or definition.welcome
        return Reply(" ".join(part for part in (known, reply.topics(definition)) if part), suggested=suggested)
    answer = fact_for(question, ask.instructions) or answer_to(question, definition.answers, definition.about)
    if answer is not None:
        hello = "Hello! " if is_first and question != text else ""
        return Reply(hello + answer)
    sorry = f"I have no answer to {quoted(question)}."
    return Reply(" ".join(part for part in (sorry, reply.topics(definition)) if part), suggested=suggested)


def _greeting(definition: WorkflowDefinition) -> str:
    return " ".join(part for part in (definition.welcome or "Hello!", reply.topics(definition)) if part)


def answer_to(question: str, answers: Mapping[str, str], about: str = "", *, share: float = 0.0) -> str | None:
    """Returns the text of the topic that the question is about, or `None`.

    `share`: how much of the question's words must match.
    """
    scored = [(_score(question, topic, text), text) for topic, text in answers.items()]
    best, text = max(scored, key=lambda pair: pair[0], default=(0.0, ""))
    if best >= max(1.0, share * len(stems(question))):
        return text
    return about or None if _ABOUT.search(question) else None


def fact_for(question: str, instructions: str) -> str | None:
    """Returns a sentence of the owner's instructions that states a fact. Orders to the agent are never repeated."""
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
    """A phrase of the topic counts most, then the topic's words, then, a little, the words of its text."""
    said = words(question)[:200]
    score = 0.0
    own, asked = stems(topic), stems(" ".join(said))
    for phrase in (words(part) for part in topic.split(",")):
        # `what do you do` counts only as the whole question: `what do you do with my data` is about data
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
