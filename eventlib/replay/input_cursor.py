"""Reads one task's inputs forwards, in chunks, as far as its journal has come."""

from collections.abc import Callable, Container, Sequence
from itertools import islice

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import Log, TopicPartition
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.partition_buffer import Buffered

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


class LogInputs:
    """The inputs of one task, pulled from its log; with `topics`, those of other topics are left out."""

    def __init__(self, log: EventLog, task: tuple[Service, int], topics: Container[str] | None = None) -> None:
        self._log = log
        self._service, self._partition = task
        self._topics = topics
        self._cursors: dict[str, InputCursor] = {}

    def begin(self, topic: str, first: int) -> None:
        """See `Inputs.begin`."""
        self._cursors[topic] = InputCursor(self._log, topic, self._partition, first)

    async def take(self, topic: str, last: int) -> Sequence[Buffered]:
        """See `Inputs.take`. Raises: ContractError when retention has dropped some, or the topic was never begun."""
        if self._topics is not None and topic not in self._topics:
            return ()
        cursor = self._cursors.get(topic)
        if cursor is None:
            raise ContractError(f"the journal of {self._service.name} consumes {topic}, which it never began")
        return [Buffered(record) for record in await cursor.consume_to(last)]

    def go_to(self, topic: str, offset: int) -> None:
        """See `Inputs.go_to`."""
        if topic in self._cursors:
            self._cursors[topic].go_to(offset)

    async def next_ms(self, topic: str, counts: Callable[[Record], bool]) -> int | None:
        """Return the time of a topic's next input that counts; None if there is none, or the topic was not begun."""
        cursor = self._cursors.get(topic)
        return None if cursor is None else await cursor.next_ms(counts)


async def refuse_dropped_inputs(port: Log, topic_partition: TopicPartition, first: int) -> None:
    """Refuse to go on without inputs that retention has dropped. Raises: ContractError."""
    start = await port.log_start(*topic_partition)
    if start > first:
        topic, partition = topic_partition
        raise ContractError(
            f"{topic}/{partition} begins at offset {start}: its records from {first} on were dropped, and later states "
            "depend on them"
        )
