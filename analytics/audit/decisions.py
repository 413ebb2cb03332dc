"""The differential audit: every output of a decider equals what its pure functions return, folded in its journal's order."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from analytics.asking import from_anywhere
from analytics.audit.application import Application
from analytics.audit.finding import FINDING, Finding, Rule
from analytics.audit.routing import JOURNAL, Routes
from analytics.audit.rows import findings
from analytics.audit.shares import shares
from eventlib.eventlog import EventLog
from eventlib.log.record import Record, key_text
from eventlib.model.decider import FORGET
from eventlib.model.service import Service
from eventlib.replay.comparison import Describer, OutputQuery
from eventlib.replay.context import ReplayContext
from eventlib.replay.push_scanner import EMITTED, PushScanner
from eventlib.replay.report import Difference, Tally
from eventlib.replay.spilling_cache import Spill, SpillingCache, spilling_caches
from eventlib.replay.task_replayer import TaskReplayer
from eventlib.runtime.keyed_state import due_times
from eventlib.runtime.records import JournalEntry, code_version
from eventlib.values import from_ms

DECISION = Rule(
    "decision", "error", "What a decider has said is what its functions say about the same input and state."
)
COUNT = Rule("said-count", "error", "A transaction has said as many events as its journal has.")
UNKNOWN = Rule("not-journalled", "error", "What a service has said is the work of a transaction in its journal.")
UNCLAIMED = Rule("not-decided", "error", "What a transaction has said follows from something that it has done.")
OVERDUE = Rule("overdue", "error", "Nothing waits beyond its deadline.")
BROKEN = Rule("not-whole", "error", "A task's journal and inputs are whole, so that its past can be known.")

DECISION_RULES = (DECISION, COUNT, UNKNOWN, UNCLAIMED, OVERDUE, BROKEN)

_MOST = 10_000
_GRACE_MS = 60_000

_TIME = itemgetter(1)  # of a row


def decision_findings(spark: SparkSession, url: str, application: Application) -> DataFrame:
    """Return which decisions on a log differ from those of today's code."""
    routes = Routes(application.choreography)
    in_order = routes.in_order(routes.past(spark, url))
    return in_order.mapInArrow(partial(_decided, application=application, url=from_anywhere(url)), FINDING)


def _decided(batches: Iterable[pa.RecordBatch], application: Application, url: str) -> Iterator[pa.RecordBatch]:
    """Yield the differences, task by task."""
    for share in shares(batches, application, url):
        task = _Task(application, share.opened, share.task, _version(application))
        yield from findings(share.run(task.findings(share.rows)))


@cache
def _version(application: Application) -> str:
    """Return the code version in a worker, computed once."""
    return code_version(application.choreography)


class _Task:
    """One task's history, from its rows in time order."""

    def __init__(self, application: Application, opened: EventLog, task: tuple[Service, int], version: str) -> None:
        self._opened = opened
        self._story = application.story_field
        self._service, self._partition = task
        self._version = version
        self._window = PushScanner(opened, *task)
        self._tally = Tally(_MOST)
        self._found = list[Finding]()

    async def findings(self, rows: Iterable[tuple[Any, ...]]) -> list[Finding]:
        """Replay the task, and return what differs."""
        spill = Spill()
        try:
            entries = spilling_caches(self._service.deciders, spill)
            describer = Describer(self._opened.choreography)
            asked, tally = OutputQuery(), self._tally
            setting = ReplayContext(self._opened, self._window, entries, tally, asked, describer, self._version)
            await spill.prepare([*self._service.deciders])
            last_ms = await self._all(TaskReplayer(self._service, self._partition, setting), rows)
            self._look_for_overdue(entries, last_ms - _GRACE_MS)
        except Exception as error:  # noqa: BLE001  whatever is on the log, it is a finding
            place = f"{self._service.name}/{self._partition}"
            self._found.append(
                Finding(BROKEN.name, BROKEN.severity, "", f"task {place}", [], str(error) or type(error).__name__)
            )
        finally:
            spill.close()
        return [*map(_differs, self._tally.report(0).first), *self._found]

    async def _all(self, again: TaskReplayer, rows: Iterable[tuple[Any, ...]]) -> int:
        last_ms = 0
        for at_ms, moment in groupby(rows, key=_TIME):
            entries, given = list[JournalEntry](), list[tuple[Record, int]]()
            for record, _, _, role in moment:
                if role == JOURNAL:
                    entries.append(self._opened.codec.decode(JournalEntry, record.value or b""))
                else:
                    given.append((record, role))
            await self._window.push(given)
            if entries:
                await self._moment(again, at_ms, entries)
                last_ms = at_ms
            elif any(role & EMITTED for _, role in given):
                self._not_known(at_ms, UNKNOWN)
        return int(last_ms)

    async def _moment(self, again: TaskReplayer, at_ms: int, entries: Sequence[JournalEntry]) -> None:
        told, there = sum(entry.said for entry in entries), self._window.outputs_at(at_ms)
        for entry in entries:
            await again.replay(entry)
        if told != there:
            about = f"task {self._service.name}/{self._partition}"
            sentence = f"At {from_ms(at_ms).isoformat()} it emitted {told} events, and {there} are on the log."
            self._found.append(Finding(COUNT.name, COUNT.severity, "", about, [], sentence))
        self._not_known(at_ms, UNCLAIMED)

    def _not_known(self, at_ms: int, rule: Rule) -> None:
        for record, event in self._window.unclaimed(self._service.name, at_ms):
            order = str(getattr(event, self._story, None) or "")
            sentence = f"{record.type} of {record.source} about {record.causation_id or 'nothing'}: {rule.sentence}"
            about = f"{record.source} {record.subject or key_text(record)}"
            self._found.append(Finding(rule.name, rule.severity, order, about, [record.event_id], sentence))

    def _look_for_overdue(self, entries: dict[str, SpillingCache], before_ms: int) -> None:
        for decider in (each for each in self._service.deciders if each.deadlines):
            for key, entry in entries[decider.name].all():
                for name, due_ms in due_times(decider, entry.state, entry.memory).items():
                    if name != FORGET and due_ms < before_ms:
                        order = key if decider.key == self._story else ""
                        sentence = f"{decider.name}.{name} fell due at {from_ms(due_ms).isoformat()}."
                        about, evidence = f"{decider.name} {key}", [entry.changed_by or ""]
                        self._found.append(Finding(OVERDUE.name, OVERDUE.severity, order, about, evidence, sentence))


def _differs(found: Difference) -> Finding:
    then = ", ".join(each.type for each in found.then) or "nothing"
    now = found.why or ", ".join(each.type for each in found.now) or "nothing"
    sentence = f"For {found.input.type} it emitted {then}; its functions return {now}"
    if then == now:
        sentence += " with other fields"
    about = f"{found.handler} {found.key}"
    return Finding(DECISION.name, DECISION.severity, found.saga, about, [found.input.id], f"{sentence}.")
