"""What an input, or a deadline, changes about a key: its state, its deadlines, and the effects that it requests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from analytics.history.entries import Entries, Entry
from analytics.history.rows import StagedRows
from analytics.history.tables import DEADLINES, ERRORS
from analytics.history.waiting import OpenEffect, OpenEffects, effect_names
from eventlib.errors import UndecodableRecord
from eventlib.model.decider import FORGET, Decider
from eventlib.model.event import Event, Meta, contract_of
from eventlib.model.kept_error import KeptError
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.context import meta_when_emitted
from eventlib.runtime.keyed_state import KeyedState
from eventlib.values import snake_case, to_ms

_NO_META = Meta("")


@dataclass(frozen=True, slots=True)
class Plan:
    """How one decider takes one event type, looked up once; `story` is the field that names a saga."""

    decider: Decider[Any]
    entries: Entries
    source: str
    table: str
    evolve: Any
    wants_meta: bool
    is_request: bool
    effects: Mapping[type[Any], tuple[str, str | None]]
    story: str

    @property
    def name(self) -> str:
        """The decider's name."""
        return self.decider.name

    def saga(self, key: str, event: object, correlation_id: str | None) -> str | None:
        """Return the saga that an event of a key belongs to; None where nothing tells."""
        if not self.story:
            return correlation_id
        if self.decider.key == self.story:
            return key
        found = getattr(event, self.story, None)
        return None if found is None else str(found)

    def row(self, key: str, entry: Entry, partition: int) -> tuple[Any, ...] | None:
        """Return a key's current row; None when it has no state."""
        if entry.state is None:
            return None
        return (
            key,
            entry.changed_by,
            entry.changed_ms,
            partition,
            entry.since_ms,
            None,
            entry.set_by,
            False,
            entry.state,
        )

    def due_rows(self, service: str, key: str, entry: Entry) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a key's pending deadlines."""
        for name, (due_ms, set_ms) in entry.due.items():
            saga = self.saga(key, None, entry.correlation_id)
            yield service, self.name, name, key, saga, set_ms, due_ms, None, None


def plans_of(service: Service, story: str, entries: Mapping[str, Entries]) -> Mapping[str | None, Sequence[Plan]]:
    """Return how a service's deciders take each event type; `story` is the field that names a saga."""
    found = dict[str | None, list[Plan]]()
    for decider in service.deciders:
        for event_type in decider.handlers:
            contract = contract_of(event_type)
            plan = Plan(
                decider,
                entries[decider.name],
                f"{service.emits_as}/{decider.name}",
                f"state_{snake_case(decider.name)}",
                decider.evolves,
                decider.evolve_wants_meta,
                contract.request,
                effect_names(decider.effects),
                story,
            )
            found.setdefault(contract.type, []).append(plan)
    return found


class _Change(NamedTuple):
    """The event that changes a key, its saga by correlation, and the time (ms)."""

    by: str | None
    correlation_id: str | None
    at_ms: int


