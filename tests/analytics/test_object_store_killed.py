"""Tables on an object store, killed at any step: the version before or the one after, and each row once in the next."""

import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.rebuilding import How, rebuild, tables
from analytics.stores import Place, TableFormat, current, read_manifest
from analytics.stores.pointer import stored_versions
from eventlib.ground.object_store import ObjectStore
from tests.analytics.engines import spark_rows
from tests.analytics.killing import Killed, killed_at
from tests.analytics.processes import first_line, running, wait_until
from tests.analytics.sources import REPAIRS
from tests.analytics.test_stores import rows_in
from tests.analytics.test_stores_killed import CUTS, EVERYTHING, cut
from tests.saga.shop_runs import ShopLog, order_file

SELECT = ("bills", "kinds")


@pytest.mark.slow
@pytest.mark.parametrize("table_format", ["parquet", "iceberg"])
def test_killed_at_any_step_the_next_run_has_each_row_once(
    spark: SparkSession, repair_log: str, bucket: ObjectStore, tmp_path: Path, table_format: TableFormat
) -> None:
    """Kills one increment after another, each at a later write to the store or step of the rebuild, and one that goes on."""
    whole, chosen, told = tmp_path / "whole", random.Random(7), list[str]()

    def run(place: Place, n: int, most: int = EVERYTHING) -> None:
        def killed(step: str, *_: object) -> None:
            told.append(step)
            if len(told) > most:
                raise Killed

        told.clear()
        how = How(select=SELECT, table_format=table_format if place is bucket else "parquet", keep=2)
        rebuild(spark, repair_log, place, as_of=cut(repair_log, n), application=REPAIRS, how=how, progress=killed)

    for place in (whole, bucket):
        run(place, 1)
    before = rows_in(spark, whole)
    with killed_at(EVERYTHING, bucket) as writes:
        run(bucket, 2)
    steps = len(told)
    run(whole, 2)
    assert rows_in(spark, bucket) == (before := rows_in(spark, whole))
    for n in range(3, CUTS // 2):
        run(whole, n)
        after = rows_in(spark, whole)
        with killed_at((n - 3) % (len(writes) + 1), bucket) as done, suppress(Killed):
            run(bucket, n)
        assert rows_in(spark, bucket) in (before, after), done[-1:]
        with suppress(Killed):
            run(bucket, n, chosen.randint(1, steps))
        assert rows_in(spark, bucket) in (before, after), told[-1:]
        run(bucket, n)
        assert rows_in(spark, bucket) == after
        before = after
    run(bucket, CUTS)
    rebuild(spark, repair_log, tmp_path / "full", application=REPAIRS, how=How(select=SELECT))
    assert rows_in(spark, bucket) == rows_in(spark, tmp_path / "full")
    kept = {version.directory for version in stored_versions(bucket)}
    assert {key.split("/")[1] for key in bucket.sizes("versions/")} == kept
    if table_format == "parquet":
        needed = {
            key for version in stored_versions(bucket) for files in version.manifest.files.values() for key in files
        }
        assert bucket.sizes("data/").keys() == needed


@pytest.mark.slow
def test_a_follower_that_is_killed_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, bucket: ObjectStore
) -> None:
    shop, chosen, select = ShopLog(tmp_path), random.Random(11), "orders,event_order_placed"
    arguments = ["rebuild", "--log", shop.url, "--out", str(bucket), "--follow", "--every", "200ms", "--json"]
    arguments += ["--format", "iceberg", "--select", select]
    shop.run_import(order_file(tmp_path, 50))
    importing = shop.start_import(order_file(tmp_path, 600), "--json")
    for kill in range(3):
        with running(tmp_path / f"temporary{kill}", *arguments) as follower:
            first_line(follower)
            before, wanted = current(bucket), chosen.randint(1, 12)
            assert before is not None
            later = f"data/{int(before.name) + 1:010}"
            wait_until(
                lambda: len(bucket.sizes(later)) >= wanted or current(bucket) != before or importing.poll() is not None,  # noqa: B023  waited for here
                follower,
            )
            follower.send_signal(signal.SIGKILL)
            follower.wait()
        version = current(bucket)
        assert version is not None
        full = tmp_path / "full" / version.name
        rebuild(spark, shop.url, full, as_of=read_manifest(version).ends, how=How(select=tuple(select.split(","))))
        assert rows_in(spark, bucket) == {name: spark_rows(each) for name, each in tables(spark, full).items()}
    importing.communicate(timeout=600)
    assert importing.returncode == 0
