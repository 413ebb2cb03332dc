"""Checks the events of one key after the other."""

import pickle
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import chain, groupby
from typing import Any, Final, final

from analytics.audit.application import Application
from analytics.audit.finding import Finding
from analytics.audit.key_rows import LATEST, MISKEYED, UNREADABLE, Row
from analytics.audit.packed_events import KeyRow, Order, made_of, unpacked
from analytics.schema import UNREADABLE as UNREADABLE_HEADERS
from eventlib.errors import UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.invariants import Fold, InvariantChecker, Violation, judged_by_events
from eventlib.model.event import Event, Meta, contract_of
from eventlib.model.record import Record, key_text
from eventlib.queries.causal_order import causes_first
from eventlib.runtime.records import changelog_key

_LAST: Final = 5
_NO_META: Final = Meta("")
_RECORDS: Final = frozenset({UNREADABLE.name, MISKEYED.name})
"""What rows of single records are about, beside the fields of invariants."""


@final
class _Checked:
    """What events of a key have led to: findings, the last of them, and the folds' states."""

    def __init__(self) -> None:
        self.found: dict[str, Finding] = {}
        self.last: deque[str] = deque(maxlen=_LAST)
        self.is_open = False
        self.states: Mapping[str, object] = {}

    def pickled(self) -> bytes:
        """Return it for another worker of this job. Raises: whatever an application's states raise."""
        return pickle.dumps((self.found, [*self.last], self.is_open, self.states))

    @staticmethod
    def unpickled(data: bytes) -> "_Checked":
        """Return what another worker of this job has pickled."""
        checked = _Checked()
        checked.found, last, checked.is_open, checked.states = pickle.loads(data)  # noqa: S301  see above
        checked.last.extend(last)
        return checked


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
        self._events_of = {contract_of(event).type: event for event in application.choreography.events}
        self.story = application.story_field

    def folded(self, name: str, key: str, rows: Iterable[KeyRow]) -> bytes | None:
        """Return what a key's rows have led to, for `key`; None when an application's state cannot be carried."""
        checked = self._events(name, key, rows)
        checked.states = self._watches[name].hand_over(key)
        try:
            return checked.pickled()
        except Exception:  # noqa: BLE001  whatever a class raises: then all is folded again
            return None

    def key(self, name: str, key: str, rows: Iterable[Row]) -> Iterator[Finding]:
        """Yield the violations for one key, each invariant once."""
        if name in _RECORDS:
            tell = self._unreadable if name == UNREADABLE.name else self._miskeyed
            yield from (tell(each.record) for row in rows for each in unpacked(row.events))
            return
        checked = _Checked()
        for are_states, part in groupby(rows, key=_is_state):
            if are_states:
                self._states(name, key, (each.record for row in part for each in unpacked(row.events)), checked)
            else:
                checked = self._of_sagas(name, key, part)
        rest = self._watches[name].settled(name, key)
        for violation in () if checked.is_open else rest:
            story = key if name == self.story else ""
            checked.found.setdefault(violation.invariant.name, _finding(violation, story, checked.last))
        yield from checked.found.values()

    def _of_sagas(self, name: str, key: str, rows: Iterator[Row]) -> _Checked:
        """Return what the events have led to: known already where all are of one saga."""
        first, second = next(rows), next(rows, None)
        if second is None and first.folded is not None:
            checked = _Checked.unpickled(first.folded)
            self._watches[name].take_over(key, checked.states)
            return checked
        return self._events(name, key, _each(chain([first] if second is None else [first, second], rows)))

    def _events(self, name: str, key: str, rows: Iterable[KeyRow]) -> _Checked:
        watch, checked = self._watches[name], _Checked()
        wants_meta, whole = watch.wants_meta, key if name == self.story else ""
        for row in _in_order(rows):
            record = row.record
            event = row.event or self._event(row)
            if event is None:
                continue
            checked.last.append(record.event_id)
            checked.is_open = checked.is_open or row.in_flight
            for violation in watch.emitted(event, record.meta() if wants_meta else _NO_META):
                story = whole or str(getattr(event, self.story, None) or "")
                evidence = [record.event_id] if record.id else checked.last
                checked.found.setdefault(violation.invariant.name, _finding(violation, story, evidence))
        return checked

    def _event(self, row: KeyRow) -> Event | None:
        if row.values is None:
            return self._log.decode(row.record)
        return made_of(self._events_of[row.record.type or ""], row.values)

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
        _, decider, key, _ = changelog_key((record.key or b"").decode())
        source = self._deciders[decider]
        return watch.changed(source, key, self._log.codec.decode(source.state, record.value or b""))

    def _miskeyed(self, record: Record) -> Finding:
        event = self._log.decode(record)
        order = str(getattr(event, self.story, None) or "")
        where = f"{record.topic}/{record.partition}/{record.offset}"
        own = "" if event is None else key_of_event(event)
        sentence = f"{record.type} at {where} has the key {key_text(record)!r}, but its field is {own!r}."
        return Finding(MISKEYED.name, MISKEYED.severity, order, f"key {key_text(record)}", [record.event_id], sentence)

    def _unreadable(self, record: Record) -> Finding:
        key = (record.key or b"").decode()
        sentence = f"{record.type} at {record.topic}/{record.partition}/{record.offset}: {read(self._log, record)}"
        return Finding(UNREADABLE.name, UNREADABLE.severity, key, f"key {key}", [record.event_id], sentence)


