"""Which tasks take a record as an input, and which one has said it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from eventlib.choreography import Choreography
from eventlib.event import contract_of
from eventlib.topic import Topic

HEARD, SAID, JOURNAL = 1, 2, 4
"""A record's roles for a task, as bits."""

_Routed = tuple[list[int], list[str], list[int], list[int]]


@dataclass(frozen=True)
class Routes:
    """The services that handle each type, foreign ones by topic; each source's service, and the topic its tasks go by."""

    handling: Mapping[str, Sequence[str]]
    foreign: Mapping[str, str]
    sources: Mapping[str, tuple[str, Topic]]
    topics: Sequence[str]
    journals: Sequence[str]

    @classmethod
    def of(cls, choreography: Choreography) -> "Routes":
        """Return a choreography's routes, for services whose past is kept: those that read no compacted topic."""
        handling, sources = dict[str, list[str]](), dict[str, tuple[str, Topic]]()
        services = [each for each in choreography.services if not any(topic.compacted for topic in each.inputs)]
        contracts = [contract_of(event) for event in choreography.events]
        for service in services:
            for event in service.handles:
                handling.setdefault(contract_of(event).type, []).append(service.name)
            for decider in service.deciders:
                sources[f"{service.speaks_as}/{decider.name}"] = service.name, service.inputs[0]
        return cls(
            handling,
            {each.topic.name: each.type for each in contracts if each.foreign is not None},
            sources,
            list(dict.fromkeys(each.topic.name for each in contracts)),
            [service.journal.name for service in services],
        )

    def of_batch(self, batch: pa.RecordBatch) -> _Routed:
        """Return for each row of each task its place in the batch, the service, the task and the roles."""
        at, services, tasks, roles = list[int](), list[str](), list[int](), list[int]()
        columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "type", "source", "subject"))
        for i, (topic, partition, kind, source, subject) in enumerate(zip(*columns, strict=True)):
            saying = self.sources.get(source)
            home = -1 if saying is None else saying[1].partition_of((subject or "").encode())
            both = False
            for service in self.handling.get(self.foreign.get(topic, kind), ()):
                own = saying is not None and saying[0] == service and home == partition
                both = both or own
                at.append(i)
                services.append(service)
                tasks.append(partition)
                roles.append(HEARD | SAID if own else HEARD)
            if saying is not None and not both:
                at.append(i)
                services.append(saying[0])
                tasks.append(home)
                roles.append(SAID)
        return at, services, tasks, roles
