"""The shop in one process, with a gateway and a carrier that do as a test says, and what came of it."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eventlib import Event, EventLog, OutcomeUnknown, Runtime, RuntimeConfig, TerminalError, open_log
from eventlib.model.record import Record
from eventlib.replay import replay
from services import shop
from services.dispatch.ports import Booked, Planned, Recalled, Undeliverable
from services.order.events import CancelSubmitted, OrderLine, OrderSubmitted
from services.payment.events import PaymentRefunded, PaymentTaken
from services.payment.ports import Accepted, Charged, Declined, Refunded, Voided
from services.simulation.faults import CarrierFaults, GatewayFaults
from services.simulation.ledger import Ledger
from services.simulation.systems import SimulatedCarrier, SimulatedGateway
from services.stock.events import DeliveryLine, DeliverySubmitted

SKU, UNITS, PRICE_CENTS, STOCK = "A", 2, 375, 10_000
TOTAL_CENTS = UNITS * PRICE_CENTS
SEED = 11
LONGEST_S = 120.0
IMPATIENT = RuntimeConfig(breaker_pause_s=0.1, grace_s=0.1)


@dataclass
class Script:
    """How the way to one side of the outside world behaves: calls fail while it is down, and wait while it is held.

    While it is broken no call will ever go through. `loses` counts, by call, the answers that are yet to be lost after
    the other side has acted.
    """

    is_down: bool = False
    is_broken: bool = False
    held: asyncio.Event | None = None
    loses: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    async def before(self, call: str) -> None:
        """Let a call through, or not."""
        self.calls[call] += 1
        if self.is_down:
            raise OutcomeUnknown("nobody there")
        if self.is_broken:
            raise TerminalError("they do not know us")

    async def after(self, call: str) -> None:
        """Let an answer through, or not."""
        if self.held is not None:
            await self.held.wait()
        if self.loses[call] > 0:
            self.loses[call] -= 1
            raise OutcomeUnknown("the answer was lost")


class Gateway(SimulatedGateway):
    """The simulated gateway at the end of a scripted way."""

    script: Script

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Accepted | Declined:
        await self.script.before("charge")
        answer = await super().charge(key, order_id, amount_cents, currency)
        await self.script.after("charge")
        return answer

    async def void(self, key: str) -> Voided:
        await self.script.before("void")
        answer = await super().void(key)
        await self.script.after("void")
        return answer

    async def refund(self, key: str, charge_key: str, amount_cents: int, currency: str) -> Refunded:
        await self.script.before("refund")
        answer = await super().refund(key, charge_key, amount_cents, currency)
        await self.script.after("refund")
        return answer


class Carrier(SimulatedCarrier):
    """The simulated carrier at the end of a scripted way."""

    script: Script

    async def book(self, key: str, order_id: str, country: str) -> Booked | Planned | Undeliverable:
        await self.script.before("book")
        answer = await super().book(key, order_id, country)
        await self.script.after("book")
        return answer

    async def recall(self, key: str) -> Booked | Recalled:
        await self.script.before("recall")
        answer = await super().recall(key)
        await self.script.after("recall")
        return answer


class RunningShop:
    """The shop on a log, with its outside world."""

    def __init__(self, log: EventLog, ledger: Ledger, path: Path) -> None:
        self.log = log
        self.to_gateway = Script()
        self.to_carrier = Script()
        self.elsewhere: Mapping[str, object] = {}  # what stands for the scripted ones
        self.set_faults()
        self._ledger = ledger
        self._path = path

    def set_faults(self, gateway: GatewayFaults | None = None, carrier: CarrierFaults | None = None) -> None:
        """Let other things go wrong outside from now on."""
        self._faults = (gateway, carrier)

    @asynccontextmanager
    async def services(self, config: RuntimeConfig = IMPATIENT) -> AsyncIterator[Runtime]:
        """Run the services."""
        async with Runtime(self.log, ports=self.ports(), config=config) as runtime, asyncio.timeout(LONGEST_S):
            yield runtime

    def ports(self) -> dict[str, object]:
        """Return the outside world as the services see it."""
        gateway = Gateway(self._ledger, self._faults[0], seed=SEED)
        carrier = Carrier(self._ledger, self._faults[1], seed=SEED)
        gateway.script, carrier.script = self.to_gateway, self.to_carrier
        return {"gateway": gateway, "carrier": carrier, **self.elsewhere}

    async def deliver(self) -> None:
        """Put stock on the shelf; the services have to run for it to arrive."""
        lines = (DeliveryLine(sku=SKU, quantity=STOCK),)
        await self.log.publish(DeliverySubmitted(delivery_id="d", lines=lines), idempotency_key="d")

    async def submit(self, *order_ids: str) -> None:
        """Ask for orders."""
        line = OrderLine(line_no=1, sku=SKU, quantity=UNITS, unit_price_cents=PRICE_CENTS)
        for order_id in order_ids:
            order = OrderSubmitted(
                order_id=order_id, customer_id=None, country="EIRE", currency="GBP", lines=(line,), placed_at=None
            )
            await self.log.publish(order, idempotency_key=f"order/{order_id}")

    async def cancel(self, order_id: str, attempt: int = 1) -> None:
        """Ask to cancel an order."""
        await self.log.publish(CancelSubmitted(order_id=order_id), idempotency_key=f"cancel/{order_id}/{attempt}")

    async def records(self) -> list[tuple[Record, Event]]:
        """Return everything that was said or asked for, with its event, by topic."""
        found = list[tuple[Record, Event]]()
        own = {topic.name for service in shop.services for topic in service.own_topics}
        for topic in shop.topics:
            if topic.name in own or topic.name.endswith(".latest"):
                continue
            for partition in range(topic.partitions):
                for record in await self.log.port.read(topic.name, partition, 0, 100_000):
                    event = await self.log.decode_now(record)
                    assert event is not None
                    found.append((record, event))
        return found

    async def said(self, order_id: str) -> Counter[str]:
        """Return how often each type of event was said about an order."""
        return Counter(
            type(event).__name__ for _, event in await self.records() if getattr(event, "order_id", "") == order_id
        )

    async def until(self, order_id: str, kind: type[Event]) -> None:
        """Wait until something was said about an order."""
        while not (await self.said(order_id))[kind.__name__]:
            await asyncio.sleep(0.02)

    async def until_true(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so."""
        while not condition():
            await asyncio.sleep(0.01)

    def rows(self, query: str) -> list[Any]:
        """Ask the ledger."""
        with sqlite3.connect(self._path) as connection:
            found = connection.execute(query).fetchall()
        connection.close()
        return found

    async def check_conserved(self, *order_ids: str) -> None:
        """Check that every order has one ending, and that units and money are where it says. Raises: AssertionError.

        And that a replay of all that has happened says the same again.
        """
        report = await replay(self.log)
        assert report.same, report.first or report.unknown
        records = await self.records()
        assert max(Counter(record.id for record, _ in records).values()) == 1, "ids are unique"
        kept = Counter[str]()
        for _, event in records:
            match event:
                case PaymentTaken(order_id=order_id, amount_cents=cents):
                    kept[order_id] += cents
                case PaymentRefunded(order_id=order_id, amount_cents=cents):
                    kept[order_id] -= cents
        holds = Counter(dict(self.rows(HOLDS)))
        parcels = {row[0] for row in self.rows("SELECT order_id FROM parcels WHERE outcome = 'booked'")}
        for order_id in order_ids:
            said = await self.said(order_id)
            completed = _is_completed(said)
            due = TOTAL_CENTS if completed else 0
            assert (kept[order_id], holds[order_id]) == (due, due), order_id
            assert (order_id in parcels) == completed, order_id


