"""Orders records of several partitions by time and cause."""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby, pairwise

from eventlib.ground.arguments import check
from eventlib.log.base import TopicPartition
from eventlib.model.record import Record

_Place = tuple[int, str, int, int]


def in_order(records: Sequence[Record]) -> list[Record]:
    """Sort by time, and within a millisecond as `causes_first` does; no partition's own order is changed.

    Times that fall within a partition count as the latest before them.
    """
    if records:
        given: Sequence[object] = records  # compiled, the first would have to be a record already
        check(given[0], Record, "records[0]", "give records of the log")
    places = _places(records)
    order = sorted(range(len(records)), key=places.__getitem__)
    found = list[Record]()
    for _, of_one in groupby(order, key=lambda i: places[i][0]):
        moment = [records[i] for i in of_one]
        found += [moment[i] for i in causes_first(moment)]
    return found


def causes_first(moment: Sequence[Record], causes: Sequence[str | None] | None = None) -> list[int]:
    """Return in which order records of one millisecond came about, as indexes; as they are given where nothing decides.

    Causes come before what they led to, what a decider has emitted of one key in its sequence, a partition's by offset.
    All are left as they are given when that goes round in a circle, as ids that others gave may do. `causes` are the ids
    of the records' causes, where other ones count than those that they name.
    """
    causes = [record.causation_id for record in moment] if causes is None else causes
    if _are_causes_first(moment, causes):
        return [*range(len(moment))]
    waits_for = [0] * len(moment)
    leads_to: dict[int, list[int]] = {}
    for before, after in _edges(moment, causes):
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


def _are_causes_first(moment: Sequence[Record], causes: Sequence[str | None]) -> bool:
    """Tell whether nothing has to change places: nearly always, and found without collecting what comes before what."""
    known = {record.id: i for i, record in reversed([*enumerate(moment)])}
    offsets, sequences = dict[TopicPartition, int](), dict[tuple[str, str], int]()
    for i, (record, cause) in enumerate(zip(moment, causes, strict=True)):
        if cause and known.get(cause, i) > i:
            return False
        place = record.topic, record.partition
        if offsets.get(place, -1) > record.offset:
            return False
        offsets[place] = record.offset
        if record.sequence is not None:
            emitter = record.source or "", record.subject or ""
            if sequences.get(emitter, record.sequence) > record.sequence:
                return False
            sequences[emitter] = record.sequence
    return True


def _places(records: Sequence[Record]) -> list[_Place]:
    newest: dict[TopicPartition, int] = {}
    found = list[_Place]()
    for record in records:
        place = record.topic_partition
        at = newest[place] = max(record.timestamp_ms, newest.get(place, 0))
        found.append((at, *record.location))
    return found


def _edges(moment: Sequence[Record], causes: Sequence[str | None]) -> Iterator[tuple[int, int]]:
    """Yield which comes before which, as indexes."""
    known, in_place, emitted = dict[str, int](), dict[TopicPartition, list[int]](), dict[tuple[str, str], list[int]]()
    for i, record in enumerate(moment):
        if record.id is not None:
            known.setdefault(record.id, i)
        in_place.setdefault(record.topic_partition, []).append(i)
        if record.sequence is not None:
            emitted.setdefault((record.source or "", record.subject or ""), []).append(i)
    for i, named in enumerate(causes):
        cause = known.get(named or "")
        if cause is not None:
            yield cause, i
    for found in in_place.values():
        yield from pairwise(sorted(found, key=lambda i: moment[i].offset))
    for found in emitted.values():
        yield from pairwise(sorted(found, key=lambda i: moment[i].sequence or 0))
