"""The log on Apache Kafka: `KafkaLog.open`."""

import logging
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import Self

from aiokafka.errors import IncompatibleBrokerVersion

from eventlib.errors import EventlibError, LogUnavailable
from eventlib.log.base import Claim, Log, Membership, OpenTransaction, Reader, Share, TopicIdentity, TopicPartition
from eventlib.log.kafka.append_batcher import Appends
from eventlib.log.kafka.client import Cluster, starting
from eventlib.log.kafka.failures import Code, Transient
from eventlib.log.kafka.feed import Feed
from eventlib.log.kafka.membership import Members
from eventlib.log.kafka.ownership import Owners
from eventlib.log.kafka.ownership_topic import PLACE as REGISTER
from eventlib.log.kafka.partition_fetcher import LATEST, offsets_at
from eventlib.log.kafka.point_reads import PointReads, Written
from eventlib.log.kafka.reader import KafkaReader
from eventlib.log.kafka.requests import (
    NO_TOPIC_ID,
    DescribeProducersRequest0,
    Exactly,
    ListTransactionsRequest0,
    MetadataRequest10,
)
from eventlib.log.kafka.topics import Topics
from eventlib.log.rules import BESIDE_THE_VALUE, known, refuse_unfit
from eventlib.model.record import Record
from eventlib.model.topic import Topic

_BATCH_BYTES = 1_000_000


