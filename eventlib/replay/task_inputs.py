"""The inputs of one task: pulled from its log, or from what a scan of many tasks has read or was given."""

from collections.abc import Callable, Collection, Iterable, Sequence

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.partition_buffer import Buffered, Cursor, PartitionBuffer, refuse_dropped_inputs
from eventlib.replay.scanner import LogScanner

_NEVER = 1 << 62


class PullScanner:
    """Reads for one task alone, in chunks, as far as its journal has come; records are as they are on the log."""

    def __init__(self, log: EventLog) -> None:
        self._port = log.port

    async def cursor(self, topic_partition: TopicPartition, first: int) -> Cursor:
        """Return a cursor in a partition. Raises: ContractError when retention has dropped inputs."""
        await refuse_dropped_inputs(self._port, topic_partition, first)
        return Cursor(PartitionBuffer(topic_partition, _NEVER, None), first, self._port, self.load)

    async def take(self, cursor: Cursor, last: int) -> list[Buffered]:
        """Return a cursor's next inputs up to an offset."""
        return await cursor.catch_up(last)

    async def load(self, records: Iterable[Record]) -> list[Buffered]:
        """Return records as they are."""
        return [Buffered(record) for record in records]


class TaskInputs:
    """The inputs of one task; of topics other than `topics` (None: there are none), none."""

    def __init__(
        self, scanner: LogScanner | PullScanner, task: tuple[Service, int], topics: Collection[str] | None = None
    ) -> None:
        self._scanner = scanner
        self._service, self._partition = task
        self._topics = topics
        self._begun: dict[str, int] = {}
        self._cursors: dict[str, Cursor] = {}

    @property
    def positions(self) -> dict[str, int]:
        """The next offset of each topic that was begun."""
        return {**self._begun, **{topic: cursor.next for topic, cursor in self._cursors.items()}}

    def has(self, topic: str) -> bool:
        """Return whether a topic's inputs are wanted."""
        return self._topics is None or topic in self._topics

    def begin(self, topic: str, first: int) -> None:
        """Start a topic at an offset, as the task did when it first read it."""
        if self.has(topic):
            self._begun[topic] = first

    async def take(self, topic: str, last: int) -> Sequence[Buffered]:
        """Return a topic's inputs up to an offset that were not returned before.

        Raises: ContractError when retention has dropped some, or the topic was never begun.
        """
        if not self.has(topic):
            return ()
        cursor = await self._cursor(topic)
        if cursor is None:
            raise ContractError(f"the journal of {self._service.name} consumes {topic}, which it never began")
        return await self._scanner.take(cursor, last)

    def go_to(self, topic: str, offset: int) -> None:
        """Continue a topic at any offset, if it was begun."""
        if topic in self._begun:
            self._begun[topic] = offset
        elif topic in self._cursors:
            self._cursors[topic].go_to(offset)

    async def next_ms(self, topic: str, counts: Callable[[Record], bool]) -> int | None:
        """Return the time of a topic's next input that counts; None if there is none, or the topic was not begun."""
        cursor = await self._cursor(topic)
        return None if cursor is None else await cursor.next_ms(counts)

    async def _cursor(self, topic: str) -> Cursor | None:
        if topic in self._begun:
            first = self._begun.pop(topic)
            self._cursors[topic] = await self._scanner.cursor((topic, self._partition), first)
        return self._cursors.get(topic)
