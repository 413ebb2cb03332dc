"""The newest record of each key of the services' changelogs, found in workers, a column at a time.

What a task reads is thinned out there, so that little is shuffled: by key, in packs.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import RDD
from pyspark.sql import SparkSession

from analytics.asking import spans
from analytics.audit.application import Application
from analytics.audit.packs import Pack, as_packs, gathered, grouped, packs, unpacked
from analytics.batches import text_array
from analytics.hashing import hashes
from analytics.selection import Only
from eventlib.log.archive.row_groups import column_values
from eventlib.runtime.records import REQUEST, STATE


class Newest(NamedTuple):
    """What of a record tells the status of a log, or a state."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    key: str
    value: bytes | None
    id: str | None


_COLUMNS = Newest._fields
_KEY = _COLUMNS.index("key")
_ROWS_OF_A_GROUP = 500_000


def newest_records(spark: SparkSession, url: str, application: Application, deciders: Collection[str]) -> "RDD[Newest]":
    """Return the newest record of each key, states only of some deciders. Raises: as `analytics.log` does."""
    topics = [service.changelog.name for service in application.choreography.services]
    rows = sum(len(span) for (topic, _), span in spans(url).items() if topic in topics)
    count = max(spark.sparkContext.defaultParallelism, rows // _ROWS_OF_A_GROUP)
    thinned = packs(
        spark, url, application, Only(topics=topics), ByKey(tuple(deciders), count), count, columns=_COLUMNS
    )
    return as_packs(gathered(thinned, count)).mapPartitions(newest_of_all)


@dataclass(frozen=True)
class ByKey:
    """Packs the newest records of each batch in `count` groups by key: all but requests and the states of other deciders."""

    deciders: tuple[str, ...]
    count: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Pack]:
        """Yield the packs of batches of records."""
        for batch in batches:
            rows = batch.set_column(_KEY, "key", text_array(batch["key"]))
            rows = rows.set_column(0, "topic", rows["topic"].cast(pa.string()))
            wanted = [pc.starts_with(rows["key"], f"{STATE}{name}/") for name in self.deciders]
            is_other = pc.or_(pc.starts_with(rows["key"], STATE), pc.starts_with(rows["key"], REQUEST))
            is_wanted = reduce(pc.or_, wanted, pc.invert(is_other))
            rows = _newest(rows.filter(is_wanted))
            yield from grouped(rows, hashes(rows["key"]) % np.uint64(self.count), self.count)


def _newest(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the newest record of each key of a partition."""
    places = np.zeros(rows.num_rows, np.int64)
    for name in ("topic", "partition", "key"):
        coded = rows[name].dictionary_encode()
        _, places = np.unique(places * max(1, len(coded.dictionary)) + coded.indices.to_numpy(), return_inverse=True)
    in_order = np.lexsort((rows["offset"].to_numpy(), places))
    is_last = np.diff(places[in_order], append=-1) != 0
    return rows.take(pa.array(in_order[is_last]))


def newest_of_all(packs: Iterable[Pack]) -> Iterator[Newest]:
    """Yield the newest record of each key among all of a group's packs."""
    parts = [unpacked(data) for _, data in packs]
    if parts:
        columns: list[list[Any]] = [column_values(column) for column in _newest(pa.concat_batches(parts)).columns]
        yield from starmap(Newest, zip(*columns, strict=True))
