"""The differential audit: every output of a decider equals what its pure functions return, folded in its journal's order."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import groupby
from operator import itemgetter

from pyspark.sql import DataFrame, SparkSession

from analytics.asking import from_anywhere
from analytics.audit.application import Application
from analytics.audit.finding import FINDING, Finding, Rule
from analytics.audit.order import NO_TASK
from analytics.audit.packs import Pack, packs, packs_in_order
from analytics.audit.past import ONLY_EMITTED, Past, SharePacking, past_of_shares
from analytics.audit.routing import JOURNAL, Routes
from analytics.audit.rows import columns_of
from analytics.audit.shares import make_ready
from eventlib.errors import EventlibError
from eventlib.eventlog import EventLog
from eventlib.model.decider import FORGET
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import Record, key_text
from eventlib.replay.compare import Compare
from eventlib.replay.comparison import Describer, OutputQuery
from eventlib.replay.context import ReplayContext
from eventlib.replay.partition_buffer import Buffered
from eventlib.replay.push_scanner import EMITTED, PushScanner
from eventlib.replay.report import Difference, Tally
from eventlib.replay.spilling_cache import Spill, state_cache
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
_IN_MEMORY = 50_000  # entries of a share, at least; at most twice as many
_GRACE_MS = 60_000

_TIME = itemgetter(1)  # of a row


def decision_findings(spark: SparkSession, url: str, application: Application) -> DataFrame:
    """Return which decisions on a log differ from those of today's code."""
    routes = Routes(application.choreography)
    partitions = max((service.partitions for service in routes.services), default=1)
    count = min(partitions, spark.sparkContext.defaultParallelism)
    topics, columns = [*routes.topics, *routes.journals], columns_of(takes_meta=_takes_meta(routes))
    with application.running(url) as (opened, run):
        clocks = run(routes.clocks(opened))
    past = packs(spark, url, application, topics, SharePacking(application, count, clocks), columns)
    decided = partial(_decided, application=application, url=from_anywhere(url), count=count)
    found = packs_in_order(past, count).mapPartitions(decided)
    return spark.createDataFrame(found, FINDING)


def _takes_meta(routes: Routes) -> bool:
    deciders = [decider for service in routes.services for decider in service.deciders]
    return any(decider.wants_meta(event) for decider in deciders for event in decider.handlers)


def _decided(packed: Iterable[Pack], application: Application, url: str, count: int) -> Iterator[Finding]:
    """Yield the differences of a share, if there are any records for it."""
    for share, past in past_of_shares(packed):
        make_ready()
        with application.running(url) as (opened, run):
            yield from run(_Share(application, opened, share, count).findings(past))


@cache
def _version(application: Application) -> str:
    """Return the code version in a worker, computed once."""
    return code_version(application.choreography)