class KafkaLog(Log):
    """A log on a Kafka cluster, shared by the processes of many machines.

    Guarantee: an append is on all in-sync replicas when it returns. An append under a claim is in a transaction of this
    process; a takeover fences the earlier owners first, so that none of their transactions can commit afterwards.
    Readers see committed records only. Where an append's outcome is unknown, the claim is lost, and its task is
    restored from the changelog.
    """

    numbers_again = True

    def __init__(self, cluster: Cluster, url: str) -> None:
        self.url = url
        self.log_id = f"{cluster.id}/{cluster.options.prefix}"
        self._cluster = cluster
        self._closed = False
        written = Written()
        point_reads = PointReads(cluster, written)
        self._point_reads = point_reads
        self._appends = Appends(cluster, written, self._largest_batch)
        self._topics = Topics(cluster, point_reads, self._appends)
        self._owners = Owners(cluster, point_reads, written, self._appends, self._largest_batch)
        self._members = Members(self._owners, self._register_reader)
        self._feed = Feed(cluster, written, point_reads)
        self._facts = TopicFacts(cluster, point_reads)

    @classmethod
    async def open(cls, url: str) -> Self:
        """Open the log at `kafka://host:port[,host:port…]/[?…]`.

        Raises: WiringError for an invalid URL; LogUnavailable when no broker can be reached; LogDenied.
        """
        async with starting(url) as cluster:
            log = cls(cluster, url)
            await log._topics.load()
        return log

    async def create_topics(self, topics: Iterable[Topic]) -> None:
        """See `Log.create_topics`."""
        self._check_open()
        await self._topics.create(topics)

    async def delete_topics(self, names: Iterable[str]) -> None:
        """See `Log.delete_topics`."""
        self._check_open()
        await self._topics.delete(names)

    async def topics(self) -> Mapping[str, Topic]:
        """See `Log.topics`."""
        self._check_open()
        await self._topics.load()
        return self._topics.known

    async def identities(self, names: Collection[str]) -> Mapping[str, TopicIdentity]:
        """See `Log.identities`."""
        self._check_open()
        return await self._facts.identities(names)

    async def append(self, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        """See `Log.append`."""
        self._check_open()
        owner = None if claim is None else self._owners.owner(claim)
        await self._know(record.topic_partition for record in records)
        refuse_unfit(records, self._topics.known)
        if not records:
            return []
        return await (self._appends.append(records) if owner is None else owner.append(records))

    def enlist(self, share: Share, claim: Claim) -> bool:
        """See `Log.enlist`."""
        self._check_open()
        self._owners.enlist(share, claim, lambda records: refuse_unfit(records, self._topics.known))
        return True

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """See `Log.read`."""
        return await self._point_reads.read(await self._place(topic, partition), offset, limit)

    async def newest(
        self, topic_partition: TopicPartition, offset: int, kept: MutableMapping[bytes, bytes], kind: str | None
    ) -> int:
        """See `Log.newest`; creates no `Record` objects."""
        return await self._point_reads.newest(await self._place(*topic_partition), offset, kept, kind)

    async def start(self, topic: str, partition: int) -> int:
        """See `Log.start`."""
        return await self._point_reads.start(await self._place(topic, partition))

    async def log_start(self, topic: str, partition: int) -> int:
        """See `Log.log_start`."""
        return await self._point_reads.log_start(await self._place(topic, partition))

    async def end(self, topic: str, partition: int) -> int:
        """See `Log.end`."""
        topic_partition = await self._place(topic, partition)
        return (await self._point_reads.ends([topic_partition]))[topic_partition]

    async def written_end(self, topic: str, partition: int) -> int:
        """See `Log.written_end`: the high watermark, where `end` is the last stable offset."""
        return await self._facts.written_end(await self._place(topic, partition))

    async def holders(self, topic: str, partition: int) -> Sequence[OpenTransaction]:
        """See `Log.holders`."""
        return await self._facts.holders(await self._place(topic, partition))

    async def decided_end(self, topic: str, partition: int) -> int:
        """See `Log.decided_end`: a commit is acknowledged before its records are readable."""
        return await self._point_reads.decided_end(await self._place(topic, partition))

    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """See `Log.offset_at`."""
        return await self._point_reads.at(await self._place(topic, partition), timestamp_ms)

    def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        """See `Log.reader`."""
        self._check_open()
        for topic, partition in positions:
            known(self._topics.known, topic, partition)
        return KafkaReader(self._feed, positions)

    async def seize(self, service: str, partition: int) -> Claim:
        """See `Log.seize`."""
        self._check_open()
        await self._topics.create_own()
        return (await self._owners.seize((service, partition))).claim

    async def owners(self, service: str) -> Mapping[int, str]:
        """See `Log.owners`."""
        await self._know([REGISTER])
        if REGISTER[0] not in self._cluster.topics:
            return {}
        return await self._owners.of(service)

    async def join(self, service: str, partitions: int, standbys: int = 0) -> Membership:
        """See `Log.join`."""
        self._check_open()
        await self._topics.create_own()
        return await self._members.join(service, partitions, standbys)

    async def compact(self) -> None:
        """Do nothing: the brokers compact and apply retention by themselves."""
        self._check_open()

    async def close(self) -> None:
        """See `Log.close`."""
        if self._closed:
            return
        self._closed = True
        await self._members.close()
        await self._owners.close()
        await self._appends.close()
        await self._feed.close()
        await self._cluster.close()

    async def _register_reader(self) -> Reader:
        return KafkaReader(self._feed, await self._point_reads.ends([REGISTER]))

    async def _place(self, topic: str, partition: int) -> TopicPartition:
        self._check_open()
        await self._know([(topic, partition)])
        known(self._topics.known, topic, partition)
        return topic, partition

    async def _know(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Refresh the metadata if a topic is unknown: another process may just have created it."""
        topics = self._topics.known
        if any(topic not in topics for topic, _ in topic_partitions):
            await self._topics.load()

    def _largest_batch(self, topic: str) -> int:
        declared = self._topics.known.get(topic)
        return _BATCH_BYTES if declared is None else min(_BATCH_BYTES, declared.max_event_bytes + BESIDE_THE_VALUE)

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailable(f"the log {self.url} was closed by this process; open it again to use it")


_log = logging.getLogger("eventlib.log")


class TopicFacts:
    """Asks the brokers; what this process has cached of a topic is dropped when it turns out to be another one."""

    def __init__(self, cluster: Cluster, point_reads: PointReads) -> None:
        self._cluster = cluster
        self._point_reads = point_reads
        self._ids = dict[str, str]()

    async def identities(self, names: Collection[str]) -> Mapping[str, TopicIdentity]:
        """See `Log.identities`; brokers before 2.8 have no ids. Raises: LogUnavailable."""
        physical_names = [self._cluster.physical(name) for name in names]
        topics: list[tuple[bytes, str, dict[int, bytes]]] = [(NO_TOPIC_ID, name, {}) for name in physical_names]
        message = Exactly(MetadataRequest10(topics, False, False, False, {}))
        try:
            answer = await self._cluster.ask_persistently(message)
        except IncompatibleBrokerVersion:
            await self._cluster.refresh()
            there = self._cluster.topics
            return {name: TopicIdentity("", len(there[name])) for name in names if name in there}
        found = dict[str, TopicIdentity]()
        log = f"{answer.cluster_id}/{self._cluster.physical('')}"
        for code, physical, topic_id, _, partitions, *_ in answer.topics:
            if code in {Code.NONE, Code.LEADER_NOT_AVAILABLE}:
                name = self._cluster.logical(physical)
                found[name] = TopicIdentity(topic_id, len(partitions), log)
                if self._ids.setdefault(name, topic_id) != topic_id:
                    self._ids[name] = topic_id
                    self._point_reads.forget(name)
        return found

    async def written_end(self, place: TopicPartition) -> int:
        """See `Log.written_end`."""
        return (await offsets_at(self._cluster, [place], LATEST, committed=False))[place]

    async def holders(self, place: TopicPartition) -> Sequence[OpenTransaction]:
        """See `Log.holders`; empty where the brokers do not say it to this user, or are older than 3.0."""
        try:
            return await self._holders(place)
        except (Transient, EventlibError, IncompatibleBrokerVersion) as error:
            _log.debug("who holds %s/%s is not known: %s", *place, error)
            return ()

    async def _holders(self, place: TopicPartition) -> Sequence[OpenTransaction]:
        message = DescribeProducersRequest0([(self._cluster.physical(place[0]), [place[1]], {})], {})
        answer = await self._cluster.send(self._cluster.leader(place), Exactly(message), "read")
        producers = [each for _, parts, _ in answer.topics for part in parts for each in part[3]]
        open_ones = {each[0]: (each[3], each[5]) for each in producers if each[5] >= 0}
        names = await self._transactional_ids([*open_ones]) if open_ones else {}
        found = [
            OpenTransaction(f"{names.get(producer, 'a transaction')} (producer {producer})", first, at_ms)
            for producer, (at_ms, first) in open_ones.items()
        ]
        return sorted(found, key=lambda each: each.first)

    async def _transactional_ids(self, producers: Sequence[int]) -> Mapping[int, str]:
        found = dict[int, str]()
        message = ListTransactionsRequest0([], producers, {})
        for node in self._cluster.brokers:
            answer = await self._cluster.send(node, Exactly(message), "ask")
            found |= {producer: name for name, producer, *_ in answer.transactions}
        return found
