"""The live state: the states in local stores and changelogs, as rows beside those of the log.

They are copied before the log is read, so that the log has all their inputs. Each task's states have the time of the
last transaction in them: the history is folded up to there to compare.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from analytics.audit.application import Application
from analytics.audit.routing import ROUTED, Routes, by_value
from analytics.audit.rows import RECORD, batches_of, record_columns
from analytics.log import log
from analytics.reconciling.difference import Difference
from eventlib.config.settings import runtime_config
from eventlib.eventlog import EventLog
from eventlib.model.record import Record
from eventlib.runtime.records import DUE, POSITION_KEY, STATE, Positions, unpack
from eventlib.state.inspect import StoreSnapshot, snapshots_in

STORE, CHANGELOG = "store", "changelog"


def take_down(
    spark: SparkSession, url: str, application: Application, place: Path
) -> tuple[DataFrame, list[Difference]]:
    """Copy all live states as they are now, and return them as rows of `ROUTED`: each `source` is where it is, `subject` up to where that is complete.

    With the faults known already: a store or a changelog without a readable position.
    """
    stores, changelog = place / "stores.parquet", place / "changelogs"
    lost, routes = list[Difference](), Routes(application.choreography)
    with application.opened(url) as opened:
        services = {service.name: service for service in routes.services}
        found = (
            look for look in snapshots_in(url, runtime_config().state_dir, POSITION_KEY) if look.service in services
        )
        with pq.ParquetWriter(stores, to_arrow_schema(ROUTED)) as writer:
            for look in found:
                if look.log_id == opened.port.log_id and look.checkpoint:
                    task = routes.number(services[look.service], look.partition)
                    for batch in batches_of(_of_store(look, task, opened, lost), ROUTED):
                        writer.write_batch(batch)
        changelogs(spark, url, application).select(*record_columns()).write.parquet(str(changelog))
        newest = spark.read.schema(RECORD).parquet(str(changelog))
        live = _of_changelogs(spark, newest, opened, routes, lost)
    return live.unionAll(spark.read.schema(ROUTED).parquet(str(stores))), lost


def _of_store(look: StoreSnapshot, task: int, opened: EventLog, lost: list[Difference]) -> Iterator[tuple[Any, ...]]:
    until = f"{look.service}.changelog/{look.partition}:{look.checkpoint}"
    at_ms = None if look.position is None else _time_of(_unpacked(POSITION_KEY, look.position).value, opened)
    if at_ms is None:
        lost.append(_lost(STORE, f"{look.service}/{look.partition}", look.position, until))
        return
    for key, stored in look.values:
        if key.startswith(STATE):
            yield _row(_unpacked(key, stored), STORE, until, at_ms, task)
        elif key == POSITION_KEY or key.startswith(DUE):
            yield _row(Record("", 0, -1, 0, key.encode(), b""), STORE, until, at_ms, task)


def _row(record: Record, where: str, until: str, at_ms: int, task: int) -> tuple[Any, ...]:
    headers = [{"name": name, "value": value} for name, value in record.headers]
    values: Iterable[Any] = (record.value, record.id, record.type, where, until, *record.astuple()[10:14], headers)
    return ("", 0, -1, at_ms, (record.key or b"").decode(), *values, task)


def _of_changelogs(
    spark: SparkSession, newest: DataFrame, opened: EventLog, routes: Routes, lost: list[Difference]
) -> DataFrame:
    services = {service.changelog.name: service for service in routes.services}
    known = newest.filter(f.col("topic").isin(*services))
    is_position = f.col("key") == POSITION_KEY
    is_state = f.col("key").startswith(STATE) & f.col("value").isNotNull()
    tasks = known.groupBy("topic", "partition").agg(
        f.max(f.when(is_position, f.col("value"))), f.max("offset") + 1, f.max(is_state)
    )
    times = list[tuple[str, int, int, str]]()
    for topic, partition, position, end, has_states in tasks.collect():
        at_ms, until = _time_of(position, opened), f"{topic}/{partition}:{end}"
        if at_ms is not None:
            times.append((topic, partition, at_ms, until))
        elif has_states:
            lost.append(_lost(CHANGELOG, f"{services[topic].name}/{partition}", position, until))
    bounds = spark.createDataFrame(times, "topic string, partition int, time bigint, until string")
    changed = {"topic": f.lit(""), "at_ms": f.col("time"), "source": f.lit(CHANGELOG), "subject": f.col("until")}
    columns = [changed.get(name, f.col(name)).alias(name) for name in RECORD.names]
    numbers = {topic: routes.number(service, f.col("partition")) for topic, service in services.items()}
    live = known.filter(is_position | is_state).join(f.broadcast(bounds), ["topic", "partition"])
    return live.select(*columns, by_value("topic", numbers).alias("task"))


def _lost(where: str, task: str, position: bytes | None, until: str) -> Difference:
    has = None if position is None else "cannot be read"
    return Difference(where, task, POSITION_KEY, "", has, "how far it is", until)


def _unpacked(key: str, stored: bytes) -> Record:
    """Return the record that a store keeps; one with damaged attributes as its bytes, which are no state."""
    try:
        return unpack(key, stored)
    except (ValueError, TypeError):
        return Record("", 0, -1, 0, key.encode(), stored or b"?")


def _time_of(position: bytes | None, opened: EventLog) -> int | None:
    """Return the time of a task's last transaction, from its encoded position (ms); None when it cannot be read."""
    if position is None:
        return None
    try:
        return opened.codec.decode(Positions, bytes(position)).at_ms
    except Exception:  # noqa: BLE001  whatever damaged bytes do to their reader
        return None


def changelogs(spark: SparkSession, url: str, application: Application) -> DataFrame:
    """Return the newest record of each key of the services' changelogs."""
    topics = [service.changelog.name for service in application.choreography.services]
    kept = log(spark, url, topics=topics)
    newest = kept.groupBy("topic", "partition", "key").agg(f.max_by(f.struct(*kept.columns), "offset").alias("newest"))
    found: DataFrame = newest.select("newest.*")
    return found
