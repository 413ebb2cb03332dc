"""The states of a decider, and beside them every event of each key's saga."""

import sqlite3
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from pydantic_core import from_json, to_json

from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record, key_text
from eventlib.queries.projection_file import View
from eventlib.queries.state_index import StateIndex
from eventlib.runtime.records import Positions

S = TypeVar("S")
_CHUNK = 500
_DIGITS = 9
WORK = "http-work"
"""The header of a request that costs its service more than a small one: how many times as much."""
_TABLES = """
CREATE TABLE events (
    number INTEGER PRIMARY KEY, saga TEXT,
    topic TEXT NOT NULL, partition INTEGER NOT NULL, "offset" INTEGER NOT NULL, recorded_at INTEGER NOT NULL,
    key BLOB, value BLOB, id TEXT, type TEXT, source TEXT, subject TEXT, sequence INTEGER,
    correlation_id TEXT, causation_id TEXT, headers TEXT
);
CREATE INDEX events_of_saga ON events (saga) WHERE saga IS NOT NULL;
CREATE INDEX events_beside ON events (correlation_id) WHERE saga IS NULL;
CREATE TABLE waiting_work (
    topic TEXT, partition INTEGER, "offset" INTEGER, work INTEGER NOT NULL, PRIMARY KEY (topic, partition, "offset")
) WITHOUT ROWID
"""
_ROW = """number, topic, partition, "offset", recorded_at, key, value, id, type, source, subject, sequence, correlation_id,
causation_id, headers"""
_OF_SAGA = f"""
SELECT {_ROW} FROM events WHERE saga = ?1 AND number > ?2
UNION ALL
SELECT {_ROW} FROM events WHERE saga IS NULL AND number > ?2
AND correlation_id IN (SELECT coalesce(correlation_id, id) FROM events WHERE saga = ?1)
ORDER BY number
"""  # noqa: S608  columns of this file
_PUT = f"INSERT INTO events VALUES (NULL{', ?' * 15})"  # noqa: S608  no value of anybody's


