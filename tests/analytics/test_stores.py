"""Tables as Iceberg and Delta: the rows that Parquet has, for engines of others; versions; what is refused."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.cli import run
from analytics.rebuilding import How, Rebuilt, rebuild, tables
from analytics.rebuilding.catalogue import catalogue_of
from analytics.stores import Place, TableFormat, begin_version, entry_of
from eventlib.errors import WiringError
from tests.analytics.engines import ENGINES, rows_of, spark_rows
from tests.analytics.sources import REPAIRS, thirds
from tests.commands import ended

Rows = dict[str, Counter[str]]

SELECT = ("kinds", "saga_steps")
"""With what they are made of: tables that grow, are merged, and are whole, and one that is an SQL file."""


def rows_in(spark: SparkSession, place: Place, version: int | None = None) -> Rows:
    return {name: spark_rows(rows) for name, rows in tables(spark, place, version=version).items()}


@pytest.fixture(scope="module")
def as_parquet(spark: SparkSession, grown: tuple[Path, Rebuilt]) -> dict[int, Rows]:
    """Rows as Parquet, at two thirds of the log and at its end; `test_any_choreography.py` holds them to a full rebuild's."""
    names = catalogue_of(REPAIRS, SELECT).published
    versions = {number: tables(spark, grown[0], version=number) for number in (1, 2)}
    return {number: {name: spark_rows(rows[name]) for name in names} for number, rows in versions.items()}


@pytest.mark.parametrize("table_format", ["iceberg", pytest.param("delta", marks=pytest.mark.extended)])
def test_engines_read_the_rows_that_parquet_has_and_older_versions_stay(
    spark: SparkSession, repair_log: str, tmp_path: Path, as_parquet: dict[int, Rows], table_format: TableFormat
) -> None:
    out, how = tmp_path / "tables", How(select=SELECT, table_format=table_format)
    rebuild(spark, repair_log, out, as_of=thirds(repair_log, 2), application=REPAIRS, how=how)
    done = rebuild(spark, repair_log, out, application=REPAIRS, how=How())
    assert (done.full, done.manifest.table_format) == (False, table_format)
    assert done.manifest.rows == {name: rows.total() for name, rows in as_parquet[2].items()}
    for engine, read in ENGINES[table_format].items():
        for version, there in ((1, out / "versions/0000000001"), (2, out)):
            found = {name: rows_of(read(there / entry_of(name, table_format))) for name in done.manifest.rows}
            assert found == as_parquet[version], (engine, version)
    assert [rows_in(spark, out, version=version) for version in (1, 2)] == [*as_parquet.values()]
    said = ended("rebuild", "--log", repair_log, "--out", str(out), "--format", "parquet", by=run)
    assert f"are {table_format}: rebuild to another directory" in said.stderr


def offsets(path: Path, ends: Mapping[tuple[str, int], int]) -> str:
    content = dict[str, dict[str, int]]()
    for (topic, partition), end in ends.items():
        content.setdefault(topic, {})[str(partition)] = end
    path.write_text(json.dumps(content))
    return str(path)


def test_sql_asks_an_older_version_by_its_number_or_by_where_it_ends(
    repair_log: str, grown: tuple[Path, Rebuilt], as_parquet: dict[int, Rows], tmp_path: Path
) -> None:
    def asked(*options: str) -> tuple[int, str]:
        text = "SELECT count(*) AS steps FROM saga_steps"
        done = ended("sql", text, "--out", str(grown[0]), "--json", *options, by=run)
        return json.loads(done.stdout)["steps"] if done.returncode == 0 else -1, " ".join(done.stderr.split())

    then, now = (as_parquet[version]["saga_steps"].total() for version in (1, 2))
    assert then < now
    assert asked() == (now, "")
    steps, told = asked("--version", "1")
    assert (steps, "version 1, the current one is 2" in told) == (then, True)
    there = thirds(repair_log, 2)
    first = max(place for place, end in there.items() if end and place[0] == "repairs")
    for ends, expected in (({}, now), (there, then), ({**there, first: there[first] - 1}, -1)):
        assert asked("--as-of-offsets", offsets(tmp_path / "offsets", ends))[0] == expected
    assert (
        "no version that ends at or before these offsets: kept are 1, 2"
        in asked("--as-of-offsets", str(tmp_path / "offsets"))[1]
    )
    assert "does not have version 7: kept are 1, 2" in asked("--version", "7")[1]
    assert "offsets: nothing has no offsets" in asked("--as-of-offsets", "nothing")[1]
    assert "not both" in asked("--as-of-offsets", str(tmp_path / "offsets"), "--version", "1")[1]


def test_a_table_that_a_format_cannot_have_is_named(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1,)], "`a b` int")
    with (
        pytest.raises(WiringError, match=r"table odd cannot be written as delta: .*invalid character"),
        begin_version(spark, tmp_path, 1, None, "delta") as version,
    ):
        version.write("odd", rows)
    assert not [*tmp_path.glob("versions/*")]


@pytest.mark.usefixtures("spark")  # which has fetched them
def test_the_jars_for_spark_submit_are_those_of_the_format_too() -> None:
    assert "delta-spark" in ended("connectors", "--format", "delta", by=run).stdout
    assert "delta-spark" not in ended("connectors", "--format", "iceberg", by=run).stdout
