"""Makes the rows of one task's past: a visitor of what its deciders did."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pydantic_core import from_json, to_json

from analytics.history.changing import DeciderTable, KeyChanges
from analytics.history.rows import StagedRows
from analytics.history.tables import DEADLINES, EFFECTS, ERRORS, PARKED
from analytics.history.waiting import OpenEffects, ParkedInput, ParkedInputs
from analytics.task_pass import Moment, TaskOfPass, Visitor
from eventlib.errors import UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.event import Event, contract_of
from eventlib.model.identity import deadline_id
from eventlib.model.record import Record, key_text
from eventlib.replay.amendments import rerun_changelog
from eventlib.replay.decider_player import DeciderPlayer, Parked
from eventlib.replay.journal_steps import (
    Act,
    Answered,
    Consumed,
    DeadlinePassed,
    Discarded,
    EffectDiscarded,
    EffectReleased,
    Moved,
    Released,
    Stalled,
)
from eventlib.replay.partition_buffer import Buffered
from eventlib.replay.plans import Plan, plans_of
from eventlib.replay.push_scanner import CONSUMED, EMITTED, PushScanner
from eventlib.replay.spilling_cache import SpillFile
from eventlib.runtime.keyed_state import KeyedState
from eventlib.runtime.parking.parked import WAITS_BEHIND
from eventlib.runtime.records import JournalEntry

EFFECT_KIND, PARKED_KIND, STATE_KIND, TASK_KIND = "effect", "parked", "state", "task"
"""What is carried from one fold to the next."""


class TaskRows(Visitor):
    """Folds one task's past, moment by moment; `rows` are those of all tasks that are played beside it.

    Only `evolve` is called, on what was consumed and emitted: so handlers that have changed since play no part, and
    what is proved is what `eventlib history` proves. `ends` are those of the inputs: an entry with an input beyond them
    is not folded, nor what comes after it. Memory holds what is not consumed yet, and the outputs of one time.
    """

    def __init__(
        self,
        opened: EventLog,
        rows: StagedRows,
        story: str,
        ends: Mapping[TopicPartition, int],
        task: TaskOfPass,
    ) -> None:
        self._service, self._partition, self._number = task.service, task.partition, task.number
        self._log, self._ends, self._clock = opened, ends, task.clock
        self._rows = rows
        self._spill = SpillFile()
        deciders = [decider for decider in self._service.deciders if decider.handlers]
        self._tables = {decider.name: DeciderTable(decider, self._spill, task.in_memory, story) for decider in deciders}
        entries = {name: table.entries for name, table in self._tables.items()}
        self._effects = OpenEffects(self._rows)
        self._parked = ParkedInputs(self._rows, self._service.name)
        self._changes = KeyChanges(self._rows, self._service.name, self._effects)
        place = self._service, self._partition
        self._scanner = PushScanner(opened, *place, is_whole=False)
        self._scanner.clocks = {(self._service.name, self._partition): self._clock} if self._clock.resets else {}
        self._player = DeciderPlayer(place, self._scanner, plans_of(self._service, entries), self)
        for topic in self._service.inputs:
            self._player.inputs.begin(topic.name, 0)
        self._emitted_to = {contract_of(event).topic.name for event in self._service.emits}
        self._outputs_ms = -1
        self._left: dict[str, int] = {}
        self._first = self._next_entry = 0
        self._is_held = False

    async def take(self, moment: Moment) -> None:
        """See `Visitor.take`; what an earlier fold has carried on comes first, as added rows."""
        for record in moment.added:
            self._restore(record)
        await self._push(moment)
        for record in moment.journalled:
            await self._replay(record)

    async def _push(self, moment: Moment) -> None:
        dropped = CONSUMED if self._is_held else 0
        if self._clock.time(moment.at_ms) < self._clock.time(self._player.at_ms):
            dropped |= EMITTED  # of an entry that an earlier fold has folded
        given = [(item, role & ~dropped) for item, role in moment.given if role & ~dropped]
        if moment.at_ms != self._outputs_ms and any(role & EMITTED for _, role in given):
            self._leave()
            self._outputs_ms = moment.at_ms
        await self._scanner.push(given)

    async def _replay(self, record: Record) -> None:
        """Fold a journal entry, unless it, or one before it, has an input beyond the ends."""
        if self._is_held or record.offset < self._next_entry:
            return
        entry = self._log.codec.decode(JournalEntry, record.value or b"")
        runs = [((step.topic, self._partition), step.last) for step in entry.steps if step.kind == "run"]
        if any(last >= self._ends.get(place, last + 1) for place, last in runs):
            self._is_held = True
            return
        if self._next_entry == 0 and not any(step.kind == "begin" for step in entry.steps):
            reason = f"the journal begins at offset {record.offset}: what was before is not known"
            self._lack(entry.at_ms, reason)
        if entry.at_ms != self._player.at_ms:
            self._left.clear()
        if self._clock.time(self._outputs_ms) < self._clock.time(entry.at_ms):
            self._scanner.leave()
        self._next_entry = record.offset + 1
        await self._player.play(entry)

    def _lack(self, at_ms: int, reason: str) -> None:
        self._rows.settle(ERRORS, (self._service.name, None, None, None, None, at_ms, reason))

    # --- what the deciders did

    def handle_all(self, items: Sequence[Buffered]) -> None:
        """See `DeciderVisitor.handle_all`: inputs that no decider handled then change nothing."""
        self._player.each([item for item in items if item.record.offset >= self._first])

    def handle(self, plan: Plan, record: Record, event: Event | UndecodableRecord, *, waited: bool = False) -> None:
        """See `DeciderVisitor.handle`."""
        name, key, player = plan.decider.name, key_text(record), self._player
        if self._parked and not waited:  # no longer parked, since an input is handled
            self._parked.go_on((name, key), player.at_ms)
        is_external = player.is_external(record.topic)
        cause_id = f"{record.topic}/{record.partition}/{record.offset}" if is_external else record.event_id
        found = player.claim((plan.source, key, record.event_id), cause_id, name) if player.outputs else ()
        emitted = self._scanner.read(found, ()) if found else ()
        self._changes.handle(plan, self._tables[name], (record, event), emitted, player.at_ms)

    def pass_deadline(self, deadline: DeadlinePassed) -> None:
        """See `DeciderVisitor.pass_deadline`."""
        table = self._tables.get(deadline.decider)
        if table is not None:
            if self._parked:
                self._parked.go_on((deadline.decider, deadline.key), deadline.at_ms)
            emitted = self._scanner.read(self._player.claim_deadline(deadline), ())
            self._changes.pass_deadline(table, deadline, emitted)

    def note(self, act: Act | Parked, emitted: Sequence[Buffered] = ()) -> None:
        """See `DeciderVisitor.note`."""
        at_ms = self._player.at_ms
        match act:
            case Consumed(first=first):
                self._first = first
            case Parked():
                self._park(act)
            case DeadlinePassed():
                self._park_deadline(act)
            case Released(decider, key, record) | Discarded(decider, key, record):
                self._parked.release((decider, key), record.topic, record.offset, at_ms, _how(act))
            case Answered(request_id=request_id):
                self._effects.answer(request_id, at_ms, (emitted[0].record.type if emitted else None) or "unknown")
            case Stalled(request_id=request_id, reason=reason):
                self._effects.park(request_id, at_ms, reason)
            case EffectReleased(request_id=request_id) | EffectDiscarded(request_id=request_id):
                self._effects.unpark(request_id, at_ms, "retried" if isinstance(act, EffectReleased) else "discarded")
            case Moved(why=why, is_loss=True):
                self._lack(at_ms, f"inputs were gone before they were handled: {why}")
            case _:
                pass  # of operators, and changes nothing here

    def _park(self, parked: Parked) -> None:
        table = self._tables.get(parked.decider)
        if table is not None:
            record = parked.item.record
            saga = table.saga(parked.key, self._scanner.event(parked.item), record.correlation_id or record.event_id)
            attempts, at_ms = int(parked.reason != WAITS_BEHIND), self._player.at_ms
            about = record.topic, record.offset, saga, at_ms, parked.reason, record.event_id, record.type, attempts
            self._parked.park((parked.decider, parked.key), ParkedInput(*about))

    def _park_deadline(self, act: DeadlinePassed) -> None:
        table = self._tables.get(act.decider)
        if table is not None and act.refused is not None:
            saga = table.saga(act.key, None, table.entries.get(act.key).correlation_id)
            cause_id = deadline_id(act.decider, act.key, act.name, act.due_ms)
            about = "", act.due_ms, saga, self._player.at_ms, act.refused.reason, cause_id, act.name, 1
            self._parked.park((act.decider, act.key), ParkedInput(*about))

    async def take_over(self, changelog: str) -> None:
        """See `DeciderVisitor.take_over`: what was emitted for the states is forgotten."""
        self._player.outputs.clear()
        self._parked.clear(self._player.at_ms)
        deciders = {decider.name: decider for decider in self._service.deciders}
        taken = {
            (known.decider, known.key): known.entry
            async for known in rerun_changelog(self._log, (changelog, self._partition), deciders)
            if known.entry is not None
        }
        for name, table in self._tables.items():
            there = {key for key, _ in table.entries.all()}
            for key in sorted(there | {key for decider, key in taken if decider == name}):
                self._changes.take_over(table, key, taken.get((name, key), KeyedState()), self._player.at_ms)

    # --- from one fold to the next

    def _restore(self, record: Record) -> None:
        """Take up what an earlier fold has carried on."""
        packed = record.value or b""
        match record.type:
            case "task":
                self._next_entry, self._player.at_ms, positions, _ = from_json(packed)
                for topic in filter(self._player.inputs.has, positions):
                    self._scanner.start((topic, self._partition), positions[topic])
                    self._player.inputs.begin(topic, positions[topic])
            case "state":
                table = self._tables[record.source or ""]
                table.entries.put(*table.coder.named(packed))
            case "effect":
                self._effects.restore(packed)
            case _:
                self._parked.restore(packed)

    def rows(self) -> Iterable[pa.RecordBatch]:
        """See `Visitor.rows`."""
        return self._rows.full()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """See `Visitor.finish`: what is still open, with what a later fold goes on from."""
        yield from self._rows.rest()
        number, service = self._number, self._service.name
        for name, table in self._tables.items():
            entries, pack = table.entries, table.coder.pack
            found = ((table.row(key, entry, self._partition), pack(key, entry)) for key, entry in entries.all())
            yield from self._rows.opened(table.name, number, STATE_KIND, name, found)
            due = ((row, None) for key, entry in entries.all() for row in table.due_rows(service, key, entry))
            yield from self._rows.opened(DEADLINES, number, "", name, due)
        yield from self._rows.opened(EFFECTS, number, EFFECT_KIND, "", self._effects.open())
        yield from self._rows.opened(PARKED, number, "", "", ((row, None) for row in self._effects.parked()))
        yield from self._rows.opened(PARKED, number, PARKED_KIND, "", self._parked.open())
        positions = {topic: offset for topic, offset in self._player.inputs.positions.items() if offset}
        task: list[Any] = [self._next_entry, self._player.at_ms, positions, self._outputs_from()]
        yield from self._rows.opened("", number, TASK_KIND, "", [(None, to_json(task))])

    def _outputs_from(self) -> dict[str, int]:
        """Return from where on a later fold reads outputs: what nothing has claimed yet, and what is beyond the ends."""
        if self._clock.time(self._outputs_ms) >= self._clock.time(self._player.at_ms):
            self._leave()
        places = {f"{topic}/{n}": end for (topic, n), end in self._ends.items() if topic in self._emitted_to}
        return {place: min(end, self._left.get(place, end)) for place, end in places.items()}

    def _leave(self) -> None:
        """Forget the outputs that nothing has claimed, and remember from where on to read them again."""
        for record in self._scanner.leave():
            place = f"{record.topic}/{record.partition}"
            self._left[place] = min(record.offset, self._left.get(place, record.offset))

    def close(self) -> None:
        """See `Visitor.close`."""
        self._spill.close()


def _how(act: Released | Discarded) -> str:
    if isinstance(act, Discarded):
        return "discarded"
    return "retried" if act.edit is None else "edited"
