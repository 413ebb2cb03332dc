"""Objects below a prefix of a bucket: on Amazon S3, or on any store that speaks its protocol and has conditional writes."""

import io
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from eventlib.errors import OwnershipLost, WiringError

if TYPE_CHECKING:
    from eventlib.ground.s3 import Client

SCHEME = "s3a://"
_IS_URL = re.compile(r"s3a?://(?P<bucket>[a-z0-9][a-z0-9.-]+)/(?P<prefix>[^/?#].*)")


class ObjectStore:
    """The objects below `s3a://BUCKET/DIR`; keys are relative to it.

    Endpoint, region and credentials come from the SDK's own variables: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and so on.
    Each method raises: LogUnavailable when the store does not answer; LogDenied; WiringError for a bucket that is not there.
    """

    def __init__(self, url: str) -> None:
        found = _IS_URL.fullmatch(url.rstrip("/"))
        if found is None:
            raise WiringError(f"{url} names no directory of a bucket: write s3a://BUCKET/DIR")
        self.bucket, self.prefix = found["bucket"], found["prefix"]

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStore) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    @cached_property
    def _client(self) -> "Client":
        try:
            from eventlib.ground.s3 import Client
        except ModuleNotFoundError as error:
            raise WiringError(f"{self} needs the package {error.name}: install eventlib-sagas[s3]") from error
        return Client(self.bucket, str(self))

    def address(self, key: str) -> str:
        """Return an object's URL, for engines."""
        return f"{self}/{key}"

    def key_of(self, address: str) -> str:
        """Return the key of an object here that an engine has named."""
        return address.removeprefix(f"{self}/")

    def get(self, key: str) -> tuple[bytes, str]:
        """Return an object's content, and the tag of this state of it. Raises: FileNotFoundError."""
        return self._client.get(self._full(key))

    def put(self, key: str, content: bytes) -> None:
        """Write an object, whole or not at all."""
        self._client.put(self._full(key), content)

    def replace(self, key: str, content: bytes, tag: str | None) -> str:
        """Write an object if it is still as a tag says, or if it is not there (None); return its new tag.

        Guarantee: of several writers that have seen the same state one succeeds. Contents that are written must differ.
        Raises: OwnershipLost when another one was faster.
        """
        replaced = self._client.replace(self._full(key), content, tag)
        if replaced is None:
            raise OwnershipLost(f"another process has written {self.address(key)} meanwhile")
        return replaced

    def upload(self, path: Path, key: str) -> None:
        """Write a file as an object."""
        self._client.upload(path, self._full(key))

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """Return the sizes in bytes of the objects whose keys begin with `prefix`."""
        skipped = len(self._full(""))
        return {key[skipped:]: size for key, size in self._client.listed(self._full(prefix))}

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is not there is deleted already."""
        self._client.delete([self._full(key) for key in keys])

    def open(self, key: str) -> io.BufferedReader:
        """Open an object to read parts of it. Raises: FileNotFoundError."""
        return io.BufferedReader(self._client.open(self._full(key)), 1 << 16)

    def _full(self, key: str) -> str:
        return f"{self.prefix}/{key}"


Place = Path | ObjectStore
"""A directory, or one on a store."""


def is_store(text: str) -> bool:
    """Return whether a text names an object store."""
    return text.startswith((SCHEME, "s3://"))
