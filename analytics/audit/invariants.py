"""Checks the invariants that a choreography declares on its log: events grouped by the key of each invariant.

Events are shuffled by saga first, decoded once, and ordered by their causes there. Under the key that ends a saga, such as an
order's, all events of a saga are folded at once, and go on as one row: it is final unless another saga has the key, too.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.audit.application import Application
from analytics.audit.finding import FINDING, Rule
from analytics.audit.key_checking import KeyChecker
from analytics.audit.key_rows import LATEST, ROW, Added, with_columns
from analytics.audit.rows import findings, record_columns, records_of
from analytics.audit.saga_events import SagaEvents, whole_sagas
from analytics.audit.shares import make_ready
from analytics.audit.status import InFlight, LogStatus
from eventlib.invariants import judged_by_events
from eventlib.log.record import key_text
from eventlib.model.choreography import Choreography
from eventlib.model.decider import Decider
from eventlib.runtime.records import STATE


def invariant_rules(choreography: Choreography) -> list[Rule]:
    """Return the invariants as rules."""
    return [Rule(each.name, "error", each.sentence) for each in judged_by_events(choreography.invariants)]


def invariant_findings(events: DataFrame, newest: DataFrame, check: "InvariantCheck") -> DataFrame:
    """Return the invariants that a log violates; `newest` are its changelogs' newest records."""
    records = events.select(*record_columns()).repartition("correlation_id").sortWithinPartitions("correlation_id")
    unfolded = records.mapInArrow(partial(_unfolded, check=check), ROW)
    states = newest.filter(f.col("key").startswith(STATE)).select(*record_columns())
    known = states.withColumn("at_ms", f.lit(_FOR_EVER)).mapInArrow(partial(_states, check=check), ROW)
    by_key = unfolded.unionAll(known).repartition("field", "about")
    # Spark compares the first number without reading the rows, all of which have one of a few fields.
    first = f.xxhash64("field", "about")
    in_order = by_key.sortWithinPartitions(first, "field", "about", "at_ms", "depth", "topic", "partition", "offset")
    return in_order.mapInArrow(partial(_folded, check=check), FINDING)


_FOR_EVER = 1 << 62  # the time of a decider's state: after all its events


class InvariantCheck:
    """What workers need: the log's URL, its application, and its status."""

    def __init__(self, application: Application, url: str, status: LogStatus) -> None:
        self.application = application
        self.url = url
        self.status = status


def _unfolded(batches: Iterable[pa.RecordBatch], check: InvariantCheck) -> Iterator[pa.RecordBatch]:
    """Yield the rows of whole sagas for each key that an invariant is about."""
    make_ready()
    with check.application.opened(check.url) as log:
        checker = KeyChecker(check.application, log)
        sagas = SagaEvents(checker, InFlight(check.application, check.status), log)
        for whole in whole_sagas(batches):
            yield from with_columns(whole, sagas.rows([record for record, _ in records_of([whole])]))


def _states(batches: Iterable[pa.RecordBatch], check: InvariantCheck) -> Iterator[pa.RecordBatch]:
    """Yield the states of deciders that an invariant is about, after all events of their keys."""
    judged = {s.name: s for each in judged_by_events(check.application.choreography.invariants) for s in each.sources}

    def unfolded(batch: pa.RecordBatch) -> Iterator[Added]:
        for i, (record, _) in enumerate(records_of([batch])):
            decider, _, key = key_text(record).removeprefix(STATE).partition("/")
            source = judged.get(decider)
            if isinstance(source, Decider) and record.value:
                yield Added(i, LATEST, source.key or "", key)

    for batch in batches:
        yield from with_columns(batch, unfolded(batch))


_KEY = itemgetter(3, 4)  # of a row: a record, its time, and the columns of `ROW` after a record's


def _folded(batches: Iterable[pa.RecordBatch], check: InvariantCheck) -> Iterator[pa.RecordBatch]:
    """Yield the violations of the invariants, key by key."""
    make_ready()
    with check.application.opened(check.url) as log:
        checker = KeyChecker(check.application, log)
        keyed = groupby(records_of(batches), key=_KEY)
        yield from findings(each for (field, key), rows in keyed for each in checker.key(field, key, rows))
