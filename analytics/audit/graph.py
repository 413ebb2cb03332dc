"""What the code can emit, by the types and sources on the log."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as f

from eventlib.analysis.event_graph import EventGraph
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of


@dataclass(frozen=True)
class Graph:
    """What the code can emit: `steps` has (source, cause's type, type), the other sets have types, topics and sources."""

    steps: frozenset[tuple[str, str, str]]
    late: frozenset[tuple[str, str]]
    entries: frozenset[str]
    requests: frozenset[str]
    effects: frozenset[tuple[str, str]]
    forgetting: frozenset[str]
    sources: frozenset[str]
    topics: Mapping[str, str]

    @classmethod
    def of(cls, choreography: Choreography) -> "Graph":
        """Derive a choreography's graph from its types."""
        flow = EventGraph(choreography)
        services = {service.name: service.emits_as for service in choreography.services}
        reactions = [(f"{services[r.service]}/{r.decider.name}", r) for r in flow.reactions]
        contracts = {event: contract_of(event) for event in choreography.events}
        return cls(
            frozenset(
                (s, contracts[r.cause].type, contracts[e].type) for s, r in reactions if r.cause for e in r.emits
            ),
            frozenset((s, contracts[e].type) for s, r in reactions if r.cause is None for e in r.emits),
            frozenset(contracts[event].type for event in flow.entries),
            frozenset(each.type for each in contracts.values() if each.request),
            frozenset((s, contracts[r.cause].type) for s, r in reactions if r.kind == "effect" and r.cause),
            frozenset(s for s, r in reactions if r.decider.forgotten_at is not None),
            frozenset(s for s, _ in reactions),
            {each.type: each.topic.name for each in contracts.values()},
        )

    def is_emitted(self) -> Column:
        """Return whether an event is one that a service has emitted."""
        return f.coalesce(f.col("source").isin(*self.sources), f.lit(False))
