"""Checks the events of one key after the other."""

import marshal
import pickle
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain, count, groupby
from operator import attrgetter
from typing import Any, NamedTuple

from analytics.audit.application import Application
from analytics.audit.finding import Finding
from analytics.audit.key_rows import LATEST, MISKEYED, UNREADABLE
from analytics.schema import UNREADABLE as UNREADABLE_HEADERS
from eventlib.errors import ContractError, UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.invariants import Fold, InvariantChecker, Violation, judged_by_events
from eventlib.log.record import Record, key_text
from eventlib.model.event import Event, Meta, key_of
from eventlib.queries.sagas import causes_first
from eventlib.runtime.records import state_name

_LAST = 5
_NO_META = Meta("")


class KeyRow(NamedTuple):
    """A record for a key: its depth, the id of what it comes after, whether its saga is in flight, and its event."""

    record: Record
    depth: int
    after: str
    in_flight: bool
    event: Event | None = None

    @property
    def order(self) -> tuple[int, int, str, int, int]:
        """What a key's records are sorted by."""
        record = self.record
        return record.timestamp_ms, self.depth, record.topic, record.partition, record.offset


@dataclass
class _Checked:
    """What events of a key have led to: findings, the last of them, and the folds' states."""

    found: dict[str, Finding] = field(default_factory=dict)
    last: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST))
    is_open: bool = False
    states: Mapping[str, object] = field(default_factory=dict)


class KeyChecker:
    """Checks the events of one key after the other.

    `folds` has the fields that invariants are about, each with one of the folds that return an event's keys; `story` is the
    field that a saga ends under.
    """

    def __init__(self, application: Application, log: EventLog) -> None:
        self._log = log
        invariants = judged_by_events(application.choreography.invariants)
        self._watches = {
            name: InvariantChecker(each for each in invariants if each.key == name)
            for name in {each.key for each in invariants}
        }
        sources = (source for each in invariants for source in each.sources)
        self.folds: Mapping[str, Fold[Any]] = {source.key: source for source in sources if isinstance(source, Fold)}
        self._deciders = {decider.name: decider for decider in application.choreography.deciders}
        self.story = application.story_field

    def folded(self, name: str, key: str, rows: Iterable[KeyRow]) -> bytes | None:
        """Return what a key's rows have led to, for `key`; None when an application's state cannot be carried."""
        checked = self._events(name, key, rows)
        checked.states = self._watches[name].hand_over(key)
        try:
            return pickle.dumps(checked)
        except Exception:  # noqa: BLE001  whatever a class raises: then all is folded again
            return None

    def key(self, name: str, key: str, rows: Iterable[Sequence[Any]]) -> Iterator[Finding]:
        """Yield the violations for one key, each invariant once; its rows are those of `ROW`."""
        if name == UNREADABLE.name:
            yield from (self._unreadable(record) for record, *_ in rows)
            return
        if name == MISKEYED.name:
            yield from (self._miskeyed(record) for record, *_ in rows)
            return
        checked = _Checked()
        for are_states, part in groupby(rows, key=_is_state):
            if are_states:
                self._states(name, key, (record for record, *_ in part), checked)
            else:
                checked = self._of_sagas(name, key, part)
        rest = self._watches[name].settled(name, key)
        for violation in () if checked.is_open else rest:
            story = key if name == self.story else ""
            checked.found.setdefault(violation.invariant.name, _finding(violation, story, checked.last))
        yield from checked.found.values()

    def _of_sagas(self, name: str, key: str, rows: Iterator[Sequence[Any]]) -> _Checked:
        """Return what the events have led to: known already where all are of one saga."""
        first, second = next(rows), next(rows, None)
        *_, folded, _ = first
        if second is None and folded is not None:
            checked: _Checked = pickle.loads(folded)  # noqa: S301  of another worker of this job
            self._watches[name].take_over(key, checked.states)
            return checked
        return self._events(name, key, _each(chain([first] if second is None else [first, second], rows)))

    def _events(self, name: str, key: str, rows: Iterable[KeyRow]) -> _Checked:
        watch, checked = self._watches[name], _Checked()
        wants_meta, whole = watch.wants_meta, key if name == self.story else ""
        for record, _, _, in_flight, known in _in_order(rows):
            event = known or self._log.decode(record)
            if event is None:
                continue
            checked.last.append(record.event_id)
            checked.is_open = checked.is_open or in_flight
            for violation in watch.emitted(event, record.meta() if wants_meta else _NO_META):
                story = whole or str(getattr(event, self.story, None) or "")
                evidence = [record.event_id] if record.id else checked.last
                checked.found.setdefault(violation.invariant.name, _finding(violation, story, evidence))
        return checked

    def _states(self, name: str, key: str, records: Iterable[Record], checked: _Checked) -> None:
        story = key if name == self.story else ""
        for record in records:
            try:
                violations = self._known(self._watches[name], record)
            except Exception as error:  # noqa: BLE001  whatever is on the log, it is a finding
                where = f"{record.topic}/{record.partition}/{record.offset}"
                about, sentence = f"key {key_text(record)}", f"The state at {where} cannot be read: {error}"
                checked.found[where] = Finding(UNREADABLE.name, "error", story, about, [where], sentence)
                continue
            for violation in violations:
                evidence = [record.event_id] if record.id else checked.last
                checked.found.setdefault(violation.invariant.name, _finding(violation, story, evidence))

    def _known(self, watch: InvariantChecker, record: Record) -> list[Violation]:
        decider, key = state_name((record.key or b"").decode())
        source = self._deciders[decider]
        return watch.changed(source, key, self._log.codec.decode(source.state, record.value or b""))

    def _miskeyed(self, record: Record) -> Finding:
        event = self._log.decode(record)
        order = str(getattr(event, self.story, None) or "")
        where = f"{record.topic}/{record.partition}/{record.offset}"
        sentence = (
            f"{record.type} at {where} has the key {key_text(record)!r}, but its field is {key_of_event(event)!r}."
        )
        return Finding(MISKEYED.name, MISKEYED.severity, order, f"key {key_text(record)}", [record.event_id], sentence)

    def _unreadable(self, record: Record) -> Finding:
        key = (record.key or b"").decode()
        sentence = f"{record.type} at {record.topic}/{record.partition}/{record.offset}: {read(self._log, record)}"
        return Finding(UNREADABLE.name, UNREADABLE.severity, key, f"key {key}", [record.event_id], sentence)


