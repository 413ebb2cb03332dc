"""Places where writing fails for real: a tiny file system, and read-only ones. They need root; others skip."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def tiny_file_system(place: Path, size: str) -> Iterator[Path]:
    """A file system in memory of just this size."""
    place.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    try:
        yield place
    finally:
        _unmount(place)


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Let a file or a directory be read-only, also for root."""
    if os.geteuid() != 0:
        mode = place.stat().st_mode
        place.chmod(mode & ~0o222)
        try:
            yield
        finally:
            place.chmod(mode)
        return
    _mount("--bind", str(place), str(place))
    try:
        _mount("-o", "remount,ro,bind", str(place))
        yield
    finally:
        _unmount(place)


def _mount(*arguments: str) -> None:
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


def _unmount(place: Path) -> None:
    subprocess.run(["umount", "-l", str(place)], check=True)
