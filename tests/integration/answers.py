"""What an API has answered, held to what its log says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import time
from typing import Any

import httpx

from eventlib import Event, EventLog
from eventlib.model.record import Record
from services.order.events import CancelSubmitted, OrderCancelled, OrderCompleted, OrderSubmitted, ProductListed

Json = dict[str, Any]
NOTHING_ACCEPTED = ("log-out-of-reach", "index-behind", "index-failed", "index-not-ready", "backlog")
"""The kinds of problems that say that nothing of the request was accepted."""


@dataclass(frozen=True)
class Asked:
    """One request and its answer; None: it was still open when the asking ended, as a stream is."""

    method: str
    path: str
    body: Json | None
    key: str | None
    at_ms: int
    answer: httpx.Response | None

    @property
    def order_id(self) -> str:
        return self.path.split("/")[2].partition("?")[0]

    @property
    def kind(self) -> str:
        assert self.answer is not None
        return str(self.answer.json()["type"]).rpartition(":")[2]

    def __str__(self) -> str:
        text = "still open" if self.answer is None else f"{self.answer.status_code} {self.answer.text:.300}"
        return f"{self.method} {self.path} {self.key or ''}: {text}"


@dataclass
class Truth:
    """What a log says: first requests, when orders were placed, how they ended, wishes to cancel, products."""

    requests: dict[str, OrderSubmitted] = field(default_factory=dict)
    placed_ms: dict[str, int] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    cancels: set[str] = field(default_factory=set)
    products: dict[str, int] = field(default_factory=dict)

    @classmethod
    async def of(cls, log: EventLog) -> "Truth":
        truth = cls()
        for topic in ("products", "order.requests", "orders"):
            for partition in range((await log.port.topics())[topic].partitions):
                records = await log.port.read(topic, partition, 0, 100_000)
                for record, event in await log.decode_many(records):
                    assert isinstance(event, Event)
                    truth._take(record, event)
        return truth

    def _take(self, record: Record, event: Event) -> None:
        match event:
            case ProductListed(sku=sku):
                self.products.setdefault(sku, record.timestamp_ms)
            case OrderSubmitted(order_id=order_id):
                self.requests.setdefault(order_id, event)
            case CancelSubmitted(order_id=order_id):
                self.cancels.add(order_id)
            case OrderCompleted(order_id=order_id):
                self.ends[order_id] = "completed"
            case OrderCancelled(order_id=order_id):
                self.ends[order_id] = "cancelled"
            case _ if record.type == "OrderPlaced":
                self.placed_ms[(record.key or b"").decode()] = record.timestamp_ms


def now_ms() -> int:
    return int(time() * 1000)


def hold(asked: Asked, truth: Truth) -> None:
    """Fail when an answer contradicts the log."""
    answer = asked.answer
    if answer is None:
        return
    assert answer.status_code != 500, asked
    if answer.status_code == 503:
        assert int(answer.headers["retry-after"]) > 0, asked
        return
    path = asked.path.partition("?")[0].split("/")[1:]
    match asked.method, path:
        case "POST", ["orders"]:
            _hold_placed(asked, answer, truth)
        case _, ["orders", order_id, *rest]:
            _hold_about(asked, answer, truth, order_id, rest)
        case "GET", ["orders"]:
            listed = {order["order_id"] for order in answer.json()["orders"]}
            assert {
                each for each, at_ms in truth.placed_ms.items() if at_ms < _whole_until_ms(asked, answer)
            } <= listed, asked
        case "GET", ["products"]:
            sold = {product["sku"] for product in answer.json()["products"]}
            assert {sku for sku, at_ms in truth.products.items() if at_ms < _whole_until_ms(asked, answer)} <= sold, (
                asked
            )
        case _:
            assert answer.status_code == 200, asked


def hold_accepted(asked: list[Asked], truth: Truth, known: Mapping[str, object]) -> None:
    """Fail when there is an order that no client was told of, so that its customer orders again, or none that was promised."""
    told = dict[str, Asked]()
    for each in asked:
        if each.method == "POST" and each.answer is not None and "order_id" in each.answer.json():
            told[each.answer.json()["order_id"]] = each
            assert each.answer.status_code != 503 or each.kind not in NOTHING_ACCEPTED, each
    assert truth.requests.keys() <= {*known, *told}


def _hold_about(asked: Asked, answer: httpx.Response, truth: Truth, order_id: str, rest: list[str]) -> None:
    if answer.status_code == 404:
        assert order_id not in truth.requests, asked
        return
    match rest:
        case ["cancel"]:
            assert order_id in truth.cancels or order_id in truth.ends, asked
            assert answer.status_code != 409 or truth.ends[order_id] == "completed", asked
        case ["timeline"]:
            assert "OrderSubmitted" in [event["type"] for event in answer.json()["events"]], asked
        case ["events"]:  # the stream has ended, so all is in it
            assert order_id in truth.ends, asked
            assert {"OrderSubmitted", "OrderPlaced"} <= {*answer.text.split()}, asked
        case _:
            _hold_order(asked, answer.json(), truth.requests[order_id], truth)


def _whole_until_ms(asked: Asked, answer: httpx.Response) -> int:
    return asked.at_ms - int(answer.headers["staleness-ms"])


def _hold_placed(asked: Asked, answer: httpx.Response, truth: Truth) -> None:
    assert asked.body is not None
    skus = [line["sku"] for line in asked.body["lines"]]
    if answer.status_code == 202:
        found = answer.json()
        request = truth.requests[found["order_id"]]
        assert [line.sku for line in request.lines] == skus, asked
        _hold_order(asked, found, request, truth)
        return
    assert answer.status_code == 422, asked
    if asked.kind == "unknown-product":
        assert not truth.products.keys() >= {*skus}, asked
    else:
        assert asked.kind == "idempotency-key-reused", asked
        assert [line.sku for line in truth.requests[answer.json()["order_id"]].lines] != skus, asked


def _hold_order(asked: Asked, found: Json, request: OrderSubmitted, truth: Truth) -> None:
    lines = [(line["sku"], line["quantity"], line["unit_price_cents"]) for line in found["lines"]]
    assert lines == [(line.sku, line.quantity, line.unit_price_cents) for line in request.lines], asked
    assert found["amount_cents"] == sum(quantity * price for _, quantity, price in lines), asked
    if found["status"] in {"completed", "cancelled"}:
        assert truth.ends[found["order_id"]] == found["status"], asked
