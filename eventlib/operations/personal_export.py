"""Finds all that is kept of a person: records that name the subject, or hold ciphertext of its key."""

from collections.abc import AsyncIterator
from typing import Any

from eventlib.eventlog import EventLog
from eventlib.model.personal import personal_fields
from eventlib.operations.erasure import records_of
from eventlib.personal.opening import personal_classes
from eventlib.queries.decoding import Reading, RecordReader, event_topics


async def personal_records(log: EventLog, subject: str) -> AsyncIterator[Reading]:
    """Yield, topic by topic, the events, states and parked inputs of a subject, decoded with this log's rights.

    A record belongs to a subject when a field that is a subject's id somewhere in the application has its id. Parked inputs, and states that were replaced, are yielded as far as the log keeps them.
    """
    names = {name for cls in personal_classes(log.choreography) for name in personal_fields(cls).values()}
    reader = RecordReader(log)
    topics = [topic.name for topic in event_topics(log)]
    for service in log.choreography.services:
        topics += [service.changelog.name, service.parked.name]
    async for record in records_of(log.port, topics):
        (reading,) = await reader.read([record])
        if _names(reading.value, names, subject):
            yield reading


def _names(value: Any, names: set[str], subject: str) -> bool:
    return any(getattr(value, name, None) == subject for name in names)
