"""Kafka's protocol without a broker: requests, error codes, and what follows from each answer."""

import asyncio
from typing import Any

import pytest
from aiokafka.errors import IncompatibleBrokerVersion, kafka_errors
from aiokafka.protocol.admin import CreateTopicsResponse_v1, DescribeConfigsResponse_v1
from aiokafka.protocol.fetch import FetchResponse_v11
from aiokafka.protocol.struct import Struct
from aiokafka.protocol.transaction import InitProducerIdResponse_v0

from eventlib.errors import LogDenied, LogUnavailable, WiringError
from eventlib.log.kafka.admin import Operation
from eventlib.log.kafka.append_batcher import Appends
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.connections import Broker
from eventlib.log.kafka.failures import Code, Fenced, Transient, failure
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.partition_fetcher import Slot
from eventlib.log.kafka.point_reads import PointReads, Written
from eventlib.log.kafka.producer import Producer
from eventlib.log.kafka.requests import Exactly, ProduceRequest12
from eventlib.log.kafka.tail import Tail
from eventlib.log.kafka.topic_configs import DECLARATIONS, OWNERS
from eventlib.log.kafka.topics import Topics
from eventlib.log.rules import TooLargeForLog
from tests.unit.test_kafka_slot import PLACE, Reader


@pytest.mark.parametrize("transactional_id", [None, "shop~1.a", "größe"])
@pytest.mark.parametrize("sizes", [[], [0], [1, 126, 127, 128], [16_382, 16_383, 16_384], [2_097_150, 2_097_151]])
def test_a_produce_request_is_what_its_schema_says(transactional_id: str | None, sizes: list[int]) -> None:
    partitions: list[Any] = [(number, bytes(size), {}) for number, size in enumerate(sizes)]
    topics: list[Any] = [("a", partitions, {}), ("prefix.b", [(2**31 - 1, b"x", {})], {})] if sizes else []
    request = ProduceRequest12(transactional_id, -1, 10_000, topics, {})
    assert request.encode() == Struct.encode(request)


def test_many_partitions_are_counted_right() -> None:
    partitions: list[Any] = [(number, b"%d" % number, {}) for number in range(300)]
    request = ProduceRequest12("x", 1, 2**31 - 1, [(f"t{n}", partitions, {}) for n in range(200)], {})
    assert request.encode() == Struct.encode(request)


def test_a_version_that_the_broker_does_not_have_is_refused_and_no_other_is_sent_in_its_place() -> None:
    request = ProduceRequest12("x", 1, 1, [], {})
    for versions in ({0: (0, 12)}, {0: (12, 13)}):
        assert Exactly(request).prepare(versions) is request
    for versions in ({}, {0: (0, 11)}, {0: (13, 14)}):
        with pytest.raises(IncompatibleBrokerVersion, match="ProduceRequest12 needs version 12 of API 0"):
            Exactly(request).prepare(versions)


def test_acl_operations_have_the_codes_of_the_protocol_and_are_found_among_the_bits_of_a_response() -> None:
    # https://kafka.apache.org/documentation/#operations_resources_and_protocols, as org.apache.kafka.common.acl.AclOperation
    assert {each.name: each.value for each in Operation} == {
        "READ": 3,
        "WRITE": 4,
        "CREATE": 5,
        "DESCRIBE": 8,
        "DESCRIBE_CONFIGS": 10,
        "ALTER_CONFIGS": 11,
    }
    assert [each for each in Operation if each.among(1 << 4 | 1 << 11)] == [Operation.WRITE, Operation.ALTER_CONFIGS]


