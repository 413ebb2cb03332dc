"""Lets the current code decide beside the services that run, without effects, until it is proved or differs."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Self

from eventlib.contracts.preflight import verdict
from eventlib.contracts.problem import Problem
from eventlib.errors import DamagedRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import Reader, TopicPartition
from eventlib.log.reading import SkippingReader
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.proof import formats
from eventlib.proof.deploying import objections_to
from eventlib.proof.differing import Changed, Diff, DifferenceGroup, Grouping
from eventlib.proof.expected import Expected
from eventlib.proof.formats import count_of
from eventlib.replay.comparison import Describer, OutputQuery
from eventlib.replay.context import ReplayContext
from eventlib.replay.journal import TaskJournal
from eventlib.replay.partition_buffer import WHOLE
from eventlib.replay.report import Difference, Tally
from eventlib.replay.scanner import LogScanner
from eventlib.replay.shadowing import ShadowTask, shares_outputs
from eventlib.replay.spilling_cache import Spill
from eventlib.runtime.records import code_version
from eventlib.values import now_ms

RUNNING = "the code that runs"
THIS = "this code"
_AT_ONCE = 500
_POLL_S = 0.25
_QUIET_S = 1.0
"""After so long without a record, a task's latest millisecond is whole."""
_LOOK_S = 2.0
_TELL_S = 60.0
_LACKING_S = 60.0
"""After so long without the rest of a transaction, it counts as damaged."""


@dataclass(frozen=True, slots=True)
class LiveProof:
    """The result of deciding beside the services that run.

    `problems` are contracts that this code breaks, `found` is what it decides otherwise, `unexercised` are its handlers and
    deadlines that nothing came for: these are not proved.
    """

    problems: Sequence[Problem]
    found: Diff
    unexercised: Sequence[str]

    @property
    def objections(self) -> tuple[str, ...]:
        """The objections to a takeover."""
        return tuple(objections_to(self.problems, self.found, self.found.damaged))

    @property
    def headline(self) -> str:
        """The verdict, in one sentence."""
        if self.objections:
            return f"This code does not take over: {'; '.join(self.objections)}."
        differs = "nothing but what is declared" if self.found.groups else "nothing"
        return f"This code takes over: {differs} differs from {self.found.base}."


def as_json(proof: LiveProof) -> Mapping[str, object]:
    """Return it as JSON: what `eventlib prove diff` prints, and the verdict."""
    return {
        **formats.as_json(proof.found),
        "holds": not proof.objections,
        "objections": proof.objections,
        "contracts": [asdict(each) for each in proof.problems],
        "unexercised": proof.unexercised,
    }


async def unproved(log: EventLog, services: Sequence[Service]) -> Sequence[Service]:
    """Return the services that other code runs: not those that never ran here, nor those of which this code decided a task last."""
    version, there, found = code_version(log.choreography), await log.port.topics(), list[Service]()
    for service in (each for each in services if each.journal.name in there):
        entries = [await TaskJournal(log, service, partition).newest() for partition in range(service.partitions)]
        versions = {entry.code_version for entry in entries if entry is not None}
        if versions and version not in versions:
            found.append(service)
    return found


