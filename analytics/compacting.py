"""Merges an archive's small files: reading one large file costs less."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics.archive_writing import Files, FileWriter
from eventlib.ground.object_store import Place
from eventlib.log.archive.files import DataFile, Replaced
from eventlib.log.archive.place import located, opened
from eventlib.log.archive.row_groups import groups_of, unreadable
from eventlib.values import now_ms

_SMALL_BYTES = 64_000_000
_MANY = 8
"""This many small files of one topic and date are merged, so that a byte is rewritten rarely."""


def compact(made: Files, files: Sequence[DataFile]) -> tuple[tuple[DataFile, ...], tuple[Replaced, ...]]:
    """Return files, in the order in which they were written, with small neighbours merged; and the replaced files."""
    found, now = list(files), now_ms()
    replaced = list[Replaced]()
    for turn, run in enumerate(_runs(files)):
        topic, date = run[0].topic, run[0].date
        at = found.index(run[0])
        merged = _merge(made, run, made.new(topic, date, f"m{turn:05}"))
        found = [file for file in found if file not in run]
        found.insert(at, merged)
        replaced += [Replaced(path=file.path, at_ms=now) for file in run]
    return tuple(found), tuple(replaced)


def _runs(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Yield consecutive small files of one topic and date, where there are many of them."""
    by_date = dict[tuple[str, str], list[DataFile]]()
    for file in files:
        by_date.setdefault((file.topic, file.date), []).append(file)
    for group in by_date.values():
        for small, run in groupby(group, key=lambda file: file.bytes < _SMALL_BYTES):
            if small and len(found := list(run)) >= _MANY:
                yield found


def _merge(made: Files, files: Iterable[DataFile], writer: FileWriter) -> DataFile:
    """Write files as one, partition by partition; their offsets do not overlap."""
    spans = sorted((span.partition, span.first, file.path) for file in files for span in file.spans)
    for partition, _, path in spans:
        try:
            _copy(made.place, path, partition, writer)
        except (OSError, pa.ArrowException) as error:
            writer.close()
            raise unreadable(located(made.place, path), error) from error
    return made.taken(writer.finish())


def _copy(place: Place, path: str, partition: int, writer: FileWriter) -> None:
    with pq.ParquetFile(opened(place, path), page_checksum_verification=True) as file:
        for group in groups_of(file):
            if group.least[0] <= partition <= group.most[0]:
                table = file.read_row_group(group.number)
                for batch in table.filter(pc.equal(table["partition"], partition)).to_batches():
                    if batch.num_rows:
                        writer.add(batch)
