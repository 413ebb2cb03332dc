"""Tables as Iceberg and Delta in the long run: contracts evolve, small files become few, and old versions are deleted."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.audit.application import Application
from analytics.rebuilding import How, rebuild, tables
from analytics.stores import TableFormat, entry_of
from eventlib import Choreography
from tests.analytics.engines import ENGINES, rows_of, spark_rows
from tests.analytics.repairs import OLDER, RepairAsked
from tests.analytics.sources import REPAIRS
from tests.analytics.test_stores_killed import cut, left_over

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
        assert rows_of(DeltaTable(path, version=0).to_pyarrow_table()) == spark_rows(then)


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
