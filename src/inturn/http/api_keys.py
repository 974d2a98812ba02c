"""API keys, each bound to a user of a tenant, and the keys of services. Only their digests are kept, and no error
message ever shows one.

A server reads their file again when it changes, so that adding or withdrawing a key needs no restart.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from inturn.errors import SettingsError
from inturn.http.caller import LOCAL, SERVICE, Caller, is_tenant_id
from inturn.settings import Settings
from inturn.store import clock

log = logging.getLogger("inturn.http")

MIN_LENGTH = 16
ADMIN = "admin"
"""The one role that a key can have."""
LOOK_S = 1.0
"""How often the file is looked at."""
_KEY = re.compile(r"[!-~]+")
_NO_KEY = f"the key must have at least {MIN_LENGTH} printable ASCII characters"
_USER = re.compile(r"[A-Za-z0-9_.@+-]{1,128}")

Entry = tuple[str, list[str]]
"""Where it stands, and its key, user, tenant and perhaps role. The key of a service stands alone."""


class ApiKeys:
    def __init__(self, entries: Iterable[Entry] = (), services: Iterable[Entry] = ()) -> None:
        """Raises a `SettingsError` that names every wrong entry."""
        self._callers: dict[bytes, Caller] = {}
        wrong = [f"{where}: {why}" for where, parts in services if (why := self._add_service(*parts))]
        self.services = len(self._callers)
        wrong += [f"{where}: {why}" for where, parts in entries if (why := self._add(parts))]
        if wrong:
            raise SettingsError("\n".join(wrong))

    def __len__(self) -> int:
        """How many keys users have."""
        return len(self._callers) - self.services

    def caller(self, key: str) -> Caller | None:
        """Compares with every key, even after a match, so that the time it takes reveals nothing."""
        given, found = _digest(key), None
        for digest, caller in self._callers.items():
            if hmac.compare_digest(digest, given):
                found = caller
        return found

    def _add_service(self, key: str) -> str:
        if not _is_key(key):
            return _NO_KEY
        if _digest(key) in self._callers:
            return "the key is already listed above"
        self._callers[_digest(key)] = SERVICE
        return ""

    def _add(self, parts: list[str]) -> str:
        if len(parts) not in (3, 4):
            told = f"it has {len(parts)} part{'s' if len(parts) != 1 else ''}"
            return f"must have a key, a user and a tenant, and may have the role {ADMIN} after them; {told}"
        key, user, tenant, *roles = parts
        if not _is_key(key):
            return _NO_KEY
        if not _USER.fullmatch(user):
            return "the user must have 1 to 128 letters, digits or any of _ . @ + -"
        if not tenant or not is_tenant_id(tenant):  # a key must have one
            return "the tenant must have 1 to 64 letters, digits or any of _ . -"
        if tenant == LOCAL.tenant_id:
            return f"the tenant {tenant!r} is the one of servers without API keys; name another"
        if roles not in ([], [ADMIN]):  # it is not shown: it may be a key in the wrong place
            return f"the fourth word is a role, and {ADMIN} is the only one"
        same = self._callers.get(_digest(key))
        if same is not None:
            return (
                "the key is a service key too; make another" if same == SERVICE else "the key is already listed above"
            )
        self._callers[_digest(key)] = Caller(user, tenant, is_admin=bool(roles))
        return ""


class CurrentKeys:
    """The keys of the settings, as they are now. While the file cannot be used, the keys of before count. A file that
    can be read and names no key withdraws all that it had.
    """

    def __init__(self, settings: Settings) -> None:
        """Raises `SettingsError`."""
        self._settings = settings
        self._path = Path(settings.api_keys_file) if settings.api_keys_file is not None else None
        self._version: tuple[int, ...] | None = self._look()
        """Of the keys that count. `None` if the file must be read again, changed or not."""
        self._problem = ""
        self._looks_at = clock.now() + LOOK_S
        self._keys = load_keys(settings)
        self._changed = asyncio.Event()
        """Set when other keys count; then there is a new one."""
        self.are_needed = len(self._keys) > 0 or self._keys.services > 0
        """It stays so when every key has been withdrawn: a server with keys never becomes one without."""

    def __len__(self) -> int:
        """How many keys users have."""
        return len(self._keys)

    @property
    def services(self) -> int:
        """How many keys services have."""
        return self._keys.services

    def caller(self, key: str) -> Caller | None:
        self._look_again()
        return self._keys.caller(key)

    async def watch(self) -> None:
        """Looks at the file until it is cancelled. Without it, only requests do."""
        while self._path is not None:
            await asyncio.sleep(LOOK_S)
            self._look_again()

    async def withdrawn(self, key: str, caller: Caller) -> None:
        """Returns when the key no longer belongs to the caller, or has another role."""
        while self._keys.caller(key) == caller:
            await self._changed.wait()

    def _look_again(self) -> None:
        if self._path is not None and clock.now() >= self._looks_at:
            self._looks_at = clock.now() + LOOK_S
            self._read_again()

    def _read_again(self) -> None:
        version = self._look()
        if version == self._version:
            return
        self._version = version  # before it is read: what is written meanwhile is another change
        try:
            self._keys = load_keys(self._settings, may_be_empty=True)
        except SettingsError as error:
            self._version = None  # it may have been a failure of a moment, and a key may have been withdrawn
            if str(error) != self._problem:
                log.error("the API keys have changed and cannot be used; those of before still count: %s", error)
            self._problem = str(error)
        else:
            self._problem = ""
            if len(self._keys):
                log.info("the API keys have changed: there are %d", len(self._keys))
            else:
                log.error(
                    "%s names no API key any more: %s may call until it does",
                    self._path,
                    "only services" if self.services else "nobody",
                )
            self._changed.set()
            self._changed = asyncio.Event()

    def _look(self) -> tuple[int, ...]:
        """What is different after each change of the file. Empty if there is none."""
        try:
            found = self._path.stat() if self._path is not None else None
        except OSError:
            found = None
        if found is None:
            return ()
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def load_keys(settings: Settings, *, may_be_empty: bool = False) -> ApiKeys:
    """Reads the file and the environment, both if both are set. Raises `SettingsError`.

    `may_be_empty`: the file need not name a key.
    """
    entries: list[Entry] = []
    path, is_open = settings.api_keys_file, False
    if path is not None:
        entries, is_open = _of_file(Path(path))
        if not entries and not may_be_empty:  # naming a file means that callers need keys
            raise SettingsError(f"{path}: the file has no API keys; add a line with: key user tenant")
    if settings.api_keys is not None:
        entries += _of_environment(settings.api_keys.get_secret_value())
    keys = ApiKeys(entries, _of_services(settings))
    if is_open:
        log.warning("every user of this machine can read or write the API keys in %s: chmod 600 %s", path, path)
    return keys


def _of_file(path: Path) -> tuple[list[Entry], bool]:
    """Returns its entries, and whether everybody can read or write it."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
        is_open = bool(path.stat().st_mode & 0o006)
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: the file of API keys is not UTF-8") from error
    except OSError as error:
        raise SettingsError(f"{path}: the file of API keys cannot be read: {error.strerror}") from error
    found = [
        (f"{path}:{number}", line.split())
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    return found, is_open


def _of_environment(value: str) -> Iterator[Entry]:
    for number, entry in enumerate(value.split(","), 1):
        yield f"INTURN_API_KEYS: entry {number}", entry.strip().split(":")


def _of_services(settings: Settings) -> Iterator[Entry]:
    if settings.service_keys is not None:
        for number, key in enumerate(settings.service_keys.get_secret_value().split(","), 1):
            yield f"INTURN_SERVICE_KEYS: entry {number}", [key.strip()]


def _is_key(text: str) -> bool:
    return len(text) >= MIN_LENGTH and _KEY.fullmatch(text) is not None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
