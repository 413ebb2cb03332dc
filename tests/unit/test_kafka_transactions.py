"""A share of a transaction on Kafka learns of exactly one end, whatever ends it; without records no broker is asked."""

import asyncio

import pytest

from eventlib.errors import ContractError, LogUnavailable
from eventlib.log.base import Batch, Claim, Share
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.failures import Fenced
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.ownership import process_of
from eventlib.log.kafka.point_reads import Written
from eventlib.log.kafka.writer import Writer, producer_names


class Told(Share):
    """A share that notes its end; `error` is what it raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.ends = list[Exception | None]()
        self.was_full: bool | None = None
        self.under_way: asyncio.Future[None] | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, batch: Batch) -> None:
        batch.enter(Claim("s", 0, 1))
        await self.gate.wait()
        self.was_full = batch.is_full
        assert await batch.append([]) == []
        if self.error is not None:
            raise self.error

    def committed(self) -> None:
        self.ends.append(None)

    def failed(self, error: Exception) -> None:
        self.ends.append(error)

    def enter(self, _claim: Claim, under_way: "asyncio.Future[None]") -> None:
        self.under_way = under_way


@pytest.fixture
def writer() -> Writer:
    return Writer(Cluster(["127.0.0.1:1"], KafkaOptions()), lambda _: 1_000_000, Written(), "shop~1", "write 0")


async def end_of(writer: Writer, share: Told) -> Exception | None:
    writer.enlist(share, share.enter, lambda _: None)
    async with asyncio.timeout(60):
        while not share.ends or share.under_way is None or not share.under_way.done():
            await asyncio.sleep(0)
    (end,) = share.ends
    return end


async def test_a_share_is_committed_and_the_next_one_has_its_turn_after_it(writer: Writer) -> None:
    first, second = Told(), Told()
    first.gate.clear()
    ends = [asyncio.ensure_future(end_of(writer, share)) for share in (first, second)]
    await asyncio.sleep(0.01)
    assert second.under_way is None
    first.gate.set()
    assert await asyncio.gather(*ends) == [None, None]


async def test_a_transaction_is_full_once_it_takes_long(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    share = Told()
    await end_of(writer, share)
    assert share.was_full is False
    monkeypatch.setattr("eventlib.log.kafka.writer.LONG_ENOUGH_S", 0.0)
    share = Told()
    await end_of(writer, share)
    assert share.was_full is True


async def test_what_a_share_raises_is_its_end_and_stops_no_other(writer: Writer) -> None:
    error = ContractError("refused")
    assert await end_of(writer, Told(error)) is error
    assert not writer.is_spent
    assert await end_of(writer, Told()) is None


async def test_a_writer_that_was_fenced_is_used_no_more(writer: Writer) -> None:
    ends = list[bool]()
    writer.on_end = ends.append
    fenced = Fenced("another owner")
    assert await end_of(writer, Told(fenced)) is fenced
    assert (writer.is_spent, ends) == (True, [True])


async def test_shares_that_wait_when_the_writer_is_closed_fail(writer: Writer) -> None:
    running, waiting = Told(), Told()
    running.gate.clear()
    for share in (running, waiting):
        writer.enlist(share, share.enter, lambda _: None)
    await asyncio.sleep(0.01)
    await writer.close()
    await asyncio.sleep(0)
    for share in (running, waiting):
        (end,) = share.ends
        assert isinstance(end, LogUnavailable)
    assert running.under_way is not None
    assert running.under_way.done(), "else who takes its claim over would wait for it"


def test_a_writers_process_is_known_by_its_name() -> None:
    assert {process_of(f"shop-7-ab.{n}") for n in (1, 2)} == {"shop-7-ab"}
    assert len({*producer_names("shop-7-ab.1"), *producer_names("shop-7-ab.2")}) == 4
