"""Payment's live views: how many payments fail, with an alert when too many do; how long customers' money takes.

`faust -A services.payment.views worker`, or `eventlib live --service payment`.
"""

from datetime import timedelta
from functools import partial

from eventlib.live import Carried, CarriedStream, Keeping, LiveApp, RecordedStream, Row, added, with_known
from eventlib.values import from_ms
from services import shop
from services.payment.events import ChargeRequested, PaymentFailed, PaymentsDegraded, PaymentTaken
from services.stock.events import StockReserved

DEGRADED_PERCENT = 20
FEWEST = 10
"""Alert limits per country and five minutes: a minimum number of payments, and the failed percentage."""

WITHIN = timedelta(minutes=10)
"""The longest time between a reservation and its payment in the join."""

minute, day = timedelta(minutes=1), timedelta(days=1)


def time_to_pay(row: Row) -> tuple[str, Row] | None:
    """Return, of an order that was reserved and paid within `WITHIN`, how long that took, by country."""
    if not {"reserved_ms", "taken_ms"} <= row.keys():
        return None
    waited_ms = row["taken_ms"] - row["reserved_ms"]
    in_time = abs(waited_ms) <= WITHIN / timedelta(milliseconds=1)
    return (row["country"], {"orders": 1, "waited_ms": waited_ms, "slowest_ms": waited_ms}) if in_time else None


app = LiveApp(shop, "payment")
by_country = app.carry("by-country")
alerts = app.publisher("degraded", PaymentsDegraded)
charges = app.joined(
    "charges",
    Keeping(7 * day, 7 * day, sources=2),
    ends=lambda row: row.get("taken_ms", row.get("failed_ms")),
    complete=time_to_pay,
    sums="times-to-pay",
)
failures = app.windows("failures", Keeping(5 * minute, day, sources=8), size=5 * minute, step=minute)


@app.watch(StockReserved, ChargeRequested, PaymentTaken, PaymentFailed)
async def decide(stream: RecordedStream) -> None:
    """Join what is reserved with its payment (stream to stream), and pass on how payments were decided."""
    async for recorded in stream:
        origin = recorded.origin
        match recorded.event:
            case StockReserved(order_id=order_id, country=country):
                charges.add(order_id, origin, partial(with_known, country=country, reserved_ms=origin.at_ms))
            case ChargeRequested(order_id=order_id, country=country):
                charges.add(order_id, origin, partial(with_known, country=country))
            case PaymentTaken(order_id=order_id, country=country):
                charges.add(order_id, origin, partial(with_known, country=country, taken_ms=origin.at_ms))
                await by_country.send(country, {"taken": 1, "failed": 0}, origin)
            case PaymentFailed(order_id=order_id):
                row = charges.add(order_id, origin, partial(with_known, failed_ms=origin.at_ms))
                if row is not None and "country" in row:  # else it was requested before the view started
                    await by_country.send(row["country"], {"taken": 0, "failed": 1}, origin)


@by_country.watch
async def rate_failures(stream: CarriedStream) -> None:
    """Count decided payments in hopping windows, and alert when too many fail in one."""
    async for carried in stream:
        for start, row in failures.add(carried.key, carried.origin, partial(_rated, carried=carried)):
            if row.get("degraded_by") == [carried.origin.partition, carried.origin.offset]:
                await _alert(carried, start, row["degraded_at"])


def _rated(row: Row, carried: Carried) -> Row:
    """Count a payment; record which one crossed the limit, so that its alert is sent again after a crash."""
    now = added(row, dict(carried.value))
    decided = now["taken"] + now["failed"]
    if "degraded_by" in now or decided < FEWEST or now["failed"] * 100 < DEGRADED_PERCENT * decided:
        return now
    at = {"taken": now["taken"], "failed": now["failed"]}
    return {**now, "degraded_by": [carried.origin.partition, carried.origin.offset], "degraded_at": at}


async def _alert(carried: Carried, start: int, at: Row) -> None:
    degraded = PaymentsDegraded(
        country=carried.key,
        since=from_ms(start),
        until=from_ms(start) + 5 * minute,
        taken=at["taken"],
        failed=at["failed"],
    )
    await alerts.tell(degraded, about=f"{carried.key}/{start}", at=from_ms(carried.origin.at_ms))