def test_codes_have_the_numbers_of_the_protocol() -> None:
    theirs = {error.__name__.removesuffix("Error").lower(): number for number, error in kafka_errors.items()}
    both = {code: theirs[name] for code in Code if (name := code.name.replace("_", "").lower()) in theirs}
    assert len(both) > 25
    assert {code: number for code, number in both.items() if code != number} == {}
    # Those that aiokafka does not know, or by another name: https://kafka.apache.org/protocol#protocol_error_codes
    assert {code.name: int(code) for code in Code if code not in both} == {
        "NONE": 0,
        "NOT_LEADER_OR_FOLLOWER": 6,
        "MESSAGE_TOO_LARGE": 10,
        "NETWORK_EXCEPTION": 13,
        "COORDINATOR_LOAD_IN_PROGRESS": 14,
        "COORDINATOR_NOT_AVAILABLE": 15,
        "NOT_COORDINATOR": 16,
        "KAFKA_STORAGE_ERROR": 56,
        "FENCED_LEADER_EPOCH": 74,
        "UNKNOWN_LEADER_EPOCH": 75,
        "OFFSET_NOT_AVAILABLE": 78,
        "INVALID_RECORD": 87,
        "THROTTLING_QUOTA_EXCEEDED": 89,
        "PRODUCER_FENCED": 90,
    }


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Code.NOT_LEADER_OR_FOLLOWER, Transient),
        (Code.CONCURRENT_TRANSACTIONS, Transient),
        (Code.PRODUCER_FENCED, Fenced),
        (Code.INVALID_TXN_STATE, Fenced),
        (Code.TOPIC_AUTHORIZATION_FAILED, LogDenied),
        (Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, LogDenied),
        (Code.MESSAGE_TOO_LARGE, TooLargeForLog),
        (Code.INVALID_TOPIC, LogUnavailable),
        (999, LogUnavailable),
    ],
)
def test_an_error_is_of_the_kind_that_says_what_to_do(code: int, kind: type[Exception]) -> None:
    error = failure(code, "writing to orders")
    assert type(error) is kind
    assert str(error).startswith("writing to orders: ")


def test_metadata_is_read_again_only_where_it_may_be_the_cause() -> None:
    stale, not_stale = failure(Code.NOT_LEADER_OR_FOLLOWER, "a"), failure(Code.REQUEST_TIMED_OUT, "a")
    assert isinstance(stale, Transient)
    assert isinstance(not_stale, Transient)
    assert (stale.stale, not_stale.stale) == (True, False)


PATIENCE_S = 20.0


async def fetches(monkeypatch: pytest.MonkeyPatch, session: int) -> list[tuple[int, int, int]]:
    """Return of three fetches the session, its epoch, and how many topics they name."""
    sent, third = list[tuple[int, int, int]](), asyncio.Event()

    async def send(_cluster: Cluster, _node: int, message: Any, _lane: str) -> FetchResponse_v11:
        request = message.prepare({1: (0, 11)})
        sent.append((request.session_id, request.session_epoch, len(request.topics)))
        if len(sent) == 3:
            third.set()
        await asyncio.sleep(0)
        return FetchResponse_v11(0, 0, session, [])

    monkeypatch.setattr(Cluster, "send", send)
    tail = Tail(Cluster(["127.0.0.1:1"], KafkaOptions()), 0, "tail")
    tail.follow(Slot(Reader(), PLACE, 0))
    await asyncio.wait_for(third.wait(), PATIENCE_S)
    await tail.close()
    return sent[:3]


async def test_a_session_is_kept_up_where_a_broker_gives_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await fetches(monkeypatch, 7) == [(0, 0, 1), (7, 1, 0), (7, 2, 0)]


async def test_each_fetch_is_whole_where_a_broker_has_no_room_for_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await fetches(monkeypatch, 0) == [(0, 0, 1)] * 3


async def test_a_coordinator_that_has_moved_is_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = iter([1, 2]), list[int]()

    class Coordinator:
        error_code = 0

        @property
        def coordinator_id(self) -> int:
            return next(found)

    async def ask(_cluster: Cluster, _message: Any) -> Coordinator:
        return Coordinator()

    async def send(_cluster: Cluster, node: int, _message: Any, _lane: str) -> InitProducerIdResponse_v0:
        asked.append(node)
        return InitProducerIdResponse_v0(0, Code.NOT_COORDINATOR if node == 1 else Code.NONE, 5, 0)

    monkeypatch.setattr(Cluster, "ask", ask)
    monkeypatch.setattr(Cluster, "send", send)
    cluster = Cluster(["127.0.0.1:1"], KafkaOptions(append_timeout_s=PATIENCE_S))
    cluster.brokers = {node: Broker("127.0.0.1", 1) for node in (1, 2)}
    await Producer(cluster, "write", lambda _: 1_000_000, "shop~1.a").start()
    assert asked == [1, 2]


