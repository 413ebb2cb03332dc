"""What live views have to show, computed anew from what `eventlib tail --json` prints: nothing of the views is used."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from eventlib.model.topic import Topic

Json = dict[str, Any]
Answer = dict[tuple[str, ...], Json]

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
GRACE_MS = 5 * MINUTE_MS
SOURCES = 8


class History:
    """The events of a log, each with its time in milliseconds, in the order of each partition."""

    def __init__(self, records: Iterable[Json]) -> None:
        self.events = sorted(records, key=lambda each: (each["topic"], each["partition"], each["offset"]))
        for each in self.events:
            each["ms"] = _ms(each["recorded_at"])

    def of(self, *types: str) -> Iterator[tuple[Json, Json]]:
        """Yield the events of some types, each with its data."""
        yield from ((each, each["data"]) for each in self.events if each["type"] in types)

    def by_key(self, kind: str, key: str = "order_id") -> dict[str, tuple[Json, Json]]:
        """Return the events of a type by a field that is different in each."""
        return {data[key]: (each, data) for each, data in self.of(kind)}


class Arrivals:
    """Decides which events of a group's partition are late, and when what ends is dropped there."""

    def __init__(self, retention_ms: int) -> None:
        self._retention_ms = retention_ms
        self._newest: defaultdict[int, dict[tuple[str, int], int]] = defaultdict(dict)
        self.late = 0

    def count(self, group: str, event: Json) -> bool:
        """Tell whether an event counts."""
        newest, source = self._newest[_partition(group)], (event["topic"], event["partition"])
        at: int = event["ms"]
        before = newest.get(source, at)
        newest[source] = max(before, at)
        late = at < before - GRACE_MS
        self.late += late
        return not late

    def is_kept(self, group: str, end_ms: int) -> bool:
        """Tell whether what has ended at a time is still there, after all events."""
        newest = self._newest[_partition(group)]
        return len(newest) < SOURCES or end_ms > min(newest.values()) - self._retention_ms


def outcomes(history: History) -> tuple[Answer, int]:
    """Orders and revenue per minute by country, outcome and currency; and how many ends came too late."""
    placed, arrivals = history.by_key("OrderPlaced"), Arrivals(DAY_MS)
    found: Answer = defaultdict(lambda: {"orders": 0, "revenue_cents": 0})
    for event, data in history.of("OrderCompleted", "OrderCancelled"):
        order = placed[data["order_id"]][1]
        if arrivals.count(order["country"], event):
            start = event["ms"] // MINUTE_MS * MINUTE_MS
            outcome = "completed" if event["type"] == "OrderCompleted" else "cancelled"
            row = found[order["country"], outcome, order["currency"], _iso(start)]
            row["orders"] += 1
            row["revenue_cents"] += order["amount_cents"] if outcome == "completed" else 0
    kept = {k: row for k, row in found.items() if arrivals.is_kept(k[0], _ms(k[3]) + MINUTE_MS)}
    return kept, arrivals.late


def failures(history: History) -> tuple[Answer, int]:
    """Payments by country in windows of five minutes that begin every minute."""
    asked, arrivals = history.by_key("ChargeRequested"), Arrivals(DAY_MS)
    found: Answer = defaultdict(lambda: {"taken": 0, "failed": 0})
    for event, data in history.of("PaymentTaken", "PaymentFailed"):
        country = asked[data["order_id"]][1]["country"]
        if arrivals.count(country, event):
            last = event["ms"] // MINUTE_MS * MINUTE_MS
            for start in range(last - 4 * MINUTE_MS, last + 1, MINUTE_MS):
                found[country, _iso(start)]["taken" if event["type"] == "PaymentTaken" else "failed"] += 1
    kept = {k: row for k, row in found.items() if arrivals.is_kept(k[0], _ms(k[1]) + 5 * MINUTE_MS)}
    return kept, arrivals.late


def customers(history: History) -> Answer:
    """What each customer has ordered, at which prices by the catalogue, and what became of it."""
    prices = {data["sku"]: data["unit_price_cents"] for _, data in history.of("ProductListed")}
    placed = history.by_key("OrderPlaced")
    found: Answer = defaultdict(dict)

    def add(order: Json, **amounts: int) -> None:
        row = found[order["customer_id"], order["currency"]]
        for name, amount in amounts.items():
            row[name] = row.get(name, 0) + amount

    for _, order in placed.values():
        if order["customer_id"] is not None:
            list_cents = sum(line["quantity"] * prices[line["sku"]] for line in order["lines"])
            add(order, placed=1, placed_cents=order["amount_cents"], list_cents=list_cents)
    for event, data in history.of("OrderCompleted", "OrderCancelled"):
        order = placed[data["order_id"]][1]
        if order["customer_id"] is not None and event["type"] == "OrderCompleted":
            add(order, completed=1, completed_cents=order["amount_cents"])
        elif order["customer_id"] is not None:
            add(order, cancelled=1, cancelled_cents=0)
    return dict(found)


def visits(history: History) -> tuple[Answer, int]:
    """Each customer's orders in sessions: those with less than half an hour between them belong together."""
    arrivals = Arrivals(7 * DAY_MS)
    times: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for event, order in history.of("OrderPlaced", "OrderCompleted", "OrderCancelled"):
        if (
            event["type"] == "OrderPlaced"
            and order["customer_id"] is not None
            and arrivals.count(order["customer_id"], event)
        ):
            times[order["customer_id"], order["currency"]].append((event["ms"], order["amount_cents"]))
    found: Answer = {}
    for key, orders in times.items():
        sessions = list[Json]()
        for at, cents in sorted(orders):
            if sessions and at - sessions[-1]["to_ms"] < 30 * MINUTE_MS:
                sessions[-1]["to_ms"] = at
                sessions[-1]["events"] += 1
                sessions[-1]["placed_cents"] += cents
            else:
                sessions.append({"from_ms": at, "to_ms": at, "events": 1, "placed_cents": cents})
        kept = [each for each in sessions if arrivals.is_kept(key[0], each["to_ms"] + 30 * MINUTE_MS)]
        if kept:
            found[key] = {"sessions": kept}
    return found, arrivals.late


