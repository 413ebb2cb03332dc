"""Two services for tests of the history tables: enquiries that wait, are parked, priced by an effect, and forgotten."""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Never

from eventlib import Choreography, Decider, Event, EventLog, Meta, Retry, Service, open_log
from eventlib.model.personal import Personal
from eventlib.operations.parked_commands import event_with
from eventlib.queries.parked import Parking, parkings
from tests.handling import handle_all
from tests.operators import request_discard, request_edit, request_retry

BUGS = set[str]()
"""Enquiries for which the handler raises."""
SILENT = set[str]()
"""Enquiries for which the outside world does not answer."""


class Enquired(Event, topic="enquiries", key="enquiry_id", request=True):
    """Somebody asks for a price, within some time."""

    enquiry_id: str
    person_id: str = "p"
    within_ms: int | None = None
    amount: int = 1


class PriceRequested(Event, topic="prices", key="enquiry_id"):
    """The outside world is asked."""

    enquiry_id: str
    amount: int


class Priced(Event, topic="prices", key="enquiry_id", final=True):
    """It has answered."""

    enquiry_id: str
    person_id: str
    cents: int


class Expired(Event, topic="prices", key="enquiry_id", final=True, failure=True):
    """It has not answered in time."""

    enquiry_id: str


class Withdrawn(Event, topic="enquiries", key="enquiry_id"):
    """Nobody wants to know any more: the enquiry is forgotten."""

    enquiry_id: str


class Billed(Event, topic="bills", key="person_id"):
    """A person pays for an answer."""

    person_id: str
    enquiry_id: str
    cents: int


@dataclass(frozen=True)
class Price:
    """An amount."""

    cents: int = 0
    at: datetime | None = None


@dataclass(frozen=True)
class Enquiry:
    """What is known of an enquiry; `key` has a name that the tables have, too."""

    key: str = ""
    person_id: str = ""
    name: Annotated[str, Personal(subject="person_id")] = ""
    wait_until: datetime | None = None
    prices: tuple[Price, ...] = ()


@dataclass(frozen=True)
class Account:
    """What a person has to pay."""

    cents: int = 0


class Market:
    """The outside world: it does not answer at all, or at once."""

    async def price(self, requested: PriceRequested) -> Priced:
        """Return a price."""
        if requested.enquiry_id in SILENT:
            raise TimeoutError("the market is closed")
        return Priced(enquiry_id=requested.enquiry_id, person_id=f"p{requested.amount % 3}", cents=requested.amount)


enquiries = Decider("enquiry", state=Enquiry, key="enquiry_id")
accounts = Decider("account", state=Account, key="person_id")
billings = Decider("billing", state=Account, key="enquiry_id")


@enquiries.evolve
def follow(enquiry: Enquiry, event: Event, meta: Meta) -> Enquiry | None:
    match event:
        case Enquired(enquiry_id=key, person_id=person_id, within_ms=within_ms):
            until = None if within_ms is None else meta.recorded_at + timedelta(milliseconds=within_ms)
            return replace(enquiry, key=key, person_id=person_id, name=f"the name of {person_id}", wait_until=until)
        case Priced(cents=cents):
            prices = (*enquiry.prices, Price(cents, meta.recorded_at))
            return replace(enquiry, prices=prices, wait_until=None)
        case Expired():
            return replace(enquiry, wait_until=None)
        case Withdrawn():
            return None
        case _:
            return enquiry


@enquiries.on
def ask(_enquiry: Enquiry, enquired: Enquired) -> list[PriceRequested]:
    if enquired.enquiry_id in BUGS and enquired.amount < 100:
        raise RuntimeError(f"a bug for {enquired.enquiry_id}")
    return [PriceRequested(enquiry_id=enquired.enquiry_id, amount=enquired.amount)]


enquiries.follows(Withdrawn, Priced)


@enquiries.deadline
def wait_until(enquiry: Enquiry) -> datetime | None:
    return enquiry.wait_until


@wait_until.passed
def expire(enquiry: Enquiry) -> list[Expired]:
    return [Expired(enquiry_id=enquiry.key)]


@enquiries.effect(PriceRequested, retry=Retry(attempts=1))
async def price(requested: PriceRequested, market: Market) -> Priced:
    return await market.price(requested)


@billings.on
def bill(_billing: Account, priced: Priced) -> list[Billed]:
    return [Billed(person_id=priced.person_id, enquiry_id=priced.enquiry_id, cents=priced.cents)]


@accounts.evolve
def add(account: Account, event: Event) -> Account:
    return Account(account.cents + event.cents) if isinstance(event, Billed) else account


@accounts.on
def note(_account: Account, _billed: Billed) -> list[Never]:
    return []


app = Choreography(
    "enquiries",
    [Service("desk", deciders=[enquiries]), Service("books", deciders=[billings, accounts])],
    facts=[Withdrawn],
)


async def settle(log: EventLog) -> None:
    """Run the services until all is handled."""
    await handle_all(log, ports={"market": Market()})


async def enquire(log: EventLog, enquiry_id: str, *amounts: int, within_ms: int | None = None) -> None:
    """Publish enquiries under one id."""
    for amount in amounts:
        asked = Enquired(enquiry_id=enquiry_id, amount=amount, within_ms=within_ms)
        await log.publish(asked, idempotency_key=f"{enquiry_id} {amount}")


async def write_everything(url: str) -> None:
    """Write a log on which every kind of thing has happened that the history tables tell of."""
    BUGS.update({"bug-retried", "bug-edited", "bug-given-up", "bug-waits"})
    SILENT.update({"no-answer-retried", "no-answer-given-up", "no-answer", "late", "cancelled"})
    async with open_log(url, app) as log:
        await settle(log)  # nothing that comes is of the time before the services' first start
        for number in range(6):
            await enquire(log, f"plain-{number}", number + 1)
        for name in sorted(BUGS):
            await enquire(log, name, 1, 2)
        for name in sorted(SILENT):
            await enquire(
                log, name, 1, within_ms={"late": 50, "cancelled": 3_600_000, "no-answer": 3_600_000}.get(name)
            )
        await settle(log)
        await log.publish(Withdrawn(enquiry_id="plain-1"))
        await settle(log)
        await enquire(log, "plain-1", 7)
        await asyncio.sleep(0.1)
        await settle(log)
        await _operate(log)
        await settle(log)
        await log.publish(Withdrawn(enquiry_id="plain-2"))
        await enquire(log, "plain-3", 8, 9)
        await settle(log)


async def _operate(log: EventLog) -> None:
    """Let operators do everything that they can do."""
    BUGS.remove("bug-retried")
    SILENT.difference_update({"no-answer-retried", "cancelled"})
    for parking in await parkings(log):
        name = parking.key
        if name in {"bug-retried", "no-answer-retried", "cancelled"}:
            await request_retry(log, parking, "ada")
        elif name == "bug-edited":
            await _edit(log, parking)
        elif name in {"bug-given-up", "no-answer-given-up"}:
            await request_discard(log, parking, "ada", "nobody wants it")


async def _edit(log: EventLog, parking: Parking) -> None:
    await request_edit(log, parking, await event_with(log, parking, None, {"amount": 100}), "ada", "a typo")
