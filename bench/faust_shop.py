"""The shop's services on Faust, at least once: `python -m bench.faust_shop HOST:PORT PREFIX SERVICE`.

The same topics, keys, twelve events and states; at what was fastest for it: uvloop, states in memory, plain JSON
objects instead of its records, a producer that lingers.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from mode.loop import use

use("uvloop")

import faust  # noqa: E402  the loop has to be chosen before it is imported

Event = dict[str, Any]
Decide = Callable[[Event, Event], list[tuple[str, str, Event]]]
"""From a state, which is changed, and an event, to what is said: topic, key and event each."""

PARTITIONS = 8


def decide_order(order: Event, event: Event) -> list[tuple[str, str, Event]]:
    """Open an order, follow its parts, and tell when it has ended."""
    match event["type"]:
        case "OrderSubmitted" if "opened_at" not in order:
            amount = sum(line["quantity"] * line["unit_price_cents"] for line in event["lines"])
            known = {name: event[name] for name in ("customer_id", "country", "currency")}
            order.update(known, amount_cents=amount, line_count=len(event["lines"]), opened_at=time.time())
            placed = {"type": "OrderPlaced", "order_id": event["order_id"], **known, "amount_cents": amount}
            return [("orders", event["order_id"], {**placed, "lines": event["lines"], "placed_at": order["opened_at"]})]
        case "StockReserved":
            order["stock"] = "reserved"
        case "OrderDispatched":
            order.update(parcel="dispatched", tracking=event["tracking"])
        case "PaymentTaken":
            order.update(money="taken", taken_cents=event["amount_cents"])
        case "StockShipped":
            order["stock"] = "shipped"
        case _:
            return []
    if "ended_at" in order or order.get("stock") != "shipped" or order.get("money") != "taken":
        return []
    order["ended_at"] = time.time()
    said = {"order_id": event["order_id"], "amount_cents": order["amount_cents"], "currency": order["currency"]}
    return [("orders", event["order_id"], {"type": "OrderCompleted", **said})]


def decide_shelf(shelf: Event, event: Event) -> list[tuple[str, str, Event]]:
    """Set units aside, and let them go."""
    units = event["quantity"]
    match event["type"]:
        case "StockReceived":
            shelf["on_hand"] = shelf.get("on_hand", 0) + units
        case "LineShipped":
            shelf["reserved"] -= units
            shelf["shipped"] = shelf.get("shipped", 0) + units
        case "LineRequested":
            if shelf.get("on_hand", 0) < units:
                raise ValueError(f"shelf {event['sku']} is empty: put more on it")
            shelf["on_hand"] -= units
            shelf["reserved"] = shelf.get("reserved", 0) + units
            return [("stock.lines", event["order_id"], {**event, "type": "LineReserved"})]
    return []


def decide_reservation(reservation: Event, event: Event) -> list[tuple[str, str, Event]]:
    """Ask every line's shelf, and join the answers."""
    key = event["order_id"]
    match event["type"]:
        case "OrderPlaced":
            reservation.update({name: event[name] for name in ("amount_cents", "currency", "country")})
            reservation.update(asked=len(event["lines"]), held=[])
            return [
                (
                    "stock.requests",
                    line["sku"],
                    {
                        "type": "LineRequested",
                        "order_id": key,
                        **{name: line[name] for name in ("line_no", "sku", "quantity")},
                    },
                )
                for line in event["lines"]
            ]
        case "LineReserved":
            reservation["held"].append({name: event[name] for name in ("line_no", "sku", "quantity")})
            if len(reservation["held"]) < reservation["asked"]:
                return []
            said = {name: reservation[name] for name in ("amount_cents", "currency", "country")}
            return [("stock", key, {"type": "StockReserved", "order_id": key, **said})]
        case "OrderDispatched":
            held, reservation["held"] = reservation["held"], []
            reservation["closed_at"] = time.time()
            shipped = [
                ("stock.requests", line["sku"], {"type": "LineShipped", "order_id": key, **line}) for line in held
            ]
            return [*shipped, ("stock", key, {"type": "StockShipped", "order_id": key})]
    return []


