"""Free chat: answers from the owner's instructions and the definition's own texts, and from nothing else."""

from __future__ import annotations

from inturn.agents.protocol import Ask
from inturn.agents.offline.agent import small_talk as leads
from inturn.agents.offline.free_chat import answer_to, fact_for, name_of
from inturn.agents.offline.words import quoted, tidy, words
from inturn.agents.offline.agent import wording
from inturn.agents.replying.reply import Reply
from inturn.workflows.definition.model import WorkflowDefinition


def chat(ask: Ask, definition: WorkflowDefinition) -> Reply:
    text = tidy(ask.text)
    is_first = not any(said.role == "assistant" for said in ask.history)
    suggested = [name_of(topic) for topic in definition.answers]
    if ask.card is not None:
        return Reply("I cannot do anything with a form here. What can I tell you?", suggested=suggested)
    if not words(text) or leads.is_greeting(text):
        return Reply(_greeting(definition) if is_first else "How can I help you?", suggested=suggested)
    if leads.is_thanks(text):
        return Reply("You are welcome.")
    question = leads.without_greeting(text)
    if leads.command(question) == "help":
        known = definition.about or definition.welcome
        return Reply(" ".join(part for part in (known, wording.topics(definition)) if part), suggested=suggested)
    answer = fact_for(question, ask.instructions) or answer_to(question, definition.answers, definition.about)
    if answer is not None:
        hello = "Hello! " if is_first and question != text else ""
        return Reply(hello + answer)
    sorry = f"I have no answer to {quoted(question)}."
    return Reply(" ".join(part for part in (sorry, wording.topics(definition)) if part), suggested=suggested)


def _greeting(definition: WorkflowDefinition) -> str:
    return " ".join(part for part in (definition.welcome or "Hello!", wording.topics(definition)) if part)
