"""Compares an archive's files with what its manifest says of them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from eventlib.ground.durable import sha256_of
from eventlib.ground.object_store import Place
from eventlib.log.archive.files import DataFile, Manifest


def changed_files(place: Place, manifest: Manifest) -> Iterator[tuple[DataFile, str]]:
    """Yield an archive's damaged files, with what is wrong with each; all are read."""
    for file in manifest.files:
        try:
            size, found = _measured(place, file.path)
        except OSError as error:
            yield file, f"it cannot be read: {error.strerror or error}"
            continue
        if size != file.bytes:
            yield file, f"it has {size:,} bytes, and had {file.bytes:,} when it was archived"
        elif file.sha256 not in {"", found}:
            yield file, "its SHA-256 is not that of what was archived"


def _measured(place: Place, path: str) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file. Raises: OSError."""
    if isinstance(place, Path):
        return (place / path).stat().st_size, sha256_of(place / path)
    with place.open(path) as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), found
