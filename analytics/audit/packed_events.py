"""The events of a key, packed for another worker of this job: as plain values, where they can be.

To make an event of its values takes a fifth of the time of decoding it.
"""

import marshal
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, final

from eventlib.model.event import Event, contract_of
from eventlib.model.personal import personal_fields
from eventlib.model.record import Record

Order = tuple[int, int, str, int, int]
"""What a key's records are sorted by: time, depth, topic, partition, offset."""


@final
class KeyRow:
    """A record for a key: its depth, the id of what it comes after, whether its saga is in flight, and its event.

    `depth` is how many causes it has in its millisecond, `after` the nearest of them about the same key; a key's rows are
    sorted by `order`. An event that is not there is made of its `values`, or else decoded.
    """

    __slots__ = ("after", "depth", "event", "in_flight", "order", "record", "values")

    def __init__(
        self,
        record: Record,
        depth: int,
        after: str,
        in_flight: bool,
        event: Event | None = None,
        values: dict[str, Any] | None = None,
    ) -> None:
        self.record = record
        self.depth = depth
        self.after = after
        self.in_flight = in_flight
        self.event = event
        self.values = values
        self.order: Order = (record.timestamp_ms, depth, record.topic, record.partition, record.offset)


def packed(rows: Sequence[KeyRow]) -> bytes:
    """Return rows for another worker of this job, without their events: it makes or decodes them, if it needs them."""
    try:
        return marshal.dumps([(_needed(row), row.depth, row.after, row.in_flight, row.values) for row in rows])
    except ValueError:  # an event has other values than the first one of its type
        return marshal.dumps([(row.record.astuple(), row.depth, row.after, row.in_flight, None) for row in rows])


def _needed(row: KeyRow) -> tuple[Any, ...]:
    """Return what is needed of a record; what its event's values and Meta are made of only where they have to be made."""
    it = row.record
    if row.values is None:
        return it.astuple()
    return (
        it.topic,
        it.partition,
        it.offset,
        it.timestamp_ms,
        None,
        None,
        it.id,
        it.type,
        it.source,
        it.subject,
        it.sequence,
    )


def unpacked(events: bytes) -> list[KeyRow]:
    """Return rows that another worker of this job has packed."""
    rows = marshal.loads(events)  # noqa: S302  of this job, as its docstring says
    return [
        KeyRow(Record(*record), depth, after, in_flight, None, values)
        for record, depth, after, in_flight, values in rows
    ]


def values_of(event: Event) -> dict[str, Any] | None:
    """Return the fields of an event, if all that it has is in them, and they are values that `marshal` carries."""
    return event.__dict__ if _is_plain(event.__class__) and _can_be_carried(event) else None


def made_of(event_type: type[Event], values: Mapping[str, Any]) -> Event:
    """Return an event with the fields of one that was valid."""
    event = event_type.__new__(event_type)
    _set(event, "__dict__", values)
    _set(event, "__pydantic_fields_set__", {*values})
    _set(event, "__pydantic_extra__", None)
    _set(event, "__pydantic_private__", None)
    return event


_set = object.__setattr__


@lru_cache(1_024)
def _is_plain(event_type: type[Event]) -> bool:
    """Tell whether a record names a class, and it has nothing beside its fields.

    None of them may be personal: these are encrypted wherever they are kept.
    """
    is_external = contract_of(event_type).external is not None
    return not is_external and not event_type.__private_attributes__ and not personal_fields(event_type)


_carried: dict[type[Event], bool] = {}


def _can_be_carried(event: Event) -> bool:
    """Tell it by the first event of a class; for another one, `marshal` itself will."""
    known = _carried.get(event.__class__)
    if known is None:
        try:
            known = bool(marshal.dumps(event.__dict__))
        except ValueError:
            known = False
        _carried[event.__class__] = known
    return known