class _Share:
    """The tasks of some partitions, replayed side by side in time order."""

    def __init__(self, application: Application, opened: EventLog, share: int, count: int) -> None:
        self._application = application
        self._opened = opened
        self._share, self._count = share, count
        self._routes = Routes(application.choreography)
        self._tasks: dict[int, _Task] = {}
        self._known: dict[tuple[str, int, str | None, int], list[tuple[_Task, int]]] = {}
        of_all = sum(len(service.deciders) * service.partitions for service in self._routes.services)
        self._in_memory = max(1, _IN_MEMORY * count // of_all)  # entries of each decider of each task

    async def findings(self, past: Iterable[Past]) -> list[Finding]:
        """Replay the tasks, and return what differs."""
        known = self._known
        try:
            for at_ms, moment in groupby(past, key=_TIME):
                concerned = dict[_Task, None]()
                for record, _, emitting in moment:
                    by = record.topic, record.partition, record.type, emitting
                    item = Buffered(record)
                    for task, role in known.get(by) or self._route(*by):
                        if role == JOURNAL:
                            task.journalled.append(record)
                        else:
                            task.given.append((item, role))
                        concerned[task] = None
                for task in concerned:
                    await task.moment(at_ms)
            return [found for task in self._tasks.values() for found in task.findings()]
        finally:
            for task in self._tasks.values():
                task.close()

    def _route(self, topic: str, partition: int, kind: str | None, emitting: int) -> "list[tuple[_Task, int]]":
        roles = dict[int, int]()
        of_all = self._routes.roles(topic, partition, kind, None if emitting == NO_TASK else emitting)
        for number, role in [(emitting - ONLY_EMITTED, EMITTED)] if emitting >= ONLY_EMITTED else of_all:
            if self._routes.partition(number) % self._count == self._share:
                roles[number] = role
        found = [(self._task(number), role) for number, role in roles.items()]
        self._known[topic, partition, kind, emitting] = found
        return found

    def _task(self, number: int) -> "_Task":
        if number not in self._tasks:
            spill, (service, partition) = Spill(), self._routes.task(number)
            entries = {each.name: state_cache(each, spill, self._in_memory) for each in service.deciders}
            window = PushScanner(self._opened, service, partition)
            tally, describer, version = Tally(_MOST), Describer(self._opened.choreography), _version(self._application)
            context = ReplayContext(self._opened, window, entries, tally, OutputQuery(), describer, version)
            again = Compare(service, partition, context)
            self._tasks[number] = _Task(again, window, context, spill, self._application.story_field)
        return self._tasks[number]


class _Task:
    """One task's history, moment by moment: `given` are the next one's records, with their roles, and `journalled` its entries."""

    def __init__(self, again: Compare, window: PushScanner, context: ReplayContext, spill: Spill, story: str) -> None:
        self.given = list[tuple[Buffered, int]]()
        self.journalled = list[Record]()
        self._again = again
        self._window = window
        self._context = context
        self._spill = spill
        self._story = story
        self._service = again.service
        self._found = list[Finding]()
        self._last_ms = 0
        self._is_prepared = self._is_broken = False

    async def moment(self, at_ms: int) -> None:
        """Replay what was given, which was recorded at one time."""
        given, journalled, self.given, self.journalled = self.given, self.journalled, [], []
        if self._is_broken:
            return
        try:
            if not self._is_prepared:
                await self._spill.prepare([*self._service.deciders])
                self._is_prepared = True
            await self._replay(at_ms, given, journalled)
        except Exception as error:  # noqa: BLE001  whatever is on the log, it is a finding
            self._break(error)

    def findings(self) -> list[Finding]:
        """Return what differs, and what is overdue after all."""
        if not self._is_broken:
            try:
                self._look_for_overdue(self._last_ms - _GRACE_MS)
            except Exception as error:  # noqa: BLE001  as above
                self._break(error)
        return [*map(_differs, self._context.tally.report(0).first), *self._found]

    def close(self) -> None:
        """Remove what is in files."""
        self._spill.close()

    def _break(self, error: Exception) -> None:
        self._is_broken = True
        about, is_ours = f"task {self._service.name}/{self._again.partition}", isinstance(error, EventlibError)
        sentence = str(error) if is_ours else kept_reason(error, personal=self._service.is_personal)
        self._found.append(Finding(BROKEN.name, BROKEN.severity, "", about, [], sentence))

    async def _replay(self, at_ms: int, given: Sequence[tuple[Buffered, int]], journalled: Sequence[Record]) -> None:
        await self._window.push(given)
        if journalled:
            decode = self._context.log.codec.decode
            await self._decide(at_ms, [decode(JournalEntry, record.value or b"") for record in journalled])
            self._last_ms = at_ms
        elif any(role & EMITTED for _, role in given):
            self._not_known(at_ms, UNKNOWN)

    async def _decide(self, at_ms: int, entries: Sequence[JournalEntry]) -> None:
        told, there = sum(entry.said for entry in entries), self._window.outputs_at(at_ms)
        for entry in entries:
            await self._again.replay(entry)
        if told != there:
            about = f"task {self._service.name}/{self._again.partition}"
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
            for key, entry in self._context.entries[decider.name].all():
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
