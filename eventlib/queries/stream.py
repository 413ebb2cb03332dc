"""Reads topics of a log as one stream: what is there, merged by time, and what comes later if wanted."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from typing import Literal

from eventlib.errors import ContractError
from eventlib.ground.arguments import check, check_each, did_you_mean
from eventlib.log.base import Log, TopicPartition
from eventlib.log.losses import warn_of_lost
from eventlib.log.reading import chunks
from eventlib.model.record import Record
from eventlib.queries.causal_order import in_order
from eventlib.values import time_of, to_ms

Start = Literal["earliest", "latest"] | int | datetime
"""Where to begin in each partition: at its oldest record, at its end, at an offset, or at a time (UTC)."""

_CHUNK = 500


def start_of(text: str) -> Start:
    """Read a start from text; a time without an offset from UTC is UTC. Raises: ContractError."""
    if text in {"earliest", "latest"}:
        return "earliest" if text == "earliest" else "latest"
    if text.isdecimal():
        return int(text)
    try:
        return time_of(text)
    except ContractError as error:
        raise ContractError(
            f"{text!r} is no place to start: write earliest, latest, an offset such as 1500, or a time such as "
            "2026-01-31T12:00:00Z"
        ) from error


async def tail(
    log: Log, topics: Sequence[str], start: Start = "earliest", *, follow: bool = False
) -> AsyncGenerator[list[Record], None]:
    """Yield the records of these topics in batches, up to the ends as they are now; `follow` does not end.

    Guarantee: a partition's records come in offset order, each once. Partitions are merged by recorded_at, then topic,
    partition and offset; what `follow` brings is merged batch by batch. Memory is bounded by a few hundred records
    of each partition.
    Raises: ContractError for a topic that is not on the log.
    """
    check(log, Log, "log", "give the log below an event log: `tail(log.port, topics)`")
    topics = check_each(topics, str, "topics", 'give names of topics: `["orders"]`')
    starts = await _starts(log, topics, start)
    ends = {topic_partition: max(first, await log.end(*topic_partition)) for topic_partition, first in starts.items()}
    async for records in _merged(log, starts, ends):
        yield records
    if not follow:
        return
    reader = log.reader(ends)
    try:
        while True:
            records = await reader.poll(_CHUNK)
            warn_of_lost(reader, "the tail")
            if records:
                yield in_order(records)
    finally:
        await reader.close()


async def _starts(log: Log, topics: Sequence[str], start: Start) -> dict[TopicPartition, int]:
    there = await log.topics()
    for name in topics:
        if name not in there:
            raise ContractError(
                f"there is no topic {name!r} on this log: {did_you_mean(name, there)}`eventlib topics` lists those that are"
            )
    topic_partitions = [
        (name, partition) for name in dict.fromkeys(topics) for partition in range(there[name].partitions)
    ]
    return {topic_partition: await first_offset(log, topic_partition, start) for topic_partition in topic_partitions}


async def first_offset(log: Log, topic_partition: TopicPartition, start: Start) -> int:
    """Return where a start is in a partition."""
    match start:
        case "earliest":
            return await log.start(*topic_partition)
        case "latest":
            return await log.end(*topic_partition)
        case int():
            return max(start, await log.start(*topic_partition))
        case _:
            return await log.offset_at(*topic_partition, to_ms(start))


async def _records(log: Log, place: TopicPartition, first: int, end: int) -> AsyncGenerator[Record, None]:
    async for records in chunks(log, place, first, _CHUNK):
        for record in records:
            if record.offset >= end:
                return
            yield record


async def _merged(
    log: Log, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> AsyncGenerator[list[Record], None]:
    ahead = {place: _records(log, place, first, ends[place]) for place, first in starts.items() if first < ends[place]}
    heads = [(head.timestamp_ms, *head.location, head) for each in ahead.values() if (head := await anext(each, None))]
    heapify(heads)
    batch = list[Record]()
    while heads:
        record = heads[0][-1]
        batch.append(record)
        head = await anext(ahead[record.topic_partition], None)
        if head is None:
            heappop(heads)
        else:
            heapreplace(heads, (head.timestamp_ms, *head.location, head))
        if len(batch) >= _CHUNK:
            yield batch
            batch = []
    if batch:
        yield batch
