"""Copies a log to another place: history, states and running sagas, at the same offsets, compared record by record."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from eventlib.errors import LogCorrupt, LogUnavailable, WiringError
from eventlib.log.base import Claim, Membership, Record, TopicPartition
from eventlib.log.kafka.import_log import Incoming
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.url import log_file
from eventlib.model.topic import Topic
from eventlib.registry.records import SCHEMAS

_CHANGELOG = ".changelog"
_PATIENCE_S = 6.0  # an owner on another machine is given up after half of that


@asynccontextmanager
async def held(url: str) -> AsyncIterator[SqliteLog]:
    """Open a log in an SQLite file, and own every task of every service on it until the context is left.

    Guarantee: no service writes to it meanwhile; others, who only publish, may.
    Raises: WiringError when a service runs on it, or it is no such log; what opening it raises.
    """
    path = _path_of(url)
    log = await SqliteLog.open(path, url=url)
    members = list[Membership]()
    try:
        for service, partitions in services_on(await log.topics()).items():
            member = await log.join(service, partitions)
            members.append(member)
            await _own_all(member, service, partitions, url)
        yield log
    finally:
        for member in members:
            await member.leave()
        await log.close()


def services_on(topics: Mapping[str, Topic]) -> dict[str, int]:
    """Return the services that have written to a log, with the number of their tasks."""
    return {
        name.removesuffix(_CHANGELOG): topic.partitions for name, topic in topics.items() if name.endswith(_CHANGELOG)
    }


async def _own_all(member: Membership, service: str, partitions: int, url: str) -> None:
    claims: Mapping[int, Claim] = {}
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while len(claims) < partitions:
                claims = await member.moved(claims)
    except TimeoutError as error:
        raise WiringError(
            f"service {service} runs on {url}: stop it, copy, and start it on the copy (`eventlib doctor` shows who runs it)"
        ) from error


def _path_of(url: str) -> Path:
    path = log_file(url)
    if path is None:
        raise WiringError(f"--from {url}: a copy is made of a log in a file, sqlite:///path/to.db")
    if not path.is_file():
        raise WiringError(f"--from {url}: there is no log at {path}")
    return path


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition, the same on both sides: how many records, the next offset, and a hash of all that it holds."""

    topic: str
    partition: int
    records: int
    end: int
    hash: str


@dataclass(frozen=True, slots=True)
class Report:
    """A copy: its partitions, and whether its source refuses further records now.

    One that was whole when its last step was broken off is not compared again: it has no partitions here.
    """

    partitions: tuple[PartitionReport, ...]
    source_retired: bool


class Digest:
    """A hash over a partition's records in order, with their offsets where these have to be the same."""

    def __init__(self, *, offsets: bool) -> None:
        self._hash = blake2b(digest_size=16)
        self._first = 2 if offsets else 3  # of Record's fields: the topic and the partition are known
        self.records = 0

    def first_difference(self, records: list[Record], others: list[Record]) -> int | None:
        """Return the index of the first record that is not the same on the other side, None when all are."""
        first = self._first
        if len(records) == len(others) and all(a[first:] == b[first:] for a, b in zip(records, others, strict=True)):
            return None
        same = (a[first:] == b[first:] for a, b in zip(records, others, strict=False))
        return next((index for index, each in enumerate(same) if not each), min(len(records), len(others)))

    def add(self, records: list[Record]) -> None:
        """Take records into it."""
        self._hash.update(repr([record[self._first :] for record in records]).encode())
        self.records += len(records)

    def hexdigest(self) -> str:
        """Return the hash of what was added."""
        return self._hash.hexdigest()


T = TypeVar("T")

_CHUNK = 2_000
_AT_ONCE = 8
_ROUNDS = 5

Progress = Callable[[str, int, int], None]
"""ExternalStates what is being done, how many records of it are done, and how many offsets there are."""


