"""Runs a sink: its processes share the partitions, and a position moves with the rows that follow from it."""

from collections.abc import Mapping, Sequence
from secrets import token_hex

from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.record import Record
from eventlib.sinks.applied import ObserveApplied, unobserved
from eventlib.sinks.applying import Applier
from eventlib.sinks.consuming import Consumption, ConsumptionRunner, partitions_of
from eventlib.sinks.database import SinkDatabase


class Sinking(Consumption):
    """A sink's work on some partitions: rows, positions and parked events in one database."""

    def __init__(self, log: EventLog, database: SinkDatabase, observe: ObserveApplied = unobserved) -> None:
        sink = database.sink
        super().__init__(log, f"sink {sink.name} in {database.name}", sink.topics, from_now=sink.from_now)
        self.database = database
        self.fence = token_hex(8)
        self.applier = Applier(log, database, self.fence, observe)

    async def take_over(self, begins: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """See `Consumption.take_over`."""
        await self.database.create()
        return await self.database.take_over(self._log.port.log_id, begins, self.fence)

    async def apply(self, records: Sequence[Record], offsets: Mapping[TopicPartition, int]) -> None:
        """See `Consumption.apply`."""
        await self.applier.apply(records, offsets)

    async def retry(self) -> None:
        """See `Consumption.retry`."""
        await self.applier.retry(self.positions)

    @property
    def has_parked(self) -> bool:
        """See `Consumption.has_parked`."""
        return bool(self.applier.held)

    @property
    def applied(self) -> int:
        """See `Consumption.applied`."""
        return self.applier.applied

    def remedy(self, topic_partition: TopicPartition, start: int) -> str:
        """See `Consumption.remedy`."""
        topic, partition = topic_partition
        return (
            f"set next_offset = {start} in eventlib_sink_positions where sink = '{self.database.sink.name}' and "
            f"topic = '{topic}' and partition = {partition}"
        )


class SinkRunner(ConsumptionRunner):
    """One process of a sink; several share its partitions, and take over those of one that dies.

    Guarantee: an event's rows and the sink's position are one transaction, which changes nothing once another process has
    taken the partition over.
    """

    def __init__(self, log: EventLog, database: SinkDatabase, observe: ObserveApplied = unobserved) -> None:
        sink = database.sink
        parts = partitions_of(sink.topics)
        super().__init__(
            log, f"sink {sink.name}", f"_sink.{sink.name}", parts, lambda _: Sinking(log, database, observe)
        )
