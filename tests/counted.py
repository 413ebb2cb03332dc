"""Counts what a log is asked for."""

from collections import Counter

from eventlib import EventLog
from eventlib.model.record import Record


def counted_reads(log: EventLog) -> Counter[str]:
    """Return how many records `read` gives from now on, by topic."""
    found, read = Counter[str](), log.port.read

    async def counted(topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        records = await read(topic, partition, offset, limit)
        found[topic] += len(records)
        return records

    log.port.read = counted  # type: ignore[method-assign]  # this log only
    return found