def read(log: EventLog, record: Record) -> Event | str:
    """Return a record's event, or why it has none."""
    if any(name == UNREADABLE_HEADERS for name, _ in record.headers):
        return "its bytes are damaged"
    try:
        event = log.decode(record)
    except UndecodableRecord as error:
        return error.reason
    except Exception as error:  # noqa: BLE001  whatever is on the log, it is a finding
        return str(error)
    return event or f"{record.type} is not an event of this choreography"


def key_of_event(event: object) -> str:
    """Return the key that an event's own field says; empty without one."""
    try:
        return (key_of(event) if isinstance(event, Event) else None) or ""
    except ContractError:
        return ""


def packed(rows: Iterable[KeyRow]) -> bytes:
    """Return rows for another worker of this job, without their events: it decodes them, if it needs them."""
    return marshal.dumps([(r.record.astuple(), r.depth, r.after, r.in_flight) for r in rows])


def _is_state(row: Sequence[Any]) -> bool:
    return bool(row[2] == LATEST)


def _each(rows: Iterable[Sequence[Any]]) -> Iterator[KeyRow]:
    """Yield the events of rows that come by the first event of each, in order; few are in memory."""
    waiting, number = list[tuple[Any, int, KeyRow]](), count()
    for record, _, depth, _, _, after, in_flight, _, events in rows:
        first = KeyRow(record, depth, after, in_flight)
        while waiting and waiting[0][0] < first.order:
            yield heappop(waiting)[-1]
        packed = [first] if events is None else [KeyRow(Record(*r), *rest) for r, *rest in marshal.loads(events)]  # noqa: S302
        for each in packed:
            heappush(waiting, (each.order, next(number), each))
    while waiting:
        yield heappop(waiting)[-1]


_at = attrgetter("record.timestamp_ms")


def _in_order(rows: Iterable[KeyRow]) -> Iterator[KeyRow]:
    """Yield a key's records in causal order: within a millisecond, by causes, sequences and offsets, before depths."""
    for _, group in groupby(rows, key=_at):
        moment = [*group]
        if len(moment) > 1:
            order = causes_first([row.record for row in moment], [row.after for row in moment])
            yield from (moment[i] for i in order)
        else:
            yield moment[0]


def _finding(violation: Violation, story: str, evidence: Iterable[str]) -> Finding:
    about = f"{violation.invariant.key} {violation.key}"
    sentence = f"{violation.invariant.sentence} Violated: {violation.what_was_known}"
    return Finding(violation.invariant.name, "error", story, about, list(evidence), sentence)