class KeyChanges:
    """Changes entries, and writes down what ends with that: as the runtime has changed them."""

    def __init__(self, rows: StagedRows, service: Service, effects: OpenEffects) -> None:
        self._rows = rows
        self._service = service.name
        self._effects = effects

    def handle(
        self,
        plan: Plan,
        key: str,
        record: Record,
        event: Event | UndecodableRecord,
        emitted: Sequence[Sequence[Any]],
        at_ms: int,
    ) -> None:
        """Apply an input that was handled, and the events that were emitted for it."""
        entry = plan.entries.get(key)
        before = plan.decider.initial if entry.state is None else entry.state
        try:
            if isinstance(event, UndecodableRecord):
                raise event  # noqa: TRY301  told as what evolve raises
            state = plan.evolve(before, event, record.meta()) if plan.wants_meta else plan.evolve(before, event)
            if emitted:
                state = _after(plan, state, emitted)
        except Exception as error:  # noqa: BLE001  whatever the current code does with an old event, it is told
            self._failed(plan, key, (record.event_id, record.type), error, at_ms)
            state = entry.state
        if emitted and plan.effects:
            self._request(plan, key, emitted, at_ms)
        if emitted:
            last: Record = emitted[-1][0]
            by, saga = last.event_id, last.correlation_id
        elif plan.is_request or (state is not before and not (state is None and entry.state is None)):
            by, saga = record.event_id, record.correlation_id or record.event_id
            if plan.is_request and entry.correlation_id is not None:
                saga = entry.correlation_id
        else:
            return
        if plan.is_request:
            entry.answered = True
        self._change(plan, key, entry, state, _Change(by, saga, at_ms))

    def pass_deadline(
        self, plan: Plan, key: str, deadline: tuple[str, int, str], emitted: Sequence[Sequence[Any]], at_ms: int
    ) -> None:
        """Apply a deadline that has passed: its name, when it was due (ms), and its id as a cause."""
        entry, (name, due_ms, cause_id) = plan.entries.get(key), deadline
        try:
            state = None if name == FORGET else _after(plan, entry.state, emitted)
        except Exception as error:  # noqa: BLE001  as above
            self._failed(plan, key, (cause_id, name), error, at_ms)
            state = entry.state
        if emitted and plan.effects:
            self._request(plan, key, emitted, at_ms)
        if name in entry.due:
            _, set_ms = entry.due.pop(name)
            self._deadline(plan, key, entry, name, (set_ms, due_ms, at_ms, None))
        entry.passed = {**entry.passed, name: due_ms}
        by = emitted[-1][0].event_id if emitted else entry.changed_by or cause_id
        self._change(plan, key, entry, state, _Change(by, entry.correlation_id or cause_id, at_ms))

    def take_over(self, plan: Plan, key: str, taken: KeyedState, at_ms: int) -> None:
        """Replace a key's state by that of a rerun."""
        entry = plan.entries.get(key)
        entry.passed, entry.answered = dict(taken.memory.passed), bool(taken.memory.answered)
        self._change(plan, key, entry, taken.state, _Change(taken.changed_by, taken.correlation_id, at_ms))

    def _change(self, plan: Plan, key: str, entry: Entry, state: Any, change: "_Change") -> None:
        before, (by, saga, at_ms) = entry.state, change
        if state is not before and state != before:
            if before is not None:
                about = key, entry.changed_by, entry.changed_ms, None
                period = entry.since_ms, at_ms, entry.set_by, state is None
                self._rows.settle(plan.table, (*about, *period, before))
            entry.since_ms, entry.set_by = at_ms, by
        entry.state, entry.changed_by, entry.changed_ms, entry.correlation_id = state, by, at_ms, saga
        if plan.decider.has_deadlines:
            self._due(plan, key, entry, at_ms)
        if entry.is_gone:
            entry.reset()

    def _due(self, plan: Plan, key: str, entry: Entry, at_ms: int) -> None:
        """Set the deadlines that follow from the state, and cancel those that do no longer."""
        now = {} if entry.state is None else plan.decider.due(entry.state)
        wanted = {name: to_ms(at) for name, at in now.items() if name != FORGET}
        for name, (due_ms, set_ms) in [*entry.due.items()]:
            if wanted.get(name) != due_ms:
                del entry.due[name]
                self._deadline(plan, key, entry, name, (set_ms, due_ms, None, at_ms))
        for name, due_ms in wanted.items():
            if name not in entry.due and entry.passed.get(name) != due_ms:
                entry.due[name] = due_ms, at_ms

    def _deadline(self, plan: Plan, key: str, entry: Entry, name: str, times: tuple[int | None, ...]) -> None:
        saga = plan.saga(key, None, entry.correlation_id)
        self._rows.settle(DEADLINES, (self._service, plan.name, name, key, saga, *times))

    def _request(self, plan: Plan, key: str, emitted: Sequence[Sequence[Any]], at_ms: int) -> None:
        for record, event in emitted:
            effect = plan.effects.get(type(event))
            if effect is not None:
                saga = plan.saga(key, event, record.correlation_id)
                name = record.event_id, self._service, plan.name, *effect, key, saga, record.type
                self._effects.request(OpenEffect(*name, at_ms))

    def _failed(self, plan: Plan, key: str, about: tuple[str | None, str | None], error: Exception, at_ms: int) -> None:
        kept = KeptError.of(error, personal=plan.decider.is_personal)
        reason = str(error) if isinstance(error, UndecodableRecord) else kept.reason
        self._rows.settle(ERRORS, (self._service, plan.name, key, *about, at_ms, reason))


def _after(plan: Plan, state: Any, emitted: Sequence[Sequence[Any]]) -> Any:
    """Return a state after events that were emitted, as far as the current classes can read them."""
    for record, event in emitted:
        if isinstance(event, Event):
            known = plan.decider.initial if state is None else state
            if plan.wants_meta:
                state = plan.evolve(known, event, meta_when_emitted(record))
            else:
                state = plan.evolve(known, event)
    return state