class Beside:
    """The current code beside services that run: `async with Beside(...) as beside: await beside.prove(600)`.

    `report` gets a sentence for each kind of difference when it comes first, and for what the proof waits for.
    Guarantee: nothing is written to the log, no effect runs, and no task is claimed; memory is bounded.
    """

    def __init__(
        self, log: EventLog, services: Sequence[Service], expected: Expected, report: Callable[[str], None]
    ) -> None:
        self._port, self._services, self._expected, self._report = log.port, services, expected, report
        self._readable = SkippingReader(log.port)
        self._log = log.over(self._readable, log.codec)
        self._grouping = Grouping()
        self._known = set[object]()
        self._tally = Tally(0, self._differs)
        self._spill = Spill()
        choreography = log.choreography
        scanner, describer = LogScanner(self._log, WHOLE, services), Describer(choreography)
        version = code_version(choreography)
        self._context = ReplayContext(self._log, scanner, {}, self._tally, OutputQuery(), describer, version)
        self._tasks = list[ShadowTask]()
        self._of_place: dict[TopicPartition, ShadowTask] = {}
        self._of_source: dict[str, tuple[Service, list[ShadowTask]]] = {}
        self._reader: Reader | None = None
        self._waiting: dict[ShadowTask, int] = {}
        self._events = 0

    async def __aenter__(self) -> Self:
        """Read the tasks' states and positions. Raises: ContractError for states that cannot be read."""
        await self._spill.prepare([decider for service in self._services for decider in service.deciders])
        # Taken first: the outputs of what follows the states are behind them.
        positions = {
            (topic.name, partition): await self._port.end(topic.name, partition)
            for service in self._services
            for topic in service.outputs
            for partition in range(topic.partitions)
        }
        count = sum(service.partitions for service in self._services)
        for service in self._services:
            tasks = [ShadowTask(service, each, self._context, self._spill, count) for each in range(service.partitions)]
            self._of_source[service.emits_as] = service, tasks
            for task in tasks:
                followed = await task.begin()
                positions |= followed
                self._of_place |= dict.fromkeys(followed, task)
            self._tasks += tasks
        self._reader = self._port.reader(positions)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave nothing behind."""
        if self._reader is not None:
            await self._reader.close()
        self._spill.close()

    async def prove(self, span_s: float) -> LiveProof:
        """Decide what the services decide for so long (seconds), and until something was decided; return the verdict.

        Time in which a service has no owner, or its inputs wait, does not count.
        Raises: RetryableError while the log is away; ContractError for a journal that this version cannot read.
        """
        problems = (await verdict(self._log, sample=0)).problems
        lived, looked, printed, why = 0.0, monotonic(), monotonic(), ""
        while not problems and (lived < span_s or not self._tally.decisions):
            await self._advance()
            now = monotonic()
            if now - looked < min(_LOOK_S, span_s / 4):
                continue
            before, why = why, await self._in_the_way()
            lived += 0.0 if why else now - looked
            for task in self._tasks if why else ():
                task.was_away(now_ms())
            looked = now
            if why != before or now - printed >= _TELL_S:
                printed = now
                self._report(f"{self._progress(lived, span_s)}{f'; the span does not count now: {why}' if why else ''}")
        if not problems:
            await self._drain()
            for task in self._tasks:
                task.end()
        return LiveProof(problems, self._diff(), self._unexercised())

    # --- following

    async def _advance(self) -> None:
        for record in await self._poll():
            for task in self._concerned(record):
                await task.take(record, monotonic())
        now = monotonic()
        for task in self._tasks:
            await task.decide(now - _QUIET_S)
            if lacking := task.lacking(now - _LACKING_S):
                self._tally.damaged.add(lacking)

    async def _poll(self) -> Sequence[Record]:
        assert self._reader is not None  # noqa: S101  it was entered
        try:
            records = await self._reader.poll(_AT_ONCE, _POLL_S)
        except DamagedRecord as error:
            self._tally.damaged.add(str(error))
            self._reader.seek((error.topic, error.partition), error.resume_at)
            return ()
        for (topic, partition), (first, to) in self._reader.take_lost().items():
            self._tally.damaged.add(f"{topic}/{partition} has no records from {first} to {to} any more")
        return records

    def _concerned(self, record: Record) -> Collection[ShadowTask]:
        task = self._of_place.get(record.topic_partition)
        if task is not None:
            return (task,)
        self._events += 1
        service, tasks = self._of_source.get((record.source or "").partition("/")[0], (None, ()))
        if service is None or shares_outputs(service, self._log):
            return tasks
        return (tasks[service.inputs[0].partition_of((record.subject or "").encode())],)

    async def _drain(self) -> None:
        """Follow up to where the journals end now."""
        reader, ends = self._reader, {place: await self._port.end(*place) for place in self._of_place}
        assert reader is not None  # noqa: S101  it was entered
        while any(reader.position(place) < end for place, end in ends.items()):
            await self._advance()
        until = monotonic() + _QUIET_S + 2 * _POLL_S
        while monotonic() < until:
            await self._advance()

    async def _in_the_way(self) -> str:
        """Return why nothing is proved just now; nothing while the services run."""
        for service in self._services:
            owners = await self._port.owners(service.name)
            if owners is not None and not owners:
                return f"no process runs {service.name}"
        before, self._waiting = self._waiting, {}
        for task in self._tasks:
            if (waits_ms := await task.waits_since_ms()) is not None:
                self._waiting[task] = waits_ms
        for task, waits_ms in self._waiting.items():
            if before.get(task) == waits_ms and await self._has_followed(task):
                return f"inputs of {task.service.name} wait, and nothing handles them"
        return ""

    async def _has_followed(self, task: ShadowTask) -> bool:
        """Tell whether the task's journal was read to its end: this process itself may be behind."""
        journal = task.service.journal.name, task.partition
        return self._reader is not None and self._reader.position(journal) >= await self._port.end(*journal)

    # --- what comes of it

    def _differs(self, difference: Difference) -> None:
        found = Changed(difference.then, difference)
        self._grouping.add(found)
        signature = found.signature
        if signature not in self._known:
            self._known.add(signature)
            group = self._expected.mark([DifferenceGroup(signature, 1, (difference.saga,), found)])[0]
            expected = f" (expected: {group.reason})" if group.is_expected else ""
            self._report(f"Differs, first for {difference.saga}: {formats.group_line(group)}{expected}")

    def _progress(self, lived: float, span_s: float) -> str:
        kinds = count_of(len(self._known), "kind")
        decisions = count_of(self._tally.decisions.total(), "decision")
        waits = "" if self._tally.decisions else ", and it waits for the first"
        return (
            f"Beside {RUNNING}: {min(lived, span_s):.0f} of {span_s:.0f} s, {decisions}{waits}, {kinds} of difference"
        )

    def _diff(self) -> Diff:
        report = self._tally.report(self._events)
        groups = self._expected.mark(self._grouping.groups())
        notes = (*report.notes, *(["nothing came for " + ", ".join(lacks)] if (lacks := self._unexercised()) else []))
        damaged = sorted({*report.damaged, *map(str, self._readable.damaged.values())})
        counts = report.events, report.decisions, groups, self._grouping.totals(), self._grouping.parked
        return Diff(RUNNING, THIS, *counts, (), notes, tuple(damaged))

    def _unexercised(self) -> list[str]:
        return sorted({name for name in self._handlers() if name.partition(" ")[0] not in self._tally.decisions})

    def _handlers(self) -> Iterator[str]:
        for service in self._services:
            for decider in service.deciders:
                source = f"{service.emits_as}/{decider.name}"
                for event, handler in decider.handlers.items():
                    yield f"{source}.{handler.name} on {contract_of(event).type}"
                for name, deadline in decider.deadlines.items():
                    if deadline.handler is not None:
                        yield f"{source}.{deadline.handler.name} on {name}"
