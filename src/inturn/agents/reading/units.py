"""Units of measure behind a number. A field that names its own (`Weight in kg`) takes no number in another one."""

from __future__ import annotations

import re
from functools import lru_cache

from inturn.agents.offline.words import words
from inturn.workflows.definition.model import FieldDefinition

_KINDS = (
    {"kg": "kg kgs kilo kilos kilogram kilograms", "g": "g gram grams", "t": "ton tons tonne tonnes",
     "lb": "lb lbs pound pounds", "oz": "oz ounce ounces"},
    {"km": "km kilometre kilometres kilometer kilometers", "m": "m metre metres meter meters",
     "cm": "cm centimetre centimetres centimeter centimeters", "mm": "mm millimetre millimetres",
     "mile": "mi mile miles", "ft": "ft foot feet", "inch": "inch inches", "yard": "yd yard yards"},
    {"euro": "eur euro euros €", "dollar": "usd dollar dollars $", "pound": "gbp quid £", "franc": "chf franc francs"},
    {"litre": "l litre litres liter liters", "ml": "ml millilitre millilitres", "gallon": "gallon gallons"},
)  # fmt: skip
_UNITS = {
    word: (kind, unit) for kind, units in enumerate(_KINDS) for unit, said in units.items() for word in said.split()
}
SHORT = "kgs?|g|lbs?|oz|km|cm|mm|mi|ft|eur|usd|gbp|chf|ml"
"""What people write without a blank behind a number. `10m` is left out: it may be metres, minutes or millions."""
_BEHIND = re.compile(r"\s?([a-z]+|[€$£])", re.IGNORECASE)
_BEFORE = re.compile(r"[€$£](?=\s?$)")


def unit_of(text: str, start: int, end: int) -> str:
    """The word of the unit that stands behind a number, or the sign before it; '' if there is none."""
    behind = _BEHIND.match(text, end)
    if behind and behind[1].casefold() in _UNITS:
        return behind[1].casefold()
    before = _BEFORE.search(text[max(0, start - 2) : start + 1].rstrip("0123456789"))
    return before.group() if before else ""


def wanted_instead(field: FieldDefinition, unit: str) -> str:
    """The unit that a field asks for, if it asks for another one of the same kind."""
    kind, meant = _UNITS.get(unit, (None, ""))
    own = {name for its_kind, name in _own(field) if its_kind == kind}
    return "" if not own or meant in own else sorted(own)[0]


@lru_cache(maxsize=4096)
def _own(field: FieldDefinition) -> frozenset[tuple[int, str]]:
    said = f"{field.name} {field.label} {field.prompt}".replace("_", " ")
    return frozenset(_UNITS[word] for word in (*words(said), *re.findall("[€$£]", said)) if word in _UNITS)
