"""The differential audit: every output of a decider equals what its pure functions return, folded in its journal's order."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from analytics.audit.application import Application
from analytics.audit.finding import FINDING, Finding, Rule
from analytics.audit.routing import Routes
from analytics.audit.rows import batches_of, columns_of
from analytics.task_pass import Moment, Replaying, TaskOfPass, TaskPass, Visitor
from eventlib.errors import EventlibError
from eventlib.eventlog import EventLog
from eventlib.model.decider import FORGET
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import key_text
from eventlib.replay.comparison import OutputQuery
from eventlib.replay.push_scanner import EMITTED
from eventlib.replay.report import Difference
from eventlib.runtime.keyed_state import due_times
from eventlib.runtime.records import JournalEntry, code_version
from eventlib.values import from_ms

DECISION = Rule("decision", "error", "Recorded outputs equal what the current code returns.")
COUNT = Rule("said-count", "error", "A transaction has said as many events as its journal has.")
UNKNOWN = Rule("not-journalled", "error", "What a service has said is the work of a transaction in its journal.")
UNCLAIMED = Rule("not-decided", "error", "What a transaction has said follows from something that it has done.")
OVERDUE = Rule("overdue", "error", "Nothing waits beyond its deadline.")
BROKEN = Rule("not-whole", "error", "A task's journal and inputs are whole, so that its past can be known.")

DECISION_RULES = (DECISION, COUNT, UNKNOWN, UNCLAIMED, OVERDUE, BROKEN)

_MOST = 10_000
_GRACE_MS = 60_000


def decision_findings(spark: SparkSession, url: str, application: Application) -> DataFrame:
    """Return which decisions on a log differ from those of today's code."""
    columns = columns_of(takes_meta=_takes_meta(Routes(application.choreography)))
    judged = partial(_judged, application=application)
    return TaskPass(application, url, columns=columns).rows(spark, judged, FINDING)


def _takes_meta(routes: Routes) -> bool:
    deciders = [decider for service in routes.services for decider in service.deciders]
    return any(decider.wants_meta(event) for decider in deciders for event in decider.handlers)


def _judged(opened: EventLog, application: Application) -> Callable[[TaskOfPass], Visitor]:
    return partial(_Task, application.story_field, opened, _version(application), OutputQuery(), _MOST)


@cache
def _version(application: Application) -> str:
    """Return the code version in a worker, computed once."""
    return code_version(application.choreography)


class _Task(Replaying):
    """One task's history, judged moment by moment."""

    def __init__(self, story: str, *replaying: Any) -> None:
        super().__init__(*replaying)
        self._story = story
        self._found = list[Finding]()
        self._last_ms = 0

    def finish(self) -> Iterable[pa.RecordBatch]:
        """See `Visitor.finish`: what differs, and what is overdue after all."""
        if not self._is_broken:
            try:
                self._look_for_overdue(self._last_ms - _GRACE_MS)
            except Exception as error:  # noqa: BLE001  as above
                self._told(error)
        return batches_of([*map(_differs, self._context.tally.report(0).first), *self._found], FINDING)

    def _told(self, error: Exception) -> None:
        about, is_ours = f"task {self._service.name}/{self._partition}", isinstance(error, EventlibError)
        sentence = str(error) if is_ours else kept_reason(error, personal=self._service.is_personal)
        self._found.append(Finding(BROKEN.name, BROKEN.severity, "", about, [], sentence))

    async def _replay(self, moment: Moment, entries: Sequence[JournalEntry]) -> None:
        if entries:
            await self._decide(moment.at_ms, entries)
            self._last_ms = moment.at_ms
        elif any(role & EMITTED for _, role in moment.given):
            self._not_known(moment.at_ms, UNKNOWN)

    async def _decide(self, at_ms: int, entries: Sequence[JournalEntry]) -> None:
        told, there = sum(entry.said for entry in entries), self._window.outputs_at(at_ms)
        for entry in entries:
            await self._again.replay(entry)
        if told != there:
            about = f"task {self._service.name}/{self._partition}"
            sentence = f"At {from_ms(at_ms).isoformat()} it emitted {told} events, and {there} are on the log."
            self._found.append(Finding(COUNT.name, COUNT.severity, "", about, [], sentence))
        self._not_known(at_ms, UNCLAIMED)

    def _not_known(self, at_ms: int, rule: Rule) -> None:
        for record, event in self._window.unclaimed(self._service.name, (at_ms, at_ms)):
            order = str(getattr(event, self._story, None) or "")
            sentence = f"{record.type} of {record.source} about {record.causation_id or 'nothing'}: {rule.sentence}"
            about = f"{record.source} {record.subject or key_text(record)}"
            self._found.append(Finding(rule.name, rule.severity, order, about, [record.event_id], sentence))

    def _look_for_overdue(self, before_ms: int) -> None:
        for decider in (each for each in self._service.deciders if each.deadlines):
            for key, entry in self._entries[decider.name].all():
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
