"""Tables on an object store, which has neither links nor renames: what is written is referred to where it is.

A run writes all it makes below names of its own, and publishes it by one conditional write of the pointer. What no kept
version refers to does not count: the next run that publishes deletes it.
"""

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from analytics.stores.manifest import VERSIONS, Manifest
from analytics.stores.merging import small_files, write_as_one
from analytics.stores.pointer import (
    POINTER,
    ObjectManifest,
    Pointer,
    StoredVersion,
    manifest_key,
    read_pointer,
    stored_versions,
)
from analytics.stores.version import Told, Version
from eventlib.errors import EventlibError, LogUnavailable, OwnershipLost
from eventlib.ground.object_store import ObjectStore

DATA = "data"


class PublishedObjects:
    """A version that is there: its tables never change."""

    def __init__(self, spark: SparkSession, version: StoredVersion) -> None:
        self._spark, self.version = spark, version

    @property
    def manifest(self) -> ObjectManifest:
        """Its manifest. Raises: LogCorrupt, LogVersionMismatch."""
        return self.version.manifest

    def has(self, table: str) -> bool:
        """Return whether it has a table, one for readers or a hidden one."""
        return table in self.manifest.files

    def read(self, table: str) -> DataFrame:
        """Return all rows of a table."""
        there = self.version.addresses(table)
        if self.manifest.table_format == "iceberg" and table in self.manifest.rows:
            return self._spark.read.format("iceberg").load(*there)
        return self._spark.read.parquet(*there)


class ObjectVersion(Version[PublishedObjects]):
    """A version on an object store."""

    def __init__(self, spark: SparkSession, place: ObjectStore, number: int, before: StoredVersion | None) -> None:
        self.spark, self.place, self.number = spark, place, number
        self.directory = f"{number:010}-{token_hex(4)}"
        self.before = None if before is None else PublishedObjects(spark, before)
        self._pointer, self._tag = read_pointer(place)
        if self._newest != number - 1:  # since the caller has looked
            raise self._overtaken()
        self._files = dict[str, tuple[str, ...]]()
        self._hidden = set[str]()
        self._grown = set[str]()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Name the cause of a failure if it is that another run has published, and has deleted what this one wrote."""
        if isinstance(error, Exception) and self._is_overtaken():
            raise self._overtaken() from error

    @property
    def _newest(self) -> int:
        there = self._pointer.versions
        return int(StoredVersion(self.place, there[-1]).name) if there else 0

    def _is_overtaken(self) -> bool:
        try:
            return read_pointer(self.place)[1] != self._tag
        except EventlibError:  # the run's own error is the one to report
            return False

    def _overtaken(self) -> LogUnavailable:
        return LogUnavailable(
            f"another process has rebuilt in {self.place} meanwhile: what this one made is discarded; let one rebuild at a time"
        )

    # --- what a rebuild writes

    def read(self, table: str) -> DataFrame:
        """Return all rows of a table that was written."""
        return self.spark.read.parquet(*map(self.place.address, self._files[table]))

    def keep(self, table: str, *, hidden: bool = False) -> None:
        """Take a table as it is in the version before, which there has to be."""
        self._note(table, hidden=hidden)
        self._files[table] = self._kept(table)

    def _kept(self, table: str) -> tuple[str, ...]:
        return self.before.manifest.files[table] if self.before is not None and self.before.has(table) else ()

    def _note(self, table: str, *, hidden: bool) -> None:
        if hidden:
            self._hidden.add(table)

    def _staged(self, name: str) -> str:
        return f"{DATA}/{self.directory}/{name}"

    def _scratch(self, name: str) -> str:
        return self.place.address(self._staged(name))

    def _take_files(self, table: str, rows: DataFrame, staged: str, *, grows: bool, hidden: bool) -> DataFrame:
        made = tuple(sorted(key for key in self.place.sizes(f"{self._staged(staged)}/") if key.endswith(".parquet")))
        self._note(table, hidden=hidden)
        if grows:
            self._grown.add(table)
        self._files[table] = (*(self._kept(table) if grows else ()), *made)
        return rows.sparkSession.read.schema(rows.schema).parquet(*map(self.place.address, made))

    # --- what makes it current

    def rows(self) -> dict[str, int]:
        """Return how many rows each table for readers has."""
        return {table: self._count(table) for table in self._files if table not in self._hidden}

    def _count(self, table: str) -> int:
        """Count the rows of new files; those of the files before are known."""
        before = self._kept(table)
        rest = self._files[table]
        if self.before is None or not before or rest[: len(before)] != before:
            return sum(map(self._rows_in, rest))
        return self.before.manifest.rows[table] + sum(map(self._rows_in, rest[len(before) :]))

    def _rows_in(self, key: str) -> int:
        with self.place.open(key) as file:
            return int(pq.read_metadata(file).num_rows)

    def commit(self, manifest: Manifest, keep: int, told: Told = lambda _: None) -> Manifest:
        """Make the version current, and delete all but the `keep` newest ones; return its manifest.

        Guarantee: all of it is on the store before it becomes current; killed at any moment, this leaves the version before or
        this one, and what is left over is deleted by the next. Raises: LogUnavailable when another run has published meanwhile.
        """
        told("merging small files")
        for table in sorted(self._grown):
            self._compact_table(table)
        versions = (*self._pointer.versions, self.directory)[-keep:]
        self._trim([StoredVersion(self.place, each) for each in versions[:-1]])
        found = manifest.model_copy(update={"snapshots": self.snapshots()}).model_dump()
        complete = ObjectManifest(**found, files=self._files)
        told("publishing")
        self.place.put(manifest_key(self.directory), _text(complete))
        try:
            self._tag = self.place.replace(POINTER, _text(Pointer(versions=versions)), self._tag)
        except OwnershipLost as error:
            raise self._overtaken() from error
        told("deleting old versions")
        self._sweep(stored_versions(self.place))
        return complete

    def _compact_table(self, table: str) -> None:
        sizes = {key: size for key, size in self.place.sizes(f"{DATA}/").items() if key in self._files[table]}
        for about, files in small_files({key: sizes[key] for key in self._files[table]}):
            key = self._staged(f"{table}-merged{about}.parquet")
            with TemporaryDirectory(prefix="merging-") as scratch:
                merged = Path(scratch) / "merged.parquet"
                write_as_one([self.place.open(each) for each in files], merged)
                self.place.upload(merged, key)
            self._files[table] = (*(each for each in self._files[table] if each not in files), key)

    def _trim(self, others: list[StoredVersion]) -> None:
        """Leave out of the tables what neither this version needs nor the others that are kept."""

    def _sweep(self, kept: list[StoredVersion]) -> None:
        """Delete what no kept version refers to, and no run that may still publish: that has a later number."""
        if self.directory not in {version.directory for version in kept}:
            return  # another run has published since, and deletes what it does not need
        needed = {key for version in kept for key in self._needed_by(version)}
        there = {**self.place.sizes(f"{VERSIONS}/"), **self.place.sizes(f"{DATA}/")}
        later = f"{self.number + 1:010}"
        self.place.delete(sorted(key for key in there.keys() - needed if key.split("/")[1] < later))

    def _needed_by(self, version: StoredVersion) -> Iterator[str]:
        """Yield the keys of what a version is made of."""
        yield manifest_key(version.directory)
        for files in version.manifest.files.values():
            yield from files


def _text(model: Manifest | Pointer) -> bytes:
    return model.model_dump_json(indent=1).encode() + b"\n"
