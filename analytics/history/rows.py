"""The rows of a fold, on their way from Python to Spark: one column for each table, of which each batch fills one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from analytics.columns import Convert, as_it_is, value_of
from analytics.history.tables import deciders_of, shown_fields, staged_of
from eventlib.model.choreography import Choreography
from eventlib.model.schema.derive import record_of
from eventlib.values import snake_case

_AT_ONCE = 4_096

_HEAD: dict[str, t.DataType] = {
    "table": t.StringType(),
    "open": t.BooleanType(),
    "task": t.IntegerType(),
    "kind": t.StringType(),
    "name": t.StringType(),
    "carried": t.BinaryType(),
}


def staged_schema(choreography: Choreography) -> t.StructType:
    """Return the columns of a fold's rows: whose they are, what is carried on, and one of each table."""
    head = [t.StructField(*each) for each in _HEAD.items()]
    return t.StructType([*head, *(t.StructField(*each) for each in staged_of(choreography).items())])


class StagedRows:
    """Collects rows by table, and gives them back as batches of `staged_schema`.

    A row of a state's table is (key, changed_by, changed_at, partition, valid_from, valid_to, set_by, removed, state).
    """

    def __init__(self, choreography: Choreography) -> None:
        self._schema = to_arrow_schema(staged_schema(choreography))
        self._builders: dict[str, _Build] = {
            name: _plain_builder(struct) for name, struct in staged_of(choreography).items()
        }
        for decider in deciders_of(choreography):
            name = f"state_{snake_case(decider.name)}"
            nodes = {each.name: each.node for each in record_of(decider.state).fields}
            shown = [
                (attrgetter(field), value_of(nodes[field])) if is_shown else None
                for field, is_shown in shown_fields(decider)
            ]
            self._builders[name] = _state_builder(staged_of(choreography)[name], shown)
        self._settled: dict[str, list[tuple[Any, ...]]] = {name: [] for name in self._builders}
        self._full: list[pa.RecordBatch] = []

    def settle(self, table: str, row: tuple[Any, ...]) -> None:
        """Add a row that stays as it is."""
        rows = self._settled[table]
        rows.append(row)
        if len(rows) == _AT_ONCE:
            self._full.append(self._batch(table, rows))
            rows.clear()

    def full(self) -> list[pa.RecordBatch]:
        """Return the batches that are full, and forget them."""
        found, self._full = self._full, []
        return found

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the settled rows that are left."""
        yield from self.full()
        for table, rows in self._settled.items():
            if rows:
                yield self._batch(table, rows)
                rows.clear()

    def opened(
        self, table: str, task: int, kind: str, name: str, rows: Iterable[tuple[tuple[Any, ...] | None, bytes | None]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows that are still open (None: there is only something to be carried), each with what is carried on (None: nothing)."""
        shown, hidden = list[tuple[Any, ...]](), list[bytes | None]()
        carried = list[bytes | None]()
        for row, packed in rows:
            if row is None:
                hidden.append(packed)
                continue
            shown.append(row)
            carried.append(packed)
            if len(shown) == _AT_ONCE:
                yield self._batch(table, shown, (task, kind, name, carried))
                shown, carried = [], []
        if shown:
            yield self._batch(table, shown, (task, kind, name, carried))
        if hidden:
            yield self._batch("", hidden, (task, kind, name, hidden))

    def _batch(
        self, table: str, rows: Sequence[Any], of: tuple[int, str, str, Sequence[bytes | None]] | None = None
    ) -> pa.RecordBatch:
        count = len(rows)
        task, kind, name, carried = of or (None, None, None, None)
        head = (table, of is not None, task, kind, name)
        columns = [_repeated(value, self._schema.field(i).type, count) for i, value in enumerate(head)]
        columns.append(_nulls(pa.binary(), count) if carried is None else pa.array(carried, pa.binary()))
        for field in [*self._schema][len(_HEAD) :]:
            own = field.name == table
            columns.append(self._builders[table](rows) if own else _nulls(field.type, count))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


_Build = Callable[[Sequence[Any]], pa.Array]


def _plain_builder(struct: t.StructType) -> _Build:
    kinds = [to_arrow_type(each.dataType) for each in struct.fields]

    def build(rows: Sequence[Any]) -> pa.Array:
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
        return pa.StructArray.from_arrays(columns, struct.names)

    return build


def _state_builder(struct: t.StructType, shown: Sequence[tuple[Convert, Convert] | None]) -> _Build:
    kinds = [to_arrow_type(each.dataType) for each in struct.fields]

    def build(rows: Sequence[Any]) -> pa.Array:
        *plain, states = zip(*rows, strict=True)
        columns = [pa.array(column, kind) for column, kind in zip(plain, kinds, strict=False)]
        for each, kind in zip(shown, kinds[len(plain) :], strict=True):
            if each is None:
                columns.append(pa.nulls(len(states), kind))
            else:
                get, convert = each
                values = map(get, states)
                columns.append(pa.array([*(values if convert is as_it_is else map(convert, values))], kind))
        return pa.StructArray.from_arrays(columns, struct.names)

    return build


def _repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    return _nulls(kind, count) if value is None else pa.repeat(pa.scalar(value, kind), count)


def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    return _kept_nulls(kind, count) if count == _AT_ONCE else pa.nulls(count, kind)


@cache
def _kept_nulls(kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind)
