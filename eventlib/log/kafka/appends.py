"""Appends without a claim: plain where one batch does, else a transaction of this process's own."""

import asyncio
import os
from collections.abc import Callable, Sequence
from secrets import token_hex

from eventlib.errors import EventlibError, LogUnavailable
from eventlib.log.kafka.cluster import Cluster
from eventlib.log.kafka.failures import Fenced
from eventlib.log.kafka.groups import Group, size_of
from eventlib.log.kafka.looking import Written
from eventlib.log.kafka.producer import Producer
from eventlib.log.port import Record, TopicPartition


class Appends:
    """What a process appends as nobody in particular.

    Guarantee: all or nothing, and durable. After LogUnavailable it may be on the log all the same.
    """

    def __init__(self, cluster: Cluster, written: Written, largest: Callable[[str], int]) -> None:
        self._cluster = cluster
        self._written = written
        self._largest = largest
        self._plain: Producer | None = None
        self._transactional: Producer | None = None
        self._starting = asyncio.Lock()
        self._groups = dict[TopicPartition, Group]()
        self._several = Group(self._commit, "appends to several partitions")

    async def append(self, records: Sequence[Record]) -> list[int]:
        """Append records; those of one partition that fit into a batch need no transaction."""
        place = records[0][:2]
        largest = self._largest(place[0])
        if size_of(records) > largest or any(record[:2] != place for record in records):
            return await self._several.append(records)
        group = self._groups.get(place)
        if group is None:
            group = self._groups[place] = Group(self._produce, f"appends to {place[0]}/{place[1]}", largest)
        return await group.append(records)

    async def close(self) -> None:
        """Stop, and fail what still waits."""
        await asyncio.gather(*(group.close() for group in (*self._groups.values(), self._several)))

    async def _produce(self, records: Sequence[Record]) -> list[int]:
        async with self._starting:
            if self._plain is None:
                started = Producer(self._cluster, "write 0", self._largest, None)
                await started.start()
                self._plain = started
        producer = self._plain
        try:
            offsets = await producer.produce(records)
        except EventlibError:
            if self._plain is producer:  # whether its last batch was written may be unknown: the next one begins anew
                self._plain = None
            raise
        self._written.wrote(records, offsets)
        return offsets

    async def _commit(self, records: Sequence[Record]) -> list[int]:
        if self._transactional is None:
            name = f"{self._cluster.options.writers}{os.getpid()}-{token_hex(6)}"
            started = Producer(self._cluster, "write 0", self._largest, name)
            await started.start()
            self._transactional = started
        producer, self._transactional = self._transactional, None
        try:
            offsets = await producer.commit(records)
        except Fenced as error:
            raise LogUnavailable(f"it is not known whether this was written: {error}") from error
        self._transactional = producer
        self._written.wrote(records, offsets)
        return offsets
