"""Tables as Iceberg and Delta, and on an object store, killed at any step: the version before or the one after, and each row once in the next."""

import random
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import analytics
from analytics.rebuilding import How, rebuild
from analytics.stores import Place, TableFormat, current, read_manifest
from analytics.stores.pointer import stored_versions
from eventlib.ground.object_store import ObjectStore
from eventlib.log.base import TopicPartition
from tests.analytics.engines import ENGINES, rows_in, rows_of
from tests.analytics.killing import Killed, killed_at
from tests.analytics.processes import first_line, running, wait_until
from tests.analytics.sources import REPAIRS
from tests.saga.shop_runs import ShopLog, order_file

SELECT = ("bills", "intake", "kinds", "saga_steps")
FORMATS = ["iceberg", "delta"]
CUTS = 16
EVERYTHING = 10_000


def cut(url: str, n: int) -> Mapping[TopicPartition, int]:
    """Where the n-th increment of `CUTS` ends; each adds about as many records, from all over the log."""
    spans = analytics.spans(url)
    records = sorted(((i + 0.5) / span.stop, place) for place, span in spans.items() for i in range(span.stop))
    ends = dict.fromkeys(spans, 0)
    for _, place in records[: len(records) * n // CUTS]:
        ends[place] += 1
    return ends


@pytest.mark.slow
@pytest.mark.parametrize("table_format", FORMATS)
def test_killed_at_any_step_the_next_run_has_each_row_once(
    spark: SparkSession, repair_log: str, tmp_path: Path, table_format: TableFormat
) -> None:
    """Kills one increment after another, each at a later step, and some of the runs that go on, too."""
    whole, out, chosen = tmp_path / "whole", tmp_path / "out", random.Random(7)

    def run(place: Path, n: int) -> None:
        how = How(select=SELECT, table_format=table_format if place is out else "parquet", keep=2)
        rebuild(spark, repair_log, place, as_of=cut(repair_log, n), application=REPAIRS, how=how)

    for place in (whole, out):
        run(place, 1)
    before = rows_in(spark, whole)
    with killed_at(EVERYTHING, out) as steps:
        run(out, 2)
    run(whole, 2)
    assert rows_in(spark, out) == (before := rows_in(spark, whole))
    for n in range(3, CUTS):
        run(whole, n)
        after = rows_in(spark, whole)
        at = len(steps) * (n - 3) // (CUTS - 4) + chosen.randint(0, 2)
        for step in (at, chosen.randint(0, 12))[: chosen.randint(1, 2)]:
            with killed_at(step, out) as done, suppress(Killed):
                run(out, n)
            assert rows_in(spark, out) in (before, after), done[-1:]
        run(out, n)
        assert rows_in(spark, out) == after, done[-1:]
        before = after
    run(out, CUTS)  # which deletes what a run has left that was killed once its version was current
    rebuild(spark, repair_log, tmp_path / "full", application=REPAIRS, how=How(select=SELECT))
    assert rows_in(spark, out) == rows_in(spark, tmp_path / "full")
    assert not list(left_over(out, table_format))


def left_over(out: Path, table_format: TableFormat) -> set[str]:
    """The files with rows that no version needs."""
    from deltalake import DeltaTable
    from pyiceberg.table import StaticTable

    versions = sorted((out / "versions").iterdir())
    needed, there = set[str](), set[str]()
    if table_format == "iceberg":
        for pointer in (path for version in versions for path in version.glob("*.metadata.json")):
            found = StaticTable.from_metadata(str(pointer)).inspect.files()
            needed.update(Path(path).name for path in found["file_path"].to_pylist())
        there = {path.name for path in out.glob("warehouse/*/data/**/*.parquet")}
    else:
        for path in (log.parent for log in out.glob("versions/*/*/_delta_log")):
            needed |= {Path(file).name for file in DeltaTable(str(path)).file_uris()}
            there |= {each.name for each in path.glob("*.parquet")}
    assert needed <= there
    return there - needed


@pytest.mark.slow
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_follower_that_is_killed_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, table_format: TableFormat
) -> None:
    shop, out, chosen = ShopLog(tmp_path), tmp_path / "out", random.Random(11)
    select = "orders,saga_steps,event_order_placed"
    arguments = ["rebuild", "--log", shop.url, "--out", str(out), "--follow", "--every", "200ms", "--json"]
    arguments += ["--format", table_format, "--select", select]
    shop.run_import(order_file(tmp_path, 50))
    importing = shop.start_import(order_file(tmp_path, 1_000), "--json")
    for kill in range(4):
        with running(tmp_path / f"temporary{kill}", *arguments) as follower:
            first_line(follower)
            before = current(out)
            assert before is not None
            later = out / "versions" / f"{int(before.name) + 1:010}"
            table = chosen.choice(["orders*", "saga_steps*", "event_order_placed*"])
            wait_until(lambda: [*later.glob(table)] or current(out) != before or importing.poll() is not None, follower)  # noqa: B023  waited for here
            follower.send_signal(signal.SIGKILL)
            follower.wait()
        version = current(out)
        assert version is not None
        full = tmp_path / "full" / version.name
        how = How(select=tuple(select.split(",")))
        rebuild(spark, shop.url, full, as_of=read_manifest(version).ends, how=how)
        assert rows_in(spark, out) == (expected := rows_in(spark, full))
        for engine, read in ENGINES[table_format].items():
            entry = "orders.metadata.json" if table_format == "iceberg" else "orders"
            assert rows_of(read(out / entry)) == expected["orders"], engine
    importing.communicate(timeout=600)
    assert importing.returncode == 0


STORED = ("bills", "kinds")


@pytest.mark.slow
@pytest.mark.parametrize("table_format", ["parquet", "iceberg"])
def test_on_an_object_store_killed_at_any_step_the_next_run_has_each_row_once(
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
        how = How(select=STORED, table_format=table_format if place is bucket else "parquet", keep=2)
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
    rebuild(spark, repair_log, tmp_path / "full", application=REPAIRS, how=How(select=STORED))
    assert rows_in(spark, bucket) == rows_in(spark, tmp_path / "full")
    kept = {version.directory for version in stored_versions(bucket)}
    assert {key.split("/")[1] for key in bucket.sizes("versions/")} == kept
    if table_format == "parquet":
        needed = {
            key for version in stored_versions(bucket) for files in version.manifest.files.values() for key in files
        }
        assert bucket.sizes("data/").keys() == needed


@pytest.mark.slow
def test_a_follower_to_an_object_store_that_is_killed_goes_on_where_it_was(
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
        assert rows_in(spark, bucket) == rows_in(spark, full)
    importing.communicate(timeout=600)
    assert importing.returncode == 0
