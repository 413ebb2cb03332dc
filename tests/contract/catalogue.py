"""Events of goods and customers, and a log of them that is opened again and again."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from eventlib import Choreography, Event, EventLog, Publication, Topic
from eventlib.external import Json
from tests.apps.smallest import noting

GOODS = Topic("goods", partitions=4, latest=True)


class Listed(Event, topic=GOODS, key="sku"):
    sku: str
    cents: int


class Renamed(Event, topic=GOODS, key="sku"):
    sku: str
    name: str


class Delisted(Event, topic=GOODS, key="sku", tombstone=True):
    sku: str


class Customer(Event, topic=Topic("crm", partitions=2, compacted=True), key="customer_id", external=Json()):
    customer_id: str
    name: str


class Moment(Event, topic="moments", key="k"):
    k: str


CATALOGUE = Choreography("catalogue", [noting()], facts=[Listed, Renamed, Delisted, Customer, Moment])

Opened = Callable[[], AbstractAsyncContextManager[EventLog]]


def listed(numbers: range, cents: int) -> list[Publication]:
    return [Publication(Listed(sku=f"S{n}", cents=cents)) for n in numbers]
