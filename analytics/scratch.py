"""A temporary directory of this process: deleted when it ends; if it was killed, when the next one starts."""

import atexit
import os
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from eventlib.ground.posix import fcntl

_PREFIX = "analytics-"
_LOCK = ".lock"


@cache
def scratch() -> Path:
    """Return the directory, under TMPDIR. Directories of killed processes are deleted first."""
    for left in Path(gettempdir()).glob(f"{_PREFIX}*"):
        _delete_unless_held(left)
    place = Path(mkdtemp(prefix=_PREFIX))
    unlocked = place / f"{_LOCK}.new"
    # Open until the process ends: the lock shows others that this process is alive.
    fcntl.flock(os.open(unlocked, os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)
    unlocked.rename(place / _LOCK)
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def _delete_unless_held(place: Path) -> None:
    with suppress(OSError):  # locked, another user's, or just being created
        handle = os.open(place / _LOCK, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place, ignore_errors=True)
        finally:
            os.close(handle)
