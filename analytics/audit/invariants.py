"""Checks the invariants that a choreography declares on its log: events grouped by the key of each invariant.

Events are shuffled by saga first, and ordered by their causes there; those of a saga for one key go on as one row. Under
the key that ends a saga, such as an order's, they are folded there already: that is final unless another saga has the key, too.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark import RDD, StorageLevel
from pyspark.sql import DataFrame, SparkSession

from analytics.asking import spans
from analytics.audit.application import Application
from analytics.audit.finding import FINDING, Finding, Rule
from analytics.audit.key_checking import KeyChecker
from analytics.audit.key_rows import FOR_EVER, LATEST, Row
from analytics.audit.newest import Newest
from analytics.audit.order import InOrder
from analytics.audit.packed_events import KeyRow
from analytics.audit.packed_events import packed as packed_events
from analytics.audit.packs import Pack, as_packs, gathered, grouped, in_order, packs, unpacked
from analytics.audit.routing import Clocks
from analytics.audit.rows import columns_of, records_of, whole
from analytics.audit.saga_events import SagaEvents
from analytics.audit.status import InFlight, LogStatus
from analytics.hashing import hashes
from analytics.selection import Only
from analytics.task_pass import make_ready
from eventlib.invariants import Fold, judged_by_events
from eventlib.model.choreography import Choreography
from eventlib.model.decider import Decider
from eventlib.model.record import Record
from eventlib.runtime.records import changelog_key

_ROWS_OF_A_GROUP = 250_000
_AT_ONCE = 50_000  # rows, of which those of a key go on together
_MADE_AT_ONCE = 1_000  # records, so that those who use them find them in the processor's caches


def invariant_rules(choreography: Choreography) -> list[Rule]:
    """Return the invariants as rules."""
    return [Rule(each.name, "error", each.sentence) for each in judged_by_events(choreography.invariants)]


def judged_deciders(choreography: Choreography) -> Mapping[str, Decider[Any]]:
    """Return the deciders whose states an invariant is about, by name."""
    sources = [source for each in judged_by_events(choreography.invariants) for source in each.sources]
    return {source.name: source for source in sources if isinstance(source, Decider)}


def _takes_meta(choreography: Choreography) -> bool:
    sources = [source for each in judged_by_events(choreography.invariants) for source in each.sources]
    return any(source.wants_meta for source in sources if isinstance(source, Fold))


def invariant_findings(spark: SparkSession, url: str, newest: "RDD[Newest]", check: "InvariantCheck") -> DataFrame:
    """Return the invariants that a log violates; `newest` are its changelogs' newest records."""
    application, topics = check.application, check.application.topics
    rows = sum(len(span) for (topic, _), span in spans(url).items() if topic in topics)
    count = max(2 * spark.sparkContext.defaultParallelism, rows // _ROWS_OF_A_GROUP)
    takes_meta = _takes_meta(application.choreography)
    columns = columns_of(takes_meta=takes_meta)
    packing = InOrder(_BySaga(count), application, check.clocks)
    by_saga = packs(spark, url, application, Only(topics=topics), packing, count, columns=columns)
    records = as_packs(gathered(by_saga, count))

    def found(check: "InvariantCheck") -> "RDD[Finding | Row]":
        of_sagas = records.mapPartitions(partial(_of_sagas, check=check))
        by_key = of_sagas.union(newest.mapPartitions(partial(_states, check=check)))
        return in_order(by_key.keyBy(place_of), count, _hash_of_key).mapPartitions(partial(folded, check=check))

    first = found(check).persist(StorageLevel.DISK_ONLY)
    shared = [row for row in first.filter(_is_row).collect() if isinstance(row, Row)]
    findings = first.filter(_is_finding)
    if shared:
        keys, sagas = frozenset(row.about for row in shared), frozenset(row.saga for row in shared)
        findings = findings.union(found(replace(check, shared=keys, sagas=sagas)))
    return spark.createDataFrame(findings, FINDING)


def _is_row(found: Finding | Row) -> bool:
    return isinstance(found, Row)


def _is_finding(found: Finding | Row) -> bool:
    return isinstance(found, Finding)


@dataclass(frozen=True)
class InvariantCheck:
    """What workers need: the log's URL, its application, its status, and the clocks that order its events.

    `shared` are the keys that several sagas share, of the field that a saga ends under, and `sagas` these; None at first.
    """

    application: Application
    url: str
    status: LogStatus
    clocks: Clocks = field(default_factory=dict)
    shared: frozenset[str] | None = None
    sagas: frozenset[str | None] = frozenset()


@dataclass(frozen=True)
class _BySaga:
    """Packs records in `count` groups of whole sagas."""

    count: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Pack]:
        for batch in batches:
            yield from grouped(batch, hashes(batch["correlation_id"]) % np.uint64(self.count), self.count)


