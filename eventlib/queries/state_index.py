"""Queryable state: the states of a decider in tables that follow its service, read by key, by range or by index."""

import sqlite3
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

from eventlib.errors import ContractError, EventlibError
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import A_DECIDER, A_LOG, check
from eventlib.model.decider import Decider
from eventlib.model.record import Record, key_text
from eventlib.queries.index_columns import column_of, columns_of, quoted, stored
from eventlib.queries.projection import Projection
from eventlib.queries.projection_file import View
from eventlib.queries.state import task_of
from eventlib.runtime.records import Positions, changelog_key, modules_version
from eventlib.values import from_ms

S = TypeVar("S")
_TABLES = """
CREATE TABLE states (
    _key TEXT PRIMARY KEY, _correlation_id TEXT, _changed_at INTEGER NOT NULL, _state BLOB NOT NULL{columns}
) WITHOUT ROWID;
CREATE TABLE handled (
    topic TEXT, partition INTEGER, next INTEGER NOT NULL, PRIMARY KEY (topic, partition)
) WITHOUT ROWID
"""
_ROW = "_key, _state, _correlation_id, _changed_at"


class StateRow(NamedTuple, Generic[S]):
    """A key and its state, as its service committed it at `changed_at` (UTC), with the saga's correlation id."""

    key: str
    state: S
    correlation_id: str | None
    changed_at: datetime


