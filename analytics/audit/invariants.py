"""Checks the invariants that a choreography declares on its log: events grouped by the key of each invariant.

Events are shuffled by saga first, and ordered by their causes there; those of a saga for one key go on as one row. Under
the key that ends a saga, such as an order's, they are folded there already: that is final unless another saga has the key, too.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from analytics.asking import spans
from analytics.audit.application import Application
from analytics.audit.finding import FINDING, Finding, Rule
from analytics.audit.key_checking import KeyChecker, KeyRow
from analytics.audit.key_checking import packed as packed_events
from analytics.audit.key_rows import FOR_EVER, LATEST, Row
from analytics.audit.packs import Pack, in_order, packed, packs, unpacked
from analytics.audit.rows import RECORD, record_columns, records_of
from analytics.audit.saga_events import SagaEvents
from analytics.audit.shares import make_ready
from analytics.audit.status import InFlight, LogStatus
from analytics.hashing import hashes
from eventlib.invariants import judged_by_events
from eventlib.log.record import Record
from eventlib.model.choreography import Choreography
from eventlib.model.decider import Decider
from eventlib.runtime.records import STATE

_ROWS_OF_A_GROUP = 250_000
_AT_ONCE = 20_000  # rows
_OF_STATES = RECORD.names.index("id") + 1  # of a record's fields


def invariant_rules(choreography: Choreography) -> list[Rule]:
    """Return the invariants as rules."""
    return [Rule(each.name, "error", each.sentence) for each in judged_by_events(choreography.invariants)]


def judged_deciders(choreography: Choreography) -> Mapping[str, Decider[Any]]:
    """Return the deciders whose states an invariant is about, by name."""
    sources = [source for each in judged_by_events(choreography.invariants) for source in each.sources]
    return {source.name: source for source in sources if isinstance(source, Decider)}


def invariant_findings(spark: SparkSession, url: str, newest: DataFrame, check: "InvariantCheck") -> DataFrame:
    """Return the invariants that a log violates; `newest` are its changelogs' newest records."""
    application = check.application
    rows = sum(len(span) for (topic, _), span in spans(url).items() if topic in application.topics)
    count = max(2 * spark.sparkContext.defaultParallelism, rows // _ROWS_OF_A_GROUP)
    records = packs(spark, url, application, application.topics, _BySaga(count))
    of_sagas = records.partitionBy(count, _group_of).mapPartitions(partial(_of_sagas, check=check))
    states = newest.filter(f.col("key").startswith(STATE)).select(*record_columns()[:_OF_STATES])
    by_key = of_sagas.union(states.rdd.mapPartitions(partial(_states, check=check)))
    found = in_order(by_key.keyBy(_place_of), count, _hash_of_key).mapPartitions(partial(_folded, check=check))
    return spark.createDataFrame(found, FINDING)


class InvariantCheck:
    """What workers need: the log's URL, its application, and its status."""

    def __init__(self, application: Application, url: str, status: LogStatus) -> None:
        self.application = application
        self.url = url
        self.status = status


@dataclass(frozen=True)
class _BySaga:
    """Packs records in `count` groups of whole sagas."""

    count: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Pack]:
        for batch in batches:
            groups = hashes(batch["correlation_id"]) % np.uint64(self.count)
            by_group = np.argsort(groups, kind="stable")
            ends = np.searchsorted(groups[by_group], np.arange(self.count + 1, dtype=np.uint64))
            rows = batch.take(pa.array(by_group))
            for group, (first, end) in enumerate(pairwise(ends.tolist())):
                if first < end:
                    yield (group, 0), packed(rows.slice(first, end - first))


def _group_of(place: tuple[int, int]) -> int:
    return place[0]


def _place_of(row: Row) -> tuple[Any, ...]:
    """Return what a key's rows go by: the key, and the order of the first event of each."""
    return row.field, row.about, row.at_ms, row.depth, row.topic, row.partition, row.offset


def _hash_of_key(place: tuple[Any, ...]) -> int:
    return crc32(place[1].encode())


def _of_sagas(packs: Iterable[Pack], check: InvariantCheck) -> Iterator[Row]:
    """Yield the rows of whole sagas for each key that an invariant is about."""
    parts = [unpacked(data) for _, data in packs]
    if not parts:
        return
    make_ready()
    with check.application.opened(check.url) as log:
        checker = KeyChecker(check.application, log)
        sagas = SagaEvents(checker, InFlight(check.application, check.status), log)
        for whole in _whole_sagas(pa.concat_batches(parts)):
            yield from sagas.rows([record for record, _ in records_of([whole])])


def _whole_sagas(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield rows saga by saga, so many at a time that no saga is split."""
    sagas = hashes(rows["correlation_id"])
    by_saga = np.argsort(sagas, kind="stable")
    ends = np.flatnonzero(np.diff(sagas[by_saga])) + 1
    first = 0
    for end in [*ends[np.flatnonzero(np.diff(ends // _AT_ONCE)) + 1].tolist(), len(sagas)]:
        yield rows.take(pa.array(by_saga[first:end]))
        first = end


def _states(rows: Iterable[Any], check: InvariantCheck) -> Iterator[Row]:
    """Yield the states of deciders that an invariant is about, after all events of their keys."""
    judged = judged_deciders(check.application.choreography)
    for topic, partition, offset, at_ms, key, value, event_id in rows:
        decider, _, about = key.removeprefix(STATE).partition("/")
        source = judged.get(decider)
        if source is not None and value:
            record = Record(topic, partition, offset, at_ms, key.encode(), bytes(value), event_id)
            state = packed_events([KeyRow(record, LATEST, "", in_flight=False)])
            yield Row(FOR_EVER, LATEST, topic, partition, offset, source.key or "", about, None, state)


def _folded(rows: Iterable[tuple[Any, Row]], check: InvariantCheck) -> Iterator[Finding]:
    """Yield the violations of the invariants, key by key."""
    make_ready()
    with check.application.opened(check.url) as log:
        checker = KeyChecker(check.application, log)
        for (field, about), of_key in groupby((row for _, row in rows), key=attrgetter("field", "about")):
            yield from checker.key(field, about, of_key)
