"""A version's manifest: the catalogue of its tables, and where on the log they end.

`DIR/current` is a link to the version whose manifest counts: the one rename that replaces it changes all tables at once,
whatever format they have.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from eventlib.errors import LogCorrupt, LogUnavailable, WiringError
from eventlib.log.archive.files import Lost, parsed_manifest
from eventlib.log.base import TopicPartition

FORMAT = 2

TableFormat = Literal["parquet", "iceberg", "delta"]

MANIFEST = "manifest.json"
CURRENT = "current"
VERSIONS = "versions"


class Manifest(BaseModel):
    """A version's origin: its log, table definitions and end offsets, and as of when if not up to the log's end.

    `dropped` are the records that the log no longer had, so that the tables are incomplete; `select` the tables that were
    asked for, if not all; `snapshots` Iceberg's snapshot or Delta's version of each table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    number: int
    definition: int | str
    log_id: str
    log_url: str
    as_of_ms: int | None = None
    topics: Mapping[str, tuple[int, ...]]
    rows: Mapping[str, int]
    dropped: tuple[Lost, ...] = ()
    select: tuple[str, ...] = ()
    table_format: TableFormat = "parquet"
    snapshots: Mapping[str, int] = {}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The tables' end in each partition."""
        return {(name, i): end for name, ends in self.topics.items() for i, end in enumerate(ends)}


def current(place: Path) -> Path | None:
    """Return the directory of the current version, None when there is none."""
    link = place / CURRENT
    return link.resolve() if link.is_symlink() else None


def read_manifest(version: Path) -> Manifest:
    """Return a version's manifest. Raises: LogCorrupt, LogVersionMismatch."""
    path = version / MANIFEST
    remedy = "; rebuild with --full"
    try:
        return parsed_manifest(Manifest, path, f"the tables in {version} were", remedy)
    except OSError as error:
        raise LogCorrupt(f"the manifest {path} is damaged: {error}{remedy}") from error


def needed(place: Path) -> Path:
    """Return the directory of the current version. Raises: LogUnavailable when there is none."""
    version = current(place)
    if version is None:
        raise LogUnavailable(
            f"there are no tables in {place}: `python -m analytics rebuild --log URL --out {place}` creates them"
        )
    return version


def format_of(place: Path) -> TableFormat | None:
    """Return the format of the tables in a directory, None when there are none."""
    version = current(place)
    return None if version is None else read_manifest(version).table_format


def kept(place: Path) -> list[Path]:
    """Return the directories of the versions that can be read, the current one last."""
    newest = needed(place)
    return [path for path in sorted(newest.parent.iterdir()) if path.name <= newest.name and (path / MANIFEST).exists()]


def version_at(place: Path, number: int | None = None, ends: Mapping[TopicPartition, int] | None = None) -> Path:
    """Return a kept version: by its number, or the newest that ends in no partition after one of `ends`.

    Raises: LogUnavailable without tables; WiringError when no such version is kept.
    """
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
