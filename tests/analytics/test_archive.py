"""The archive, with the log that it was made of, is the log: each record once."""

import json
import shutil
from datetime import UTC
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import analytics
from eventlib.errors import LogUnavailable, WiringError
from eventlib.log.sqlite.log import SqliteLog
from eventlib.testing.log_fixture import TOPICS, record
from services.order.events import OrderPlaced
from tests.analytics.sources import archived
from tests.commands import said


def in_order(records: DataFrame) -> pa.Table:
    return records.toArrow().sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])


def test_it_has_every_record_as_it_was(spark: SparkSession, shop_log: str, archive: str) -> None:
    there, here = analytics.log(spark, archive), analytics.log(spark, shop_log)
    assert in_order(there) == in_order(here)
    assert analytics.spans(archive) == analytics.spans(shop_log)


def test_it_is_narrowed_by_the_same_words(spark: SparkSession, shop_log: str, archive: str) -> None:
    times = sorted(row[0].replace(tzinfo=UTC) for row in analytics.log(spark, shop_log).select("recorded_at").collect())
    since, until = times[len(times) // 3], times[2 * len(times) // 3]
    quarters = {place: len(span) // 4 for place, span in analytics.spans(shop_log).items()}
    for only in (
        analytics.Only(topics=["orders", "stock"], since=since, until=until),
        analytics.Only(types=["OrderPlaced", "PaymentTaken"], end=quarters),
        analytics.Only(topics=["stock", "_schemas"], begin=quarters),
        analytics.Only(begin={("orders", 0): 3}, end={("orders", 1): 2}),
        analytics.Only(topics=["no such topic"]),
    ):
        there, here = analytics.log(spark, archive, **only), analytics.log(spark, shop_log, **only)
        assert in_order(there) == in_order(here), only


def test_its_events_are_the_same(spark: SparkSession, shop_log: str, archive: str) -> None:
    there, here = (analytics.events(spark, url, OrderPlaced) for url in (archive, shop_log))
    assert in_order(there) == in_order(here)


def test_commands_say_of_an_archive_what_they_say_of_its_log(shop_log: str, archive: str) -> None:
    first = json.loads(said("tail", "orders", "--log", shop_log, "--json").splitlines()[0])
    key, placed = first["key"], first["id"]
    for arguments in (("tail",), ("state", "order", key, "--at", placed), ("replay",)):
        there, here = (said(*arguments, "--log", url, "--json") for url in (archive, shop_log))
        assert there == here, arguments


async def test_with_the_live_log_each_record_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "log.db")
    await log.create_topics(TOPICS)
    await log.append([record("a", b"%d" % i, partition=i % 2) for i in range(10)])
    url = f"sqlite:///{tmp_path}/log.db"
    archive = archived(url, tmp_path / "archive")
    await log.append([record("a", b"%d" % i, partition=i % 2) for i in range(10, 20)])
    await log.append([record("b", b"new")])
    both = analytics.log(spark, archive, live=url)
    assert in_order(both) == in_order(analytics.log(spark, url))
    for only in (analytics.Only(begin={("a", 0): 2, ("a", 1): 7}), analytics.Only(end={("a", 0): 2, ("a", 1): 7})):
        narrowed = analytics.log(spark, archive, live=url, **only)
        assert in_order(narrowed) == in_order(analytics.log(spark, url, **only))
    archived(url, tmp_path / "archive")
    assert analytics.log(spark, archive).count() == both.count() == 21
    assert analytics.log(spark, archive, live=url).count() == 21
    await log.close()


async def test_a_live_log_that_does_not_go_on_from_the_archive_is_refused(
    spark: SparkSession, tmp_path: Path, archive: str, shop_log: str
) -> None:
    log = await SqliteLog.open(tmp_path / "log.db")
    await log.create_topics(TOPICS)
    with pytest.raises(WiringError, match="is another log"):
        analytics.log(spark, archive, live=f"sqlite:///{tmp_path}/log.db")
    with pytest.raises(WiringError, match="is not an archive"):
        analytics.log(spark, shop_log, live=shop_log)
    url = f"sqlite:///{tmp_path}/log.db"
    place = archived(url, tmp_path / "archive")
    await log.append([record("hour", b"%d" % i).replace(timestamp_ms=1) for i in range(3)])
    await log.keep_unarchived(None)
    await log.compact()
    with pytest.raises(LogUnavailable, match="dropped hour/0 from 0 to 3"):
        analytics.log(spark, place, live=url)
    await log.close()


def test_no_archive_is_said_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LogUnavailable, match="python -m analytics archive"):
        analytics.log(spark, f"archive:{tmp_path}")
    shutil.rmtree(tmp_path)
    with pytest.raises(LogUnavailable, match="python -m analytics archive"):
        analytics.events(spark, f"archive:{tmp_path}", OrderPlaced)
