"""Encrypts the text of personal fields with data keys, and writes and reads the text form of the ciphertext."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from secrets import token_bytes

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from eventlib.errors import ContractError
from eventlib.model.personal import ERASED
from eventlib.personal.base import PREFIX, FieldCipher, is_ciphertext
from eventlib.personal.store import KEY_BYTES, KEY_ID_BYTES

_NONCE_BYTES = 12
_HEAD_BYTES = KEY_ID_BYTES + _NONCE_BYTES
_TAG_BYTES = 16
_EPHEMERAL = b"ephemeral"


class DataKey:
    """The key of one subject: AES-256-GCM with a nonce that is derived from the field's name and text.

    Guarantee: the same key, field and text give the same ciphertext, so that replays compare bytes. That shows which values
    of one field of one subject are equal, and how long a text is; it shows nothing across subjects or fields.
    """

    __slots__ = ("_aead", "_head", "_nonce_key")

    def __init__(self, key_id: bytes, secret: bytes) -> None:
        self._head = key_id
        self._aead = AESGCM(secret[:32])
        self._nonce_key = secret[32:]

    def encrypt(self, field: str, text: str) -> str:
        """Return the ciphertext of a field's text, in its text form."""
        data = text.encode("utf-8", "surrogatepass")
        nonce = hmac.digest(self._nonce_key, b"%b\0%b" % (field.encode(), data), "sha256")[:_NONCE_BYTES]
        return PREFIX + urlsafe_b64encode(self._head + nonce + self._aead.encrypt(nonce, data, None)).decode().rstrip(
            "="
        )

    def decrypt(self, sealed: bytes) -> str:
        """Return the text in a ciphertext's bytes. Raises: ContractError when they are damaged."""
        try:
            nonce = sealed[KEY_ID_BYTES:_HEAD_BYTES]
            return self._aead.decrypt(nonce, sealed[_HEAD_BYTES:], None).decode("utf-8", "surrogatepass")
        except (InvalidTag, UnicodeDecodeError) as error:
            raise ContractError("a personal field's ciphertext is damaged, or of another key") from error


def sealed_bytes(text: str) -> bytes:
    """Return the bytes of a ciphertext's text form; they begin with the key's id. Raises: ContractError."""
    body = text[len(PREFIX) :]
    try:
        found = urlsafe_b64decode(body + "=" * (-len(body) % 4))
    except (NotBase64, ValueError) as error:
        raise ContractError("a personal field begins as a ciphertext does, and is none") from error
    if len(found) < _HEAD_BYTES + _TAG_BYTES:
        raise ContractError("a personal field's ciphertext is too short")
    return found


class EphemeralCipher(FieldCipher):
    """Encrypts with a key of its own that ends with the process: for logs in memory and temporary files."""

    def __init__(self) -> None:
        self._key = DataKey(_EPHEMERAL, token_bytes(KEY_BYTES))

    def encrypt(self, subject: str, field: str, text: str) -> str:  # noqa: ARG002  one key for all of them
        """See `FieldCipher.encrypt`."""
        return self._key.encrypt(field, text)

    def decrypt(self, text: str, subject: str | None = None) -> str:  # noqa: ARG002  the text has its key
        """See `FieldCipher.decrypt`."""
        return self._key.decrypt(sealed_bytes(text)) if is_ciphertext(text) else text


class DryRunCipher(EphemeralCipher):
    """Decrypts what another cipher can, and encrypts with a key of its own: a dry run makes no key for a subject."""

    def __init__(self, cipher: FieldCipher) -> None:
        super().__init__()
        self._cipher = cipher

    def encrypt(self, subject: str, field: str, text: str) -> str:
        """See `FieldCipher.encrypt`."""
        is_erased = self._cipher.decrypt(text, subject) == ERASED
        return ERASED if is_erased else super().encrypt(subject, field, text)

    def decrypt(self, text: str, subject: str | None = None) -> str:
        """See `FieldCipher.decrypt`."""
        if is_ciphertext(text) and sealed_bytes(text).startswith(_EPHEMERAL):
            return super().decrypt(text, subject)
        return self._cipher.decrypt(text, subject)
