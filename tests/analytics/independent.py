"""The shop's tables once more, from the raw log and the input file, in plain Python that shares nothing with the analytics."""

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from eventlib import open_log
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record
from eventlib.values import from_ms
from services import shop

Row = dict[str, Any]
Story = list[tuple[Record, Any]]

REVERSING = {"StockReleased", "LineReleased", "PaymentRefunded", "PaymentVoided", "OrderCancelled", "DispatchFailed"}
FAILING = {"StockRejected", "LineRefused", "PaymentFailed", "DispatchFailed", "DispatchCancelled"}
AGAINST = {
    *("StockRejected", "StockReleased", "DispatchFailed", "DispatchCancelled", "PaymentFailed", "ChargeUncertain"),
    *("PaymentVoided", "PaymentRefunded", "PaymentWaived"),
}


async def read_all(url: str) -> Story:
    """Every event of the shop, topic by topic."""
    found: Story = []
    async with open_log(url, shop, read_only=True) as log:
        for topic in sorted({contract_of(event).topic.name for event in shop.events}):
            for partition in range(8):
                offset, end = 0, await log.port.end(topic, partition)
                while offset < end:
                    records = await log.port.read(topic, partition, offset, 5_000)
                    found += [(record, event) for record, event in await log.decode_many(records) if event is not None]
                    offset = records[-1].offset + 1 if records else end
    return found


def tables_of(story: Story) -> dict[str, list[Row]]:
    by_order = defaultdict[str, Story](list)
    for record, event in story:
        if hasattr(event, "order_id"):
            by_order[event.order_id].append((record, event))
    first = dict[str | None, Record]()
    for record, _ in story:
        if record.id not in first or record.timestamp_ms < first[record.id].timestamp_ms:
            first[record.id] = record
    movements = [moved for record, event in story for moved in movement(record, event)]
    return {
        "orders": [row for name, events in by_order.items() for row in order(name, events)],
        "order_lines": [line for _, event in story for line in lines(event)],
        "payments": [row for name, events in by_order.items() for row in payment(name, events)],
        "dispatches": [row for name, events in by_order.items() for row in parcel(name, events)],
        "stock_movements": movements,
        "stock_levels": levels(movements),
        "saga_steps": [step(record, event, first) for events in by_order.values() for record, event in events],
        "saga_outcomes": [outcome(name, events) for name, events in by_order.items()],
    }


def of(events: Story, *types: str) -> Story:
    return [(record, event) for record, event in events if type(event).__name__ in types]


def at(events: Story) -> datetime | None:
    return from_ms(min(record.timestamp_ms for record, _ in events)) if events else None


def why(events: Story) -> str | None:
    against = of(events, *AGAINST)
    if cancelled := of(events, "OrderCancelled"):
        return str(cancelled[0][1].reason)
    if not against or of(events, "OrderCompleted"):
        return None
    earliest = min(against, key=lambda each: (each[0].timestamp_ms, each[0].topic, each[0].partition, each[0].offset))
    return str(earliest[1].reason)


def order(name: str, events: Story) -> Iterable[Row]:
    types = {type(event).__name__ for _, event in events}
    for _, placed in of(events, "OrderPlaced"):
        if "OrderCancelled" in types or "OrderCompleted" in types:
            status = "cancelled" if "OrderCancelled" in types else "completed"
        elif types & AGAINST:
            status = "cancelling"
        elif types & {"OrderDispatched", "StockShipped"}:
            status = "dispatched"
        elif "PaymentTaken" in types:
            status = "paid"
        else:
            status = "reserved" if "StockReserved" in types else "placed"
        yield {
            "order_id": name,
            "status": status,
            "reason": why(events),
            "customer_id": placed.customer_id,
            "country": placed.country,
            "total_cents": placed.amount_cents,
            "currency": placed.currency,
            "placed_at": placed.placed_at,
            "ended_at": at(of(events, "OrderCompleted", "OrderCancelled")),
        }


def lines(event: Event) -> Iterable[Row]:
    if type(event).__name__ == "OrderPlaced":
        placed: Any = event
        for line in placed.lines:
            yield {
                "order_id": placed.order_id,
                "line_no": line.line_no,
                "sku": line.sku,
                "quantity": line.quantity,
                "unit_price_cents": line.unit_price_cents,
                "amount_cents": line.quantity * line.unit_price_cents,
                "currency": placed.currency,
                "placed_at": placed.placed_at,
            }


