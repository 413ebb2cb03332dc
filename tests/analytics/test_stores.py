"""Tables as Iceberg and Delta: the rows of Parquet for every engine, older versions, evolved contracts, and few files."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.audit.application import Application
from analytics.cli import run
from analytics.rebuilding import How, Rebuilt, rebuild, tables
from analytics.rebuilding.catalogue import catalogue_of
from analytics.stores import TableFormat, begin_version, entry_of
from eventlib import Choreography
from eventlib.errors import WiringError
from tests.analytics.engines import ENGINES, Rows, rows_in, rows_of, spark_rows
from tests.analytics.repairs import OLDER, RepairAsked
from tests.analytics.sources import REPAIRS, thirds
from tests.analytics.test_stores_killed import cut, left_over
from tests.commands import ended

SELECT = ("kinds", "saga_steps")
"""With what they are made of: tables that grow, are merged, and are whole, and one that is an SQL file."""


@pytest.fixture(scope="module")
def as_parquet(spark: SparkSession, grown: tuple[Path, Rebuilt]) -> dict[int, Rows]:
    """Rows as Parquet, at two thirds of the log and at its end; `test_any_choreography.py` holds them to a full rebuild's."""
    names = catalogue_of(REPAIRS, SELECT).published
    versions = {number: tables(spark, grown[0], version=number) for number in (1, 2)}
    return {number: {name: spark_rows(rows[name]) for name in names} for number, rows in versions.items()}


@pytest.mark.extended
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
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


older = Choreography("repairs", [], facts=[OLDER])
newer = Choreography("repairs", [], facts=[RepairAsked])
ASKED = "event_repair_asked"


@pytest.mark.parametrize("table_format", ["iceberg", pytest.param("delta", marks=pytest.mark.extended)])
def test_when_a_contract_evolves_so_does_its_table_and_older_versions_have_its_older_columns(
    spark: SparkSession, repair_log: str, tmp_path: Path, table_format: TableFormat
) -> None:
    from deltalake import DeltaTable
    from pyiceberg.table import StaticTable

    how = How(select=(ASKED,), table_format=table_format)
    for name in ("older", "newer"):
        done = rebuild(spark, repair_log, tmp_path, application=Application(f"{__name__}:{name}"), how=how)
        assert done.full
    then, now = (tables(spark, tmp_path, version=version)[ASKED] for version in (1, 2))
    assert {*now.columns} - {*then.columns} == {"event_offset"}
    assert now.count() == then.count() == 13
    for read in ENGINES[table_format].values():
        assert rows_of(read(tmp_path / entry_of(ASKED, table_format))) == spark_rows(now)
        assert rows_of(read(tmp_path / "versions/0000000001" / entry_of(ASKED, table_format))) == spark_rows(then)
    path = str(tmp_path / entry_of(ASKED, table_format))
    if table_format == "iceberg":
        table = StaticTable.from_metadata(path)
        first, second = sorted(table.schemas().values(), key=lambda schema: schema.schema_id)
        ids = {field.name: field.field_id for field in second.fields}
        assert {field.name: field.field_id for field in first.fields}.items() <= ids.items()
        assert table.scan(snapshot_id=table.metadata.snapshots[0].snapshot_id).to_arrow().num_rows == 13
    else:
        assert (
            DeltaTable(path).version() == done.manifest.snapshots[ASKED] == 0
        )  # a table that is written anew begins anew


@pytest.mark.slow
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_after_many_increments_there_are_few_files_and_the_versions_that_are_kept(
    spark: SparkSession, repair_log: str, tmp_path: Path, table_format: TableFormat
) -> None:
    from deltalake import DeltaTable
    from pyiceberg.table import StaticTable

    how = How(select=("intake", "bills"), table_format=table_format, keep=3)
    for n in range(1, 13):
        done = rebuild(spark, repair_log, tmp_path, as_of=cut(repair_log, n + 4), application=REPAIRS, how=how)
    place, entry = tmp_path / "versions", entry_of("intake", table_format)
    versions = [int(path.name) for path in sorted(place.iterdir())]
    assert (len(versions), versions[-1]) == (3, done.manifest.number)
    assert not left_over(tmp_path, table_format)
    if table_format == "iceberg":
        table = StaticTable.from_metadata(str(tmp_path / entry))
        assert len(table.metadata.snapshots) <= len(versions)
        assert len(table.inspect.files()) < 10
        assert len([*tmp_path.glob("warehouse/intake/metadata/v*.metadata.json")]) <= len(versions) + 2
        older = [table.scan(snapshot_id=each.snapshot_id).to_arrow() for each in table.metadata.snapshots]
    else:
        newest = DeltaTable(str(tmp_path / entry))
        assert len(newest.file_uris()) < 10
        assert len([*tmp_path.glob("intake/_delta_log/*.json")]) < 20
        numbers = [done.manifest.snapshots["intake"] - n for n in (1, 0)]
        older = [DeltaTable(str(tmp_path / entry), version=number).to_pyarrow_table() for number in numbers]
    assert rows_of(older[-1]) == spark_rows(tables(spark, tmp_path)["intake"])
    assert rows_of(older[0]) <= rows_of(older[-1])
    for version in versions:
        read = next(iter(ENGINES[table_format].values()))
        rows = spark_rows(tables(spark, tmp_path, version=version)["intake"])
        assert rows_of(read(place / f"{version:010}" / entry)) == rows
