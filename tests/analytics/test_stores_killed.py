"""Tables as Iceberg and Delta, killed at any step: the version before or the one after, and each row once in the next."""

import random
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import analytics
from analytics.rebuilding import How, rebuild, tables
from analytics.stores import TableFormat, current, read_manifest
from eventlib.log.base import TopicPartition
from tests.analytics.engines import ENGINES, rows_of, spark_rows
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

    def rows(place: Path) -> dict[str, object]:
        return {name: spark_rows(each) for name, each in tables(spark, place).items()}

    for place in (whole, out):
        run(place, 1)
    before = rows(whole)
    with killed_at(EVERYTHING, out) as steps:
        run(out, 2)
    run(whole, 2)
    assert rows(out) == (before := rows(whole))
    for n in range(3, CUTS):
        run(whole, n)
        after = rows(whole)
        at = len(steps) * (n - 3) // (CUTS - 4) + chosen.randint(0, 2)
        for step in (at, chosen.randint(0, 12))[: chosen.randint(1, 2)]:
            with killed_at(step, out) as done, suppress(Killed):
                run(out, n)
            assert rows(out) in (before, after), done[-1:]
        run(out, n)
        assert rows(out) == after, done[-1:]
        before = after
    run(out, CUTS)  # which deletes what a run has left that was killed once its version was current
    rebuild(spark, repair_log, tmp_path / "full", application=REPAIRS, how=How(select=SELECT))
    assert rows(out) == rows(tmp_path / "full")
    assert not list(left_over(out, table_format))


def left_over(out: Path, table_format: TableFormat) -> set[str]:
    """The files with rows that no version needs."""
    from pyiceberg.table import StaticTable

    versions = sorted((out / "versions").iterdir())
    needed, there = set[str](), set[str]()
    if table_format == "iceberg":
        for pointer in (path for version in versions for path in version.glob("*.metadata.json")):
            found = StaticTable.from_metadata(str(pointer)).inspect.files()
            needed.update(Path(path).name for path in found["file_path"].to_pylist())
        there = {path.name for path in out.glob("warehouse/*/data/**/*.parquet")}
    else:
        for path in versions[-1].glob("*/_delta_log"):
            for version in versions:
                needed |= {*(version / f".{path.parent.name}.files").read_text().splitlines()}
            there |= {each.name for each in path.parent.glob("*.parquet")}
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
        expected = {name: spark_rows(each) for name, each in tables(spark, full).items()}
        assert {name: spark_rows(each) for name, each in tables(spark, out).items()} == expected
        for engine, read in ENGINES[table_format].items():
            entry = "orders.metadata.json" if table_format == "iceberg" else "orders"
            assert rows_of(read(out / entry)) == expected["orders"], engine
    importing.communicate(timeout=600)
    assert importing.returncode == 0
