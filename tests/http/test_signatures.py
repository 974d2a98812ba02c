"""Call-backs are proved by a signature: as the scheme has it, and against those who forge, change or repeat one."""

from __future__ import annotations

import base64
import hmac
import os
import subprocess
import sys

import pytest

from inturn.errors import ArgumentError, SettingsError
from inturn.http import signatures
from inturn.http.problems import Problem
from inturn.http.signatures import BadSignature, Secrets, new_secret, secrets_of, sign, verify
from inturn.settings import Settings

# the example that the scheme publishes, with what its reference libraries make of it
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

OURS = Secrets([SECRET])


def secret_of(length: int) -> str:
    return "whsec_" + base64.b64encode(b"k" * length).decode()


def sent(**changed: str | None) -> list[tuple[bytes, bytes]]:
    """The published call-back, with other headers in place of its own; `None` leaves one out."""
    values = {"id": ID, "timestamp": str(AT), "signature": SIGNATURE} | changed
    return [
        (f"webhook-{name}".encode(), value.encode("latin-1")) for name, value in values.items() if value is not None
    ]


def refused(headers: list[tuple[bytes, bytes]], body: bytes = BODY, now: float = AT, secrets: Secrets = OURS) -> str:
    with pytest.raises(BadSignature) as caught:
        verify(secrets, headers, body, now)
    assert isinstance(caught.value, Problem)
    assert (caught.value.status, caught.value.code) == (401, "bad-signature")
    assert "MfKQ9" not in str(caught.value)
    assert SIGNATURE not in str(caught.value)
    return caught.value.detail


def test_the_published_example_is_signed_and_verified() -> None:
    assert sign(OURS, ID, AT, BODY) == {
        "webhook-id": ID,
        "webhook-timestamp": str(AT),
        "webhook-signature": SIGNATURE,
    }
    assert verify(OURS, sent(), BODY, AT) == ID


