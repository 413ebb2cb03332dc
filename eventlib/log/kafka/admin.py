"""Admin queries of a cluster, and the deletion of a consumer group's offsets."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from aiokafka.protocol.admin import CreateTopicsRequest, DeleteGroupsRequest, DescribeConfigsRequest
from aiokafka.protocol.group import HeartbeatRequest
from aiokafka.protocol.transaction import EndTxnRequest

from eventlib.errors import ContractError, LogDenied
from eventlib.log.kafka.admin_requests import DescribeQuorumRequest1, MetadataRequest8
from eventlib.log.kafka.client import GROUP, TRANSACTION, Cluster, starting
from eventlib.log.kafka.failures import STALE_COORDINATOR, Code, Transient, failure
from eventlib.log.kafka.requests import Exactly
from eventlib.log.kafka.topic_configs import MOST_REPLICAS, TOPIC_RESOURCE, creation_configs
from eventlib.model.topic import Topic
from eventlib.values import now_ms

_NO_PRODUCER = -1
_QUORUM = "__cluster_metadata"


class Operation(IntEnum):
    """An ACL operation, by its code in Kafka's protocol; responses have a bit field of them."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11

    def among(self, bits: int) -> bool:
        """Whether a response's bit field contains it."""
        return bool(bits >> self & 1)


class ReplicaLocation(NamedTuple):
    """The replicas of one partition."""

    partition: int
    leader: int
    replicas: Sequence[int]
    in_sync: Sequence[int]


class TopicState(NamedTuple):
    """A topic as this user sees it: an error code, the permitted operations, and the location of its replicas."""

    code: int
    operations: int
    replicas: Sequence[ReplicaLocation]


class Clock(NamedTuple):
    """The cluster's time, and the local time before and after the request (milliseconds)."""

    asked_ms: int
    there_ms: int
    answered_ms: int


async def topic_states(cluster: Cluster, names: Iterable[str]) -> tuple[dict[str, TopicState], int]:
    """Return the states of these topics, and this user's permitted operations on the cluster."""
    asked = [cluster.physical(name) for name in names]
    answer = await cluster.ask_persistently(Exactly(MetadataRequest8(asked, False, True, True)))
    found = {
        cluster.logical(name): TopicState(
            code, operations, [ReplicaLocation(each[1], each[2], each[4], each[5]) for each in partitions]
        )
        for code, name, _, partitions, operations in answer.topics
    }
    return found, answer.operations


async def topic_settings(cluster: Cluster, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the configs of these topics; topics that are missing or hidden from this user are left out."""
    asked = [(TOPIC_RESOURCE, cluster.physical(name), None) for name in names]
    if not asked:
        return {}
    answer = await cluster.ask_persistently(DescribeConfigsRequest(asked))
    return {cluster.logical(name): _settings(entries) for code, _, _, name, entries in answer.resources if not code}


async def creatable(cluster: Cluster, topics: Sequence[Topic]) -> Mapping[str, tuple[int, str]]:
    """Return the topics that could not be created, with the broker's error code and message."""

    async def validate() -> Mapping[str, tuple[int, str]]:
        return await create_topics(cluster, topics, {}, validate_only=True)

    return await cluster.persist(validate, cluster.options.request_timeout_s)


async def create_topics(
    cluster: Cluster, topics: Sequence[Topic], but: Mapping[str, str], *, validate_only: bool = False
) -> Mapping[str, tuple[int, str]]:
    """Create topics, with some configs replaced; return those that could not be, with the broker's error code and message.

    Raises: Transient, also while no broker takes part in the cluster, as after a pause of all of them.
    """
    options = cluster.options
    if not cluster.brokers:
        raise Transient("no broker takes part in the cluster at present")
    replicas = options.replication_factor or min(MOST_REPLICAS, len(cluster.brokers))
    requests: list[Any] = [
        (cluster.physical(topic.name), topic.partitions, replicas, [], [*configs.items()])
        for topic in topics
        for configs in [{**creation_configs(topic, replicas, options), **but}]
    ]
    answer = await cluster.ask(CreateTopicsRequest(requests, int(options.request_timeout_s * 1000), validate_only))
    refused = {cluster.logical(name): (code, sentence or "") for name, code, sentence in answer.topic_errors if code}
    for name, (code, sentence) in refused.items():
        # The code is also that of more replicas than there are brokers, which no patience mends.
        if code == Code.INVALID_REPLICATION_FACTOR and "fenced" in sentence:
            raise Transient(f"creating topic {name}: {sentence}")
    return refused


async def may_read_group(cluster: Cluster, group: str) -> bool:
    """Whether this user may join a consumer group: if so, an unknown member's heartbeat is refused for another reason."""
    message = HeartbeatRequest(group, 0, "")
    return await _may(cluster, (GROUP, group), message, Code.GROUP_AUTHORIZATION_FAILED)


async def may_write_transactions(cluster: Cluster, transactional_id: str) -> bool:
    """Whether this user may use a transactional id: if so, ending a transaction is refused for another reason."""
    message = EndTxnRequest(transactional_id, _NO_PRODUCER, 0, False)
    return await _may(cluster, (TRANSACTION, transactional_id), message, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


async def _may(cluster: Cluster, coordinated: tuple[int, str], message: Any, denied: Code) -> bool:
    """Whether this user may find the coordinator of a group or transactional id, and is not denied a request there."""
    within_s = cluster.options.request_timeout_s
    try:
        node = await cluster.persist(lambda: cluster.coordinator(*coordinated), within_s)
    except LogDenied:
        return False
    answer = await cluster.persist(lambda: cluster.send(node, message, "ask"), within_s)
    return bool(answer.error_code != denied)


async def clock(cluster: Cluster) -> Clock | None:
    """Return the time at the leader of the controller quorum; None when this user may not read it."""
    message = Exactly(DescribeQuorumRequest1([(_QUORUM, [(0, {})], {})], {}))
    await cluster.ask_persistently(message)  # so that the measurement excludes opening a connection
    asked = now_ms()
    answer = await cluster.ask_persistently(message)
    answered = now_ms()
    for _, partitions, _ in answer.topics or ():
        for _, code, leader, _, _, voters, _, _ in partitions:
            for replica, _, fetched_at, _, _ in voters:
                if not code and replica == leader:
                    return Clock(asked, fetched_at, answered)
    return None


def _settings(entries: Iterable[Any]) -> dict[str, str]:
    return {key: value for key, value, *_ in entries}


async def forget_group(url: str, group: str) -> None:
    """Delete a consumer group and its committed offsets; a missing one is ignored.

    Raises: ContractError while it has members; WiringError, LogUnavailable, LogDenied.
    """
    async with starting(url) as cluster:

        async def attempt() -> int:
            node = await cluster.coordinator(GROUP, group)
            answer = await cluster.send(node, DeleteGroupsRequest([group]), "ask")
            code: int = answer.results[0][1]
            if code in STALE_COORDINATOR:
                cluster.forget_coordinator(GROUP, group)
                raise failure(code, f"deleting the group {group}")
            return code

        code = await cluster.persist(attempt, cluster.options.request_timeout_s)
        await cluster.close()
    if code == Code.NON_EMPTY_GROUP:
        raise ContractError(
            f"the group {group} has running members: stop them first; a crashed one counts until its session times out"
        )
    if code not in {Code.NONE, Code.GROUP_ID_NOT_FOUND}:
        raise failure(code, f"deleting the group {group}")
