"""The relay on Kafka: what one says goes on within the transaction, and what others write in between is not lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from eventlib import Event, EventLog, Publication, Runtime, RuntimeConfig, open_log
from eventlib.errors import LogUnavailable, OwnershipLost
from eventlib.log.base import Batch, Claim, Share
from eventlib.log.kafka.log import KafkaLog
from eventlib.log.kafka.producer import Producer
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.runtime.records import JournalEntry
from eventlib.testing.log_fixture import record
from tests.integration.calling_app import Asked, Called, Calling, Passed, Phone, Shown, each_once, three_services

PATIENCE_S = 120.0


async def records_of(log: EventLog, topic: str) -> list[Record]:
    for partition in range(2):
        await log.port.decided_end(topic, partition)
    return [r for p in range(2) for r in await log.port.read(topic, p, 0, 100_000)]


async def names(log: EventLog, topic: str, kind: type[Event]) -> Counter[str]:
    return Counter((r.key or b"").decode() for r in await records_of(log, topic) if r.type == kind.__name__)


async def test_what_one_says_reaches_the_others_in_the_same_transaction(kafka_url: str) -> None:
    choreography, phone = three_services(set()), Phone()
    phone.free.set()
    async with open_log(kafka_url, choreography) as log:
        async with Runtime(log, ports={"phone": phone}) as runtime:
            for name in "abcdefghijkl":  # one at a time, so that whoever is to take it up is at rest
                await runtime.idle()
                await log.publish(Asked(name=name))
            await runtime.idle()
        for topic, kind in (("passes", Passed), ("shows", Shown), ("calls", Calling), ("calls", Called)):
            assert await names(log, topic, kind) == Counter("abcdefghijkl")
        # One time means one transaction. Some are handed on; who does not know yet how the last one ended reads it later.
        assert await heard_at(log, "first", "asks") & await heard_at(log, "second", "passes")


async def heard_at(log: EventLog, service: str, topic: str) -> set[int]:
    """Return when a service has taken something from a topic."""
    raws = await records_of(log, f"{service}.journal")
    entries = [log.codec.decode(JournalEntry, raw.value or b"") for raw in raws]
    return {entry.at_ms for entry in entries if any((step.kind, step.topic) == ("run", topic) for step in entry.steps)}


@pytest.fixture(params=[pytest.param(0, marks=pytest.mark.extended, id="quick"), pytest.param(0.02, id="slow")])
def slowly(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers be quick, or take their time, in which whoever takes part in a transaction hears of other things."""
    write = Producer.write

    async def slow(producer: Producer, records: Sequence[Record]) -> list[int]:
        offsets = await write(producer, records)
        await asyncio.sleep(request.param)
        return offsets

    monkeypatch.setattr(Producer, "write", slow)


@pytest.mark.usefixtures("slowly")
async def test_what_others_write_in_between_is_handled_too_and_in_its_place(kafka_url: str) -> None:
    choreography, phone = three_services(set()), Phone()
    phone.free.set()
    async with open_log(kafka_url, choreography) as log, open_log(kafka_url, choreography) as other:

        async def write(of: EventLog, said: Callable[[str], Event], prefix: str, pause_s: float) -> None:
            for n in range(0, 90, 3):
                await of.publish_many([Publication(said(f"{prefix}{m}")) for m in range(n, n + 3)])
                await asyncio.sleep(pause_s)  # now and then somebody has to be at rest

        async with Runtime(log, ports={"phone": phone}, config=RuntimeConfig(batch=20)) as runtime:
            await runtime.idle()
            await asyncio.gather(
                write(log, lambda name: Asked(name=name), "own", 0.09),
                write(other, lambda name: Passed(name=name), "other", 0.1),
                write(other, lambda name: Called(name=name), "called", 0.11),
            )
            await runtime.idle()
        own, others = ({f"{prefix}{n}": 1 for n in range(90)} for prefix in ("own", "other"))
        assert await names(log, "shows", Shown) == await names(log, "calls", Calling) == own | others
        for service in ("second", "third"):
            for partition in range(2):
                await each_once(log, service, partition)