class SagaIndex(StateIndex[S], Generic[S]):
    """A `StateIndex` that has the events of each saga, too: those under the decider's key, and those that follow from them.

    Of a topic with another key it has the events whose class has a field of that name, by their correlation id.
    Events have no trace context here, and are numbered as they came: by that number a reader goes on, and on this instance only.
    Raises: WiringError for a decider without keys; else as `StateIndex`.
    """

    def _own_views(self, log: EventLog) -> list[View]:
        key = self.decider.key
        if key is None:
            raise WiringError(f"decider {self.decider.name} has no keys, so its events are no sagas: use StateIndex")
        self._by_key, self._by_correlation = saga_topics(log, key)
        topics = [*self._by_key, *self._by_correlation]
        events = View("events", [], _TABLES, self._happened, undecoded=topics, version=repr(self._by_correlation))
        return [*super()._own_views(log), events]

    def events(self, key: str, after: int = 0) -> list[tuple[int, Record]]:
        """Return the events of a key's saga after a number, in the order in which they came here, numbered."""
        return [(row[0], _record(row[1:])) for row in self.rows(_OF_SAGA, (key, after))]

    def has_events(self, key: str, after: int = 0) -> bool:
        """Tell whether there are events under a key after a number; `until` waits for them."""
        rows = self.rows("SELECT max(number) FROM events WHERE saga = ?", (key,))
        return rows[0][0] is not None and rows[0][0] > after

    def first(self, key: str, event_type: type[Event]) -> Record | None:
        """Return the first event of a type under a key; None when there is none, or it was not read here yet."""
        question = f"SELECT {_ROW} FROM events WHERE saga = ? AND topic = ? AND type = ? ORDER BY number LIMIT 1"  # noqa: S608  as above
        contract = contract_of(event_type)
        rows = self.rows(question, (key, contract.topic.name, contract.type))
        return _record(rows[0][1:]) if rows else None

    async def first_current(self, key: str, event_type: type[Event], timeout_s: float) -> Record | None:
        """Return the first event of a type under a key; None when the log has none now.

        Raises: ProjectionBehind when that was not read in time, or something is damaged on the way.
        """
        found = self.first(key, event_type)
        if found is not None:
            return found
        await self.knows(key, event_type, timeout_s)
        return self.first(key, event_type)

    async def knows(self, key: str, event_type: type[Event], timeout_s: float) -> None:
        """Wait until this index has all that the log has now of a key's partition. Raises: ProjectionBehind."""
        await self.up_to_date([_partition(key, event_type)], timeout_s)

    async def backlog(self, topic: str) -> int:
        """Return the work that waits for the service: 1 for each record, or what its header `http-work` has.

        Raises: LogUnavailable.
        """
        question = """SELECT coalesce(sum(work - 1), 0) FROM waiting_work AS waiting LEFT JOIN handled USING (topic, partition)
            WHERE waiting.topic = ? AND waiting."offset" >= coalesce(handled.next, 0)"""
        return await super().backlog(topic) + int(self.rows(question, (topic,))[0][0])

    async def first_before(self, key: str, event_type: type[Event], end: int) -> Record | None:
        """Return the first event of a type under a key before an offset of its partition, also where this index is behind.

        Cost: what the index has not read yet of that partition. Raises: LogUnavailable.
        """
        place, event_name = _partition(key, event_type), contract_of(event_type).type
        offset = self.positions.get(place, 0)  # read with the tables, so nothing is between
        found = self.first(key, event_type)
        while found is None and offset < end:
            records = await self.log.port.read(*place, offset, min(_CHUNK, end - offset))
            named = (each for each in records if each.key == key.encode() and self._type_of(each) == event_name)
            found, offset = next(named, None), records[-1].offset + 1 if records else end
        return found

    def _happened(self, db: sqlite3.Connection, record: Record, _event: Any) -> Iterable[Hashable]:
        event_name = self._type_of(record)
        key = key_text(record) if record.topic in self._by_key else None
        if key is None and (record.correlation_id is None or event_name not in self._by_correlation[record.topic]):
            return ()
        headers = None
        if record.headers:
            headers = to_json([(name, value.decode("latin-1")) for name, value in record.headers]).decode()
        if (work := _work_of(record)) > 1 and record.offset >= _handled(db, record):
            place = record.topic, record.partition, record.offset
            db.execute("INSERT OR REPLACE INTO waiting_work VALUES (?, ?, ?, ?)", (*place, work))
        columns = record.astuple()
        db.execute(_PUT, (key, *columns[:7], event_name, *columns[8:13], headers))
        return () if key is None else [key]

    def _changed(self, db: sqlite3.Connection, record: Record, value: Any) -> Iterable[Hashable]:
        if isinstance(value, Positions):
            rows = [(topic, record.partition, offset) for topic, offset in value.next.items()]
            db.executemany('DELETE FROM waiting_work WHERE topic = ? AND partition = ? AND "offset" < ?', rows)
        return super()._changed(db, record, value)

    def _type_of(self, record: Record) -> str | None:
        return self.log.external.type_of(record)


def _work_of(record: Record) -> int:
    text = next((value for name, value in record.headers if name == WORK), b"")
    return int(text[:_DIGITS]) if text.isdigit() else 1


def _handled(db: sqlite3.Connection, record: Record) -> int:
    question = "SELECT next FROM handled WHERE topic = ? AND partition = ?"
    row = db.execute(question, (record.topic, record.partition)).fetchone()
    return 0 if row is None else int(row[0])


def _partition(key: str, event_type: type[Event]) -> TopicPartition:
    topic = contract_of(event_type).topic
    return topic.name, topic.partition_of(key.encode())


def saga_topics(log: EventLog, key: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the topics keyed by a field, and those keyed otherwise with the event types in them that have the field."""
    contracts = sorted((contract_of(event).type, event) for event in log.choreography.events)
    by_key, by_correlation = set[str](), dict[str, list[str]]()
    for name, event in contracts:
        contract = contract_of(event)
        if contract.key == key:
            by_key.add(contract.topic.name)
        elif key in event.model_fields:
            by_correlation.setdefault(contract.topic.name, []).append(name)
    return sorted(by_key), {topic: names for topic, names in by_correlation.items() if topic not in by_key}


def _record(row: Sequence[Any]) -> Record:
    *attributes, headers = row
    pairs = () if headers is None else tuple((name, text.encode("latin-1")) for name, text in from_json(headers))
    return Record(*(*attributes, None, pairs))
