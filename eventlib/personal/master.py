"""Master keys: they wrap the key of a key store, and stay where they are: in a file, in Vault, or in a service like it."""

from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from pathlib import Path
from secrets import token_bytes

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from eventlib.errors import LogUnavailable, WiringError
from eventlib.ground.plaintext import warn_of_plaintext
from eventlib.personal.secret_file import read_secret

_NONCE_BYTES = 12


class MasterKey(ABC):
    """Wraps and unwraps the key of a key store; asked once for each process that opens the store."""

    @abstractmethod
    def wrap(self, key: bytes) -> bytes:
        """Return a key encrypted with the master key. Raises: LogUnavailable, WiringError."""

    @abstractmethod
    def unwrap(self, wrapped: bytes) -> bytes:
        """Return a key that was wrapped. Raises: WiringError for another master key's; LogUnavailable."""


class FileMaster(MasterKey):
    """A master key in a file that only its owner can read: base64 of 32 random bytes.

    Raises: WiringError when the file is missing, readable by others, or no key.
    """

    def __init__(self, path: Path) -> None:
        secret = read_secret(path, "master key")
        self._path = path
        self._aead = AESGCM(secret)

    def wrap(self, key: bytes) -> bytes:
        """See `MasterKey.wrap`."""
        nonce = token_bytes(_NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, key, None)

    def unwrap(self, wrapped: bytes) -> bytes:
        """See `MasterKey.unwrap`."""
        try:
            return self._aead.decrypt(wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:], None)
        except InvalidTag as error:
            raise WiringError(f"{self._path} is not the master key that these personal keys were made with") from error


class VaultMaster(MasterKey):
    """A key of Vault's transit engine, `https://HOST:PORT/MOUNT/KEY`; the key itself never leaves Vault."""

    def __init__(self, url: str, token: str | None) -> None:
        address, _, name = url.rstrip("/").rpartition("/")
        server, _, mount = address.rpartition("/")
        if not name or not mount or server.count("/") < 2:  # noqa: PLR2004  the two of https://
            raise WiringError(f"the master key {url!r} names no transit key: write https://HOST:PORT/transit/KEY")
        if not token:
            raise WiringError("the master key is in Vault: set EVENTLIB_PERSONAL_VAULT_TOKEN")
        warn_of_plaintext("EVENTLIB_PERSONAL_VAULT_TOKEN", url, "give Vault's https:// URL")
        self._path = f"{server}/v1/{mount}/%s/{name}"
        self._headers = {"X-Vault-Token": token}

    def wrap(self, key: bytes) -> bytes:
        """See `MasterKey.wrap`."""
        return self._ask("encrypt", {"plaintext": b64encode(key).decode()}, "ciphertext").encode()

    def unwrap(self, wrapped: bytes) -> bytes:
        """See `MasterKey.unwrap`."""
        return b64decode(self._ask("decrypt", {"ciphertext": wrapped.decode()}, "plaintext"))

    def _ask(self, action: str, body: dict[str, str], wanted: str) -> str:
        import httpx

        url = self._path % action
        try:
            answer = httpx.post(url, json=body, headers=self._headers, timeout=10)
        except httpx.HTTPError as error:
            raise LogUnavailable(f"Vault at {url} does not answer: {error}") from error
        if answer.status_code >= 500 or answer.status_code == 429:  # noqa: PLR2004  what may pass
            raise LogUnavailable(f"Vault at {url} answers {answer.status_code}")
        try:
            return str(answer.raise_for_status().json()["data"][wanted])
        except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
            raise WiringError(
                f"Vault at {url} refuses ({answer.status_code}): check the key's name and the token"
            ) from error
