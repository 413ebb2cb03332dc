"""The order in which records of several partitions are told."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from eventlib.log.port import Record, TopicPartition

_Place = tuple[int, str, int, int]


def in_order(records: Sequence[Record]) -> list[Record]:
    """Sort by time, and within a millisecond causes before what they led to; no partition's own order is changed.

    Times that fall within a partition count as the latest before them.
    """
    places = _places(records)
    order = sorted(range(len(records)), key=places.__getitem__)
    causes = _causes(records, places)
    if causes:
        order = _causes_first(places, causes) or order
    return [records[i] for i in order]


def _places(records: Sequence[Record]) -> list[_Place]:
    newest: dict[TopicPartition, int] = {}
    found = list[_Place]()
    for topic, partition, offset, at_ms, *_ in records:
        at = newest[topic, partition] = max(at_ms, newest.get((topic, partition), 0))
        found.append((at, topic, partition, offset))
    return found


def _causes(records: Sequence[Record], places: Sequence[_Place]) -> list[tuple[int, int]]:
    """Return (cause, effect) for those of one millisecond."""
    known = {record.id: i for i, record in enumerate(records) if record.id is not None}
    found = ((known.get(record.causation_id or ""), i) for i, record in enumerate(records))
    return [(cause, i) for cause, i in found if cause is not None and places[cause][0] == places[i][0]]


def _causes_first(places: Sequence[_Place], causes: Sequence[tuple[int, int]]) -> list[int]:
    """Sort by place, but nothing before its cause; an empty list when ids that others gave go round in a circle."""
    edges = list(causes)
    last: dict[tuple[str, int], int] = {}
    for i, (_, topic, partition, _) in enumerate(places):
        if (topic, partition) in last:
            edges.append((last[topic, partition], i))
        last[topic, partition] = i
    waits_for = [0] * len(places)
    leads_to: dict[int, list[int]] = {}
    for before, after in edges:
        waits_for[after] += 1
        leads_to.setdefault(before, []).append(after)
    free = [(place, i) for i, place in enumerate(places) if not waits_for[i]]
    heapify(free)
    order = list[int]()
    while free:
        _, i = heappop(free)
        order.append(i)
        for after in leads_to.get(i, ()):
            waits_for[after] -= 1
            if not waits_for[after]:
                heappush(free, (places[after], after))
    return order if len(order) == len(places) else []