def place_of(row: Row) -> tuple[Any, ...]:
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
        sagas = SagaEvents(checker, InFlight(check.application, check.status), log, check.shared)
        rows = whole(pa.concat_batches(parts))
        if check.shared is not None:
            wanted = hashes(pa.array(sorted(each for each in check.sagas if each), pa.string()))
            is_wanted = np.isin(
                hashes(rows["correlation_id"]), [*wanted.tolist(), *([0] if None in check.sagas else ())]
            )
            rows = rows.filter(pa.array(is_wanted))
        for some in _whole_sagas(rows):
            few = (some.slice(first, _MADE_AT_ONCE) for first in range(0, some.num_rows, _MADE_AT_ONCE))
            yield from sagas.rows(record for record, _ in records_of(few))


def _whole_sagas(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield rows saga by saga, by the first event of each, so many at a time that no saga is split."""
    sagas = hashes(rows["correlation_id"])
    by_saga = np.argsort(sagas, kind="stable")
    starts = np.flatnonzero(np.diff(sagas[by_saga], prepend=~sagas[by_saga[:1]]))
    if not len(starts):
        return
    oldest = np.minimum.reduceat(rows["at_ms"].to_numpy()[by_saga], starts)
    begun = np.repeat(oldest, np.diff(starts, append=len(sagas)))
    by_saga = by_saga[np.lexsort((sagas[by_saga], begun))]
    ends = np.flatnonzero(np.diff(sagas[by_saga])) + 1
    first = 0
    for end in [*ends[np.flatnonzero(np.diff(ends // _AT_ONCE)) + 1].tolist(), len(sagas)]:
        yield rows.take(pa.array(by_saga[first:end]))
        first = end


def _states(rows: Iterable[Newest], check: InvariantCheck) -> Iterator[Row]:
    """Yield the states of deciders that an invariant is about, after all events of their keys."""
    judged = judged_deciders(check.application.choreography)
    shared, story = check.shared, check.application.story_field
    for topic, partition, offset, at_ms, key, value, event_id in rows:
        kind, decider, about, _ = changelog_key(key)
        source = judged.get(decider) if kind == "state" else None
        if source is not None and value and (shared is None or (source.key == story and about in shared)):
            record = Record(topic, partition, offset, at_ms, key.encode(), value, event_id)
            state = packed_events([KeyRow(record, LATEST, "", in_flight=False)])
            yield Row(FOR_EVER, LATEST, topic, partition, offset, source.key or "", about, None, None, state)


def folded(rows: Iterable[tuple[Any, Row]], check: InvariantCheck) -> Iterator[Finding | Row]:
    """Yield the violations of the invariants, key by key; of a key that several sagas share, their rows, if they have no events."""
    make_ready()
    with check.application.opened(check.url) as log:
        checker = KeyChecker(check.application, log)
        for (field, about), of_key in groupby((row for _, row in rows), key=attrgetter("field", "about")):
            if field == checker.story and check.shared is None:
                given = [*of_key]  # a row for each saga
                of_sagas = [row for row in given if row.depth != LATEST]
                if len(of_sagas) > 1 and not all(row.events for row in of_sagas):
                    yield from (row._replace(folded=None) for row in of_sagas)
                else:
                    yield from checker.key(field, about, given)
            else:
                yield from checker.key(field, about, of_key)
