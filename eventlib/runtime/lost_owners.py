"""Finds the input, deadline or effect that a task's owners are lost with, one after the other, so that it can be parked."""

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from eventlib.eventlog import EventLog
from eventlib.log.base import Claim
from eventlib.log.record import Record
from eventlib.model.evolution import wire_name, wire_name_of
from eventlib.runtime.records import DUE, EFFECT, due_key
from eventlib.runtime.task import Task

_log = logging.getLogger("eventlib.runtime")

LOST_OWNERS = "lost_owners"
"""The changelog key of the count."""

_LEAST = 2
"""At the first loss all that was in hand may have caused it: which one did shows only when it is alone."""

_DEADLINES = DUE
_NONE = "-"
_MOST_INPUTS = 6_000  # positions of inputs that lead to nothing are committed after 5,000 of them, and a batch is 500
_MOST_EFFECTS = 500


@wire_name("LostOwners")
@dataclass(frozen=True)
class LostOwners:
    """How many owners in a row a task has lost, by what they may have had in hand.

    `losses` has the numbers: of inputs as TOPIC@OFFSET, from which on the task goes on there; of deadlines by the first one
    that is due; of effects by their requests' ids. `alone` is what is handled by itself just now: "" for all of them
    together, "-" for nothing. `epoch` is that of the owner who wrote it.
    """

    epoch: int = 0
    losses: dict[str, int] = field(default_factory=dict)
    alone: str = ""


class Suspects:
    """What a task's owners may have been lost with, and how often; empty unless the owner before was lost.

    An owner that is lost once more lets the next one handle everything alone (`is_careful`): a mark on the changelog
    says what, so that what `most` owners were lost with is known. Guarantee: an owner that gave the task back ends the
    count, and so does each commit that gets past what was in hand.
    """

    def __init__(self, task: Task, claim: Claim, log: EventLog, most: int) -> None:
        self.is_careful = False
        self.in_hand: str | None = None
        """The effect that runs alone, by its request's id."""
        self._task = task
        self._claim = claim
        self._log = log
        self._most = max(most, _LEAST) if most else 0
        self._losses: dict[str, int] = {}
        self._until: dict[str, int] = {}
        self._due = ""
        self._effects = deque[str]()
        self._seen = set[str]()

    async def count(
        self, now_ms: int, inputs: Collection[str], holds: Callable[[Record], bool], *, was_lost: bool
    ) -> None:
        """Count the loss of the owner before, if it was one, before anything is handled. Raises: OwnershipLost."""
        known = await self._known()
        is_own = known is not None and known.epoch == self._claim.epoch
        if not self._most or not (was_lost or is_own):
            if known is not None:
                await self._write(None)
            return
        before = known or LostOwners()
        for lane, suspect in (await self._at_hand(now_ms, inputs, holds)).items():
            is_suspected = not is_own and before.alone in {"", suspect}
            count = before.losses.get(suspect, 0) + is_suspected
            if count:
                self._losses[lane] = count
        self.is_careful = any(count >= self._most - 1 for count in self._losses.values())
        if self._losses:
            await self.mark(_NONE if self.is_careful else "")
        elif known is not None:
            await self._write(None)
        if self.is_careful:
            name = f"{self._task.service.name}/{self._task.partition}"
            count = max(self._losses.values())
            _log.warning("%s has lost %d owners in a row: what they had in hand is handled one by one", name, count)

    def why_parked(self, suspect: str) -> str | None:
        """Return why an input, a deadline or an effect is to be parked; None when it is to be handled."""
        count = self._losses.get(self._lane_of(suspect), 0)
        if count < self._most:
            return None
        del self._losses[self._lane_of(suspect)]  # what comes behind it is innocent, as far as that is known
        return f"its owner was lost {count} times while handling it: its process died, or was blocked for too long"

    async def mark(self, alone: str) -> None:
        """Record what is handled alone from now on. Raises: OwnershipLost; LogUnavailable."""
        if alone.startswith(_DEADLINES):
            self._due = alone
        passed = {topic for topic, until in self._until.items() if self._task.positions.next[topic] >= until}
        losses = {self._suspect(lane): count for lane, count in self._losses.items() if lane not in passed}
        await self._write(LostOwners(self._claim.epoch, losses, alone))

    async def end_if_innocent(self, now_ms: int, held: Collection[str]) -> bool:
        """Handle everything together again once the task is past all that was in hand; False when it is not."""
        if self._effects or any(self._is_ahead(lane, now_ms, held) for lane in self._losses):
            return False
        self._losses, self.is_careful = {}, False
        await self._write(None)
        return True

    # --- effects, which go out one by one

    def put_off(self, request: Record) -> None:
        """Let an effect wait for its turn; one that had it runs, or waits for its next attempt."""
        if request.event_id not in self._seen:
            self._seen.add(request.event_id)
            self._effects.append(request.event_id)

    def next_effect(self, find: Callable[[str], Record | None], holds: Callable[[Record], bool]) -> Record | None:
        """Return the effect that is to run next; None when there is none."""
        while self._effects:
            request_id = self._effects.popleft()
            request = find(request_id)
            if request is not None and not holds(request):
                return request
            self._seen.discard(request_id)  # a paused one is put off again when it goes on
        return None

    def survived(self) -> None:
        """Take note that the effect in hand has had its turn: it is answered, or waits for its next attempt."""
        if self.in_hand is not None:
            self._losses.pop(self.in_hand, None)
            self.in_hand = None

    # --- what was in hand

    async def _at_hand(self, now_ms: int, inputs: Collection[str], holds: Callable[[Record], bool]) -> dict[str, str]:
        """Return what may have been in hand, by lane: an input topic, the deadlines, or an effect."""
        found, task = dict[str, str](), self._task
        for topic in inputs:
            at, end = task.positions.next[topic], await self._log.port.end(topic, task.partition)
            if at < end:
                self._until[topic] = min(end, at + _MOST_INPUTS)
                found[topic] = self._suspect(topic)
        self._due = self.first_due(now_ms)
        if self._due:
            found[_DEADLINES] = self._due
        pending = (each for each in task.state.committed(EFFECT) if not each.headers and not holds(each))
        found |= {each.event_id: each.event_id for each, _ in zip(pending, range(_MOST_EFFECTS), strict=False)}
        return found

    def first_due(self, now_ms: int) -> str:
        """Return the first deadline that is due, as a suspect; "" when there is none."""
        due: Sequence[tuple[int, str, str, str]] = self._task.state.due_by(now_ms, 1, self._task.processor.waits)
        return due_key(*due[0]) if due else ""

    def _lane_of(self, suspect: str) -> str:
        if suspect in self._losses:
            return suspect
        return _DEADLINES if suspect.startswith(_DEADLINES) else suspect.rpartition("@")[0]

    def _suspect(self, lane: str) -> str:
        if lane in self._until:
            return f"{lane}@{self._task.positions.next[lane]}"
        return self._due if lane == _DEADLINES else lane

    def _is_ahead(self, lane: str, now_ms: int, held: Collection[str]) -> bool:
        """Tell whether a lane still has what was in hand."""
        if lane in self._until:
            return lane not in held and self._task.positions.next[lane] < self._until[lane]
        if lane == _DEADLINES:
            return bool(self.first_due(now_ms))
        return False  # an effect has had its turn

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
        (offset,) = await self._log.port.append([record], self._claim)
        task.state.restore([record], offset + 1)
