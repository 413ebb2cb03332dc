"""Facts of topics that Kafka keeps beside their records: ids, newest offsets, and transactions that are open."""

import logging
from collections.abc import Collection, Mapping, Sequence

from aiokafka.errors import IncompatibleBrokerVersion

from eventlib.errors import EventlibError
from eventlib.log.base import OpenTransaction, TopicIdentity, TopicPartition
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.failures import Code, Transient
from eventlib.log.kafka.partition_fetcher import LATEST, offsets_at
from eventlib.log.kafka.point_reads import PointReads
from eventlib.log.kafka.requests import (
    NO_TOPIC_ID,
    DescribeProducersRequest0,
    Exactly,
    ListTransactionsRequest0,
    MetadataRequest10,
)

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
