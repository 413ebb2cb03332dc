"""Reads what comes next of a view's topics: decoded, in order, and without what the same batch replaces."""

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from eventlib.errors import DamagedRecord, LogUnavailable, RetryableError, WiringError
from eventlib.eventlog import EventLog
from eventlib.log.base import TOMBSTONES_KEPT, Reader, TopicPartition
from eventlib.log.losses import warn_of_lost
from eventlib.log.rules import witnessed_loss
from eventlib.model.record import Record
from eventlib.queries.causal_order import in_order
from eventlib.queries.decoding import RecordReader
from eventlib.queries.projection_file import View, ViewFile
from eventlib.values import now_ms

_log = logging.getLogger(__name__)
_LOOKS_S = 1.0
_READ_AHEAD = 64
"""Records of a partition that are read at once, at least: a log packs about so many into one row, which costs as much as one of them."""
# Four fifths, so that a slow start does not bring it near the moment when tombstones go.
_LONGEST_ABSENCE_MS = int(TOMBSTONES_KEPT.total_seconds() * 1000 * 0.8)


class Batch(NamedTuple):
    """Records with what is in them, the positions behind them, and the places of those that cannot be read."""

    changes: Sequence[tuple[Record, Any]]
    positions: Mapping[TopicPartition, int]
    damaged: Collection[tuple[str, int, int]]