class StateIndex(Projection, Generic[S]):
    """The states of one decider, on any instance: `async with StateIndex(log, orders, [("customer_id", "opened_at")])`.

    Each of `indexes` names attributes of the state, fields or properties, and serves the queries of `where` that it fits.
    Times are compared in ms, enums by their value. `beside` are views whose tables change in the same transactions as
    the states. `name` is that of the file, by default `<decider>-index`; else as `Projection`.
    A decider without keys has its states under the numbers of its partitions.
    Guarantee: a state is exactly what its service committed; none is older than one that was read here before. When
    the modules of the decider change, the tables are made again from the log.
    A state whose attribute no column can have, such as NaN, is found by its key, and in no index of that attribute; the log says so.
    Cost: the memory of a projection; a query reads the rows that it returns. Raises: WiringError for an attribute that
    the state does not have, or that cannot be compared.
    """

    def __init__(
        self,
        log: EventLog,
        decider: Decider[S],
        indexes: Sequence[Sequence[str]] = (),
        *,
        beside: Sequence[View] = (),
        name: str | None = None,
        path: Path | str | None = None,
    ) -> None:
        check(log, EventLog, "log", A_LOG)
        check(decider, Decider, "decider", A_DECIDER)
        self.decider = decider
        self.service = log.choreography.service_of(decider)
        self.changelog = self.service.changelog.name
        self._inputs = frozenset(topic.name for topic in self.service.inputs)
        self._indexes = [tuple(each) for each in indexes]
        self._columns = columns_of(decider, self._indexes)
        names = ["_key", "_state", "_correlation_id", "_changed_at", *map(quoted, self._columns)]
        updates = ", ".join(f"{each} = excluded.{each}" for each in names[1:])
        self._put = (
            f"INSERT INTO states ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "  # noqa: S608  names that columns_of has checked
            f"ON CONFLICT DO UPDATE SET {updates}"
        )
        super().__init__(log, View.combined(name or f"{decider.name}-index", [*self._own_views(log), *beside]), path)

    def _own_views(self, log: EventLog) -> list[View]:
        """Return the views that an index of this class consists of."""
        del log  # for subclasses
        columns = "".join(f", {quoted(each)}" for each in self._columns)
        tables = ";".join([_TABLES.format(columns=columns), *self._made_indexes()])
        version = modules_version(self.decider.modules)
        return [View("states", [self.changelog], tables, self._changed, version=version)]

    # --- queries

    def get(self, key: str) -> StateRow[S] | None:
        """Return a key's state; None when it has none, or this index has not read it yet (see `current`).

        Raises: ContractError when the state cannot be read; LogUnavailable, LogCorrupt when the file cannot.
        """
        rows = self.rows(f"SELECT {_ROW} FROM states WHERE _key = ?", (key,))  # noqa: S608  columns of this file
        return self._read(rows[0]) if rows else None

    async def current(self, key: str, timeout_s: float) -> StateRow[S] | None:
        """Return a key's state as of all that is on the log now; None when it has none.

        Raises: as `get`; ProjectionBehind when that was not read in time, or something is damaged on the way.
        """
        await self.up_to_date([(self.changelog, self.partition_of(key))], timeout_s)
        return self.get(key)

    def range(self, start: str = "", end: str | None = None, limit: int = 100) -> list[StateRow[S]]:
        """Return states by key, from `start` on, those before `end`. Raises: as `get`."""
        _check_limit(limit)
        before, values = ("", [start]) if end is None else ("AND _key < ?", [start, end])
        question = f"SELECT {_ROW} FROM states WHERE _key >= ? {before} ORDER BY _key LIMIT ?"  # noqa: S608  as above
        return [self._read(row) for row in self.rows(question, (*values, limit))]

    def where(
        self,
        equal: Mapping[str, object] | None = None,
        *,
        order_by: str | None = None,
        descending: bool = False,
        between: tuple[object, object] = (None, None),
        after: tuple[object, str] | None = None,
        limit: int = 100,
    ) -> list[StateRow[S]]:
        """Return the states whose attributes are equal to these, by `order_by` (those that have it), then by key.

        `between` bounds `order_by`: from its first value on, below its second one; None is no bound. `after` is the
        (`order_by`, key) of the last state of the page before.
        Raises: ContractError when no declared index serves this, with the index to declare; else as `get`.
        """
        _check_limit(limit)
        equal = equal or {}
        index = self._index_for(equal, order_by)
        if order_by is None and between != (None, None):
            raise ContractError("between bounds the attribute of order_by: give that, too")
        conditions, values = [f"{quoted(name)} IS ?" for name in equal], [stored(value) for value in equal.values()]
        sort = [] if order_by is None else [quoted(order_by)]
        columns = [*sort, "_key"]
        conditions += [f"{each} IS NOT NULL" for each in sort]
        for sign, bound in zip((">=", "<"), between, strict=True):
            if bound is not None:
                conditions.append(f"{columns[0]} {sign} ?")
                values.append(stored(bound))
        direction, sign = ("DESC", "<") if descending else ("ASC", ">")
        if after is not None:
            conditions.append(f"({', '.join(columns)}) {sign} ({', '.join('?' * len(columns))})")
            values += [stored(after[0]), after[1]] if sort else [after[1]]
        order = ", ".join(f"{each} {direction}" for each in columns)
        question = (
            f"SELECT {_ROW} FROM states INDEXED BY {index} WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT ?"  # noqa: S608  names that columns_of has checked
        )
        return [self._read(row) for row in self.rows(question, (*values, limit))]

    # --- how far it is

    def partition_of(self, key: str) -> int:
        """Return the partition, so the task, that has a key. Raises: ContractError for a decider without keys."""
        return task_of(self.service, self.decider, key)[0]

    def handled(self, topic: str, partition: int) -> int:
        """Return the offset of the service's next input: all before it are decided, and their states are here."""
        rows = self.rows("SELECT next FROM handled WHERE topic = ? AND partition = ?", (topic, partition))
        return int(rows[0][0]) if rows else 0

    async def decided(self, topic: str, partition: int, offset: int, timeout_s: float) -> bool:
        """Wait until the service has decided an input, and what came of it is here; False when it was not in time.

        Where a view beside reads the topic too, it has read that input by then.
        Raises: ContractError for a topic that is no input of the service; what has ended this index for good.
        """
        if topic not in self._inputs:
            raise ContractError(f"topic {topic!r} is no input of {self.service.name}: nothing is decided on it")
        until = monotonic() + timeout_s
        if not await self.until(_task(partition), lambda: self.handled(topic, partition) > offset, timeout_s):
            return False
        return topic not in self.view.inputs or await self.reached(topic, partition, offset, until - monotonic())

    async def backlog(self, topic: str) -> int:
        """Return how many records of an input topic wait for the service, as far as is known here. Raises: LogUnavailable."""
        partitions = range((await self.log.port.topics())[topic].partitions)
        rows = self.rows("SELECT partition, next FROM handled WHERE topic = ?", (topic,))
        handled: dict[int, int] = dict(rows)
        return sum([max(0, await self.log.port.end(topic, p) - handled.get(p, 0)) for p in partitions])

    # --- what each record of the changelog means

    def _changed(self, db: sqlite3.Connection, record: Record, value: Any) -> Iterable[Hashable]:
        about = changelog_key(key_text(record))
        if isinstance(value, Positions):
            rows = [(topic, record.partition, offset) for topic, offset in value.next.items()]
            db.executemany("INSERT OR REPLACE INTO handled VALUES (?, ?, ?)", rows)
            return [_task(record.partition)]
        if (about.kind, about.decider) != ("state", self.decider.name):
            return ()
        key = about.key if self.decider.key is not None else str(record.partition)
        if not record.value:  # forgotten
            db.execute("DELETE FROM states WHERE _key = ?", (key,))
        else:
            # A state that cannot be read is found by its key, where reading it says why.
            columns = [None if value is None else column_of(value, each) for each in self._columns]
            db.execute(self._put, (key, record.value, record.correlation_id, record.timestamp_ms, *columns))
        return [key]

    def _read(self, row: Sequence[Any]) -> StateRow[S]:
        key, state, correlation_id, changed_ms = row
        try:
            return StateRow(key, self.log.codec.decode(self.decider.state, state), correlation_id, from_ms(changed_ms))
        except EventlibError as error:
            raise ContractError(f"the state of {self.decider.name} {key!r} cannot be read: {error}") from error

    def _made_indexes(self) -> list[str]:
        columns = [", ".join([*map(quoted, each), "_key"]) for each in self._indexes]
        return [f"CREATE INDEX states_{n} ON states ({each})" for n, each in enumerate(columns)]

    def _index_for(self, equal: Mapping[str, object], order_by: str | None) -> str:
        """Return the index that serves a query. Raises: ContractError when none does."""
        for number, index in enumerate(self._indexes):
            rest = index[len(equal) :]
            if set(index[: len(equal)]) == set(equal) and rest == (() if order_by is None else (order_by,)):
                return f"states_{number}"
        wanted = (*equal, *(() if order_by is None else (order_by,)))
        if not wanted:
            raise ContractError("where() needs an attribute that is equal, or order_by: range() reads states by key")
        raise ContractError(
            f"no index of {self.view.name} serves this query: declare {wanted!r} in `indexes` "
            f"(there are: {', '.join(map(repr, self._indexes)) or 'none'})"
        )


def _task(partition: int) -> Hashable:
    return "task", partition


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise ContractError(f"limit is {limit}: it is how many states are returned at most, 1 or more")
