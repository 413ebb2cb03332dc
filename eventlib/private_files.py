"""Files and directories that only the user who runs this process may read: what they hold is what events hold."""

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
