"""A message says which agent made it."""

from __future__ import annotations

from inturn.agents import Activity
from inturn.agents.signature import AGENT, signature_of, signed


def test_a_message_is_signed_and_keeps_its_entities() -> None:
    made = Activity.said("a", entities=[{"type": "t"}])
    message = signed(made, "openai")
    assert message.entities == [{"type": "t"}, {"type": AGENT, "name": "openai"}]
    assert signature_of(message) == "openai"
    assert made.entities == [{"type": "t"}]


def test_the_first_signature_stays() -> None:
    assert signature_of(signed(signed(Activity.said("a"), "inner"), "outer")) == "inner"


def test_pieces_are_not_signed() -> None:
    assert signature_of(signed(Activity.piece("a"), "openai")) is None


def test_an_odd_signature_is_none() -> None:
    assert signature_of(Activity.said("a", entities=[{"type": AGENT}, {"type": AGENT, "name": 5}])) is None
