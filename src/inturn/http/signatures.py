"""Call-backs are signed after the Standard Webhooks scheme: who has no secret can neither make one nor change one.

The id, the time and the body are signed together with HMAC-SHA256, once for each secret, so that secrets can be changed
one service at a time. A signature counts for a few minutes. Within them a copy is accepted again: by its id, which
`verify` returns, the receiver knows it. No error shows a secret, nor what the signature should have been.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from secrets import token_bytes

from inturn.errors import ArgumentError, SettingsError
from inturn.http.asgi import values_of
from inturn.http.problems import Problem
from inturn.settings import Settings

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
PREFIX = "whsec_"
MIN_BYTES, MAX_BYTES, NEW_BYTES = 24, 64, 32
MAX_SECRETS = 8
MAX_SIGNATURES = 16
"""Of one call-back. Each is compared with what each secret would have signed."""
MAX_HEADER = 2048
TOLERANCE_S = 300

_VERSION = "v1"
_ID = re.compile(r"[!-\-/-~]{1,256}")
"""Printable ASCII, but no '.': that separates what is signed."""
_TIMESTAMP = re.compile(r"[0-9]{1,12}")


class BadSignature(Problem):
    """Nothing proves that the call-back comes from somebody who has a secret."""

    def __init__(self, why: str) -> None:
        super().__init__(code="bad-signature", detail=why)


class Secrets:
    """The secrets of the setting, the newest first. There may be none: then nothing can be signed or verified."""

    __slots__ = ("_keys",)

    def __init__(self, texts: Iterable[str] = (), setting: str = "INTURN_WEBHOOK_SECRETS") -> None:
        """Raises a `SettingsError` that names every wrong entry of `setting`."""
        found, wrong = list[bytes](), list[str]()
        for number, text in enumerate(texts, 1):
            key = _key(text.strip())
            if key is None:
                why = f"must be {PREFIX} and the base64 of {MIN_BYTES} to {MAX_BYTES} bytes"
            else:
                why = "is already listed before" if key in found else ""
                found.append(key)
            if why:
                wrong.append(f"{setting}: entry {number}: {why}")
        if len(found) > MAX_SECRETS:
            wrong.append(f"{setting}: has {len(found)} entries; {MAX_SECRETS} are the most")
        if wrong:
            raise SettingsError("\n".join(wrong))
        self._keys = tuple(found)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"<{len(self)} secrets>"

    def signatures(self, webhook_id: str, timestamp: str, body: bytes) -> Iterator[str]:
        signed = f"{webhook_id}.{timestamp}.".encode("ascii") + body
        for key in self._keys:
            yield f"{_VERSION},{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode('ascii')}"


def secrets_of(settings: Settings) -> Secrets:
    """Raises `SettingsError`."""
    given = settings.webhook_secrets
    return Secrets(given.get_secret_value().split(",") if given is not None else ())


def new_secret() -> str:
    return PREFIX + base64.b64encode(token_bytes(NEW_BYTES)).decode("ascii")


def sign(secrets: Secrets, webhook_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers that prove `body`. `timestamp`: seconds since 1970, of this attempt. All attempts have one id."""
    if not secrets:
        raise ArgumentError("secrets", "there are none to sign with")
    if not _ID.fullmatch(webhook_id):
        raise ArgumentError("webhook_id", "must have 1 to 256 printable ASCII characters and no '.'", webhook_id)
    at = str(timestamp)
    if not _TIMESTAMP.fullmatch(at):
        raise ArgumentError("timestamp", "must be whole seconds since 1970", timestamp)
    return {ID: webhook_id, TIMESTAMP: at, SIGNATURE: " ".join(secrets.signatures(webhook_id, at, body))}


def verify(
    secrets: Secrets,
    headers: Iterable[tuple[bytes, bytes]],
    body: bytes,
    now: float,
    tolerance_s: float = TOLERANCE_S,
) -> str:
    """Returns the id of the call-back if one of the secrets has signed it at about this time, else raises
    `BadSignature`. `headers` as ASGI has them; `body` as it was sent.
    """
    sent = list(headers)
    webhook_id, timestamp, given = (_one(sent, name) for name in (ID, TIMESTAMP, SIGNATURE))
    if not _ID.fullmatch(webhook_id):
        raise BadSignature(f"{ID} must have 1 to 256 printable ASCII characters and no '.'.")
    if not _TIMESTAMP.fullmatch(timestamp):
        raise BadSignature(f"{TIMESTAMP} must be whole seconds since 1970.")
    if not abs(now - int(timestamp)) <= tolerance_s:
        raise BadSignature(f"{TIMESTAMP} must be within {tolerance_s:g} s of the time of this server.")
    signatures = given.split(" ")
    if len(signatures) > MAX_SIGNATURES:
        raise BadSignature(f"{SIGNATURE} may hold up to {MAX_SIGNATURES} signatures.")
    # all are compared with all, even after a match, so that the time it takes reveals nothing
    is_proved = False
    for expected in secrets.signatures(webhook_id, timestamp, body):
        for signature in signatures:  # one of another version, such as v1a, equals none of ours
            is_proved |= hmac.compare_digest(expected.encode("ascii"), signature.encode("latin-1"))
    if not is_proved:
        raise BadSignature(f"No signature of {SIGNATURE} fits what was sent.")
    return webhook_id


def _one(headers: list[tuple[bytes, bytes]], name: str) -> str:
    found = values_of(headers, name.encode("ascii"))
    if len(found) != 1:  # two would be ambiguous: a proxy may read the other one
        raise BadSignature(f"The header {name} must be sent once.")
    if len(found[0]) > MAX_HEADER:
        raise BadSignature(f"The header {name} may be up to {MAX_HEADER} bytes long.")
    return found[0].decode("latin-1")


def _key(text: str) -> bytes | None:
    encoded = text.removeprefix(PREFIX)
    try:
        key = base64.b64decode(encoded, validate=True)
    except ValueError:
        return None
    is_plain = encoded != text and base64.b64encode(key).decode("ascii") == encoded
    return key if is_plain and MIN_BYTES <= len(key) <= MAX_BYTES else None
