"""The topics on a log: what each of them holds, and how much."""

from collections.abc import Collection
from dataclasses import dataclass

from eventlib.eventlog import EventLog
from eventlib.model.event import contract_of
from eventlib.model.topic import Topic
from eventlib.operations.reprocessing.metadata import metadata_of
from eventlib.operations.shared_notes import OPERATIONS
from eventlib.personal.receipt import ERASURES
from eventlib.registry.records import SCHEMAS


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic: what it holds (`kind`), the types of its events, and how many records, with those that compaction has removed."""

    topic: str
    kind: str
    partitions: int
    records: int
    compacted: bool
    retention_s: float | None
    events: tuple[str, ...]


async def topic_rows(log: EventLog) -> list[TopicRow]:
    """Return what is on a log: the topics of events first. Raises: LogUnavailable and the like."""
    there = await log.port.topics()
    kinds = {**_kinds(log), **await _of_reruns(log, there)}
    known = [name for name in kinds if name in there]
    names = [*known, *sorted(there.keys() - kinds.keys())]
    rows = [await _row(log, there[name], kinds.get(name, "not of this application")) for name in names]
    return sorted(rows, key=lambda row: row.kind != "events")


async def _row(log: EventLog, topic: Topic, kind: str) -> TopicRow:
    records = 0
    for partition in range(topic.partitions):
        records += await log.port.end(topic.name, partition) - await log.port.start(topic.name, partition)
    events = [contract_of(event) for event in log.choreography.events]
    types = tuple(contract.type for contract in events if contract.topic.name == topic.name)
    retention_s = None if topic.retention is None else topic.retention.total_seconds()
    return TopicRow(topic.name, kind, topic.partitions, records, topic.compacted, retention_s, types)


async def _of_reruns(log: EventLog, there: Collection[str]) -> dict[str, str]:
    services = {service.name for service in log.choreography.services}
    names = {topic.removesuffix(".control") for topic in there if topic.endswith(".control")} - services
    notes = {name: await metadata_of(log, name) for name in names}
    runs = {f"{name}.": f"of {name}, a rerun of {note.service}" for name, note in notes.items() if note is not None}
    return {topic: of for prefix, of in runs.items() for topic in sorted(there) if topic.startswith(prefix)}


def _kinds(log: EventLog) -> dict[str, str]:
    found = {topic.name: "events" for topic in log.choreography.topics}
    found |= {t.latest_topic.name: f"newest of each key in {t.name}" for t in log.choreography.topics if t.latest}
    for service in log.choreography.services:
        found[service.changelog.name] = "states, newest of each key"
        found[service.journal.name] = "what was handled in which order"
        found[service.parked.name] = "what could not be handled"
        found[service.control.name] = "requests to its tasks"
    found[SCHEMAS.name] = "the schemas of events and states"
    found[OPERATIONS.name] = "notes of operators and deployments"
    found[ERASURES.name] = "the erasures of subjects"
    return found
