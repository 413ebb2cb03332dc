"""Where the tables stand: in versions of which one counts, all of its tables at one moment.

`DIR/orders` leads by a link to `DIR/current/orders`, and `DIR/current` to the version that counts. A version is never
changed; what it shares with the one before are the same files under two names.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Self

import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict
from pyspark.sql import DataFrame, SparkSession

from analytics.rebuilding.merging import merge_small
from eventlib.durable import settle
from eventlib.errors import LogCorrupt, LogUnavailable
from eventlib.log.archive.files import Lost, parsed_manifest
from eventlib.log.base import TopicPartition

FORMAT = 1

GROWING = ("order_lines", "stock_movements", "saga_steps")
"""Tables to which rows are only added."""

WHOLE = ("orders", "payments", "dispatches", "saga_outcomes", "stock_levels")
"""Tables that each version has anew."""

TABLES = (*WHOLE, *GROWING)
KEPT = "kept"
"""What is kept of each order, from which the next version goes on: no table to be read."""

_PLAIN = {f"parquet.enable.dictionary#{column}": "false" for column in ("id", "causation_id", "correlation_id")}
"""For columns of which Parquet would make a dictionary only to find that it does not pay."""

_MANIFEST = "manifest.json"
_SCRATCH = "scratch"


class Manifest(BaseModel):
    """What a version is made of: whose log, of which definition, up to where, and as of when if not to its end.

    `dropped` is what the log did not have any more, so that the tables are incomplete.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    number: int
    definition: int
    log_id: str
    log_url: str
    as_of_ms: int | None = None
    topics: Mapping[str, tuple[int, ...]]
    rows: Mapping[str, int]
    dropped: tuple[Lost, ...] = ()

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Up to where each partition is in the tables."""
        return {(name, i): end for name, ends in self.topics.items() for i, end in enumerate(ends)}


class Version:
    """A version that is being made, beside the one that counts."""

    def __init__(self, place: Path, number: int) -> None:
        self.place = place.absolute()
        self.number = number
        self.path = self.place / "versions" / f"{number:010}"
        self._delete()  # what a run has left that was killed
        # Not where a killed run's Spark, which ends a moment after it, may still be writing.
        self.scratch = self.place / _SCRATCH / token_hex(4)
        self.path.mkdir(parents=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Leave nothing of a version that is not to be."""
        if kind is not None:
            self._delete()

    def _delete(self) -> None:
        for made in (self.path, self.place / _SCRATCH):
            shutil.rmtree(made, ignore_errors=True)

    def stage(self, name: str, rows: DataFrame) -> DataFrame:
        """Write rows to be read again before the version counts, and return them as they stand there."""
        path = str(self.scratch / name)
        rows.write.options(**_PLAIN).parquet(path)
        return rows.sparkSession.read.schema(rows.schema).parquet(path)

    def write(self, table: str, rows: DataFrame, before: Path | None = None) -> DataFrame:
        """Write a table, after the rows that it had `before`; return the rows that were written."""
        self.stage(table, rows)
        target = self.path / table
        target.mkdir()
        for file in sorted(before.glob("*.parquet")) if before else ():
            os.link(file, target / file.name)
        for i, file in enumerate(sorted((self.scratch / table).glob("*.parquet"))):
            file.rename(target / f"{self.number:010}-{i:05}.parquet")
        return rows.sparkSession.read.schema(rows.schema).parquet(
            *(str(path) for path in sorted(target.glob(f"{self.number:010}-*.parquet")))
        )

    def rows(self) -> dict[str, int]:
        """Return how many rows each table has."""
        files = {table: (self.path / table).glob("*.parquet") for table in TABLES}
        return {table: sum(pq.read_metadata(file).num_rows for file in found) for table, found in files.items()}

    def commit(self, manifest: Manifest, keep: int) -> None:
        """Let the version count, and delete all but so many of the newest ones.

        Guarantee: all of it is on the disk before it does.
        """
        for table in GROWING:
            merge_small(self.path / table, f"{self.number:010}")
        (self.path / _MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
        for path in self.path.rglob("*"):
            settle(path)
        settle(self.path)
        settle(self.path.parent)
        _link(self.place / "current", Path("versions") / self.path.name)
        for table in TABLES:
            if not (self.place / table).is_symlink():
                _link(self.place / table, Path("current") / table)
        settle(self.place)
        shutil.rmtree(self.place / _SCRATCH, ignore_errors=True)
        for old in sorted((self.place / "versions").iterdir())[:-keep]:
            shutil.rmtree(old, ignore_errors=True)


def _link(path: Path, target: Path) -> None:
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target)
    unfinished.replace(path)


def current(place: Path) -> Path | None:
    """Return the directory of the version that counts, None when there is none."""
    link = place / "current"
    return link.resolve() if link.is_symlink() else None


def read_manifest(version: Path) -> Manifest:
    """Return what a version is made of. Raises: LogCorrupt, LogVersionMismatch."""
    path = version / _MANIFEST
    remedy = "; rebuild with --full"
    try:
        return parsed_manifest(Manifest, path, f"the tables in {version} were", remedy)
    except OSError as error:
        raise LogCorrupt(f"the manifest {path} is damaged: {error}{remedy}") from error


def tables(spark: SparkSession, place: Path) -> dict[str, DataFrame]:
    """Return the tables of the version that counts now, by name. Raises: LogUnavailable when there are none."""
    version = current(place)
    if version is None:
        raise LogUnavailable(
            f"there are no tables in {place}: `python -m analytics rebuild --log URL --out {place}` makes them"
        )
    return {table: spark.read.parquet(str(version / table)) for table in TABLES}
