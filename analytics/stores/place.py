"""Where tables are: a directory, or a prefix of a bucket on an object store."""

from pathlib import Path

from eventlib.errors import WiringError
from eventlib.object_store import ObjectStore

Place = Path | ObjectStore


def place_of(text: str) -> Place:
    """Return the place that a command names. Raises: WiringError for a URL that is none of an object store."""
    if text.startswith(("s3a:", "s3:")):
        return ObjectStore(text)
    if "://" in text:
        raise WiringError(f"{text} is neither a directory nor s3a://BUCKET/DIR")
    return Path(text)


def store_of(place: Place | None) -> str | None:
    """Return what a session needs to reach a place, beside what its format needs; None for a directory."""
    return "s3a" if isinstance(place, ObjectStore) else None
