"""Files that have to be on the disk before something counts, and the sums that tell whether they are what was written."""

import hashlib
import os
from pathlib import Path


def settle(path: Path) -> None:
    """See to it that a file's content, or a directory's entries, are on the disk. Raises: OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file (64 hex digits). Raises: OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