def times_to_pay(history: History) -> Answer:
    """How long payments took after the reservation, by country, for those that came within ten minutes."""
    reserved = history.by_key("StockReserved")
    return _times(
        (data["country"], {"waited_ms": event["ms"] - reserved[data["order_id"]][0]["ms"]})
        for event, data in history.of("PaymentTaken")
        if data["order_id"] in reserved and abs(event["ms"] - reserved[data["order_id"]][0]["ms"]) <= 10 * MINUTE_MS
    )


def times_to_dispatch(history: History) -> Answer:
    """How long orders took to the carrier, by country."""
    placed = history.by_key("OrderPlaced")
    rows = list[tuple[str, Json]]()
    for event, data in history.of("OrderDispatched"):
        took_ms = event["ms"] - placed[data["order_id"]][0]["ms"]
        within = {f"within_{seconds}_s": int(took_ms <= 1000 * seconds) for seconds in (1, 10, 60, 3600)}
        rows.append((placed[data["order_id"]][1]["country"], {"took_ms": took_ms, **within}))
    return _times(rows)


def shelves(history: History) -> Answer:
    """What is free on each shelf, and whether that is little."""
    found: Answer = defaultdict(dict)
    names = {"StockReceived": "received", "LineReserved": "reserved", "LineReleased": "released"}
    for event, data in history.of("ProductListed", *names):
        row = found[data["sku"],]
        if event["type"] == "ProductListed":
            row["description"] = data["description"]
        else:
            name = names[event["type"]]
            row[name] = row.get(name, 0) + data["quantity"]
    for row in found.values():
        row["free"] = row.get("received", 0) - row.get("reserved", 0) + row.get("released", 0)
        row["low"] = row.get("received", 0) > 0 and row["free"] <= 20
    return dict(found)


def large_orders(history: History) -> Answer:
    """The large orders, without their customers."""
    found: Answer = {}
    for event, order in history.of("OrderPlaced"):
        if order["amount_cents"] >= 100_000:
            person = order["customer_id"]
            found[order["order_id"],] = {
                "customer_hash": person and blake2b(person.encode(), digest_size=8).hexdigest(),
                "amount_cents": order["amount_cents"],
                "line_count": len(order["lines"]),
                "saga": event["correlation_id"],
                "cause": event["id"],
            }
    return found


def check_told(history: History, rates: Answer) -> None:
    """Hold what the views have told others against the log: all that they had to, and nothing that was not so.

    When a threshold is crossed depends on which partition is read first; whether one is crossed in the end does not.
    """
    seen: Answer = {}
    for event, data in history.of("LargeOrderSeen"):
        same = {name: data[name] for name in ("customer_hash", "amount_cents", "line_count")}
        seen[data["order_id"],] = {**same, "saga": event["correlation_id"], "cause": event["causation_id"]}
    assert seen == large_orders(history)
    alerts = {(data["country"], _iso(_ms(data["since"]))): data for _, data in history.of("PaymentsDegraded")}
    assert alerts.keys() >= {key for key, row in rates.items() if _is_degraded(row)}
    for key, data in alerts.items():
        assert _is_degraded(data)
        assert key not in rates or (data["taken"] <= rates[key]["taken"] and data["failed"] <= rates[key]["failed"])
    low = {data["sku"]: data for _, data in history.of("ShelfRunningLow")}
    assert low.keys() >= {key for (key,), row in shelves(history).items() if row["low"]}
    assert all(data["free"] <= 20 for data in low.values())


def _is_degraded(row: Json) -> bool:
    decided = row["taken"] + row["failed"]
    return bool(decided >= 10 and row["failed"] * 5 >= decided)


def _times(rows: Iterable[tuple[str, Json]]) -> Answer:
    found: Answer = {}
    for country, amounts in rows:
        row = found.setdefault((country,), {"orders": 0, "slowest_ms": 0})
        row["orders"] += 1
        row["slowest_ms"] = max(row["slowest_ms"], *(ms for name, ms in amounts.items() if name.endswith("_ms")))
        for name, amount in amounts.items():
            row[name] = row.get(name, 0) + amount
    return found


def _partition(group: str) -> int:
    return Topic("any", partitions=8).partition_of(group.encode())


def _ms(text: str) -> int:
    at = datetime.fromisoformat(text)
    return round(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


ANSWERS: dict[tuple[str, str], Callable[[History], tuple[Answer, int] | Answer]] = {
    ("order", "outcomes"): outcomes,
    ("order", "customers"): customers,
    ("order", "visits"): visits,
    ("payment", "failures"): failures,
    ("payment", "times-to-pay"): times_to_pay,
    ("stock", "shelves"): shelves,
    ("dispatch", "times-to-dispatch"): times_to_dispatch,
}
"""Every view with its independent computation."""

NOT_SHOWN = {"low_by", "low_at", "degraded_by", "degraded_at", "until"}


def as_answer(rows: Iterable[Json]) -> Answer:
    """Return what a worker answers in the form of these answers."""
    found: Answer = {}
    for row in rows:
        key = (*row["key"], *([row["from"]] if "from" in row else []))
        assert key not in found, f"{key} twice"
        found[key] = {name: value for name, value in row.items() if name not in {"key", "from", *NOT_SHOWN}}
    return found
