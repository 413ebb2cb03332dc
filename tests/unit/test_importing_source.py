"""Order files, plain and compressed, whole and damaged; and what an import remembers of them."""

import gzip
from pathlib import Path

import pytest

from eventlib.ground.histogram import Histogram
from services.demo import order_lines
from services.importing.known import Known, KnownOrders
from services.importing.source import Source, UnreadableFile
from services.importing.survey import survey
from services.outside import ledger_path


def shown(_read: int) -> None:
    """Take no notice."""


def test_compressed_or_not_the_content_is_the_same(tmp_path: Path) -> None:
    text = "\n".join(order_lines(50, seed=1)).encode()
    (tmp_path / "orders.ndjson").write_bytes(text)
    (tmp_path / "orders.ndjson.gz").write_bytes(gzip.compress(text))
    plain, compressed = (survey(Source(tmp_path / name), shown) for name in ("orders.ndjson", "orders.ndjson.gz"))
    assert plain.digest == compressed.digest
    assert (plain.read, plain.products, plain.placeable) == (50, compressed.products, compressed.placeable)


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[: len(whole) // 2], lambda whole: whole[:40] + b"x" * 40 + whole[80:]]
)
def test_a_damaged_file_is_refused_as_a_whole(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "orders.ndjson.gz"
    path.write_bytes(damage(gzip.compress("\n".join(order_lines(50, seed=1)).encode())))  # type: ignore[operator]  # a parameter is an object to mypy
    with pytest.raises(UnreadableFile, match="cannot be read after line"):
        survey(Source(path), shown)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="is not a file"):
        Source(tmp_path)
    (tmp_path / "orders.xlsx").write_bytes(b"PK")
    with pytest.raises(UnreadableFile, match=r"expected a name that ends in .ndjson, .ndjson.gz or .csv"):
        survey(Source(tmp_path / "orders.xlsx"), shown)


def test_a_product_is_listed_at_its_first_price_above_zero(tmp_path: Path) -> None:
    template = (
        '{"order_id": "%d", "placed_at": "2010-12-01T08:26:00Z", "customer_id": null, "country": "EIRE", "cancels": null,'
        ' "lines": [{"sku": "A", "description": %s, "quantity": 1, "unit_price": "%s"}]}'
    )
    lines = [("null", "0.00"), ('"MUG"', "-1.00"), ('"BIG MUG"', "3.00"), ('"MUG"', "4.00")]
    path = tmp_path / "orders.ndjson"
    path.write_text("\n".join(template % (number, *line) for number, line in enumerate(lines)))
    found = survey(Source(path), shown)
    assert found.products["A"].unit_price_cents == 300
    assert found.products["A"].description == "MUG"
    assert found.placeable == 2


def test_many_orders_are_told_apart_in_few_bytes() -> None:
    known = KnownOrders()
    for number in range(20_000):
        assert known.add(f"order {number}", number, 3 * number)
    assert not known.add("order 7", 1, 1)
    known.learn("order 7", Known.PLACED)
    known.learn("order 7", Known.ENDED)
    assert (known.content("order 7"), known.units("order 7")) == (7, 21)
    assert known.known("order 7") == Known.PLACED | Known.ENDED
    assert known.known("order 8") == Known(0)
    assert known.content("another") is None
    assert len(known) == 20_000
    assert known.bytes <= 80 * len(known)


def test_percentiles_are_exact_to_a_second_and_near_beyond() -> None:
    latencies = Histogram()
    assert latencies.percentile(0.5) is None
    for duration in range(1, 101):
        latencies.add(duration)
    assert [latencies.percentile(share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
    latencies.add(123_456)
    assert latencies.percentile(1.0) == pytest.approx(123_456, rel=0.011)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///var/shop.db", "var/shop.db.outside.db"),
        ("sqlite:////srv/shop.db", "/srv/shop.db.outside.db"),
        ("kafka://broker:9092", "var/broker-9092.outside.db"),
        ("memory://", ":memory:"),
    ],
)
def test_the_ledger_lies_beside_the_log(url: str, path: str) -> None:
    assert ledger_path(url) == Path(path)
