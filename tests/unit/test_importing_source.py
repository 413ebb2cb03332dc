"""Order files, plain, compressed and damaged; commands used wrongly; and what an import remembers and says."""

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eventlib import TerminalError
from eventlib.ground.histogram import Histogram
from services.__main__ import run
from services.demo import order_lines
from services.importing import summary
from services.importing.files import Source, UnreadableFile
from services.importing.intake import Intake, Known
from services.order.events import OrderSubmitted
from services.outside import ledger_path


@contextmanager
def taken_in(path: Path) -> Iterator[Intake]:
    with Intake(Source(path)) as intake:
        intake.take_in(lambda _: None)
        yield intake


def test_compressed_or_not_the_content_is_the_same(tmp_path: Path) -> None:
    text = "\n".join(order_lines(50, seed=1)).encode()
    (tmp_path / "orders.ndjson").write_bytes(text)
    (tmp_path / "orders.ndjson.gz").write_bytes(gzip.compress(text))
    with taken_in(tmp_path / "orders.ndjson") as plain, taken_in(tmp_path / "orders.ndjson.gz") as compressed:
        assert plain.source.digest == compressed.source.digest
        assert (plain.report.placeable, plain.products) == (compressed.report.placeable, compressed.products)
        assert plain.report.read == 50
        assert [*plain.results()] == [*compressed.results()]


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[: len(whole) // 2], lambda whole: whole[:40] + b"x" * 40 + whole[80:]]
)
def test_a_damaged_file_is_refused_as_a_whole(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "orders.ndjson.gz"
    path.write_bytes(damage(gzip.compress("\n".join(order_lines(50, seed=1)).encode())))  # type: ignore[operator]  # a parameter is an object to mypy
    with pytest.raises(UnreadableFile, match="cannot be read after line"), taken_in(path):
        pass


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="is not a file"):
        Source(tmp_path)
    (tmp_path / "orders.xlsx").write_bytes(b"PK")
    with pytest.raises(UnreadableFile, match=r"expected a name that ends in .ndjson, .ndjson.gz or .csv"):
        Source(tmp_path / "orders.xlsx")


def test_a_product_is_listed_at_its_first_price_above_zero(tmp_path: Path) -> None:
    template = (
        '{"order_id": "%d", "placed_at": "2010-12-01T08:26:00Z", "customer_id": null, "country": "EIRE", "cancels": null,'
        ' "lines": [{"sku": "A", "description": %s, "quantity": 1, "unit_price": "%s"}]}'
    )
    lines = [("null", "0.00"), ('"MUG"', "-1.00"), ('"BIG MUG"', "3.00"), ('"MUG"', "4.00")]
    path = tmp_path / "orders.ndjson"
    path.write_text("\n".join(template % (number, *line) for number, line in enumerate(lines)))
    with taken_in(path) as found:
        assert found.products["A"].unit_price_cents == 300
        assert found.products["A"].description == "MUG"
        assert found.report.placeable == 2


def test_what_the_log_has_of_an_order_is_kept_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "orders.ndjson"
    path.write_text("\n".join(order_lines(2_000, seed=1)))
    with taken_in(path) as intake:
        orders = [order for _, _, order in intake.results() if isinstance(order, OrderSubmitted)]
        for order in orders[::2]:
            intake.learn(order.order_id, Known.ENDED)
        for number, order in enumerate(orders):
            kept = intake.kept(order.order_id)
            assert kept is not None
            assert kept.units == sum(line.quantity for line in order.lines)
            assert kept.known is (Known.NOTHING if number % 2 else Known.ENDED)
        assert intake.kept("another") is None


def test_memory_does_not_grow_with_the_orders_of_a_file(tmp_path: Path) -> None:
    path, peaks = tmp_path / "orders.ndjson", list[int]()
    order = json.loads(next(order_lines(1, seed=1)))
    order["lines"] *= 3
    for orders in (500, 500, 3_000):  # the first one fills what is made once
        path.write_text("\n".join(json.dumps(order | {"order_id": str(number)}) for number in range(orders)))
        tracemalloc.start()
        with taken_in(path) as intake:
            assert sum(1 for _ in intake.results()) == orders
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + 1_000_000, "their requests alone are 4 MB"


def test_a_full_temporary_directory_is_named(tmp_path: Path) -> None:
    path = tmp_path / "orders.ndjson"
    path.write_text("\n".join(order_lines(500, seed=1)))
    with Intake(Source(path)) as intake:
        intake._db.execute("PRAGMA max_page_count = 8")  # noqa: SLF001  as a disk of eight pages has it
        with pytest.raises(TerminalError, match=r"database or disk is full: set TMPDIR to a directory that has room"):
            intake.take_in(lambda _: None)


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


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("undeliverable", "could not be delivered"),
        ("declined", "payment was declined"),
        ("out_of_stock", "was out of stock"),
        ("payment_uncertain", "payment stayed unknown"),
    ],
)
def test_each_example_is_described_by_its_own_reason(reason: str, says: str) -> None:
    assert says in summary.STORIES[reason]  # all of them are shown only of a large import


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["import", "none.ndjson"], 1, "none.ndjson is not a file"),
        (["import", "none.ndjson", "--decline", "1.5"], 2, "invalid value for '--decline'"),
        (["import", "none.ndjson", "--gateway-timeout", "nan"], 2, "invalid value for '--gateway-timeout'"),
        (["import", "none.ndjson", "--stock", "0"], 2, "invalid value for '--stock'"),
        (["import"], 2, "missing argument 'FILE'"),
        (["imports"], 2, "no such command 'imports'"),
    ],
)
def test_a_sentence_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    assert run(arguments) == code
    assert says in capsys.readouterr().err


def test_an_unknown_log_and_a_missing_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_text("")
    assert run(["import", str(file), "--log", "nowhere://x"]) == 1
    assert "unknown scheme 'nowhere'" in capsys.readouterr().err
    assert run(["import", str(file), "--rejects", str(tmp_path / "none" / "r.ndjson")]) == 1
    assert "there is no directory" in capsys.readouterr().err
