"""How bodies, states, results and chunks become JSON text and back, within limits.

A body or a state is a pydantic model, a dataclass, or plain JSON (`dict`, `list`). What cannot be written is refused
before anything is sent. A state is stored as `<version> <json>`, where the version counts its commits. A stored state
that no longer fits its type is never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, from_json, to_json

from inturn.errors import ArgumentTypeError, BadMessage, TooLarge

MAX_BODY = 256 * 1024
MAX_STATE = 1024 * 1024
MAX_RESULT = 256 * 1024
MAX_CHUNK = 64 * 1024

_PLAIN = (dict, list)


def write_json(value: Any, what: str, limit: int) -> bytes:
    try:
        written = to_json(value)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise BadMessage(f"{what} cannot be written as JSON: {error}") from error
    if len(written) > limit:
        raise TooLarge(what, len(written), limit)
    return written


read_json = from_json
"""The way back from `write_json`."""


class Shape:
    """How values of one type are read and written."""

    def __init__(self, kind: Any, field: str) -> None:
        self.kind = kind
        self._field = field
        self._adapter: TypeAdapter[Any] | None = None
        if kind not in _PLAIN:
            try:
                self._adapter = TypeAdapter(kind)
            except (PydanticUserError, KeyError, TypeError) as error:
                problem = f"must be a pydantic model, a dataclass, dict or list: {error}"
                raise ArgumentTypeError(field, problem, kind) from error

    def fields(self) -> set[str] | None:
        """The names of a value's fields; `None` if they are not known beforehand."""
        model_fields = getattr(self.kind, "model_fields", None) or getattr(self.kind, "__dataclass_fields__", None)
        return set(model_fields) if isinstance(model_fields, dict) else None

    def read(self, written: bytes) -> Any:
        """Raises `ValueError` if the text does not fit the type."""
        if self._adapter is not None:
            return self._adapter.validate_json(written)
        value = read_json(written)
        if not isinstance(value, self.kind):
            raise ValueError(f"expected a {self.kind.__name__}, got a {type(value).__name__}")
        return value

    def write(self, value: Any, what: str, limit: int) -> bytes:
        if self._adapter is None:
            if not isinstance(value, self.kind):
                declared = f"{self._field}={self.kind.__name__}"
                raise BadMessage(f"{what} is a {type(value).__name__}, but it was declared with {declared}")
            return write_json(value, what, limit)
        try:
            # validated first: what could not be read back must not be written
            written = self._adapter.dump_json(self._adapter.validate_python(value), warnings="error")
        except (ValidationError, PydanticSerializationError) as error:
            raise BadMessage(f"{what} does not fit {self._field}={self.kind!r}: {why_not(error)}") from error
        if len(written) > limit:
            raise TooLarge(what, len(written), limit)
        return written


class NewerState(ValueError):
    """A newer version of the code wrote the state. It is not read, even if it would happen to fit."""

    def __init__(self, needs: int, have: int) -> None:
        super().__init__(f"version {needs} of the handler wrote it, but this is version {have}")
        self.needs = needs


class StateShape(Shape):
    """The state of a lane, and how it begins."""

    def __init__(self, kind: Any, initial: Callable[[], Any] | None = None) -> None:
        super().__init__(kind, "state")
        self._initial: Callable[[], Any] = initial or kind
        try:
            self._initial()
        except Exception as error:
            problem = f"cannot be made without arguments ({error}); give initial=, a function that makes it"
            raise ArgumentTypeError("state", problem, kind) from error

    def load(self, stored: bytes | None, code: int = 1) -> tuple[Any, int]:
        """Returns the state and its version, for this version of the code.

        Raises `ValueError` if it does not fit, whatever the type's own code raises.
        """
        if stored is None:
            return self._initial(), 0
        version, _, written = stored.partition(b" ")
        number, _, written_by = version.partition(b"@")
        if written_by and int(written_by) > code:
            raise NewerState(int(written_by), code)
        try:
            return self.read(written), int(number)
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def save(self, state: Any, version: int, code: int = 1) -> bytes:
        written_by = b"@%d" % code if code > 1 else b""
        return b"%d%b " % (version + 1, written_by) + self.write(state, "the state", MAX_STATE)


def why_not(error: Exception) -> str:
    """Why a value did not fit, in one line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}" if where else str(first["msg"])
    return str(error)
