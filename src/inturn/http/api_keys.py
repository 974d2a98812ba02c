"""API keys, each bound to a user of a tenant. Only their digests are kept, and no error message ever shows one."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from inturn.errors import SettingsError
from inturn.http.caller import Caller, is_tenant_id
from inturn.settings import Settings

MIN_LENGTH = 16
_KEY = re.compile(r"[!-~]+")
_USER = re.compile(r"[A-Za-z0-9_.@+-]{1,128}")

Entry = tuple[str, list[str]]
"""Where it stands, and its key, user and tenant."""


class ApiKeys:
    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        """Raises a `SettingsError` that names every wrong entry."""
        self._callers: dict[bytes, Caller] = {}
        wrong = [f"{where}: {why}" for where, parts in entries if (why := self._add(parts))]
        if wrong:
            raise SettingsError("\n".join(wrong))

    def __len__(self) -> int:
        return len(self._callers)

    def caller(self, key: str) -> Caller | None:
        """Compares with every key, even after a match, so that the time it takes reveals nothing."""
        given, found = _digest(key), None
        for digest, caller in self._callers.items():
            if hmac.compare_digest(digest, given):
                found = caller
        return found

    def _add(self, parts: list[str]) -> str:
        if len(parts) != 3:
            return f"must have a key, a user and a tenant; it has {len(parts)} part{'s' if len(parts) != 1 else ''}"
        key, user, tenant = parts
        if len(key) < MIN_LENGTH or not _KEY.fullmatch(key):
            return f"the key must have at least {MIN_LENGTH} printable ASCII characters"
        if not _USER.fullmatch(user):
            return "the user must have 1 to 128 letters, digits or any of _ . @ + -"
        if not tenant or not is_tenant_id(tenant):  # a key must have one
            return "the tenant must have 1 to 64 letters, digits or any of _ . -"
        if _digest(key) in self._callers:
            return "the key is already listed above"
        self._callers[_digest(key)] = Caller(user, tenant)
        return ""


def load_keys(settings: Settings) -> ApiKeys:
    """Reads the file and the environment, both if both are set. Raises `SettingsError`."""
    entries: list[Entry] = []
    if settings.api_keys_file is not None:
        entries += _of_file(Path(settings.api_keys_file))
    if settings.api_keys is not None:
        entries += _of_environment(settings.api_keys.get_secret_value())
    return ApiKeys(entries)


def _of_file(path: Path) -> list[Entry]:
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: the file of API keys is not UTF-8") from error
    except OSError as error:
        raise SettingsError(f"{path}: the file of API keys cannot be read: {error.strerror}") from error
    found = [
        (f"{path}:{number}", line.split())
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not found:  # naming a file means that callers need keys
        raise SettingsError(f"{path}: the file has no API keys; add a line with: key user tenant")
    return found


def _of_environment(value: str) -> Iterator[Entry]:
    for number, entry in enumerate(value.split(","), 1):
        yield f"INTURN_API_KEYS: entry {number}", entry.strip().split(":")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
