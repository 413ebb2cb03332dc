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

_ACT = "at_ms, what, service, about, by, reason"


@dataclass(frozen=True, slots=True)
class ActPage:
    """The newest acts of a period, how many it has, and of which kinds any are."""

    acts: Sequence[Act]
    count: int
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

    async def page(self, since_ms: int, who: str, what: str, most: int) -> ActPage:
        """Return the newest acts since a time (ms since 1970), by those in whose name `who` is, of the kind `what` if it is one."""
        begun = await begun_reruns(self._log, since_ms)
        rows = self.projection.rows
        of_kind = {kind for (kind,) in rows("SELECT DISTINCT what FROM _acts WHERE at_ms >= ?", (since_ms,))}
        meant = "at_ms >= ?1 AND instr(by, ?2) AND ?3 IN ('', what)"
        values = since_ms, who, what
        ((count,),) = rows(f"SELECT count(*) FROM _acts WHERE {meant}", values)  # noqa: S608  names of this file
        found = rows(f"SELECT {_ACT} FROM _acts WHERE {meant} ORDER BY at_ms DESC LIMIT ?4", (*values, most))  # noqa: S608  as above
        wanted = [each for each in begun if who in each.by and what in {"", each.what}]
        newest = sorted([*(Act(*row) for row in found), *wanted], key=lambda act: -act.at_ms)
        return ActPage(newest[:most], count + len(wanted), sorted(of_kind | {each.what for each in begun}))
