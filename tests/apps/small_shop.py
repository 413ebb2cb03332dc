"""One small service, whose handler can raise and whose gateway can fail, and what tests do with it."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Never

from eventlib import (
    Choreography,
    Decider,
    Event,
    EventLog,
    Meta,
    OutcomeUnknown,
    Publication,
    Retry,
    Service,
    TerminalError,
)
from eventlib.model.record import Record
from eventlib.replay import Report, replay
from eventlib.runtime.parking.control import ParkedRetryRequested
from eventlib.runtime.records import JournalEntry
from eventlib.state.memory import MemoryStores
from eventlib.values import now_ms
from tests.handling import handle_all
from tests.integration.reopening import everything


class Ordered(Event, topic="orders.requests", key="order_id", request=True):
    order_id: str
    cents: int
    patience_s: float | None = None


class Noted(Event, topic="notes", key="order_id"):
    order_id: str
    count: int


class ChargeAsked(Event, topic="charges", key="order_id"):
    order_id: str
    cents: int


class Charged(Event, topic="charges", key="order_id"):
    order_id: str
    by: str


class Uncharged(Event, topic="charges", key="order_id"):
    order_id: str


class Expired(Event, topic="expiries", key="order_id", final=True):
    order_id: str


@dataclass(frozen=True)
class Order:
    count: int = 0
    charged: int = 0
    due_at: datetime | None = None


@dataclass
class Outside:
    """A gateway whose behaviour each test sets by order."""

    fails: dict[str, int] = field(default_factory=dict)
    refuses: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    gate: asyncio.Event | None = None

    async def charge(self, key: str, order_id: str) -> str:
        self.calls.append(order_id)
        if self.gate is not None:
            await self.gate.wait()
        if order_id in self.refuses:
            raise TerminalError("this card was never one")
        if self.fails.get(order_id, 0) > 0:
            self.fails[order_id] -= 1
            raise OutcomeUnknown("no answer")
        return key


def make_shop(broken: set[str]) -> Choreography:  # noqa: C901  one service, all in one place
    """Return a service whose handler raises for the keys in `broken`, as long as they are in there."""
    orders: Decider[Order] = Decider("order", state=Order, key="order_id")

    @orders.evolve
    def evolve(order: Order, event: Event, meta: Meta) -> Order:
        match event:
            case Ordered(patience_s=patience_s):
                due_at = None if patience_s is None else meta.recorded_at + timedelta(seconds=patience_s)
                return replace(order, count=order.count + 1, due_at=due_at)
            case Charged():
                return replace(order, charged=order.charged + 1, due_at=None)
            case _:
                return order

    @orders.on(Ordered)
    def order_it(order: Order, event: Ordered) -> list[Noted | ChargeAsked]:
        if event.order_id in broken:
            raise RuntimeError("a bug in the handler")
        return [
            Noted(order_id=event.order_id, count=order.count),
            ChargeAsked(order_id=event.order_id, cents=event.cents),
        ]

    @orders.on(Noted, Charged, Uncharged)
    def quiet(_order: Order, _event: Noted | Charged | Uncharged) -> list[Never]:
        return []

    @orders.deadline
    def expires_at(order: Order) -> datetime | None:
        return order.due_at

    @expires_at.passed
    def expire(_order: Order, meta: Meta) -> list[Expired]:
        return [Expired(order_id=meta.subject)]

    def give_up(event: ChargeAsked) -> Uncharged:
        return Uncharged(order_id=event.order_id)

    @orders.effect(ChargeAsked, retry=Retry(attempts=3, first_pause_s=0.01, jitter_s=0), otherwise=give_up)
    async def charge(event: ChargeAsked, gateway: Outside, meta: Meta) -> Charged:
        return Charged(order_id=event.order_id, by=await gateway.charge(meta.id, event.order_id))

    return Choreography("small", [Service("orders", deciders=[orders], effects="all")])


def record_of(log: EventLog, event: Event) -> Record:
    return log.records_of(Publication(event), now_ms())[0]


async def settle(log: EventLog, outside: Outside | None = None, stores: MemoryStores | None = None) -> Report:
    """Run the services until all is handled; then a replay of everything so far says what they said."""
    await handle_all(log, ports={"gateway": outside or Outside()}, stores=stores)
    report = await replay(log)
    assert report.same, report.first or report.unknown
    return report


async def retry(log: EventLog, decider: str, key: str) -> None:
    control = log.choreography.service("orders").control
    value = log.codec.encode(ParkedRetryRequested(decider, key, by="test"))
    partition = control.partition_of(key.encode())
    await log.port.append(
        [Record(control.name, partition, -1, now_ms(), key.encode(), value, type="ParkedRetryRequested")]
    )


async def steps(log: EventLog) -> list:  # type: ignore[type-arg]  # steps of the journal
    journal = [log.codec.decode(JournalEntry, r.value or b"") for r in await everything(log, "orders.journal")]
    return [step for entry in journal for step in entry.steps]
