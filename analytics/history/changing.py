"""What an input, or a deadline, changes about a key: its state, its deadlines, and the effects that it requests."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from analytics.history.rows import StagedRows
from analytics.history.tables import DEADLINES, ERRORS
from analytics.history.waiting import OpenEffect, OpenEffects, effect_names
from eventlib.codec.avro.read import reader_of
from eventlib.codec.avro.write import writer_of
from eventlib.errors import UndecodableRecord
from eventlib.model.decider import FORGET, Decider
from eventlib.model.event import Meta
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import key_text
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_json
from eventlib.replay.context import after
from eventlib.replay.journal_steps import DeadlinePassed
from eventlib.replay.partition_buffer import Item
from eventlib.replay.plans import Plan, change_by
from eventlib.replay.spilling_cache import SpillFile, SpillingCache
from eventlib.runtime.keyed_state import KeyedState
from eventlib.values import snake_case, to_ms

_NO_META = Meta("")


class Entry:
    """What a fold knows of a key: as `eventlib.runtime.keyed_state.KeyedState`, and since when its state is what it is.

    `changed_by`, at `changed_ms`, is the event that last changed the key; `set_by`, at `since_ms`, the one that its state
    is since. `due` has the time of each pending deadline, and when it was set (ms). `passed` is as in `KeyMetadata`.
    """

    __slots__ = (
        "answered",
        "changed_by",
        "changed_ms",
        "correlation_id",
        "due",
        "passed",
        "set_by",
        "since_ms",
        "state",
    )

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.state: Any = None
        self.changed_by: str | None = None
        self.changed_ms = 0
        self.correlation_id: str | None = None
        self.since_ms = 0
        self.set_by: str | None = None
        self.answered = False
        self.passed: dict[str, int] = {}
        self.due: dict[str, tuple[int, int]] = {}

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left to remember, so that the key begins anew."""
        return self.state is None and not self.answered


class EntryCoder:
    """Writes and reads the entries of one decider; personal fields are as the fold has read them: masked."""

    def __init__(self, decider: Decider[Any]) -> None:
        record = record_of(decider.state)
        self._write: Callable[[Any], bytes] = writer_of(record, b"")
        self._read: Callable[[bytes], Any] = reader_of(record, schema_json(record), 0)

    def empty(self) -> Entry:
        """See `Coder.empty`: entries are changed in place."""
        return Entry()

    def pack(self, key: str, entry: Entry) -> bytes:
        """Return a key and its entry as bytes: a line of JSON, then the state in Avro."""
        due = {name: [*times] for name, times in entry.due.items()}
        attributes = [key, entry.changed_by, entry.changed_ms, entry.correlation_id, entry.since_ms, entry.set_by]
        line = to_json([*attributes, entry.answered, entry.passed, due, entry.state is not None])
        return line + b"\n" + (b"" if entry.state is None else self._write(entry.state))

    def unpack(self, key: str, packed: bytes) -> Entry:  # noqa: ARG002  it is in the bytes as well
        """See `Coder.unpack`."""
        return self.named(packed)[1]

    def named(self, packed: bytes) -> tuple[str, Entry]:
        """Return the key and the entry in bytes that `pack` has made."""
        line, _, state = packed.partition(b"\n")
        entry = Entry()
        key, entry.changed_by, entry.changed_ms, entry.correlation_id, entry.since_ms, entry.set_by, *rest = from_json(
            line
        )
        entry.answered, entry.passed, due, has_state = rest
        entry.due = {name: (due_ms, set_ms) for name, (due_ms, set_ms) in due.items()}
        entry.state = self._read(state) if has_state else None
        return key, entry


class DeciderTable:
    """The table of one decider's states; `story` is the field that names a saga."""

    def __init__(self, decider: Decider[Any], file: SpillFile, most: int, story: str) -> None:
        self.decider = decider
        self.coder = EntryCoder(decider)
        self.entries = SpillingCache(decider.name, self.coder, file, most)
        self.name = f"state_{snake_case(decider.name)}"
        self.effects = effect_names(decider.effects)
        self._story = story

    def saga(self, key: str, event: object, correlation_id: str | None) -> str | None:
        """Return the saga that an event of a key belongs to; None where nothing tells."""
        if not self._story:
            return correlation_id
        if self.decider.key == self._story:
            return key
        found = getattr(event, self._story, None)
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
            yield service, self.decider.name, name, key, saga, set_ms, due_ms, None, None


class _Change(NamedTuple):
    """The event that changes a key, its saga by correlation, and the time (ms)."""

    by: str | None
    correlation_id: str | None
    at_ms: int