def payment(name: str, events: Story) -> Iterable[Row]:
    here = [(record, event) for record, event in events if record.topic == "payments"]
    types = {type(event).__name__ for _, event in here}
    statuses = {
        "PaymentRefunded": "refunded",
        "PaymentVoided": "voided",
        "PaymentWaived": "waived",
        "PaymentFailed": "failed",
        "ChargeUncertain": "uncertain",
        "PaymentTaken": "taken",
        "ChargeRequested": "requested",
    }
    if not types & statuses.keys():
        return
    currencies = [event.currency for _, event in events if hasattr(event, "currency")]
    yield {
        "order_id": name,
        "status": next(status for kind, status in statuses.items() if kind in types),
        "reason": max((event.reason for _, event in here if hasattr(event, "reason")), default=None),
        "taken_cents": sum(event.amount_cents for _, event in of(here, "PaymentTaken", "PaymentVoided")),
        "refunded_cents": sum(event.amount_cents for _, event in of(here, "PaymentRefunded", "PaymentVoided")),
        "currency": max(currencies, default=None),
        "requested_at": at(of(here, "ChargeRequested")),
        "taken_at": at(of(here, "PaymentTaken")),
        "refunded_at": at(of(here, "PaymentRefunded", "PaymentVoided")),
    }


def parcel(name: str, events: Story) -> Iterable[Row]:
    types = {type(event).__name__ for _, event in events}
    statuses = {
        "OrderDispatched": "dispatched",
        "DispatchFailed": "failed",
        "DispatchCancelled": "cancelled",
        "DispatchUncertain": "uncertain",
        "DispatchRequested": "requested",
    }
    if not types & statuses.keys():
        return
    yield {
        "order_id": name,
        "status": next(status for kind, status in statuses.items() if kind in types),
        "reason": max((event.reason for _, event in of(events, "DispatchFailed", "DispatchCancelled")), default=None),
        "tracking": max((event.tracking for _, event in of(events, "OrderDispatched")), default=None),
        "requested_at": at(of(events, "DispatchRequested")),
        "dispatched_at": at(of(events, "OrderDispatched")),
        "cancel_refused": "CancelRefused" in types,
    }


def movement(record: Record, event: Any) -> Iterable[Row]:
    kinds = {
        "StockReceived": "received",
        "LineReserved": "reserved",
        "LineReleased": "released",
        "LineShipped": "shipped",
    }
    if (kind := kinds.get(type(event).__name__)) is not None:
        yield {
            "sku": event.sku,
            "kind": kind,
            "quantity": event.quantity,
            **{name: getattr(event, name, None) for name in ("order_id", "line_no")},
            "recorded_at": from_ms(record.timestamp_ms),
            "id": record.id,
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
        }


def levels(movements: list[Row]) -> list[Row]:
    units = Counter[tuple[str, str]]()
    for row in movements:
        units[row["sku"], row["kind"]] += row["quantity"]
    return [
        {
            "sku": sku,
            "received": units[sku, "received"],
            "on_hand": units[sku, "received"] - units[sku, "reserved"] + units[sku, "released"],
            "reserved": units[sku, "reserved"] - units[sku, "released"] - units[sku, "shipped"],
            "shipped": units[sku, "shipped"],
        }
        for sku in {sku for sku, _ in units}
    ]


def step(record: Record, event: Any, first: dict[str | None, Record]) -> Row:
    cause = first.get(record.causation_id) if record.causation_id else None
    fields = ("sku", "line_no", "quantity", "amount_cents", "reason")
    said = {name: None if record.topic == "order.requests" else getattr(event, name, None) for name in fields}
    return {
        **{name: getattr(record, name) for name in ("type", "id", "source", "correlation_id", "causation_id")},
        **{name: getattr(record, name) for name in ("topic", "partition", "offset")},
        "order_id": event.order_id,
        "recorded_at": from_ms(record.timestamp_ms),
        **said,
        "cause_type": cause and cause.type,
        "cause_at": cause and from_ms(cause.timestamp_ms),
        "since_cause_ms": cause and record.timestamp_ms - cause.timestamp_ms,
    }


def outcome(name: str, events: Story) -> Row:
    types = [type(event).__name__ for _, event in events]
    ended, times = at(of(events, "OrderCompleted", "OrderCancelled")), [record.timestamp_ms for record, _ in events]
    ending = "completed" if "OrderCompleted" in types else "open"
    return {
        "order_id": name,
        "outcome": "cancelled" if "OrderCancelled" in types else ending,
        "reason": why(events),
        "started_at": from_ms(min(times)),
        "ended_at": ended,
        "duration_ms": ended and round((ended - from_ms(min(times))).total_seconds() * 1000),
        "last_at": from_ms(max(times)),
        "steps": len(events),
        "failures": sum(kind in FAILING for kind in types),
        "compensations": sum(kind in REVERSING for kind in types),
    }


def totals_of_file(path: Path) -> dict[str, tuple[int, int]]:
    """Of each order in an input file: what it costs in cents, and how many lines it has; not of lines that are none."""
    opener = gzip.open if path.suffix == ".gz" else open
    found = dict[str, tuple[int, int]]()
    with opener(path, "rt", encoding="utf-8") as file:
        for text in file:
            with suppress(ValueError, TypeError, KeyError, ArithmeticError):
                order = json.loads(text)
                cents = sum(Decimal(line["unit_price"]) * line["quantity"] * 100 for line in order["lines"])
                found.setdefault(order["order_id"], (int(cents), len(order["lines"])))
    return found
