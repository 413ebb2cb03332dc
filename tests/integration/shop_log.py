"""A log of the shop with finished and parked sagas, and the command line on it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from eventlib import EventLog, Publication, TerminalError, open_log
from eventlib.model.record import Record
from eventlib.values import now_ms
from services import shop
from services.dispatch.ports import Booked, Recalled
from services.order.events import OrderLine, OrderPlaced, OrderSubmitted, ProductListed
from services.payment.ports import Charged, Declined
from services.stock.events import DeliveryLine, DeliverySubmitted
from tests.handling import handle_all

Print = Callable[..., str]
Objects = Callable[..., list[dict[str, Any]]]

GARBAGE = b"\x89PNG\xff"
LINES = 12


class Gateway:
    """Takes money, but not for `declined`; for `broken` it is broken until it is mended."""

    def __init__(self, *, mended: bool = False) -> None:
        self._mended = mended

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Declined:
        del key, amount_cents, currency
        if order_id == "broken" and not self._mended:
            raise TerminalError("the gateway does not know us")
        return Declined("declined") if order_id == "declined" else Charged()


class Carrier:
    """Takes every parcel."""

    async def book(self, key: str, order_id: str, country: str) -> Booked:
        del key, country
        return Booked(tracking=f"T-{order_id}")

    async def recall(self, key: str) -> Recalled:
        raise AssertionError(key)


def placed(order_id: str, cents: int = 10, customer_id: str = "ada") -> OrderPlaced:
    line = OrderLine(line_no=1, sku="85123A", quantity=1, unit_price_cents=cents)
    return OrderPlaced(
        order_id=order_id,
        customer_id=customer_id,
        country="France",
        currency="GBP",
        amount_cents=cents,
        lines=(line,),
        placed_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def order(order_id: str, lines: int = 1) -> Publication:
    ordered = tuple(OrderLine(line_no=n + 1, sku="A", quantity=1, unit_price_cents=250) for n in range(lines))
    event = OrderSubmitted(
        order_id=order_id, customer_id=None, country="France", currency="EUR", lines=ordered, placed_at=None
    )
    return Publication(event, idempotency_key=order_id)


async def fill_ended(log: EventLog) -> None:
    """Let one order complete, and one be declined."""
    await supplied(log)
    await log.publish_many([order("completed"), order("declined")])
    await served(log)


async def served(log: EventLog, *, mended: bool = False) -> None:
    ports = {"gateway": Gateway(mended=mended), "carrier": Carrier()}
    await handle_all(log, ports=ports)


async def supplied(log: EventLog, units: int = 100) -> None:
    """List the product, and let its delivery be on its shelf before orders ask."""
    await log.publish(ProductListed(sku="A", description="Ä", unit_price_cents=250, currency="EUR"))
    delivery = DeliverySubmitted(delivery_id="D", lines=(DeliveryLine(sku="A", quantity=units),))
    await log.publish(delivery, idempotency_key="D")
    await served(log)


async def fill(url: str) -> None:
    async with open_log(url, shop) as log:
        await supplied(log)
        await log.publish_many([order("completed"), order("declined"), order("broken"), order("large", LINES)])
        partition = next(topic for topic in shop.topics if topic.name == "payments").partition_of(b"garbled")
        await log.port.append(
            [Record("payments", partition, -1, now_ms(), b"garbled", GARBAGE, id="g", type="PaymentTaken")]
        )
        await served(log)