def _is_completed(said: Counter[str]) -> bool:
    """Tell how an order has ended, once it is seen that each step of it happened once."""
    assert said["OrderCompleted"] + said["OrderCancelled"] == 1, said
    assert {kind for kind, count in said.items() if count > 1} <= {"CancelSubmitted", "CancelRefused"}, said
    completed = said["OrderCompleted"] == 1
    assert said["LineReserved"] == said["LineShipped"] + said["LineReleased"], said
    assert (said["LineShipped"], said["OrderDispatched"]) == (completed, completed), said
    return completed


HOLDS = """
SELECT order_id, sum(amount_cents
    - coalesce((SELECT returned_cents FROM voids WHERE charge_key = charges.key), 0)
    - coalesce((SELECT sum(refunds.amount_cents) FROM refunds WHERE charge_key = charges.key), 0))
FROM charges WHERE outcome = 'taken' GROUP BY order_id
"""


@asynccontextmanager
async def running_shop(url: str, directory: Path) -> AsyncIterator[RunningShop]:
    """Open the shop's log and ledger; nothing runs yet, and the stock is on its way."""
    path = directory / "ledger.db"
    with Ledger(path) as ledger:
        async with open_log(url, shop) as log:
            running = RunningShop(log, ledger, path)
            await running.deliver()
            yield running
