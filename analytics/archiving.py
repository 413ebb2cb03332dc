"""Archives a log: the new records of every partition, exactly once, with pyarrow alone."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics.archive_writing import Files, FileWriter, Writer
from eventlib.errors import LogReadOnly, WiringError
from eventlib.ground.durable import alone
from eventlib.ground.object_store import ObjectStore, Place
from eventlib.log.archive.files import (
    ArchivedTopic,
    DataFile,
    Lost,
    Manifest,
    Replaced,
    commit,
    newest_number,
    read_manifest,
)
from eventlib.log.archive.place import located, opened
from eventlib.log.archive.row_groups import groups_of, unreadable
from eventlib.log.base import Log, TopicPartition
from eventlib.model.topic import Topic
from eventlib.values import now_ms

Progress = Callable[[str, int, int], None]
"""Called with the current topic, how many offsets are done, and how many there are."""

_CHUNK = 4_000
_REPLACED_KEPT_MS = 3_600_000
"""How long a merged file stays for readers of an older manifest."""


@dataclass(frozen=True)
class Archived:
    """The result of one run: the offsets that it read, by partition, and what it wrote."""

    number: int
    read: Mapping[TopicPartition, range]
    records: int
    bytes: int
    files: int
    merged: int
    lost: tuple[Lost, ...]
    held: bool
    seconds: float


async def archive(log: Log, place: Place, progress: Progress = lambda *_: None) -> Archived:
    """Archive the new records of all topics of a log, journals, changelogs and schemas included.

    Guarantee: every record is in the archive once, at its offset, however often this is killed and run again; a run that
    finds nothing changes nothing. From the first run on, where the log supports it, retention drops only archived records.
    Raises: WiringError when the archive is another log's, or the log has less than the archive; LogUnavailable while another
    process archives there.
    """
    began = perf_counter()
    with alone(place, "archives to") if isinstance(place, Path) else nullcontext():
        before = read_manifest(place) if newest_number(place) else Manifest(log_id=log.log_id)
        _refuse_another(before, log, place)
        if isinstance(place, Path):
            _sweep(place, before)
        topics = await log.topics()
        _refuse_repartitioned(before, topics, place)
        with closing(Files(place, before.number + 1)) as writing:
            run = _Run(log, writing, before, topics, progress)
            held = await _held(log, run.begin)
            made = await run.copy()
            files, replaced = compact(writing, (*before.files, *made))
        manifest = run.manifest(files, replaced)
        changed = manifest.model_copy(update={"committed_ms": before.committed_ms, "number": before.number}) != before
        if changed:
            writing.settle([file for file in files if file not in before.files])
            commit(place, manifest)
            if not isinstance(place, Path):
                _sweep_store(place, manifest)
        await _held(log, run.ends)
    records, size = sum(file.records for file in made), sum(file.bytes for file in made)
    number = manifest.number if changed else before.number
    return Archived(
        number, run.read, records, size, len(made), len(replaced), tuple(run.lost), held, perf_counter() - began
    )


@dataclass
class _Run:
    """One pass over a log."""

    log: Log
    files: Files
    before: Manifest
    topics: Mapping[str, Topic]
    progress: Progress
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)

    @property
    def begin(self) -> dict[TopicPartition, int]:
        """Where each partition continues."""
        archived = self.before.ends
        return {place: archived.get(place, 0) for place in self._places}

    @property
    def read(self) -> dict[TopicPartition, range]:
        """The offsets that were read."""
        begin = self.begin
        return {place: range(begin[place], end) for place, end in self.ends.items() if end > begin[place]}

    @property
    def _places(self) -> list[TopicPartition]:
        return [(topic.name, partition) for topic in self.topics.values() for partition in range(topic.partitions)]

    async def copy(self) -> list[DataFile]:
        """Write new records, and return the files."""
        begin = self.begin
        ends = await asyncio.gather(*(self.log.end(*place) for place in begin))
        self.ends = dict(zip(begin, ends, strict=True))
        for place, first in begin.items():
            if self.ends[place] < first:
                raise WiringError(
                    f"{place[0]}/{place[1]} ends at {self.ends[place]}, and is archived up to {first}: its topic was deleted, "
                    "or the log restored from a copy; archive it to another directory"
                )
        done, total = 0, sum(self.ends[place] - first for place, first in begin.items())
        writer = Writer(self.files)
        try:
            for place in sorted(begin):
                if self.ends[place] > begin[place]:
                    await self._copy(place, writer)
                    done += self.ends[place] - begin[place]
                self.progress(place[0], done, total)
            return writer.finish()
        except BaseException:
            writer.abandon()
            raise

    async def _copy(self, place: TopicPartition, writer: Writer) -> None:
        offset, end = self.begin[place], self.ends[place]
        oldest = await self.log.log_start(*place)
        if oldest > offset and not self.topics[place[0]].compacted:
            self.lost.append(Lost(topic=place[0], partition=place[1], first=offset, end=min(oldest, end)))
        while offset < end:
            records = [r for r in await self.log.read(*place, offset, _CHUNK) if r.offset < end]
            if not records:
                return  # a gap up to the end
            writer.add(records)
            offset = records[-1].offset + 1

    def manifest(self, files: tuple[DataFile, ...], replaced: tuple[Replaced, ...]) -> Manifest:
        """Return the new manifest."""
        recent = now_ms() - _REPLACED_KEPT_MS
        topics = dict(self.before.topics)
        for name, topic in self.topics.items():
            topics[name] = ArchivedTopic.of(topic, tuple(self.ends[name, i] for i in range(topic.partitions)))
        return Manifest(
            number=self.before.number + 1,
            log_id=self.log.log_id,
            log_url=self.log.url,
            committed_ms=now_ms(),
            topics=topics,
            files=files,
            replaced=(*(each for each in self.before.replaced if each.at_ms > recent), *replaced),
            lost=(*self.before.lost, *self.lost),
        )


async def _held(log: Log, ends: Mapping[TopicPartition, int]) -> bool:
    try:
        return await log.keep_unarchived(ends)
    except LogReadOnly:
        return False  # a log that is read-only here can be archived all the same


def _refuse_another(before: Manifest, log: Log, place: Place) -> None:
    if before.log_id != log.log_id:
        raise WiringError(
            f"{place} is the archive of another log ({before.log_url}), not of {log.url}: name another directory with --to"
        )


def _refuse_repartitioned(before: Manifest, topics: Mapping[str, Topic], place: Place) -> None:
    for name, topic in topics.items():
        archived = before.topics.get(name)
        if archived is not None and len(archived.ends) != topic.partitions:
            raise WiringError(
                f"{name} had {len(archived.ends)} partitions when it was archived to {place}, and has {topic.partitions}: "
                "it is another topic now; archive to another directory"
            )


def _needed(manifest: Manifest) -> set[str]:
    recent = now_ms() - _REPLACED_KEPT_MS
    return {file.path for file in manifest.files} | {each.path for each in manifest.replaced if each.at_ms > recent}


def _sweep_store(place: ObjectStore, manifest: Manifest) -> None:
    """Delete the files of runs that cannot commit any more, and merged files that are no longer read."""
    left = place.sizes("data/").keys() - _needed(manifest)
    place.delete(sorted(key for key in left if int(Path(key).name.partition("-")[0]) <= manifest.number))


def _sweep(place: Path, manifest: Manifest) -> None:
    """Delete the files of a killed run, and merged files that are no longer read."""
    kept = _needed(manifest)
    for path in (place / "data").rglob("*"):
        if path.is_file() and str(path.relative_to(place)) not in kept:
            path.unlink()


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
