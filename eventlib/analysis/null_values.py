"""External events that do not declare what a record without a value means. Exact, by the topic's declaration.

Such records are what deletes are in a compacted topic: Debezium writes one after each, and compaction keeps it.
"""

from collections.abc import Iterable

from eventlib.analysis.event_graph import EventGraph
from eventlib.model.event import EventType, contract_of
from eventlib.model.finding import Finding


def findings(flow: EventGraph) -> Iterable[Finding]:
    """Return the external events on compacted topics that leave the meaning of a null value open."""
    for event in flow.choreography.events:
        contract = contract_of(event)
        if contract.external is not None and contract.topic.compacted and contract.null is None:
            yield _finding(event, contract.topic.name)


def _finding(event: EventType, topic: str) -> Finding:
    return Finding(
        "warning",
        "null-without-meaning",
        event.__name__,
        event.__name__,
        f"{event.__name__} does not declare what a record without a value means, and {topic} is compacted",
        "others write such a record when they delete a key; it is passed over, so that the key lives on here",
        'declare null={"deleted": True} (the fields of the event that it is), or null="skip" on the class',
    )
