"""Signatures of webhooks: what others' libraries sign is accepted, what was changed is refused, and secrets rotate."""

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from standardwebhooks import Webhook

from eventlib.errors import SignatureRefused, WiringError
from eventlib.webhooks.signing import STANDARD_WEBHOOKS, STRIPE, SignatureScheme, SigningSecret, TimestampedSignature

OLD = SigningSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
NEW = SigningSecret("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
BODY = b'{"test": 2432232314}'
NOW_S = 1_614_265_330
BOTH = pytest.mark.parametrize("scheme", [STANDARD_WEBHOOKS, STRIPE, TimestampedSignature("X-Bank-Signature", "s1")])


def test_the_specifications_vector_is_signed_as_it_says() -> None:
    headers = STANDARD_WEBHOOKS.sign([OLD], "msg_p5jXN8AQM9LWM0D4loKWxJek", NOW_S, BODY)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_the_reference_library_verifies_what_is_signed_here() -> None:
    secret, now = SigningSecret.new(), datetime.now(UTC)
    headers = STANDARD_WEBHOOKS.sign([OLD, secret], "msg-1", int(now.timestamp()), BODY)
    assert Webhook(secret.reveal()).verify(BODY, headers) == {"test": 2432232314}


def test_what_the_reference_library_signs_is_verified_here() -> None:
    at = datetime.fromtimestamp(NOW_S, UTC)
    signature = Webhook(NEW.reveal()).sign("msg-1", at, BODY.decode())
    headers = {"webhook-id": "msg-1", "webhook-timestamp": str(NOW_S), "webhook-signature": f"v1a,AAAA {signature}"}
    assert STANDARD_WEBHOOKS.verify([NEW, OLD], headers, BODY, NOW_S) == ("msg-1", NOW_S)


def test_a_header_as_stripe_documents_it_is_verified() -> None:
    signature = hmac.new(b"whsec_test", b"1614265330." + BODY, sha256).hexdigest()
    headers = {"stripe-signature": f"t=1614265330,v1={'0' * 64},v1={signature},v0=6ffbb59b2300aae63f27"}
    assert STRIPE.verify([SigningSecret("whsec_test")], headers, BODY, NOW_S) == (None, NOW_S)


@BOTH
def test_a_secret_is_rotated_while_deliveries_are_under_way(scheme: SignatureScheme) -> None:
    for signed_by in ([OLD], [NEW, OLD], [NEW]):
        assert scheme.verify([NEW, OLD], scheme.sign(signed_by, "m", NOW_S, BODY), BODY, NOW_S).timestamp_s == NOW_S
    with pytest.raises(SignatureRefused, match="no signature is right"):
        scheme.verify([NEW], scheme.sign([OLD], "m", NOW_S, BODY), BODY, NOW_S)
    with pytest.raises(SignatureRefused, match="no signature is right"):
        scheme.verify([], scheme.sign([OLD], "m", NOW_S, BODY), BODY, NOW_S)


@BOTH
def test_whatever_is_changed_on_the_way_is_refused(scheme: SignatureScheme) -> None:
    headers = scheme.sign([OLD], "m", NOW_S, BODY)
    with pytest.raises(SignatureRefused, match="no signature is right"):
        scheme.verify([OLD], headers, BODY + b" ", NOW_S)
    for name, value in headers.items():
        for changed in (value.replace(str(NOW_S), str(NOW_S + 1)), value[:-2] + "xx", "", "é", value + "\udcff"):
            if changed != value:
                with pytest.raises(SignatureRefused):
                    scheme.verify([OLD], {**headers, name: changed}, BODY, NOW_S)
        with pytest.raises(SignatureRefused, match=f"header {name} is missing"):
            scheme.verify([OLD], {each: headers[each] for each in headers if each != name}, BODY, NOW_S)


@BOTH
@pytest.mark.parametrize("off_s", [301, -301])
def test_a_delivery_from_another_time_is_refused(scheme: SignatureScheme, off_s: int) -> None:
    headers = scheme.sign([OLD], "m", NOW_S, BODY)
    with pytest.raises(SignatureRefused, match="300 s are accepted"):
        scheme.verify([OLD], headers, BODY, NOW_S + off_s)
    assert scheme.verify([OLD], headers, BODY, NOW_S + off_s, tolerance_s=301).timestamp_s == NOW_S


@pytest.mark.parametrize(
    "headers",
    [
        {"webhook-id": "m", "webhook-timestamp": at, "webhook-signature": "v1,AAAA"}
        for at in ("+1", "1e3", "01", "-1", "9" * 13)
    ],
)
def test_a_time_that_is_not_written_as_whole_seconds_is_refused(headers: Mapping[str, str]) -> None:
    with pytest.raises(SignatureRefused, match="not whole seconds"):
        STANDARD_WEBHOOKS.verify([OLD], headers, BODY, NOW_S)


@pytest.mark.parametrize("text", ["", "with space", "é", "tab\t"])
def test_a_text_that_cannot_be_a_secret_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(WiringError, match="printable ASCII") as refused:
        SigningSecret(text)
    assert not text or text not in str(refused.value)


@pytest.mark.parametrize(("text", "reason"), [("whsec_!", "base64"), ("whsec_AAAA", "this one has 3")])
def test_a_secret_that_no_standard_key_is_made_of_is_refused(text: str, reason: str) -> None:
    with pytest.raises(WiringError, match=reason):
        SigningSecret(text).standard_key()


def test_a_secret_is_in_no_representation() -> None:
    assert "MfKQ" not in f"{OLD} {OLD!r} {[OLD]}"


def test_an_id_with_a_dot_is_refused_since_another_id_and_body_would_have_its_signature() -> None:
    with pytest.raises(WiringError, match="without dots"):
        STANDARD_WEBHOOKS.sign([OLD], "m.1", NOW_S, BODY)
