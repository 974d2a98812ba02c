"""A fuzzer of normalising and parsing: realistic activities, changed at random.

`python -m tests.workflows.fuzz_parse --help`.

Every round is made of its seed alone, so that a failure is found again by `--seed N --rounds 1`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import traceback
from typing import Any

from inturn.agents.activity import CARD
from tests.workflows.sound import must_be_sound

REALISTIC: list[list[dict[str, Any]]] = [
    [
        {"type": "typing", "from": {"role": "bot"}, "text": "Tha"},
        {
            "type": "message", "id": "7f3a", "from": {"id": "bot-1", "role": "bot"},
            "text": "Thanks, Ada. And your e-mail?",
            "value": {"data": {"name": "Ada"}, "nextAction": "ask", "prompt": "And your e-mail?", "inputType": "email"},
            "suggestedActions": {"actions": [{"type": "imBack", "title": "Skip", "value": "skip"}]},
        },
    ],
    [
        {
            "type": "message", "from": {"role": "bot"}, "text": "According to the handbook [1], yes.",
            "entities": [
                {
                    "type": "https://schema.org/Message", "@type": "Message",
                    "citation": [{"@id": 1, "appearance": {"name": "Handbook", "url": "https://example.org/h#1"}}],
                },
                {"type": "streaminfo", "streamType": "final", "streamId": "s1"},
                {"type": "fields", "product": "API", "affected_users": 12},
            ],
        },
    ],
    [
        {
            "type": "message", "from": {"role": "bot"}, "text": "",
            "attachments": [
                {
                    "contentType": CARD,
                    "content": {
                        "type": "AdaptiveCard", "version": "1.5", "id": "form",
                        "body": [{"type": "Input.Text", "id": "name"}, {"type": "Input.Date", "id": "since"}],
                        "actions": [{"type": "Action.Submit", "title": "Send", "data": {"cardId": "form"}}],
                    },
                }
            ],
        },
        {
            "type": "message", "from": {"role": "bot"},
            "text": 'Noted.\n```json\n{"data": {"count": 3, "tags": ["a"]}, "nextAction": "confirm"}\n```\nAll right?',
        },
    ],
    [
        {"type": "message", "from": {"role": "bot"}, "text": 'So {you} said {"email": "ada@example.org", "ok": true}.'},
        {"type": "event", "name": "trace", "value": {"a": 1}},
        {"type": "endOfConversation", "code": "completedSuccessfully"},
    ],
    [
        {
            "type": "message", "from": {"role": "bot"},
            "text": '{"reply": "ok", "previous": {"data": {"name": "Bob"}}, "data": {"name": "Ada"}}',
        },
    ],
]  # fmt: skip


class _Odd:
    """What a client library may hand over instead of JSON."""


SCALARS: list[Any] = [
    None, True, False, 0, -1, 2**31, 2**53 + 1, 2**63, -(2**64), 10**5000, 1.5, float("nan"), float("inf"), -0.0, 1e308,
    "", " ", "x", "\x00", "\ud83d", "a\udc00b", "😀" * 50, "漢" * 9000, "x" * 70_000, "{" * 300, "[" * 5000,
    '{"a":' * 200, "```json\n", "```", '{"a": 1}', '{"n": 1' + "0" * 5000 + "}", '{"x": NaN}', "NaN", "message", "user",
    CARD, b"bytes", b"\xff", [], {}, (), [[]], [None], {"": ""}, {"type": []}, {None: 1}, {7: {8: 9}}, {"a": {"b": {}}},
    frozenset({1}), _Odd(), _Odd,
]  # fmt: skip


def nested(chance: random.Random) -> Any:
    value: Any = chance.choice(SCALARS)
    for _ in range(chance.choice((3, 30, 300))):
        value = [value] if chance.random() < 0.5 else {"a": value}
    return value


def anything(chance: random.Random) -> Any:
    kind = chance.randrange(8)
    if kind < 5:
        return chance.choice(SCALARS)
    if kind == 5:
        return nested(chance)
    if kind == 6:
        return [chance.choice(SCALARS) for _ in range(chance.choice((1, 3, 100, 3000)))]
    names = (
        chance.choice(["a", "type", "data", "citation", "nextAction", "errors", "id", "", 7, None]) for _ in range(4)
    )
    return {name: chance.choice(SCALARS) for name in names}


def changed(value: Any, chance: random.Random, how_often: float) -> Any:
    """The same, with a few of its parts changed, dropped, repeated or made something else."""
    if chance.random() < how_often:
        return anything(chance)
    if isinstance(value, dict):
        made = {}
        for name, inner in value.items():
            if chance.random() < how_often / 2:
                continue
            other = (
                name
                if chance.random() > how_often / 2
                else chance.choice(["type", "value", "entities", "data", 7, name * 2])
            )
            made[other] = changed(inner, chance, how_often)
        return made
    if isinstance(value, list):
        times = chance.choice((0, 2, 40)) if chance.random() < how_often / 2 else 1
        return [changed(inner, chance, how_often) for inner in value for _ in range(times)]
    if isinstance(value, str) and value and chance.random() < how_often:
        at = chance.randrange(len(value))
        cut = (
            value[:at]
            + chance.choice(["", "{", "}", '"', "\\", "```", "\n", "\ud83d", value])
            + value[at + chance.randrange(2) :]
        )
        return cut * chance.choice((1, 1, 1, 500))
    return value


def make(seed: int) -> list[Any]:
    chance = random.Random(seed)
    begun = json.loads(json.dumps(chance.choice(REALISTIC)))
    if chance.random() < 0.3:
        begun += json.loads(json.dumps(chance.choice(REALISTIC)))
    made = changed(begun, chance, chance.choice((0.01, 0.05, 0.2)))
    return made if isinstance(made, list) else [made]


def fuzz(seed: int, seconds: float, rounds: int | None = None) -> tuple[int, int | None]:
    """How many rounds went well, and the seed of the first that did not."""
    ends_at = time.monotonic() + seconds
    done = 0
    while (time.monotonic() < ends_at) if rounds is None else done < rounds:
        try:
            must_be_sound(make(seed + done))
        except Exception:  # noqa: BLE001 - whatever it raises is what we look for
            traceback.print_exc()
            return done, seed + done
        done += 1
    return done, None


def main(arguments: list[str] | None = None) -> int:
    reader = argparse.ArgumentParser(prog="python -m tests.workflows.fuzz_parse", description=__doc__)
    reader.add_argument("--seconds", type=float, default=10.0)
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--rounds", type=int, default=None, help="so many, rather than for a time")
    asked = reader.parse_args(arguments)
    done, failed = fuzz(asked.seed, asked.seconds, asked.rounds)
    if failed is not None:
        print(
            f"seed {failed} fails, after {done} rounds: python -m tests.workflows.fuzz_parse --seed {failed} --rounds 1"
        )
        return 1
    print(f"{done} rounds from seed {asked.seed}: nothing raised, everything was sound")
    return 0


if __name__ == "__main__":
    sys.exit(main())
