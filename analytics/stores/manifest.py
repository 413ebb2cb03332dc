"""A version's manifest: the catalogue of its tables, and where on the log they end.

`DIR/current` is a link to the version whose manifest counts: the one rename that replaces it changes all tables at once,
whatever format they have.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from eventlib.errors import LogCorrupt
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


def kept(place: Path) -> list[Path]:
    """Return the directories of the versions that can be read, the current one last."""
    newest = current(place)
    if newest is None:
        return []
    return [path for path in sorted(newest.parent.iterdir()) if path.name <= newest.name and (path / MANIFEST).exists()]
