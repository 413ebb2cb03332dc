"""Files that operators change while a process runs: read again when they have changed."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Generic, TypeVar

from eventlib.errors import WiringError

T = TypeVar("T")

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0


class WatchedFile(Generic[T]):
    """The contents of a file, as `read` returns them; a file that is invalid for the moment changes nothing, and is reported.

    `kept` says what goes on then. Raises: what `read` raises, at first.
    """

    def __init__(self, path: Path, read: Callable[[Path], T], kept: str) -> None:
        self._path = path
        self._read = read
        self._kept = kept
        self._seen = version_of(path)
        self._content = read(path)
        self._looked_at = monotonic()

    @property
    def content(self) -> T:
        """The contents of the file, as of a second ago at most."""
        now = monotonic()
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            if (seen := version_of(self._path)) != self._seen:
                self._seen = seen
                try:
                    self._content = self._read(self._path)
                except WiringError as error:
                    _log.error("%s: %s", self._kept, error)
        return self._content


def version_of(path: Path) -> tuple[int, ...]:
    """Return what differs when a file has been changed or replaced, or its mode has; nothing where there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def read_trusted(path: Path, what: str, remedy: str) -> str:
    """Return the text of a file that only its owner may write to; `what` names it. Raises: WiringError."""
    try:
        text, mode = path.read_text(), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise WiringError(f"{what} {path} cannot be read ({reason}): {remedy}") from error
    if os.name == "posix" and mode & 0o022:
        raise WiringError(f"everyone in a group, or everyone, may write to {what} {path}: `chmod 600 {path}`")
    return text
