"""Reads any record of a log as what it is: an event, a state, a task's own notes, or bytes that say why not."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from eventlib.codec.base import UnknownSchema
from eventlib.errors import EventlibError
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import A_LOG, check
from eventlib.model.record import Record, key_text
from eventlib.model.topic import Topic
from eventlib.personal.receipt import ERASURES, read_receipt
from eventlib.runtime.lost_owners import LOST_OWNERS, LostOwners
from eventlib.runtime.parking.control import read_request
from eventlib.runtime.parking.parked import SkippedInput, original_of
from eventlib.runtime.records import POSITION_KEY, JournalEntry, ParkedKey, Pause, Positions, changelog_key


class Reading(NamedTuple):
    """A record and what is in it: `value` is an event, a state or a note of a task; `error` says why there is none.

    Neither is there for a tombstone.
    """

    record: Record
    value: object | None
    error: str | None


class RecordReader:
    """Reads records of every topic of a choreography's log."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._readers: dict[str, Callable[[Record], object | None]] = {}
        self._deciders = {decider.name: decider for decider in log.choreography.deciders}
        for topic in event_topics(log):
            self._readers[topic.name] = self._event
            self._readers[topic.latest_topic.name] = self._event_or_tombstone
        for service in log.choreography.services:
            self._readers[service.changelog.name] = self._change
            self._readers[service.journal.name] = lambda record: log.codec.decode(JournalEntry, record.value or b"")
            self._readers[service.control.name] = lambda record: read_request(record, log.codec)
            self._readers[service.parked.name] = self._parked
        self._readers[ERASURES.name] = read_receipt

    async def read(self, records: Iterable[Record]) -> list[Reading]:
        """Return records with what is in them, after learning the schemas that are new."""
        found = list[Reading]()
        for record in records:
            try:
                found.append(self._read(record))
            except UnknownSchema:
                await self._log.codec.refresh()
                found.append(self._read_now(record))
        return found

    def _read_now(self, record: Record) -> Reading:
        try:
            return self._read(record)
        except UnknownSchema as error:
            return Reading(record, None, str(error))

    def _read(self, record: Record) -> Reading:
        reader = self._readers.get(record.topic)
        if reader is None:
            return Reading(record, None, f"topic {record.topic} is not one of {self._log.choreography.name}")
        if record.topic in self._log.external.topics:
            record = record.replace(type=self._log.external.type_of(record))
        try:
            return Reading(record, reader(record), None)
        except UnknownSchema:
            raise
        except EventlibError as error:
            return Reading(record, None, getattr(error, "reason", None) or str(error))

    def _event(self, record: Record) -> object:
        event = self._log.decode(record)
        if event is None:
            raise EventlibError(f"{record.type} is not an event of {self._log.choreography.name}")
        return event

    def _event_or_tombstone(self, record: Record) -> object | None:
        return None if record.value is None else self._event(record)

    def _parked(self, record: Record) -> object | None:
        original = original_of(record)[1]
        return self._event(original) if original.topic else None  # without a topic: a deadline, which has no value

    def _change(self, record: Record) -> object | None:
        if not record.value:
            return None
        about = changelog_key(key_text(record))
        if about.kind == "effect":
            return self._event(record)
        if about.kind in _OWN:
            return self._log.codec.decode(_OWN[about.kind], record.value)
        decider = self._deciders.get(about.decider)
        if about.kind != "state" or decider is None:
            raise EventlibError(f"{self._log.choreography.name} has no decider that writes under this key")
        state: object = self._log.codec.decode(decider.state, record.value)
        return state


_OWN: dict[str, type[object]] = {
    "parked": ParkedKey,
    "pause": Pause,
    "skip": SkippedInput,
    POSITION_KEY: Positions,
    LOST_OWNERS: LostOwners,
}


def event_topics(log: EventLog) -> list[Topic]:
    """Return the topics that hold the choreography's events, without the compacted copies and the services' own."""
    check(log, EventLog, "log", A_LOG)
    choreography = log.choreography
    own = {topic.name for service in choreography.services for topic in service.own_topics}
    copies = {topic.latest_topic.name for topic in choreography.topics if topic.latest}
    return [topic for topic in choreography.topics if topic.name not in own | copies]


async def event_topics_there(log: EventLog) -> list[Topic]:
    """Return those of them that are on the log: one that was declared since a service was last started is not yet."""
    there = await log.port.topics()
    return [topic for topic in event_topics(log) if topic.name in there]
