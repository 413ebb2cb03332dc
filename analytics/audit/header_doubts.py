"""Which ids and emitters the rules about headers have to look at: those of which numbers tell that something may be wrong.

Nearly none of a correct log is among them. The numbers are made in workers, a column at a time, and shuffled in packs: a row
for each event as a cause, one as an effect, and one for its turn among what its emitter has emitted. Ids and emitters go by
64 bits of a hash: two that share it are both looked at.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from analytics.asking import spans
from analytics.audit.application import Application
from analytics.audit.graph import Graph
from analytics.audit.header_numbers import (
    ANSWER,
    ANY,
    CAUSE,
    EMITTED,
    LONG_AGO,
    NEVER,
    OF_ID,
    OF_TURN,
    HeaderNumbers,
    Rows,
    emitters_of,
)
from analytics.audit.order import InOrder
from analytics.audit.packs import Pack, as_packs, gathered, packed, packs, unpacked
from analytics.audit.routing import Clocks
from analytics.hashing import Hashes, hashes
from analytics.selection import Only

_MOST = 1_000
"""How many ids, or emitters, a query can name."""

_ROWS_OF_A_GROUP = 500_000
_ID, _TURN, _UNCAUSED, _MISPLACED = range(4)  # kinds of doubt

_NUMBERS = (
    "topic", "partition", "at_ms", "key", "id", "type", "source", "subject", "sequence", "correlation_id", "causation_id"
)  # fmt: skip
_NAMES = ("id", "source", "subject", "causation_id")

SEPARATOR = "\x1f"
"""Between the source and the subject of an emitter."""


@dataclass(frozen=True)
class Doubts:
    """What may break a rule: by ids, by sources and subjects (with a separator between), and by events of their own.

    None stands for all, where there are too many.
    """

    ids: Sequence[str] | None
    emitters: Sequence[str] | None
    is_uncaused: bool
    is_misplaced: bool


def doubts_of(spark: SparkSession, url: str, application: Application, graph: Graph, clocks: Clocks) -> Doubts:
    """Return what may break a rule about headers on a log."""
    topics = application.topics
    rows = sum(len(span) for (topic, _), span in spans(url).items() if topic in topics)
    count = max(spark.sparkContext.defaultParallelism, rows // _ROWS_OF_A_GROUP)
    packing = InOrder(_Numbers(application, graph, count), application, clocks)
    numbers = packs(spark, url, application, Only(topics=topics), packing, count, columns=_NUMBERS)
    found = as_packs(gathered(numbers, count)).mapPartitions(_in_doubt).collect()
    ids, emitters = (_few(number for kind, number in found if kind == wanted) for wanted in (_ID, _TURN))
    names = dict[int, set[str]]()
    if ids or emitters:
        named = _Names(ids or set(), emitters or set())
        for _, _, kind, data in packs(spark, url, application, Only(topics=topics), named, 1, columns=_NAMES).collect():
            names.setdefault(kind, set()).update(unpacked(data)["name"].to_pylist())
    kinds = {kind for kind, _ in found}
    return Doubts(
        None if ids is None else sorted(names.get(_ID, ())),
        None if emitters is None else sorted(names.get(_TURN, ())),
        _UNCAUSED in kinds,
        _MISPLACED in kinds,
    )


def _few(numbers: Iterable[int]) -> Set[int] | None:
    found = frozenset(numbers)
    return found if len(found) <= _MOST else None


def _emitters_names(batch: pa.RecordBatch) -> pa.Array:
    source, subject = (batch[name].cast(pa.string()).fill_null("") for name in ("source", "subject"))
    return pc.binary_join_element_wise(source, subject, SEPARATOR)


@dataclass(frozen=True)
class _Numbers:
    """Packs what of records tells of doubts, by kind, in `count` groups."""

    application: Application
    graph: Graph
    count: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Pack]:
        columns = HeaderNumbers(self.application, self.graph)
        for batch in batches:
            is_emitted = columns.is_emitted(batch)
            yield from self._packed(_ID, columns.of_ids(batch, is_emitted), "id")
            yield from self._packed(_TURN, columns.of_turns(batch, is_emitted), "emitter")
            if columns.is_any_uncaused(batch, is_emitted):
                yield (0, _UNCAUSED), b""
            if columns.is_any_misplaced(batch):
                yield (0, _MISPLACED), b""

    def _packed(self, kind: int, rows: Rows, by: str) -> Iterator[Pack]:
        groups = rows[by] % np.uint64(self.count)
        for group in range(self.count):
            yield (group, kind), rows[groups == group].tobytes()


def _in_doubt(packs: Iterable[Pack]) -> Iterator[tuple[int, int]]:
    """Yield what is in doubt among the rows of a group: its kind, and the number of an id or an emitter."""
    of_kind = dict[int, list[bytes]]()
    for (_, kind), data in packs:
        of_kind.setdefault(kind, []).append(data)
    for kind, parts in of_kind.items():
        if kind in _FINDS:
            rows, find = _FINDS[kind]
            found = find(np.frombuffer(b"".join(parts), rows))
            yield from ((kind, number) for number in found[: _MOST + 1].tolist())
        else:
            yield kind, 0


def _doubtful_ids(rows: Rows) -> Hashes:
    if not len(rows):
        return rows["id"]
    rows = rows[np.argsort(rows["id"])]
    first = np.flatnonzero(np.diff(rows["id"], prepend=rows["id"][0] + np.uint64(1)))
    flags, at, saga = rows["is"], rows["at"], rows["saga"]
    is_cause = flags & CAUSE > 0
    causes, answers = (np.add.reduceat(flags & each > 0, first, dtype=np.int64) for each in (CAUSE, ANSWER))
    is_any_emitted = np.bitwise_or.reduceat(flags, first) & EMITTED > 0
    latest_cause = np.maximum.reduceat(np.where(is_cause, at, LONG_AGO), first)
    first_effect = np.minimum.reduceat(np.where(is_cause, NEVER, at), first)
    kinds = np.bitwise_or.reduceat(np.where(is_cause, rows["kinds"], 0), first)
    wanted = np.bitwise_and.reduceat(np.where(is_cause, ANY, rows["kinds"]), first)
    sagas = np.minimum.reduceat(np.where(saga, saga, ~np.uint64(0)), first), np.maximum.reduceat(saga, first)
    is_doubtful = (
        (causes > 1)
        | ((causes == 0) & is_any_emitted)
        | (answers > 1)
        | (latest_cause > first_effect)
        | ((causes > 0) & (wanted & kinds == 0))
        | ((sagas[1] > 0) & (sagas[0] != sagas[1]))
    )
    found: Hashes = rows["id"][first[is_doubtful]]
    return found


def _doubtful_emitters(rows: Rows) -> Hashes:
    rows = rows[np.lexsort((rows["sequence"], rows["at"], rows["emitter"]))]
    emitters, sequences = rows["emitter"], rows["sequence"]
    before = np.concatenate([sequences[:0], [0], sequences[:-1]])[: len(rows)]
    before = np.where(np.diff(emitters, prepend=0) != 0, 0, before)
    is_next = (sequences == before + 1) | (rows["forgets"] & (sequences == 1))
    return np.unique(emitters[~is_next])


_FINDS: Mapping[int, tuple["np.dtype[Any]", Callable[[Rows], Hashes]]] = {
    _ID: (OF_ID, _doubtful_ids),
    _TURN: (OF_TURN, _doubtful_emitters),
}


@dataclass(frozen=True)
class _Names:
    """Packs the names of the ids and emitters of some numbers."""

    ids: Set[int]
    emitters: Set[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Pack]:
        ids, emitters = (np.array(sorted(each), np.uint64) for each in (self.ids, self.emitters))
        for batch in batches:
            for column in ("id", "causation_id"):
                yield from self._packed(_ID, batch[column].filter(pa.array(np.isin(hashes(batch[column]), ids))))
            named = _emitters_names(batch)
            yield from self._packed(_TURN, named.filter(pa.array(np.isin(emitters_of(batch), emitters))))

    def _packed(self, kind: int, names: pa.Array) -> Iterator[Pack]:
        if len(names):
            yield (0, kind), packed(pa.RecordBatch.from_arrays([names], ["name"]))
