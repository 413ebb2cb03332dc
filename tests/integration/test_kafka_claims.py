"""Claims on Kafka: let go on request, ended with their writer, and taken back; what was aborted is never read."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from secrets import token_hex

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.group import MemberAssignment

from eventlib.devtools.kafka import Cluster as BrokerCluster
from eventlib.errors import LogUnavailable, OwnershipLost
from eventlib.log.base import Claim, Log, Membership
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.log import KafkaLog
from eventlib.log.kafka.membership import KafkaMembership
from eventlib.log.kafka.options import parse_url
from eventlib.log.kafka.ownership import Owners
from eventlib.log.kafka.ownership_topic import PLACE, Owner
from eventlib.log.kafka.point_reads import PointReads, Written
from eventlib.log.kafka.producer import Producer
from eventlib.log.kafka.writer import producer_names
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms

PATIENCE_S = 120.0
SESSION_S = 3.0
TOPICS = [Topic("a", partitions=2), Topic("b", partitions=1)]


def record(topic: str, value: bytes, partition: int = 0) -> Record:
    return Record(topic, partition, -1, now_ms(), b"k", value)


async def until_owns(member: Membership, held: Mapping[int, Claim], partitions: set[int]) -> Mapping[int, Claim]:
    async with asyncio.timeout(PATIENCE_S):
        while held.keys() != partitions:
            held = await member.moved(held)
    return held


@pytest_asyncio.fixture
async def log(kafka_url: str) -> AsyncIterator[Log]:
    log = await KafkaLog.open(kafka_url)
    await log.create_topics(TOPICS)
    yield log
    await log.close()


@pytest_asyncio.fixture
async def other(kafka_url: str, log: Log) -> AsyncIterator[Log]:
    del log  # opened first: it makes the topics
    other = await KafkaLog.open(kafka_url)
    yield other
    await other.close()


@pytest_asyncio.fixture
async def cluster(kafka_url: str, log: Log) -> AsyncIterator[Cluster]:
    del log  # as above
    cluster = Cluster(*parse_url(kafka_url))
    await cluster.start()
    yield cluster
    await cluster.close()


async def test_an_owner_elsewhere_lets_go_when_it_is_asked_and_keeps_the_rest(log: Log, other: Log) -> None:
    member = await log.join("s", 2)
    before = await until_owns(member, {}, {0, 1})

    seized = await other.seize("s", 0)

    with pytest.raises(OwnershipLost):
        await log.append([record("a", b"no")], before[0])
    await log.append([record("a", b"kept", partition=1)], before[1])
    await other.append([record("a", b"seized")], seized)
    without = await until_owns(member, before, {1})
    assert without[1] == before[1]
    after = await until_owns(member, without, {0, 1})
    with pytest.raises(OwnershipLost):
        await other.append([record("a", b"too late")], seized)
    await log.append([record("a", b"back")], after[0])
    assert [r.value for r in await log.read("a", 0, 0, 10)] == [b"seized", b"back"]
    await member.leave()


@pytest.mark.parametrize("first", [0, 1])  # either may be the one that it would keep if it stayed
async def test_who_retires_gives_each_task_to_the_others_while_it_goes_on_with_the_rest(
    log: Log, other: Log, first: int
) -> None:
    member = await log.join("s", 2)
    before = await until_owns(member, {}, {0, 1})
    await member.retire()
    second = await other.join("s", 2)
    for partition, claim in before.items():
        await log.append([record("a", b"mine", partition)], claim)

    await member.give_back(before[first])

    await log.append([record("a", b"still mine", 1 - first)], before[1 - first])
    with pytest.raises(OwnershipLost):
        await log.append([record("a", b"no", first)], before[first])
    taken = await until_owns(second, {}, {first})
    await other.append([record("a", b"theirs", first)], taken[first])
    await member.give_back(before[1 - first])
    assert (await until_owns(second, taken, {0, 1})).keys() == {0, 1}
    await member.leave()
    await second.leave()
    assert await log.owners("s") == {}


@pytest.mark.parametrize("max_blocked_s", [60, 1])
async def test_a_member_whose_loop_is_blocked_keeps_its_tasks_within_the_bound(
    kafka_url: str, max_blocked_s: int
) -> None:
    log = await KafkaLog.open(f"{kafka_url}&session_timeout_s={SESSION_S}&max_blocked_s={max_blocked_s}")
    try:
        await log.create_topics(TOPICS)
        member = await log.join("s", 1)
        assert isinstance(member, KafkaMembership)
        held = await until_owns(member, {}, {0})
        standing = member._group.standing  # noqa: SLF001  what the group knows it by
        time.sleep(1.7 * SESSION_S)  # noqa: ASYNC251  as a handler that blocks
        stayed = await member._group.confirm()  # noqa: SLF001  as above
        if max_blocked_s > SESSION_S:
            assert stayed
            assert member._group.standing == standing  # noqa: SLF001  as above
            assert (await member.changed({})) == held
        else:
            assert not stayed, "a loop that is dead for longer is expelled"
    finally:
        await log.close()


async def test_a_take_over_that_fails_is_tried_again(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    take, tries = Owners.take, list[int]()

    async def fails_first(owners: Owners, task: tuple[str, int], living: frozenset[str]) -> Owner:
        tries.append(task[1])
        if len(tries) == 1:
            raise LogUnavailable("a coordinator does not answer")
        return await take(owners, task, living)

    monkeypatch.setattr(Owners, "take", fails_first)
    member = await log.join("s", 1)
    assert (await until_owns(member, {}, {0})).keys() == {0}
    assert tries == [0, 0]
    await member.leave()


async def test_who_seized_a_task_for_a_short_act_is_not_waited_for(
    log: Log, other: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventlib.log.kafka.ownership._HEARS_S", 3_600.0)  # who waits for the former one waits for good
    acts = 8
    async with asyncio.timeout(4 * PATIENCE_S):
        for act in range(acts):
            here = other if act % 2 else log
            await here.append([record("a", b"%d" % act)], await here.seize("s", 0))
    await log.decided_end("a", 0)  # a commit is answered before others can read it
    assert [r.value for r in await log.read("a", 0, 0, 10)] == [b"%d" % act for act in range(acts)]


async def test_a_writer_that_was_ended_loses_all_its_claims_and_takes_them_back(log: Log, cluster: Cluster) -> None:
    member = await log.join("s", 2)
    before = await until_owns(member, {}, {0, 1})
    await log.append([record("a", b"1")], before[0])
    (newest,) = {json.loads(r.value or b"")["writer"] for r in await PointReads(cluster, Written()).read(PLACE, 0, 100)}
    for name in producer_names(newest):
        await Producer(cluster, "write", lambda _: 1_000_000, name).start()

    with pytest.raises(OwnershipLost, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
        await log.append([record("a", b"no"), record("b", b"no")], before[0])

    with pytest.raises(OwnershipLost):
        await log.append([record("a", b"no", partition=1)], before[1])
    without = await until_owns(member, before, set())
    after = await until_owns(member, without, {0, 1})
    for partition, claim in after.items():
        assert claim.epoch > before[partition].epoch
        await log.append([record("a", b"2", partition=partition)], claim)
    assert [r.value for r in await log.read("a", 0, 0, 10)] == [b"1", b"2"]
    assert await log.read("b", 0, 0, 10) == []
    await member.leave()


async def test_kafkas_own_tools_see_who_has_what_and_how_far_it_is(
    log: Log, broker: BrokerCluster, cluster: Cluster
) -> None:
    member = await log.join("s", 2)
    await until_owns(member, {}, {0, 1})
    positions = {("a", 0): 5, ("a", 1): 7}
    member.progress = lambda: positions
    group, topic = f"{cluster.options.prefix}eventlib.s", f"{cluster.options.prefix}a"
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            found: dict[tuple[str, int], int] = {}
            while found != {(topic, 0): 5, (topic, 1): 7}:
                await asyncio.sleep(0.1)
                offsets = await admin.list_consumer_group_offsets(group)
                found = {(place.topic, place.partition): at.offset for place, at in offsets.items()}
        (described,) = await admin.describe_consumer_groups([group])
        ((_, _, state, kind, assignor, members, *_),) = described.groups
        assert (state, kind, assignor, len(members)) == ("Stable", "consumer", "eventlib-tasks", 1)
        given = MemberAssignment.decode(members[0][4]).assignment
        assert given == [(f"{cluster.options.prefix}s.changelog", [0, 1])]
    finally:
        await admin.close()
    await member.leave()


async def test_what_was_aborted_is_never_read(log: Log, broker: BrokerCluster, kafka_url: str) -> None:
    await log.append([record("b", b"1")])
    reader = log.reader({("b", 0): 0})
    topic = f"{parse_url(kafka_url)[1].prefix}b"
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=token_hex(4)) as stranger:
        await stranger.begin_transaction()
        await stranger.send_and_wait(topic, b"aborted", partition=0)
        assert [r.value for r in await reader.poll(10)] == [b"1"]
        assert await reader.poll(10, 0) == []
        undecided = await log.end("b", 0)
        await stranger.abort_transaction()

    await log.append([record("b", b"2")])

    async with asyncio.timeout(PATIENCE_S):
        assert [r.value for r in await reader.poll(10)] == [b"2"]
    assert [r.value for r in await log.read("b", 0, 0, 10)] == [b"1", b"2"]
    assert reader.position(("b", 0)) == await log.end("b", 0) > undecided
    await reader.close()
