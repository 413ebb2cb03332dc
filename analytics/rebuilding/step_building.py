"""Writes the steps of sagas of one version: with causes that are in their saga, and then those few that are elsewhere."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from shutil import rmtree
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from analytics.projection import FEW_BYTES, ROWS_AT_ONCE, write_rows
from analytics.rebuilding.facts import Facts
from analytics.rebuilding.scanning import FEW_RECORDS, SHARDS
from analytics.rebuilding.staged_log import OTHERS, StagedLog
from analytics.rebuilding.steps import CAUSES, STEPS, Steps, lacks_cause, lacks_cause_in, with_causes
from analytics.selection import Only
from analytics.shards import ShardWriter, batches, shard
from analytics.stores.version import NO_DICTIONARY
from analytics.tasks import finished, run_tasks, unfinished

_FEW = 100_000
"""So many ids are sent to every task, rather than all events shuffled by their ids."""


def write_steps(log: StagedLog) -> DataFrame:
    """Write the table of steps; return its new rows."""
    spark, version, steps = log.spark, log.version, log.catalogue.steps
    frames, earlier, where = [*map(steps.rows, log.step_frames())], version.earlier(STEPS), version.shared
    if where is None:
        written = version.stage(FOUND, steps.looked_up(reduce(DataFrame.unionAll, frames), earlier))
        lacking = written.filter(lacks_cause())
        if count := lacking.count():
            found = written.filter(~lacks_cause()).unionByName(_with_causes(log, lacking, count, [written]))
            return version.write(STEPS, found, grows=True)
        return version.take(STEPS, written, FOUND, grows=True)
    files, few = StepFiles(spark, steps, where, log.tasks), not frames and log.taken.steps.total() <= FEW_RECORDS
    new = [*log.taken.steps_at, *(path for each in frames for path in files.sharded(each, steps.before))]
    known = list[Path]()
    if earlier is not None:
        there = version.earlier_files(STEPS)
        known = files.sharded(earlier, steps.known) if there is None else files.known(there, new, few=few)
    if count := files.write(new, known, here=few):
        found, lacking = (spark.read.schema(steps.schema).parquet(str(where / name)) for name in (FOUND, LACKING))
        version.stage("steps_found", _with_causes(log, lacking, count, [found, lacking]))
        for path in version.staged("steps_found"):
            path.rename(where / FOUND / path.name)
    return version.take(STEPS, spark.read.schema(steps.schema).parquet(str(where / FOUND)), FOUND, grows=True)


def _with_causes(log: StagedLog, lacking: DataFrame, count: int, made: Sequence[DataFrame]) -> DataFrame:
    """Return steps with causes that are not in their sagas: new events, those before, and those after the partitions' ends.

    An event is on the log after its cause, but the partitions' ends may have been read in another order; so a cause is also
    looked up in what the log has by now.
    """
    later: Only = {"begin": log.only["end"]}
    ends = Facts(log.spark, log.url, later).records(log.catalogue.events).select(*CAUSES)
    known = [log.version.earlier(name) for name in (STEPS, OTHERS)]
    found = [*log.ids(made), ends, *(each.select(*CAUSES) for each in known if each is not None)]
    ids = lacking.select(f.col("causation_id").alias("id")).distinct()
    causes = reduce(DataFrame.unionAll, found).join(f.broadcast(ids) if count <= _FEW else ids, "id", "left_semi")
    return log.catalogue.steps.with_other_causes(lacking, causes)


FOUND, LACKING = "steps", "steps_lacking"


class _Written(NamedTuple):
    paths: tuple[Path, Path]
    lacking: int


@dataclass(frozen=True)
class StepFiles:
    """Writes the new steps of a version below a directory that every worker sees, by so many tasks."""

    spark: SparkSession
    steps: Steps
    where: Path
    count: int

    def sharded(self, rows: DataFrame, schema: StructType) -> list[Path]:
        """Write rows in shards, and return the files."""
        kinds = to_arrow_schema(schema)
        write = partial(_shard, where=self.where / SHARDS, schema=kinds, key=self.steps.key, count=self.count)
        return [Path(name) for (name,) in rows.select(*schema.names).mapInArrow(write, "name string").collect()]

    def known(self, earlier: Sequence[Path], new: Sequence[Path], *, few: bool) -> list[Path]:
        """Write the rows of earlier steps' files that may be causes of new ones in shards, and return the files.

        If the new steps are `few`, these are only those that they name as their causes.
        """
        schema, size = to_arrow_schema(self.steps.known), sum(path.stat().st_size for path in earlier)
        (self.where / SHARDS).mkdir(exist_ok=True)
        share = partial(_known, self.where / SHARDS, schema, self.steps.key, self.count, new if few else None)
        return run_tasks(self.spark, [partial(share, path) for path in earlier], here=size < FEW_BYTES)

    def write(self, new: Sequence[Path], known: Sequence[Path], *, here: bool) -> int:
        """Write steps with their causes to `FOUND`, and those whose cause is not in their saga to `LACKING`: return how many.

        `known` are shards of earlier rows, which may be causes. Guarantee: of a task that was repeated, the rows are there once.
        """
        for name in (FOUND, LACKING):
            (self.where / name).mkdir()
        schemas = [to_arrow_schema(each) for each in (self.steps.before, self.steps.known, self.steps.schema)]
        look_up = partial(_look_up, self.where, self.steps.key, schemas, new, known, self.count)
        written = run_tasks(self.spark, [partial(look_up, number) for number in range(self.count)], here=here)
        for each in written:
            for path in each.paths:
                finished(path)
        rmtree(self.where / SHARDS, ignore_errors=True)  # nothing was new if it is not there
        return sum(each.lacking for each in written)


def _shard(
    batches: Iterable[pa.RecordBatch], where: Path, schema: pa.Schema, key: str, count: int
) -> Iterator[pa.RecordBatch]:
    where.mkdir(exist_ok=True)
    path = where / unfinished()
    with ShardWriter(path, schema, key, count) as writer:
        for batch in batches:
            writer.add(pa.Table.from_batches([batch]).cast(schema))
    yield pa.RecordBatch.from_pydict({"name": [str(path)]})


def _known(where: Path, schema: pa.Schema, key: str, count: int, asking: Sequence[Path] | None, file: Path) -> Path:
    asked = [batch["causation_id"] for path in asking or () for batch in batches(path)]
    wanted, path = pa.chunked_array(asked, pa.string()), where / unfinished()
    with pq.ParquetFile(file) as opened, ShardWriter(path, schema, key, count) as writer:
        for batch in opened.iter_batches(ROWS_AT_ONCE, columns=schema.names):
            rows = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
            writer.add(rows if asking is None else rows.filter(pc.is_in(rows["id"], wanted)))
    return path


def _look_up(  # noqa: PLR0913, PLR0917  what one task is told
    where: Path,
    key: str,
    schemas: Sequence[pa.Schema],
    new: Sequence[Path],
    known: Sequence[Path],
    count: int,
    number: int,
) -> _Written:
    before, earlier, schema = schemas
    rows = with_causes(shard(new, number, count, before), shard(known, number, count, earlier), key)
    rows = rows.select(schema.names).cast(schema)
    lacking, name = lacks_cause_in(rows), unfinished()
    dictionary = [each for each in schema.names if each not in NO_DICTIONARY]
    parts = {FOUND: rows.filter(pc.invert(lacking)), LACKING: rows.filter(lacking)}
    for directory, part in parts.items():
        write_rows([part], schema, where / directory / name, dictionary=dictionary)
    return _Written((where / FOUND / name, where / LACKING / name), parts[LACKING].num_rows)
