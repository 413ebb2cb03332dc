"""Folds one task's past: what its journal did, in order, with the events that were consumed and emitted."""

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from analytics.audit.application import Run
from analytics.history.changing import KeyChanges, Plan, plans_of
from analytics.history.entries import Entries, SpillFile
from analytics.history.rows import StagedRows
from analytics.history.tables import DEADLINES, EFFECTS, ERRORS, PARKED, snake
from analytics.history.waiting import OpenEffects, ParkedInput, ParkedInputs
from eventlib.codec.base import UnknownSchema
from eventlib.errors import UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.log.record import Record, key_text
from eventlib.model.event import contract_of
from eventlib.model.identity import deadline_id
from eventlib.model.service import Service
from eventlib.replay.amendments import rerun_changelog
from eventlib.replay.journal import parked_input, with_refusals
from eventlib.replay.journal_steps import Refusal
from eventlib.replay.scanner import EmissionKey
from eventlib.replay.task_replayer import claimed
from eventlib.runtime.keyed_state import KeyedState
from eventlib.runtime.parking.control import edit_at
from eventlib.runtime.parking.parked import WAITS_BEHIND
from eventlib.runtime.parking.releasing import edited
from eventlib.runtime.records import JournalEntry, Step

Item = list[Any]
"""A record, and its event once it was decoded."""

EFFECT_KIND, PARKED_KIND, STATE_KIND, TASK_KIND = "effect", "parked", "state", "task"

