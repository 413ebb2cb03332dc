"""Reads one task's inputs of one topic forwards, in chunks, as far as its journal has come."""

from collections.abc import Callable
from itertools import islice

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import Log, TopicPartition
from eventlib.model.record import Record

_CHUNK = 2_000


class InputCursor:
    """A task's cursor in one of its topics."""

    def __init__(self, log: EventLog, topic: str, partition: int, first: int) -> None:
        self._port = log.port
        self._topic_partition = topic, partition
        self._next = first
        self._chunk: list[Record] = []
        self._at = 0
        self._is_whole = False

    async def consume_to(self, last: int) -> list[Record]:
        """Return the records up to an offset that were not returned before."""
        if not self._is_whole:
            await self._check()
        found = list[Record]()
        while self._next <= last:
            if self._at == len(self._chunk):
                self._chunk, self._at = await self._port.read(*self._topic_partition, self._next, _CHUNK), 0
                if not self._chunk:
                    break
            record = self._chunk[self._at]
            if record.offset > last:
                break
            found.append(record)
            self._at += 1
            self._next = record.offset + 1
        self._next = max(self._next, last + 1)
        return found

    async def next_ms(self, counts: Callable[[Record], bool]) -> int | None:
        """Return the time of the next unconsumed record that counts; None if the topic has no more."""
        if not self._is_whole:
            await self._check()
        at = self._at
        while True:
            for record in islice(self._chunk, at, None):
                if counts(record):
                    return record.timestamp_ms
            seen_to = self._chunk[-1].offset + 1 if self._chunk else 0
            more = await self._port.read(*self._topic_partition, max(self._next, seen_to), _CHUNK)
            if not more:
                return None
            self._chunk, self._at = [*self._chunk[self._at :], *more], 0
            at = len(self._chunk) - len(more)

    def go_to(self, offset: int) -> None:
        """Continue at any offset."""
        self._next = offset
        self._chunk, self._at = [], 0

    async def _check(self) -> None:
        await refuse_dropped_inputs(self._port, self._topic_partition, self._next)
        self._is_whole = True


async def refuse_dropped_inputs(port: Log, topic_partition: TopicPartition, first: int) -> None:
    """Refuse to go on without inputs that retention has dropped. Raises: ContractError."""
    start = await port.log_start(*topic_partition)
    if start > first:
        topic, partition = topic_partition
        raise ContractError(
            f"{topic}/{partition} begins at offset {start}: its records from {first} on were dropped, and later states "
            "depend on them"
        )
