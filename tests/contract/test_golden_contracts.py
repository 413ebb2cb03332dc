"""Logs that three versions of one application have recorded are one past to its code of today."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from eventlib import EventLog, Runtime
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError
from eventlib.log.memory import MemoryLog
from eventlib.model.event import Event, contract_of
from eventlib.model.states import replace
from eventlib.queries.state import state_of
from eventlib.replay import replay
from tests.golden.contracts import first, third
from tests.golden.contracts.record import VERSIONS, load
from tests.golden.contracts.third import Parcel, ParcelAccepted, ParcelDelivered, ParcelHandedIn, Speed

ADA = Parcel("Ada", "London", 450.0, 450, "A. L.", insured=False)
GRACE = Parcel("Grace", "New York", 1200.0, 2400, None, insured=False)


@pytest.fixture(params=VERSIONS)
async def log(request: pytest.FixtureRequest) -> AsyncIterator[EventLog]:
    port = MemoryLog()
    found = EventLog(port, FramedCodec(port), third.post)
    await load(request.param, port, found)
    yield found
    await port.close()


async def events(log: EventLog, topic: str) -> list[Event]:
    records = [r for p in range(8) for r in await log.port.read(topic, p, 0, 100)]
    found = [event for _, event in await log.decode_many(sorted(records, key=lambda r: (r.timestamp_ms, r.key)))]
    assert all(isinstance(event, Event) for event in found), found
    return [event for event in found if isinstance(event, Event)]


async def test_every_version_tells_the_same_events(log: EventLog) -> None:
    assert [event for event in await events(log, "parcels.requests") if isinstance(event, ParcelHandedIn)] == [
        ParcelHandedIn(parcel_id="1", name="Ada", city="London", weight_g=450.0, speed=Speed.SLOW),
        ParcelHandedIn(parcel_id="2", name="Grace", city="New York", weight_g=1200.0, speed=Speed.FAST),
    ]
    said = await events(log, "parcels")
    assert sorted((event for event in said if isinstance(event, ParcelAccepted)), key=lambda e: e.parcel_id) == [
        ParcelAccepted(parcel_id="1", price_cents=450),
        ParcelAccepted(parcel_id="2", price_cents=2400),
    ]
    assert [event for event in said if isinstance(event, ParcelDelivered)] == [
        ParcelDelivered(parcel_id="1", signature="A. L.")
    ]


async def test_every_version_replays_to_what_it_said(log: EventLog) -> None:
    await log.codec.refresh()
    report = await replay(log)
    assert report.same, report
    assert report.decisions == 3


async def test_todays_code_goes_on_where_every_version_stopped(log: EventLog) -> None:
    await log.prepare()
    async with Runtime(log) as runtime:
        await log.publish(third.DeliveryTold(parcel_id="2", signed="G. H."), idempotency_key="late")
        await runtime.idle()
    assert (await state_of(log, "parcel", "1")).state == ADA
    assert (await state_of(log, "parcel", "2")).state == replace(GRACE, signature="G. H.")


async def test_states_of_every_version_are_read(log: EventLog) -> None:
    await log.codec.refresh()
    assert (await state_of(log, "parcel", "1")).state == ADA
    assert (await state_of(log, "parcel", "2")).state == GRACE


async def test_older_code_says_that_a_newer_version_has_written() -> None:
    port = MemoryLog()
    log = EventLog(port, FramedCodec(port), first.post)
    await load("third", port, log)
    partition = contract_of(first.ParcelHandedIn).topic.partition_of(b"2")
    (record,) = await log.port.read("parcels.requests", partition, 0, 9)
    with pytest.raises(
        ContractError, match="version 2 of its contract has written this, and this code knows version 1"
    ):
        await log.decode_now(record)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recorded_log_stays_small(version: str) -> None:
    path = Path(first.__file__).with_name(f"{version}.ndjson")
    assert 2_000 < path.stat().st_size < 40_000
