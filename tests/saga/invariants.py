"""The invariants that hold whatever happened: computed from the order file, the log's records as JSON, and the ledger.

Nothing of the code under test is used here: the file is read anew, the log as `eventlib tail --json` prints it, and
the ledger of the outside world with SQLite.
"""

import gzip
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

REQUESTS = {"OrderSubmitted", "DeliverySubmitted", "CancelSubmitted"}
CATALOGUE = {"ProductListed"}


class Wanted(NamedTuple):
    """An order as its file has it: lines are (sku, quantity), the total is in pence."""

    lines: tuple[tuple[str, int], ...]
    total_cents: int


@dataclass
class OrderFile:
    """What a file asks for: orders to accept, what has to be refused for which reason, and every SKU in it."""

    orders: dict[str, Wanted] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    skus: set[str] = field(default_factory=set)


def read_file(path: Path) -> OrderFile:
    """Read a file whose lines are orders in the agreed shape, or no JSON objects at all."""
    found = OrderFile()
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            order = json.loads(line)
            found.skus |= {each["sku"] for each in order["lines"]}
            if reason := _reason(order):
                found.refused[reason] += 1
                continue
            wanted = tuple((each["sku"], each["quantity"]) for each in order["lines"])
            total = sum(each["quantity"] * Decimal(each["unit_price"]) for each in order["lines"])
            assert order["order_id"] not in found.orders
            found.orders[order["order_id"]] = Wanted(wanted, int(total * 100))
    return found


def _reason(order: dict[str, Any]) -> str:
    prices = [Decimal(each["unit_price"]) for each in order["lines"]]
    if order["cancels"]:
        return "credit note"
    if any(each["quantity"] < 1 for each in order["lines"]):
        return "quantity"
    if any(price < 0 or price != price.quantize(Decimal("0.01")) for price in prices):
        return "unit price"
    return "nothing to pay" if sum(prices) == 0 else ""


@dataclass
class Shelf:
    """One product: units received, and the shelf's own answers by their sequence."""

    received: int = 0
    shipped: int = 0
    answers: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Story:
    """One order as the log tells it: how often each type was said, its lines' units, its money."""

    said: Counter[str] = field(default_factory=Counter)
    lines: dict[str, dict[int, tuple[str, int]]] = field(default_factory=lambda: defaultdict(dict))
    taken_cents: int = 0
    returned_cents: int = 0
    ended_as: str = ""
    amount_cents: int = 0


