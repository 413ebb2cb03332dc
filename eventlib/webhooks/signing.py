"""Signatures of webhooks: made by their sender, verified by their receiver; Standard Webhooks, and schemes like Stripe's.

A secret is a text as its issuer shows it. Both sides take several at a time, so that one can be replaced while deliveries
are under way: the sender signs with each, and the receiver accepts any.
Source: Standard Webhooks 1.0, https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import binascii
import hashlib
import hmac
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from secrets import token_bytes
from typing import NamedTuple

from eventlib.errors import SignatureRefused, WiringError
from eventlib.ground.arguments import check_each

__all__ = ["STANDARD_WEBHOOKS", "STRIPE", "SignatureScheme", "Signed", "SigningSecret", "TimestampedSignature"]

TOLERANCE_S = 300.0
"""How far a delivery's time may be from the receiver's clock (seconds), as Standard Webhooks' libraries have it."""

_PREFIX = "whsec_"
_KEY_BYTES = 24
"""The fewest bytes of a Standard Webhooks key, by the specification; 64 are the most."""
_MOST_KEY_BYTES = 64
_MOST_SIGNATURES = 20


class Signed(NamedTuple):
    """A delivery whose signature is right: its id (None where the scheme signs none), and when it was sent (Unix seconds)."""

    id: str | None
    timestamp_s: int


class SigningSecret:
    """A shared secret, as its issuer shows it; it is not in any representation of this object."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Keep a text. Raises: WiringError for an empty one, or one with characters that no issuer uses."""
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise WiringError("a signing secret is printable ASCII without spaces: copy it as its issuer shows it")
        self._text = text

    def __repr__(self) -> str:
        return "SigningSecret('…')"

    @classmethod
    def new(cls) -> "SigningSecret":
        """Return a new random secret in the form of Standard Webhooks."""
        return cls(_PREFIX + b64encode(token_bytes(32)).decode())

    def reveal(self) -> str:
        """Return the text, for where it is stored or shown to its owner once."""
        return self._text

    def standard_key(self) -> bytes:
        """Return the key of Standard Webhooks: base64 after `whsec_`. Raises: WiringError for another form or length."""
        try:
            key = b64decode(self._text.removeprefix(_PREFIX), validate=True)
        except binascii.Error as error:
            raise WiringError(f"a secret of Standard Webhooks is base64 after `{_PREFIX}`: this one is not") from error
        if not _KEY_BYTES <= len(key) <= _MOST_KEY_BYTES:
            raise WiringError(
                f"a secret of Standard Webhooks has {_KEY_BYTES} to {_MOST_KEY_BYTES} bytes: this one has {len(key)}"
            )
        return key


class SignatureScheme(ABC):
    """How deliveries are signed. A scheme of a provider's own implements the two abstract methods.

    Guarantee: signatures are compared in constant time, and every secret is tried against every signature.
    """

    def verify(
        self,
        secrets: Sequence[SigningSecret],
        headers: Mapping[str, str],
        body: bytes,
        now_s: float,
        tolerance_s: float = TOLERANCE_S,
    ) -> Signed:
        """Return what is signed. `headers` have names in small letters, `body` is as it was received, byte for byte.

        Raises: SignatureRefused, with the reason, which names neither a secret nor an expected signature.
        """
        check_each(secrets, SigningSecret, "secrets", "give SigningSecret(...) objects, the newest first")
        signed, found, content = self._read(headers, body)
        expected = [self._signature(secret, content) for secret in secrets]
        right = False
        for signature in found[:_MOST_SIGNATURES]:
            for each in expected:
                right |= hmac.compare_digest(each, signature)
        if not right:
            raise SignatureRefused("no signature is right: the secret differs, or the body was changed on its way")
        if abs(now_s - signed.timestamp_s) > tolerance_s:
            raise SignatureRefused(
                f"it was signed {now_s - signed.timestamp_s:+.0f} s ago, and at most {tolerance_s:g} s are accepted: an old "
                "delivery was sent again with its first signature, or a clock is wrong"
            )
        return signed

    @abstractmethod
    def sign(self, secrets: Sequence[SigningSecret], id: str, timestamp_s: int, body: bytes) -> dict[str, str]:  # noqa: A002  the field has this name
        """Return the headers of a delivery, with a signature by each secret. Raises: WiringError for what cannot be signed."""

    @abstractmethod
    def _read(self, headers: Mapping[str, str], body: bytes) -> tuple[Signed, Sequence[bytes], bytes]:
        """Return what is signed, the signatures found, and the content that they sign. Raises: SignatureRefused."""

    @abstractmethod
    def _signature(self, secret: SigningSecret, content: bytes) -> bytes:
        """Return the signature of a content, as `_read` returns those it has found."""


