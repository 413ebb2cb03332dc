"""Plays a task's journal by decider: who handled which input, and what was emitted for it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from eventlib.errors import UndecodableRecord
from eventlib.model.event import Event
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.replay.journal_steps import (
    Act,
    Answered,
    Consumed,
    DeadlinePassed,
    Discarded,
    Refusal,
    Released,
    TookOver,
)
from eventlib.replay.partition_buffer import Buffered, EmissionKey, claimed
from eventlib.replay.plans import Plan
from eventlib.replay.player import Player
from eventlib.replay.scanner import LogScanner
from eventlib.replay.task_inputs import TaskInputs
from eventlib.runtime.bootstrap import InputStart, mark_of
from eventlib.runtime.records import JournalEntry, Positions


class Parked(NamedTuple):
    """An input that a decider could not handle, and why."""

    decider: str
    key: str
    item: Buffered
    reason: str


class DeciderVisitor(Protocol):
    """Makes something of what the deciders of a task did."""

    def handle_all(self, items: Sequence[Buffered]) -> None:
        """Take inputs of one topic that all their deciders handled: see `DeciderPlayer.each`."""

    def handle(self, plan: Plan, record: Record, event: Event | UndecodableRecord, *, waited: bool = False) -> None:
        """Take an input that a decider handled; `waited`: it was parked before."""

    def pass_deadline(self, deadline: DeadlinePassed) -> None:
        """Take a deadline that passed."""

    def note(self, act: Act | Parked, emitted: Sequence[Buffered] = ()) -> None:
        """Take any other act; `emitted` is an effect's answer. A release comes before its input is handled."""

    async def take_over(self, changelog: str) -> None:
        """Replace the task's states by those in a rerun's changelog."""


class DeciderPlayer:
    """Plays one task, transaction by transaction in the order of time; its inputs and outputs come from a scanner.

    `parked` has the deciders' keys of which an input or a deadline waits; `outputs` those of the time that are not claimed.
    """

    def __init__(
        self,
        task: tuple[Service, int],
        scanner: LogScanner,
        plans: Mapping[str | None, Sequence[Plan]],
        visitor: DeciderVisitor,
    ) -> None:
        self.service, self.partition = task
        self.at_ms = 0
        self.inputs = TaskInputs(scanner, task, {topic.name for topic in self.service.inputs})
        self.parked: set[tuple[str, str]] = set()
        self.outputs: dict[EmissionKey, list[Buffered]] = {}
        self.plans = plans
        self.scanner = scanner
        self._player = Player(scanner.log, task, self.inputs)
        self._external = scanner.log.external
        self._past_ends: dict[str, int] = {}
        self._visitor = visitor

    def resume(self, positions: Positions) -> None:
        """Continue where the task was at these positions, instead of at its beginning."""
        self.at_ms = positions.at_ms
        for topic, offset in positions.next.items():
            self.inputs.begin(topic, offset)
        if self.service.effects == "new":
            self._past_ends.update(positions.past)

    async def play(self, entry: JournalEntry) -> None:
        """Play the next transaction. Raises: ContractError for an input that is not there any more."""
        self.at_ms, name = entry.at_ms, self.service.name
        self.outputs = self.scanner.outputs(name, self.scanner.time(name, self.partition, entry.at_ms))
        for act in await self._player.play(entry):
            await self._visit(act)

    async def _visit(self, act: Act) -> None:
        match act:
            case Consumed():
                self._visitor.note(act)
                self._consume(act)
            case DeadlinePassed(refused=None):
                self._visitor.pass_deadline(act._replace(at_ms=self.at_ms))
            case Released():
                await self._release(act)
            case Answered(decider, key, request_id):  # external; its decider consumes it later
                self._visitor.note(act, self.claim((self.source(decider), key, request_id), request_id, decider))
            case TookOver(changelog):
                self.parked.clear()
                await self._visitor.take_over(changelog)
            case _:
                if isinstance(act, DeadlinePassed):
                    self.parked.add((act.decider, act.key))
                elif isinstance(act, Discarded):
                    self.parked.discard((act.decider, act.key))
                elif isinstance(act, InputStart) and self.service.effects == "new":
                    self._past_ends[act.topic] = act.past_end
                self._visitor.note(act)

    def each(self, items: Sequence[Buffered]) -> None:
        """Let the visitor handle inputs one by one, with each of their deciders."""
        for item in items:
            for plan in self._plans_of(item.record):
                self._visitor.handle(plan, item.record, self.scanner.event(item))

    # --- who handled what

    def source(self, decider: str) -> str:
        """Return the source of what a decider emits."""
        return f"{self.service.emits_as}/{decider}"

    def is_external(self, topic: str) -> bool:
        """Return whether others write a topic."""
        return topic in self._external.topics

    def _plans_of(self, record: Record) -> Sequence[Plan]:
        type_ = self._external.type_of(record) if self.is_external(record.topic) else record.type
        return self.plans.get(type_, ())

    def _consume(self, act: Consumed) -> None:
        items, refused = act.inputs, act.refused
        if act.first < self._past_ends.get(act.topic, 0):
            event_of = self.scanner.event
            items = [Buffered(self._marked(item.record), event_of(item)) for item in items]
        if not (refused and items and items[-1].record.offset == act.last):
            self._visitor.handle_all(items)
            return
        self._visitor.handle_all(items[:-1])
        self._refuse(items[-1], refused)

    def _marked(self, record: Record) -> Record:
        """Return an input as its deciders saw it: those older than the service's first start are marked."""
        if record.offset < self._past_ends[record.topic]:
            return record.replace(headers=record.headers + mark_of(self.service.emits_as))
        return record

    def _refuse(self, item: Buffered, refused: Mapping[str, Refusal]) -> None:
        for plan in self._plans_of(item.record):
            refusal = refused.get(plan.decider.name)
            if refusal is None:
                self._visitor.handle(plan, item.record, self.scanner.event(item))
            elif refusal.kind == "park":
                self._park(Parked(plan.decider.name, key_text(item.record), item, refusal.reason))

    def _park(self, parked: Parked) -> None:
        self.parked.add(parked[:2])
        self._visitor.note(parked)

    async def _release(self, act: Released) -> None:
        if act.refused is not None and act.refused.kind == "park":
            self._park(Parked(act.decider, act.key, Buffered(act.record), act.refused.reason))
            return
        self.parked.discard((act.decider, act.key))
        self._visitor.note(act)
        if act.refused is not None:
            return
        (item,) = await self.scanner.load([act.shown])
        record, event = act.record.replace(type=item.record.type), self.scanner.event(item)
        for plan in self._plans_of(record):
            if plan.decider.name == act.decider:
                self._visitor.handle(plan, record, event, waited=True)

    # --- what was emitted

    def claim(self, by: EmissionKey, cause_id: str, decider: str) -> Sequence[Buffered]:
        """Remove and return a cause's outputs."""
        return claimed(self.outputs, by, cause_id, decider)

    def claim_deadline(self, deadline: DeadlinePassed) -> Sequence[Buffered]:
        """Remove and return the outputs of a deadline, which do not name it as their cause."""
        source, key = self.source(deadline.decider), deadline.key
        all_of_key = [by for by in self.outputs if by[:2] == (source, key)]
        found = (self.claim(by, deadline.id, deadline.decider) for by in all_of_key)
        return next((each for each in found if each), ())
