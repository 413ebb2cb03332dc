"""A temporary directory of this process: gone when it ends; if it was killed, when the next one begins."""

import atexit
import fcntl
import os
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp

_PREFIX = "analytics-"
_LOCK = ".lock"


@cache
def scratch() -> Path:
    """Return the directory; TMPDIR says where such are made. What killed processes have left is deleted first."""
    for left in Path(gettempdir()).glob(f"{_PREFIX}*"):
        _delete_unless_held(left)
    place = Path(mkdtemp(prefix=_PREFIX))
    unlocked = place / f"{_LOCK}.new"
    # Open until the process ends: that it is locked tells others that this one lives.
    fcntl.flock(os.open(unlocked, os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)
    unlocked.rename(place / _LOCK)
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def _delete_unless_held(place: Path) -> None:
    with suppress(OSError):  # held, another user's, or just being made
        handle = os.open(place / _LOCK, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place, ignore_errors=True)
        finally:
            os.close(handle)