class StandardWebhooks(SignatureScheme):
    """HMAC-SHA256 (`v1`) over id, time and body, in the headers `webhook-id`, `webhook-timestamp`, `webhook-signature`."""

    def sign(self, secrets: Sequence[SigningSecret], id: str, timestamp_s: int, body: bytes) -> dict[str, str]:  # noqa: A002  the field has this name
        """See `SignatureScheme.sign`."""
        if not id or not id.isascii() or not id.isprintable() or "." in id or " " in id:
            raise WiringError(f"a delivery's id is printable ASCII without dots and spaces: this is {id!r}")
        content = _standard_content(id, timestamp_s, body)
        signatures = " ".join(self._signature(secret, content).decode() for secret in secrets)
        return {"webhook-id": id, "webhook-timestamp": str(timestamp_s), "webhook-signature": signatures}

    def _read(self, headers: Mapping[str, str], body: bytes) -> tuple[Signed, Sequence[bytes], bytes]:
        identity, signatures = _header(headers, "webhook-id"), _header(headers, "webhook-signature")
        at_s = _seconds(_header(headers, "webhook-timestamp"), "header webhook-timestamp")
        found = [each.encode() for each in signatures.split(" ") if each.startswith("v1,")]
        return Signed(identity, at_s), found, _standard_content(identity, at_s, body)

    def _signature(self, secret: SigningSecret, content: bytes) -> bytes:
        return b"v1," + b64encode(_hmac(secret.standard_key(), content).digest())


class TimestampedSignature(SignatureScheme):
    """`t=<Unix seconds>,v1=<hex>` in one header, over time and body, as Stripe and others have it; the id is in the body.

    `header` is its name, `version` the name of the signature that counts. The secret is used as it is written.
    Source: https://docs.stripe.com/webhooks/signature
    """

    def __init__(self, header: str, version: str = "v1") -> None:
        self._header = header.lower()
        self._version = version

    def sign(self, secrets: Sequence[SigningSecret], id: str, timestamp_s: int, body: bytes) -> dict[str, str]:  # noqa: A002, ARG002  the body has the id
        """See `SignatureScheme.sign`."""
        content = b"%d.%s" % (timestamp_s, body)
        signatures = [f"{self._version}={self._signature(secret, content).decode()}" for secret in secrets]
        return {self._header: ",".join([f"t={timestamp_s}", *signatures])}

    def _read(self, headers: Mapping[str, str], body: bytes) -> tuple[Signed, Sequence[bytes], bytes]:
        pairs = [each.partition("=")[::2] for each in _header(headers, self._header).split(",")]
        times = [value for name, value in pairs if name == "t"]
        if len(times) != 1:
            raise SignatureRefused(f"header {self._header} has {len(times)} times `t=`; it has one")
        at_s = _seconds(times[0], f"`t` in header {self._header}")
        found = [value.encode() for name, value in pairs if name == self._version]
        return Signed(None, at_s), found, b"%d.%s" % (at_s, body)

    def _signature(self, secret: SigningSecret, content: bytes) -> bytes:
        return _hmac(secret.reveal().encode(), content).hexdigest().encode()


STANDARD_WEBHOOKS = StandardWebhooks()
"""The scheme of Standard Webhooks."""

STRIPE = TimestampedSignature("stripe-signature")
"""The scheme of Stripe."""


def _standard_content(id: str, timestamp_s: int, body: bytes) -> bytes:  # noqa: A002  the field has this name
    return b"%s.%d.%s" % (id.encode(), timestamp_s, body)


def _hmac(key: bytes, content: bytes) -> hmac.HMAC:
    return hmac.new(key, content, hashlib.sha256)


def _header(headers: Mapping[str, str], name: str) -> str:
    found = headers.get(name)
    if not found:
        raise SignatureRefused(f"header {name} is missing")
    if not (found.isascii() and found.isprintable()):
        raise SignatureRefused(f"header {name} is not printable ASCII: {found[:50]!a}")
    return found


def _seconds(text: str, what: str) -> int:
    """Read Unix seconds strictly: a text that is not the number itself would be signed differently."""
    if not (text.isdigit() and len(text) <= 12 and str(int(text)) == text):  # noqa: PLR2004  the year 33658
        raise SignatureRefused(f"{what} is {text[:20]!r}, and not whole seconds since 1970")
    return int(text)
