"""The first pass over an order file: its products, and which orders can be placed."""

from collections.abc import Callable
from dataclasses import dataclass, field

from services.importing.known import KnownOrders
from services.importing.orders import Line, Order
from services.importing.reading import read_all
from services.importing.refusals import Refusal
from services.importing.source import Source

_LOOK_EVERY = 500


@dataclass(slots=True)
class Product:
    """A product in the file: its first price above 0, and its first description that is not empty."""

    description: str = ""
    unit_price_cents: int = 0
    currency: str = ""

    def learn(self, line: Line, currency: str) -> None:
        """Update it from a line; a write-off at price 0 does not give its price."""
        if not self.unit_price_cents and line.price.cents:
            self.unit_price_cents, self.currency = line.price.cents, currency
        self.description = self.description or line.description or ""
        self.currency = self.currency or currency


@dataclass(slots=True)
class Survey:
    """The content of an order file; `digest` is that of its content, `read` counts all orders, also refused ones."""

    digest: str = ""
    read: int = 0
    products: dict[str, Product] = field(default_factory=dict)
    known: KnownOrders = field(default_factory=KnownOrders)

    @property
    def placeable(self) -> int:
        """How many different orders can be placed."""
        return len(self.known)


def survey(source: Source, show: Callable[[int], None]) -> Survey:
    """Read a file once; memory grows with its products, and by a few dozen bytes per order.

    Raises: UnreadableFile, before anything was placed.
    """
    found = Survey()
    for _, order in read_all(source):
        found.read += 1
        if not isinstance(order, Refusal):
            _learn(found, order)
        if found.read % _LOOK_EVERY == 0:
            show(found.read)
    found.digest = source.digest
    show(found.read)
    return found


def _learn(found: Survey, order: Order) -> None:
    for line in order.lines:
        product = found.products.get(line.sku)
        if product is None:
            product = found.products[line.sku] = Product()
        product.learn(line, order.currency)
    if order.fault() is None:
        found.known.add(order.order_id, order.content(), order.units)
