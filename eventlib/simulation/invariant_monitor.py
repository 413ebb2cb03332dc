"""Checks every append against the invariants of the log, of the choreography and of the scenario."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eventlib.codec.base import Codec
from eventlib.eventlog import EventLog
from eventlib.invariants import ExternalStates, Fold, Invariant, InvariantChecker, Violation
from eventlib.log.base import TopicPartition
from eventlib.model.choreography import Choreography
from eventlib.model.decider import Decider
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record
from eventlib.runtime.keyed_state import KeyedState
from eventlib.runtime.parking.parked import is_redated
from eventlib.runtime.records import POSITION_KEY, JournalEntry, Positions, changelog_key
from eventlib.simulation.stage import CONFIG, Stage


@dataclass(frozen=True)
class Noted:
    """How an invariant of the log was broken."""

    what: str = ""

    def __str__(self) -> str:
        return self.what


_THE_LOG = Fold("the log", state=Noted, key="id")


def of_the_log(name: str, sentence: str) -> Invariant:
    """Return an invariant of the log, whatever the application is."""
    return Invariant(name, sentence, (_THE_LOG,), False, lambda noted: not noted.what)


IDS = of_the_log("ids_are_unique", "Each fact has its own id: nothing is emitted twice.")
CAUSES = of_the_log("causes_come_first", "The cause of an event is on the log before it, and is no younger.")
NUMBERS = of_the_log(
    "facts_are_numbered", "A decider numbers its events under a key: from 1, without gaps or duplicates."
)
BARRIER = of_the_log(
    "deadlines_wait",
    "A deadline passes only after all inputs of its decider that existed when it fell due were handled.",
)
TIMES = of_the_log(
    "times_are_of_the_clock",
    "A task dates nothing further ahead of its clock than the bound, whoever dated its inputs.",
)
REST = of_the_log("all_comes_to_rest", "When faults stop, everything comes to rest: nothing runs endlessly.")
PARKED = of_the_log("nothing_stays_parked", "When faults stop, what was parked continues after a retry.")
FAILURES = of_the_log("no_task_fails", "A task stops only with its process, or when another one has taken over.")
LIMITS = of_the_log("limits_are_kept", "No more attempts go out than a limit allows, whichever processes make them.")
FAIRNESS = of_the_log(
    "keys_take_turns", "While a key waits at a limit, each other key of its kind of effect gets one turn at most."
)
WRITTEN = of_the_log(
    "values_are_as_written", "What a process hands on, or keeps as a state, is what its bytes give back in another one."
)
LOSSES = of_the_log(
    "losses_are_named", "What was gone before a task has read it is in its journal, as what it handled or as a loss."
)
WAITING = of_the_log("waiting_is_no_attempt", "An effect gives up only after all of its attempts have gone out.")


def broken(invariant: Invariant, key: str, what: str) -> Violation:
    """Return a violation of one of the invariants above."""
    return Violation(invariant, key, (Noted(what),))


class LogInvariants:
    """Checks facts and journals as they are appended. `clocks_are_right` while no clock was set wrong.

    `given_up` are the ids of the inputs that an operator has discarded, according to journals. `fast_ms` has, by a task's
    journal, how far ahead its clock was at most. `dropped` are the inputs that retention has dropped.
    """

    def __init__(self, choreography: Choreography, codec: Codec, clock: Callable[[], int]) -> None:
        self.clocks_are_right = True
        self.given_up = set[str]()
        self.dropped = list[Record]()
        self._passed = set[tuple[str, int, int]]()
        self.fast_ms: dict[TopicPartition, int] = {}
        self._codec = codec
        self._clock = clock
        self._inputs = {
            (service.journal.name, decider.name): {contract_of(event).topic.name for event in decider.handlers}
            for service in choreography.services
            for decider in service.deciders
        }
        self._journals = {name for name, _ in self._inputs}
        self._parked = {service.parked.name for service in choreography.services}
        self._recorded: dict[str, int] = {}
        self._numbers = Counter[tuple[str, str]]()
        self._came: dict[TopicPartition, tuple[list[int], list[int]]] = {}

    def event(self, record: Record) -> Iterator[Violation]:
        """Check an event, and return the violations."""
        times, offsets = self._came.setdefault(record.topic_partition, ([], []))
        times.append(self._clock())
        offsets.append(record.offset)
        if record.source != OUTSIDE_SOURCE:
            yield from self._fact(record)
        self._recorded.setdefault(record.event_id, record.timestamp_ms)

    def _note_passed(self, record: Record) -> None:
        """Take note of the inputs that a journal says were handled, or lost."""
        if self.dropped and record.topic in self._journals:
            for step in self._codec.decode(JournalEntry, record.value or b"").steps:
                last = step.last + (step.kind == "run")
                self._passed |= {(step.topic, record.partition, at) for at in range(step.first, last) if step.topic}

    def rest(self) -> Iterator[Violation]:
        """Check what must hold when nothing is in flight, and return the violations."""
        for record in self.dropped:
            if record.location not in self._passed:
                yield broken(
                    LOSSES, record.event_id, f"{record.type} at {record.location} is gone, and no journal says so"
                )

    def _fact(self, record: Record) -> Iterator[Violation]:
        what = f"{record.type} by {record.source} about {record.subject}"
        if record.event_id in self._recorded:
            yield broken(IDS, record.event_id, f"{what} is on the log already")
        caused_at = self._recorded.get(record.causation_id or "")
        if caused_at is None or caused_at > record.timestamp_ms:
            yield broken(CAUSES, record.event_id, f"{what} was caused by {record.causation_id}")
        producer = (record.source or "", record.subject or "")
        self._numbers[producer] += 1
        if record.sequence != self._numbers[producer]:
            yield broken(
                NUMBERS, record.event_id, f"{what} has number {record.sequence}, not {self._numbers[producer]}"
            )

    def journal(self, record: Record, appended: Sequence[Record]) -> Iterator[Violation]:
        """Check a transaction's journal record with all records of the transaction, and return the violations."""
        for each in appended:
            if each.topic in self._parked and is_redated(each):
                self._recorded[each.event_id] = each.timestamp_ms  # a clock was ahead: it counts from when it came
        ahead_ms = record.timestamp_ms - self._clock() - self.fast_ms.get(record.topic_partition, 0)
        if record.topic in self._journals and ahead_ms > CONFIG.ahead_s * 1_000:
            yield broken(TIMES, record.topic, f"{record.topic}/{record.partition} is {ahead_ms / 1_000:,.0f} s ahead")
        self._note_passed(record)
        if b"discard" in (record.value or b""):
            steps = self._codec.decode(JournalEntry, record.value or b"").steps
            self.given_up |= {step.request for step in steps if step.kind == "discard"}
        if not (self.clocks_are_right and record.topic in self._journals and b"deadline" in (record.value or b"")):
            return
        entry = self._codec.decode(JournalEntry, record.value or b"")
        position = next((each.value for each in appended if each.key == _POSITION), None)
        if position is None:
            return
        reached = self._codec.decode(Positions, position).next
        for step in entry.steps:
            for topic in self._inputs[record.topic, step.decider] if step.kind == "deadline" else ():
                times, offsets = self._came.get((topic, record.partition), ([], []))
                there = bisect_left(times, step.first)
                if there and reached[topic] <= offsets[there - 1]:
                    what = f"{step.detail} passed for {step.decider} {step.key}, but {topic} was not read up to then"
                    yield broken(BARRIER, step.key, what)


