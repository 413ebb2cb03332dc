"""Judges events that no task of a replay claims: outputs of inputs that nothing handles now, and what no journal has."""

from collections.abc import Collection, Mapping, Sequence

from eventlib.eventlog import EventLog
from eventlib.model.record import Record
from eventlib.replay.compare import Compare
from eventlib.replay.comparison import Decision, input_of
from eventlib.replay.context import ReplayContext
from eventlib.replay.journal import TaskJournal
from eventlib.replay.partition_buffer import Item
from eventlib.replay.report import Input
from eventlib.runtime.records import JournalEntry, TaskTime

_MOST_UNKNOWN = 1_000

TaskTransaction = tuple[Compare, JournalEntry]
"""A task and one of its transactions."""


class UnclaimedEvents:
    """The events that no task of a replay claims; `tasks` are all that it replays."""

    def __init__(self, context: ReplayContext, tasks: Mapping[tuple[str, int], Compare]) -> None:
        self._context = context
        self._log, self._scanner = context.log, context.window
        self._tasks = tasks
        self._cut = list[tuple[Compare, int]]()
        self._unknown: dict[str, Record] = {}

    def cut(self, task: Compare, at_ms: int) -> None:
        """Report nothing that a task may have emitted from a time on: a journal entry of then is damaged."""
        self._cut.append((task, at_ms))

    async def judge(self, time: TaskTime, transactions: Sequence[TaskTransaction], lacking: Collection[str]) -> None:
        """Report outputs of a time whose inputs the current code no longer handles; some of the `lacking` services' are damaged."""
        services = dict.fromkeys(task.service.name for task, _ in transactions)
        left = [item for each in services for item in self._scanner.unclaimed(each, time) if each not in lacking]
        query, at_ms = self._context.asked, time[1]
        if not left or at_ms < query.since_ms:
            return
        causes = {r.event_id: r for task, entry in transactions for r in await _inputs_of(self._log, task, entry)}
        answers: dict[tuple[str | None, ...], list[Item]] = {}
        for item in sorted(left, key=lambda item: item[0].sequence or 0):
            record = item[0]
            if query.about(record.correlation_id) and not self._is_cut(record):
                answers.setdefault((record.source, record.subject, record.causation_id), []).append(item)
        for (source, subject, cause_id), then in answers.items():
            cause = causes.get(cause_id or "")
            if cause is None and self._has_damage(transactions):
                continue
            trigger = Input("?", cause_id or "") if cause is None else input_of(cause, None)
            handler = f"{source} on {trigger.type}"
            why = "no decider handles this now"
            self._context.judge(Decision(handler, subject or "", at_ms, trigger, then, (), "unhandled", why), None)

    def _has_damage(self, transactions: Sequence[TaskTransaction]) -> bool:
        """Return whether an input of these transactions is damaged."""
        return any(
            step.first <= offset <= step.last
            for task, entry in transactions
            for step in entry.steps
            if step.kind == "run"
            for offset in self._scanner.damaged_in((step.topic, task.partition))
        )

    def _is_cut(self, record: Record) -> bool:
        """Return whether a task may have emitted a record in, or after, the damaged entry of its journal."""
        name, key = _service_of(record), record.subject
        return any(
            task.service.name == name and record.timestamp_ms >= at_ms and (not key or self._may_have(task, key))
            for task, at_ms in self._cut
        )

    def _may_have(self, task: Compare, key: str) -> bool:
        """Return whether a key is one of a task, as far as that can be told: others partition external topics."""
        topics = task.service.inputs
        is_external = any(each.name in self._log.external.topics for each in topics)
        return is_external or topics[0].partition_of(key.encode()) == task.partition

    def keep_unknown(self, before: TaskTime) -> None:
        """Keep the outputs before a time that no journal entry has claimed, until all journals were read."""
        for record, _ in self._scanner.unknown(before):
            if len(self._unknown) < _MOST_UNKNOWN:
                self._unknown[record.event_id] = record

    async def report_unknown(self, time: TaskTime) -> None:
        """Report events with a service as source that no journal has, except those appended during the replay."""
        self.keep_unknown(time)
        if not self._unknown:
            return
        known = set[tuple[str, int]]()
        for task in self._tasks.values():
            begins_at = await self._log.port.start(task.service.journal.name, task.partition)
            async for _, entry in TaskJournal(self._log, task.service, task.partition).entries(begins_at):
                known.add((task.service.name, entry.at_ms))
        for r in self._unknown.values():
            if not self._is_cut(r) and (_service_of(r), r.timestamp_ms) not in known:
                self._context.tally.unknown.append(f"{r.type} {r.event_id} ({r.topic}/{r.partition}/{r.offset})")


def _service_of(record: Record) -> str:
    """Return the service that emitted a record."""
    return (record.source or "").partition("/")[0]


async def _inputs_of(log: EventLog, task: Compare, entry: JournalEntry) -> list[Record]:
    """Return the input records of a transaction, as they are on the log."""
    found = list[Record]()
    for step in entry.steps:
        if step.kind == "run":
            count = step.last - step.first + 1
            found += await log.port.read(step.topic, task.partition, step.first, count)
    return found
