"""The demonstration's own orders."""

from collections import Counter
from itertools import islice
from pathlib import Path

from services.demo import DIRT, MOST_LINES, demo_path, order_lines, write_orders
from services.importing.files import Source, read_ndjson
from services.importing.orders import Order, Reason, Refusal


def read(path: Path) -> list[Order | Refusal]:
    """Return a file's orders; the refusal of one that is well formed, and is refused all the same."""
    found = [read for _, read in read_ndjson(Source(path))]
    return [(each.fault() or each) if isinstance(each, Order) else each for each in found]


def test_the_same_seed_makes_the_same_orders_and_more_of_them() -> None:
    assert list(order_lines(50, seed=3)) == list(islice(order_lines(500, seed=3), 50))
    assert list(order_lines(50, seed=3)) != list(order_lines(50, seed=4))


def test_orders_of_all_sizes_and_dirty_in_every_way(tmp_path: Path) -> None:
    path = tmp_path / "orders.ndjson"
    write_orders(path, 1_500, seed=1)

    found = read(path)

    orders = [each for each in found if isinstance(each, Order)]
    refused = Counter(each.reason for each in found if isinstance(each, Refusal))
    sizes = Counter(len(order.lines) for order in orders)
    assert len(found) == 1_500
    assert set(refused) == set(Reason) - {Reason.CONFLICT}
    assert 1_500 * 0.05 < refused.total() < 1_500 * 0.12
    assert min(sizes) == 1
    assert max(sizes) == MOST_LINES
    assert any(order.customer_id is None for order in orders)
    assert len({order.order_id for order in orders}) == len(orders)


def test_some_products_are_wanted_much_more_than_others(tmp_path: Path) -> None:
    path = tmp_path / "orders.ndjson"
    write_orders(path, 1_000, seed=1)
    wanted = Counter(line.sku for order in read(path) if isinstance(order, Order) for line in order.lines)
    counts = [count for _, count in wanted.most_common()]
    assert counts[0] > 5 * counts[9] > 10 * counts[99]


def test_each_kind_of_dirt_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "orders.ndjson"
    write_orders(path, 2_000, seed=9)
    refused = [each.detail for each in read(path) if isinstance(each, Refusal)]
    assert len(set(refused)) >= len(DIRT)


def test_the_orders_lie_beside_the_log() -> None:
    assert demo_path("sqlite:///var/shop.db", 5, 1) == Path("var/demo-5-orders-1.ndjson")
    assert demo_path("kafka://broker:9092", 5, 1) == Path("var/demo-5-orders-1.ndjson")
