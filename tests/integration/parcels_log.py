"""A log of parcels: delivered, lost, waiting for their carrier, and parked."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

from eventlib import EventLog, Runtime
from eventlib.operations import parkings
from tests.integration.parcels_app import ParcelSubmitted, Speed

COUNTRIES = ("France", "Germany", "Österreich", "it's", "日本")
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


class Carriers:
    """Delivers, loses what is noted `lost`, and does not answer for what is noted `away`."""

    async def carry(self, parcel_id: str, note: str | None) -> str | None:
        del parcel_id
        if note == "away":
            await asyncio.sleep(3_600)
        return "water" if note == "lost" else None


def wanted(
    count: int, seed: int = 1, notes: Sequence[str | None] = (None, None, "lost", "away", "bug")
) -> list[ParcelSubmitted]:
    """Return requests with values of every type."""
    random = Random(seed)
    return [
        ParcelSubmitted(
            parcel_id=f"P{n:04}",
            country=random.choice(COUNTRIES),
            grams=random.choice((0, 1, -5, 2**40, random.randrange(1_000))),
            fee=Decimal(random.randrange(-500, 10_000)).scaleb(-2),
            insured=random.random() < 0.5,
            speed=random.choice(list(Speed)),
            wanted_on=(FIRST + timedelta(days=random.randrange(5))).date(),
            packed_at=FIRST + timedelta(milliseconds=random.randrange(100_000)),
            litres=random.choice((0.0, -1.5, random.random() * 10)),
            note=random.choice(notes),
            labels=tuple(random.sample(("A", "B", "C_", "100%"), random.randrange(3))),
        )
        for n in range(count)
    ]


async def send(log: EventLog, count: int, seed: int = 1) -> list[ParcelSubmitted]:
    """Publish requests, first those that end; return when nothing but absent carriers and parked keys is waited for."""
    requests = wanted(count, seed)
    ending = [each for each in requests if each.note not in {"away", "bug"}]
    others = [each for each in requests if each.note in {"away", "bug"}]
    async with Runtime(log, ports={"carrier": Carriers()}) as runtime, asyncio.timeout(120):
        await runtime.idle()  # a new service does not act on what was there before it
        for some, of_type, expected in (
            (ending, {"ParcelDelivered", "ParcelLost"}, len(ending)),
            (others, {"CarryRequested"}, sum(each.note != "bug" for each in requests)),
        ):
            for each in some:
                await log.publish(each, idempotency_key=each.parcel_id)
            while await _count(log, of_type) < expected or len(await parkings(log)) < _parked(some):
                await asyncio.sleep(0.02)
    return requests


def _parked(requests: Sequence[ParcelSubmitted]) -> int:
    return sum(each.note == "bug" for each in requests)


async def _count(log: EventLog, types: Collection[str]) -> int:
    count = 0
    for partition in range(2):
        offset = 0
        while records := await log.port.read("parcels", partition, offset, 1_000):
            offset = records[-1].offset + 1
            count += sum(record.type in types for record in records)
    return count
