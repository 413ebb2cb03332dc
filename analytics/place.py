"""Where tables and archives are: in a directory, or below a prefix of a bucket on an object store."""

import os
from pathlib import Path

from eventlib.errors import WiringError
from eventlib.ground.object_store import ObjectStore, Place, is_store
from eventlib.log.archive.place import is_stored


def place_named(text: str) -> Place:
    """Return the place that a command names. Raises: WiringError for a URL that is none of an object store."""
    if is_store(text):
        return ObjectStore(text)
    if ":/" in text:
        raise WiringError(f"{text} is neither a directory nor s3a://BUCKET/DIR")
    return Path(text)


def store_of(*named: Place | str | None) -> str | None:
    """Return what a session needs beside what a format needs: where one of these places, or logs, is on a store."""
    stored = any(is_stored(each) if isinstance(each, str) else isinstance(each, ObjectStore) for each in named)
    return "s3a" if stored else None


def store_settings() -> dict[str, str]:
    """Return Spark's settings of where stores are; it reads the credentials from their variables, and shows them nowhere."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    found = {"endpoint": endpoint, "endpoint.region": region, "path.style.access": "true" if endpoint else None}
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in found.items() if value}
