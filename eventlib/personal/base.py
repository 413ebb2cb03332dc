"""The interface of ciphers of personal fields, and the cipher of processes without keys."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping

from eventlib.errors import WiringError
from eventlib.model.personal import ERASED, MASKED

NO_MASTER = (
    "set EVENTLIB_PERSONAL_MASTER to the master key, file:PATH, https://VAULT/transit/KEY or aws-kms:KEY; "
    "`eventlib subjects master PATH` makes one"
)
PREFIX = "pd1."
"""Begins every ciphertext; the 1 is the version of its form: base64url of key id, nonce, ciphertext and tag."""


def is_ciphertext(value: object) -> bool:
    """Return whether a value is the text form of a ciphertext."""
    return isinstance(value, str) and value.startswith(PREFIX)


class NoRight(WiringError):
    """A process without the right to personal data was to write some."""


class FieldCipher(ABC):
    """Encrypts and decrypts the text of personal fields; what is empty or erased does not come here."""

    @abstractmethod
    def encrypt(self, subject: str, field: str, text: str) -> str:
        """Return the ciphertext of a field's text; `ERASED` when the subject was erased.

        Raises: NoRight without the right to encrypt; ContractError; LogUnavailable when the keys are out of reach.
        """

    def encrypt_all(self, subject: str, fields: tuple[str, ...], texts: tuple[str | None, ...]) -> Mapping[str, str]:
        """Return the ciphertext of a subject's fields, without those that have nothing to encrypt. Raises: as `encrypt`."""
        pairs = zip(fields, texts, strict=True)
        return {name: self.encrypt(subject, name, text) for name, text in pairs if text and text != ERASED}

    @abstractmethod
    def decrypt(self, text: str, subject: str | None = None) -> str:
        """Return the text in a ciphertext; `ERASED` or `MASKED` when it is not to be seen.

        Text that was written before its field was personal is returned as it is, unless its `subject` was erased.

        Raises: ContractError for a damaged ciphertext or an unknown key; LogUnavailable when the keys are out of reach.
        """

    def prepare(self, subjects: Iterable[str]) -> None:  # noqa: B027  most have nothing to prepare
        """Make the keys of subjects that have none yet, all at once: that costs as much as one.

        Raises: LogUnavailable when the keys are out of reach.
        """

    def on_erasure(self, call: Callable[[], object]) -> None:  # noqa: B027  most notice none
        """Call a function, which drops what it has decrypted, whenever erasures are noticed."""

    def close(self) -> None:
        """Release what it holds."""
        return


class Mask(FieldCipher):
    """Shows `MASKED` in the stead of all personal text, and encrypts nothing."""

    def encrypt(self, subject: str, field: str, text: str) -> str:  # noqa: ARG002  it is the same for all
        """Refuse. Raises: NoRight."""
        raise NoRight(f"field {field} is personal, and this process has no right to write it: {NO_MASTER}")

    def decrypt(self, text: str, subject: str | None = None) -> str:  # noqa: ARG002  it is the same for all
        """See `FieldCipher.decrypt`."""
        return MASKED
