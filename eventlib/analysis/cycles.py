"""Rings of events that can follow from one another without end. Exact, but for one thing: a state may bound them.

A ring that only a deadline closes is left out: it waits in between, and types do not show in which state it does.
"""

from collections.abc import Iterable
from itertools import pairwise

from eventlib.analysis.event_graph import EventGraph
from eventlib.model.event import EventType
from eventlib.model.finding import Finding


def findings(flow: EventGraph) -> Iterable[Finding]:
    """Return each ring once, by its shortest way round."""
    seen = set[EventType]()
    for event in flow.choreography.events:
        ring = _ring(flow, event)
        if ring and not seen & {*ring}:
            yield _finding(flow, ring)
        seen.update(ring)


def _ring(flow: EventGraph, event: EventType) -> list[EventType]:
    """Return the shortest way from an event to itself, the event at both ends; nothing when there is none."""
    emitted = {each: reaction for reaction in flow.to(event) for each in reaction.emits}
    walk = flow.walk(*emitted)
    return [event, *walk.path(event)] if event in walk else []


def _finding(flow: EventGraph, ring: list[EventType]) -> Finding:
    names = [event.__name__ for event in ring]
    wheres = [r.where for cause, emitted in pairwise(ring) for r in flow.to(cause) if emitted in r.emits]
    return Finding(
        "warning",
        "ring",
        min(names),
        ", ".join(dict.fromkeys(wheres)),
        f"{' → '.join(names)}: each follows from the one before",
        "unless a state stops it, this goes on for ever, and at once",
        "break the ring, wait with a deadline, or accept it with the reason why it ends",
    )
