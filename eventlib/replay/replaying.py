"""Runs today's code over a log's past, all tasks in step by time, and reports what it would have said otherwise."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from typing import Any

from eventlib.errors import ContractError, DamagedRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import Record
from eventlib.log.reading import SkippingReader
from eventlib.model.decider import Decider
from eventlib.model.service import Service
from eventlib.replay.comparison import Decision, Describer, OutputQuery, input_of
from eventlib.replay.context import ReplayContext
from eventlib.replay.journal import TaskJournal
from eventlib.replay.partition_buffer import WHOLE, Item, Shard
from eventlib.replay.report import Input, Report, Tally
from eventlib.replay.scanner import LogScanner, Moment
from eventlib.replay.spilling_cache import Spill, kept_entries
from eventlib.replay.task_replayer import TaskReplayer
from eventlib.runtime.records import JournalEntry, code_version
from eventlib.values import to_ms

FIRST = 10
"""Of how many sagas the first difference is kept in full, unless somebody wants more."""

_NO_EVENTS = re.compile(r"^_|\.said\.|\.(changelog|journal|parked|control|latest)$")
"""Topics that hold no events, copies of them, or those of a run beside a service."""

_SWEEP = 1_000
_MOST_UNKNOWN = 1_000

Deed = tuple[TaskReplayer, JournalEntry]
"""A transaction of a task."""


class Replay:
    """One run of today's code over a part of a log's past."""

    def __init__(self, log: EventLog, services: Sequence[Service], asked: OutputQuery, part: Shard, limit: int) -> None:
        self._whole = log
        self._past_damage = SkippingReader(log.port)
        self._log = log = EventLog(self._past_damage, log.codec, log.choreography)
        self._cut: dict[str, int] = {}
        self._services = services
        self._part = part
        self._spill = Spill()
        self._window = LogScanner(log, part, services)
        self._tally = Tally(limit)
        entries = kept_entries(self._deciders, self._spill)
        version = code_version(log.choreography)
        describer = Describer(log.choreography)
        self._setting = ReplayContext(log, self._window, entries, self._tally, asked, describer, version)
        self._tasks: dict[tuple[str, int], TaskReplayer] = {}
        self._unknown: dict[str, Record] = {}

    @property
    def _deciders(self) -> list[Decider[Any]]:
        return [decider for service in self._services for decider in service.deciders]

    async def run(self) -> Report:
        """Replay, and return what was found. Raises: ContractError when the past is no longer whole."""
        try:
            await self._prepare()
            at_ms = moments = 0
            async for at_ms, deeds in self._moments():
                await self._pass(at_ms, deeds)
                moments += 1
                if moments % _SWEEP == 0:
                    self._note_unknown(at_ms)
            self._end()
            self._note_unread()
            await self._tell_unknown(at_ms)
            self._tally.damaged.update(map(str, self._past_damage.damaged.values()))
            return self._tally.report(self._window.events if self._part.index == 0 else 0)
        finally:
            self._spill.close()

    async def _prepare(self) -> None:
        there = await self._log.port.topics()
        for service in self._services:
            compacted = [topic.name for topic in service.inputs if topic.compacted]
            if compacted:
                raise ContractError(
                    f"service {service.name} reads {', '.join(compacted)}, which keeps only the newest record of each "
                    "key, so its past cannot be replayed: leave it out, and name the other services"
                )
            for partition in range(service.partitions):
                if not self._part.has(service, partition) or service.journal.name not in there:
                    continue
                if await self._log.port.end(service.journal.name, partition):
                    self._tasks[service.name, partition] = TaskReplayer(service, partition, self._setting)
        await self._spill.prepare(self._deciders)
        events = {name: topic.partitions for name, topic in there.items() if not _NO_EVENTS.search(name)}
        await self._window.open(events, [(task.service, task.partition) for task in self._tasks.values()])

    async def _moments(self) -> AsyncIterator[tuple[int, list[Deed]]]:
        """Yield what all tasks did, in the order of time: what was done at the same time together."""
        heads = list[tuple[int, int, JournalEntry]]()
        tasks = [*self._tasks.values()]
        journals = [self._entries(task) for task in tasks]
        for i, journal in enumerate(journals):
            async for entry in journal:
                heads.append((entry.at_ms, i, entry))
                break
        heapify(heads)
        deeds, at_ms = list[Deed](), -1
        while heads:
            now_ms, i, entry = heads[0]
            if now_ms != at_ms and deeds:
                yield at_ms, deeds
                deeds = []
            at_ms = now_ms
            deeds.append((tasks[i], entry))
            found = await anext(journals[i], None)
            if found is None:
                heappop(heads)
            else:
                heapreplace(heads, (found.at_ms, i, found))
        if deeds:
            yield at_ms, deeds

    async def _entries(self, task: TaskReplayer) -> AsyncIterator[JournalEntry]:
        """Yield a task's entries up to a damaged one: in which order inputs were handled is not known from there on."""
        name, at_ms = task.service.name, 0
        try:
            async for _, entry in TaskJournal(self._whole, task.service, task.partition).entries():
                at_ms = entry.at_ms
                yield entry
        except DamagedRecord as error:
            self._cut[name] = min(at_ms, self._cut.get(name, at_ms))
            self._tally.damaged.add(str(error))
            self._tally.notes[f"{name}/{task.partition} is compared up to its damaged journal entry"] = None

    async def _pass(self, at_ms: int, deeds: Sequence[Deed]) -> None:
        said = Counter[str]()
        for task, entry in deeds:
            said[task.service.name] += entry.said
        await self._window.complete(at_ms, said)
        for task, entry in deeds:
            await task.go_on(entry)
        self._tally.transactions += len(deeds)
        left = [item for service in said for item in self._window.unclaimed(service, at_ms)]
        if left:
            await self._judge_unclaimed(at_ms, deeds, left)

    async def _judge_unclaimed(self, at_ms: int, deeds: Sequence[Deed], left: Sequence[Item]) -> None:
        """Tell of what was said about inputs that today's code does not decide on any more."""
        asked = self._setting.asked
        if at_ms < asked.since_ms:
            return
        causes = {r.event_id: r for task, entry in deeds for r in await inputs_of(self._log, task, entry)}
        answers: dict[tuple[str | None, ...], list[Item]] = {}
        for item in sorted(left, key=lambda item: item[0].sequence or 0):
            record = item[0]
            if asked.about(record.correlation_id):
                answers.setdefault((record.source, record.subject, record.causation_id), []).append(item)
        for (source, subject, cause_id), then in answers.items():
            cause = causes.get(cause_id or "")
            if cause is None and self._has_damage(deeds):
                self._setting.doubtful.add((source or "", subject or ""))
                continue
            given = Input("?", cause_id or "") if cause is None else input_of(cause, None)
            handler = f"{source} on {given.type}"
            why = "no decider handles this any more"
            self._setting.judge(Decision(handler, subject or "", at_ms, given, then, (), "unhandled", why), None)

    def _has_damage(self, deeds: Sequence[Deed]) -> bool:
        """Tell whether one of the inputs of some transactions is damaged."""
        return any(
            (step.topic, task.partition) == place[:2] and step.first <= place[2] <= step.last
            for task, entry in deeds
            for step in entry.steps
            if step.kind == "run"
            for place in self._past_damage.damaged
        )

    def _note_unknown(self, before_ms: int) -> None:
        for record, _ in self._window.unknown(before_ms):
            if len(self._unknown) < _MOST_UNKNOWN:
                self._unknown[record.event_id] = record

    async def _tell_unknown(self, at_ms: int) -> None:
        """Report what services are said to have said, but for what came while this was running."""
        self._note_unknown(at_ms)
        if not self._unknown:
            return
        known = set[Moment]()
        for task in self._tasks.values():
            async for _, entry in TaskJournal(self._log, task.service, task.partition).entries():
                known.add((task.service.name, entry.at_ms))
        for r in self._unknown.values():
            service = (r.source or "").partition("/")[0]
            is_cut = service in self._cut and r.timestamp_ms >= self._cut[service]
            if not is_cut and (service, r.timestamp_ms) not in known:
                self._tally.unknown.append(f"{r.type} {r.event_id} ({r.topic}/{r.partition}/{r.offset})")

    def _note_unread(self) -> None:
        for task in self._tasks.values():
            for topic in task.unread:
                name = task.service.name
                self._tally.notes[
                    f"service {name} reads topic {topic} now, and did not then: nothing is compared there"
                ] = None

    def _end(self) -> None:
        """Look for deadlines of today's code that would have passed by now, and have not."""
        for service in self._services:
            for decider in (each for each in service.deciders if each.deadlines):
                for key, entry in self._setting.entries[decider.name].all():
                    home = service.inputs[0].partition_of(key.encode()) if decider.key else None
                    for task in self._tasks.values():
                        if task.service is service and home in {None, task.partition}:
                            task.end(decider, key, entry)


