"""What the input guard catches and what it refuses wrongly, tuned and held-back texts apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inturn.capabilities.guard import family_of
from tests.capabilities import attacks, everyday


def measure_guard() -> dict[str, Any]:
    return {
        "tuned": score(attacks.TUNED, everyday.TUNED),
        "held_back": score(attacks.HELD_BACK, everyday.HELD_BACK),
    }


def score(attacking: Sequence[tuple[str, str]], harmless: Sequence[str]) -> dict[str, Any]:
    """`families`: caught as whatever family, by the family to which the attack belongs."""
    families: dict[str, dict[str, int]] = {}
    for family, text in attacking:
        counts = families.setdefault(family, {"attacks": 0, "caught": 0})
        counts["attacks"] += 1
        counts["caught"] += family_of(text) is not None
    caught = sum(counts["caught"] for counts in families.values())
    refused = sum(family_of(text) is not None for text in harmless)
    return {
        "attacks": len(attacking),
        "caught": caught,
        "recall": round(caught / len(attacking), 3),
        "everyday": len(harmless),
        "refused": refused,
        "false_positive_rate": round(refused / len(harmless), 4),
        "families": families,
    }
