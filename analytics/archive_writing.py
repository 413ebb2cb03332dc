"""Writes an archive's files: one per topic and date of a run, rows in order of partition and offset."""

import shutil
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eventlib.ground.durable import settle, sha256_of
from eventlib.ground.object_store import Place
from eventlib.ground.private_files import create_private, make_private_directory
from eventlib.log.archive.files import HEADERS, SCHEMA, DataFile, Span
from eventlib.model.record import Record

GROUP_ROWS = 16_384
"""Rows of a row group: as many as a reader holds at once for each partition that it reads."""

_GROUP_BYTES = 32_000_000
_OPEN_AT_ONCE = 64
_DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1).toordinal()


class Files:
    """Makes the files of one run in an archive, whose names no other run's files have.

    On a store, a file is written here first, and sent when it is whole.
    """

    def __init__(self, place: Place, number: int) -> None:
        self.place = place
        self._prefix = f"{number:010}-" if isinstance(place, Path) else f"{number:010}-{token_hex(4)}-"
        self._here = place if isinstance(place, Path) else Path(mkdtemp(prefix="archiving-"))

    def new(self, topic: str, date: str, name: str) -> "FileWriter":
        """Begin a file."""
        return FileWriter(self._here, topic, date, f"{self._prefix}{name}")

    def taken(self, file: DataFile) -> DataFile:
        """Take a file that is whole into the archive. Raises: as the store does."""
        if not isinstance(self.place, Path):
            self.place.upload(self._here / file.path, file.path)
            (self._here / file.path).unlink()
        return file

    def settle(self, files: Iterable[DataFile]) -> None:
        """Sync the directory entries of files."""
        if isinstance(self.place, Path):
            settle_directories(self.place, files)

    def close(self) -> None:
        """Delete what is not in the archive."""
        if not isinstance(self.place, Path):
            shutil.rmtree(self._here, ignore_errors=True)


class Writer:
    """Writes records that come topic by topic, and within a topic in order of partition and offset."""

    def __init__(self, files: Files) -> None:
        self._archive = files
        self._made = 0
        self._open = dict[tuple[str, str], FileWriter]()
        self._files = list[DataFile]()

    def add(self, records: Sequence[Record]) -> None:
        """Write records of one partition."""
        topic = records[0].topic
        if any(key[0] != topic for key in self._open):
            self._close()
        by_day = dict[int, list[Record]]()
        for record in records:
            by_day.setdefault(record.timestamp_ms // _DAY_MS, []).append(record)
        for day, found in by_day.items():
            self._file(topic, date_of(day)).add(batch_of(found))

    def finish(self) -> list[DataFile]:
        """Close all files, and return them."""
        self._close()
        return self._files

    def abandon(self) -> None:
        """Close open files, and forget them."""
        for file in self._open.values():
            file.close()
        self._open = {}

    def _file(self, topic: str, date: str) -> "FileWriter":
        key = topic, date
        if key not in self._open:
            if len(self._open) >= _OPEN_AT_ONCE:
                self._close()
            self._made += 1
            self._open[key] = self._archive.new(topic, date, f"{self._made:05}")
        return self._open[key]

    def _close(self) -> None:
        self._files += [self._archive.taken(file.finish()) for file in self._open.values()]
        self._open = {}


class FileWriter:
    """One Parquet file; its batches come in order of partition and offset."""

    def __init__(self, place: Path, topic: str, date: str, name: str) -> None:
        self._place = place
        self._topic, self._date = topic, date
        self._path = f"data/topic={topic}/date={date}/{name}.parquet"
        make_private_directory((place / self._path).parent)
        create_private(place / self._path)
        self._writer: Any = pq.ParquetWriter(place / self._path, SCHEMA, compression="zstd", write_page_checksum=True)
        self._spans = dict[int, list[int]]()
        self._times = list[int]()
        self._waiting = list[pa.RecordBatch]()
        self._rows = self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Write a batch of one partition's records."""
        partition, offsets = batch["partition"][0].as_py(), batch["offset"]
        span = self._spans.setdefault(partition, [offsets[0].as_py(), 0, 0])
        span[1], span[2] = offsets[-1].as_py() + 1, span[2] + batch.num_rows
        times = pc.min_max(batch["recorded_at"].cast(pa.int64())).as_py()
        known = [*self._times, times["min"], times["max"]]
        self._times = [min(known), max(known)]
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def finish(self) -> DataFile:
        """Close the file, and return its content: it is on disk then, though its directory entry may not be yet."""
        self.close()
        path = self._place / self._path
        settle(path)
        spans = [Span(partition=p, first=first, end=end, records=n) for p, (first, end, n) in self._spans.items()]
        return DataFile(
            path=self._path,
            topic=self._topic,
            date=self._date,
            spans=tuple(spans),
            bytes=path.stat().st_size,
            sha256=sha256_of(path),
            oldest_ms=self._times[0],
            newest_ms=self._times[1],
        )

    def close(self) -> None:
        """Close the file as it is."""
        if self._waiting:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=GROUP_ROWS)
        self._waiting, self._rows, self._bytes = [], 0, 0


def settle_directories(place: Path, files: Iterable[DataFile]) -> None:
    """Sync the directory entries of files."""
    directories = {parent for file in files for parent in list(Path(file.path).parents)}
    for directory in sorted(directories, reverse=True):
        settle(place / directory)


def batch_of(records: Sequence[Record]) -> pa.RecordBatch:
    """Return records as rows."""
    columns = list(zip(*(record.astuple() for record in records), strict=True))
    arrays = [pa.array(values, kind) for values, kind in zip(columns[:-1], SCHEMA.types[:-1], strict=True)]
    return pa.RecordBatch.from_arrays([*arrays, _headers(columns[-1])], schema=SCHEMA)


def _headers(headers: Sequence[tuple[tuple[str, bytes], ...]]) -> pa.Array:
    if not any(headers):  # nearly always
        return pa.array([()] * len(headers), HEADERS)
    return pa.array([[{"name": name, "value": value} for name, value in each] for each in headers], HEADERS)


def date_of(day: int) -> str:
    """Return a day since 1970 in UTC, or the nearest valid one (external records may have any time)."""
    return date.fromordinal(min(max(_EPOCH + day, 1), date.max.toordinal())).isoformat()
