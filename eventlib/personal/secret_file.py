"""Secret keys in files: 32 random bytes as base64, readable by the file's owner only."""

from base64 import b64decode, b64encode
from pathlib import Path
from secrets import token_bytes

from eventlib.errors import WiringError
from eventlib.ground.private_files import write_private

_KEY_BYTES = 32
_OTHERS = 0o077


def read_secret(path: Path, what: str) -> bytes:
    """Return the key in a file. Raises: WiringError when it is missing, no key, or readable by others than its owner."""
    try:
        mode, text = path.stat().st_mode, path.read_text("ascii")
    except FileNotFoundError as error:
        raise WiringError(f"there is no {what} at {path}: `eventlib subjects master {path}` makes one") from error
    except (OSError, UnicodeDecodeError) as error:
        raise WiringError(f"the {what} {path} cannot be read: {error}") from error
    if mode & _OTHERS:
        raise WiringError(f"the {what} {path} can be read by others: make another one, and `chmod 600` it")
    try:
        secret = b64decode(text.strip(), validate=True)
    except ValueError:
        secret = b""
    if len(secret) != _KEY_BYTES:
        raise WiringError(f"the {what} {path} is not base64 of {_KEY_BYTES} bytes")
    return secret


def create_secret(path: Path) -> None:
    """Write a new key, durable and readable by its owner only. Raises: WiringError when the file exists."""
    try:
        write_private(path, b64encode(token_bytes(_KEY_BYTES)).decode() + "\n", replace=False)
    except FileExistsError as error:
        raise WiringError(
            f"{path} exists: a key is never replaced, since what it has encrypted would be lost"
        ) from error
    except OSError as error:
        raise WiringError(f"{path} cannot be written: {error}") from error
