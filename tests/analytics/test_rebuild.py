"""The rebuilt tables are, row by row, what an independent computation makes of the raw log and the input file."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Any, Self

import pytest
from pyspark.sql import SparkSession

from analytics.rebuilding import Rebuilt
from eventlib.devtools.kafka import Cluster
from eventlib.errors import LogUnavailable, WiringError
from services.analytics import TABLES
from tests.analytics.independent import Story, read_all, tables_of, totals_of_file
from tests.analytics.sources import archived, thirds
from tests.analytics.sources import rebuild_shop as rebuild
from tests.saga.shop_runs import REAL_ORDERS, ShopLog

LONGEST_IMPORT_S = 3_600
"""More than the whole real file takes on a busy machine: who waits longer has found something that hangs."""


@dataclass(frozen=True)
class Rows:
    """What a table has: how often each row is there, its values in the order of the columns' names."""

    columns: tuple[str, ...]
    counts: Counter[tuple[Any, ...]]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Self:
        columns = tuple(sorted(rows[0])) if rows else ()
        assert all(len(row) == len(columns) for row in rows)
        return cls(columns, Counter(tuple(map(row.__getitem__, columns)) for row in rows))

    def few_that_are_not_in(self, other: Self) -> list[dict[str, Any]]:
        lacking = (self.counts - other.counts).elements()
        return [dict(zip(self.columns, row, strict=True)) for row in islice(lacking, 5)]


Tables = Mapping[str, Rows]


def written(place: Path) -> Tables:
    """The tables as any reader of Parquet sees them."""
    return {table: Rows.of(rows_in(place / table)) for table in TABLES}


def rows_in(table: Path) -> list[dict[str, Any]]:
    import pyarrow.dataset  # which imports pandas

    return pyarrow.dataset.dataset(str(table), format="parquet").to_table().to_pylist()  # type: ignore[no-any-return]


def expected(story: Story) -> Tables:
    return {table: Rows.of(rows) for table, rows in tables_of(story).items()}


def assert_same(place: Path, story: Story) -> None:
    assert_has(place, expected(story))


def assert_has(place: Path, tables: Tables) -> None:
    """Hold what is written to what has to be; of a million rows that differ, some are named."""
    there = written(place)
    assert there.keys() == tables.keys()
    for table, here in tables.items():
        if there[table] != here:
            extra, missing = there[table].few_that_are_not_in(here), here.few_that_are_not_in(there[table])
            raise AssertionError(f"{table} has {extra} and not {missing}; columns {there[table].columns}")


async def test_from_an_archive_they_are_what_the_raw_log_says(shop_tables: Path, archive: str) -> None:
    assert_same(shop_tables, await read_all(archive))


@pytest.mark.extended
async def test_from_a_broker_they_are_what_the_raw_log_says(
    spark: SparkSession, broker_log: str, tmp_path: Path
) -> None:
    in_full(spark, broker_log, tmp_path, expected(await read_all(broker_log)))


