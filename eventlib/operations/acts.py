"""What people did to running services, by whom and why: an audit trail from what is on the log."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace

from eventlib.eventlog import EventLog
from eventlib.index.acts import Act, Named, handlers_of, is_request, of_entry, of_event, of_request, sent_topics, signed
from eventlib.index.log_index import LogIndex
from eventlib.log.base import TopicPartition
from eventlib.log.reading import records_between
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.operations.reprocessing.listing import reruns
from eventlib.runtime.parking.control import request_in
from eventlib.runtime.records import JournalEntry, TaskClock

_MEMBERS = 20
_LINE = "max(at_ms), what, group_concat(DISTINCT service), about, by, reason, bulk, cause, count(*)"
_WANTED = """
FROM _acts WHERE at_ms >= ?1 AND instr(by, ?2) AND ?3 IN ('', what) AND ?4 IN ('', bulk) GROUP BY iif(bulk = '' OR ?4 != '', name, bulk)
"""


@dataclass(frozen=True, slots=True)
class ActLine:
    """An act, or the newest of `count` that were done together, with what the first `members` of them are about."""

    act: Act
    count: int = 1
    members: Sequence[str] = ()

    @property
    def about(self) -> str:
        """The subject of the line: of a bulk act how many, and of which cause."""
        of = f" of cause {self.act.cause}" if self.act.cause else " parked"
        return self.act.about if self.count == 1 else f"{self.count:,}{of}"


@dataclass(frozen=True, slots=True)
class ActPage:
    """The newest acts of a period, how many it has, on how many lines, and of which kinds any are."""

    lines: Sequence[ActLine]
    count: int
    line_count: int
    kinds: Sequence[str]


async def acts(log: EventLog, since_ms: int = 0) -> list[Act]:
    """Return the acts on a log since a time (ms since 1970), oldest first.

    Cost: the control topics, the journals and the events since then. Raises: LogUnavailable and the like.
    """
    found = dict[str, Act]()
    async for name, act in _named(log, since_ms):
        if name not in found or act.at_ms < found[name].at_ms:
            found[name] = act
    return sorted([*found.values(), *await begun_reruns(log, since_ms)], key=lambda act: act.at_ms)


async def _named(log: EventLog, since_ms: int) -> AsyncIterator[Named]:
    for service in log.choreography.services:
        async for record in _records(log, service.control.name, range(service.partitions), since_ms):
            if is_request(record):
                yield of_request(service, record, await request_in(record, log.codec))
        for partition in range(service.partitions):
            async for named in _of_journal(log, service, partition, since_ms):
                yield named
    services = handlers_of(log)
    for topic in sent_topics(log):
        async for record in _records(log, topic.name, range(topic.partitions), since_ms):
            for named in of_event(services, record):
                yield named


async def _of_journal(log: EventLog, service: Service, partition: int, since_ms: int) -> AsyncIterator[Named]:
    """Yield what a task did on purpose, by the clock that its journal has at its end."""
    found, clock = list[Named](), TaskClock()
    async for record in _records(log, service.journal.name, [partition], since_ms):
        entry = log.codec.decode(JournalEntry, record.value or b"")
        found += of_entry(service, entry)
        clock = clock.after(entry)
    for name, act in found:
        at_ms = clock.order_ms(act.at_ms)
        if at_ms >= since_ms:
            yield name, replace(act, at_ms=at_ms)


def in_lines(found: Iterable[Act]) -> list[ActLine]:
    """Return acts with one line for those that were done together, where the first of them is."""
    bulks = dict[str, list[Act]]()
    for number, act in enumerate(found):
        bulks.setdefault(act.bulk or str(number), []).append(act)
    return [
        ActLine(
            replace(each[0], service=", ".join(dict.fromkeys(act.service for act in each))),
            len(each),
            [act.about for act in each[:_MEMBERS]] if len(each) > 1 else (),
        )
        for each in bulks.values()
    ]


async def begun_reruns(log: EventLog, since_ms: int) -> list[Act]:
    """Return the reruns that were begun since a time."""
    notes = [(rerun.name, rerun.note) for rerun in await reruns(log)]
    return [
        Act(note.begun_ms, "rerun", note.service, name, *signed(note.why))
        for name, note in notes
        if note.begun_ms >= since_ms
    ]


async def _records(log: EventLog, topic: str, partitions: Iterable[int], since_ms: int) -> AsyncIterator[Record]:
    if topic not in await log.port.topics():
        return
    for partition in partitions:
        place: TopicPartition = (topic, partition)
        first = await log.port.offset_at(*place, since_ms) if since_ms else await log.port.start(*place)
        async for record in records_between(log.port, place, first):
            if record.timestamp_ms >= since_ms:
                yield record


class ActIndex:
    """Pages of acts, from an index of a log."""

    def __init__(self, log: EventLog, projection: LogIndex) -> None:
        self._log = log
        self.projection = projection

    async def page(self, since_ms: int, who: str, what: str, most: int, bulk: str = "") -> ActPage:
        """Return the newest acts since a time (ms since 1970), by those in whose name `who` is, of the kind `what` if it is one.

        Of a `bulk` act each has a line.
        """
        begun = [] if bulk else await begun_reruns(self._log, since_ms)
        rows = self.projection.rows
        of_kind = {kind for (kind,) in rows("SELECT DISTINCT what FROM _acts WHERE at_ms >= ?", (since_ms,))}
        values = since_ms, who, what, bulk
        ((count, line_count),) = rows(f"SELECT total(n), count(*) FROM (SELECT count(*) AS n {_WANTED})", values)  # noqa: S608  names of this file
        found = rows(f"SELECT {_LINE} {_WANTED} ORDER BY 1 DESC LIMIT ?5", (*values, most))
        wanted = [ActLine(each) for each in begun if who in each.by and what in {"", each.what}]
        lines = [
            ActLine(Act(*row), together, self._members(row[6]) if together > 1 else ()) for *row, together in found
        ]
        newest = sorted([*lines, *wanted], key=lambda line: -line.act.at_ms)
        kinds = sorted(of_kind | {each.what for each in begun})
        return ActPage(newest[:most], int(count) + len(wanted), line_count + len(wanted), kinds)

    def _members(self, bulk: str) -> list[str]:
        rows = self.projection.rows("SELECT about FROM _acts WHERE bulk = ? ORDER BY name LIMIT ?", (bulk, _MEMBERS))
        return [about for (about,) in rows]
