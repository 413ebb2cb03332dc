"""The brokers of a Kafka cluster: which one leads or coordinates what, and how they are asked."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from typing import Any, TypeVar

from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.types import CompactArray, CompactString, Int16, TaggedFields

from eventlib.errors import LogUnavailable
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.connections import Broker, Connections
from eventlib.log.kafka.failures import Code, Transient, failure
from eventlib.log.kafka.options import KafkaOptions, parse_url
from eventlib.log.kafka.probing import refuse_what_stays
from eventlib.log.kafka.requests import ApiVersionsRequest3, Exactly
from eventlib.log.kafka.security import warn_of_plaintext_brokers

T = TypeVar("T")

GROUP, TRANSACTION = 0, 1
"""The kind of a coordinator."""

_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.5


class Cluster:
    """The brokers of one log, as seen by this process; the log's topic prefix is added and removed here."""

    def __init__(self, hosts: list[str], options: KafkaOptions) -> None:
        self.options = options
        self.id = ""
        self.topics: Mapping[str, Mapping[int, int]] = {}
        self.brokers: Mapping[int, Broker] = {}
        self.features: Mapping[str, int] = {}
        self.hosts = [Broker(host, int(port)) for host, _, port in (each.rpartition(":") for each in hosts)]
        warn_of_plaintext_brokers(options, [each.host for each in self.hosts])
        self._connections = Connections(options, lambda node: self.brokers.get(node))  # noqa: PLW0108  they change
        self._coordinators = dict[tuple[int, str], int]()
        self._silent = set[int]()
        self._refreshing: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> None:
        """Load the brokers and the cluster's features.

        Raises: LogUnavailable when none can be reached; LogDenied when they refuse this user.
        """
        await self.refresh()
        answer = await self.ask_persistently(Exactly(ApiVersionsRequest3("eventlib", "1", {})))
        self.features = finalized_features(answer)

    @property
    def implicit_transactions(self) -> bool:
        """Whether a write adds its partition to the transaction, and its end bumps the producer's epoch (KIP-890)."""
        return self.features.get("transaction.version", 0) >= 2  # noqa: PLR2004  the feature's level

    def physical(self, topic: str) -> str:
        """Return a topic's name on the cluster."""
        return self.options.prefix + topic

    def logical(self, topic: str) -> str:
        """Return a cluster topic's name in the log."""
        return topic.removeprefix(self.options.prefix)

    def leader(self, topic_partition: TopicPartition) -> int:
        """Return the leader of a partition. Raises: Transient when none is known."""
        node = self.topics.get(topic_partition[0], {}).get(topic_partition[1], -1)
        if node < 0:
            raise Transient(f"{topic_partition[0]}/{topic_partition[1]} has no leader at the moment")
        return node

    def by_leader(self, topic_partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Group partitions by their leader. Raises: Transient when one has none."""
        found = dict[int, list[TopicPartition]]()
        for topic_partition in topic_partitions:
            found.setdefault(self.leader(topic_partition), []).append(topic_partition)
        return found

    async def send(self, node: int, message: Any, lane: str) -> Any:
        """Send a request to a broker, and return its response.

        Raises: Transient when it is unreachable or timed out: the request may have been executed.
        """
        try:
            answer = await self._connections.send(node, message, lane)
        except Transient:
            self._silent.add(node)
            raise
        self._silent.discard(node)
        return answer

    async def ask(self, message: Any) -> Any:
        """Send a request to any broker, unresponsive ones last. Raises: Transient."""
        error: Transient | None = None
        for node in sorted(self.brokers, key=self._silent.__contains__):
            try:
                return await self.send(node, message, "ask")
            except Transient as found:
                error = found
        raise error or Transient("no broker is known")

    async def ask_persistently(self, message: Any) -> Any:
        """Send a request to any broker, and again until one answers. Raises: LogUnavailable."""
        return await self.persist(lambda: self.ask(message), self.options.request_timeout_s)

    async def persist(self, attempt: Callable[[], Awaitable[T]], within_s: float) -> T:
        """Retry until success, with growing pauses. Raises: LogUnavailable after `within_s` seconds."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + within_s, _FIRST_PAUSE_S
        while True:
            try:
                return await attempt()
            except Transient as error:
                if self._closed:
                    raise LogUnavailable("the log was closed by this process; open it again to use it") from error
                if loop.time() + pause >= deadline:
                    raise LogUnavailable(f"no success within {within_s:g} seconds: {error}") from error
                if error.stale:
                    with suppress(LogUnavailable):
                        await self.refresh()
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  spreads load, hides nothing
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def coordinator(self, kind: int, key: str) -> int:
        """Return the broker that coordinates a group or a transactional id. Raises: Transient."""
        node = self._coordinators.get((kind, key))
        if node is None or node not in self.brokers:
            answer = await self.ask(FindCoordinatorRequest(key, kind))
            if answer.error_code:
                raise failure(answer.error_code, f"finding the coordinator of {key}")
            node = self._coordinators[kind, key] = answer.coordinator_id
            if node not in self.brokers:
                await self.refresh()
        return node

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Drop a cached coordinator."""
        self._coordinators.pop((kind, key), None)

    async def refresh(self) -> None:
        """Reload brokers, topics and leaders; concurrent callers share one response.

        Raises: LogUnavailable when no broker can be reached.
        """
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh(), name="kafka metadata")
            self._refreshing.add_done_callback(self._refreshed)
        await asyncio.shield(self._refreshing)

    def _refreshed(self, done: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not done.cancelled():
            done.exception()  # marked as retrieved, also when every waiter was cancelled

    async def _refresh(self) -> None:
        message = MetadataRequest(None, allow_auto_topic_creation=False)
        try:
            answer = await self.ask(message)
        except Transient:
            answer = await self._bootstrap(message)
        self.id = answer.cluster_id
        self.brokers = {node: Broker(host, port) for node, host, port, _ in answer.brokers}
        prefix = self.options.prefix
        self.topics = {
            self.logical(name): {partition: leader for _, partition, leader, *_ in partitions}
            for error, name, is_internal, partitions in answer.topics
            if error in {Code.NONE, Code.LEADER_NOT_AVAILABLE} and not is_internal and name.startswith(prefix)
        }

    async def _bootstrap(self, message: Any) -> Any:
        errors = list[str]()
        for broker in self.hosts:
            try:
                return await self._connections.ask_once(broker, message)
            except Transient as error:
                errors.append(str(error))
        raise LogUnavailable(f"no Kafka broker can be reached: {'; '.join(errors)}")

    async def close(self) -> None:
        """End what is going on, and close every connection."""
        self._closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        await self._connections.close()


@asynccontextmanager
async def starting(url: str) -> AsyncIterator[Cluster]:
    """Start the cluster behind a log's URL for its opener; close it if opening fails.

    Raises: WiringError for an invalid URL; LogUnavailable when no broker can be reached; LogDenied.
    """
    cluster = Cluster(*parse_url(url))
    try:
        try:
            await cluster.start()
        except LogUnavailable:
            await refuse_what_stays(cluster.hosts, cluster.options)
            raise
        yield cluster
    except BaseException:
        await cluster.close()
        raise


def finalized_features(answer: Any) -> dict[str, int]:
    """Return the features that the cluster has agreed on, from the tagged field that holds them."""
    fields = CompactArray(("name", CompactString()), ("last", Int16), ("first", Int16), ("tags", TaggedFields))
    found = fields.decode(BytesIO(answer.tags[2])) if 2 in answer.tags else []  # noqa: PLR2004  the field's number
    return {name: last for name, last, _, _ in found or []}