class History:
    """What a log's records say, taken in one by one."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.stories: dict[str, Story] = defaultdict(Story)
        self.shelves: dict[str, Shelf] = defaultdict(Shelf)
        self.ids: dict[str, str] = {}
        self.causes: list[tuple[str, str, str]] = []
        self.listed: Counter[str] = Counter()
        self.records = 0
        for line in lines:
            self._take(json.loads(line))

    def _take(self, record: dict[str, Any]) -> None:
        self.records += 1
        kind, event_id, at = record["type"], record["id"], record["recorded_at"]
        assert kind in REQUESTS or event_id not in self.ids, f"two facts have the id {event_id}: {kind}"
        assert "error" not in record, record
        self.ids[event_id] = min(at, self.ids.get(event_id, at))
        if kind in REQUESTS | CATALOGUE:
            assert record["causation_id"] is None
        else:
            self.causes.append((kind, record["causation_id"], at))
        self._tell(kind, record["data"], record)

    def _tell(self, kind: str, data: dict[str, Any], record: dict[str, Any]) -> None:
        if kind == "ProductListed":
            self.listed[data["sku"]] += 1
        elif kind == "StockReceived":
            self.shelves[data["sku"]].received += data["quantity"]
        elif "order_id" in data:
            story = self.stories[data["order_id"]]
            story.said[kind] += 1
            if kind.startswith("Line"):
                self._line(story, kind, data, record)
            elif kind == "OrderPlaced":
                story.amount_cents = data["amount_cents"]
            elif kind in {"OrderCompleted", "OrderCancelled"}:
                story.ended_as = kind
            elif kind == "PaymentTaken":
                story.taken_cents += data["amount_cents"]
            elif kind in {"PaymentRefunded", "PaymentVoided"}:
                story.returned_cents += data["amount_cents"]
                story.taken_cents += data["amount_cents"] if kind == "PaymentVoided" else 0

    def _line(self, story: Story, kind: str, data: dict[str, Any], record: dict[str, Any]) -> None:
        assert data["line_no"] not in story.lines[kind], f"{kind} twice: {data}"
        story.lines[kind][data["line_no"]] = (data["sku"], data["quantity"])
        shelf = self.shelves[data["sku"]]
        if kind in {"LineReserved", "LineReleased"}:
            shelf.answers.append((record["sequence"], data["quantity"] * (1 if kind == "LineReserved" else -1)))
        elif kind == "LineShipped":
            shelf.shipped += data["quantity"]


def check_laws(file: OrderFile, history: History, ledger: Path, stock_units: int) -> None:
    """Check every invariant. Raises: AssertionError that names what broke it."""
    assert set(history.stories) == set(file.orders), "exactly the accepted orders are on the log"
    assert history.listed == dict.fromkeys(file.skus, 1), "every product of the file is listed once"
    for kind, cause, at in history.causes:
        assert cause in history.ids, f"the cause of a {kind} is not on the log: {cause}"
        assert history.ids[cause] <= at, f"a {kind} is older than its cause"
    for order_id, wanted in file.orders.items():
        _check_order(order_id, wanted, history.stories[order_id])
    _check_shelves(file, history, stock_units)
    _check_ledger(file, history, ledger)


def _check_order(order_id: str, wanted: Wanted, story: Story) -> None:
    said, lines = story.said, story.lines
    asked = dict(enumerate(wanted.lines, start=1))
    assert said["OrderCompleted"] + said["OrderCancelled"] == 1, f"{order_id} has one ending: {said}"
    assert max(count for kind, count in said.items() if kind not in REQUESTS and not kind.startswith("Line")) == 1, said
    assert story.amount_cents == wanted.total_cents, order_id
    if said["DispatchCancelled"] and not lines["LineRequested"]:
        asked = {}  # it was called off before its shelves were asked
    assert lines["LineRequested"] == asked, order_id
    assert lines["LineReserved"].items() <= asked.items(), order_id
    assert {*lines["LineReserved"], *lines["LineRefused"]} == {*asked}, f"{order_id}: every line was answered"
    assert 0 <= story.returned_cents <= story.taken_cents <= wanted.total_cents, order_id
    _check_cancellation(order_id, said)
    if story.ended_as == "OrderCompleted":
        assert lines["LineShipped"] == asked, order_id
        assert not lines["LineReleased"], order_id
        assert story.taken_cents - story.returned_cents == wanted.total_cents, order_id
        assert said["OrderDispatched"] == said["StockShipped"] == 1, order_id
    else:
        assert lines["LineReleased"] == lines["LineReserved"], f"{order_id}: what was set aside is back"
        assert not lines["LineShipped"], order_id
        assert story.taken_cents == story.returned_cents, f"{order_id}: what was taken is returned"
        assert said["StockRejected"] + said["StockReleased"] == 1, order_id
        assert said["OrderDispatched"] == said["StockShipped"] == 0, order_id


def _check_cancellation(order_id: str, said: Counter[str]) -> None:
    assert said["OrderCancelRequested"] <= said["CancelSubmitted"], f"{order_id}: somebody wished it"
    assert said["DispatchCancelled"] <= said["OrderCancelRequested"], f"{order_id}: cancelled on request only"
    assert said["DispatchCancelled"] + said["DispatchRequested"] <= 1, f"{order_id}: no carrier after a cancellation"
    assert said["PaymentWaived"] + said["ChargeRequested"] <= 1, f"{order_id}: no charge after it was waived"
    if said["DispatchCancelled"]:
        assert said["OrderCancelled"] == 1, order_id
        assert said["CancelRefused"] == 0, order_id
    if said["OrderCompleted"] and said["CancelSubmitted"]:
        assert said["CancelRefused"] == 1, f"{order_id}: who wished to cancel it was told that it is too late"


def check_answers(history: History, answers: dict[str, int]) -> None:
    """Check what the API answered to wishes to cancel: 200 it is or will be, 409 too late, 202 not decided yet.

    Raises: AssertionError.
    """
    for order_id, status in answers.items():
        ended_as = history.stories[order_id].ended_as
        allowed = {200: {"OrderCancelled"}, 409: {"OrderCompleted"}, 202: {"OrderCancelled", "OrderCompleted"}}
        assert ended_as in allowed[status], f"{order_id}: the answer was {status}, and it ended as {ended_as}"


def _check_shelves(file: OrderFile, history: History, stock_units: int) -> None:
    shipped = Counter[str]()
    for order_id, wanted in file.orders.items():
        if history.stories[order_id].ended_as == "OrderCompleted":
            for sku, quantity in wanted.lines:
                shipped[sku] += quantity
    for sku in file.skus:
        shelf = history.shelves[sku]
        assert shelf.received == stock_units, f"{sku}: one delivery, not {shelf.received} units"
        on_hand = shelf.received
        for _, units in sorted(shelf.answers):
            on_hand -= units
            assert 0 <= on_hand <= shelf.received, f"{sku}: {on_hand} on hand"
        assert shelf.shipped == shipped[sku], f"{sku}: shipped is what completed orders asked for"
        assert on_hand + shelf.shipped == shelf.received, f"{sku}: nothing is reserved in the end"


def _check_ledger(file: OrderFile, history: History, ledger: Path) -> None:
    taken, returned, parcels = Counter[str](), Counter[str](), Counter[str]()
    with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as db:
        charges = dict[str, str]()
        for key, order_id, cents, currency, outcome in db.execute(
            "SELECT key, order_id, amount_cents, currency, outcome FROM charges"
        ):
            charges[key] = order_id
            assert currency == "GBP"
            assert order_id not in taken, f"{order_id}: one charge"
            taken[order_id] += cents if outcome == "taken" else 0
        for key, cents in [
            *db.execute("SELECT charge_key, amount_cents FROM refunds"),
            *db.execute("SELECT charge_key, returned_cents FROM voids"),
        ]:
            assert key in charges or cents == 0
            returned[charges.get(key, "")] += cents
        parcels.update(order_id for (order_id,) in db.execute("SELECT order_id FROM parcels WHERE outcome = 'booked'"))
    db.close()
    assert set(taken) <= set(file.orders), "the gateway knows only orders of the file"
    for order_id, story in history.stories.items():
        assert taken[order_id] == story.taken_cents, f"{order_id}: the gateway took what the log says"
        assert returned[order_id] == story.returned_cents, f"{order_id}: the gateway returned what the log says"
        assert parcels[order_id] == (story.ended_as == "OrderCompleted"), f"{order_id}: parcels"


def refusals(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a rejects file."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            refusal = json.loads(line)
            assert set(refusal) == {"order_id", "reason", "detail"}
            yield refusal
