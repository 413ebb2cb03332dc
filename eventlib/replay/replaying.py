"""Runs the current code over a recorded log, all tasks in time order, and reports which outputs change."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from typing import Any

from eventlib.errors import ContractError, DamagedRecord
from eventlib.eventlog import EventLog
from eventlib.log.reading import SkippingReader
from eventlib.model.decider import Decider
from eventlib.model.service import Service
from eventlib.queries.task_clock import clocks_of
from eventlib.replay.compare import Compare
from eventlib.replay.comparison import Describer, OutputQuery
from eventlib.replay.context import ReplayContext, Tap
from eventlib.replay.journal import TaskJournal
from eventlib.replay.partition_buffer import WHOLE, Shard
from eventlib.replay.report import Difference, Report, Tally
from eventlib.replay.scanner import LogScanner
from eventlib.replay.spilling_cache import Spill, spilling_caches
from eventlib.replay.unclaimed import TaskTransaction, UnclaimedEvents
from eventlib.runtime.records import JournalEntry, TaskTime, code_version
from eventlib.values import to_ms

FIRST = 10
"""Of how many sagas the first difference is kept in full, by default."""

_NO_EVENTS = re.compile(r"^_|\.said\.|\.(changelog|journal|parked|control|latest)$")
"""Topics without events, with copies of events, or with those of a rerun."""

_TOGETHER = 20_000
"""How many transactions and outputs are replayed task by task: a task's code and states are in the processor's caches then."""

TransactionsAt = tuple[TaskTime, list[TaskTransaction]]
"""A time, and the transactions of all tasks at that time."""


class Replay:
    """One run of the current code over a shard of a recorded log."""

    def __init__(
        self,
        log: EventLog,
        services: Sequence[Service],
        query: OutputQuery,
        part: Shard,
        tally: Tally,
        tap: Tap | None = None,
    ) -> None:
        self._full_log = log
        self._reader = SkippingReader(log.port)
        self._log = log = EventLog(self._reader, log.codec, log.choreography)
        self._services = services
        self._part = part
        self._spill = Spill()
        self._scanner = LogScanner(log, part, services, self._reader.damaged)
        self._tally = tally
        entries = spilling_caches(self._deciders, self._spill)
        version = code_version(log.choreography)
        describer = Describer(log.choreography)
        self._context = ReplayContext(log, self._scanner, entries, self._tally, query, describer, version, tap=tap)
        self._tasks: dict[tuple[str, int], Compare] = {}
        self._unclaimed = UnclaimedEvents(self._context, self._tasks)

    @property
    def _deciders(self) -> list[Decider[Any]]:
        return [decider for service in self._services for decider in service.deciders]

    async def run(self) -> Report:
        """Replay, and return the report. Raises: ContractError when retention has dropped records."""
        try:
            await self._prepare()
            time, moments, size = (0, 0), list[TransactionsAt](), 0
            async for time, transactions in self._moments():
                moments.append((time, transactions))
                size += sum(1 + entry.said for _, entry in transactions)
                if size >= _TOGETHER:
                    await self._replay_together(moments)
                    self._unclaimed.keep_unknown(time)
                    moments, size = [], 0
            await self._replay_together(moments)
            self._end()
            self._note_unread()
            await self._unclaimed.report_unknown(time)
            self._tally.damaged.update(map(str, self._reader.damaged.values()))
            return self._tally.report(self._scanner.events if self._part.index == 0 else 0)
        finally:
            self._spill.close()

    async def _prepare(self) -> None:
        there = await self._log.port.topics()
        for service in self._services:
            compacted = [topic.name for topic in service.inputs if topic.compacted]
            if compacted:
                raise ContractError(
                    f"service {service.name} reads {', '.join(compacted)}, which keeps only the newest record of each "
                    "key, so it cannot be replayed: leave it out, and name the other services"
                )
            for partition in range(service.partitions):
                if not self._part.has(service, partition) or service.journal.name not in there:
                    continue
                if await self._log.port.end(service.journal.name, partition):
                    self._tasks[service.name, partition] = Compare(service, partition, self._context)
        await self._spill.prepare(self._deciders)
        events = {name: topic.partitions for name, topic in there.items() if not _NO_EVENTS.search(name)}
        tasks = [(task.service, task.partition) for task in self._tasks.values()]
        self._scanner.clocks = await clocks_of(self._full_log, tasks)
        await self._scanner.open(events, tasks)

    async def _moments(self) -> AsyncIterator[TransactionsAt]:
        """Yield the transactions of all tasks in time order; those of the same time together."""
        heads = list[tuple[TaskTime, int, JournalEntry]]()
        tasks = [*self._tasks.values()]
        journals = [self._entries(task) for task in tasks]
        for i, journal in enumerate(journals):
            async for entry in journal:
                heads.append((self._time(tasks[i], entry), i, entry))
                break
        heapify(heads)
        transactions, time = list[TaskTransaction](), (-1, -1)
        while heads:
            now, i, entry = heads[0]
            if now != time and transactions:
                yield time, transactions
                transactions = []
            time = now
            transactions.append((tasks[i], entry))
            found = await anext(journals[i], None)
            if found is None:
                heappop(heads)
            else:
                heapreplace(heads, (self._time(tasks[i], found), i, found))
        if transactions:
            yield time, transactions

    def _time(self, task: Compare, entry: JournalEntry) -> TaskTime:
        return self._scanner.time(task.service.name, task.partition, entry.at_ms)

    async def _entries(self, task: Compare) -> AsyncIterator[JournalEntry]:
        """Yield a task's entries up to a damaged one: the order of inputs is unknown after it."""
        name, at_ms = task.service.name, 0
        try:
            async for _, entry in TaskJournal(self._full_log, task.service, task.partition).entries():
                at_ms = entry.at_ms
                yield entry
        except DamagedRecord as error:
            self._unclaimed.cut(task, at_ms)
            self._tally.damaged.add(str(error))
            self._tally.notes[f"{name}/{task.partition} is compared up to its damaged journal entry"] = None

    async def _replay_together(self, moments: Sequence[TransactionsAt]) -> None:
        """Replay the transactions of several times, those of each task in order: no task needs what another one does."""
        by_task: dict[Compare, list[tuple[JournalEntry, bool]]] = {task: [] for task in self._tasks.values()}
        lacking = dict[TaskTime, set[str]]()
        for time, transactions in moments:
            emitted = Counter[str]()
            for task, entry in transactions:
                emitted[task.service.name] += entry.said
            lacking[time] = await self._scanner.complete(time, emitted)
            for task, entry in transactions:
                by_task[task].append((entry, task.service.name in lacking[time]))
        for task, entries in by_task.items():
            for entry, lacks in entries:
                await task.replay(entry, lacks=lacks)
            self._tally.transactions += len(entries)
        for time, transactions in moments:
            await self._unclaimed.judge(time, transactions, lacking[time])

    def _note_unread(self) -> None:
        for task in self._tasks.values():
            for topic in {each.name for each in task.service.inputs} - task.player.inputs.positions.keys():
                name = task.service.name
                self._tally.notes[
                    f"service {name} consumes topic {topic} now, and did not then: nothing is compared there"
                ] = None

    def _end(self) -> None:
        """Report deadlines of the current code that would have passed by the end, and did not."""
        for service in self._services:
            tasks = {
                each.partition: each for each in self._tasks.values() if each.service is service and each.code_differs
            }
            for decider in (each for each in service.deciders if tasks and each.deadlines):
                for key, entry in self._context.entries[decider.name].all():
                    home = service.inputs[0].partition_of(key.encode()) if decider.key else None
                    for task in tasks.values() if home is None else [tasks[home]] if home in tasks else []:
                        task.end(decider, key, entry)


async def replay(  # noqa: PLR0913  named, all but one
    log: EventLog,
    *,
    services: Sequence[str] | None = None,
    since: datetime | None = None,
    sagas: Collection[str] | None = None,
    limit: int = FIRST,
    part: Shard = WHOLE,
    told: Callable[[Difference], None] | None = None,
    tap: Tap | None = None,
) -> Report:
    """Run the current code over the recorded inputs in the recorded order, and compare its outputs with the recorded ones.

    `services` names those to replay (default: all). Only decisions `since` a time (UTC) are compared, and only those of
    `sagas` (correlation ids) if given; all others only build the states. Of `limit` sagas the first difference is kept in
    full; `told` is called with every one, `tap` with every decision. `part` replays one shard of the tasks. No effect runs: the answers are the
    recorded ones.
    Guarantee: read-only, and services may run meanwhile; memory is bounded, however long the log is; the code that wrote
    the log has no differences.
    Raises: WiringError for an unknown service; ContractError when retention has dropped records.
    """
    chosen = log.choreography.services if services is None else tuple(map(log.choreography.service, services))
    query = OutputQuery(0 if since is None else to_ms(since), None if sagas is None else frozenset(sagas))
    return await Replay(log, chosen, query, part, Tally(limit, told), tap).run()