class ExternalStates(Share):
    """A share that does what a test says, and remembers what it was told."""

    def __init__(self, *claims: Claim) -> None:
        self.claims = claims
        self.ended = asyncio.Event()
        self.error: Exception | None = None
        self.offsets: list[int] = []
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.began = asyncio.Event()

    async def write(self, batch: Batch) -> None:
        for claim in self.claims:
            batch.enter(claim)
        for value in (b"1", b"2"):
            self.offsets += await batch.append([record("a", value), record("b", value)])
        self.began.set()
        await self.may_end.wait()

    def committed(self) -> None:
        assert not self.ended.is_set()
        self.ended.set()

    def failed(self, error: Exception) -> None:
        assert not self.ended.is_set()
        self.error = error
        self.ended.set()


@asynccontextmanager
async def opened(kafka_url: str) -> AsyncIterator[KafkaLog]:
    log = await KafkaLog.open(kafka_url)
    await log.create_topics([Topic("a", partitions=1), Topic("b", partitions=1)])
    yield log
    await log.close()


async def ended(log: KafkaLog, share: ExternalStates) -> ExternalStates:
    assert log.enlist(share, share.claims[0])
    async with asyncio.timeout(PATIENCE_S):
        await share.ended.wait()
    return share


async def values(log: KafkaLog, topic: str) -> list[bytes | None]:
    await log.decided_end(topic, 0)
    return [r.value for r in await log.read(topic, 0, 0, 100)]


async def test_a_share_has_its_offsets_at_once_and_nobody_sees_them_before_the_end(kafka_url: str) -> None:
    async with opened(kafka_url) as log, opened(kafka_url) as other:
        claim = await log.seize("s", 0)
        share = ExternalStates(claim)
        share.may_end.clear()
        ending = asyncio.create_task(ended(log, share))
        await share.began.wait()
        assert share.offsets == [0, 0, 1, 1]
        assert await other.read("a", 0, 0, 10) == []
        assert await other.append([record("a", b"behind")]) == [2]
        share.may_end.set()
        assert (await ending).error is None
        assert await values(other, "a") == [b"1", b"2", b"behind"]


async def test_a_share_that_fails_leaves_nothing_and_the_next_one_passes(kafka_url: str) -> None:
    async with opened(kafka_url) as log:
        kept, lost = await log.seize("s", 0), Claim("s", 1, 99)

        class Half(ExternalStates):
            async def write(self, batch: Batch) -> None:
                await super().write(batch)
                batch.enter(lost)

        assert isinstance((await ended(log, Half(kept))).error, OwnershipLost)
        assert (await ended(log, ExternalStates(kept))).error is None
        assert await values(log, "a") == await values(log, "b") == [b"1", b"2"]


async def test_whoever_takes_over_waits_for_its_end_or_ends_it(kafka_url: str) -> None:
    async with opened(kafka_url) as log, opened(kafka_url) as other:
        share = ExternalStates(await log.seize("s", 0))
        share.may_end.clear()
        ending = asyncio.create_task(ended(log, share))
        await share.began.wait()
        await other.seize("s", 0)
        share.may_end.set()
        assert (await ending).error is not None, "its writer was fenced"
        assert await values(other, "a") == []
        with pytest.raises(OwnershipLost):
            log.enlist(ExternalStates(*share.claims), share.claims[0])


async def test_what_waits_when_the_log_is_closed_hears_of_it(kafka_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_self: Producer) -> None:
        await asyncio.Event().wait()

    async with opened(kafka_url) as log:
        claim = await log.seize("s", 0)
        monkeypatch.setattr(Producer, "end", never)
        shares = [ExternalStates(claim), ExternalStates(claim)]
        for share in shares:
            assert log.enlist(share, claim)
        await shares[0].began.wait()
        await log._owners.owner(claim).writer.close()  # noqa: SLF001  a log waits for what is under way
        for share in shares:
            async with asyncio.timeout(PATIENCE_S):
                await share.ended.wait()
            assert isinstance(share.error, LogUnavailable)
