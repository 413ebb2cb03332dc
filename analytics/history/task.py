"""Folds one task's past: what its journal did, in order, with the events that were consumed and emitted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pydantic_core import from_json, to_json

from analytics.audit.application import Run
from analytics.history.changing import KeyChanges, Plan, plans_of
from analytics.history.entries import Entries, SpillFile
from analytics.history.records import TaskRecords
from analytics.history.rows import StagedRows
from analytics.history.tables import DEADLINES, EFFECTS, ERRORS, PARKED
from analytics.history.waiting import OpenEffects, ParkedInput, ParkedInputs
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.identity import deadline_id
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.replay.amendments import rerun_changelog
from eventlib.replay.journal import parked_input, with_refusals
from eventlib.replay.journal_steps import Refusal
from eventlib.replay.partition_buffer import Buffered
from eventlib.runtime.keyed_state import KeyedState
from eventlib.runtime.parking.control import edit_at
from eventlib.runtime.parking.parked import WAITS_BEHIND
from eventlib.runtime.parking.releasing import edited
from eventlib.runtime.records import JournalEntry, Step, TaskClock

EFFECT_KIND, PARKED_KIND, STATE_KIND, TASK_KIND = "effect", "parked", "state", "task"
"""What is carried from one fold to the next."""

_HOW = {"release": "retried", "edit": "edited", "discard": "discarded"}


_REAL = TaskClock()


class TaskFold:
    """One task's fold, from its rows in time order: journal entries after the inputs and outputs of their time.

    Only `evolve` is called, on what was consumed and emitted: so handlers that have changed since play no part, and
    what is proved is what `eventlib history` proves. `ends` are those of the inputs: an entry with an input beyond them
    is not folded, nor what comes after it.
    """

    def __init__(
        self,
        opened: EventLog,
        run: Run,
        task: tuple[Service, int, int],
        story: str,
        ends: Mapping[TopicPartition, int],
        clock: TaskClock = _REAL,
    ) -> None:
        self._service, self._partition, self._number = task
        self._log, self._run, self._ends = opened, run, ends
        self.rows = StagedRows(opened.choreography)
        self._spill = SpillFile()
        deciders = [decider for decider in self._service.deciders if decider.handlers]
        self._entries = {d.name: Entries(d, self._spill, len(deciders)) for d in deciders}
        self._effects = OpenEffects(self.rows)
        self._parked = ParkedInputs(self.rows, self._service.name)
        self._changes = KeyChanges(self.rows, self._service, self._effects)
        self._plans = plans_of(self._service, story, self._entries)
        self._by_decider = {each.name: each for plans in self._plans.values() for each in plans}
        self._records = TaskRecords(opened, run, task[:2], ends, clock)
        self._next_entry = 0
        self._is_held = False

    def take(self, record: Record, *, consumed: bool, emitted: bool) -> None:
        """Take a possible input, or an output, or both."""
        item = Buffered(record)
        if emitted:
            self._records.emit(item)
        if consumed and not self._is_held:
            self._records.consume(item)

    def restore(self, record: Record) -> None:
        """Take up what an earlier fold has carried on."""
        packed = record.value or b""
        match record.type:
            case "task":
                self._next_entry, at_ms, positions, _ = from_json(packed)
                self._records.restore(at_ms, positions)
            case "state":
                entries = self._entries[record.source or ""]
                entries.put(*entries.coder.unpack(packed))
            case "effect":
                self._effects.restore(packed)
            case _:
                self._parked.restore(packed)

    def replay(self, record: Record) -> None:
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
            self.rows.settle(ERRORS, (self._service.name, None, None, None, None, entry.at_ms, reason))
        self._records.begin(entry.at_ms)
        self._next_entry = record.offset + 1
        for step, refused in with_refusals(entry.steps):
            self._apply(step, refused)

    def _apply(self, step: Step, refused: Mapping[str, Refusal]) -> None:
        match step.kind:
            case "run":
                self._consume(step, refused)
            case "begin":
                self._records.seek(step.topic, step.first)
            case "reset" | "lose":
                self._move(step)
            case "deadline":
                self._pass_deadline(step, refused.get(step.decider))
            case "answer":
                self._answer(step)
            case "stall":
                self._effects.park(step.request, self._records.at_ms, step.detail)
            case "switch":
                self._take_over(step.topic)
            case "release" | "edit" | "discard" if step.topic:
                self._release(step, refused.get(step.decider))
            case "release" | "discard":
                self._effects.unpark(step.request, self._records.at_ms, _HOW[step.kind])
            case _:
                pass  # of operators, and changes nothing here

    def _move(self, step: Step) -> None:
        self._records.seek(step.topic, step.last)
        if step.kind == "lose":
            reason = f"inputs were gone before they were handled: {step.detail}"
            self.rows.settle(ERRORS, (self._service.name, None, None, None, None, self._records.at_ms, reason))

    def _consume(self, run: Step, refused: Mapping[str, Refusal]) -> None:
        for item in self._records.take(run.topic, run.first, run.last):
            record = self._records.seen(item)
            plans = self._plans.get(self._records.type_of(record), ())
            if refused and record.offset == run.last:
                self._refuse(item, record, plans, refused)
            else:
                self._go_on(record, plans)
                self._handle(item, record, plans)

    def _handle(self, item: Buffered, record: Record, plans: Sequence[Plan]) -> None:
        key, event_id = key_text(record), record.event_id
        is_external = record.topic in self._records.external
        cause_id = f"{record.topic}/{record.partition}/{record.offset}" if is_external else event_id
        for plan in plans:
            emitted = self._records.claim((plan.source, key, event_id), cause_id, plan.name)
            event = self._records.event(item)
            self._changes.handle(plan, key, record, event, emitted, self._records.at_ms)

    def _go_on(self, record: Record, plans: Sequence[Plan]) -> None:
        """End the wait of keys that are no longer parked, since an input is handled."""
        for plan in plans if self._parked else ():
            self._parked.go_on((plan.name, key_text(record)), self._records.at_ms)

    def _refuse(self, item: Buffered, record: Record, plans: Sequence[Plan], refused: Mapping[str, Refusal]) -> None:
        for plan in plans:
            refusal = refused.get(plan.name)
            if refusal is None:
                self._go_on(record, (plan,))
                self._handle(item, record, (plan,))
            elif refusal.kind == "park":
                self._park(plan, key_text(record), record, item, refusal.reason)

    def _park(self, plan: Plan, key: str, record: Record, item: Buffered, reason: str) -> None:
        saga = plan.saga(key, self._records.event(item), record.correlation_id or record.event_id)
        attempts = int(reason != WAITS_BEHIND)
        about = record.topic, record.offset, saga, self._records.at_ms, reason, record.event_id, record.type, attempts
        self._parked.park((plan.name, key), ParkedInput(*about))

    def _release(self, step: Step, refused: Refusal | None) -> None:
        plan, name = self._by_decider.get(step.decider), (step.decider, step.key)
        record = self._run(parked_input(self._log, (step.topic, self._partition), step.first))
        if refused is not None and refused.kind == "park":
            if plan is not None:
                self._park(plan, step.key, record, Buffered(record), refused.reason)
            return
        self._parked.release(name, record.topic, record.offset, self._records.at_ms, _HOW[step.kind])
        if refused is not None or step.kind == "discard":
            return
        shown = record
        if step.kind == "edit":
            place = self._service.control.name, self._partition
            shown = edited(record, self._run(edit_at(self._log, place, step.last)))
        event, seen = self._records.event(Buffered(shown)), record.replace(type=shown.type)
        plans = self._plans.get(self._records.type_of(seen), ())
        self._handle(Buffered(record, event), seen, [each for each in plans if each.name == step.decider])

    def _pass_deadline(self, step: Step, refused: Refusal | None) -> None:
        plan, key, name = self._by_decider.get(step.decider), step.key, step.detail
        if plan is None:
            return
        cause_id = deadline_id(plan.name, key, name, step.first)
        if refused is not None:
            saga = plan.saga(key, None, plan.entries.get(key).correlation_id)
            about = "", step.first, saga, self._records.at_ms, refused.reason, cause_id, name, 1
            self._parked.park((plan.name, key), ParkedInput(*about))
            return
        if self._parked:
            self._parked.go_on((plan.name, key), self._records.at_ms)
        emitted = self._records.claim_of_key(plan.source, key, cause_id)
        self._changes.pass_deadline(plan, key, (name, step.first, cause_id), emitted, self._records.at_ms)

    def _answer(self, step: Step) -> None:
        by = f"{self._service.emits_as}/{step.decider}", step.key, step.request
        emitted = self._records.claim(by, step.request, step.decider)
        self._effects.answer(step.request, self._records.at_ms, (emitted[0][0].type if emitted else None) or "unknown")

    def _take_over(self, changelog: str) -> None:
        """Replace the task's states by a rerun's, and forget what was emitted for them."""
        self._records.drop_outputs()
        self._parked.clear(self._records.at_ms)
        deciders = {decider.name: decider for decider in self._service.deciders}
        taken = dict[tuple[str, str], KeyedState]()

        async def read() -> None:
            async for known in rerun_changelog(self._log, (changelog, self._partition), deciders):
                if known.entry is not None:
                    taken[known.decider, known.key] = known.entry

        self._run(read())
        for name, plan in self._by_decider.items():
            there = {key for key, _ in plan.entries.all()}
            for key in sorted(there | {key for decider, key in taken if decider == name}):
                self._changes.take_over(plan, key, taken.get((name, key), KeyedState()), self._records.at_ms)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield what is still open, as batches, with what a later fold goes on from."""
        yield from self.rows.rest()
        number, service = self._number, self._service.name
        for name, plan in self._by_decider.items():
            entries, pack = plan.entries, plan.entries.coder.pack
            found = ((plan.row(key, entry, self._partition), pack(key, entry)) for key, entry in entries.all())
            yield from self.rows.opened(plan.table, number, STATE_KIND, name, found)
            due = ((row, None) for key, entry in entries.all() for row in plan.due_rows(service, key, entry))
            yield from self.rows.opened(DEADLINES, number, "", name, due)
        yield from self.rows.opened(EFFECTS, number, EFFECT_KIND, "", self._effects.open())
        yield from self.rows.opened(PARKED, number, "", "", ((row, None) for row in self._effects.parked()))
        yield from self.rows.opened(PARKED, number, PARKED_KIND, "", self._parked.open())
        task: list[Any] = [
            self._next_entry,
            self._records.at_ms,
            self._records.positions(),
            self._records.outputs_from(),
        ]
        yield from self.rows.opened("", number, TASK_KIND, "", [(None, to_json(task))])

    def close(self) -> None:
        """Remove what was written to the disk."""
        self._spill.close()