async def inputs_of(log: EventLog, task: TaskReplayer, entry: JournalEntry) -> list[Record]:
    """Return the records of all runs of a transaction, as they stand on the log."""
    found = list[Record]()
    for step in entry.steps:
        if step.kind == "run":
            count = step.last - step.first + 1
            found += await log.port.read(step.topic, task.partition, step.first, count)
    return found


async def replay(
    log: EventLog,
    *,
    services: Sequence[str] | None = None,
    since: datetime | None = None,
    sagas: Collection[str] | None = None,
    limit: int = FIRST,
    part: Shard = WHOLE,
) -> Report:
    """Run today's code over the recorded inputs in the recorded order, and compare what it says with what was said.

    `services` names those to replay (default: all). Only decisions taken `since` a time (UTC) are compared, and only
    those of `sagas` (correlation ids) if any are given: all others make the states. Of `limit` sagas the first difference
    is kept in full. `part` replays a part of the tasks only. No effect is run: their answers are the recorded ones.
    Guarantee: changes nothing on the log, and services may run meanwhile; memory is bounded, however long the log is;
    the code that has written the log differs in nothing.
    Raises: WiringError for an unknown service; ContractError when the past is no longer whole.
    """
    chosen = log.choreography.services if services is None else tuple(map(log.choreography.service, services))
    asked = OutputQuery(0 if since is None else to_ms(since), None if sagas is None else frozenset(sagas))
    return await Replay(log, chosen, asked, part, limit).run()