OUTSIDE_SOURCE = "outside"
"""The source of what no service has emitted."""
_POSITION = POSITION_KEY.encode()


class InvariantMonitor:
    """Checks invariants as records are appended; `violations` are the violations found."""

    def __init__(self, stage: Stage, log: EventLog, clock: Callable[[], int]) -> None:
        self.violations = list[Violation]()
        self.log_invariants = LogInvariants(stage.declared, log.codec, clock)
        self._log = log
        self._watch = InvariantChecker(stage.declared.invariants)
        self._topic_roles = stage.topic_roles
        self._lawful = {
            s.name: s for invariant in stage.declared.invariants for s in invariant.sources if isinstance(s, Decider)
        }
        self._written: dict[tuple[str, int, int], Event] = {}

    def handed_on(self, record: Record) -> None:
        """Check the event that a process is given for a record, if another object is kept for it than was decoded."""
        event, written = self._log.recent_event(record), self._written.get(record.location)
        if event is not written and event is not None and repr(event) != repr(written):
            what = f"{event!r} is handed on, and its bytes give {written!r}"
            self.violations.append(broken(WRITTEN, record.event_id, what))

    def kept(self, decider: Decider[Any], key: str, entry: KeyedState, record: Record) -> None:
        """Check the state that a process keeps for a changelog record that it has just written."""
        if not record.value or entry.state is None:
            return
        written = self._log.codec.decode(decider.state, record.value)
        if written == entry.state and repr(written) != repr(entry.state):
            what = f"{decider.name} keeps {entry.state!r}, and its bytes give {written!r}"
            self.violations.append(broken(WRITTEN, key, what))

    def apply(self, records: Sequence[Record], offsets: Sequence[int]) -> None:
        """Check an append."""
        for record, offset in zip(records, offsets, strict=True):
            match self._topic_roles.get(record.topic):
                case "event":
                    self._check_event(record.placed(offset))
                case "changelog":
                    self._check_state(record)
                case "journal":
                    self.violations += self.log_invariants.journal(record, records)

    def rest(self, external: ExternalStates) -> None:
        """Check what must hold when nothing is in flight."""
        self.violations += [*self._watch.rest(external), *self.log_invariants.rest()]

    def _check_event(self, record: Record) -> None:
        event = self._log.decode(record)
        if event is not None:
            self._log.remember([record], [record.offset], [event])
            self._written[record.location] = event
            self.violations += self.log_invariants.event(record)
            self.violations += self._watch.emitted(event, record.meta())

    def _check_state(self, record: Record) -> None:
        kind, name, of, _ = changelog_key((record.key or b"").decode())
        if kind != "state":
            return
        decider: Decider[Any] | None = self._lawful.get(name)
        if decider is not None:
            state = self._log.codec.decode(decider.state, record.value) if record.value else None
            self.violations += self._watch.changed(decider, of, state)
