"""The versions of tables on an object store: a pointer to those that are kept, and a manifest of each.

`DIR/current.json` names the kept versions, the current one last. It is written only if it is still what its writer has
seen, so that of two rebuilds one publishes. All else has a name that is used once, and is never changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pydantic import BaseModel, ConfigDict

from analytics.stores.manifest import MANIFEST, VERSIONS, Manifest
from eventlib.errors import LogCorrupt
from eventlib.ground.object_store import ObjectStore
from eventlib.log.archive.files import parse_manifest

POINTER = "current.json"
_REMEDY = "; rebuild with --full to another directory"


class Pointer(BaseModel):
    """The kept versions by their directories, such as `0000000005-3f9a01c2`; the current one is the last."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = 1
    versions: tuple[str, ...] = ()


class ObjectManifest(Manifest):
    """A manifest that names what its tables are made of, relative to DIR: Parquet files, or Iceberg's metadata."""

    files: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class StoredVersion:
    """A version on an object store."""

    store: ObjectStore
    directory: str

    @property
    def name(self) -> str:
        """Its number, in ten digits."""
        return self.directory.partition("-")[0]

    @cached_property
    def manifest(self) -> ObjectManifest:
        """Its manifest. Raises: LogCorrupt, LogVersionMismatch; as the store does."""
        key = manifest_key(self.directory)
        try:
            content, _ = self.store.get(key)
        except FileNotFoundError as error:
            raise LogCorrupt(f"the manifest {self.store.address(key)} is gone{_REMEDY}") from error
        return parse_manifest(
            ObjectManifest, content, self.store.address(key), f"the tables in {self.store} were", _REMEDY
        )

    def addresses(self, table: str) -> list[str]:
        """Return the URLs of what a table is made of, one for readers or a hidden one."""
        return [self.store.address(key) for key in self.manifest.files[table]]


def manifest_key(directory: str) -> str:
    """Return the key of a version's manifest."""
    return f"{VERSIONS}/{directory}/{MANIFEST}"


def read_pointer(store: ObjectStore) -> tuple[Pointer, str | None]:
    """Return which versions there are, and the tag to replace that by; None without any.

    Raises: LogCorrupt, LogVersionMismatch; as the store does.
    """
    try:
        content, tag = store.get(POINTER)
    except FileNotFoundError:
        return Pointer(), None
    return parse_manifest(Pointer, content, store.address(POINTER), f"the tables in {store} were", _REMEDY), tag


def stored_versions(store: ObjectStore) -> list[StoredVersion]:
    """Return the versions that can be read, the current one last."""
    return [StoredVersion(store, directory) for directory in read_pointer(store)[0].versions]
