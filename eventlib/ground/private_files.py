"""Files and directories that only the user who runs this process may read: what they hold is what events hold."""

import os
from contextlib import suppress
from pathlib import Path


def make_private_directory(directory: Path) -> None:
    """Make a directory, and those above it that are missing, with mode 0700. Raises: OSError."""
    if not directory.is_dir():
        make_private_directory(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def create_private(path: Path) -> None:
    """Create a file with mode 0600 where there is none; SQLite gives its -wal and -shm the same.

    A file that cannot be created is left to the one who opens it, and reports why.
    """
    if not path.exists():
        with suppress(OSError):
            path.touch(mode=0o600)


def write_private(path: Path, text: str, *, replace: bool = True) -> None:
    """Write a file with mode 0600, and the directories above it that are missing.

    Guarantee: it is durable when this returns, and others see all of it or, before, what was there.
    Raises: FileExistsError where there is a file, unless it is to be replaced; OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)  # what an interrupted call has left may have another mode
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        if replace:
            beside.replace(path)
        else:
            path.hardlink_to(beside)
    finally:
        beside.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
