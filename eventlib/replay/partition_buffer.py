"""Buffers one partition for all tasks that consume it; and the shard of a replay that a process runs."""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from eventlib.errors import ContractError, UndecodableRecord
from eventlib.log.base import Log, TopicPartition
from eventlib.model.event import Event
from eventlib.model.identity import derived_id
from eventlib.model.record import Record
from eventlib.model.service import Service

Item = tuple[Record, Event | UndecodableRecord]
"""A record as its deciders see it, with its event, or why it has none."""

UNREAD = UndecodableRecord("it was not read", "", 0, -1)
"""Placeholder event of a record that is decoded only if comparing bytes is not enough."""


@final
class Buffered:
    """A record in memory, shared by the replays of the task that emitted it and of those that consume it.

    `event` is UNREAD until one of them needs it: it is what the emitting decider has made again, if its bytes are the
    record's, else what was decoded, or why it has none. Those that `is_sample` names are decoded in any case.
    """

    __slots__ = ("event", "record")

    def __init__(self, record: Record, event: Any = UNREAD) -> None:  # Any: compiled code checks a union's classes
        self.record = record
        self.event = event

    @property
    def is_sample(self) -> bool:
        """Whether it is decoded even if its bytes are those of what was made again: so a fault of decoding shows."""
        return self.record.id is not None and self.record.id.endswith(_SAMPLE)


Load = Callable[[list[Record]], Awaitable[list[Buffered]]]

_SAMPLE = "00"
"""How the ids of sampled events end, which are hashes in hex digits: one in 256."""

_WORTH_TRIMMING = 512
_CHUNK = 2_000


class PartitionBuffer:
    """The records read from a partition that some task may still consume.

    `next` is the offset to read from, `base` that of the first item: `items` has every input between the two.
    `newest_ms` is the latest time read; `ended` is set at the end of the partition. `types` are the handled types; None
    for an external topic, whose records have none.
    """

    __slots__ = ("base", "cursors", "ended", "items", "newest_ms", "next", "topic_partition", "types")

    def __init__(self, topic_partition: TopicPartition, first: int, types: frozenset[str] | None) -> None:
        self.topic_partition = topic_partition
        self.types = types
        self.next = self.base = first
        self.newest_ms = -1
        self.ended = False
        self.items: list[Buffered] = []
        self.cursors: list[Cursor] = []

    def is_input(self, record: Record) -> bool:
        """Return whether some task handles this record."""
        return self.types is None or record.type in self.types

    def drop(self, count: int) -> int:
        """Drop the oldest items, and return how many; a cursor that still needs them reads them again."""
        self.base = self.items[count].record.offset if count < len(self.items) else self.next
        del self.items[:count]
        for cursor in self.cursors:
            cursor.at -= count
        return count

    def trim(self) -> int:
        """Drop what all cursors have passed, if it is worth it; return how many items."""
        passed = min(cursor.at for cursor in self.cursors)
        return 0 if passed < _WORTH_TRIMMING else self.drop(passed)


class Cursor:
    """One task's cursor in a buffer. `at` is the index of its next item; negative if the buffer has dropped that."""

    __slots__ = ("_chunk", "_chunk_end", "_load", "_log", "at", "buffer", "next")

    def __init__(self, buffer: PartitionBuffer, first: int, log: Log, load: Load) -> None:
        self.buffer = buffer
        self._log = log
        self._load = load
        self.next = first
        self._chunk: list[Buffered] = []
        self._chunk_end = first
        self.at = -1
        self._join()
        buffer.cursors.append(self)

    def consume_to(self, last: int) -> list[Buffered]:
        """Return the next inputs up to an offset, as far as the buffer has them."""
        items, first = self.buffer.items, self.at
        end = first
        while end < len(items) and items[end].record.offset <= last:
            end += 1
        self.at = end
        self.next = last + 1
        return items[first:end]

    async def catch_up(self, last: int) -> list[Buffered]:
        """Return those that the buffer has dropped, read again in this cursor's own chunks."""
        found = list[Buffered]()
        while self.at < 0 and self.next <= last:
            if self.next >= self._chunk_end:
                records = await self._log.read(*self.buffer.topic_partition, self.next, _CHUNK)
                if not records:
                    self.next = last + 1
                    break
                self._chunk = await self._load([r for r in records if self.buffer.is_input(r)])
                self._chunk_end = records[-1].offset + 1
            until = min(last + 1, self._chunk_end)
            first = bisect_left(self._chunk, self.next, key=_offset)
            found += self._chunk[first : bisect_left(self._chunk, until, lo=first, key=_offset)]
            self.next = until
            self._join()
        return found

    async def next_ms(self, counts: Callable[[Record], bool]) -> int | None:
        """Return the time of the next input that counts, of those that a buffer has not; None if there are no more."""
        while True:
            self._chunk = self._chunk[bisect_left(self._chunk, self.next, key=_offset) :]
            for item in self._chunk:
                if counts(item.record):
                    return item.record.timestamp_ms
            first = max(self.next, self._chunk_end)
            records = await self._log.read(*self.buffer.topic_partition, first, _CHUNK)
            if not records:
                return None
            self._chunk = [*self._chunk, *await self._load(records)]
            self._chunk_end = records[-1].offset + 1

    def go_to(self, offset: int) -> None:
        """Continue at any offset."""
        self.next, self._chunk, self._chunk_end, self.at = offset, [], offset, -1
        self._join()

    def _join(self) -> None:
        if self.next >= self.buffer.base:
            self.at = bisect_left(self.buffer.items, self.next, key=_offset)
            self._chunk, self._chunk_end = [], self.next


def _offset(item: Buffered) -> int:
    return item.record.offset


async def refuse_dropped_inputs(log: Log, topic_partition: TopicPartition, first: int) -> None:
    """Refuse to go on without inputs that retention has dropped. Raises: ContractError."""
    start = await log.log_start(*topic_partition)
    if start > first:
        topic, partition = topic_partition
        raise ContractError(
            f"{topic}/{partition} begins at offset {start}: its records from {first} on were dropped, and later states "
            "depend on them"
        )


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `index` of `count`: every `count`-th task of each service.

    Keyless events cannot be attributed to a task, so the tasks of a service that handles them stay in one shard.
    """

    index: int = 0
    count: int = 1

    def has(self, service: Service, partition: int) -> bool:
        """Return whether a task belongs to this shard."""
        together = any(decider.key is None for decider in service.deciders)
        return self.index == (0 if together else partition % self.count)


WHOLE = Shard()


EmissionKey = tuple[str | None, str | None, str | None]
"""What emitted an event: decider (`service/decider`), key, and causation id."""


def claimed(
    outputs: dict[EmissionKey, list[Buffered]], by: EmissionKey, cause_id: str, decider: str
) -> Sequence[Buffered]:
    """Remove and return the outputs of a cause, in their order: by their ids, which derive from the cause."""
    emitted = outputs.get(by)
    if emitted is None:
        return _NOTHING
    key = by[1] or ""
    if len(emitted) == 1 and emitted[0].record.id == derived_id(cause_id, decider, key, 0):
        del outputs[by]
        return emitted
    left = {item.record.event_id: item for item in emitted}
    found = list[Buffered]()
    while (item := left.pop(derived_id(cause_id, decider, key, len(found)), None)) is not None:
        found.append(item)
    if left:
        outputs[by] = [*left.values()]
    else:
        del outputs[by]
    return found


_NOTHING: Sequence[Buffered] = ()