async def test_an_archive_goes_on_where_its_log_stopped_and_nothing_new_or_another_log_changes_nothing(
    spark: SparkSession, shop_log: str, archive: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert rebuild(spark, shop_log, out, as_of=thirds(shop_log, 2)).full
    done = rebuild(spark, archive, out)
    assert (done.full, done.undecodable) == (False, 0)
    assert_same(out, await read_all(shop_log))
    assert_as_submitted(out, Path(shop_log.removeprefix("sqlite:///")).with_name("demo-300-orders-7.ndjson"))
    files = inodes(out)
    again = rebuild(spark, shop_log, out)
    assert (again.read, again.manifest) == ({}, done.manifest)
    with pytest.raises(WiringError, match="another log"):
        rebuild(spark, "sqlite:///" + str(await other_log(tmp_path)), out)
    assert inodes(out) == files


@pytest.mark.slow
@pytest.mark.parametrize("source", ["shop_log", "broker_log", "archive"])
async def test_they_are_what_the_raw_log_says_in_full_and_in_three_increments(
    spark: SparkSession, source: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url: str = request.getfixturevalue(source)
    tables = expected(await read_all(url))
    in_full(spark, url, tmp_path / "full", tables)
    in_three_increments(spark, url, tmp_path / "parts", tables)


def in_full(spark: SparkSession, url: str, out: Path, tables: Tables) -> Rebuilt:
    done = rebuild(spark, url, out)
    assert_has(out, tables)
    assert (done.full, done.undecodable) == (True, 0)
    return done


def in_three_increments(spark: SparkSession, url: str, out: Path, tables: Tables) -> None:
    for n in (1, 2):
        assert rebuild(spark, url, out, as_of=thirds(url, n)).full == (n == 1)
    assert not rebuild(spark, url, out).full
    assert_has(out, tables)


def assert_as_submitted(place: Path, file: Path) -> None:
    submitted, lines = totals_of_file(file), Counter(line["order_id"] for line in rows_in(place / "order_lines"))
    orders = rows_in(place / "orders")
    assert orders
    for order in orders:
        assert submitted[order["order_id"]] == (order["total_cents"], lines[order["order_id"]])


def inodes(place: Path) -> set[tuple[int, int]]:
    found = [path.stat() for path in place.rglob("*.parquet")]
    return {(each.st_ino, each.st_mtime_ns) for each in found}


async def other_log(directory: Path) -> Path:
    from eventlib.log.sqlite.log import SqliteLog

    log = await SqliteLog.open(directory / "other.db")
    await log.close()
    return directory / "other.db"


async def test_as_of_a_time_they_have_what_was_recorded_by_then_and_no_plan_sends_a_table_to_every_task(
    spark: SparkSession, shop_log: str, tmp_path: Path, plans: list[str]
) -> None:
    story = await read_all(shop_log)
    times = sorted(record.timestamp_ms for record, _ in story)
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=times[len(times) // 2])
    rebuild(spark, shop_log, tmp_path, as_of=at)
    assert_same(tmp_path, [(record, event) for record, event in story if record.timestamp_ms <= times[len(times) // 2]])
    assert len(plans) >= len(TABLES)  # one more for what is kept, and none for the steps of sagas
    assert not [plan for plan in plans if "Broadcast" in plan]


def test_without_a_log_or_tables_it_says_so(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LogUnavailable, match="there is no log"):
        rebuild(spark, f"sqlite:///{tmp_path}/none.db", tmp_path)


@pytest.fixture(scope="module")
def real_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a log of the whole real file; it takes half a gigabyte, so it does not stay."""
    shop = ShopLog(tmp_path_factory.mktemp("real"))
    shop.run_import(REAL_ORDERS, longest_s=LONGEST_IMPORT_S)
    yield shop.url
    rmtree(shop.directory)


@pytest.fixture(scope="module")
def real_archive(real_log: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    return archived(real_log, tmp_path_factory.mktemp("real archive"))


@pytest.fixture(scope="module")
def real_broker_log(broker: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a log on a real broker, of the whole real file, as the services have written it there."""
    shop = ShopLog(tmp_path_factory.mktemp("real on a broker"), f"{broker.url}/?prefix=real.")
    shop.run_import(REAL_ORDERS, longest_s=LONGEST_IMPORT_S)
    return shop.url


@pytest.mark.slow
@pytest.mark.skipif(not REAL_ORDERS.exists(), reason="the real orders are not at hand")
@pytest.mark.parametrize("source", ["real_log", "real_archive", "real_broker_log"])
async def test_of_the_real_file_they_are_the_same_from_every_source_in_full_and_in_three_increments(
    spark: SparkSession, source: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url: str = request.getfixturevalue(source)
    tables = expected(await read_all(url))
    in_full(spark, url, tmp_path / "full", tables)
    assert_as_submitted(tmp_path / "full", REAL_ORDERS)
    in_three_increments(spark, url, tmp_path / "parts", tables)
