"""The rebuilt tables are, row by row, what an independent computation makes of the raw log and the input file."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

import analytics
from analytics.rebuilding import TABLES, Rebuilt, rebuild
from eventlib.broker import Cluster
from eventlib.errors import LogUnavailable, WiringError
from tests.analytics.independent import Story, read_all, tables_of, totals_of_file
from tests.analytics.sources import archived
from tests.saga.shop_runs import REAL_ORDERS, ShopLog


def in_order(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(sorted(row.items())) for row in rows), key=lambda row: [str(value) for _, value in row])


def written(place: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The tables as any reader of Parquet sees them."""
    found = {table: pyarrow.dataset.dataset(str(place / table), format="parquet").to_table() for table in TABLES}
    return {table: in_order(rows.to_pylist()) for table, rows in found.items()}


def expected(story: Story) -> dict[str, list[tuple[Any, ...]]]:
    return {table: in_order(rows) for table, rows in tables_of(story).items()}


def assert_same(place: Path, story: Story) -> None:
    there, here = written(place), expected(story)
    assert there.keys() == here.keys()
    for table, rows in here.items():
        assert there[table] == rows, table


def thirds(url: str, n: int) -> dict[tuple[str, int], int]:
    """Offsets that cut every partition somewhere else, so that causes fall behind what they led to."""
    ends = analytics.spans(url)
    return {p: span.stop * (n * 3 + sum(map(ord, p[0])) % 3) // 12 for p, span in ends.items()}


@pytest.mark.parametrize("source", ["broker_log", "archive"])
async def test_from_every_source_they_are_what_the_raw_log_says(
    spark: SparkSession, source: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url: str = request.getfixturevalue(source)
    in_full(spark, url, tmp_path, await read_all(url))


@pytest.mark.parametrize(
    "source",
    ["shop_log", pytest.param("broker_log", marks=pytest.mark.slow), pytest.param("archive", marks=pytest.mark.slow)],
)
async def test_they_are_what_the_raw_log_says_in_full_and_in_three_increments(
    spark: SparkSession, source: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url: str = request.getfixturevalue(source)
    story = await read_all(url)
    done = in_full(spark, url, tmp_path / "full", story)
    files = inodes(tmp_path / "full")
    again = rebuild(spark, url, tmp_path / "full")
    assert (again.read, again.manifest) == ({}, done.manifest)
    assert inodes(tmp_path / "full") == files
    in_three_increments(spark, url, tmp_path / "parts", story)


def in_full(spark: SparkSession, url: str, out: Path, story: Story) -> Rebuilt:
    done = rebuild(spark, url, out)
    assert_same(out, story)
    assert (done.full, done.undecodable) == (True, 0)
    return done


def in_three_increments(spark: SparkSession, url: str, out: Path, story: Story) -> None:
    for n in (1, 2):
        assert rebuild(spark, url, out, as_of=thirds(url, n)).full == (n == 1)
    assert not rebuild(spark, url, out).full
    assert_same(out, story)


async def test_an_archive_goes_on_where_its_log_stopped_and_another_log_does_not(
    spark: SparkSession, shop_log: str, archive: str, tmp_path: Path
) -> None:
    rebuild(spark, shop_log, tmp_path / "out", as_of=thirds(shop_log, 2))
    assert not rebuild(spark, archive, tmp_path / "out").full
    assert_same(tmp_path / "out", await read_all(shop_log))
    assert_as_submitted(
        tmp_path / "out", Path(shop_log.removeprefix("sqlite:///")).with_name("demo-300-orders-7.ndjson")
    )
    assert rebuild(spark, shop_log, tmp_path / "out").read == {}
    with pytest.raises(WiringError, match="another log"):
        rebuild(spark, "sqlite:///" + str(await other_log(tmp_path)), tmp_path / "out")


def assert_as_submitted(place: Path, file: Path) -> None:
    submitted, lines = totals_of_file(file), Counter(dict(line)["order_id"] for line in written(place)["order_lines"])
    placed = {order["order_id"]: order["total_cents"] for order in map(dict, written(place)["orders"])}
    assert placed
    for order_id, cents in placed.items():
        assert submitted[order_id] == (cents, lines[order_id])


def inodes(place: Path) -> set[tuple[int, int]]:
    found = [path.stat() for path in place.rglob("*.parquet")]
    return {(each.st_ino, each.st_mtime_ns) for each in found}


async def other_log(directory: Path) -> Path:
    from eventlib.log.sqlite import SqliteLog

    log = await SqliteLog.open(directory / "other.db")
    await log.close()
    return directory / "other.db"


async def test_as_of_a_time_they_have_what_was_recorded_by_then(
    spark: SparkSession, shop_log: str, tmp_path: Path
) -> None:
    story = await read_all(shop_log)
    times = sorted(record.timestamp_ms for record, _ in story)
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=times[len(times) // 2])
    rebuild(spark, shop_log, tmp_path, as_of=at)
    assert_same(tmp_path, [(record, event) for record, event in story if record.timestamp_ms <= times[len(times) // 2]])


def test_without_a_log_or_tables_it_says_so(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LogUnavailable, match="there is no log"):
        rebuild(spark, f"sqlite:///{tmp_path}/none.db", tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not REAL_ORDERS.exists(), reason="the real orders are not at hand")
async def test_of_the_real_file_they_are_the_same_from_every_source_in_full_and_in_three_increments(
    spark: SparkSession, broker: Cluster, tmp_path: Path
) -> None:
    shop, on_kafka = ShopLog(tmp_path), ShopLog(tmp_path / "kafka", f"{broker.url}/?prefix=real.")
    on_kafka.directory.mkdir()
    for each in (shop, on_kafka):
        each.run_import(REAL_ORDERS, longest_s=3_600)
    for name, url in {
        "file": shop.url,
        "broker": on_kafka.url,
        "archive": archived(shop.url, tmp_path / "archive"),
    }.items():
        story = await read_all(url)
        in_full(spark, url, tmp_path / name, story)
        assert_as_submitted(tmp_path / name, REAL_ORDERS)
        in_three_increments(spark, url, tmp_path / f"{name} in parts", story)
