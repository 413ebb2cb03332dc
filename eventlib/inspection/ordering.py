"""The order in which records of several partitions came about, as far as they tell."""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby, pairwise

from eventlib.log.port import Record, TopicPartition

_Place = tuple[int, str, int, int]


def in_order(records: Sequence[Record]) -> list[Record]:
    """Sort by time, and within a millisecond as `causes_first` does; no partition's own order is changed.

    Times that fall within a partition count as the latest before them.
    """
    places = _places(records)
    order = sorted(range(len(records)), key=places.__getitem__)
    found = list[Record]()
    for _, of_one in groupby(order, key=lambda i: places[i][0]):
        moment = [records[i] for i in of_one]
        found += [moment[i] for i in causes_first(moment)]
    return found


def causes_first(moment: Sequence[Record]) -> list[int]:
    """Return in which order records of one millisecond came about, as indexes; as they are given where nothing tells.

    Causes come before what they led to, what a decider has said of one key in its sequence, a partition's by offset.
    All are left as they are given when that goes round in a circle, as ids that others gave may do.
    """
    if len(moment) == 1:
        return [0]
    waits_for = [0] * len(moment)
    leads_to: dict[int, list[int]] = {}
    for before, after in _edges(moment):
        waits_for[after] += 1
        leads_to.setdefault(before, []).append(after)
    free = [i for i, waits in enumerate(waits_for) if not waits]
    heapify(free)
    order = list[int]()
    while free:
        i = heappop(free)
        order.append(i)
        for after in leads_to.get(i, ()):
            waits_for[after] -= 1
            if not waits_for[after]:
                heappush(free, after)
    return order if len(order) == len(moment) else [*range(len(moment))]


def _places(records: Sequence[Record]) -> list[_Place]:
    newest: dict[TopicPartition, int] = {}
    found = list[_Place]()
    for topic, partition, offset, at_ms, *_ in records:
        at = newest[topic, partition] = max(at_ms, newest.get((topic, partition), 0))
        found.append((at, topic, partition, offset))
    return found


def _edges(moment: Sequence[Record]) -> Iterator[tuple[int, int]]:
    """Yield which comes before which, as indexes."""
    known, in_place, said = dict[str, int](), dict[TopicPartition, list[int]](), dict[tuple[str, str], list[int]]()
    for i, record in enumerate(moment):
        if record.id is not None:
            known.setdefault(record.id, i)
        in_place.setdefault(record[:2], []).append(i)
        if record.sequence is not None:
            said.setdefault((record.source or "", record.subject or ""), []).append(i)
    for i, record in enumerate(moment):
        cause = known.get(record.causation_id or "")
        if cause is not None:
            yield cause, i
    for found in in_place.values():
        yield from pairwise(sorted(found, key=lambda i: moment[i].offset))
    for found in said.values():
        yield from pairwise(sorted(found, key=lambda i: moment[i].sequence or 0))
