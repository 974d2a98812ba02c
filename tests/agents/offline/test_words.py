"""E-mail addresses among the words of a text."""

from __future__ import annotations

from inturn.agents.offline.words import emails_in


def test_e_mail_addresses_are_found_among_words() -> None:
    text = "write to <ada@example.com>, or mailto:bob.o'neil+x@mail.example.co.uk. Not foo@bar."
    assert [each.text for each in emails_in(text)] == ["ada@example.com", "bob.o'neil+x@mail.example.co.uk"]
