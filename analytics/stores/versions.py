"""Which versions of the tables there are, wherever these are."""

from collections.abc import Mapping
from pathlib import Path

from analytics.stores import manifest
from analytics.stores.manifest import Manifest, TableFormat
from analytics.stores.pointer import StoredVersion, stored_versions
from eventlib.errors import LogUnavailable, WiringError
from eventlib.ground.object_store import ObjectStore, Place
from eventlib.log.base import TopicPartition

VersionPlace = Path | StoredVersion
"""A version that is there: its name is its number, in ten digits."""


def kept(place: Place) -> list[VersionPlace]:
    """Return the versions that can be read, the current one last."""
    return [*(stored_versions(place) if isinstance(place, ObjectStore) else manifest.kept(place))]


def current(place: Place) -> VersionPlace | None:
    """Return the current version, None when there is none."""
    if isinstance(place, Path):
        return manifest.current(place)
    return next(iter(stored_versions(place)[-1:]), None)


def read_manifest(version: VersionPlace) -> Manifest:
    """Return a version's manifest. Raises: LogCorrupt, LogVersionMismatch."""
    return manifest.read_manifest(version) if isinstance(version, Path) else version.manifest


def needed(place: Place) -> VersionPlace:
    """Return the current version. Raises: LogUnavailable when there is none."""
    version = current(place)
    if version is None:
        raise LogUnavailable(
            f"there are no tables in {place}: `python -m analytics rebuild --log URL --out {place}` creates them"
        )
    return version


def format_of(place: Place) -> TableFormat | None:
    """Return the format of the tables in a place, None when there are none."""
    version = current(place)
    return None if version is None else read_manifest(version).table_format


def version_at(
    place: Place, number: int | None = None, ends: Mapping[TopicPartition, int] | None = None
) -> VersionPlace:
    """Return a kept version: by its number, or the newest that ends in no partition after one of `ends`.

    Raises: LogUnavailable without tables; WiringError when no such version is kept.
    """
    needed(place)
    versions = kept(place)
    if number is not None:
        found = [path for path in versions if int(path.name) == number]
    elif ends is not None:
        found = [path for path in versions if _is_within(read_manifest(path).ends, ends)]
    else:
        found = versions
    if not found:
        there = ", ".join(str(int(path.name)) for path in versions)
        what = f"version {number}" if number is not None else "no version that ends at or before these offsets"
        raise WiringError(
            f"{place} {'does not have' if number is not None else 'has'} {what}: kept are {there}; "
            "`rebuild --keep N` keeps more, and `rebuild --as-of` makes an older one elsewhere"
        )
    return found[-1]


def _is_within(there: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
    """Return whether no named partition ends later; with an unknown partition, nothing is said about it."""
    return all(there.get(place, 0) <= end for place, end in ends.items())
