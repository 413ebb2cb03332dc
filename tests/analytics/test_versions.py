"""The files that tables stand in: few, however many increments made them, and none that nobody needs."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analytics.cli import run
from analytics.rebuilding import How, rebuild
from analytics.stores import current, tables
from analytics.stores.merging import merge_small
from eventlib.errors import LogUnavailable
from eventlib.log.archive.files import Lost, commit, read_manifest
from tests.analytics.independent import read_all, tables_of
from tests.analytics.sources import thirds


def test_small_files_become_few_and_their_rows_stay(tmp_path: Path) -> None:
    kind = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("text", pa.string())])
    for n in range(100):
        rows = pa.table({"n": [n], "at": [n], "text": [None if n % 2 else "x"]}, kind)
        pq.write_table(rows, tmp_path / f"{n:05}-a.parquet")
        merge_small(tmp_path, f"{n:05}")
        assert len(list(tmp_path.iterdir())) < 16
    found = pq.read_table(tmp_path).sort_by("n")
    assert found["n"].to_pylist() == list(range(100))
    assert (found.schema.names, found.schema.types) == (kind.names, kind.types)


@pytest.mark.extended
async def test_a_merged_table_is_the_same_table_and_only_some_versions_stay(
    spark: SparkSession, archive: str, tmp_path: Path
) -> None:
    select = ("saga_steps",)
    rebuild(spark, archive, tmp_path, as_of=thirds(archive, 2), how=How(select=select))
    steps = tmp_path / "saga_steps"
    some = pq.read_table(min(steps.glob("*.parquet")))
    for n in range(12):  # what many increments would have left
        pq.write_table(some.slice(n, 1), steps.resolve() / f"9-{n:02}.parquet")
    done = rebuild(spark, archive, tmp_path, how=How(select=select, keep=1))
    assert done.manifest.rows["saga_steps"] == len(tables_of(await read_all(archive))["saga_steps"]) + 12
    assert len(list(steps.glob("*.parquet"))) < 12
    assert tables(spark, tmp_path)["saga_steps"].count() == done.manifest.rows["saga_steps"]
    assert len(list((tmp_path / "versions").iterdir())) == 1


@pytest.fixture
def with_a_gap(archive: str, tmp_path: Path) -> str:
    """An archive whose log had dropped something before it was archived."""
    place = tmp_path / "gap"
    place.mkdir()
    for name in ("data", "manifests"):
        (place / name).mkdir()
    source = Path(archive.removeprefix("archive:"))
    (place / "data").rmdir()
    (place / "data").symlink_to(source / "data")
    manifest = read_manifest(source)
    commit(place, manifest.model_copy(update={"lost": (Lost(topic="orders", partition=1, first=0, end=2),)}))
    return f"archive:{place}"


def test_tables_of_what_is_left_are_made_only_when_asked_for_and_say_so(
    spark: SparkSession, with_a_gap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, select = tmp_path / "out", ("event_order_placed",)
    with pytest.raises(LogUnavailable, match=r"dropped orders/1 from 0 to 2.*--incomplete"):
        rebuild(spark, with_a_gap, out, how=How(select=select))
    assert current(out) is None
    done = rebuild(spark, with_a_gap, out, how=How(select=select, incomplete=True))
    assert [(each.topic, each.partition, each.first, each.end) for each in done.manifest.dropped] == [
        ("orders", 1, 0, 2)
    ]
    assert run(["rebuild", "--log", with_a_gap, "--out", str(out)]) == 1
    assert "the tables are incomplete: orders/1" in capsys.readouterr().err
    assert len(list((out / "versions").iterdir())) == 1
