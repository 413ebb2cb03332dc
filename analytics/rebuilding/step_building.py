"""Writes the steps of sagas of one version: with causes that are in their saga, and then those few that are elsewhere."""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.rebuilding.facts import Facts
from analytics.rebuilding.scanning import FEW_RECORDS
from analytics.rebuilding.staged_log import OTHERS, StagedLog
from analytics.rebuilding.step_files import FOUND, LACKING, StepFiles
from analytics.rebuilding.steps import CAUSES, STEPS, lacks_cause
from analytics.selection import Only

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