async def configs_answered_with(code: Code, monkeypatch: pytest.MonkeyPatch) -> Topics:
    """Return the topics of a cluster that has one, and answers with a code when it is asked for its configs."""

    async def refresh(_cluster: Cluster) -> None:
        return None

    async def ask(_cluster: Cluster, _message: Any) -> Any:
        return DescribeConfigsResponse_v1(0, [(code, "", 2, "a", [])])

    monkeypatch.setattr(Cluster, "refresh", refresh)
    monkeypatch.setattr(Cluster, "ask", ask)
    cluster, written = Cluster(["127.0.0.1:1"], KafkaOptions()), Written()
    cluster.topics = {"a": {0: 1}}
    topics = Topics(cluster, PointReads(cluster, written), Appends(cluster, written, lambda _: 1_000_000))
    await topics.load()
    return topics


async def test_a_topic_that_is_deleted_before_its_configs_are_read_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await configs_answered_with(Code.UNKNOWN_TOPIC_OR_PARTITION, monkeypatch)).known == {}


async def test_who_may_not_read_the_configs_of_a_topic_learns_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogDenied, match="reading the configs of topic a"):
        await configs_answered_with(Code.TOPIC_AUTHORIZATION_FAILED, monkeypatch)


async def test_a_topic_is_created_once_brokers_take_part_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a pause of all brokers, when the controller has fenced them and they have not reported yet."""
    cluster, replicas = Cluster(["127.0.0.1:1"], KafkaOptions(append_timeout_s=PATIENCE_S)), list[int]()
    cluster.topics = {OWNERS.name: {0: 1}}

    async def refresh(_cluster: Cluster) -> None:
        cluster.brokers = {node: Broker("127.0.0.1", 1) for node in (1, 2)}
        cluster.topics = {name: {0: 1} for name in (OWNERS.name, DECLARATIONS.name)}

    async def ask(_cluster: Cluster, message: Any) -> Any:
        replicas.append(message.prepare({19: (0, 1)}).create_topic_requests[0][2])
        fenced = "Unable to replicate the partition 2 time(s): All brokers are currently fenced."
        answer = (Code.INVALID_REPLICATION_FACTOR, fenced) if len(replicas) == 1 else (Code.NONE, None)
        return CreateTopicsResponse_v1([(DECLARATIONS.name, *answer)])

    monkeypatch.setattr(Cluster, "refresh", refresh)
    monkeypatch.setattr(Cluster, "ask", ask)
    written = Written()
    topics = Topics(cluster, PointReads(cluster, written), Appends(cluster, written, lambda _: 1_000_000))
    await topics.create_own()
    assert replicas == [2, 2]  # not of the moment at which no broker was known


async def test_more_replicas_than_brokers_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(_cluster: Cluster, _message: Any) -> Any:
        few = "The target replication factor of 3 cannot be reached because only 1 broker(s) are registered."
        return CreateTopicsResponse_v1([(OWNERS.name, Code.INVALID_REPLICATION_FACTOR, few)])

    monkeypatch.setattr(Cluster, "ask", ask)
    cluster, written = Cluster(["127.0.0.1:1"], KafkaOptions(replication_factor=3)), Written()
    cluster.brokers = {1: Broker("127.0.0.1", 1)}
    topics = Topics(cluster, PointReads(cluster, written), Appends(cluster, written, lambda _: 1_000_000))
    with pytest.raises(WiringError, match=r"only 1 broker\(s\) are registered"):
        await topics.create_own()