class KeyChanges:
    """Changes entries, and writes down what ends with that: as the runtime has changed them."""

    def __init__(self, rows: StagedRows, service: str, effects: OpenEffects) -> None:
        self._rows = rows
        self._service = service
        self._effects = effects

    def handle(self, plan: Plan, table: DeciderTable, consumed: Item, emitted: Sequence[Item], at_ms: int) -> None:
        """Apply an input that was handled, and the events that were emitted for it."""
        (record, event), decider = consumed, plan.decider
        key = key_text(record)
        entry: Entry = plan.entries.get(key)
        try:
            if isinstance(event, UndecodableRecord):
                raise event  # noqa: TRY301  told as what evolve raises
            before = decider.initial if entry.state is None else entry.state
            state = after(
                decider, decider.evolved(before, event, record.meta() if plan.wants_meta else _NO_META), emitted
            )
        except Exception as error:  # noqa: BLE001  whatever the current code does with an old event, it is told
            self._failed(table, key, (record.event_id, record.type), error, at_ms)
            state = entry.state
        self._request(table, key, emitted, at_ms)
        saga = (entry.correlation_id if plan.is_request else None) or record.correlation_id or record.event_id
        change = change_by(plan, entry.state, state, record, saga, emitted)
        if change is not None:
            entry.answered = entry.answered or plan.is_request
            self._change(table, key, entry, state, _Change(*change, at_ms))

    def pass_deadline(self, table: DeciderTable, deadline: DeadlinePassed, emitted: Sequence[Item]) -> None:
        """Apply a deadline that has passed."""
        name, key, at_ms = deadline.name, deadline.key, deadline.at_ms
        entry = table.entries.get(key)
        try:
            state = None if name == FORGET else after(table.decider, entry.state, emitted)
        except Exception as error:  # noqa: BLE001  as above
            self._failed(table, key, (deadline.id, name), error, at_ms)
            state = entry.state
        self._request(table, key, emitted, at_ms)
        if name in entry.due:
            _, set_ms = entry.due.pop(name)
            self._deadline(table, key, entry, name, (set_ms, deadline.due_ms, at_ms, None))
        entry.passed = {**entry.passed, name: deadline.due_ms}
        by = emitted[-1][0].event_id if emitted else entry.changed_by or deadline.id
        self._change(table, key, entry, state, _Change(by, entry.correlation_id or deadline.id, at_ms))

    def take_over(self, table: DeciderTable, key: str, taken: KeyedState, at_ms: int) -> None:
        """Replace a key's state by that of a rerun."""
        entry = table.entries.get(key)
        entry.passed, entry.answered = dict(taken.memory.passed), bool(taken.memory.answered)
        self._change(table, key, entry, taken.state, _Change(taken.changed_by, taken.correlation_id, at_ms))

    def _change(self, table: DeciderTable, key: str, entry: Entry, state: Any, change: "_Change") -> None:
        before, (by, saga, at_ms) = entry.state, change
        if state is not before and state != before:
            if before is not None:
                about = key, entry.changed_by, entry.changed_ms, None
                period = entry.since_ms, at_ms, entry.set_by, state is None
                self._rows.settle(table.name, (*about, *period, before))
            entry.since_ms, entry.set_by = at_ms, by
        entry.state, entry.changed_by, entry.changed_ms, entry.correlation_id = state, by, at_ms, saga
        if table.decider.has_deadlines:
            self._due(table, key, entry, at_ms)
        if entry.is_gone:
            entry.reset()

    def _due(self, table: DeciderTable, key: str, entry: Entry, at_ms: int) -> None:
        """Set the deadlines that follow from the state, and cancel those that do no longer."""
        now = {} if entry.state is None else table.decider.due(entry.state)
        wanted = {name: to_ms(at) for name, at in now.items() if name != FORGET}
        for name, (due_ms, set_ms) in [*entry.due.items()]:
            if wanted.get(name) != due_ms:
                del entry.due[name]
                self._deadline(table, key, entry, name, (set_ms, due_ms, None, at_ms))
        for name, due_ms in wanted.items():
            if name not in entry.due and entry.passed.get(name) != due_ms:
                entry.due[name] = due_ms, at_ms

    def _deadline(self, table: DeciderTable, key: str, entry: Entry, name: str, times: tuple[int | None, ...]) -> None:
        saga = table.saga(key, None, entry.correlation_id)
        self._rows.settle(DEADLINES, (self._service, table.decider.name, name, key, saga, *times))

    def _request(self, table: DeciderTable, key: str, emitted: Sequence[Item], at_ms: int) -> None:
        for record, event in emitted if table.effects else ():
            effect = table.effects.get(type(event))
            if effect is not None:
                saga = table.saga(key, event, record.correlation_id)
                name = record.event_id, self._service, table.decider.name, *effect, key, saga, record.type or ""
                self._effects.request(OpenEffect(*name, at_ms))

    def _failed(
        self, table: DeciderTable, key: str, about: tuple[str | None, str | None], error: Exception, at_ms: int
    ) -> None:
        is_read = not isinstance(error, UndecodableRecord)
        reason = kept_reason(error, personal=table.decider.is_personal) if is_read else str(error)
        self._rows.settle(ERRORS, (self._service, table.decider.name, key, *about, at_ms, reason))