def decide_payment(payment: Event, event: Event) -> list[tuple[str, str, Event]]:
    """Ask the gateway, which answers at once, when the request is on the log."""
    key = event["order_id"]
    match event["type"]:
        case "StockReserved" if not payment:
            asked = {name: event[name] for name in ("amount_cents", "currency", "country")}
            payment.update(asked, stage="charging", charge_key=f"charge-{key}")
            return [("payments", key, {"type": "ChargeRequested", "order_id": key, **asked})]
        case "ChargeRequested":
            payment["stage"] = "taken"
            return [("payments", key, {**event, "type": "PaymentTaken", "charge_key": payment["charge_key"]})]
        case "OrderCompleted":
            payment["ended_at"] = time.time()
    return []


def decide_shipment(shipment: Event, event: Event) -> list[tuple[str, str, Event]]:
    """Ask the carrier, which answers at once, when the request is on the log."""
    key = event["order_id"]
    match event["type"]:
        case "PaymentTaken" if not shipment:
            shipment.update(stage="asked", booking_key=f"booking-{key}")
            return [("dispatches", key, {"type": "DispatchRequested", "order_id": key, "country": event["country"]})]
        case "DispatchRequested":
            shipment["stage"] = "dispatched"
            said = {"type": "OrderDispatched", "order_id": key, "tracking": shipment["booking_key"]}
            return [("dispatches", key, said)]
        case "OrderCompleted":
            shipment["ended_at"] = time.time()
    return []


_HEARS: dict[str, list[tuple[str, Decide, set[str], tuple[str, ...]]]] = {
    "order": [
        (
            "order",
            decide_order,
            {"OrderSubmitted", "StockReserved", "PaymentTaken", "OrderDispatched", "StockShipped"},
            ("order.requests", "stock", "payments", "dispatches"),
        )
    ],
    "stock": [
        ("shelf", decide_shelf, {"StockReceived", "LineRequested", "LineShipped"}, ("stock.requests",)),
        (
            "reservation",
            decide_reservation,
            {"OrderPlaced", "LineReserved", "OrderDispatched"},
            ("orders", "stock.lines", "payments", "dispatches"),
        ),
    ],
    "payment": [
        (
            "payment",
            decide_payment,
            {"StockReserved", "ChargeRequested", "OrderCompleted"},
            ("stock", "payments", "dispatches", "orders"),
        )
    ],
    "dispatch": [
        (
            "shipment",
            decide_shipment,
            {"PaymentTaken", "DispatchRequested", "OrderCompleted"},
            ("payments", "dispatches", "orders"),
        )
    ],
}
_SAYS = ("orders", "stock.requests", "stock.lines", "stock", "payments", "dispatches")


def make_app(bootstrap: str, prefix: str, service: str) -> Any:
    """Return one service as a Faust application."""
    app = faust.App(
        f"{prefix}{service}",
        broker=f"kafka://{bootstrap}",
        store="memory://",
        processing_guarantee="at_least_once",
        topic_partitions=PARTITIONS,
        topic_disable_leader=True,
        topic_allow_declare=True,
        producer_linger=0.005,
        broker_session_timeout=10.0,
        broker_heartbeat_interval=1.0,
        web_enabled=False,
    )
    plain: dict[str, Any] = {"key_serializer": "raw", "value_serializer": "json"}
    output_topic = {topic: app.topic(prefix + topic, **plain) for topic in _SAYS}
    for name, decide, kinds, topics in _HEARS[service]:
        table = app.Table(name, partitions=PARTITIONS)
        heard = app.topic(*(prefix + topic for topic in topics), **plain)
        app.agent(heard, name=name)(_agent(table, decide, kinds, output_topic))
    return app


def _agent(table: Any, decide: Decide, kinds: set[str], output_topic: dict[str, Any]) -> Any:
    async def handle(stream: Any) -> None:
        async for key, event in stream.items():
            if event["type"] not in kinds:
                continue
            name = key.decode()
            state = table.get(name) or {}
            said = decide(state, event)
            table[name] = state
            for topic, about, each in said:
                await output_topic[topic].send(key=about.encode(), value=each)

    return handle


if __name__ == "__main__":
    faust.Worker(make_app(*sys.argv[1:4]), loglevel="WARN").execute_from_commandline()
