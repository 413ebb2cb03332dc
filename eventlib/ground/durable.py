"""Files that count once they are on the disk: who may write them, and the sums that tell whether they are what was written."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eventlib.errors import LogUnavailable
from eventlib.ground.posix import fcntl
from eventlib.ground.private_files import make_private_directory


@contextmanager
def alone(place: Path, does: str) -> Iterator[None]:
    """Be the only process on this machine that `does` something in a directory. Raises: LogUnavailable; OSError."""
    make_private_directory(place)
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LogUnavailable(f"another process {does} {place} just now: wait until that has ended") from error
        yield
    finally:
        os.close(handle)


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
