"""Topics: created from their declarations, and checked against them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka.protocol.admin import DeleteTopicsRequest, DescribeConfigsRequest

from eventlib.errors import LogUnavailable, TopicMismatch, WiringError
from eventlib.log.kafka.admin import create_topics
from eventlib.log.kafka.append_batcher import Appends
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.failures import Code, Transient, failure, name_of
from eventlib.log.kafka.point_reads import PointReads
from eventlib.log.kafka.requests import Exactly, IncrementalAlterConfigsRequest0
from eventlib.log.kafka.topic_configs import (
    COMPACTION_KEYS,
    DECLARATIONS,
    DECLARED_KEYS,
    INCOMING,
    OWN,
    OWNERS,
    TIMESTAMP_TYPE,
    TOPIC_RESOURCE,
    declared_configs,
    topic_from,
)
from eventlib.log.rules import refuse_mismatch
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms

_KEEPS_ALL = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_SET = 0


class Topics:
    """The topics of one log: Kafka's configs, and an internal topic for the properties without a Kafka config."""

    def __init__(self, cluster: Cluster, point_reads: PointReads, appends: Appends) -> None:
        self.known: Mapping[str, Topic] = {}
        self.receives = False
        self._cluster = cluster
        self._point_reads = point_reads
        self._appends = appends
        self._declared = dict[str, dict[str, Any]]()
        self._read_to = 0

    async def load(self) -> None:
        """Load the cluster's topics. Raises: LogUnavailable, LogDenied."""
        await self._cluster.refresh()
        await self._read_declarations()
        names = [name for name in self._cluster.topics if not name.startswith(OWN)]
        configs = await self._configs(names)
        for gone in self.known.keys() - configs.keys():
            self._point_reads.forget(gone)
        self.known = {
            name: topic_from(name, len(self._cluster.topics[name]), found, self._declared.get(name, {}))
            for name, found in configs.items()
        }

    async def create(self, topics: Iterable[Topic]) -> None:
        """See `Log.create_topics`. Raises: TopicMismatch also for a topic with LogAppendTime."""
        declared = [*topics]
        await self.load()
        if INCOMING.name in self._cluster.topics and not self.receives:
            raise LogUnavailable("this log is an incomplete copy: finish it with `eventlib copy`")
        await self._refuse_mismatches(declared)
        missing = [topic for topic in declared if topic.name not in self._cluster.topics]
        if missing:
            await self.create_own()
            await self._create(missing, but={})
        changed = [topic for topic in declared if self.known.get(topic.name) != topic]
        await self._declare(changed)
        await self._alter(changed)  # also new ones: another client may have created it first, with other configs
        if changed:
            await self.load()
            await self._refuse_mismatches(declared)  # another client may have created it first

    async def delete(self, names: Iterable[str]) -> None:
        """See `Log.delete_topics`."""
        await self.load()
        existing = [name for name in names if name in self._cluster.topics]
        if not existing:
            return
        options = self._cluster.options
        physical = [self._cluster.physical(name) for name in existing]
        message = DeleteTopicsRequest(physical, int(options.request_timeout_s * 1000))
        await self._cluster.persist(lambda: self._delete_once(message), options.append_timeout_s)
        await self._cluster.persist(lambda: self._await_deletion(existing), options.append_timeout_s)
        await self.load()

    async def create_keeping_all(self, topics: Sequence[Topic]) -> None:
        """Create topics that drop nothing yet: no retention, no compaction, until `create` sets them."""
        await self._create(topics, but=_KEEPS_ALL)

    async def create_own(self) -> None:
        """Create this log's internal topics, where missing."""
        missing = [topic for topic in (OWNERS, DECLARATIONS) if topic.name not in self._cluster.topics]
        if missing:
            await self._create(missing, but={})

    async def _refuse_mismatches(self, declared: Sequence[Topic]) -> None:
        existing = [topic for topic in declared if topic.name in self.known]
        for topic in existing:
            refuse_mismatch(self.known[topic.name], topic)
        for name, configs in (await self._configs([topic.name for topic in existing])).items():
            if configs.get(TIMESTAMP_TYPE) == "LogAppendTime":
                raise TopicMismatch(
                    f"topic {name!r} has {TIMESTAMP_TYPE}=LogAppendTime: the brokers would change the times of its events, so "
                    "that a replay would decide differently; set it to CreateTime, or use another topic"
                )

    async def _configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        resources = [
            (TOPIC_RESOURCE, self._cluster.physical(name), [*DECLARED_KEYS, *COMPACTION_KEYS, TIMESTAMP_TYPE])
            for name in names
        ]
        answer = await self._cluster.ask_persistently(DescribeConfigsRequest(resources))
        found = dict[str, dict[str, str]]()
        for code, _, _, name, entries in answer.resources:
            if code == Code.NONE:
                found[self._cluster.logical(name)] = {key: value for key, value, *_ in entries}
            elif code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise failure(code, f"reading the configs of topic {name}")
        return found

    async def _create(self, topics: Sequence[Topic], but: Mapping[str, str]) -> None:
        within_s = self._cluster.options.append_timeout_s
        await self._cluster.persist(lambda: self._create_once(topics, but), within_s)
        names = [topic.name for topic in topics]
        await self._cluster.persist(lambda: self._await_creation(names), within_s)

    async def _create_once(self, topics: Sequence[Topic], but: Mapping[str, str]) -> None:
        for name, (code, sentence) in (await create_topics(self._cluster, topics, but)).items():
            if code == Code.TOPIC_ALREADY_EXISTS:
                continue
            error = failure(code, f"creating topic {name}")
            if isinstance(error, Transient) or code == Code.TOPIC_AUTHORIZATION_FAILED:
                raise error
            raise WiringError(
                f"topic {name} cannot be created: {sentence or name_of(code)}; see EVENTLIB_KAFKA_REPLICATION_FACTOR and "
                "the brokers' policies, or have a user with the right create it"
            )

    async def _delete_once(self, message: Any) -> None:
        answer = await self._cluster.ask(message)
        for name, code in answer.topic_error_codes:
            if code not in {Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION}:
                raise failure(code, f"deleting topic {name}")

    async def _await_deletion(self, names: Sequence[str]) -> None:
        await self._cluster.refresh()
        left = [name for name in names if name in self._cluster.topics]
        if left:
            raise Transient(f"topic {left[0]} was deleted, but still exists", stale=False)

    async def _await_creation(self, names: Sequence[str]) -> None:
        await self._cluster.refresh()
        for name in names:
            partitions = self._cluster.topics.get(name, {})
            if not partitions or any(leader < 0 for leader in partitions.values()):
                raise Transient(f"topic {name} was created, but does not exist yet", stale=False)

    async def _alter(self, topics: Sequence[Topic]) -> None:
        changes = [
            (TOPIC_RESOURCE, self._cluster.physical(topic), [(key, _SET, value) for key, value in configs.items()])
            for topic, configs in (await self._differences(topics)).items()
        ]
        if not changes:
            return
        answer = await self._cluster.ask_persistently(Exactly(IncrementalAlterConfigsRequest0(changes, False)))
        for code, _, _, name in answer.resources:
            if code:
                raise failure(code, f"changing the configs of topic {name}")
        await self._cluster.persist(lambda: self._await_configs(topics), self._cluster.options.append_timeout_s)

    async def _await_configs(self, topics: Sequence[Topic]) -> None:
        for name in await self._differences(topics):
            raise Transient(f"the configs of topic {name} were changed, but not yet on all brokers", stale=False)

    async def _differences(self, topics: Sequence[Topic]) -> dict[str, dict[str, str]]:
        """Return the configs that differ from the declarations, by topic."""
        actual = await self._configs([topic.name for topic in topics])
        found = dict[str, dict[str, str]]()
        for topic in topics:
            declared = declared_configs(topic)
            differs = {key: value for key, value in declared.items() if actual.get(topic.name, {}).get(key) != value}
            if differs:
                found[topic.name] = differs
        return found

    async def _declare(self, topics: Sequence[Topic]) -> None:
        records = list[Record]()
        for topic in topics:
            content = {"partitioner": topic.partitioner, "latest": topic.latest}
            if self._declared.get(topic.name) != content:
                value = json.dumps(content).encode()
                records.append(Record(DECLARATIONS.name, 0, -1, now_ms(), topic.name.encode(), value))
        if records:
            await self.create_own()
            await self._appends.append(records)

    async def _read_declarations(self) -> None:
        if DECLARATIONS.name not in self._cluster.topics:
            return
        while records := await self._point_reads.read((DECLARATIONS.name, 0), self._read_to, 1_000):
            for record in records:
                self._declared[(record.key or b"").decode()] = json.loads(record.value or b"{}")
            self._read_to = records[-1].offset + 1
