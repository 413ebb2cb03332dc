"""Generates demo orders as an order file: seeded, of all sizes, and as dirty as real ones."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate, product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

DEFAULT_ORDERS = 2_500

MOST_LINES = 500

_PRODUCTS = 600
_CUSTOMERS = 800
_DIRTY = 0.08
_GUESTS = 0.15
_HUGE = 0.002
_FIRST_AT = datetime(2026, 1, 5, 8, tzinfo=UTC)
_BETWEEN = timedelta(minutes=7)
_COUNTRIES = ("United Kingdom",) * 17 + ("France", "Germany", "EIRE")
_COLOURS = ("AMBER", "BLUE", "CHERRY", "CORAL", "CREAM", "EMERALD", "IVORY", "LILAC", "MINT", "NAVY", "ROSE", "TEAL")
_STYLES = ("DOTTED", "FOLDING", "LITTLE", "PAINTED", "STRIPED", "WOVEN")
_THINGS = ("BASKET", "BIRDHOUSE", "CANDLE", "CUSHION", "EGG CUP", "JAM JAR", "LANTERN", "LUNCH BOX", "MUG", "TEA TOWEL")

Raw = dict[str, Any]


class Product(NamedTuple):
    """A product of the demo; the price is text."""

    sku: str
    description: str
    unit_price: str


class Shop:
    """The demo's catalogue; demand follows Zipf's law: the n-th product sells 1/n as often as the first."""

    def __init__(self, seed: int) -> None:
        random = Random(f"products of {seed}")  # noqa: S311  orders to play with, not a secret
        names = [" ".join(words) for words in product(_COLOURS, _STYLES, _THINGS)]
        random.shuffle(names)
        prices = [f"{random.choice((0.42, 0.85, 1.25, 1.65, 2.55, 3.75, 4.95, 8.5, 12.75)):.2f}" for _ in names]
        self.products = [
            Product(f"{20_000 + rank}", name, price)
            for rank, (name, price) in enumerate(zip(names[:_PRODUCTS], prices, strict=False))
        ]
        self._weights = list(accumulate(1 / (rank + 1) for rank in range(len(self.products))))

    def wanted(self, random: Random, count: int) -> list[Product]:
        """Return one basket of products; a product may occur twice."""
        return random.choices(self.products, cum_weights=self._weights, k=count)


def stock_for(orders: int) -> int:
    """Return how many units of each product to deliver; the best seller runs out towards the end."""
    return max(10, 3 * orders + orders // 2)


def write_orders(path: Path, orders: int, seed: int) -> None:
    """Write an order file. With the same seed, a shorter file is a prefix of a longer one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in order_lines(orders, seed))


def order_lines(orders: int, seed: int) -> Iterator[str]:
    """Yield orders as an order file's lines; about one in twelve is invalid, cycling through the reasons."""
    shop = Shop(seed)
    dirty = 0
    for number in range(1, orders + 1):
        random = Random(f"order {number} of {seed}")  # noqa: S311  as above
        order = _order(shop, random, number, seed)
        if random.random() < _DIRTY:
            yield DIRT[dirty % len(DIRT)](order)
            dirty += 1
        else:
            yield _json(order)


def _order(shop: Shop, random: Random, number: int, seed: int) -> Raw:
    lines = MOST_LINES if random.random() < _HUGE else min(1 + int(random.expovariate(1 / 7)), MOST_LINES)
    return {
        "order_id": f"D{seed}-{number:06}",
        "placed_at": (_FIRST_AT + number * _BETWEEN).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "customer_id": None if random.random() < _GUESTS else str(10_000 + random.randrange(_CUSTOMERS)),
        "country": random.choice(_COUNTRIES),
        "cancels": None,
        "lines": [
            {
                "sku": wanted.sku,
                "description": wanted.description,
                "quantity": random.choice((1, 1, 1, 2, 2, 3, 4, 6, 12)),
                "unit_price": wanted.unit_price,
            }
            for wanted in shop.wanted(random, lines)
        ],
    }


def _json(order: Raw) -> str:
    return json.dumps(order, separators=(",", ":"))


def _first_line(order: Raw, **changed: object) -> str:
    first, *rest = order["lines"]
    return _json(order | {"lines": [first | changed, *rest]})


def _credit_note(order: Raw) -> str:
    lines = [line | {"quantity": -line["quantity"]} for line in order["lines"]]
    return _json(order | {"order_id": f"C{order['order_id']}", "cancels": True, "lines": lines})


def _given_away(order: Raw) -> str:
    return _json(order | {"lines": [line | {"unit_price": "0.00"} for line in order["lines"]]})


DIRT: tuple[Callable[[Raw], str], ...] = (
    _credit_note,
    lambda order: _first_line(order, quantity=-5),
    lambda order: _json(order)[: len(order["order_id"]) + 40],
    lambda order: _first_line(order, unit_price="0.125"),
    _given_away,
    lambda order: _json({name: value for name, value in order.items() if name != "country"}),
    lambda order: _first_line(order, quantity="six"),
    lambda order: _first_line(order, unit_price="-1.00"),
    lambda order: _json(order | {"lines": []}),
    lambda order: _json(order | {"gift_wrap": True}),
    lambda order: _first_line(order, quantity=True),
    lambda order: _first_line(order, quantity=0),
)
"""The ways to make an order invalid, in the order in which they are used."""


def demo_path(log_url: str, orders: int, seed: int) -> Path:
    """Return the path of the order file: beside an SQLite log, else in `var`."""
    scheme, _, place = log_url.partition("://")
    directory = Path(place.removeprefix("/")).parent if scheme == "sqlite" else Path("var")
    return directory / f"demo-{orders}-orders-{seed}.ndjson"