class ViewReader:
    """Reads some of a view's topics, from where a file is."""

    def __init__(self, log: EventLog, view: View, topics: Sequence[str]) -> None:
        self._log = log
        self._view = view
        self._topics = topics
        self._decoding = RecordReader(log)
        self._reader: Reader | None = None
        self._compacted = set[str]()
        self._places = list[TopicPartition]()
        self._ahead = deque[Record]()
        self._looking: asyncio.Task[None] | None = None
        self.lost = dict[TopicPartition, int]()
        """How many offsets of a partition were gone before they were read, since this process began."""
        self.is_complete = True
        """Whether it reads all of its topics that the log has; if not, `begin` again."""

    async def ends(self, *, waits_for_topics: bool = False) -> dict[TopicPartition, int]:
        """Return where the partitions end now; a declared topic that the log lacks is empty, until a service makes it.

        Raises: WiringError for a topic that is not declared, and on a log without any that is; LogUnavailable if these are
        waited for.
        """
        there = await self._log.port.topics()
        declared = {topic.name for topic in self._log.choreography.topics}
        unknown = (
            self._topics if declared.isdisjoint(there) else [each for each in self._topics if each not in declared]
        )
        lacking = next((name for name in unknown if name not in there), None)
        if lacking is not None:
            lack = LogUnavailable if waits_for_topics else WiringError
            raise lack(
                f"the log has no topic {lacking!r}: it is another application's than {self._log.choreography.name}, or "
                "no service of that has run on it yet (`eventlib run`)"
            )
        names = [name for name in self._topics if name in there]
        places = [(name, partition) for name in names for partition in range(there[name].partitions)]
        return {place: await self._log.port.end(*place) for place in places}

    async def known_ends(self) -> Mapping[TopicPartition, int]:
        """Return where the partitions end, as an open reader knows it. Raises: LogUnavailable without one."""
        if self._reader is None:
            raise LogUnavailable(f"the projection {self._view.name} is not reading")
        return await self._reader.ends()

    async def begin(self, file: ViewFile, ends: Mapping[TopicPartition, int]) -> None:
        """Go on where a file is; begin it again when it may have missed a deletion, or lacks what can be read by now.

        Raises: TailLost when the file knows of more than the log has.
        """
        for place, offset in file.positions.items():
            if place[0] in self._topics and offset > ends.get(place, 0):
                raise witnessed_loss(self._log.port, place, ends.get(place, 0), f"the projection {file.path}", offset)
        there = await self._log.port.topics()
        self._compacted = {name for name, _ in ends if there[name].compacted}
        if now_ms() - file.read_at(self._compacted) > _LONGEST_ABSENCE_MS or await self._is_any_mended(file.damaged):
            file.begin_anew()
        for place in ends:
            if place not in file.positions:
                file.positions[place] = await self._log.port.start(*place)
        self._places = [*ends]
        self._ahead.clear()
        self._reader = self._log.port.reader({place: file.positions[place] for place in ends})
        self.is_complete = True
        if lacking := {*self._topics}.difference(name for name, _ in ends):
            self._looking = asyncio.create_task(self._look_for(lacking), name=f"topics of {self._view.name}")

    async def next(self, positions: Mapping[TopicPartition, int], limit: int) -> Batch:
        """Return up to `limit` records that come next, behind these positions, as soon as there are any."""
        assert self._reader is not None, "begin first"  # noqa: S101  a misuse, not a state
        damaged = list[tuple[str, int, int]]()
        if not self._ahead:
            records, damaged = await self._polled(self._reader, max(limit, _READ_AHEAD * len(self._places)))
            self._ahead.extend(in_order(_newest(records, self._compacted)))
        else:
            await asyncio.sleep(
                0
            )  # what else this event loop does waits for one transaction, not for all that was read
        following = [self._ahead.popleft() for _ in range(min(limit, len(self._ahead)))]
        moved = {record.topic_partition: record.offset + 1 for record in following}
        if not self._ahead:
            moved = {place: self._reader.position(place) for place in self._places}
        return Batch(await self._decoded(following), {**positions, **moved}, damaged)

    def wake(self) -> None:
        """Have a waiting `next` return."""
        if self._reader is not None:
            self._reader.wake()

    async def close(self) -> None:
        """End the reading."""
        if self._looking is not None:
            self._looking.cancel()
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()

    async def _look_for(self, lacking: set[str]) -> None:
        """Have a waiting `next` return when the log has got one of these topics."""
        while self.is_complete:
            await asyncio.sleep(_LOOKS_S)
            with suppress(RetryableError):
                self.is_complete = lacking.isdisjoint(await self._log.port.topics())
        self.wake()

    async def _polled(self, reader: Reader, limit: int) -> tuple[list[Record], list[tuple[str, int, int]]]:
        """Return what comes next; or, with the reader behind it, the place of a record that cannot be read."""
        try:
            records = await reader.poll(limit)
        except DamagedRecord as error:
            _log.error("projection %s goes on without a record: %s", self._view.name, error)
            reader.seek((error.topic, error.partition), error.resume_at)
            return [], [(error.topic, error.partition, error.offset)]
        for place, (first, to) in warn_of_lost(reader, f"projection {self._view.name}").items():
            self.lost[place] = self.lost.get(place, 0) + abs(to - first)
        return records, []

    async def _is_any_mended(self, damaged: Collection[tuple[str, int, int]]) -> bool:
        for topic, partition, offset in damaged:
            try:
                await self._log.port.read(topic, partition, offset, 1)
            except DamagedRecord as error:
                if error.offset == offset:
                    continue
            return True
        return False

    async def _decoded(self, records: Sequence[Record]) -> list[tuple[Record, Any]]:
        decoded = set(self._view.topics)
        found = list[tuple[Record, Any]]()
        for record in records:
            if record.topic not in decoded:
                found.append((record, None))
                continue
            event: Any = self._log.recent_event(record)
            if event is None:
                (reading,) = await self._decoding.read([record])
                event = reading.value
                if reading.error is not None:
                    _log.warning("projection %s cannot read %s: %s", self._view.name, record.location, reading.error)
            found.append((record, event))
        return found


def _newest(records: list[Record], compacted: set[str]) -> list[Record]:
    """Leave out what a record of the same batch replaces, as compaction may have done at any time before."""
    keyed = (record for record in records if record.topic in compacted and record.key is not None)
    newest = {(*record.topic_partition, record.key): record.offset for record in keyed}
    return [
        record
        for record in records
        if newest.get((*record.topic_partition, record.key), record.offset) == record.offset
    ]
