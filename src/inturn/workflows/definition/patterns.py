"""Regular expressions that match in linear time, whatever the pattern: one that backtracks could stop a server.

The engine is pydantic's. It has no look-around and no back references; patterns with these are refused.
"""

from __future__ import annotations

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema


class BadPattern(ValueError):
    """Not a regular expression that this engine takes."""


@lru_cache(64)
def compiled(pattern: str) -> SchemaValidator:
    """Returns a validator whose `isinstance_python(text)` says whether the pattern is found anywhere in the text.

    Raises `BadPattern`.
    """
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))
    except (SchemaError, ValueError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = next((line for line in lines if line.startswith("error:")), lines[-1] if lines else "")
        raise BadPattern(told.removeprefix("error: ").removeprefix("SchemaError: ")) from None


def of_whole(pattern: str) -> SchemaValidator:
    """Does the same for the whole text. The pattern must be valid alone: `a)(b` would become valid in here."""
    return compiled(rf"\A(?:{pattern})\z")
