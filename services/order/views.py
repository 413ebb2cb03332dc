"""Order's live views: how orders end, minute by minute; what each customer does; large orders, with hashed customers.

`faust -A services.order.views worker`, or `eventlib live --service order`.
"""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from hashlib import blake2b

from eventlib import ContractError
from eventlib.live import SEPARATOR, CarriedStream, Keeping, LiveApp, Recorded, RecordedStream, added
from eventlib.personal import pseudonym
from services import shop
from services.order.events import LargeOrderSeen, OrderCancelled, OrderCompleted, OrderPlaced, ProductListed

LARGE_CENTS = 100_000

app = LiveApp(shop, "order")
products = app.global_table(ProductListed)
by_country = app.carry("by-country")
by_customer = app.carry("by-customer")
seen = app.publisher("large-orders", LargeOrderSeen)

minute, day = timedelta(minutes=1), timedelta(days=1)
orders = app.joined("orders", Keeping(7 * day, 7 * day, sources=1), lambda row: row.get("ended_ms"))
outcomes = app.windows("outcomes", Keeping(5 * minute, day, sources=8), size=minute)
customers = app.rows("customers")
visits = app.sessions("visits", Keeping(5 * minute, 7 * day, sources=8), gap=30 * minute)


@app.watch(OrderPlaced, OrderCompleted, OrderCancelled)
async def follow(stream: RecordedStream) -> None:
    """Keep each order as it was placed (stream to table), and join its end with that (stream to stream)."""
    async for recorded in stream:
        match recorded.event:
            case OrderPlaced() as placed:
                await _placed(recorded, placed)
            case OrderCompleted() as completed:
                await _ended(recorded, completed, "completed", completed.amount_cents)
            case OrderCancelled() as cancelled:
                await _ended(recorded, cancelled, "cancelled", 0)


async def _placed(recorded: Recorded, placed: OrderPlaced) -> None:
    kept = {"country": placed.country, "customer": placed.customer_id, "currency": placed.currency}
    orders.add(placed.order_id, recorded.origin, lambda row: {**row, **kept})
    if placed.amount_cents >= LARGE_CENTS:
        await seen.tell(
            _without_person(placed), about=recorded.meta.id, at=recorded.meta.recorded_at, cause=recorded.meta
        )
    if placed.customer_id is not None:
        value = {"placed": 1, "placed_cents": placed.amount_cents, "list_cents": list_price(placed)}
        await by_customer.send(placed.customer_id, {"currency": placed.currency, **value}, recorded.origin)


async def _ended(recorded: Recorded, ended: OrderCompleted | OrderCancelled, outcome: str, revenue_cents: int) -> None:
    origin = recorded.origin
    order = orders.add(ended.order_id, origin, lambda row: {**row, "ended_ms": origin.at_ms})
    if order is None or "country" not in order:
        return  # placed before the view started
    value = {"outcome": outcome, "currency": order["currency"], "revenue_cents": revenue_cents}
    await by_country.send(order["country"], value, origin)
    if order["customer"] is not None:
        amounts = {outcome: 1, f"{outcome}_cents": revenue_cents}
        await by_customer.send(order["customer"], {"currency": order["currency"], **amounts}, origin)


@by_country.watch
async def count_outcomes(stream: CarriedStream) -> None:
    """Count orders and revenue by minute (tumbling windows), outcome, country and currency."""
    async for carried in stream:
        value = carried.value
        group = SEPARATOR.join((carried.key, value["outcome"], value["currency"]))
        amounts = {"orders": 1, "revenue_cents": value["revenue_cents"]}
        outcomes.add(group, carried.origin, partial(added, amounts=amounts))


@by_customer.watch
async def total_customers(stream: CarriedStream) -> None:
    """Keep a customer's running totals in each currency, and their visits (sessions)."""
    async for carried in stream:
        currency, amounts = carried.value["currency"], {**carried.value}
        del amounts["currency"]
        key = f"{carried.key}{SEPARATOR}{currency}"
        customers.fold(key, carried.origin, partial(added, amounts=amounts))
        if "placed" in amounts:
            visits.add(key, carried.origin, {"placed_cents": amounts["placed_cents"]})


def list_price(placed: OrderPlaced) -> int:
    """Return what an order's lines cost by the catalogue as it is now; without a price there, as sold."""
    catalogue = products()
    total = 0
    for line in placed.lines:
        product = None
        with suppress(ContractError):  # its record on the log is damaged
            product = catalogue.get(line.sku)
        total += line.quantity * (line.unit_price_cents if product is None else product.unit_price_cents)
    return total


def _hashed(customer: str) -> str:
    """Return a customer's pseudonym; without its key a plain hash, which can be reversed by trying all ids."""
    return pseudonym(customer) or blake2b(customer.encode(), digest_size=8).hexdigest()


def _without_person(placed: OrderPlaced) -> LargeOrderSeen:
    customer = placed.customer_id
    return LargeOrderSeen(
        order_id=placed.order_id,
        customer_hash=None if customer is None else _hashed(customer),
        country=placed.country,
        currency=placed.currency,
        amount_cents=placed.amount_cents,
        line_count=len(placed.lines),
        placed_at=placed.placed_at,
    )