class Copying:
    """One log's way into another.

    Offsets stay as they are, since journals, positions and parked records name them. Only the toolkit's own compacted
    topics are written without the gaps that compaction has left: nobody names an offset in them.
    Compacted topics are written anew at each attempt; all others go on where the last attempt was broken off.
    """

    def __init__(self, source: SqliteLog, target: Incoming, topics: Sequence[Topic], progress: Progress) -> None:
        self._source = source
        self._target = target
        self._topics = topics
        self._progress = progress
        self._places = [(topic.name, partition) for topic in topics for partition in range(topic.partitions)]
        changelogs = {f"{service}.changelog" for service in services_on({topic.name: topic for topic in topics})}
        self._dense = {SCHEMAS.name, *changelogs, *(topic.latest_topic.name for topic in topics if topic.latest)}

    async def run(self, retire_with: str | None) -> Report:
        """Copy and compare until nothing is left, and open the copy for use; the source is retired with a reason, if any.

        Raises: WiringError when the source was retired for another reason; LogCorrupt when the copy is not the same;
        LogUnavailable, and then the next attempt goes on.
        """
        before = await self._source.retired()
        if before is not None and before != retire_with:
            raise WiringError(f"{self._source.url} takes nothing more, since {before}: go on with that log")
        whole = await self._target.begin(self._topics, self._source.log_id)
        partitions = [] if whole else await self._copy_until_still(retire_with)
        await self._target.finish()
        return Report(tuple(partitions), source_retired=retire_with is not None)

    async def _copy_until_still(self, retire_with: str | None) -> list[PartitionReport]:
        for _ in range(_ROUNDS):
            await self._empty_compacted()
            ends = await self._ends()
            await self._each("copying", ends, self._copy)
            found = await self._each("comparing", ends, self._compare)
            if retire_with is not None:
                await self._source.retire(retire_with)
            if await self._ends() == ends:
                return found
        raise LogUnavailable(f"others write to {self._source.url} without a pause: stop who publishes to it, and go on")

    async def _ends(self) -> Mapping[TopicPartition, int]:
        return {place: await self._source.end(*place) for place in self._places}

    async def _empty_compacted(self) -> None:
        """Let no compacted topic have anything: its source may have been compacted since."""
        compacted = [topic for topic in self._topics if topic.compacted]
        ends = [[await self._target.end((t.name, p)) for p in range(t.partitions)] for t in compacted]
        await self._target.empty([topic.name for topic, found in zip(compacted, ends, strict=True) if any(found)])

    async def _each(
        self, what: str, ends: Mapping[TopicPartition, int], act: Callable[[TopicPartition, int], Awaitable[T]]
    ) -> list[T]:
        """Do something with every partition up to its end, several at a time, and tell how far it is."""
        turn, done, total = asyncio.Semaphore(_AT_ONCE), 0, sum(ends.values())

        async def one(place: TopicPartition) -> T:
            nonlocal done
            async with turn:
                found = await act(place, ends[place])
            done += ends[place]
            self._progress(what, done, total)
            return found

        running = [asyncio.create_task(one(place)) for place in self._places]
        try:
            return await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()

    async def _copy(self, place: TopicPartition, end: int) -> None:
        if place[0] in self._dense:
            await self._copy_densely(place, end)
        else:
            await self._copy_exactly(place, end)

    async def _copy_densely(self, place: TopicPartition, end: int) -> None:
        """Copy all records to a partition that is empty, and let their offsets follow each other."""
        written = 0
        async for records in self._read(place, 0, end):
            await self._target.put([record._replace(offset=written + i) for i, record in enumerate(records)])
            written += len(records)

    async def _copy_exactly(self, place: TopicPartition, end: int) -> None:
        """Copy what comes after the target's end, at the source's offsets."""
        position = await self._target.end(place)
        async for records in self._read(place, position, end):
            for run in _runs(records):
                if run[0].offset > position:
                    await self._target.pass_over(place, run[0].offset)
                await self._target.put(run)
                position = run[-1].offset + 1
        if position < end:
            await self._target.pass_over(place, end)

    async def _compare(self, place: TopicPartition, end: int) -> PartitionReport:
        """Read a partition on both sides. Raises: LogCorrupt when they differ."""
        digest = Digest(offsets=place[0] not in self._dense)
        there = 0
        async for records in self._read(place, 0, end):
            arrived = await self._target.read(place, there, len(records))
            differs = digest.first_difference(records, arrived)
            if differs is not None:
                raise self._not_the_same(place, records[min(differs, len(records) - 1)].offset)
            digest.add(records)
            there = arrived[-1].offset + 1
        more = await self._target.read(place, there, 1)
        if more or (place[0] not in self._dense and await self._target.end(place) != end):
            raise self._not_the_same(place, end)
        return PartitionReport(*place, digest.records, end, digest.hexdigest())

    async def _read(self, place: TopicPartition, offset: int, end: int) -> AsyncIterator[list[Record]]:
        """Yield the source's records from an offset up to before an end."""
        while offset < end:
            records = [r for r in await self._source.read(*place, offset, _CHUNK) if r.offset < end]
            if not records:
                return
            yield records
            offset = records[-1].offset + 1

    def _not_the_same(self, place: TopicPartition, offset: int) -> LogCorrupt:
        return LogCorrupt(
            f"{place[0]}/{place[1]} is not the same in {self._source.url} and {self._target.url} from offset {offset} on: "
            "copy from scratch (--from-scratch)"
        )


def _runs(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Yield records in runs whose offsets follow each other."""
    run = list[Record]()
    for record in records:
        if run and record.offset != run[-1].offset + 1:
            yield run
            run = []
        run.append(record)
    if run:
        yield run
