"""Finds the input, deadline or effect that a task's owners are lost with, one after the other, so that it can be parked."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from eventlib.eventlog import EventLog
from eventlib.log.base import Claim, TopicPartition
from eventlib.model.event import Event
from eventlib.model.evolution import wire_name, wire_name_of
from eventlib.model.record import Record
from eventlib.runtime.pending import PendingEffects
from eventlib.runtime.records import DUE, EFFECT, Step, due_key
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Answer, Inputs, Release

_log = logging.getLogger("eventlib.runtime")

LOST_OWNERS = "lost_owners"
"""The changelog key of the count."""

_NOTHING = "-"
_MOST_INPUTS = 6_000  # positions of inputs that lead to nothing are committed after 5,000 of them, and a batch is 500
_MOST_EFFECTS = 500


@wire_name("LostOwners")
@dataclass(frozen=True)
class LostOwners:
    """How many owners a task has lost, by what they had in hand.

    `losses` counts those that were lost while they handled one thing alone; 0 for what one of them had in hand among
    other things. Its keys name an input as TOPIC@OFFSET, a deadline by its key in the store, an effect by its request's id.
    `alone` is the one thing that is handled by itself now: "" for everything together, "-" for nothing. `epoch` is that of
    the owner that wrote this.
    """

    epoch: int = 0
    losses: dict[str, int] = field(default_factory=dict)
    alone: str = ""


class CarefulTask(Protocol):
    """The committer of a task, as far as `Suspects` drives it."""

    task: Task
    claim: Claim
    answers: list[Answer]
    pending: PendingEffects

    @property
    def unread(self) -> list[TopicPartition]:
        """The inputs that are not read, since they are paused."""

    def holds_effect(self, request: Record) -> bool:
        """Tell whether an effect is paused."""

    async def next_inputs(self, now_ms: int) -> Inputs | None:
        """Return what is ready for a transaction; None: nothing is."""

    async def commit_alone(self, inputs: Inputs) -> None:
        """Commit a transaction that no other task takes part in, whatever comes of it."""


class Suspects:
    """The inputs and effects that a task's owners may have been lost with, and how often; empty unless the last owner was lost.

    When two owners in a row were lost with the same in hand, the next one handles everything alone (`is_careful`): a mark on
    the changelog says what, so that what `most` owners were lost with, each while it handled nothing else, is known.
    Guarantee: an owner that gave the task back ends the count, and so does each commit that gets past what was in hand.
    """

    def __init__(
        self, worker: CarefulTask, log: EventLog, most: int, start_effect: Callable[[Record, Event | None], bool]
    ) -> None:
        self.is_careful = False
        self.in_hand: str | None = None
        """The effect that runs alone, by its request's id."""
        self._worker = worker
        self._task = worker.task
        self._name = f"{worker.task.service.name}/{worker.task.partition}"
        self._log = log
        self._most = most
        self._start_effect = start_effect
        self._losses: dict[str, int] = {}
        self._until: dict[str, int] = {}
        self._due_ms = 0
        self._effects = deque[str]()
        self._untried = set[str]()
        self._tried = set[str]()
        self._marked = ""

    async def count(self, now_ms: int, inputs: Iterable[str], *, was_lost: bool) -> None:
        """Count the loss of the owner before, if it was one, before anything is handled. Raises: OwnershipLost."""
        known = await self._known()
        is_own = known is not None and known.epoch == self._worker.claim.epoch
        at_hand = await self._at_hand(now_ms, inputs) if self._most and (was_lost or is_own) else []
        if not at_hand:
            if known is not None:
                await self._write(None)
            return
        before = known or LostOwners()
        losses = dict(before.losses)
        if before.alone not in {"", _NOTHING} and not is_own:
            losses[before.alone] = losses.get(before.alone, 0) + 1
        self.is_careful = bool(before.alone) or (not is_own and any(each in losses for each in at_hand))
        if not self.is_careful:
            self._losses = dict.fromkeys(at_hand, 0)
            await self._mark("")
            return
        self._losses = {suspect: count for suspect, count in losses.items() if count and self._is_open(suspect)}
        await self._mark(_NOTHING)
        _log.warning("%s has lost several owners in a row: what they had in hand is handled one by one", self._name)

    # --- one thing after the other

    async def turn(self, now_ms: int) -> None:
        """Commit a transaction of one thing, or start one effect: the next owner knows what this one was lost with."""
        worker = self._worker
        if worker.answers:
            await worker.commit_alone(Inputs(now_ms, answers=list(worker.answers)))
        if self.effect_alone() is not None:
            return
        request = self._next_effect()
        if request is not None:
            await self._start_alone(request)
            return
        ready = await worker.next_inputs(now_ms)
        suspect, inputs = ("", None) if ready is None else self._first(ready)
        if inputs is None:
            if not self._is_behind():
                self._losses, self.is_careful = {}, False
                await self._write(None)
            elif self._marked != _NOTHING:  # an owner that is lost while it waits is not lost with what it tried before
                await self._mark(_NOTHING)
            return
        if suspect:
            await self._mark(suspect)
            if why := self._why_parked(suspect):
                inputs = _unhandled(inputs, why)
        await worker.commit_alone(inputs)
        self._losses.pop(suspect, None)

    def _first(self, ready: Inputs) -> tuple[str, Inputs | None]:
        """Return the first of what is ready, and its name where it runs code of the application; None: there is none."""
        if ready.damaged is not None:
            return "", ready
        if ready.release is not None:
            control = ready.release.control
            return "" if control is None else _named(control), ready
        deciders_of, records = self._task.processor.inputs.deciders_of, ready.records
        handled = next((number for number, each in enumerate(records) if deciders_of(each) is not None), len(records))
        alone = Inputs(ready.now_ms, records[: handled or 1], due_ms=ready.due_ms, most_due=1)
        if records:  # nothing comes of those before the first one that is handled
            return ("" if handled else _named(records[0])), replace(alone, due_ms=None)
        due = "" if ready.due_ms is None else self._first_due(ready.due_ms)
        return due, alone if due else None

    def start(self, request: Record, event: Event | None) -> bool:
        """Start an effect, or park it; False when it waits at a limit, or for `may_begin`."""
        request_id, answers = request.event_id, self._worker.answers
        if self.is_careful and (why := self._why_parked(request_id)):
            del self._losses[request_id]  # a retry begins anew
            answers.append(Answer(request_id, None, why))
        if self.is_careful and any(each.request_id == request_id for each in answers):
            return False
        return self._start_effect(request, event)

    def may_begin(self, request_id: str) -> bool:
        """Tell whether an effect may begin that waits at no limit any more; one that may not begins in a later turn, alone."""
        if not self.is_careful or request_id == self.in_hand or request_id in self._tried:
            return True
        if request_id not in self._effects:
            self._effects.append(request_id)
        return False

    async def _start_alone(self, request: Record) -> None:
        if not self._worker.holds_effect(request):  # one that is paused gives its place at the limit back
            await self._mark(request.event_id)
        self._effects.popleft()  # only now: where the log does not take the mark, the next turn begins with the same effect
        self.in_hand = request.event_id
        self._start_effect(request, None)

    def _next_effect(self) -> Record | None:
        while self._effects:
            request = self._worker.pending.find(self._effects[0])
            if request is not None:
                return request
            self._effects.popleft()
        return None

    @property
    def has_more(self) -> bool:
        """Whether a turn without inputs changes something; it changes nothing while it waits for an effect, or for inputs."""
        if not self.is_careful or self.effect_alone() is not None:
            return False
        return bool(self._effects) or self._marked != _NOTHING or not self._is_behind()

    def effect_alone(self) -> str | None:
        """Return the request's id of the effect that runs alone just now: nothing else may begin. One that is over has had its turn."""
        if self.in_hand is not None:
            request = self._worker.pending.find(self.in_hand)
            if request is None:
                self.survived()
            elif self._worker.holds_effect(request):
                self.in_hand = None
        return self.in_hand

    def survived(self) -> None:
        """Take note that the effect in hand has had its turn: it is answered, or waits for its next attempt."""
        if self.in_hand is not None:
            self._losses.pop(self.in_hand, None)
            self._tried.add(self.in_hand)
            self.in_hand = None

    def _why_parked(self, suspect: str) -> str | None:
        """Return why an input, a deadline or an effect is to be parked; None when it is to be handled."""
        count = self._losses.get(suspect, 0)
        if count < self._most:
            return None
        why = f"its owner was lost {count} times while handling it alone: its process died, or was blocked for too long"
        _log.error("%s parks %s: %s", self._name, suspect, why)
        return why

    # --- what was in hand

    async def _at_hand(self, now_ms: int, inputs: Iterable[str]) -> list[str]:
        """Return what may have been in hand: the next input of each topic, the first deadline, the effects."""
        found, task = list[str](), self._task
        for topic in inputs:
            at, end = task.positions.next[topic], await self._log.port.end(topic, task.partition)
            if at < end:
                self._until[topic] = min(end, at + _MOST_INPUTS)
                found.append(f"{topic}@{at}")
        self._due_ms = now_ms
        if due := self._first_due(now_ms):
            found.append(due)
        holds = self._worker.holds_effect
        pending = (each for each in task.state.committed(EFFECT) if not each.headers and not holds(each))
        effects = [each.event_id for each in islice(pending, _MOST_EFFECTS)]
        self._untried = {*effects}
        return found + effects

    def _first_due(self, now_ms: int) -> str:
        """Return the first deadline that is due, as a suspect; "" when there is none."""
        due = self._task.state.due_by(now_ms, 1, self._task.processor.waits)
        return due_key(*due[0]) if due else ""

    def _is_open(self, suspect: str) -> bool:
        """Tell whether a suspect is still to be handled; a deadline may be, while any is due."""
        topic, _, offset = suspect.rpartition("@")
        if topic in self._until:
            return self._task.positions.next[topic] <= int(offset)
        if suspect.startswith(DUE):
            return bool(self._first_due(self._due_ms))
        return self._worker.pending.find(suspect) is not None

    def _is_behind(self) -> bool:
        """Tell whether the task still has something of what was in hand."""
        at, held = self._task.positions.next, {topic for topic, _ in self._worker.unread}
        inputs = any(topic not in held and at[topic] < until for topic, until in self._until.items())
        return inputs or bool(self._effects or self._first_due(self._due_ms)) or self._waits_for_effects()

    def _waits_for_effects(self) -> bool:
        """Tell whether an effect of what was in hand has not been tried alone: it waits at a limit."""
        requests = map(self._worker.pending.find, self._untried - self._tried)
        return any(each is not None and not self._worker.holds_effect(each) for each in requests)

    async def _mark(self, alone: str) -> None:
        """Record what is handled alone from now on. Raises: OwnershipLost; LogUnavailable."""
        await self._write(LostOwners(self._worker.claim.epoch, self._losses, alone))
        self._marked = alone

    async def _known(self) -> LostOwners | None:
        record, codec = self._task.state.get(LOST_OWNERS), self._log.codec
        if record is None:
            return None
        value = record.value or b""
        return await codec.known(lambda: codec.decode(LostOwners, value))

    async def _write(self, lost: LostOwners | None) -> None:
        """Write the count beside the task's transactions: it says nothing about what they do."""
        task = self._task
        place = task.service.changelog.name, task.partition, -1, task.positions.at_ms, LOST_OWNERS.encode()
        value = None if lost is None else self._log.codec.encode(lost)
        record = Record(*place, value, type=None if lost is None else wire_name_of(LostOwners))
        (offset,) = await self._log.port.append([record], self._worker.claim)
        task.state.restore([record], offset + 1)


def _named(record: Record) -> str:
    return f"{record.topic}@{record.offset}"


def _unhandled(inputs: Inputs, why: str) -> Inputs:
    """Return what is ready as what is parked; a retry of what is parked is refused."""
    control = None if inputs.release is None else inputs.release.control
    if control is None:
        return replace(inputs, unhandled=why)
    refusal = Step("refuse", control.topic, control.offset, control.offset, detail=why)
    return replace(inputs, release=Release(control, refusal=refusal))
