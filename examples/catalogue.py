"""An external catalogue: table rows from Kafka Connect become products of the shop."""

from dataclasses import dataclass

from eventlib import Decider, Event, Service, Topic
from eventlib.external import Json
from services import shop
from services.order.events import PRODUCTS, ProductListed

ROWS = Topic("catalogue.rows", partitions=PRODUCTS.partitions)


class ProductRow(Event, topic=ROWS, key=None, external=Json()):  # any key the connector chose
    sku: str
    description: str
    unit_price_cents: int
    currency: str


@dataclass(frozen=True)
class Nothing:
    """A row says all that there is to know."""


@dataclass(frozen=True)
class Listing:
    unit_price_cents: int = 0


rows = Decider("row", state=Nothing, key=None)


@rows.evolve
def evolve(nothing: Nothing, _event: Event) -> Nothing:
    return nothing


@rows.on
def list_product(_nothing: Nothing, row: ProductRow) -> list[ProductListed]:
    return [
        ProductListed(
            sku=row.sku,
            description=row.description,
            unit_price_cents=row.unit_price_cents,
            currency=row.currency,
        )
    ]


listings = Decider("listing", state=Listing, key="sku")


@listings.evolve
def price(listing: Listing, event: Event) -> Listing:
    return Listing(event.unit_price_cents) if isinstance(event, ProductListed) else listing


listings.follows(ProductListed)


app = shop.extended("shop-with-catalogue", Service("catalogue", deciders=[rows, listings]))