def read(log: EventLog, record: Record) -> Event | str:
    """Return a record's event, or why it has none."""
    if record.headers and any(name == UNREADABLE_HEADERS for name, _ in record.headers):
        return "its bytes are damaged"
    try:
        event = log.decode(record)
    except UndecodableRecord as error:
        return error.reason
    except Exception as error:  # noqa: BLE001  whatever is on the log, it is a finding
        return str(error)
    return event or f"{record.type} is not an event of this choreography"


_key_fields: dict[type[Event], str] = {}


def key_of_event(event: Event) -> str:
    """Return the key that an event's own field says; empty without one."""
    name = _key_fields.get(event.__class__)
    if name is None:
        name = _key_fields[event.__class__] = contract_of(event.__class__).key or ""
    return str(event.__dict__[name]) if name else ""


def _is_state(row: Row) -> bool:
    return row.depth == LATEST


def _each(rows: Iterable[Row]) -> Iterator[KeyRow]:
    """Yield the events of rows that come by the first event of each, in order; few are in memory."""
    waiting, number = list[tuple[Order, int, KeyRow]](), 0
    for row in rows:
        events = unpacked(row.events)
        while waiting and waiting[0][0] < events[0].order:
            yield heappop(waiting)[2]
        for each in events:
            number += 1
            heappush(waiting, (each.order, number, each))
    while waiting:
        yield heappop(waiting)[2]


def _in_order(rows: Iterable[KeyRow]) -> Iterator[KeyRow]:
    """Yield a key's records in causal order: within a millisecond, by causes, sequences and offsets, before depths."""
    moment = list[KeyRow]()
    for row in rows:
        if moment and moment[0].order[0] != row.order[0]:
            yield from _causes_first(moment)
            moment = []
        moment.append(row)
    yield from _causes_first(moment)


def _causes_first(moment: list[KeyRow]) -> list[KeyRow]:
    if len(moment) < 2:  # noqa: PLR2004  mostly
        return moment
    order = causes_first([row.record for row in moment], [row.after for row in moment])
    return [moment[i] for i in order]


def _finding(violation: Violation, story: str, evidence: Iterable[str]) -> Finding:
    about = f"{violation.invariant.key} {violation.key}"
    sentence = f"{violation.invariant.sentence} Violated: {violation.what_was_known}"
    return Finding(violation.invariant.name, "error", story, about, list(evidence), sentence)
