"""Where an archive is: a directory, or a prefix of a bucket on an object store."""

from pathlib import Path
from typing import IO

from eventlib.ground.object_store import ObjectStore, Place, is_store

SCHEME = "archive:"


def place_of(url: str) -> Place:
    """Return the place in `archive:DIR` or `archive:s3a://BUCKET/DIR`, absolute. Raises: WiringError."""
    named = url.removeprefix(SCHEME)
    return ObjectStore(named) if is_store(named) else Path(named).absolute()


def is_stored(url: str) -> bool:
    """Return whether a log is an archive on an object store."""
    return url.startswith(SCHEME) and is_store(url.removeprefix(SCHEME))


def located(place: Place, path: str) -> str:
    """Return the full name of a file of an archive."""
    return place.address(path) if isinstance(place, ObjectStore) else str(place / path)


def opened(place: Place, path: str) -> Path | IO[bytes]:
    """Return what Parquet's reader takes for a file of an archive. Raises: OSError; as the store does."""
    return place.open(path) if isinstance(place, ObjectStore) else place / path
