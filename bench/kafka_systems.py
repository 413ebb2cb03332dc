"""The systems that are compared on Kafka: how each is started, and how it writes an order that goes well.

All of them have the shop's topics, with its keys and partitions. What they write differs: this toolkit Avro with
schemas in a registry of its own, ids, causes and traces in headers; the peers only the fields, in a form that is
cheap for them.
"""

import json
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.kafka_streams.program import java_command
from bench.sagas import SKUS, order
from eventlib.codec.wire_format import FramedCodec
from eventlib.eventlog import EventLog
from eventlib.log.base import Log
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.publication import Publication
from eventlib.values import now_ms
from services import shop
from services.order.events import OrderPlaced
from services.stock.events import StockReceived

PARTITIONS = contract_of(OrderPlaced).topic.partitions
UNITS = 1_000_000
COUNTRY, CURRENCY, PRICE = "United Kingdom", "GBP", 250
STEPS = (
    *("OrderSubmitted", "OrderPlaced", "LineRequested", "LineReserved", "StockReserved", "ChargeRequested"),
    *("PaymentTaken", "DispatchRequested", "OrderDispatched", "LineShipped", "StockShipped", "OrderCompleted"),
)
"""What is said about an order of one line that goes well, once each."""

TOPICS = ("order.requests", "orders", "stock.requests", "stock.lines", "stock", "payments", "dispatches")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a system runs: the brokers, what its topics' names begin with, and a directory for its states."""

    bootstrap: str
    prefix: str
    directory: Path

    @property
    def url(self) -> str:
        """Its log."""
        return f"kafka://{self.bootstrap}/?prefix={self.prefix}"


class System(ABC):
    """One of those that are compared."""

    @abstractmethod
    def commands(self, place: Place) -> Sequence[Sequence[str]]:
        """Return what its processes run."""

    async def prepare(self, port: Log) -> None:
        """Create what it does not create itself."""
        await port.create_topics([Topic(name, partitions=PARTITIONS) for name in TOPICS])

    @abstractmethod
    def deliveries(self) -> list[Record]:
        """Return what puts enough units on every shelf."""

    @abstractmethod
    def order(self, number: int) -> Record:
        """Return the request for an order of one unit of one product."""

    @abstractmethod
    def kind(self, record: Record) -> str | None:
        """Return the name of the event in a record."""


class Toolkit(System):
    """This toolkit: the shop itself."""

    def __init__(self, *arguments: Sequence[str], app: str = "bench.instant_shop:shop") -> None:
        self._arguments = arguments
        self._app = app
        self._log: EventLog | None = None

    def commands(self, place: Place) -> Sequence[Sequence[str]]:
        """See `System.commands`."""
        run = [str(Path(sys.executable).with_name("eventlib")), "run"]
        where = ["--app", self._app, "--log", place.url]
        return [[*run, *where, *each] for each in self._arguments]

    async def prepare(self, port: Log) -> None:
        """See `System.prepare`."""
        self._log = EventLog(port, FramedCodec(port), shop)
        await self._log.prepare()

    def deliveries(self) -> list[Record]:
        """See `System.deliveries`."""
        return [
            self._record(Publication(StockReceived(sku=sku, quantity=UNITS), idempotency_key=sku)) for sku in _skus()
        ]

    def order(self, number: int) -> Record:
        """See `System.order`."""
        return self._record(order(number))

    def kind(self, record: Record) -> str | None:
        """See `System.kind`."""
        return record.type

    def _record(self, publication: Publication) -> Record:
        assert self._log is not None
        (record,) = self._log.records_of(publication, now_ms())
        return record


class Streams(System):
    """Kafka Streams, exactly once, four services in one process; with settings of its own if any are given."""

    _NAMES = (
        *("", "OrderSubmitted", "OrderPlaced", "StockReceived", "LineRequested", "LineShipped", "LineReserved"),
        *("StockReserved", "StockShipped", "ChargeRequested", "PaymentTaken", "DispatchRequested", "OrderDispatched"),
        "OrderCompleted",
    )
    """As `Event.java` numbers them."""

    def __init__(self, *settings: str) -> None:
        self._settings = settings

    def commands(self, place: Place) -> Sequence[Sequence[str]]:
        """See `System.commands`."""
        run = java_command("Shop")
        return [[*run, place.bootstrap, place.prefix, str(place.directory), *self._settings]]

    def deliveries(self) -> list[Record]:
        """See `System.deliveries`."""
        return [_record("stock.requests", sku, b"\3" + _text(sku) + struct.pack(">i", UNITS)) for sku in _skus()]

    def order(self, number: int) -> Record:
        """See `System.order`."""
        key, customer, sku = _names(number)
        line = struct.pack(">ii", 1, 1) + _text(sku) + struct.pack(">iq", 1, PRICE)
        value = b"\1" + b"".join(map(_text, (key, customer, COUNTRY, CURRENCY))) + line
        return _record("order.requests", key, value)

    def kind(self, record: Record) -> str | None:
        """See `System.kind`."""
        return self._NAMES[record.value[0]] if record.value else None


class Faust(System):
    """Faust, at least once, one process for each service; events are plain JSON objects."""

    def commands(self, place: Place) -> Sequence[Sequence[str]]:
        """See `System.commands`."""
        run = [sys.executable, "-m", "bench.faust_shop", place.bootstrap, place.prefix]
        return [[*run, service] for service in ("order", "stock", "payment", "dispatch")]

    async def prepare(self, port: Log) -> None:
        """See `System.prepare`; Faust waits for ever for changelogs that it creates itself."""
        await super().prepare(port)
        stores = {"order": ["order"], "stock": ["shelf", "reservation"], "payment": ["payment"]}
        stores["dispatch"] = ["shipment"]
        names = [f"{service}-{store}-changelog" for service, kept in stores.items() for store in kept]
        await port.create_topics([Topic(name, partitions=PARTITIONS, compacted=True) for name in names])

    def deliveries(self) -> list[Record]:
        """See `System.deliveries`."""
        return [
            _record("stock.requests", sku, _json({"type": "StockReceived", "sku": sku, "quantity": UNITS}))
            for sku in _skus()
        ]

    def order(self, number: int) -> Record:
        """See `System.order`."""
        key, customer, sku = _names(number)
        line = {"line_no": 1, "sku": sku, "quantity": 1, "unit_price_cents": PRICE}
        asked = {"customer_id": customer, "country": COUNTRY, "currency": CURRENCY, "lines": [line]}
        return _record("order.requests", key, _json({"type": "OrderSubmitted", "order_id": key, **asked}))

    def kind(self, record: Record) -> str | None:
        """See `System.kind`."""
        return str(json.loads(record.value)["type"]) if record.value else None


def _skus() -> list[str]:
    return [f"SKU-{n}" for n in range(SKUS)]


def _names(number: int) -> tuple[str, str, str]:
    return f"order-{number}", f"customer-{number % 997}", f"SKU-{number % SKUS}"


def _record(topic: str, key: str, value: bytes) -> Record:
    return Record(
        topic, Topic(topic, partitions=PARTITIONS).partition_of(key.encode()), -1, now_ms(), key.encode(), value
    )


def _text(text: str) -> bytes:
    """Return a text as Java's `writeUTF` writes it, as long as it is plain."""
    return struct.pack(">H", len(text)) + text.encode("ascii")


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
