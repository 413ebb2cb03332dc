"""The recorded past as rows for the workers that play it: by independent parts of the work, in the order of time."""

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from analytics.audit.application import Application
from analytics.audit.order import in_order
from analytics.audit.routing import ROUTED, Clocks, Routes, by_value
from analytics.audit.rows import batches_of, record_columns, records_of
from analytics.log import log
from analytics.whatif.components import with_parts
from eventlib.model.record import Record
from eventlib.runtime.records import JournalEntry

ANNOUNCED, RECORDED, JOURNALLED = 0, 1, 2
"""What a row is: a deadline that passes later (at the time when it falls due), a record of a topic, a journal entry."""

_OF_TASKS = t.StructType([*ROUTED.fields, t.StructField("role", t.IntegerType())])
PAST = t.StructType([
    *_OF_TASKS.fields,
    t.StructField("part", t.IntegerType()),
    t.StructField("order_ms", t.LongType()),
])  # fmt: skip
"""A record with its role, its task when it is of a journal, the part of the work that it belongs to, and what orders it."""


def past(spark: SparkSession, url: str, application: Application, parts: int, clocks: Clocks) -> tuple[DataFrame, int]:
    """Return the log as rows of `PAST`, part by part in the order of time, and how many parts there are, `parts` at most.

    `clocks` are those of `Routes.shared_clocks`.
    """
    routes = Routes(application.choreography)
    records = log(spark, url, topics=routes.topics).select(*record_columns())
    tasks = {service.journal.name: routes.number(service, f.col("partition")) for service in routes.services}
    journals = log(spark, url, topics=routes.journals).select(*record_columns())
    journals = journals.withColumns({"task": by_value("topic", tasks), "role": f.lit(JOURNALLED)})
    with_deadlines = journals.where(f.contains(f.col("value"), f.lit(b"deadline")))
    announced = with_deadlines.mapInArrow(partial(_announced, application=application, url=url), _OF_TASKS)
    split, count = with_parts(records, application, parts)
    everywhere = f.explode(f.sequence(f.lit(0), f.lit(count - 1))).alias("part")
    recorded = split.withColumns({"task": f.lit(-1), "role": f.lit(RECORDED)}).select(*PAST.names[:-1])
    rows = recorded.unionAll(journals.unionAll(announced).select("*", everywhere))
    rows = in_order(rows.withColumn("order_ms", f.col("at_ms")), application, clocks, "order_ms")
    placed = rows.repartition(count, "part") if count > 1 else rows.coalesce(1)
    return placed.sortWithinPartitions(
        "part", "order_ms", "at_ms", "role", "task", "topic", "partition", "offset"
    ), count


def last_ms(spark: SparkSession, url: str, application: Application, clocks: Clocks) -> int:
    """Return the newest time in the journals: until then, the recorded past is known."""
    journals = in_order(log(spark, url, topics=Routes(application.choreography).journals), application, clocks)
    found = journals.agg(f.max(f.unix_millis("recorded_at"))).collect()[0][0]
    return int(found or 0)


def _announced(batches: Iterable[pa.RecordBatch], application: Application, url: str) -> Iterator[pa.RecordBatch]:
    """Yield a row for each deadline that passed, at the time when it fell due."""
    with application.opened(url) as opened:
        for batch in batches:
            rows = list[tuple[object, ...]]()
            for record, _, task, _ in records_of([batch]):
                entry = opened.codec.decode(JournalEntry, record.value or b"")
                for step in entry.steps:
                    if step.kind == "deadline":
                        rows.append(
                            (*_announcement(record, step.first, step.decider, step.key, step.detail), task, ANNOUNCED)
                        )
            yield from batches_of(rows, _OF_TASKS)


def _announcement(record: Record, due_ms: int, decider: str, key: str, name: str) -> tuple[object, ...]:
    place = record.topic, record.partition, record.offset
    return (*place, due_ms, key, b"", None, name, decider, key, None, None, None, None, [])