_HOW = {"release": "retried", "edit": "edited", "discard": "discarded"}
_CHUNK = 1_000
_WORTH_TRIMMING = 512


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
        self._by_decider = {plan.decider.name: plan for plans in self._plans.values() for plan in plans}
        self._topics = {topic.name for topic in self._service.inputs}
        self._external = opened.external.topics
        self._inputs: dict[str, _Inputs] = {name: _Inputs() for name in self._topics}
        self._outputs: dict[EmissionKey, list[Item]] = {}
        self._outputs_ms = -1
        self._pending: dict[str, int] = {}
        self._next_entry = 0
        self._at_ms = 0
        self._is_held = False

    # --- rows

    def consume(self, record: Record, item: Item) -> None:
        """Take a possible input."""
        if not self._is_held:
            self._inputs[record.topic].add(item)

    def emit(self, record: Record, item: Item) -> None:
        """Take an output."""
        if record.timestamp_ms < self._at_ms:
            return  # of an entry that the version before has folded
        if record.timestamp_ms != self._outputs_ms:
            if self._outputs:
                self._drop_outputs()
            self._outputs_ms = record.timestamp_ms
        by = record.source, record.subject, record.causation_id
        known = self._outputs.get(by)
        if known is None:
            self._outputs[by] = [item]
        else:
            known.append(item)

    def restore(self, record: Record) -> None:
        """Take up what a fold up to an earlier position has carried on."""
        packed = record.value or b""
        match record.type:
            case "task":
                self._next_entry, self._at_ms, positions, _ = from_json(packed)
                for topic, position in positions.items():
                    if topic in self._inputs:
                        self._inputs[topic].next = position
            case "state":
                entries = self._entries[record.source or ""]
                key, entry = entries.coder.unpack(packed)
                entries.put(key, entry)
            case "effect":
                self._effects.restore(packed)
            case _:
                self._parked.restore(packed)

    def replay(self, record: Record) -> None:
        """Fold a journal entry, unless it, or one before it, has an input beyond the ends."""
        if self._is_held or record.offset < self._next_entry:
            return
        entry = self._log.codec.decode(JournalEntry, record.value or b"")
        if not all(self._is_within(step) for step in entry.steps if step.kind == "run"):
            self._is_held = True
            return
        if self._next_entry == 0 and not any(step.kind == "begin" for step in entry.steps):
            reason = f"the journal begins at offset {record.offset}: what was before is not known"
            self.rows.settle(ERRORS, (self._service.name, None, None, None, None, entry.at_ms, reason))
        if entry.at_ms != self._at_ms:
            self._pending.clear()
        if self._outputs and self._outputs_ms < entry.at_ms:
            self._outputs = {}
        self._at_ms, self._next_entry = entry.at_ms, record.offset + 1
        for step, refused in with_refusals(entry.steps):
            self._apply(step, refused)

    def _is_within(self, run: Step) -> bool:
        end = self._ends.get((run.topic, self._partition))
        return end is None or run.last < end

    def _drop_outputs(self) -> None:
        """Forget outputs that nothing has claimed, and remember from where on to read them again."""
        for items in self._outputs.values():
            for record, *_ in items:
                place = f"{record.topic}/{record.partition}"
                self._pending[place] = min(record.offset, self._pending.get(place, record.offset))
        self._outputs = {}

    # --- steps

    def _apply(self, step: Step, refused: Mapping[str, Refusal]) -> None:
        match step.kind:
            case "run":
                self._consume(step, refused)
            case "begin":
                self._seek(step.topic, step.first)
            case "reset":
                self._seek(step.topic, step.last)
            case "deadline":
                self._pass_deadline(step, refused.get(step.decider))
            case "answer":
                self._answer(step)
            case "stall":
                self._effects.park(step.request, self._at_ms, step.detail)
            case "switch":
                self._take_over(step.topic)
            case "release" | "edit" | "discard" if step.topic:
                self._release(step, refused.get(step.decider))
            case "release" | "discard":
                self._effects.unpark(step.request, self._at_ms, _HOW[step.kind])
            case _:
                pass  # of operators, and changes nothing here

    def _consume(self, run: Step, refused: Mapping[str, Refusal]) -> None:
        inputs = self._inputs.get(run.topic)
        if inputs is None:
            return  # the control topic, or one that the current code does not consume
        for item in inputs.take(run.first, run.last):
            if refused and item[0].offset == run.last:
                self._refuse(item, refused)
            else:
                self._handle(item, None)

    def _handle(self, item: Item, only: Plan | None) -> None:
        record: Record = item[0]
        is_external = record.topic in self._external
        if is_external:
            record = self._settled(item)
        plans: Sequence[Plan] = self._plans_of(record, is_external=is_external) if only is None else (only,)
        key = key_text(record)
        for plan in plans:
            if self._parked:
                self._parked.go_on((plan.name, key), self._at_ms)
            cause_id = f"{record.topic}/{record.partition}/{record.offset}" if is_external else record.event_id
            by = plan.source, key, record.event_id
            emitted = claimed(self._outputs, by, cause_id, plan.name) if self._outputs else ()
            event = item[1] or self._event(item)
            for each in emitted:
                if each[1] is None:
                    self._event(each)
            self._changes.handle(plan, key, record, event, emitted, self._at_ms)

    def _plans_of(self, record: Record, *, is_external: bool) -> Sequence[Plan]:
        return self._plans.get(self._log.external.type_of(record) if is_external else record.type, ())

    def _refuse(self, item: Item, refused: Mapping[str, Refusal]) -> None:
        is_external = item[0].topic in self._external
        record = self._settled(item) if is_external else item[0]
        for plan in self._plans_of(record, is_external=is_external):
            refusal = refused.get(plan.name)
            if refusal is None:
                self._handle(item, plan)
            elif refusal.kind == "park":
                self._park(plan, key_text(record), record, refusal.reason, item)

    def _park(self, plan: Plan, key: str, record: Record, reason: str, item: Item) -> None:
        event = item[1] or self._event(item)
        saga = plan.saga(key, event, record.correlation_id or record.event_id)
        attempts = int(reason != WAITS_BEHIND)
        about = record.topic, record.offset, saga, self._at_ms, reason, record.event_id, record.type, attempts
        self._parked.park((plan.name, key), ParkedInput(*about))

    def _release(self, step: Step, refused: Refusal | None) -> None:
        plan, name = self._by_decider.get(step.decider), (step.decider, step.key)
        record = self._run(parked_input(self._log, (step.topic, self._partition), step.first))
        if refused is not None and refused.kind == "park":
            if plan is not None:
                self._park(plan, step.key, record, refused.reason, [record, None])
            return
        self._parked.release(name, record.topic, record.offset, self._at_ms, _HOW[step.kind])
        if refused is not None or step.kind == "discard" or plan is None:
            return
        shown = record
        if step.kind == "edit":
            place = self._service.control.name, self._partition
            shown = edited(record, self._run(edit_at(self._log, place, step.last)))
        item: Item = [shown, None]
        event = self._event(item)
        self._handle([record.replace(type=shown.type), event], plan)

    def _pass_deadline(self, step: Step, refused: Refusal | None) -> None:
        plan, key, name = self._by_decider.get(step.decider), step.key, step.detail
        if plan is None:
            return
        cause_id = deadline_id(plan.name, key, name, step.first)
        if refused is not None:
            saga = plan.saga(key, None, plan.entries.get(key).correlation_id)
            about = "", step.first, saga, self._at_ms, refused.reason, cause_id, name, 1
            self._parked.park((plan.name, key), ParkedInput(*about))
            return
        if self._parked:
            self._parked.go_on((plan.name, key), self._at_ms)
        of_key = [by for by in self._outputs if by[:2] == (plan.source, key)]
        emitted = next((found for by in of_key if (found := claimed(self._outputs, by, cause_id, plan.name))), ())
        for each in emitted:
            self._event(each)
        self._changes.pass_deadline(plan, key, (name, step.first, cause_id), emitted, self._at_ms)

    def _answer(self, step: Step) -> None:
        by = f"{self._service.emits_as}/{step.decider}", step.key, step.request
        emitted = claimed(self._outputs, by, step.request, step.decider)
        self._effects.answer(step.request, self._at_ms, emitted[0][0].type if emitted else "unknown")

    def _take_over(self, changelog: str) -> None:
        """Replace the task's states by a rerun's, and forget what was emitted for them."""
        self._outputs = {}
        self._parked.clear(self._at_ms)
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
                self._changes.take_over(plan, key, taken.get((name, key), KeyedState()), self._at_ms)

    def _seek(self, topic: str, offset: int) -> None:
        """Go on at any offset; what was passed is read from the log again."""
        inputs = self._inputs.get(topic)
        if inputs is None:
            return
        end, inputs.next = inputs.next, offset
        while offset < end:
            records = self._run(self._log.port.read(topic, self._partition, offset, min(_CHUNK, end - offset)))
            if not records:
                break
            for record in records:
                inputs.add([record, None])
            offset = records[-1].offset + 1

    # --- events

    def _event(self, item: Item) -> Any:
        """Return an item's event, or why it has none."""
        if item[1] is None:
            item[1] = self._decoded(item[0])
        return item[1]

    def _decoded(self, record: Record) -> Any:
        try:
            try:
                event = self._log.decode(record)
            except UnknownSchema:
                event = self._run(self._log.decode_now(record))
        except UndecodableRecord as error:
            return error
        if event is None:
            reason = f"{record.type} is not an event of this choreography"
            return UndecodableRecord(reason, record.topic, record.partition, record.offset)
        return event

    def _settled(self, item: Item) -> Record:
        event = self._event(item)
        record: Record = item[0]
        return record if isinstance(event, UndecodableRecord) else self._log.external.settled(record, event)

    # --- the end

    def finish(self) -> Iterator[Any]:
        """Yield what is still open, as batches, with what an increment goes on from."""
        yield from self.rows.rest()
        if self._outputs and self._outputs_ms >= self._at_ms:
            self._drop_outputs()
        number, service = self._number, self._service.name
        for name, entries in self._entries.items():
            plan, pack = self._by_decider[name], entries.coder.pack
            table = f"state_{snake(name)}"
            found = ((plan.row(key, entry, self._partition), pack(key, entry)) for key, entry in entries.all())
            yield from self.rows.opened(table, number, STATE_KIND, name, found)
            due = ((row, None) for key, entry in entries.all() for row in plan.due_rows(service, key, entry))
            yield from self.rows.opened(DEADLINES, number, "", name, due)
        yield from self.rows.opened(EFFECTS, number, EFFECT_KIND, "", self._effects.open())
        yield from self.rows.opened(PARKED, number, "", "", ((row, None) for row in self._effects.parked()))
        yield from self.rows.opened(PARKED, number, PARKED_KIND, "", self._parked.open())
        positions = {topic: inputs.next for topic, inputs in self._inputs.items() if inputs.next}
        task = to_json([self._next_entry, self._at_ms, positions, self._outputs_from()])
        yield from self.rows.opened("", number, TASK_KIND, "", iter([(None, task)]))

    def _outputs_from(self) -> dict[str, int]:
        """Return from where on an increment reads outputs: what nothing has claimed yet, and what is beyond the ends."""
        topics = {contract_of(event).topic.name for event in self._service.emits}
        return {f"{t}/{p}": self._pending.get(f"{t}/{p}", end) for (t, p), end in self._ends.items() if t in topics}

    def close(self) -> None:
        """Remove what was written to the disk."""
        self._spill.close()


class _Inputs:
    """The records of one topic that are not consumed yet, in order; `next` is the offset after the last consumed one."""

    __slots__ = ("_at", "_items", "next")

    def __init__(self) -> None:
        self.next = 0
        self._items: list[Item] = []
        self._at = 0

    def add(self, item: Item) -> None:
        """Add a record, unless it was consumed."""
        offset, items = item[0].offset, self._items
        if offset < self.next:
            return
        if items and offset < items[-1][0].offset:
            insort(items, item, lo=self._at, key=_offset)
        else:
            items.append(item)

    def take(self, first: int, last: int) -> list[Item]:
        """Return the records from `first` up to `last`, and pass over those before."""
        items, at = self._items, self._at
        while at < len(items) and items[at][0].offset < first:
            at += 1
        begin = at
        while at < len(items) and items[at][0].offset <= last:
            at += 1
        found = items[begin:at]
        if at > _WORTH_TRIMMING:
            del items[:at]
            at = 0
        self._at, self.next = at, max(self.next, last + 1)
        return found


def _offset(item: Item) -> int:
    offset: int = item[0].offset
    return offset