def test_names_of_headers_are_read_in_any_case() -> None:
    assert verify(OURS, [(name.upper(), value) for name, value in sent()], BODY, AT) == ID


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (sent(), BODY + b" "),
        (sent(), b""),
        (sent(id="msg_other"), BODY),
        (sent(timestamp=str(AT + 1)), BODY),
        (sent(timestamp=f"0{AT}"), BODY),
        (sent(signature=SIGNATURE.swapcase()), BODY),
        (sent(signature=SIGNATURE.removesuffix("=")), BODY),
        (sent(signature=SIGNATURE[:-2] + "F="), BODY),  # the same bytes, if nobody looks at the last bits
        (sent(signature=SIGNATURE.removeprefix("v1,")), BODY),
        (sent(signature=SIGNATURE.replace("v1,", "v1a,")), BODY),
        (sent(signature=SIGNATURE.replace("v1,", "v2,")), BODY),
        (sent(signature=SIGNATURE.replace("v1,", "V1,")), BODY),
        (sent(signature="v1,"), BODY),
        (sent(signature="v1,\xe9"), BODY),
        (sent(signature=""), BODY),
        (sent(signature=SIGNATURE.replace(",", ", ")), BODY),
    ],
)
def test_what_is_forged_or_changed_fits_no_signature(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    assert refused(headers, body) == "No signature of webhook-signature fits what was sent."


def test_another_secret_or_none_verifies_nothing() -> None:
    assert "fits" in refused(sent(), secrets=Secrets([new_secret()]))
    assert "fits" in refused(sent(), secrets=Secrets())
    assert "fits" in refused(sent(signature="v1,47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="), secrets=Secrets())


@pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
def test_each_header_comes_exactly_once(name: str) -> None:
    assert refused(sent(**{name: None})) == f"The header webhook-{name} must be sent once."
    twice = [*sent(), *(pair for pair in sent() if pair[0] == f"webhook-{name}".encode())]
    assert refused(twice) == f"The header webhook-{name} must be sent once."


@pytest.mark.parametrize("webhook_id", ["", "a.b", "a b", "a\nb", "\xe9", "x" * 257, "x" * 3000])
def test_an_id_that_could_be_read_otherwise_is_refused(webhook_id: str) -> None:
    assert "webhook-id" in refused(sent(id=webhook_id))


@pytest.mark.parametrize(
    "timestamp", ["", "now", "-1", "+1614265330", " 1614265330", "1614265330.0", "1_614_265_330", "1e9", "9" * 13]
)
def test_a_time_that_is_not_whole_seconds_is_refused(timestamp: str) -> None:
    assert refused(sent(timestamp=timestamp)) == "webhook-timestamp must be whole seconds since 1970."


def test_digits_of_other_scripts_are_no_time() -> None:
    arabic = [(b"webhook-timestamp", "١٦١٤٢٦٥٣٣٠".encode())]
    assert "whole seconds" in refused([*sent(timestamp=None), *arabic])


@pytest.mark.parametrize("moved_s", [-300.0, -299.5, 0.0, 300.0])
def test_a_signature_counts_for_five_minutes_around_its_time(moved_s: float) -> None:
    assert verify(OURS, sent(), BODY, AT + moved_s) == ID


@pytest.mark.parametrize("moved_s", [-300.5, 300.5, 86_400.0, float("inf"), float("nan")])
def test_what_is_repeated_later_or_was_signed_for_later_is_refused(moved_s: float) -> None:
    assert refused(sent(), now=AT + moved_s) == "webhook-timestamp must be within 300 s of the time of this server."


def test_a_repeat_in_time_has_the_id_of_the_first() -> None:
    first, repeat = (verify(OURS, sent(), BODY, AT + late_s) for late_s in (1, 200))
    assert first == repeat


def test_the_tolerance_can_be_chosen() -> None:
    assert verify(OURS, sent(), BODY, AT + 900, tolerance_s=900) == ID
    with pytest.raises(BadSignature, match="within 10 s"):
        verify(OURS, sent(), BODY, AT + 11, tolerance_s=10)


def test_while_secrets_change_either_side_may_be_first() -> None:
    old, new = new_secret(), new_secret()
    for ours, theirs in (([new, old], [old]), ([old], [new, old]), ([new], [new, old]), ([new, old], [new])):
        headers = sign(Secrets(ours), "m1", AT, BODY)
        assert headers["webhook-signature"].count("v1,") == len(ours)
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        assert verify(Secrets(theirs), pairs, BODY, AT) == "m1"
    assert "fits" in refused(
        [(b"webhook-" + n, v) for n, v in ((b"id", b"m1"), (b"timestamp", b"1"), (b"signature", b"v1,x"))], now=1
    )


def test_a_signature_is_found_among_others_up_to_a_bound() -> None:
    others = " ".join(["v1a,x", "v1,bm9wZQ==", "nonsense", "", ",,"])
    assert verify(OURS, sent(signature=f"{others} {SIGNATURE}"), BODY, AT) == ID
    many = " ".join(["v1,x"] * signatures.MAX_SIGNATURES)
    assert refused(sent(signature=f"{many} {SIGNATURE}")) == "webhook-signature may hold up to 16 signatures."
    long = f"v1,{'x' * signatures.MAX_HEADER} {SIGNATURE}"
    assert refused(sent(signature=long)) == "The header webhook-signature may be up to 2048 bytes long."


def test_what_the_most_secrets_sign_fits_the_bounds() -> None:
    secrets = Secrets([new_secret() for _ in range(signatures.MAX_SECRETS)])
    pairs = [(name.encode(), value.encode()) for name, value in sign(secrets, "m", AT, BODY).items()]
    assert verify(secrets, pairs, BODY, AT) == "m"


def test_every_signature_is_compared_with_every_secret_also_after_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def noticed(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noticed)
    three = Secrets([SECRET, new_secret(), new_secret()])
    verify(three, sent(signature=f"{SIGNATURE} v1,x"), BODY, AT)
    assert len(set(compared)) == 6


@pytest.mark.parametrize(
    "wrong",
    [
        "", "hunter2", "whsec_", SECRET.removeprefix("whsec_"), SECRET.upper(), secret_of(23), secret_of(65),
        f"{SECRET}!", f"{SECRET}=", "whsec_é", secret_of(32).rstrip("="),
    ],
)  # fmt: skip
def test_a_wrong_secret_is_named_by_its_number_and_not_shown(wrong: str) -> None:
    with pytest.raises(SettingsError) as caught:
        secrets_of(Settings(webhook_secrets=f"{SECRET},{wrong},{SECRET}"))
    assert str(caught.value).splitlines() == [
        "INTURN_WEBHOOK_SECRETS: entry 2: must be whsec_ and the base64 of 24 to 64 bytes",
        "INTURN_WEBHOOK_SECRETS: entry 3: is already listed before",
    ]


def test_too_many_secrets_are_refused() -> None:
    with pytest.raises(SettingsError, match="INTURN_WEBHOOK_SECRETS: has 9 entries; 8 are the most"):
        Secrets([new_secret() for _ in range(9)])


def test_secrets_are_read_from_the_setting_and_never_shown() -> None:
    found = secrets_of(Settings(webhook_secrets=f" {secret_of(24)} , {secret_of(64)}"))
    assert len(found) == 2
    assert repr(found) == "<2 secrets>"
    assert not secrets_of(Settings())


def test_a_new_secret_is_one_and_is_new() -> None:
    made = {new_secret() for _ in range(8)}
    assert len(Secrets(made)) == 8


@pytest.mark.parametrize(("webhook_id", "at"), [("a.b", 1), ("", 1), ("a\r\nb", 1), ("é", 1), ("a", -1), ("a", 10**12)])
def test_nothing_is_signed_that_could_not_be_verified(webhook_id: str, at: int) -> None:
    with pytest.raises(ArgumentError):
        sign(OURS, webhook_id, at, BODY)


def test_nothing_is_signed_without_a_secret() -> None:
    with pytest.raises(ArgumentError, match="there are none to sign with"):
        sign(Secrets(), ID, AT, BODY)


def test_it_needs_no_server() -> None:
    code = "import sys; sys.modules['fastapi'] = None; import inturn.http.signatures, inturn.http.request_id"
    done = subprocess.run(
        [sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
