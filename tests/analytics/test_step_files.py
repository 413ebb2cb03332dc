"""Steps that Spark's workers write have the causes of their own saga, once each, whatever a failed task has left."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from analytics.audit.application import Application
from analytics.rebuilding import How, rebuild, step_building
from analytics.rebuilding.catalogue import catalogue_of
from analytics.rebuilding.step_building import FOUND, LACKING, StepFiles
from analytics.rebuilding.steps import STEPS, Steps, with_causes
from analytics.shards import shard

_AT = datetime(2026, 3, 1, tzinfo=UTC)
# Of each step: its saga, id, cause, and second; the cause's second, or None where it is in no row of the saga.
_STEPS = [
    *(("one", "a", None, 0, None), ("one", "b", "a", 1, 0), ("one", "c", "elsewhere", 2, None)),
    *(
        ("two", "d", "a", 3, None),
        ("two", "twice", "d", 4, 3),
        ("two", "e", "twice", 9, 4),
        ("two", "twice", "d", 6, 3),
    ),
    *(("three", "twice", None, 5, None), ("three", "f", "twice", 8, 5), ("three", "g", "known", 7, -9)),
]
_KNOWN = [("three", "known", None, -9, None), ("one", "elsewhere else", None, -9, None)]


def _steps() -> Steps:
    return catalogue_of(Application()).steps


def _rows(spark: SparkSession, steps: Steps, told: Sequence[tuple[str, str, str | None, int, int | None]]) -> DataFrame:
    rows = [
        {
            steps.key: saga,
            "id": name,
            "causation_id": cause,
            "recorded_at": _AT + timedelta(seconds=second),
            "type": "T",
        }
        for saga, name, cause, second, _ in told
    ]
    return spark.createDataFrame([tuple(map(row.get, steps.before.names)) for row in rows], steps.before)


@pytest.mark.parametrize("here", [True, False], ids=["here", "in Spark's workers"])
def test_each_step_has_the_first_cause_of_its_saga_and_those_that_lack_one_are_apart(
    spark: SparkSession, tmp_path: Path, here: bool
) -> None:
    steps = _steps()
    files = StepFiles(spark, steps, tmp_path, 3)
    new = files.sharded(_rows(spark, steps, _STEPS).repartition(2), steps.before)
    assert len(new) == 2
    known = files.sharded(_rows(spark, steps, _KNOWN), steps.known)
    assert files.write(new, known, here=here) == 2
    found = [row for name in (FOUND, LACKING) for row in _written(tmp_path / name)]
    since = [
        (saga, name, cause, second, None if of is None else 1_000 * (second - of))
        for saga, name, cause, second, of in _STEPS
    ]
    assert sorted(found, key=str) == sorted(since, key=str)
    assert sorted(str(row[1]) for row in _written(tmp_path / LACKING)) == ["c", "d"]


@pytest.mark.parametrize("few", [True, False], ids=["those that are named", "all"])
def test_causes_are_found_in_the_files_of_earlier_steps(spark: SparkSession, tmp_path: Path, few: bool) -> None:
    steps = _steps()
    files, before = StepFiles(spark, steps, tmp_path / "new", 3), tmp_path / "before.parquet"
    (tmp_path / "new").mkdir()
    schema = to_arrow_schema(steps.schema)
    known = [{steps.key: saga, "id": name, "recorded_at": _AT, "type": "T"} for saga, name, *_ in _KNOWN]
    pq.write_table(pa.Table.from_pylist(known, schema), before)
    new = files.sharded(_rows(spark, steps, _STEPS), steps.before)
    shards = files.known([before], new, few=few)
    found = [row["id"] for n in range(3) for row in shard(shards, n, 3, to_arrow_schema(steps.known)).to_pylist()]
    assert sorted(found) == (["known"] if few else ["elsewhere else", "known"])
    assert files.write(new, shards, here=True) == 2


def _written(directory: Path) -> list[tuple[object, ...]]:
    rows = [row for path in sorted(directory.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    names = (_steps().key, "id", "causation_id")
    return [(*map(row.get, names), (row["recorded_at"] - _AT).seconds, row["since_cause_ms"]) for row in rows]


def test_the_rows_of_a_saga_are_in_one_shard_each_once(spark: SparkSession, tmp_path: Path) -> None:
    steps = _steps()
    paths = StepFiles(spark, steps, tmp_path, 3).sharded(_rows(spark, steps, _STEPS), steps.before)
    shards = [shard(paths, number, 3, to_arrow_schema(steps.before)) for number in range(3)]
    sagas = [set(rows[steps.key].to_pylist()) for rows in shards]
    assert sum(rows.num_rows for rows in shards) == len(_STEPS)
    assert sum(map(len, sagas)) == len(set.union(*sagas)) == 3


def test_what_a_task_holds_of_the_steps_does_not_grow_with_the_log(
    spark: SparkSession, archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuild of ten times as many events has ten times as many tasks: each holds the steps of its sagas, and what they name."""
    held, most = list[int](), 300

    def noted(new: pa.Table, known: pa.Table, key: str) -> pa.Table:
        held.append(new.num_rows + known.num_rows)
        return with_causes(new, known, key)

    monkeypatch.setattr(import_module("analytics.rebuilding.rebuild"), "_ROWS_AT_ONCE", most)
    monkeypatch.setattr(step_building, "FEW_RECORDS", 1 << 30)  # in this process
    monkeypatch.setattr(step_building, "with_causes", noted)
    rebuild(spark, archive, tmp_path, how=How(select=(STEPS,)))
    steps = pq.read_table(tmp_path / STEPS, columns=["id"]).num_rows
    assert sum(held) == steps > 5 * most
    assert max(held) < 2 * most
