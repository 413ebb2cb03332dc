"""Nodes of a cluster die under a Kafka log: appends wait or say so, owners start over from the log, readers go on.

Each owner writes numbers, one after the other, to two topics at once. When it loses its claim it does not know how its
last append ended, so it goes on from what the log says, as a task does: then no number is missing, and none is twice.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from secrets import token_hex

import pytest

from eventlib.devtools.kafka import Cluster
from eventlib.errors import LogUnavailable, OwnershipLost
from eventlib.log.base import Claim, Log, Membership
from eventlib.log.kafka.log import KafkaLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms

TASKS = 3
TOPICS = [Topic("odd", partitions=TASKS), Topic("even", partitions=TASKS), Topic("plain", partitions=TASKS)]


def record(topic: str, partition: int, text: str) -> Record:
    return Record(topic, partition, -1, now_ms(), b"k", text.encode())


class Numbers:
    """One service's tasks, each of which counts on the log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.stops = False
        self.said = 0
        self.losses = 0
        self.unavailable = 0

    async def run(self, member: Membership) -> None:
        """Count in every task that this process has, until cancelled."""
        counting = dict[Claim, asyncio.Task[None]]()
        held: Mapping[int, Claim] = {}
        try:
            while True:
                held = await member.changed(held)
                for claim in counting.keys() - {*held.values()}:
                    await counting.pop(claim)  # it has lost its claim
                    await member.give_back(claim)
                for claim in {*held.values()} - counting.keys():
                    counting[claim] = asyncio.create_task(self._count(claim))
        finally:
            self.stops = True
            await asyncio.gather(*counting.values())

    async def _count(self, claim: Claim) -> None:
        number = len(await self._log.read("odd", claim.partition, 0, 1_000_000))
        while not self.stops:
            records = [record(topic, claim.partition, str(number)) for topic in ("odd", "even")]
            try:
                await self._log.append(records, claim)
            except OwnershipLost:
                self.losses += 1
                return
            except LogUnavailable:
                self.unavailable += 1
            else:
                number += 1
                self.said += 1
                await asyncio.sleep(0.005)


async def append_plainly(log: Log, partition: int, acknowledged: list[str]) -> None:
    """Append one by one without a claim, and take note of what was acknowledged."""
    number = 0
    while True:
        text = f"{partition}/{number}"
        try:
            await log.append([record("plain", partition, text)])
        except LogUnavailable:
            continue  # it may be there all the same; the next one has another text
        finally:
            number += 1
        acknowledged.append(text)
        await asyncio.sleep(0.01)


@asynccontextmanager
async def running(*work: Callable[[], object]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(each()) for each in work]  # type: ignore[call-overload]  # coroutines, all of them
    try:
        yield
        assert not [task for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


HANGS_S = 14.0
"""Longer than a transaction may take, so that owners do not know how theirs ended."""


async def die_and_return(cluster: Cluster, node: int) -> None:
    cluster.kill(node)
    await asyncio.sleep(3)
    await asyncio.to_thread(cluster.restart, node)
    await asyncio.sleep(1)


async def hang_together(cluster: Cluster) -> None:
    for node in (1, 2, 3):
        cluster.pause(node)
    await asyncio.sleep(HANGS_S)
    for node in (1, 2, 3):
        cluster.resume(node)


async def check(log: Log, seen: Counter[tuple[str, int, int]], acknowledged: list[str]) -> int:
    """Check that nothing is missing and nothing is twice; return how many numbers there are."""
    numbers = 0
    for partition in range(TASKS):
        odd, even = [await log.read(topic, partition, 0, 1_000_000) for topic in ("odd", "even")]
        assert [r.value for r in odd] == [b"%d" % n for n in range(len(odd))]
        assert [r.value for r in even] == [r.value for r in odd]
        plain = Counter((r.value or b"").decode() for r in await log.read("plain", partition, 0, 1_000_000))
        assert max(plain.values()) == 1, "an idempotent producer writes once, however often it sends"
        assert {text for text in acknowledged if text.startswith(f"{partition}/")} <= plain.keys()
        for r in odd:
            assert seen["odd", partition, r.offset] == 1, "a reader sees each record once"
        numbers += len(odd)
    return numbers


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param((1,), marks=pytest.mark.extended),
        pytest.param((2, "all", 3, 1, "all", 2, 3), marks=pytest.mark.slow),
    ],
    ids=["one", "seven"],
)
async def test_nodes_die_and_nothing_is_missing_or_twice(three_brokers: Cluster, faults: tuple[int | str, ...]) -> None:
    log = await KafkaLog.open(f"{three_brokers.url}/?prefix={token_hex(4)}.")
    try:
        await _attack(log, three_brokers, faults)
    finally:
        await log.close()


async def _attack(log: Log, cluster: Cluster, faults: tuple[int | str, ...]) -> None:
    await log.create_topics(TOPICS)
    seen, acknowledged = Counter[tuple[str, int, int]](), list[str]()
    reader = log.reader({("odd", partition): 0 for partition in range(TASKS)})

    async def watch() -> None:
        while True:
            seen.update(r.location for r in await reader.poll(500))

    member, numbers = await log.join("s", TASKS), Numbers(log)
    plain = [lambda p=p: append_plainly(log, p, acknowledged) for p in range(TASKS)]
    async with running(lambda: numbers.run(member), watch, *plain):
        for fault in faults:
            before, said_before = len(acknowledged), numbers.said
            await (die_and_return(cluster, fault) if isinstance(fault, int) else hang_together(cluster))
            async with asyncio.timeout(120):
                while len(acknowledged) < before + 200 or numbers.said < said_before + 30:
                    await asyncio.sleep(0.1)
    async with asyncio.timeout(120):
        while any(reader.position(place) < end for place, end in (await reader.ends()).items()):
            seen.update(r.location for r in await reader.poll(500))
    count = await check(log, seen, acknowledged)
    print(
        f"{count} numbers, {len(acknowledged)} plain; claims lost {numbers.losses}, unavailable {numbers.unavailable}"
    )
    assert count >= numbers.said >= 30 * len(faults)
    assert numbers.losses > 0 or "all" not in faults
    await reader.close()
    await member.leave()
