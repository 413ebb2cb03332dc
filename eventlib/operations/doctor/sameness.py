"""Compares two logs: an archive, a backup or a copy with the log that it was made from."""

from dataclasses import dataclass

from eventlib.log.base import Log, TopicPartition
from eventlib.log.open import open_port
from eventlib.log.reading import SkippingReader, records_between
from eventlib.model.record import RECORD_FIELDS, Record, key_text
from eventlib.model.topic import Topic
from eventlib.operations.doctor.deep import Finding, Progress
from eventlib.operations.doctor.finding import Diagnosis

_CHUNK = 2_000
_REMEDY = (
    "one of them is not what was written: `eventlib doctor --deep` on each shows more; keep both until that is known"
)


async def compare(url: str, other_url: str, progress: Progress = lambda *_: None) -> list[Diagnosis]:
    """Compare two logs record by record, where both have offsets; nothing is changed.

    Guarantee: a record that was changed, removed or added on one of them is found, and each partition's first difference
    named. Compacted topics are left out: each log compacts at its own time, and their content follows from the others.
    Raises: LogUnavailable, LogCorrupt, LogDenied, WiringError for a log that cannot be opened or read at all.
    """
    log, other = await open_port(url), await open_port(other_url)
    try:
        return await _Comparison(log, other, progress).run()
    finally:
        await log.close()
        await other.close()


@dataclass
class _Comparison:
    log: Log
    other: Log
    progress: Progress
    records: int = 0
    beyond: int = 0

    async def run(self) -> list[Diagnosis]:
        here, there = await self.log.topics(), await self.other.topics()
        found = list[Diagnosis]()
        for name in sorted(here.keys() | there.keys()):
            if name not in here or name not in there:
                found += await self._alone(here.get(name) or there[name], self.log if name in here else self.other)
            elif here[name].partitions != there[name].partitions:
                what = (
                    f"{name} has {here[name].partitions} partitions, and {there[name].partitions} on {self.other.url}"
                )
                found.append(Finding("same", "error", what, "one of them is another topic of that name", name))
            elif not here[name].compacted:
                places = ((name, partition) for partition in range(here[name].partitions))
                found += [each for place in places if (each := await self._partition(place)) is not None]
        return found or [self._summary(sum(topic.compacted for topic in here.values()))]

    def _summary(self, compacted: int) -> Diagnosis:
        what = f"{self.records:,} records are the same on {self.other.url}"
        if self.beyond:
            what += f"; {self.beyond:,} offsets are on one of them only: before the other's start, or after its end"
        return Diagnosis("same", "ok", f"{what}; {compacted} compacted topics were left out")

    async def _alone(self, topic: Topic, log: Log) -> list[Diagnosis]:
        """Report a topic that only one of them has, if it has any records."""
        ends = [await log.end(topic.name, partition) for partition in range(topic.partitions)]
        if topic.compacted or not any(ends):
            return []
        missing = self.other.url if log is self.log else self.log.url
        return [Finding("same", "error", f"{topic.name} is on {log.url}, but not on {missing}", _REMEDY, topic.name)]

    async def _partition(self, place: TopicPartition) -> Finding | None:
        """Return the first difference of a partition, if there is one."""
        starts = [await each.log_start(*place) for each in (self.log, self.other)]
        ends = [await each.end(*place) for each in (self.log, self.other)]
        first, end = max(starts), min(ends)
        self.beyond += max(ends) - min(starts) - max(0, end - first)
        # A damaged record is left out, so that it differs.
        here, there = (records_between(SkippingReader(each), place, first, end) for each in (self.log, self.other))
        while True:
            mine, theirs = await anext(here, None), await anext(there, None)
            if mine is None and theirs is None:
                return None
            if mine != theirs:
                return self._difference(place, mine, theirs)
            self.records += 1
            if not self.records % _CHUNK:
                self.progress(_CHUNK, None)

    def _difference(self, place: TopicPartition, mine: Record | None, theirs: Record | None) -> Finding:
        if mine is None or (theirs is not None and theirs.offset < mine.offset):
            record, what = theirs, f"is on {self.other.url}, but not on {self.log.url}"
        elif theirs is None or mine.offset < theirs.offset:
            record, what = mine, f"is on {self.log.url}, but not on {self.other.url}"
        else:
            fields = [
                name for name, a, b in zip(RECORD_FIELDS, mine.astuple(), theirs.astuple(), strict=True) if a != b
            ]
            record, what = mine, f"has another {', '.join(fields)} on {self.other.url}"
        assert record is not None  # noqa: S101  one of them there is
        key, named = key_text(record), f"{place[0]}/{place[1]}/{record.offset} ({record.type or 'a record'} of "
        where = (*place, record.offset, record.offset + 1, key, record.type)
        return Finding("same", "error", f"{named}{key!r}) {what}", _REMEDY, *where)
